"""Of several rules that a command to a matcher breaks, the first in the order of errors refuses it.

What a book alone refuses is in ``test_precedence.py``; here the rules of the matcher stand among
them, and the pairs show that both halves keep one order.
"""

import itertools

import msgspec
import pytest

from clob import (
    Batch,
    Cancel,
    CancelAll,
    Funds,
    Limits,
    Mode,
    Reduce,
    Replace,
    SetBalance,
    SetLimits,
    SetMode,
    SetNonce,
    Settled,
    SettleFailed,
    Submit,
    TimeInForce,
    errors,
)
from clob.errors import REFUSALS
from tests.matchers import buy, funded, market, opened, refused, sell

NOW_MS = 5_000
HASH = b"\7" * 32


@pytest.fixture
def matcher(matcher_class):
    """A market in which there is something of everything that can be in the way."""
    terms = {"funds": Funds.ACCOUNTS, "min_size": 4, "lot_wei": 2}
    markets = (market(**terms), market("n", **terms), market("shut", **terms))
    matcher = funded(opened(matcher_class, *markets), ("m1", "m2", "m3"), 1_000)
    funded(matcher, ("m1", "m2"), 100, ("shut-yes", "n-yes"))
    for command in (
        sell("ask", 60, 4, maker="m1"),
        sell("ask 2", 62, 4, maker="m1"),
        buy("bid", 40, 100, maker="m2", client_id="known", order_hash=HASH),
        buy("bid 2", 40, 4, maker="m2", nonce=9),
        buy("mortal", 30, 4, maker="m2", expiration_s=1, nonce=9),
        buy("done", 30, 4, maker="m2", nonce=9),
        Cancel(order_id="done"),
        buy("poor", 20, 4, maker="m3", nonce=9),
        sell("frozen", 50, 4, maker="m1", market="shut", token="shut-yes"),
        SetMode(market="shut", mode=Mode.HALTED),
        SetLimits(limits=Limits(orders_max=3, trades_max=1, batch_max=3)),
        SetNonce(maker="m3", nonce=2),
    ):
        matcher.apply(msgspec.structs.replace(command, now_ms=1_000))
    return matcher


# What is wrong, by the part of the command it is in: "." is the envelope, all else the order.
SUBMIT = {
    errors.InvalidTimeError: {".now_ms": -1},
    errors.ClockWentBackError: {".now_ms": 999},
    errors.DeadlinePassedError: {".deadline_ms": NOW_MS - 1},
    errors.InvalidCommandError: {".order_hash": b"short"},
    errors.UnknownMarketError: {".market": "nowhere"},
    errors.InvalidInstructionError: {"time_in_force": "GTC"},
    errors.InvalidSideError: {"side": 2},
    errors.InvalidOrderIdError: {"id": ""},
    errors.InvalidOwnerError: {"maker": None},
    errors.TokenNotInMarketError: {"token": "U"},
    errors.PriceOutOfRangeError: {"price": 100},
    errors.InvalidAmountError: {"size": 9},
    errors.AmountTooLargeError: {"size": 2**96},
    errors.AmountTooSmallError: {"size": 2},
    errors.InvalidFeeRateError: {"fee_rate_bps": 1001},
    errors.OrderExpiredError: {"expiration_s": 1},
    errors.OrderAlreadyUsedError: {".order_hash": HASH},
    errors.ClientIdConflictError: {".client_id": "known", "maker": "m2"},
    errors.DuplicateOrderError: {"id": "bid"},
    errors.MarketNotOpenError: {".market": "shut", "token": "shut-yes"},
    errors.NonceTooLowError: {"maker": "m3", "nonce": 1},
    errors.TooManyOrdersError: {"maker": "m2"},
    errors.InsufficientBalanceError: {"size": 20_000},
    errors.PostOnlyWouldCrossError: {"post_only": True},
    errors.FokNotFillableError: {"time_in_force": TimeInForce.FOK, "price": 61, "size": 50},
    errors.TooManyTradesError: {"price": 62, "size": 8},
}
"""For each rule on a submission, what of it breaks the rule; in the order of :mod:`clob.errors`."""


def submission(fields):
    """Write a submission in which nothing is wrong but these fields."""
    command = buy("new", 60, 6, maker="m1", now_ms=NOW_MS, nonce=5)
    inside = {name: value for name, value in fields.items() if name[0] != "."}
    outside = {name[1:]: value for name, value in fields.items() if name[0] == "."}
    order = msgspec.structs.replace(command.order, **inside)
    return msgspec.structs.replace(command, order=order, **outside)


