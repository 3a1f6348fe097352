"""A command that breaks several rules is rejected with the first in the order of errors.

Submissions pass the quick checks of ``clob/matcher/admission.py`` or get their error from
``clob/matcher/rejections.py``; an admission that is too strict raises ``InvariantError`` there, one
that is too lax accepts the command. So these tests also show that both agree.
"""

import itertools

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clob import (
    Batch,
    Cancel,
    CancelAll,
    CancelSome,
    Funds,
    Limits,
    Mode,
    Reduce,
    Reopen,
    Replace,
    ResetClock,
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
from clob.errors import REJECTIONS
from clob.matcher import rejections
from tests.matchers import buy, funded, market, opened, rejected, sell

NOW_MS = 5_000
HASH = b"\7" * 32


@pytest.fixture
def matcher(matcher_class):
    """A market in which every rule can be broken."""
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


# Fields with "." belong to the command, the others to the order.
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
"""Fields that break each rule on a submission, in the order of :mod:`clob.errors`."""


def submission(fields):
    """Return a valid submission with these fields replaced."""
    command = buy("new", 60, 6, maker="m1", now_ms=NOW_MS, nonce=5)
    inside = {name: value for name, value in fields.items() if name[0] != "."}
    outside = {name[1:]: value for name, value in fields.items() if name[0] == "."}
    order = msgspec.structs.replace(command.order, **inside)
    return msgspec.structs.replace(command, order=order, **outside)


def names(rules):
    return [error.code for error in rules]


def pairs(rules, never=()):
    """Return the pairs of rules that one command can break together, in order."""
    return [
        pytest.param(one, rules[one] | rules[two], id=f"{one.code}-{two.code}")
        for one, two in itertools.combinations(rules, 2)
        if not rules[one].keys() & rules[two].keys() and f"{one.code}-{two.code}" not in never
    ]


def test_rules_are_listed_in_order_of_precedence():
    precedence = list(REJECTIONS.values())
    for rules in (SUBMIT, CHANGE, REPLACE):
        assert list(rules) == sorted(rules, key=precedence.index)


def test_valid_submission_is_accepted(matcher):
    assert matcher.check(submission({})) is None
    matcher.apply(submission({}))


@pytest.mark.parametrize(("error", "fields"), SUBMIT.items(), ids=names(SUBMIT))
def test_each_rule_alone_rejects_a_submission(matcher, error, fields):
    expect_submit_rejection(matcher, error, fields)


# A fill-or-kill order never rests, and must not be post-only.
FOK_NEVER_RESTS = {"TOO_MANY_ORDERS-FOK_NOT_FILLABLE", "POST_ONLY_WOULD_CROSS-FOK_NOT_FILLABLE"}


@pytest.mark.parametrize(("error", "fields"), pairs(SUBMIT, never=FOK_NEVER_RESTS))
def test_first_of_two_broken_rules_rejects_a_submission(matcher, error, fields):
    expect_submit_rejection(matcher, error, fields)


@st.composite
def broken_rules(draw):
    """Draw rules on a submission that can be broken together, in order of precedence."""
    rules, fields = [], {}
    for error in draw(st.lists(st.sampled_from(list(SUBMIT)), min_size=1, max_size=8, unique=True)):
        names = {each.code for each in (*rules, error)}
        if not fields.keys() & SUBMIT[error].keys() and not any(
            set(pair.split("-")) <= names for pair in FOK_NEVER_RESTS
        ):
            rules.append(error)
            fields |= SUBMIT[error]
    return sorted(rules, key=list(SUBMIT).index), fields


@given(broken=broken_rules())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_first_of_any_broken_rules_rejects_a_submission(matcher, broken):
    """Apply, which uses admission, and the list of rules agree on every combination."""
    rules, fields = broken
    expect_submit_rejection(matcher, rules[0], fields)


TIME_RULES = (errors.InvalidTimeError, errors.ClockWentBackError)
BOOK_RULES = (
    errors.PostOnlyWouldCrossError,
    errors.FokNotFillableError,
    errors.TooManyTradesError,
)


@pytest.mark.parametrize("error", [e for e in SUBMIT if e not in TIME_RULES + BOOK_RULES])
def test_list_of_rules_alone_finds_each_broken_rule(matcher, error):
    """Also for rules that are checked by the book before admission would ask for the error."""
    command = submission(SUBMIT[error])
    rejection = rejections.submit_rejection(matcher._engine, command, command.order, NOW_MS)
    assert type(rejection) is error


@pytest.mark.parametrize("error", [None, *BOOK_RULES])
def test_list_of_rules_finds_nothing_in_an_admitted_submission(matcher, error):
    command = submission(SUBMIT[error] if error else {})
    assert matcher._engine.admit(command, command.order, NOW_MS) is not None
    with pytest.raises(errors.InvariantError):
        rejections.submit_rejection(matcher._engine, command, command.order, NOW_MS)


def expect_submit_rejection(matcher, error, fields):
    expect_rejection(matcher, error, submission(fields))


def expect_rejection(matcher, error, command):
    """Expect this rejection, from ``check`` and from ``apply``."""
    expected = matcher.check(command)
    with rejected(matcher, error) as caught:
        matcher.apply(command)
    assert (type(expected), str(expected)) == (error, str(caught.value))


# ----- known orders --------------------------------------------------------------------------

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
"""Fields that break each rule on a cancel; all are rules on reductions and replacements too."""

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
"""Fields that break each rule on a replacement."""


@pytest.mark.parametrize(
    ("error", "fields"),
    [*zip(CHANGE, CHANGE.values(), strict=True), *pairs(CHANGE)],
)
def test_first_broken_rule_rejects_a_cancel(matcher, error, fields):
    known = {"order_id": "bid", "maker": "m2", "now_ms": NOW_MS}
    expect_rejection(matcher, error, Cancel(**known | fields))


ON_REDUCE = {
    error: (CHANGE | SIZED)[error] for error in REJECTIONS.values() if error in CHANGE | SIZED
}

# An unknown order has neither a lot nor a minimum size.
NO_TERMS_WITHOUT_ORDER = {"INVALID_AMOUNT-UNKNOWN_ORDER", "AMOUNT_TOO_SMALL-UNKNOWN_ORDER"}


@pytest.mark.parametrize(
    ("error", "fields"),
    [*zip(ON_REDUCE, ON_REDUCE.values(), strict=True), *pairs(ON_REDUCE, NO_TERMS_WITHOUT_ORDER)],
)
def test_first_broken_rule_rejects_a_reduction(matcher, error, fields):
    """All of them also break the last rule: the size is not reduced."""
    known = {"order_id": "bid", "maker": "m2", "size": 100, "now_ms": NOW_MS}
    expect_rejection(matcher, error, Reduce(**known | fields))


def test_size_not_reduced_is_checked_last(matcher):
    command = Reduce(order_id="bid", size=100, now_ms=NOW_MS)
    expect_rejection(matcher, errors.SizeNotReducedError, command)


@pytest.mark.parametrize(
    ("error", "fields"),
    [*zip(REPLACE, REPLACE.values(), strict=True), *pairs(REPLACE, NO_TERMS_WITHOUT_ORDER)],
)
def test_first_broken_rule_rejects_a_replacement(matcher, error, fields):
    known = {"order_id": "bid", "maker": "m2", "price": 60, "size": 102, "now_ms": NOW_MS}
    expect_rejection(matcher, error, Replace(**known | fields))


# ----- the other commands --------------------------------------------------------------------

TWICE = {"market": "m", "trades": (1, 1)}
OTHERS = [
    (errors.InvalidTimeError, CancelAll(maker=5, now_ms=-1)),
    (errors.ClockWentBackError, CancelAll(maker=5, now_ms=0)),
    (errors.InvalidCommandError, CancelAll(maker=5, market="nowhere")),
    (errors.UnknownMarketError, CancelAll(maker="m1", market="nowhere")),
    (errors.MarketNotOpenError, CancelAll(maker="m1", market="shut")),
    (errors.ClockWentBackError, CancelSome(maker=5, now_ms=0)),
    (errors.InvalidCommandError, CancelSome(side=5, market="nowhere")),
    (errors.InvalidCommandError, CancelSome(accepted_until_ms=-1, market="nowhere")),
    (errors.UnknownMarketError, CancelSome(market="nowhere", token="nothing")),
    (errors.TokenNotInMarketError, CancelSome(maker="m1", market="shut", token="nothing")),
    (errors.MarketNotOpenError, CancelSome(maker="m1", market="shut")),
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
    (errors.InvalidTimeError, ResetClock(spent=None, now_ms=-1)),
    (errors.InvalidCommandError, ResetClock(spent=None)),
    (errors.ClockWentBackError, Reopen(market="nowhere", trades=None, settled=0, now_ms=0)),
    (errors.InvalidCommandError, Reopen(market="nowhere", trades=None, settled=True)),
    (errors.UnknownMarketError, Reopen(market="nowhere", trades=(), settled=True)),
    (errors.ClockWentBackError, Batch(commands=None, now_ms=0)),
    (errors.InvalidCommandError, Batch(commands=(Cancel(order_id="bid"),) * 3 + (None,))),
    (errors.BatchTooLargeError, Batch(commands=(Cancel(order_id="nobody"),) * 4, atomic=True)),
    (errors.DeadlinePassedError, Submit(order=None, deadline_ms=4_999, now_ms=5_000)),
]


@pytest.mark.parametrize(("error", "command"), OTHERS, ids=[repr(each[1])[:60] for each in OTHERS])
def test_first_broken_rule_rejects_other_commands(matcher, error, command):
    if command.now_ms == 0 and error is not errors.ClockWentBackError:
        command = msgspec.structs.replace(command, now_ms=NOW_MS)
    expect_rejection(matcher, error, command)
