"""The state a matcher must have by its commands and events, computed from outside.

Books follow from events, the status of every order from the table of transitions, accounts from
trades. Trades are not predicted; the naive matcher does that.
"""

from clob import Funds, Level, Limits, OrderAdded, OrderReduced, OrderRemoved, Side, Trade
from clob import commands as c
from clob.events import MatchType, PairedTrade, RemovalReason
from clob.market import Mode
from clob.status import TRANSITIONS, Trigger

STEPS = {(row.before, row.trigger): row.after for row in TRANSITIONS}


class Life:
    """One order: remaining and traded sizes, and status."""

    def __init__(self, market, order, number, now_ms):
        self.market, self.order, self.number, self.accepted_ms = market, order, number, now_ms
        self.price, self.size = order.price, order.size
        self.left, self.filled, self.paid = order.size, 0, 0
        self.resting = self.over = self.gone = False
        self.status = self.removal = None
        self.step(Trigger.ACCEPTED)

    def step(self, trigger):
        """Change the status; the table of transitions must allow it."""
        assert (self.status, trigger) in STEPS, f"{self.order.id!r}: {self.status} {trigger}"
        self.status = STEPS[self.status, trigger]

    def trade(self, size, price):
        """Apply a trade."""
        self.filled += size
        self.left -= size
        self.paid += size * price // 100
        whole = self.filled == self.size
        self.step(Trigger.TRADED_WHOLE if whole else Trigger.TRADED_IN_PART)

    def resize(self, left, price=None):
        """Set another remaining size, and perhaps another price."""
        self.size, self.left = self.filled + left, left
        self.price = self.price if price is None else price

    @property
    def pays(self):
        """Return the paying wallet, and the asset if the market is known."""
        return self.order.smart_wallet or self.order.maker

    def agrees(self, record):
        """Check a record."""
        signed, filled = self.order.collateral, min(self.filled, self.order.size)
        if self.order.side is Side.SELL:
            whole = self.order.size * self.order.price // 100 if signed is None else signed
            filled = filled * whole // self.order.size
        actual = (record.status, record.filled, record.filled_collateral, record.removal)
        assert actual == (self.status, self.filled, self.paid, self.removal)
        assert record.remaining == (self.left if self.resting else 0)
        assert (record.order, record.market) == (self.order, self.market)
        assert (record.size, record.price) == (self.size, self.price)
        assert record.filled_amount == filled
        assert (record.number, record.accepted_ms) == (self.number, self.accepted_ms)


def fees_of(market, event, resting, incoming):
    """Return the fees of both sides of a trade, each at its own rate."""
    spread = min(event.price, 100 - event.price) * event.size
    fees = {}
    for order, rate in (
        (resting, market.resting_fee_rate_bps),
        (incoming, market.incoming_fee_rate_bps),
    ):
        rate = rate if order.fee_rate_bps is None else min(rate, order.fee_rate_bps)
        if order.side is Side.BUY:
            fees["buyer"] = rate * spread // (10_000 * event.price)
        else:
            fees["seller"] = rate * spread // 1_000_000
    return fees


