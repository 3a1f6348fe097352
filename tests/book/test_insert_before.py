"""``rest`` with ``before``, which inserts into a queue, and ``behind``, which reads it."""

import random  # noqa: TID251 - seeded

import pytest

from clob import Side, TimeInForce
from clob.errors import (
    DuplicateOrderError,
    InvalidInstructionError,
    InvalidOrderIdError,
    SeedWouldCrossError,
    UnknownOrderError,
)
from tests.books import BOOKS, buy, fill_book, load, rejected, sell


@pytest.fixture
def book(book_class):
    return fill_book(
        book_class(), buy("a", 50, 1), buy("b", 50, 2), buy(3, 50, 3), sell("s", 60, 4)
    )


@pytest.mark.parametrize(
    ("before", "queue"),
    [("a", ["n", "a", "b", 3]), ("b", ["a", "n", "b", 3]), (3, ["a", "b", "n", 3])],
)
def test_an_order_rests_in_front_of_the_named_one(book, before, queue):
    (added,) = book.rest(buy("n", 50, 7), before=before)
    assert (added.order_id, added.remaining, added.seq) == ("n", 7, book.seq)
    assert book.ids() == [*queue, "s"]
    assert [book.behind(order_id) for order_id in queue] == [*queue[1:], None]
    assert book.depth().bids[0].size == 13
    book.check()


def test_before_accepts_a_number(book):
    book.rest(buy("n", 50, 7), before=book.number_of("b"))
    assert book.behind("n") == "b"


def test_a_cancelled_order_can_be_restored_to_its_place(book):
    for order_id, price, size in (("a", 50, 1), ("b", 50, 2), (3, 50, 3)):
        before, behind = book.ids(), book.behind(order_id)
        book.cancel(order_id)
        book.rest(buy(order_id, price, size), before=behind)
        assert book.ids() == before
        book.check()


def test_an_inserted_order_trades_in_queue_order(book):
    book.rest(buy("n", 50, 7), before="b")
    events = book.submit(sell("x", 50, 8, time_in_force=TimeInForce.IOC))
    assert [event.order_id for event in events if type(event).__name__ == "OrderRemoved"] == [
        "a",
        "n",
    ]


@pytest.mark.parametrize(
    ("order", "before", "error"),
    [
        (buy("a", 50, 1), "nobody", DuplicateOrderError),
        (buy("n", 50, 1), 1.5, InvalidOrderIdError),
        (buy("n", 50, 1), "nobody", UnknownOrderError),
        (buy("n", 49, 1), "a", InvalidInstructionError),
        (buy("n", 60, 1), "s", InvalidInstructionError),
        (buy("n", 60, 1), None, SeedWouldCrossError),
    ],
)
def test_invalid_before_is_rejected(book, order, before, error):
    with rejected(book, error):
        book.rest(order, before=before)


def test_behind_of_an_unknown_order_is_rejected(book):
    with rejected(book, UnknownOrderError, "nobody"):
        book.behind("nobody")


def test_both_books_agree_on_random_insertions():
    rng, both = random.Random(7), [load(name)() for name in BOOKS]
    for number in range(2_000):
        ids = both[0].ids()
        if len(ids) > 30 or (ids and rng.random() < 0.3):
            gone = rng.choice(ids)
            assert len({book.behind(gone) for book in both}) == 1
            assert both[0].cancel(gone) == both[1].cancel(gone)
            continue
        side, price = rng.choice([(Side.BUY, 40), (Side.BUY, 41), (Side.SELL, 60)])
        queue = [o.order_id for o in both[0].orders() if (o.side, o.price) == (side, price)]
        order = (buy if side is Side.BUY else sell)(
            number if number % 2 else f"o{number}", price, 5
        )
        before = rng.choice([None, *queue])
        assert both[0].rest(order, 0, before) == both[1].rest(order, 0, before)
        assert both[0].state_bytes() == both[1].state_bytes()
        both[1].check()
