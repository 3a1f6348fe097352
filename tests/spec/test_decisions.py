"""Decisions on orders and limits, where the specification is silent: one test or more for each.

A test has the number of its decision in its name, and the decision in its docstring. Decisions on
amounts are in ``test_decisions_on_amounts.py``.
"""

import pytest

from clob import (
    AddMarket,
    Batch,
    Expire,
    Funds,
    Limits,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    OrderStatus,
    Reduce,
    RemovalReason,
    SelfTrade,
    SetLimits,
    SetNonce,
    TimeInForce,
    Trade,
)
from clob.errors import (
    AmountTooSmallError,
    BatchTooLargeError,
    ClockWentBackError,
    DeadlinePassedError,
    InsufficientBalanceError,
    NonceTooLowError,
    OrderExpiredError,
    TokenNotInMarketError,
    TooManyOrdersError,
    TooManyTradesError,
    UnknownMarketError,
)
from clob.units import SIZE_MAX
from tests.books import event_lines
from tests.matchers import buy, funded, market, opened, rejected, sell


@pytest.fixture
def matcher(matcher_class):
    """A matcher with a market called ``m``."""
    return opened(matcher_class)


def trades_of(events):
    return [event for event in events if isinstance(event, Trade)]


# ----- times and nonces ----------------------------------------------------------------------


def test_decision_17_expiration(matcher):
    """Absent or 0: never. Expired when now > expiration (seconds). Checked on entry, before each
    match, and by a sweep. Status cancelled with the reason expired."""
    matcher.apply(sell("never", 60, 1, expiration_s=0))
    for name in ("met", "swept"):
        matcher.apply(sell(name, 50 if name == "met" else 55, 1, expiration_s=9))
    assert matcher.next_expiry_s == 9
    assert matcher.apply(Expire(now_ms=9_999)) == []
    with rejected(matcher, OrderExpiredError, 9, 10):
        matcher.apply(sell("entry", 50, 1, expiration_s=9, now_ms=10_000))
    matcher.apply(buy("b", 50, 1, now_ms=10_000))
    (removed,) = matcher.apply(Expire(now_ms=10_000))
    assert (removed.order_id, removed.reason) == ("swept", RemovalReason.EXPIRED)
    assert matcher.order("met").removal is RemovalReason.EXPIRED
    assert matcher.apply(Expire(now_ms=2**63 - 1)) == []
    assert matcher.order("never").status is OrderStatus.OPEN
    assert matcher.next_expiry_s is None


def test_decision_18_nonce(matcher):
    """A nonce below the maker's current one is rejected; raising it cancels resting orders below
    it."""
    matcher.apply(buy("low", 50, 1, nonce=1))
    matcher.apply(buy("at", 50, 1, nonce=2))
    assert event_lines(matcher.apply(SetNonce(maker="B", nonce=2))) == ["removed low nonce 1"]
    with rejected(matcher, NonceTooLowError, 1, 2):
        matcher.apply(buy("late", 50, 1, nonce=1))
    for nonce in (0, 1, 2):
        with rejected(matcher, NonceTooLowError, 2, nonce):
            matcher.apply(SetNonce(maker="B", nonce=nonce))


# ----- markets -------------------------------------------------------------------------------


def test_decision_24_token_of_another_market_is_rejected(matcher):
    """The token must belong to the market: TOKEN_NOT_IN_MARKET."""
    matcher.apply(AddMarket(market=market("n")))
    with rejected(matcher, TokenNotInMarketError, "'m'", "'m-yes'", "'m-no'", "'n-yes'"):
        matcher.apply(buy("a", 50, 1, token="n-yes"))


def test_decision_25_unknown_market_is_rejected_and_reads_create_no_market(matcher):
    """Production: markets are created by the admin, else UNKNOWN_MARKET. Reads never create one."""
    with rejected(matcher, UnknownMarketError, "'n'"):
        matcher.apply(buy("a", 50, 1, market="n", token="n-yes"))
    for read in (matcher.market, matcher.depth, matcher.seq, matcher.unsettled):
        with rejected(matcher, UnknownMarketError, "'n'"):
            read("n")
    assert [each.id for each in matcher.markets] == ["m"]


# ----- events --------------------------------------------------------------------------------


def test_decision_38_order_added_has_the_remaining_size_and_follows_the_trades(matcher):
    """order_added only for an order that rests, with its remaining size, after its trades. A
    partial fill of a resting order is a trade with both order ids and both remaining sizes."""
    matcher.apply(sell("s", 50, 4))
    kinds = [type(event) for event in matcher.apply(buy("b", 50, 10))]
    assert kinds == [Trade, OrderRemoved, OrderAdded]
    (trade,) = matcher.apply(sell("t", 50, 1))
    assert (trade.resting_order_id, trade.incoming_order_id) == ("b", "t")
    assert (trade.resting_remaining, trade.incoming_remaining) == (5, 0)
    (reduced,) = matcher.apply(Reduce(order_id="b", size=2))
    assert (type(reduced), reduced.remaining) == (OrderReduced, 2)


def test_decision_38_removal_reasons():
    """order_removed has reason: filled, cancelled, expired, reduced, self_trade, nonce, replaced,
    settlement, admin, market (reduced being an event of its own here)."""
    assert {reason.value for reason in RemovalReason} == {
        *("filled", "cancelled", "expired", "self_trade", "nonce"),
        *("replaced", "settlement", "admin", "market"),
    }


