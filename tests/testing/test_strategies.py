"""Strategies of ``clob.testing``: drawn orders and commands are valid, and orders match."""

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from clob import (
    AddMarket,
    Batch,
    Book,
    Cancel,
    Funds,
    Market,
    Matcher,
    RejectedError,
    SelfTrade,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from clob.errors import (
    DuplicateOrderError,
    FokNotFillableError,
    OrderExpiredError,
    PostOnlyWouldCrossError,
)
from clob.testing import apply, commands, matcher_commands, orders
from clob.testing.strategies import START_S

OF_STATE = (
    DuplicateOrderError,
    FokNotFillableError,
    OrderExpiredError,
    PostOnlyWouldCrossError,
)
"""Rejections that depend on the book, not on the order alone."""
ACCOUNTS = Market(id="m", yes="y", no="n", funds=Funds.ACCOUNTS)
PAIRED = Market(id="m", yes="y", no="n", complementary=True)
MARKETS = [
    pytest.param(Market(id="m", yes="y", no="n"), id="plain"),
    pytest.param(ACCOUNTS, id="accounts"),
    pytest.param(PAIRED, id="complementary"),
]


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


@given(st.sampled_from([1, 100, 2**40]).flatmap(lambda lot: st.tuples(st.just(lot), orders(lot))))
def test_drawn_order_is_accepted_by_an_empty_book(drawn):
    lot_wei, order = drawn
    try:
        Book(lot_wei=lot_wei).submit(order, now_ms=START_S * 1_000)
    except FokNotFillableError:
        assert order.time_in_force is TimeInForce.FOK


@pytest.mark.parametrize("tif", TimeInForce)
@pytest.mark.parametrize("side", Side)
def test_every_time_in_force_and_side_is_drawn(tif, side):
    assert find(orders(), lambda order: order.time_in_force is tif and order.side is side)


@pytest.mark.parametrize("policy", [None, *SelfTrade])
def test_every_self_trade_policy_is_drawn(policy):
    assert find(orders(), lambda order: order.self_trade is policy)


@given(commands(lot_wei=10, token="101"))
def test_commands_of_a_book_are_rejected_for_its_state_only(stream):
    assert [command.now_ms for command in stream] == sorted(each.now_ms for each in stream)
    _, rejections = outcomes(Book(token="101", lot_wei=10), stream)
    named = (*OF_STATE, "UNKNOWN_ORDER", "SIZE_NOT_REDUCED")
    assert all(isinstance(each, OF_STATE) or each.code in named for each in rejections)


def test_commands_of_a_book_trade_and_remove_expired_orders():
    assert find(commands(), lambda stream: traded(outcomes(Book(), stream)[0]))
    found = find(
        commands(),
        lambda stream: any(
            getattr(event, "reason", None) == "expired" for event in outcomes(Book(), stream)[0]
        ),
    )
    assert len(found) == 2, "an order, and the command that finds it expired"


@pytest.mark.parametrize("market", MARKETS)
def test_commands_of_a_matcher_replay_without_an_invalid_one(market):
    @given(matcher_commands(market))
    def check(stream):
        assert isinstance(stream[0], AddMarket)
        replayed = Matcher().replay(stream)
        invalid = {"INVALID_COMMAND", "INVALID_INSTRUCTION", "INVALID_AMOUNT", "INVALID_TIME",
                   "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET", "DUPLICATE_ORDER"}  # fmt: skip
        assert not invalid & replayed.rejections.keys()

    check()


@pytest.mark.parametrize("market", MARKETS)
def test_commands_of_a_matcher_trade_both_tokens(market):
    def trades(token):
        def holds(stream):
            matcher = Matcher()
            for command in stream:
                try:
                    events = matcher.apply(command)
                except RejectedError:
                    continue
                if any(isinstance(each, Trade) and each.token == token for each in events):
                    return True
            return False

        return holds

    for token in (market.yes, market.no):
        assert find(matcher_commands(market), trades(token))


def test_commands_of_a_matcher_have_batches_and_name_earlier_orders():
    def cancels_known(stream):
        known = {each.order.id for each in stream if isinstance(each, Submit)}
        return any(isinstance(each, Cancel) and each.order_id in known for each in stream)

    assert find(matcher_commands(), cancels_known)
    assert find(matcher_commands(), lambda stream: any(isinstance(x, Batch) for x in stream))
