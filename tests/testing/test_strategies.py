"""Strategies of ``clob.testing``: drawn orders and commands are valid, and orders match."""

import pytest
from hypothesis import Phase, given, settings

from clob import (
    AddMarket,
    Batch,
    Book,
    Cancel,
    Funds,
    Market,
    Matcher,
    PairedTrade,
    RejectedError,
    SelfTrade,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from clob.errors import FokNotFillableError
from clob.testing import apply, commands, matcher_commands, orders
from clob.testing.strategies import START_S

OF_STATE = {
    "DUPLICATE_ORDER",
    "FOK_NOT_FILLABLE",
    "ORDER_EXPIRED",
    "POST_ONLY_WOULD_CROSS",
    "SIZE_NOT_REDUCED",
    "UNKNOWN_ORDER",
}
"""Rejections that depend on the book, not on the command alone."""
INVALID = {
    "DUPLICATE_ORDER",
    "INVALID_AMOUNT",
    "INVALID_COMMAND",
    "INVALID_INSTRUCTION",
    "INVALID_MARKET",
    "INVALID_TIME",
    "TOKEN_NOT_IN_MARKET",
    "UNKNOWN_MARKET",
}
"""Rejections of a command that no state accepts."""
ACCOUNTS = Market(id="m", yes="y", no="n", funds=Funds.ACCOUNTS)
PAIRED = Market(id="m", yes="y", no="n", complementary=True)
MARKETS = [
    pytest.param(Market(id="m", yes="y", no="n"), id="plain"),
    pytest.param(ACCOUNTS, id="accounts"),
    pytest.param(PAIRED, id="complementary"),
]


def drawn(strategy, count=60):
    """Return values of a strategy, the same in every run."""
    values = []

    @settings(max_examples=count, phases=[Phase.generate], derandomize=True, database=None)
    @given(strategy)
    def collect(value):
        values.append(value)

    collect()
    return values


def traded(events):
    return any(isinstance(event, Trade) for event in events)


def outcomes(book, stream):
    """Execute commands; return the events and the rejections."""
    events, rejections = [], []
    for command in stream:
        try:
            events += apply(book, command)
        except RejectedError as rejection:
            rejections.append(rejection)
    return events, rejections


@pytest.mark.parametrize("lot_wei", [1, 100, 2**40])
def test_drawn_order_is_accepted_by_an_empty_book(lot_wei):
    for order in drawn(orders(lot_wei)):
        try:
            Book(lot_wei=lot_wei).submit(order, now_ms=START_S * 1_000)
        except FokNotFillableError:
            assert order.time_in_force is TimeInForce.FOK


def test_every_time_in_force_side_and_policy_is_drawn():
    some = drawn(orders(), 300)
    kinds = {(order.time_in_force, order.side) for order in some}
    assert kinds == {(tif, side) for tif in TimeInForce for side in Side}
    assert {order.self_trade for order in some} == {None, *SelfTrade}


def test_commands_of_a_book_are_rejected_for_its_state_only():
    for stream in drawn(commands(lot_wei=10, token="101")):
        times = [command.now_ms for command in stream]
        assert times == sorted(times)
        _, rejections = outcomes(Book(token="101", lot_wei=10), stream)
        assert {each.code for each in rejections} <= OF_STATE


def test_commands_of_a_book_trade_and_remove_expired_orders():
    events = [outcomes(Book(), stream)[0] for stream in drawn(commands(), 300)]
    assert sum(map(traded, events)) > len(events) / 5
    assert any(getattr(event, "reason", None) == "expired" for each in events for event in each)


def applied(stream):
    """Apply commands to a matcher; return the events and the codes of rejections."""
    matcher, events, codes = Matcher(), [], set()
    for command in stream:
        try:
            events += matcher.apply(command)
        except RejectedError as rejection:
            codes.add(rejection.code)
    return events, codes


@pytest.mark.parametrize("market", MARKETS)
def test_commands_of_a_matcher_are_valid_and_trade(market):
    tokens, codes = set(), set()
    for stream in drawn(matcher_commands(market), 100):
        assert isinstance(stream[0], AddMarket)
        events, rejected = applied(stream)
        tokens |= {each.token for each in events if isinstance(each, Trade | PairedTrade)}
        codes |= rejected
    assert tokens
    assert tokens <= {market.yes, market.no}
    assert not codes & INVALID
    assert ("INSUFFICIENT_BALANCE" in codes) is (market.funds is Funds.ACCOUNTS)


def test_commands_of_a_matcher_have_batches_and_name_earlier_orders():
    named = batches = 0
    for stream in drawn(matcher_commands()):
        known = {each.order.id for each in stream if isinstance(each, Submit)}
        named += any(isinstance(each, Cancel) and each.order_id in known for each in stream)
        batches += any(isinstance(each, Batch) for each in stream)
    assert named
    assert batches