def names(rules):
    return [error.code for error in rules]


def pairs(rules, never=()):
    """Pairs of rules that one command can break both, the first of them first."""
    return [
        pytest.param(one, rules[one] | rules[two], id=f"{one.code}-{two.code}")
        for one, two in itertools.combinations(rules, 2)
        if not rules[one].keys() & rules[two].keys() and f"{one.code}-{two.code}" not in never
    ]


def test_the_rules_here_stand_in_their_order_of_precedence():
    precedence = list(REFUSALS.values())
    for rules in (SUBMIT, CHANGE, REPLACE):
        assert list(rules) == sorted(rules, key=precedence.index)


def test_the_submission_with_nothing_wrong_is_accepted(matcher):
    assert matcher.check(submission({})) is None
    matcher.apply(submission({}))


@pytest.mark.parametrize(("error", "fields"), SUBMIT.items(), ids=names(SUBMIT))
def test_each_rule_on_a_submission(matcher, error, fields):
    submit_refused(matcher, error, fields)


# A fill-or-kill order never rests, and must not be post-only.
FOK_NEVER_RESTS = {"TOO_MANY_ORDERS-FOK_NOT_FILLABLE", "POST_ONLY_WOULD_CROSS-FOK_NOT_FILLABLE"}


@pytest.mark.parametrize(("error", "fields"), pairs(SUBMIT, never=FOK_NEVER_RESTS))
def test_the_first_of_two_rules_on_a_submission(matcher, error, fields):
    submit_refused(matcher, error, fields)


def submit_refused(matcher, error, fields):
    refuse_first(matcher, error, submission(fields))


def refuse_first(matcher, error, command):
    """Expect this refusal, and that a check says the same beforehand."""
    foreseen = matcher.check(command)
    with refused(matcher, error) as caught:
        matcher.apply(command)
    assert (type(foreseen), str(foreseen)) == (error, str(caught.value))


# ----- orders that are there -----------------------------------------------------------------

CHANGE = {
    errors.InvalidTimeError: {"now_ms": 2**63},
    errors.ClockWentBackError: {"now_ms": 999},
    errors.InvalidCommandError: {"maker": 5},
    errors.UnknownMarketError: {"market": "nowhere"},
    errors.InvalidOrderIdError: {"order_id": -1},
    errors.UnknownOrderError: {"order_id": "nobody"},
    errors.NotTheMakerError: {"maker": "m3"},
    errors.OrderNotOpenError: {"order_id": "done"},
    errors.MarketNotOpenError: {"order_id": "frozen", "maker": "m1"},
}
"""For each rule on a cancel, fields that break it; a reduction and a replacement know them, too."""

SIZED = {
    errors.InvalidAmountError: {"size": 9},
    errors.AmountTooLargeError: {"size": 2**96},
}

REPLACE = {
    errors.InvalidTimeError: {"now_ms": 2**63},
    errors.ClockWentBackError: {"now_ms": 999},
    errors.InvalidCommandError: {"maker": 5},
    errors.UnknownMarketError: {"market": "nowhere"},
    errors.InvalidInstructionError: {"post_only": 1},
    errors.InvalidOrderIdError: {"order_id": -1},
    errors.PriceOutOfRangeError: {"price": 0},
    **SIZED,
    errors.AmountTooSmallError: {"size": 2},
    errors.OrderExpiredError: {"order_id": "mortal"},
    errors.UnknownOrderError: {"order_id": "nobody"},
    errors.NotTheMakerError: {"maker": "m3"},
    errors.OrderNotOpenError: {"order_id": "done"},
    errors.MarketNotOpenError: {"order_id": "frozen", "maker": "m1"},
    errors.InsufficientBalanceError: {"size": 20_000},
    errors.PostOnlyWouldCrossError: {"post_only": True},
    errors.TooManyTradesError: {"price": 62},
}
"""For each rule on a replacement, fields that break it."""


@pytest.mark.parametrize(
    ("error", "fields"),
    [*zip(CHANGE, CHANGE.values(), strict=True), *pairs(CHANGE)],
)
def test_the_first_of_the_rules_on_a_cancel(matcher, error, fields):
    known = {"order_id": "bid", "maker": "m2", "now_ms": NOW_MS}
    refuse_first(matcher, error, Cancel(**known | fields))


