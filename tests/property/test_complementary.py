"""Complementary markets under random orders: conservation, priority, and symmetry of YES and NO.

Method: hypothesis draws orders for either token around the middle of the grid, so that they match.
The price of each possible match is computed here for each resting order, without a grid.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import (
    Cancel,
    Funds,
    MatchType,
    OrderAdded,
    OrderRemoved,
    PairedTrade,
    RejectedError,
    SelfTrade,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from tests import matchers
from tests.matchers import buy, funded, market, opened, sell

LOT = 100
WEALTH = 3_000
MAKERS = "ABC"
ASSETS = ("collateral", "m-yes", "m-no")
kinds = pytest.mark.parametrize("kind", matchers.MATCHERS)


class Draft(msgspec.Struct, frozen=True):
    """An order, or the cancel of an earlier one."""

    is_yes: bool
    side: Side
    price: int
    lots: int
    maker: str
    time_in_force: TimeInForce
    policy: SelfTrade
    cancels: int | None

    def command(self, number):
        """Return the command of draft ``number``, which is also its order id."""
        if self.cancels is not None:
            return Cancel(order_id=number - self.cancels)
        write = buy if self.side is Side.BUY else sell
        return write(
            number,
            self.price,
            self.lots * LOT,
            maker=self.maker,
            token="m-yes" if self.is_yes else "m-no",
            time_in_force=self.time_in_force,
            self_trade=self.policy,
        )


tifs = st.sampled_from([TimeInForce.GTC] * 4 + [TimeInForce.IOC, TimeInForce.FOK])
policies = st.sampled_from([SelfTrade.NONE] * 4 + list(SelfTrade))
drafts = st.builds(
    Draft,
    is_yes=st.booleans(),
    side=st.sampled_from(list(Side)),
    price=st.integers(46, 54) | st.integers(1, 99),
    lots=st.integers(1, 6),
    maker=st.sampled_from(MAKERS),
    time_in_force=tifs,
    policy=policies,
    cancels=st.none() | st.none() | st.none() | st.integers(1, 5),
)
stories = st.lists(drafts, max_size=30)
fees = st.sampled_from([0, 0, 70, 1_000])


def paired(kind, **terms):
    """Open a complementary market."""
    return opened(matchers.load(kind), market(complementary=True, lot_wei=LOT, **terms))


def outcome(matcher, command):
    """Apply a command; return its events, or the code of its rejection."""
    try:
        return matcher.apply(command)
    except RejectedError as error:
        return error.code


def events_of(matcher, command):
    """Apply a command; return its events, none if it is rejected."""
    events = outcome(matcher, command)
    return [] if isinstance(events, str) else events


# ----- conservation ----------------------------------------------------------------------------


def supply(matcher):
    """Return the total balance of each asset."""
    sums = dict.fromkeys(ASSETS, 0)
    for (_, asset), account in matcher.balances().items():
        sums[asset] += account.balance
        assert account.available >= 0
    return sums


@kinds
@given(stories, fees, fees, st.booleans())
def test_mints_and_merges_conserve_collateral_and_pairs(kind, story, resting, incoming, settles):
    matcher = paired(
        kind,
        funds=Funds.ACCOUNTS,
        settles=settles,
        resting_fee_rate_bps=resting,
        incoming_fee_rate_bps=incoming,
    )
    before = supply(funded(matcher, MAKERS, WEALTH, ASSETS))
    pairs = 0
    for number, draft in enumerate(story):
        events = events_of(matcher, draft.command(number))
        halves = [e for e in events if isinstance(e, PairedTrade)]
        for one, other in zip(halves[::2], halves[1::2], strict=True):
            assert {one.token, other.token} == {"m-yes", "m-no"}
            assert (one.is_incoming, other.is_incoming) == (True, False)
            assert one.size * one.price // 100 + other.size * other.price // 100 == one.size
            pairs += one.size if one.match_type is MatchType.MINT else -one.size
        matcher.settled("m", matcher.unsettled("m"))
        after = supply(matcher)
        assert after["m-yes"] - before["m-yes"] == pairs
        assert after["m-no"] - before["m-no"] == pairs
        assert before["collateral"] - after["collateral"] == pairs
        matcher.audit()


# ----- priority --------------------------------------------------------------------------------


def cost(order, resting):
    """Return the price in the order's token at which two orders match; None if they do not."""
    if resting.token == order.token:
        return resting.price if resting.side is not order.side else None
    return 100 - resting.price if resting.side is order.side else None


def queue_for(order, records):
    """Return the resting orders that an order can match, as (price, record), in priority."""
    costs = [(cost(order, record.order), record) for record in records]
    sign = 1 if order.side is Side.BUY else -1
    met = [(c, r) for c, r in costs if c is not None and sign * c <= sign * order.price]
    return sorted(met, key=lambda pair: (sign * pair[0], pair[1].number))


@kinds
@given(stories)
def test_best_price_then_oldest_order_matches_first_across_both_tokens(kind, story):
    matcher = paired(kind)
    for number, draft in enumerate(story):
        command = msgspec.structs.replace(draft, policy=SelfTrade.NONE).command(number)
        queue = (
            queue_for(command.order, matcher.open_orders()) if isinstance(command, Submit) else []
        )
        events = outcome(matcher, command)
        if isinstance(events, str):
            continue
        trades = [e for e in events if isinstance(e, Trade) and e.token == own_token(command)]
        left = command.order.size if trades else 0
        for trade, (price, record) in zip(trades, queue, strict=False):
            size = min(left, record.remaining)
            left -= size
            fields = (trade.resting_order_id, trade.price, trade.size, trade.incoming_remaining)
            assert fields == (record.order.id, price, size, left)
        assert len(trades) <= len(queue)
        assert not left or len(trades) == len(queue) or not trades


