"""Deliberate faults: a book that breaks one rule of priority must fail the recorded hour."""

import numpy as np
import pytest

from clob.book._book_py import Book
from clob.events import RemovalReason
from clob.records import Kind
from tests.real.golden import columns, read_golden


class Choosing(Book):
    """The twin with the choice of the resting order taken out, to be replaced by a wrong one."""

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
    """An order that was filled partly goes to the back of its queue."""

    def _trade(self, incoming, resting, events):
        super()._trade(incoming, resting, events)
        if resting.remaining:
            self._sides[resting.side][resting.price].move_to_end(resting.id)


class ReduceRequeues(Book):
    """An order that was made smaller goes to the back of its queue."""

    def _shrink(self, order, size):
        self._sides[order.side][order.price].move_to_end(order.id)
        return super()._shrink(order, size)


@pytest.fixture(scope="module")
def golden():
    return read_golden()


def reproduced(book_class, golden):
    """Count the aggressive orders whose fills are the recorded ones, size, id and order."""
    book = book_class()
    book.seed(golden.seed)
    status = np.zeros(len(golden.events), np.uint8)
    fills = columns(book.run(golden.events, status=status))
    takers = np.flatnonzero(golden.events["kind"] == Kind.IOC)
    return sum(
        np.array_equal(of_event(fills, index), of_event(golden.fills, index)) for index in takers
    )


def of_event(fills, index):
    """Give the fills of one event; they are sorted by it."""
    start, end = np.searchsorted(fills[:, 0], (index, index + 1))
    return fills[start:end]


@pytest.mark.parametrize("sound", [Book, Choosing])
def test_without_a_fault_every_trade_is_reproduced(golden, sound):
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
def test_a_fault_is_caught(golden, mutant, expected):
    """The numbers are those of another program, and ours are only near, within a quarter: a wrong
    book soon refuses commands, and where it stands then depends on how one goes on.
    """
    found = reproduced(mutant, golden)
    assert found < 2_914
    assert found == pytest.approx(expected, rel=0.25)