ON_REDUCE = {
    error: (CHANGE | SIZED)[error] for error in REFUSALS.values() if error in CHANGE | SIZED
}

# An order that is not there has neither a lot nor a smallest size.
NOBODY_HAS_NO_TERMS = {"INVALID_AMOUNT-UNKNOWN_ORDER", "AMOUNT_TOO_SMALL-UNKNOWN_ORDER"}


@pytest.mark.parametrize(
    ("error", "fields"),
    [*zip(ON_REDUCE, ON_REDUCE.values(), strict=True), *pairs(ON_REDUCE, NOBODY_HAS_NO_TERMS)],
)
def test_the_first_of_the_rules_on_a_reduction(matcher, error, fields):
    """All of them break the last rule as well, that a reduction must reduce."""
    known = {"order_id": "bid", "maker": "m2", "size": 100, "now_ms": NOW_MS}
    refuse_first(matcher, error, Reduce(**known | fields))


def test_a_reduction_that_does_not_reduce_is_refused_last(matcher):
    command = Reduce(order_id="bid", size=100, now_ms=NOW_MS)
    refuse_first(matcher, errors.SizeNotReducedError, command)


@pytest.mark.parametrize(
    ("error", "fields"),
    [*zip(REPLACE, REPLACE.values(), strict=True), *pairs(REPLACE, NOBODY_HAS_NO_TERMS)],
)
def test_the_first_of_the_rules_on_a_replacement(matcher, error, fields):
    known = {"order_id": "bid", "maker": "m2", "price": 60, "size": 102, "now_ms": NOW_MS}
    refuse_first(matcher, error, Replace(**known | fields))


# ----- the other commands --------------------------------------------------------------------

TWICE = {"market": "m", "trades": (1, 1)}
OTHERS = [
    (errors.InvalidTimeError, CancelAll(maker=5, now_ms=-1)),
    (errors.ClockWentBackError, CancelAll(maker=5, now_ms=0)),
    (errors.InvalidCommandError, CancelAll(maker=5, market="nowhere")),
    (errors.UnknownMarketError, CancelAll(maker="m1", market="nowhere")),
    (errors.MarketNotOpenError, CancelAll(maker="m1", market="shut")),
    (errors.ClockWentBackError, SetNonce(maker=5, nonce=-1, now_ms=0)),
    (errors.InvalidCommandError, SetNonce(maker="m3", nonce=-1)),
    (errors.InvalidCommandError, SetMode(market="nowhere", mode=0)),
    (errors.UnknownMarketError, SetMode(market="nowhere", mode=Mode.OPEN)),
    (errors.ClockWentBackError, SetLimits(limits=None, now_ms=0)),
    (errors.ClockWentBackError, SetBalance(wallet=5, asset="", amount=-1, now_ms=0)),
    (errors.ClockWentBackError, Settled(**TWICE, now_ms=0)),
    (errors.InvalidCommandError, Settled(**TWICE)),
    (errors.InvalidCommandError, Settled(**TWICE | {"market": "nowhere"})),
    (errors.UnknownMarketError, Settled(market="nowhere", trades=(1,))),
    (errors.InvalidCommandError, SettleFailed(market="nowhere", trade=1, wallet=5)),
    (errors.UnknownMarketError, SettleFailed(market="nowhere", trade=1)),
    (errors.UnknownTradeError, SettleFailed(market="m", trade=1)),
    (errors.ClockWentBackError, Batch(commands=None, now_ms=0)),
    (errors.InvalidCommandError, Batch(commands=(Cancel(order_id="bid"),) * 3 + (None,))),
    (errors.BatchTooLargeError, Batch(commands=(Cancel(order_id="nobody"),) * 4, atomic=True)),
    (errors.DeadlinePassedError, Submit(order=None, deadline_ms=4_999, now_ms=5_000)),
]


@pytest.mark.parametrize(("error", "command"), OTHERS, ids=[repr(each[1])[:60] for each in OTHERS])
def test_the_first_of_the_rules_on_other_commands(matcher, error, command):
    if command.now_ms == 0 and error is not errors.ClockWentBackError:
        command = msgspec.structs.replace(command, now_ms=NOW_MS)
    refuse_first(matcher, error, command)
