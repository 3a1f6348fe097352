"""A command that breaks several rules is rejected by the first one in order of precedence."""

import itertools

import numpy as np
import pytest

from clob import Order, Side, TimeInForce, errors
from clob.errors import REJECTIONS
from clob.records import Flag, Kind
from tests.books import batch, buy, fill_book, rejected, row, sell
from tests.matcher.test_rejections import RULES


@pytest.fixture
def book(book_class):
    """A book with a few orders, and a lot of 2 wei."""
    return fill_book(
        book_class(token="T", lot_wei=2),
        sell("ask", 60, 4, token="T", maker="m"),
        sell("ask 2", 62, 2, token="T", maker="m"),
        buy("bid", 40, 4, token="T", maker="m"),
        buy("mortal", 30, 4, token="T", expiration_s=1),
    )


def order(**fields):
    """Return an order that is valid for the book except for the given fields."""
    right = {"id": "new", "token": "T", "maker": "m", "side": Side.BUY, "price": 50, "size": 4}
    return Order(**(right | fields))


ENTER = {
    errors.InvalidTimeError: {"now_ms": 2**63},
    errors.InvalidInstructionError: {"self_trade": "none"},
    errors.InvalidSideError: {"side": 2},
    errors.InvalidOrderIdError: {"id": ""},
    errors.InvalidOwnerError: {"maker": None},
    errors.TokenNotInMarketError: {"token": "U"},
    errors.PriceOutOfRangeError: {"price": 100},
    errors.InvalidAmountError: {"size": 9},
    errors.AmountTooLargeError: {"size": 2**96},
    errors.OrderExpiredError: {"expiration_s": 1},
    errors.DuplicateOrderError: {"id": "bid"},
    errors.PostOnlyWouldCrossError: {"post_only": True},
    errors.FokNotFillableError: {"time_in_force": TimeInForce.FOK},
    errors.TooManyTradesError: {"price": 62, "trades_max": 1},
}
"""Rules on a new order, with fields that break each."""

CHANGE = {
    errors.InvalidTimeError: {"now_ms": 2**63},
    errors.InvalidInstructionError: {"self_trade": "none"},
    errors.InvalidOrderIdError: {"order_id": -1},
    errors.PriceOutOfRangeError: {"price": 100},
    errors.InvalidAmountError: {"size": 9},
    errors.AmountTooLargeError: {"size": 2**96},
    errors.UnknownOrderError: {"order_id": "nobody"},
    errors.OrderExpiredError: {"order_id": "mortal"},
    errors.PostOnlyWouldCrossError: {"post_only": True},
    errors.TooManyTradesError: {"price": 62, "trades_max": 1},
}
"""Rules on a replacement, with arguments that break each."""

SHRINK = {
    errors.InvalidTimeError: {"now_ms": 2**63},
    errors.InvalidOrderIdError: {"order_id": -1},
    errors.InvalidAmountError: {"size": 9},
    errors.AmountTooLargeError: {"size": 2**96},
    errors.UnknownOrderError: {"order_id": "nobody"},
}
"""Rules on a reduction, with arguments that break each and ``SIZE_NOT_REDUCED`` as well."""

EVENT = {
    errors.InvalidKindError: {"kind": Kind.LEVEL},
    errors.InvalidInstructionError: {"flags": 0b111 << 4},
    errors.InvalidSideError: {"side": 2},
    errors.InvalidOrderIdError: {"order_id": 2**63},
    errors.InvalidOwnerError: {"owner": 2**31},
    errors.PriceOutOfRangeError: {"price": 100},
    errors.InvalidAmountError: {"size": 0},
    errors.AmountTooLargeError: {"size": 2**63 - 1},
    errors.DuplicateOrderError: {"order_id": 1},
    errors.PostOnlyWouldCrossError: {"flags": int(Flag.POST_ONLY)},
    errors.SeedWouldCrossError: {"kind": Kind.SEED},
    errors.FokNotFillableError: {"flags": int(Flag.FOK)},
}
"""Rules on an event with a new order, with fields that break each."""


def pairs(rules):
    """Pairs of rules that one command can break together, in order of precedence."""
    return [
        pytest.param(one, rules[one] | rules[two], id=f"{one.code}-{two.code}")
        for one, two in itertools.combinations(rules, 2)
        if not rules[one].keys() & rules[two].keys()
    ]


def names(rules):
    return [error.code for error in rules]


def test_error_classes_are_in_order_of_precedence():
    assert sorted(REJECTIONS) == list(range(1, len(REJECTIONS) + 1))
    assert len(set(names(REJECTIONS.values()))) == len(REJECTIONS)
    precedence = list(REJECTIONS.values())
    for rules in (ENTER, EVENT):
        assert list(rules) == sorted(rules, key=precedence.index)


@pytest.mark.parametrize(("error", "fields"), ENTER.items(), ids=names(ENTER))
def test_each_rule_on_a_new_order(book, error, fields):
    assert_submit_rejected(book, error, fields)


# A fill-or-kill order never rests, so it cannot be a duplicate, and it cannot be post-only.
FOK_NEVER_RESTS = {"DUPLICATE_ORDER-FOK_NOT_FILLABLE", "POST_ONLY_WOULD_CROSS-FOK_NOT_FILLABLE"}


