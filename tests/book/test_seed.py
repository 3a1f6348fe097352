"""``seed``: a batch of orders rests without matching."""

import pytest

from clob import RunRejectedError
from clob.errors import InvalidKindError
from clob.records import Kind
from tests.books import batch, row


def test_seed_returns_the_number_of_orders(book_class):
    book = book_class()
    assert book.seed(batch(*(row(Kind.SEED, i, 0, 50, i) for i in range(1, 6)))) == 5
    assert [order.order_id for order in book.orders()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.SEED])
def test_seed_rejects_other_kinds(book_class, kind):
    book = book_class()
    with pytest.raises(InvalidKindError, match="event 1"):
        book.seed(batch(row(Kind.SEED, 1, 0, 50, 5), row(kind, 2, 0, 50, 5)))
    assert book.seq == 0


def test_seed_stops_at_a_rejection(book_class):
    book = book_class()
    with pytest.raises(RunRejectedError) as caught:
        book.seed(batch(row(Kind.SEED, 1, 0, 50, 5), row(Kind.SEED, 2, 1, 50, 5)))
    assert (caught.value.index, caught.value.code) == (1, "SEED_WOULD_CROSS")
    assert [order.order_id for order in book.orders()] == [1]
