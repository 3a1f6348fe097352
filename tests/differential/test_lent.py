"""``Book.lend`` and ``Book.proceed``: stretches of arrays that were checked once."""

import gc

import numpy as np
import pytest

from clob import RunRejectedError
from clob.records import BEST, FILL
from tests.books import ask, batch, bid, fills_of


def proceed(book, lent, start=0, *, filled=0, told=0, most=None, stop=None, base=0):
    """Proceed to the end of what was lent."""
    return book.proceed(lent, filled, told, most, base, None, 0, False, False, start, stop, None)


def test_what_was_lent_is_written_on(book_class):
    events = batch(ask(1, 50, 5), bid(2, 50, 2), bid(3, 50, 1), bid(4, 40, 1), bid(5, 41, 1))
    fills, bests, kinds = np.zeros(2, FILL), np.zeros(4, BEST), np.full(5, 9, np.uint8)
    lent, book = book_class.lend(events, fills, bests=bests, kinds=kinds), book_class()
    assert proceed(book, lent, stop=2) == (2, 1, 2, False)
    assert proceed(book, lent, 2, filled=1, told=2, stop=3, base=10) == (3, 2, 3, False)
    assert fills["event"].tolist() == [1, 12]
    assert bests["event"].tolist() == [0, 1, 12, 0]
    assert kinds.tolist() == [0, 0, 0, 9, 9]
    assert proceed(book, lent, 3, filled=2, told=3, most=1) == (4, 2, 4, False)
    # No room is left, and none is needed by who asks for none.
    assert proceed(book, lent, 4, filled=2, told=4) == (4, 2, 4, False)
    assert proceed(book, lent, 4, filled=2, told=4, most=0) == (5, 2, 4, False)
    # What was lent is of no book.
    assert proceed(book_class(), lent, most=0)[:3] == (5, 2, 0)


def test_fills_that_do_not_fit_behind_those_written(book_class):
    lent = book_class.lend(batch(ask(1, 50, 5), bid(2, 50, 2)), np.zeros(3, FILL))
    assert proceed(book_class(), lent, filled=3) == (1, 3, 0, False)
    assert proceed(book_class(), lent, filled=2) == (2, 3, 0, False)


def test_what_was_lent_outlives_its_arrays(book_class):
    lent = book_class.lend(batch(ask(1, 50, 5), bid(2, 50, 2)), np.zeros(3, FILL))
    gc.collect()
    assert proceed(book_class(), lent) == (2, 1, 0, False)
    fills = np.zeros(3, FILL)
    lent = book_class.lend(batch(ask(1, 50, 5), bid(2, 50, 2), bid(2, 50, 0)), fills)
    with pytest.raises(RunRejectedError) as caught:
        proceed(book_class(), lent, filled=1)
    assert (caught.value.index, fills_of(caught.value.fills)) == (2, [(1, 1, 2, 2, 50)])
    assert fills["size"].tolist() == [0, 2, 0]


WRITTEN = [{"filled": 3}, {"filled": -1}, {"told": 2}, {"told": -1}, {"most": -1}, {"most": "1"}]


@pytest.mark.parametrize("arguments", [*WRITTEN, {"filled": True}, {"told": 2**64}], ids=str)
def test_wrong_numbers_of_rows(book_class, arguments):
    lent = book_class.lend(batch(bid(1, 40, 1)), np.zeros(2, FILL), bests=np.zeros(1, BEST))
    book = book_class()
    with pytest.raises(ValueError, match=next(iter(arguments))):
        proceed(book, lent, **arguments)
    assert len(book) == 0
    with pytest.raises(ValueError, match="told must be from 0 to 0, not 1"):
        proceed(book, book_class.lend(batch(bid(1, 40, 1)), np.zeros(2, FILL)), told=1)


def test_nothing_but_what_was_lent(book_class):
    arrays = batch(bid(1, 40, 1)), np.zeros(2, FILL)
    for lent in (None, arrays, (*arrays, None, None, None, None)):
        with pytest.raises(TypeError):
            proceed(book_class(), lent)
