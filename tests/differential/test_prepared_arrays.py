"""``Book._lend`` and ``Book._proceed``: many ranges of arrays that were checked once."""

import gc

import numpy as np
import pytest

from clob import RunRejectedError
from clob.records import BEST, FILL
from tests.books import ask, batch, bid, fills_of


def proceed(
    book, arrays, start=0, *, fill_count=0, best_count=0, best_limit=None, stop=None, base=0
):
    """Execute the rest of the arrays."""
    counts = (fill_count, best_count, best_limit)
    return book._proceed(arrays, *counts, base, None, 0, False, False, start, stop, None)


def test_rows_are_appended_to_those_of_earlier_ranges(book_class):
    events = batch(ask(1, 50, 5), bid(2, 50, 2), bid(3, 50, 1), bid(4, 40, 1), bid(5, 41, 1))
    fills, bests, kinds = np.zeros(2, FILL), np.zeros(4, BEST), np.full(5, 9, np.uint8)
    arrays, book = book_class._lend(events, fills, bests=bests, kinds=kinds), book_class()
    assert proceed(book, arrays, stop=2) == (2, 1, 2, False)
    assert proceed(book, arrays, 2, fill_count=1, best_count=2, stop=3, base=10) == (3, 2, 3, False)
    assert fills["event"].tolist() == [1, 12]
    assert bests["event"].tolist() == [0, 1, 12, 0]
    assert kinds.tolist() == [0, 0, 0, 9, 9]
    assert proceed(book, arrays, 3, fill_count=2, best_count=3, best_limit=1) == (4, 2, 4, False)
    # The array of best prices is full, which ends the range unless none are requested.
    assert proceed(book, arrays, 4, fill_count=2, best_count=4) == (4, 2, 4, False)
    assert proceed(book, arrays, 4, fill_count=2, best_count=4, best_limit=0) == (5, 2, 4, False)
    # The arrays are not bound to a book.
    assert proceed(book_class(), arrays, best_limit=0)[:3] == (5, 2, 0)


def test_a_range_ends_before_fills_that_do_not_fit(book_class):
    arrays = book_class._lend(batch(ask(1, 50, 5), bid(2, 50, 2)), np.zeros(3, FILL))
    assert proceed(book_class(), arrays, fill_count=3) == (1, 3, 0, False)
    assert proceed(book_class(), arrays, fill_count=2) == (2, 3, 0, False)


def test_prepared_arrays_hold_their_memory(book_class):
    arrays = book_class._lend(batch(ask(1, 50, 5), bid(2, 50, 2)), np.zeros(3, FILL))
    gc.collect()
    assert proceed(book_class(), arrays) == (2, 1, 0, False)
    fills = np.zeros(3, FILL)
    arrays = book_class._lend(batch(ask(1, 50, 5), bid(2, 50, 2), bid(2, 50, 0)), fills)
    with pytest.raises(RunRejectedError) as caught:
        proceed(book_class(), arrays, fill_count=1)
    assert (caught.value.index, fills_of(caught.value.fills)) == (2, [(1, 1, 2, 2, 50)])
    assert fills["size"].tolist() == [0, 2, 0]


COUNTS = [
    {"fill_count": 3},
    {"fill_count": -1},
    {"fill_count": True},
    {"best_count": 2},
    {"best_count": -1},
    {"best_count": 2**64},
    {"best_limit": -1},
    {"best_limit": "1"},
]


@pytest.mark.parametrize("arguments", COUNTS, ids=str)
def test_invalid_counts_raise_value_error(book_class, arguments):
    arrays = book_class._lend(batch(bid(1, 40, 1)), np.zeros(2, FILL), bests=np.zeros(1, BEST))
    book = book_class()
    with pytest.raises(ValueError, match=next(iter(arguments))):
        proceed(book, arrays, **arguments)
    assert len(book) == 0
    without_bests = book_class._lend(batch(bid(1, 40, 1)), np.zeros(2, FILL))
    with pytest.raises(ValueError, match="best_count must be from 0 to 0; got 1"):
        proceed(book, without_bests, best_count=1)


def test_arrays_that_were_not_prepared_raise_type_error(book_class):
    arrays = batch(bid(1, 40, 1)), np.zeros(2, FILL)
    for wrong in (None, arrays, (*arrays, None, None, None, None)):
        with pytest.raises(TypeError):
            proceed(book_class(), wrong)
