"""Deliberate faults: a book that breaks one rule of priority must fail the recorded hour."""

import numpy as np
import pytest

from clob.book._book_py import Book
from clob.events import RemovalReason
from clob.records import Kind
from tests.real.golden import columns, read_golden


class Choosing(Book):
    """The pure Python book with an overridable choice of the resting order."""

    def _choose(self, queue):
        return next(iter(queue.values()))

    def _match(self, incoming, policy, now_s, events):
        levels = self._sides[1 - incoming.side]
        while incoming.remaining and levels:
            price, queue = levels.peekitem(0)
            if not incoming.accepts(price):
                return
            resting = self._choose(queue)
            if resting.expired(now_s):
                self._remove(resting, RemovalReason.EXPIRED, events)
            else:
                self._trade(incoming, resting, events)


class NewestFirst(Choosing):
    """Last in, first out."""

    def _choose(self, queue):
        return next(reversed(queue.values()))


class LargestFirst(Choosing):
    """Size before time; of equal sizes the older."""

    def _choose(self, queue):
        return max(queue.values(), key=lambda order: order.remaining)


class PartialFillRequeues(Book):
    """A partially filled order moves to the end of its queue."""

    def _trade(self, incoming, resting, events):
        super()._trade(incoming, resting, events)
        if resting.remaining:
            self._sides[resting.side][resting.price].move_to_end(resting.id)


class ReduceRequeues(Book):
    """A reduced order moves to the end of its queue."""

    def _shrink(self, order, size):
        self._sides[order.side][order.price].move_to_end(order.id)
        return super()._shrink(order, size)


@pytest.fixture(scope="module")
def golden():
    return read_golden()


def reproduced(book_class, golden):
    """Count the incoming orders whose fills match in size, id and order."""
    book = book_class()
    book.seed(golden.seed)
    status = np.zeros(len(golden.events), np.uint8)
    fills = columns(book.run(golden.events, status=status))
    takers = np.flatnonzero(golden.events["kind"] == Kind.IOC)
    return sum(
        np.array_equal(of_event(fills, index), of_event(golden.fills, index)) for index in takers
    )


def of_event(fills, index):
    """Return the fills of one event; fills are sorted by event."""
    start, end = np.searchsorted(fills[:, 0], (index, index + 1))
    return fills[start:end]


@pytest.mark.parametrize("sound", [Book, Choosing])
def test_correct_book_reproduces_every_trade(golden, sound):
    assert reproduced(sound, golden) == 2_914


@pytest.mark.parametrize(
    ("mutant", "expected"),
    [
        (NewestFirst, 451),
        (LargestFirst, 816),
        (PartialFillRequeues, 1_529),
        (ReduceRequeues, 2_550),
    ],
)
def test_faulty_book_is_detected(golden, mutant, expected):
    """Expected counts are from another program and are matched within a quarter.

    A faulty book soon rejects commands; its later state depends on the handling of rejections.
    """
    result = reproduced(mutant, golden)
    assert result < 2_914
    assert result == pytest.approx(expected, rel=0.25)
