"""A seeded stream of commands of every kind for a matcher, valid and invalid ones."""

import contextlib
import random  # noqa: TID251 - seeded
from collections.abc import Iterator
from typing import Any

import msgspec

import clob
from clob import Market, Matcher, Order, RejectedError, SelfTrade, Side, TimeInForce

PAID = {"funds": clob.Funds.ACCOUNTS, "incoming_fee_rate_bps": 700, "resting_fee_rate_bps": 300}
MODELS = tuple(
    Market(id=name, yes=f"{name}-yes", no=f"{name}-no" if name != "half" else "", **fields)
    for name, fields in {
        "bare": {"lot_wei": 5, "min_size": 10, "self_trade": SelfTrade.CANCEL_RESTING},
        "paid": PAID,
        "chain": {**PAID, "settles": True, "self_trade": SelfTrade.CANCEL_BOTH},
        "pair": {**PAID, "complementary": True, "lot_wei": 100},
        "pair-chain": {**PAID, "complementary": True, "lot_wei": 300, "settles": True},
        "half": {"resting_fee_rate_bps": 100},
    }.items()
)
MAKERS = ("", *(f"maker{n}" for n in range(24)))
LIMITS = tuple(
    clob.Limits(**each)
    for each in ({}, {}, {"finished_max": 300}, {"trades_max": 2, "orders_max": 3, "batch_max": 8})
)
WRONG = (
    {"price": 0}, {"price": 100}, {"price": True}, {"size": 0}, {"size": 2**96}, {"side": 2},
    {"token": "other"}, {"id": -1}, {"maker": None}, {"nonce": -1}, {"fee_rate_bps": 1_001},
    {"expiration_s": 1}, {"time_in_force": 9}, {"collateral": 0}, {"post_only": 1},
)  # fmt: skip
WEIGHTS = {
    "submit": 620, "cancel": 110, "replace": 80, "reduce": 50, "batch": 40, "settled": 20,
    "set_balance": 90, "settle_failed": 4, "expire": 6, "cancel_all": 3, "cancel_some": 3,
    "set_nonce": 3, "set_market": 3, "set_mode": 8, "set_limits": 2, "add_market": 1,
    "reset_clock": 1, "remove_market": 1,
}  # fmt: skip


