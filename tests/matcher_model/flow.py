"""Random commands of every kind for a matcher, valid and rejected ones, from one source.

The source is a ``random.Random``, which may differ per command: seeded streams of a million
commands and Hypothesis use the same methods.
"""

import msgspec

from clob import (
    AddMarket,
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Expire,
    Mode,
    Order,
    Reduce,
    RejectedError,
    RemoveMarket,
    Reopen,
    ReopenedTrade,
    Replace,
    SelfTrade,
    SetBalance,
    SetLimits,
    SetMarket,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Side,
    Submit,
    TimeInForce,
)
from clob.status import OrderStatus
from tests.matcher_model.spoil import spoiled

START_MS = 1_700_000_000_000
TIMES_IN_FORCE = {
    TimeInForce.GTC: 66,
    TimeInForce.GTD: 12,
    TimeInForce.IOC: 15,
    TimeInForce.FOK: 7,
}
MODES = {Mode.OPEN: 24, Mode.CANCEL_ONLY: 4, Mode.HALTED: 4, Mode.RESOLVED: 1}
POLICIES = (None, None, None, *SelfTrade)
OPEN_STATUS = (OrderStatus.OPEN, OrderStatus.PARTIAL)
EVERYTHING = {
    "submit": 600,
    "cancel": 100,
    "replace": 90,
    "reduce": 60,
    "batch": 50,
    "settled": 20,
    "set_balance": 15,
    "settle_failed": 5,
    "reopen": 5,
    "expire": 5,
    "cancel_all": 3,
    "cancel_some": 3,
    "set_nonce": 3,
    "set_market": 3,
    "name_no": 3,
    "set_mode": 3,
    "set_limits": 3,
    "add_market": 1,
    "remove_market": 2,
}
"""Weight of each kind of command, by the method that draws it."""