@pytest.mark.parametrize("policy", list(SelfTrade))
def test_decision_39_self_trade(matcher_class, policy):
    """Self-trades are allowed by default; a market or an order may have a policy against them."""
    by_default = opened(matcher_class)
    by_market = opened(matcher_class, market(self_trade=policy))
    lines = {}
    for name, matcher, own in (
        ("default", by_default, None),
        ("order", by_default, policy),
        ("market", by_market, None),
        ("none", by_market, SelfTrade.NONE),
    ):
        matcher.apply(sell("s" + name, 50, 5, maker=name))
        events = matcher.apply(buy("b" + name, 50, 3, maker=name, self_trade=own))
        lines[name] = [line.replace(name, "") for line in event_lines(events)]
        matcher.cancel_all()
    assert lines["default"] == lines["none"] == ["trade s b 3 @ 50"]
    assert lines["order"] == lines["market"]
    assert (lines["order"] == lines["default"]) == (policy is SelfTrade.NONE)


def test_decision_45_funds(matcher_class):
    """none, or accounts: balance and allowance minus the amounts of resting and unsettled orders;
    the rejection has the amounts available, reserved and needed."""
    free = opened(matcher_class)
    free.apply(buy("a", 50, SIZE_MAX))
    assert free.balances() == {}
    matcher = opened(matcher_class, market(funds=Funds.ACCOUNTS, settles=True))
    funded(matcher, ("B",), 100, ("collateral",))
    funded(matcher, ("S",), 100, ("m-yes",))
    matcher.apply(sell("s", 50, 60))
    matcher.apply(buy("a", 50, 60))
    matcher.apply(buy("b", 40, 100))
    words = ("'B'", "30 wei", "'collateral'", "31 needed", "40 reserved", "30 unsettled of 100")
    with rejected(matcher, InsufficientBalanceError, *words):
        matcher.apply(buy("c", 50, 63))
    matcher.apply(buy("c", 50, 61))


def test_decision_48_seq_is_one_per_event_and_market(matcher):
    """seq: per market, 1 more for each published event and for nothing else."""
    matcher.apply(AddMarket(market=market("n")))
    numbers = []
    for command in (
        buy("a", 50, 1),
        buy("b", 50, 1, token="m-no"),
        sell("c", 50, 1),
        Reduce(order_id="b", size=2),
        buy("d", 50, 1, market="n", token="n-no"),
        sell("e", 50, 1, token="m-no"),
    ):
        if matcher.check(command) is None:
            numbers += [(event.market, event.seq) for event in matcher.apply(command)]
    assert numbers == [("m", 1), ("m", 2), ("m", 3), ("m", 4), ("n", 1), ("m", 5), ("m", 6)]
    assert (matcher.seq("m"), matcher.seq("n")) == (6, 1)
    assert {matcher.depth("m", token).seq for token in ("m-yes", "m-no", None)} == {6}


# ----- limits --------------------------------------------------------------------------------


def test_decision_50_time_before_the_last_command_is_rejected(matcher):
    """A command's now_ms below the last one applied: CLOCK_WENT_BACK. Expired: now_ms // 1000 >
    expiration. An order that arrives after its deadlineMs is rejected."""
    matcher.apply(buy("a", 50, 1, now_ms=10, deadline_ms=10))
    for command in (buy("b", 50, 1, now_ms=9), Expire(now_ms=9), Batch(commands=(), now_ms=9)):
        with rejected(matcher, ClockWentBackError, 10, 9):
            matcher.apply(command)
    with rejected(matcher, DeadlinePassedError, 10, 11):
        matcher.apply(buy("b", 50, 1, now_ms=11, deadline_ms=10))
    assert matcher.now_ms == 10


def test_decision_52_minimum_size(matcher_class):
    """Market minSize 1, or 10**16 wei where trades settle."""
    assert market().min_size == 1
    matcher = opened(matcher_class, market(min_size=10**16))
    with rejected(matcher, AmountTooSmallError, 10**16, 10**16 - 1):
        matcher.apply(buy("a", 50, 10**16 - 1))
    matcher.apply(buy("a", 50, 10**16))


def test_decision_52_500_resting_orders_per_maker_and_market(matcher):
    """500 resting orders per maker and market."""
    matcher.apply(AddMarket(market=market("n")))
    for number in range(500):
        matcher.apply(buy(number, 50, 1, token=("m-yes", "m-no")[number % 2]))
    with rejected(matcher, TooManyOrdersError, 500):
        matcher.apply(buy(500, 50, 1))
    matcher.apply(buy(500, 50, 1, maker="other"))
    matcher.apply(buy(501, 50, 1, market="n", token="n-yes"))
    matcher.apply(buy(502, 50, 1, time_in_force=TimeInForce.IOC))
    matcher.cancel(0)
    matcher.apply(buy(503, 50, 1))


def test_decision_52_1000_trades_per_command(matcher):
    """1,000 trades per command; beyond it the whole command is rejected with TOO_MANY_TRADES and
    the size that would fit."""
    for number in range(1_001):
        matcher.apply(sell(number, 50, 2 + number % 2, maker=str(number)))
    with rejected(matcher, TooManyTradesError, 1_000, 1_001, "a size of 2500 wei fits"):
        matcher.apply(buy("b", 50, 5_000))
    assert len(trades_of(matcher.apply(buy("b", 50, 2_500)))) == 1_000


TWENTY_ONE = [buy(number, 50, 1) for number in range(21)]


def test_decision_52_20_orders_per_batch_and_limits_are_settings(matcher):
    """20 orders per batch; all limits are settings."""
    assert matcher.limits == Limits(orders_max=500, trades_max=1_000, batch_max=20)
    with rejected(matcher, BatchTooLargeError, 20, 21):
        matcher.batch(TWENTY_ONE)
    assert len(matcher.batch(TWENTY_ONE[:20])) == 20
    matcher.apply(SetLimits(limits=Limits(batch_max=1)))
    with rejected(matcher, BatchTooLargeError, 1, 2):
        matcher.batch(TWENTY_ONE[:2])
