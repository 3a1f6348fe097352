"""Order ids: text and integers, equal hashes, limits, and the numbers of text ids."""

import numpy as np
import pytest

from clob.errors import DuplicateOrderError, InvalidOrderIdError, UnknownOrderError
from clob.records import Kind
from clob.units import ORDER_ID_MAX
from tests.books import batch, bid, buy, event_lines, fill_book, rejected, row, sell

HASH_MODULUS = 2**61 - 1
"""Integers that differ by a multiple of this have equal hashes."""


def namesakes():
    """Return a text id and an integer id with equal hashes."""
    texts = (f"text {i}" for i in range(10_000))
    return next((text, hash(text)) for text in texts if 0 <= hash(text) < HASH_MODULUS)


HOSTILE = [
    0,
    1,
    2,
    ORDER_ID_MAX,
    ORDER_ID_MAX - 1,
    HASH_MODULUS,
    HASH_MODULUS + 1,
    2 * HASH_MODULUS,
    2 * HASH_MODULUS + 1,
    2**32,
    2**32 + 1,
    "0",
    "1",
    "9223372036854775807",
    "9223372036854775808",
    " ",
    "\0",
    "a\0b",
    "a",
    "a\0",
    "\ud800",
    "\udfff\ud800",
    "\U0010ffff",
    "é",
    "e\u0301",
    "x" * 100_000,
    "x" * 99_999 + "y",
    "'",
    "<b>",
    "\n",
    *namesakes(),
]


def test_ids_of_all_kinds_rest_together(book_class):
    assert len(set(HOSTILE)) == len(HOSTILE)
    book = fill_book(book_class(), *(buy(name, 50, 1 + i) for i, name in enumerate(HOSTILE)))
    book.check()
    assert [order.order_id for order in book.orders()] == HOSTILE
    for place, name in enumerate(HOSTILE):
        assert name in book
        assert type(book.order(name).order_id) is type(name)
        assert book.order(name).remaining == 1 + place
        assert book.ahead(name).num_orders == place
        assert book.id_of(book.number_of(name)) == name
        with rejected(book, DuplicateOrderError):
            book.submit(buy(name, 50, 1))
    assert book.fork().state_hash() == book.state_hash()
    assert isinstance(repr(book), str)


def test_ids_of_all_kinds_are_cancelled_one_by_one(book_class):
    book = fill_book(book_class(), *(buy(name, 50, 1) for name in HOSTILE))
    for place, name in enumerate(reversed(HOSTILE)):
        (removed,) = book.cancel(name)
        assert removed.order_id == name
        assert name not in book
        assert len(book) == len(HOSTILE) - place - 1
        book.check()


def test_trades_name_ids_of_all_kinds_exactly(book_class):
    book = fill_book(book_class(), *(buy(name, 50, 1) for name in HOSTILE))
    events = book.submit(sell("taker", 50, len(HOSTILE)))
    assert [event.resting_order_id for event in events[::2]] == HOSTILE


@pytest.mark.parametrize("name", [2**63, 2**63 + 1, 2**64 - 1, 2**64, 10**30, -1, -(2**63)])
def test_integer_ids_of_2_to_the_63_and_more_are_rejected(book_class, name):
    with rejected(book := book_class(), InvalidOrderIdError, ORDER_ID_MAX, name):
        book.submit(buy(name, 50, 1))


def test_numbers_of_text_ids_start_after_the_largest_integer_id(book_class):
    book = fill_book(book_class(), buy(ORDER_ID_MAX, 50, 1), buy("text", 50, 2), buy(1, 50, 3))
    assert book.number_of("text") == ORDER_ID_MAX + 1
    assert event_lines(book.cancel(ORDER_ID_MAX + 1)) == ["removed text cancelled 2"]
    assert event_lines(book.cancel(ORDER_ID_MAX)) == [f"removed {ORDER_ID_MAX} cancelled 1"]
    assert event_lines(book.cancel(1)) == ["removed 1 cancelled 3"]


def test_every_call_accepts_the_number_of_a_text_id(book_class):
    book = fill_book(book_class(), buy("a", 50, 5), buy("b", 50, 5))
    number = book.number_of("b")
    assert number in book
    assert book.order(number).order_id == "b"
    assert book.ahead(number).num_orders == 1
    assert event_lines(book.reduce(number, size=4)) == ["reduced b 4"]
    assert event_lines(book.replace(number, price=51, size=4)) == [
        "removed b replaced 4",
        "added b 4",
    ]
    assert event_lines(book.cancel(number)) == ["removed b cancelled 4"]


def test_a_text_of_digits_is_not_an_integer_id(book_class):
    book = fill_book(book_class(), buy("7", 50, 5))
    with rejected(book, UnknownOrderError, 7):
        book.cancel(7)
    book.run(batch(bid(7, 50, 6)))
    assert [order.order_id for order in book.orders()] == ["7", 7]


def test_a_text_id_gets_a_new_number_each_time_it_rests(book_class):
    book = fill_book(book_class(), buy("a", 50, 1))
    first = book.number_of("a")
    book.cancel("a")
    fill_book(book, buy("a", 50, 1))
    assert book.number_of("a") == first + 1
    with rejected(book, UnknownOrderError, first):
        book.cancel(first)


def test_equal_ids_of_different_objects_are_the_same_id(book_class):
    book = fill_book(book_class(), buy("order-" + "1" * 50, 50, 1), buy(10**15, 50, 1))
    assert "-".join(["order", "1" * 50]) in book
    assert int("1" + "0" * 15) in book


def test_thousands_of_ids_with_equal_hashes_are_found(book_class):
    names = [k * HASH_MODULUS + 5 for k in range(4)]
    names += [2**16 * k for k in range(1, 2_000)] + [2**40 * k for k in range(1, 2_000)]
    names = list(dict.fromkeys(names))
    book = fill_book(book_class(), *(buy(name, 50, 1) for name in names))
    for name in names[::2]:
        book.cancel(name)
    book.check()
    assert [order.order_id for order in book.orders()] == names[1::2]
    fill_book(book, *(buy(name, 50, 1) for name in names[::2]))
    assert [order.order_id for order in book.orders()] == names[1::2] + names[::2]


@pytest.mark.parametrize("first", [1, 2**60 - 6_000, 2**62])
def test_an_id_far_ahead_stays_found_when_dense_ids_reach_it(book_class, first):
    # In the same region of ids, in another one, and at the border of two regions.
    far = [first + 8_000, 2**61 + 7, 2**60 - 1, 2**60]
    book = fill_book(book_class(), *(buy(name, 40, 1) for name in (first - 1, *far)))
    again = batch(*(bid(name, 50, 1) for name in far))
    for start in range(first, first + 10_000, 2_000):
        ids = [name for name in range(start, start + 2_000) if name not in far]
        book.run(batch(*(bid(name, 50, 1) for name in ids)))
        status = np.zeros(len(far), np.uint8)
        book.run(again, status=status)
        assert status.tolist() == [DuplicateOrderError.number] * len(far)
        book.run(batch(*(row(Kind.CANCEL, name) for name in ids)))
    assert [order.order_id for order in book.orders()] == [first - 1, *far]
    for name in (first - 1, *far):
        book.cancel(name)
    book.check()
    assert len(book) == 0


def test_removed_ids_do_not_change_the_state(book_class):
    book = book_class()
    for name in range(20_000):
        book.submit(buy(name, 50, 1))
        book.cancel(name)
    for name in range(2_000):
        book.submit(buy(f"text {name}", 50, 1))
        book.cancel(f"text {name}")
    assert len(book) == 0
    book.check()
    assert book.best_bid is None