class Commands:
    """A seeded stream of commands of every kind; it reads the matcher but never changes it."""

    def __init__(self, matcher: Matcher, seed: int) -> None:
        self.rng, self.matcher, self.now_ms = random.Random(seed), matcher, 1_700_000_000_000
        self.ids: list[str | int] = []
        self.count, self.markets, self.wealth = 0, list(MODELS), 10**7

    def opening(self) -> Iterator[clob.Command]:
        """Yield the commands that open the markets and fund the makers."""
        yield from (clob.AddMarket(market=market) for market in MODELS)
        for maker in MAKERS:
            for asset in self.assets():
                yield clob.SetBalance(wallet=maker, asset=asset, amount=self.wealth)

    def draw(self) -> clob.Command:
        """Draw a command."""
        if not self.count % 50:
            self.markets = self.matcher.markets[-12:]
        self.count += 1
        self.now_ms += self.rng.choice((0, 0, 0, 1, 300, 300, 3_000))
        [kind] = self.rng.choices(list(WEIGHTS), WEIGHTS.values())
        command = getattr(self, kind)()
        return msgspec.structs.replace(command, now_ms=self.now_ms)

    def odd(self) -> bool:
        """Return true one time in twenty."""
        return self.rng.random() < 0.05

    def assets(self) -> list[str]:
        """Return all assets of the first markets."""
        return ["collateral", *(token for m in MODELS for token in (m.yes, m.no) if token)]

    def order(self, market: Market) -> Order:
        """Draw an order for a market."""
        rng, maker, side = self.rng, self.rng.choice(MAKERS), Side(self.rng.getrandbits(1))
        tif = rng.choices(list(TimeInForce), (66, 12, 15, 7))[0]
        rests = tif in (TimeInForce.GTC, TimeInForce.GTD)
        away = rng.choice((-2, -1, -1, 1, 1, 2, 3, 6)) * (1 if side is Side.SELL else -1)
        new_id = self.count if rng.random() < 0.5 else f"o{self.count}"
        self.ids = [*self.ids[-3_000:], new_id] if len(self.ids) > 6_000 else self.ids
        self.ids.append(new_id)
        expires = tif is TimeInForce.GTD or self.odd()
        order = Order(
            id=rng.choice(self.ids) if self.odd() else new_id,
            token=market.no if market.no and rng.random() < 0.4 else market.yes,
            maker=maker,
            side=side,
            price=1 if self.odd() else 50 + away,
            size=market.lot_wei * rng.randint(1 + 2 * (market.min_size > 1), 300),
            time_in_force=tif,
            expiration_s=self.now_ms // 1_000 + rng.randint(0, 60) if expires else 0,
            post_only=rests and self.odd(),
            self_trade=rng.choice((None, None, None, *SelfTrade)),
            nonce=self.matcher.nonce(maker) + rng.choice((0, 0, 1)),
            fee_rate_bps=rng.choice((0, 250, 1_000)) if rng.random() < 0.2 else None,
            smart_wallet=rng.choice(MAKERS) if self.odd() else "",
        )
        return msgspec.structs.replace(order, **rng.choice(WRONG)) if self.odd() else order

    def known(self) -> dict[str, Any]:
        """Draw an order that may rest, and the maker who names it."""
        order_id: str | int = 0
        for _ in range(1 if self.odd() else 12):
            order_id = self.rng.choice(self.ids[-300:] or [0])
            with contextlib.suppress(RejectedError):
                record = self.matcher.order(order_id)
                if record.remaining:
                    break
        else:
            return {"order_id": order_id, "maker": None}
        maker = self.rng.choice(MAKERS if self.odd() else (record.order.maker, None))
        market_id = self.rng.choice(("", record.market))
        return {"order_id": order_id, "market": market_id, "maker": maker}

    def size_of(self, order_id: str | int) -> tuple[int, int]:
        """Return the lot and the remaining lots of an order."""
        try:
            record = self.matcher.order(order_id)
        except RejectedError:
            return 1, 10
        lot = self.matcher.market(record.market).lot_wei
        return lot, record.remaining // lot

    def submit(self) -> clob.Submit:
        """Draw a submission, mostly to an open market."""
        opened = [each for each in self.markets if each.mode is clob.Mode.OPEN]
        market = self.rng.choice(self.markets if self.odd() or not opened else opened)
        number = self.rng.randint(1, 40)
        return clob.Submit(
            market=market.id,
            order=self.order(market),
            order_hash=(number if self.odd() else self.count).to_bytes(32),
            client_id=f"c{number if self.odd() else self.count}" if self.count % 3 else None,
            deadline_ms=self.now_ms - number % 2 if self.odd() else None,
        )

    def cancel(self) -> clob.Cancel:
        """Draw a cancel."""
        return clob.Cancel(**self.known())

    def cancel_all(self) -> clob.CancelAll:
        """Draw a cancel of a maker's orders, of a market's, or of both."""
        market = self.rng.choice((None, self.rng.choice(self.markets).id))
        return clob.CancelAll(maker=self.rng.choice(MAKERS), market=market)

    def cancel_some(self) -> clob.CancelSome:
        """Draw a cancel of a maker's orders that pass some filters."""
        market = self.rng.choice(self.markets)
        return clob.CancelSome(
            maker=self.rng.choice(MAKERS),
            market=self.rng.choice((None, market.id)),
            token=self.rng.choice((None, market.yes)),
            side=self.rng.choice((None, *clob.Side)),
            accepted_until_ms=self.rng.choice((None, self.now_ms, self.now_ms // 2)),
        )

    def reduce(self) -> clob.Reduce:
        """Draw a reduction."""
        named = self.known()
        lot, lots = self.size_of(named["order_id"])
        return clob.Reduce(size=lot * self.rng.randint(1, max(1, lots)), **named)

    def replace(self) -> clob.Replace:
        """Draw a replacement."""
        named = self.known()
        lot, lots = self.size_of(named["order_id"])
        size = lot * self.rng.randint(1, lots + 30)
        policy = self.rng.choice((None, *SelfTrade))
        price = self.rng.randint(46, 54)
        post_only = self.odd()
        return clob.Replace(price=price, size=size, post_only=post_only, self_trade=policy, **named)

    def batch(self) -> clob.Batch:
        """Draw a batch, at times one that is too long."""
        kinds = ("submit", "submit", "submit", "cancel", "reduce", "replace", "cancel_all")
        drawn = []
        for _ in range(22 if self.odd() else self.rng.randint(0, 4)):
            self.count += 1
            drawn.append(getattr(self, self.rng.choice(kinds))())
        return clob.Batch(commands=tuple(drawn), atomic=self.rng.random() < 0.5)

    def expire(self) -> clob.Expire:
        """Draw a sweep of expired orders."""
        return clob.Expire()

    def set_nonce(self) -> clob.SetNonce:
        """Draw a nonce, mostly a higher one."""
        maker = self.rng.choice(MAKERS)
        return clob.SetNonce(maker=maker, nonce=self.matcher.nonce(maker) + (not self.odd()))

    def add_market(self) -> clob.AddMarket:
        """Draw a market like one of the first, at times one that exists."""
        model = self.rng.choice(MODELS)
        name = model.id if self.odd() else f"{model.id}-{self.count}"
        tokens = {"yes": f"{name}-yes", "no": f"{name}-no"}
        return clob.AddMarket(market=msgspec.structs.replace(model, id=name, **tokens))

    def set_market(self) -> clob.SetMarket:
        """Draw other terms for a market, at times one that cannot change."""
        rng, before = self.rng, self.rng.choice(self.markets)
        terms = {
            "min_size": before.lot_wei * rng.choice((1, 2)),
            "self_trade": rng.choice(list(SelfTrade)),
            "incoming_fee_rate_bps": rng.choice((0, 1, 300, 1_000)),
            "no": before.no or f"{before.id}-no",
        } | ({"lot_wei": before.lot_wei + 1} if self.odd() else {})
        return clob.SetMarket(market=msgspec.structs.replace(before, **terms))

    def set_mode(self) -> clob.SetMode:
        """Draw a mode, mostly the open one."""
        [mode] = self.rng.choices(list(clob.Mode), (60, 6, 6, 1))
        return clob.SetMode(market=self.rng.choice(self.markets).id, mode=mode)

    def remove_market(self) -> clob.RemoveMarket:
        """Draw the removal of a market, mostly of a resolved one."""
        resolved = [each for each in self.markets if each.mode is clob.Mode.RESOLVED]
        return clob.RemoveMarket(market=self.rng.choice(resolved or self.markets).id)

    def set_limits(self) -> clob.SetLimits:
        """Draw limits."""
        return clob.SetLimits(limits=self.rng.choice(LIMITS))

    def set_balance(self) -> clob.SetBalance:
        """Draw a balance."""
        amount = self.rng.choice((0, *[self.wealth] * 8, 2 * self.wealth))
        tokens = [t for m in self.markets for t in (m.yes, m.no, m.collateral) if t]
        wallet = self.rng.choice(MAKERS)
        return clob.SetBalance(wallet=wallet, asset=self.rng.choice(tokens), amount=amount)

    def waiting(self) -> tuple[str, list[int]]:
        """Draw a market whose trades settle later, and the trades that wait."""
        markets = [m for m in self.markets if m.settles] or self.markets
        market = self.rng.choice(markets).id
        return market, self.matcher.unsettled(market)[:20]

    def settled(self) -> clob.Settled:
        """Draw a settlement of trades; both halves of a mint or merge come together."""
        market, seqs = self.waiting()
        return clob.Settled(market=market, trades=tuple(seqs[: 1 if self.odd() else 20]))

    def reset_clock(self) -> clob.ResetClock:
        """Draw a reset of the clock by up to a minute, with the hash of an earlier order."""
        self.now_ms -= self.rng.randint(0, 60_000)
        order_hash = self.rng.randint(1, self.count).to_bytes(32)
        spent = clob.SpentHash(order_hash, self.rng.choice(MAKERS), 0, self.now_ms // 1_000 + 30)
        return clob.ResetClock(spent=(spent,))

    def settle_failed(self) -> clob.SettleFailed:
        """Draw a failed settlement."""
        market, seqs = self.waiting()
        wallet = self.rng.choice((None, *MAKERS))
        return clob.SettleFailed(market=market, trade=(seqs or [0])[0], wallet=wallet)