def own_token(command):
    """Return the token of an incoming order; empty for a cancel."""
    return command.order.token if isinstance(command, Submit) else ""


@kinds
@given(stories)
def test_resting_orders_trade_at_their_price_and_incoming_ones_at_it_or_better(kind, story):
    matcher = paired(kind)
    limits = {}
    for number, draft in enumerate(story):
        command = draft.command(number)
        if isinstance(command, Submit):
            limits[number] = command.order
        for event in events_of(matcher, command):
            if not isinstance(event, Trade):
                continue
            resting, incoming = (
                limits[event.resting_order_id],
                limits[event.incoming_order_id],
            )
            if event.token == resting.token:
                assert event.price == resting.price
            if event.token == incoming.token:
                buys = incoming.side is Side.BUY
                assert event.price <= incoming.price if buys else event.price >= incoming.price


def spent(trades, token, size):
    """Return the cost of the first ``size`` tokens of an order, in hundredths of a wei."""
    total = 0
    for trade in trades:
        if trade.token == token:
            taken = min(size, trade.size)
            total, size = total + taken * trade.price, size - taken
    assert size == 0
    return total


@kinds
@given(stories, drafts)
def test_complementary_matching_is_never_worse_than_direct_matching(kind, story, last):
    both, alone = paired(kind), opened(matchers.load(kind), market(lot_wei=LOT))
    for number, draft in enumerate(story):
        resting = msgspec.structs.replace(draft, time_in_force=TimeInForce.GTC, cancels=None)
        command = resting.command(number)
        order = msgspec.structs.replace(command.order, post_only=True)
        command = msgspec.structs.replace(command, order=order)
        if not isinstance(outcome(both, command), str):
            alone.apply(command)
    last = msgspec.structs.replace(
        last, time_in_force=TimeInForce.IOC, policy=SelfTrade.NONE, cancels=None, lots=last.lots * 5
    )
    command = last.command(1_000)
    more, less = (
        [event for event in matcher.apply(command) if isinstance(event, Trade)]
        for matcher in (both, alone)
    )
    token = command.order.token
    filled = sum(trade.size for trade in less)
    assert sum(trade.size for trade in more if trade.token == token) >= filled
    sign = 1 if last.side is Side.BUY else -1
    assert sign * spent(more, token, filled) <= sign * spent(less, token, filled)


# ----- symmetry --------------------------------------------------------------------------------


@kinds
@given(stories)
def test_orders_for_yes_only_match_as_in_an_ordinary_market(kind, story):
    both, plain = paired(kind), opened(matchers.load(kind), market(lot_wei=LOT))
    for number, draft in enumerate(story):
        command = msgspec.structs.replace(draft, is_yes=True).command(number)
        assert outcome(both, command) == outcome(plain, command)
    assert both.depth("m") == plain.depth("m")
    assert both.open_orders() == plain.open_orders()


def swapped(event):
    """Return the event with the other token."""
    other = {"m-yes": "m-no", "m-no": "m-yes"}[event.token]
    return msgspec.structs.replace(event, token=other)


@kinds
@given(stories)
def test_swapping_yes_and_no_swaps_the_results(kind, story):
    one, other = paired(kind), paired(kind)
    for number, draft in enumerate(story):
        result = outcome(one, draft.command(number))
        turned = msgspec.structs.replace(draft, is_yes=not draft.is_yes)
        mirror = outcome(other, turned.command(number))
        assert mirror == (
            result if isinstance(result, str) else [swapped(event) for event in result]
        )
    yes, no = one.depth("m"), other.depth("m", "m-no")
    assert (yes.bids, yes.asks) == (no.bids, no.asks)


@kinds
@given(stories)
def test_depth_of_both_tokens_follows_from_the_events(kind, story):
    """Orders for the other token are mirrored: BUY for SELL, and 100 minus the price."""
    matcher, resting = paired(kind), {}
    for number, draft in enumerate(story):
        for event in events_of(matcher, draft.command(number)):
            if isinstance(event, OrderAdded):
                resting[event.order_id] = event.token, event.side, event.price, event.remaining
            elif isinstance(event, OrderRemoved):
                del resting[event.order_id]
            else:
                traded = isinstance(event, Trade)
                order_id = event.resting_order_id if traded else event.order_id
                left = event.resting_remaining if traded else event.remaining
                resting[order_id] = (*resting[order_id][:3], left)
    for token in ("m-yes", "m-no"):
        levels = {Side.BUY: {}, Side.SELL: {}}
        for own, side, price, left in resting.values():
            seen, at = (side, price) if own == token else (Side(1 - side), 100 - price)
            levels[seen][at] = levels[seen].get(at, 0) + left
        depth = matcher.depth("m", token)
        assert {level.price: level.size for level in depth.bids} == levels[Side.BUY]
        assert {level.price: level.size for level in depth.asks} == levels[Side.SELL]