@pytest.mark.parametrize(
    ("error", "fields"), [pair for pair in pairs(ENTER) if pair.id not in FOK_NEVER_RESTS]
)
def test_the_first_of_two_rules_on_a_new_order(book, error, fields):
    assert_submit_rejected(book, error, fields)


def assert_submit_rejected(book, error, fields):
    """Submit an order that would trade 4 of its 8 wei without the given fields."""
    fields = {"price": 60, "size": 8, "now_ms": 2_000} | fields
    now_ms, trades_max = fields.pop("now_ms"), fields.pop("trades_max", None)
    for call in (book.submit, book.simulate):
        with rejected(book, error):
            call(order(**fields), now_ms, trades_max)


def test_the_lot_rule_precedes_the_size_limit(book):
    assert_submit_rejected(book, errors.InvalidAmountError, {"size": 2**96 + 1})


@pytest.mark.parametrize(("error", "fields"), CHANGE.items(), ids=names(CHANGE))
def test_each_rule_on_a_replacement(book, error, fields):
    with rejected(book, error):
        book.replace(**({"order_id": "bid", "price": 60, "size": 8, "now_ms": 2_000} | fields))


@pytest.mark.parametrize(("error", "fields"), pairs(CHANGE))
def test_the_first_of_two_rules_on_a_replacement(book, error, fields):
    with rejected(book, error):
        book.replace(**({"order_id": "bid", "price": 60, "size": 8, "now_ms": 2_000} | fields))


@pytest.mark.parametrize(("error", "fields"), SHRINK.items(), ids=names(SHRINK))
def test_each_rule_on_a_reduction(book, error, fields):
    with rejected(book, error):
        book.reduce(**({"order_id": "bid", "size": 8} | fields))


@pytest.mark.parametrize(("error", "fields"), pairs(SHRINK))
def test_the_first_of_two_rules_on_a_reduction(book, error, fields):
    with rejected(book, error):
        book.reduce(**({"order_id": "bid", "size": 8} | fields))


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (errors.InvalidTimeError, {"now_ms": -1, "reason": "x", "order_id": -1}),
        (errors.InvalidInstructionError, {"reason": "x", "order_id": -1}),
        (errors.InvalidOrderIdError, {"order_id": -1}),
        (errors.UnknownOrderError, {"order_id": 5}),
    ],
)
def test_the_first_of_the_rules_on_a_cancel(book, error, fields):
    with rejected(book, error):
        book.cancel(**fields)


@pytest.mark.parametrize(("error", "fields"), EVENT.items(), ids=names(EVENT))
def test_each_rule_on_an_event(book_class, error, fields):
    assert_event_rejected(book_class, error, fields)


# SEED orders never trade, so POST_ONLY changes nothing and FOK is rejected.
A_SEED_NEVER_TRADES = {
    "POST_ONLY_WOULD_CROSS-SEED_WOULD_CROSS",
    "SEED_WOULD_CROSS-FOK_NOT_FILLABLE",
}


@pytest.mark.parametrize(
    ("error", "fields"),
    [pair for pair in pairs(EVENT) if pair.id not in FOK_NEVER_RESTS | A_SEED_NEVER_TRADES],
)
def test_the_first_of_two_rules_on_an_event(book_class, error, fields):
    assert_event_rejected(book_class, error, fields)


def test_a_fill_or_kill_seed_is_rejected(book_class):
    fields = {"kind": Kind.SEED, "flags": int(Flag.FOK)}
    assert_event_rejected(book_class, errors.InvalidInstructionError, fields)


def test_a_crossing_post_only_seed_is_rejected_as_a_crossing_seed(book_class):
    fields = {"kind": Kind.SEED, "flags": int(Flag.POST_ONLY)}
    assert_event_rejected(book_class, errors.SeedWouldCrossError, fields)


def assert_event_rejected(book_class, error, fields):
    """Run an event that would trade 4 of its 8 lots without the given fields."""
    book = book_class(lot_wei=2**40)
    book.run(batch(row(Kind.LIMIT, 1, 1, 60, 4)))
    before = book.state_hash()
    event = {"kind": Kind.LIMIT, "order_id": 2, "side": 0, "price": 60, "size": 8} | fields
    status = np.full(1, 99, np.uint8)
    assert len(book.run(batch(event), status=status)) == 0
    assert REJECTIONS[int(status[0])] is error
    assert book.state_hash() == before
    with pytest.raises(errors.RunRejectedError) as caught:
        book.run(batch(event))
    assert (caught.value.index, caught.value.code, len(caught.value.fills)) == (0, error.code, 0)
    assert book.state_hash() == before


def test_every_error_class_has_a_precedence_test():
    tested = {*ENTER, *CHANGE, *SHRINK, *EVENT, errors.SizeNotReducedError}
    of_a_matcher = {rule[0] for rule in RULES}
    assert tested | of_a_matcher == set(REJECTIONS.values())
    assert tested - of_a_matcher == {errors.InvalidKindError, errors.SeedWouldCrossError}