class Flow:
    """An endless stream of commands for one matcher, which it reads and does not change."""

    def __init__(self, rng, world, matcher):
        self.rng, self.world, self.matcher = rng, world, matcher
        self.now_ms, self.count = START_MS, 0
        self.ids, self.sent, self.ended = [], [], []

    def opening(self):
        """Return the commands that set limits, add the markets and fund the wallets."""
        yield self.set_limits()
        yield from (AddMarket(market=each, now_ms=self.now_ms) for each in self.world.markets)
        for wallet in sorted({*self.world.makers, *self.world.smart_wallets}):
            for asset in self.assets():
                yield SetBalance(
                    wallet=wallet, asset=asset, amount=self.world.wealth, now_ms=self.now_ms
                )

    def command(self, weights=None):
        """Draw a command of any kind, sometimes an invalid one."""
        return self.draw(self.weighted(weights or EVERYTHING))

    def draw(self, kind):
        """Draw a command of one kind."""
        self.tick()
        command = getattr(self, kind)()
        return spoiled(self.rng, command) if self.chance(self.world.broken) else command

    # ----- pieces --------------------------------------------------------------------------

    def chance(self, share):
        """Return True with this probability."""
        return self.rng.random() < share

    def weighted(self, weights):
        """Draw a key of a dict, weighted by its value."""
        draw = self.rng.randrange(sum(weights.values()))
        for key, weight in weights.items():
            draw -= weight
            if draw < 0:
                return key
        raise AssertionError("the weights are positive")

    def odd(self):
        """Return whether to draw something unusual."""
        return self.chance(self.world.odd)

    def tick(self):
        """Advance the time."""
        self.now_ms += self.rng.choice((0, 0, 0, 1, 300)) if self.chance(0.97) else 3_000

    def market(self):
        """Draw a market, preferably an open one."""
        markets = self.matcher.markets or list(self.world.markets)
        chosen = self.rng.choice(markets)
        return chosen if chosen.mode is Mode.OPEN or self.odd() else self.rng.choice(markets)

    def maker(self):
        """Draw a maker."""
        return self.rng.choice(self.world.makers)

    def wallet(self):
        """Draw a wallet."""
        return self.rng.choice((*self.world.makers, *self.world.smart_wallets, "fees"))

    def assets(self):
        """Return the assets of the world's markets."""
        named = {a for m in self.world.markets for a in (m.yes, m.no, m.collateral)}
        return sorted(named - {""})

    def price(self, side):
        """Draw a price, mostly passive, rarely at the end of the grid."""
        if self.odd() and self.odd():
            return self.rng.choice((1, 99))
        away = self.rng.choice((1, 1, 1, 2, 2, 3, 4, 6))
        passive = self.chance(0.55) == (side is Side.SELL)
        return min(max(self.world.middle + (away if passive else -away), 1), 99)

    def size(self, market):
        """Draw a size that is mostly valid in a market."""
        lots = self.rng.randint(1, self.world.largest_lots) * (4 if self.odd() else 1)
        size = lots * market.lot_wei
        return size if size >= market.min_size or self.odd() else market.min_size

    def new_id(self):
        """Draw an order id, an int or a str, sometimes a used one."""
        if self.ids and self.odd():
            return self.rng.choice(self.ids)
        self.count += 1
        order_id = self.count if self.chance(0.5) else f"o{self.count}"
        self.ids.append(order_id)
        return order_id

    def known(self):
        """Draw the record of a resting order, or None if none is found quickly."""
        if self.world.small:
            records = self.matcher.open_orders()
            partial = [record for record in records if record.filled]
            if records and not self.odd():
                return self.rng.choice(partial if partial and self.chance(0.4) else records)
        for _ in range(6):
            if not self.ids:
                return None
            index = self.rng.randrange(len(self.ids))
            try:
                record = self.matcher.order(self.ids[index])
            except RejectedError:
                record = None
            if record is not None and (record.status in OPEN_STATUS or self.odd()):
                return record
            # One drawn this moment may be for a command that is still to come.
            if record is not None or self.chance(0.5):
                self.ids[index] = self.ids[-1]
                self.ids.pop()
        return None

    def about(self, record):
        """Draw the fields that identify an order: its id, perhaps its market and maker."""
        if record is None:
            maker = self.rng.choice((None, self.maker()))
            return {"order_id": self.rng.choice((0, "gone", *self.ids[-3:])), "maker": maker}
        maker = self.rng.choice((None, record.order.maker, record.order.maker))
        named = self.market().id if self.odd() else self.rng.choice(("", record.market))
        return {
            "order_id": record.order.id,
            "market": named,
            "maker": self.maker() if self.odd() else maker,
        }

    # ----- commands about orders -----------------------------------------------------------

    def order(self, market):
        """Draw an order for a market."""
        rng, side, maker = self.rng, self.rng.choice((Side.BUY, Side.SELL)), self.maker()
        tif = self.weighted(TIMES_IN_FORCE)
        rests = tif in (TimeInForce.GTC, TimeInForce.GTD)
        expires = tif is TimeInForce.GTD or self.odd()
        nonce = self.matcher.nonce(maker) + rng.choice((0, 0, 1)) - self.odd()
        price, size = self.price(side), self.size(market)
        return Order(
            id=self.new_id(),
            token=market.yes if self.chance(0.5 if market.complementary else 0.85) else market.no,
            maker=maker,
            side=side,
            price=price,
            size=size,
            time_in_force=tif,
            expiration_s=self.now_ms // 1_000 + rng.randint(0, 5) - self.odd() if expires else 0,
            post_only=rests and self.odd(),
            self_trade=rng.choice(POLICIES),
            nonce=max(nonce, 0),
            collateral=size * price // 100 + rng.randint(0, 2) if self.odd() else None,
            fee_rate_bps=rng.choice((0, 250, 1_000)) if self.chance(0.2) else None,
            smart_wallet=rng.choice(self.world.smart_wallets),
        )

    def submit(self):
        """Draw a submission, sometimes an earlier one under another id."""
        rng = self.rng
        if self.sent and self.odd():
            earlier = rng.choice(self.sent)
            order = msgspec.structs.replace(earlier.order, id=self.new_id())
            return msgspec.structs.replace(earlier, order=order, now_ms=self.now_ms)
        market = self.market()
        order = self.order(market)
        self.count += 1
        signed = self.chance(0.8 if order.expiration_s else 0.3)
        named = self.chance(0.3)
        command = Submit(
            market=market.id,
            order=order,
            now_ms=self.now_ms,
            order_hash=self.count.to_bytes(32, "big") if signed else None,
            client_id=f"c{rng.randrange(20) if self.odd() else self.count}" if named else None,
            deadline_ms=self.now_ms + rng.choice((-1, 0, 500)) if self.odd() else None,
        )
        if signed or named:
            self.sent.append(command)
            del self.sent[:-40]
        return command

    def cancel(self):
        """Draw a cancel."""
        return Cancel(now_ms=self.now_ms, **self.about(self.known()))

    def cancel_all(self):
        """Draw a ``CancelAll``."""
        maker = self.rng.choice((None, self.maker(), self.maker()))
        market_id = self.rng.choice((None, self.market().id))
        return CancelAll(maker=maker, market=market_id, now_ms=self.now_ms)

    def cancel_some(self):
        """Draw a ``CancelSome``: mostly of one maker and of recent orders."""
        rng, market = self.rng, self.market()
        return CancelSome(
            maker=rng.choice((None, self.maker(), self.maker())),
            market=rng.choice((None, market.id)),
            token=rng.choice((None, market.yes, market.no or "no token")),
            side=rng.choice((None, *Side)),
            accepted_until_ms=rng.choice((None, self.now_ms, max(0, self.now_ms - 50))),
            now_ms=self.now_ms,
        )

    def reduce(self):
        """Draw a reduction."""
        record = self.known()
        return Reduce(size=self.part(record), now_ms=self.now_ms, **self.about(record))

    def part(self, record):
        """Draw a new size for an order, mostly a smaller one."""
        if record is None:
            return self.rng.randint(1, self.world.largest_lots)
        lot = self.matcher.market(record.market).lot_wei
        most = record.remaining // lot
        return lot * self.rng.randint(1, max(1, most + (3 if self.odd() else -1)))

    def replace(self):
        """Draw a replacement: of the price, of the size, or of both."""
        record = self.known()
        side = record.order.side if record else Side.BUY
        stays = record is not None and self.chance(0.4)
        larger = record is not None and self.chance(0.5)
        lot = self.matcher.market(record.market).lot_wei if record else 1
        size = record.remaining + lot * self.rng.randint(0, 30) if larger else self.part(record)
        return Replace(
            price=record.price if stays else self.price(side),
            size=size,
            post_only=self.odd(),
            self_trade=self.rng.choice((*POLICIES, SelfTrade.DECREMENT)),
            now_ms=self.now_ms,
            **self.about(record),
        )

    def batch(self):
        """Draw a batch, sometimes one that is too large, empty or has invalid commands."""
        most = self.matcher.limits.batch_max + 1 if self.odd() else 4
        count = self.rng.randint(0 if self.odd() else 1, min(most, 22))
        weights = {"submit": 50, "cancel": 20, "replace": 12, "reduce": 8, "cancel_all": 1}
        if self.odd():
            weights["expire"] = 4
        drawn = tuple(getattr(self, self.weighted(weights))() for _ in range(count))
        return Batch(commands=drawn, atomic=self.chance(0.5), now_ms=self.now_ms)

    # ----- the others ----------------------------------------------------------------------

    def set_nonce(self):
        """Draw a nonce, mostly one above the maker's."""
        maker = self.maker()
        nonce = self.matcher.nonce(maker) + self.rng.choice((1, 1, 2)) - self.odd()
        return SetNonce(maker=maker, nonce=nonce, now_ms=self.now_ms)

    def expire(self):
        """Draw an ``Expire``, sometimes exactly at the next expiration or just after it."""
        due = self.matcher.next_expiry_s
        if due is not None and due < self.now_ms // 1_000 + 60 and self.chance(0.6):
            self.now_ms = max(self.now_ms, due * 1_000 + self.rng.choice((0, 999, 1_000)))
        return Expire(now_ms=self.now_ms)

    def add_market(self):
        """Draw a new market, sometimes one that conflicts with another."""
        model = self.rng.choice(self.world.markets)
        name = model.id if self.odd() else f"{model.id}{len(self.matcher.markets)}"
        no = f"{name}-no" if model.no else ""
        tokens = {} if self.odd() else {"yes": f"{name}-yes", "no": no}
        described = msgspec.structs.replace(model, id=name, **tokens)
        return AddMarket(market=described, now_ms=self.now_ms)

    def set_market(self):
        """Draw other terms for a market."""
        rng, before = self.rng, self.market()
        terms = {
            "min_size": rng.choice((1, 1, before.lot_wei * 2)),
            "self_trade": rng.choice(list(SelfTrade)),
            "resting_fee_rate_bps": rng.choice((0, 1, 300, 1_000)),
            "incoming_fee_rate_bps": rng.choice((0, 1, 300, 1_000)),
            "fee_wallet": self.wallet() or "fees",
        }
        fixed = {"lot_wei": before.lot_wei + 1} if self.odd() else {}
        changed = msgspec.structs.replace(before, **terms, **fixed)
        return SetMarket(market=changed, now_ms=self.now_ms)

    def name_no(self):
        """Draw the NO token of a market without one, sometimes an invalid one."""
        markets = self.matcher.markets or list(self.world.markets)
        before = self.rng.choice([m for m in markets if not m.no] or markets)
        no = self.rng.choice(self.assets()) if self.odd() else f"{before.id}-no"
        return SetMarket(market=msgspec.structs.replace(before, no=no), now_ms=self.now_ms)

    def set_mode(self):
        """Draw a mode, mostly the open one, for any market."""
        market_id = self.rng.choice(self.matcher.markets or list(self.world.markets)).id
        mode = self.weighted(MODES)
        return SetMode(market=market_id, mode=mode, now_ms=self.now_ms)

    def remove_market(self):
        """Draw the removal of a market, mostly of a resolved one."""
        markets = self.matcher.markets or list(self.world.markets)
        resolved = [market for market in markets if market.mode is Mode.RESOLVED]
        chosen = self.rng.choice(markets if self.odd() else resolved or markets)
        return RemoveMarket(market=chosen.id, now_ms=self.now_ms)

    def set_limits(self):
        """Draw limits."""
        return SetLimits(limits=self.rng.choice(self.world.limits), now_ms=self.now_ms)

    def set_balance(self):
        """Draw a balance, half the time one that an order uses."""
        wallet, asset, wealth = self.wallet(), self.rng.choice(self.assets()), self.world.wealth
        record = self.known() if self.chance(0.5) else None
        if record is not None:
            buys = record.order.side is Side.BUY
            wallet = record.order.smart_wallet if buys else record.order.maker
            asset = self.matcher.market(record.market).collateral if buys else record.order.token
        if self.world.small and self.chance(0.5):
            held = self.matcher.balances().items()
            waiting = [key for key, account in held if account.unsettled]
            wallet, asset = self.rng.choice(waiting or [(wallet, asset)])
        amount = self.rng.choice((0, wealth, self.rng.randint(0, wealth // 4), 2 * wealth))
        return SetBalance(wallet=wallet, asset=asset, amount=amount, now_ms=self.now_ms)

    def waiting(self):
        """Draw a market, preferably with pending trades, and some of their numbers."""
        markets = [m for m in self.matcher.markets if m.settles] or [self.market()]
        market_id = self.rng.choice(markets).id
        try:
            seqs = self.matcher.unsettled(market_id)
        except RejectedError:
            seqs = []
        odd = [self.rng.randint(0, 99)] if self.odd() else []
        if self.matcher.market(market_id).complementary and self.chance(0.7):
            return market_id, seqs + odd  # halves must come together
        return market_id, [s for s in seqs if self.chance(0.5)] + odd

    def settled(self):
        """Draw a settlement of some trades."""
        market_id, seqs = self.waiting()
        self.remember(market_id, seqs, settled=True)
        return Settled(market=market_id, trades=tuple(seqs), now_ms=self.now_ms)

    def settle_failed(self):
        """Draw the failure of a settlement."""
        market_id, seqs = self.waiting()
        self.remember(market_id, seqs[:1], settled=False)
        return SettleFailed(
            market=market_id,
            trade=seqs[0] if seqs else 0,
            wallet=self.rng.choice((None, self.wallet())),
            now_ms=self.now_ms,
        )

    def remember(self, market_id, seqs, *, settled):
        """Remember the terms of trades that may end, each with its other half."""
        pending = self.matcher._engine.markets[market_id].pending
        for seq in (seq for seq in seqs if seq in pending):
            pair = dict.fromkeys((seq, pending[seq].other_seq or seq))
            terms = tuple(terms_of(each, pending[each]) for each in pair)
            self.ended = [*self.ended[-99:], (market_id, terms, settled)]

    def reopen(self):
        """Draw a withdrawal of a result, sometimes of one that is not there."""
        if not self.ended:
            return Reopen(market=self.market().id, trades=(), settled=True, now_ms=self.now_ms)
        market_id, trades, settled = self.rng.choice(self.ended)
        trades = trades[: 1 if self.odd() else 2]
        return Reopen(market=market_id, trades=trades, settled=settled, now_ms=self.now_ms)


def terms_of(seq, pending):
    """Return the terms of a pending trade."""
    return ReopenedTrade(
        seq=seq,
        token=pending.seller_pays.asset,
        buyer_pays=pending.buyer_pays.wallet,
        buyer_receives=pending.buyer_receives.wallet,
        seller_pays=pending.seller_pays.wallet,
        seller_receives=pending.seller_receives.wallet,
        paid=pending.paid,
        size=pending.size,
        buyer_fee=pending.buyer_fee,
        seller_fee=pending.seller_fee,
        match_type=pending.match_type,
        other_seq=pending.other_seq,
    )