class Witness:
    """All state that follows from commands and events."""

    def __init__(self):
        self.markets, self.seq, self.lives, self.balances = {}, {}, {}, {}
        self.pending, self.finished = {}, []
        self.others, self.half = {}, None
        self.hashes, self.nonces, self.limits = {}, {}, Limits()
        self.seq_base = 0
        self.number = self.now_ms = self.swept_s = self.trades = 0

    # ----- applying ------------------------------------------------------------------------

    def apply(self, command, results):
        """Apply an accepted command with its events, for a batch those of each command."""
        self.now_ms = command.now_ms
        if isinstance(command, c.Batch):
            for inner, result in zip(command.commands, results, strict=True):
                if isinstance(result, list):
                    self._apply_one(inner, result)
        else:
            self._apply_one(command, results)
        while len(self.finished) > self.limits.finished_max:
            life = self.finished.pop(0)
            life.gone = True
            del self.lives[life.order.id]

    def _apply_one(self, command, events):
        """Apply one command and its events."""
        incoming = None
        match command:
            case c.Submit():
                incoming = self._accept(command)
            case c.Replace():
                incoming = self.lives[command.order_id]
            case c.AddMarket() | c.SetMarket():
                self.markets[command.market.id] = command.market
                self.seq.setdefault(command.market.id, self.seq_base)
                self.pending.setdefault(command.market.id, {})
            case c.RemoveMarket():
                self._remove_market(command.market)
            case c.SetLimits():
                self.limits = command.limits
            case c.SetNonce():
                self.nonces[command.maker] = command.nonce
            case c.Expire():
                self.swept_s = self.now_ms // 1_000
            case c.SetBalance():
                self.balances[command.wallet, command.asset] = command.amount
            case c.Settled():
                for seq in command.trades:
                    self._move(command.market, *self.pending[command.market].pop(seq))
            case c.SettleFailed():
                del self.pending[command.market][command.trade]
                self.pending[command.market].pop(
                    self.others.get((command.market, command.trade)), 0
                )
            case c.Reopen():
                for trade in command.trades:
                    self._reopen(command, trade)
        for event in events:
            self._event(event, command)
        if incoming is not None and not incoming.resting and not incoming.over:
            self._finish(incoming, None)

    def _remove_market(self, market):
        """Forget a market and its orders; their hashes stay."""
        del self.markets[market], self.pending[market]
        self.seq_base = max(self.seq_base, self.seq.pop(market) + 1)
        for life in [life for life in self.lives.values() if life.market == market]:
            assert life.over
            life.gone = True
            del self.lives[life.order.id]
        self.finished = [life for life in self.finished if life.market != market]

    def _accept(self, command):
        """Apply a submission; its hash must be new."""
        order = command.order
        assert order.id not in self.lives, "an id names two orders"
        self.number += 1
        life = Life(command.market, order, self.number, self.now_ms)
        self.lives[order.id] = life
        if command.order_hash is not None:
            assert command.order_hash not in self.hashes, "a signed order was executed twice"
            self.hashes[command.order_hash] = life
        return life

    def _event(self, event, command):
        """Apply one event."""
        self.seq[event.market] += 1
        assert event.seq == self.seq[event.market], "a gap in seq"
        if isinstance(event, PairedTrade):
            return self._half(event)
        assert self.half is None, "a half without the other"
        if isinstance(event, Trade):
            return self._trade(event)
        life = self.lives[event.order_id]
        assert (life.market, life.order.token) == (event.market, event.token)
        match event:
            case OrderAdded():
                assert (event.side, event.price) == (life.order.side, life.price)
                assert 0 < event.remaining <= life.left
                assert not life.resting
                if event.remaining < life.left:
                    life.resize(event.remaining)
                life.resting = True
            case OrderReduced():
                assert life.resting
                assert 0 < event.remaining < life.left
                life.resize(event.remaining)
            case OrderRemoved(reason=RemovalReason.REPLACED):
                assert event.remaining == life.left
                life.resting = False
                life.resize(command.size, command.price)
            case OrderRemoved():
                assert life.resting
                assert event.remaining == life.left
                self._finish(life, event.reason)
        return None

    def _trade(self, event):
        """Apply a trade to both orders and the accounts of both sides."""
        self.trades += 1
        resting, incoming = (
            self.lives[x] for x in (event.resting_order_id, event.incoming_order_id)
        )
        assert resting.resting
        assert not incoming.resting
        assert event.price == resting.price
        assert incoming.order.side is event.incoming_side is not resting.order.side
        resting.trade(event.size, event.price)
        if not event.incoming_remaining:
            # Self-trade prevention may have reduced it, without an event.
            incoming.resize(event.size)
        incoming.trade(event.size, event.price)
        assert resting.left == event.resting_remaining
        buys = event.incoming_side is Side.BUY
        buyer, seller = (incoming, resting) if buys else (resting, incoming)
        assert (event.buyer, event.seller) == (buyer.order.maker, seller.order.maker)
        market = self.markets[event.market]
        fees = fees_of(market, event, resting.order, incoming.order)
        assert {"buyer": event.buyer_fee, "seller": event.seller_fee} == fees
        if market.funds is Funds.ACCOUNTS:
            paid = (market.collateral, buyer.pays, seller.pays, event.size * event.price // 100)
            transfer = (event.token, event.seller, event.buyer, event.size)
            legs = ((*paid, event.seller_fee), (*transfer, event.buyer_fee))
            if market.settles:
                self.pending[event.market][event.seq] = legs
            else:
                self._move(event.market, *legs)

    def _half(self, event):
        """Apply one of the two trades of a mint or merge, the incoming order's first."""
        resting, incoming = (
            self.lives[x] for x in (event.resting_order_id, event.incoming_order_id)
        )
        market, other = self.markets[event.market], self.half
        assert market.complementary
        assert resting.resting
        assert not incoming.resting
        assert resting.order.side is incoming.order.side
        buys = incoming.order.side is Side.BUY
        assert event.match_type is (MatchType.MINT if buys else MatchType.MERGE)
        assert {resting.order.token, incoming.order.token} == {market.yes, market.no}
        life = incoming if other is None else resting
        assert event.token == life.order.token
        assert (event.buyer, event.seller)[:: 1 if buys else -1] == (life.order.maker, "")
        if other is None:
            self.trades += 1
            self.half = event
            assert event.incoming_side is incoming.order.side
            assert event.price == 100 - resting.price
            if not event.incoming_remaining:
                incoming.resize(event.size)
        else:
            self.half = None
            same = ("resting_order_id", "incoming_order_id", "size", "match_type")
            same += ("resting_remaining", "incoming_remaining", "market")
            assert all(getattr(event, name) == getattr(other, name) for name in same)
            assert event.incoming_side is not incoming.order.side
            assert event.price == resting.price
            self.others |= {
                (event.market, event.seq): other.seq,
                (event.market, other.seq): event.seq,
            }
        life.trade(event.size, event.price)
        assert life is incoming or life.left == event.resting_remaining
        self._charge(event, market, life, incoming)
        return

    def _charge(self, event, market, life, incoming):
        """Apply the amounts of one half, which has no counterparty."""
        paid, buys = event.size * event.price // 100, life.order.side is Side.BUY
        assert paid * 100 == event.size * event.price, "the halves do not add up"
        rate = market.resting_fee_rate_bps
        if life is incoming:
            rate = market.incoming_fee_rate_bps
        cap = life.order.fee_rate_bps
        rate = rate if cap is None else min(rate, cap)
        spread = rate * min(event.price, 100 - event.price) * event.size
        fees = (spread // (10_000 * event.price), 0) if buys else (0, spread // 1_000_000)
        assert (event.buyer_fee, event.seller_fee) == fees
        if market.funds is not Funds.ACCOUNTS:
            return
        if buys:
            legs = (
                (market.collateral, life.pays, None, paid, 0),
                (event.token, None, life.order.maker, event.size, event.buyer_fee),
            )
        else:
            legs = (
                (market.collateral, None, life.pays, paid, event.seller_fee),
                (event.token, life.order.maker, None, event.size, 0),
            )
        if market.settles:
            self.pending[event.market][event.seq] = legs
        else:
            self._move(event.market, *legs)

    def _reopen(self, command, trade):
        """Hold a trade again; move its amounts back if it had settled."""
        market, other = command.market, trade.other_seq
        collateral = self.markets[market].collateral
        bought, sold = trade.match_type is MatchType.MINT, trade.match_type is MatchType.MERGE
        legs = (
            (
                collateral,
                None if sold else trade.buyer_pays,
                None if bought else trade.seller_receives,
                trade.paid,
                trade.seller_fee,
            ),
            (
                trade.token,
                None if bought else trade.seller_pays,
                None if sold else trade.buyer_receives,
                trade.size,
                trade.buyer_fee,
            ),
        )
        self.pending[market][trade.seq] = legs
        if other:
            self.others[market, trade.seq] = other
        if command.settled:
            self._move(market, *((*leg[:3], -leg[3], -leg[4]) for leg in legs))

    def _move(self, market, *legs):
        """Move the amounts of a trade; None is the missing party of a pair."""
        for asset, payer, payee, amount, fee in legs:
            collector = self.markets[market].fee_wallet
            for wallet, change in ((payer, -amount), (payee, amount - fee), (collector, fee)):
                if wallet is not None:
                    self.balances[wallet, asset] = self.balances.get((wallet, asset), 0) + change

    def _finish(self, life, reason):
        """Finish an order; a filled one became so in its last trade."""
        life.resting, life.over, life.removal = False, True, reason
        if life.filled < life.size:
            life.step(Trigger.REMOVED)
            assert reason is not RemovalReason.FILLED
        elif reason is None:
            life.removal = RemovalReason.FILLED
        else:
            assert reason is RemovalReason.FILLED
        self.finished.append(life)

    # ----- comparing -----------------------------------------------------------------------

    def agrees(self, matcher):
        """Check that a matcher agrees with its events."""
        assert [m.id for m in matcher.markets] == list(self.markets)
        assert (matcher.limits, matcher.now_ms) == (self.limits, self.now_ms)
        for market in matcher.markets:
            assert matcher.seq(market.id) == self.seq[market.id]
            assert matcher.unsettled(market.id) == list(self.pending[market.id])
            for token in filter(None, (market.yes, market.no)):
                self._depth_agrees(matcher, market.id, token)
            if market.mode is Mode.RESOLVED:
                assert not matcher.open_orders(market=market.id)
        resting = [life for life in self.lives.values() if life.resting]
        ids = [record.order.id for record in matcher.open_orders()]
        assert ids == [life.order.id for life in sorted(resting, key=lambda x: x.number)]
        assert len(matcher) == len(resting)
        for order_id, life in self.lives.items():
            record = matcher.order(order_id)
            if life.over and life.removal is None:
                # No event has the reason why the remainder may not rest.
                assert record.removal in (RemovalReason.SELF_TRADE, RemovalReason.CANCELLED)
                life.removal = record.removal
            life.agrees(record)
        self.hashes_agree(matcher)
        self.accounts_agree(matcher)

    def _depth_agrees(self, matcher, market, token):
        """Check that the depth agrees with the events."""
        depth = matcher.depth(market, token)
        for side, levels in ((Side.BUY, depth.bids), (Side.SELL, depth.asks)):
            sizes = {}
            for life in self.lives.values():
                book_side, price = (life.market, life.order.token, life.order.side), life.price
                if self.markets[market].complementary and life.order.token != token:
                    book_side, price = (life.market, token, Side(1 - life.order.side)), 100 - price
                if life.resting and book_side == (market, token, side):
                    sizes.setdefault(price, []).append(life.left)
            prices = sorted(sizes, reverse=side is Side.BUY)
            assert levels == tuple(Level(p, sum(sizes[p]), len(sizes[p])) for p in prices)
        assert not (depth.bids and depth.asks) or depth.bids[0].price < depth.asks[0].price

    def hashes_agree(self, matcher):
        """Check that a hash is known exactly while its order could be valid."""
        for order_hash, life in self.hashes.items():
            until, low = life.order.expiration_s, self.nonces.get(life.order.maker, 0)
            late = 0 < until < self.now_ms // 1_000
            if life.order.nonce >= low and not late:
                assert matcher.is_used(order_hash)
            elif life.gone and (life.order.nonce < low or until < self.swept_s):
                assert not matcher.is_used(order_hash)
        kept = [life for used, life in self.hashes.items() if life.gone and matcher.is_used(used)]
        resting = [life for life in self.lives.values() if life.resting]
        due = [life.order.expiration_s for life in (*kept, *resting) if life.order.expiration_s]
        assert matcher.next_expiry_s == min(due, default=None)

    def accounts_agree(self, matcher):
        """Check that accounts agree with the trades and reserve the amounts that orders need."""
        reserved, unsettled = {}, {}
        for life in self.lives.values():
            market = self.markets[life.market]
            if life.resting and market.funds is Funds.ACCOUNTS:
                buys = life.order.side is Side.BUY
                need = life.left * life.price // 100 if buys else life.left
                sold = (life.order.maker, life.order.token)
                key = (life.pays, market.collateral) if buys else sold
                reserved[key] = reserved.get(key, 0) + need
        for legs in (legs for waiting in self.pending.values() for legs in waiting.values()):
            for asset, payer, _, amount, _ in (leg for leg in legs if leg[1] is not None):
                unsettled[payer, asset] = unsettled.get((payer, asset), 0) + amount
        books = (self.balances, reserved, unsettled)
        balances = matcher.balances()
        for key in {*balances, *self.balances, *reserved, *unsettled}:
            expected = tuple(book.get(key, 0) for book in books)
            account = matcher.balance(*key)
            assert (account.balance, account.reserved, account.unsettled) == expected, key
            assert not account.reserved or account.available >= 0, key
