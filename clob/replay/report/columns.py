"""Draws down long tables to the columns of a figure: the lowest, highest and last of each, exactly.

A value holds until the next one, so that a column in which nothing happens shows what was before.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LAST_NS = 2**63 - 1
"""The last time there is."""


class Span(NamedTuple):
    """The time a figure shows, in columns of equal width."""

    start_ns: int
    """Where the first column begins."""
    last_ns: int
    """The last time that belongs to the last column; not before ``start_ns``."""
    columns: int
    """How many columns, 1 or more."""

    @property
    def width_ns(self) -> int:
        """How many nanoseconds it shows."""
        return self.last_ns - self.start_ns + 1

    def begins(self) -> list[int]:
        """Give the first time of each column, and that behind the last."""
        width, count = self.width_ns, self.columns
        return [self.start_ns - (-width * column // count) for column in range(count + 1)]

    def edges(self, times: npt.NDArray[np.int64]) -> list[int]:
        """Give of each of :meth:`begins` how many times, which rise, come before it."""
        begins = self.begins()
        # That behind the last may be the first that 63 bits do not hold.
        found = np.searchsorted(times, np.array([min(one, LAST_NS) for one in begins], np.int64))
        return [
            len(times) if begin > LAST_NS else place
            for begin, place in zip(begins, found.tolist(), strict=True)
        ]

    def column(self, ts_ns: int) -> int:
        """Give the column of a time; times before and after belong to the first and the last."""
        place = (ts_ns - self.start_ns) * self.columns // self.width_ns
        return min(max(place, 0), self.columns - 1)


class Columns(NamedTuple):
    """What a figure shows of a value over time; None where there was none."""

    low: list[int | None]
    """The lowest value of each column."""
    high: list[int | None]
    """The highest value of each column."""
    last: list[int | None]
    """The value at the end of each column."""

    def bounds(self) -> tuple[int, int] | None:
        """Give the lowest and the highest value of all, or None where there is none."""
        lows = [value for value in self.low if value is not None]
        highs = [value for value in self.high if value is not None]
        return (min(lows), max(highs)) if lows else None


def reduce_steps(
    times: npt.NDArray[np.int64],
    values: npt.NDArray[Any],
    span: Span,
    there: npt.NDArray[np.bool_] | None = None,
) -> Columns:
    """Draw a value that holds until the next one down to columns.

    Args:
        times: when each value began to hold, in ns. One before its predecessor counts as it.
        values: integers, or Python integers as objects.
        span: the columns. What began to hold before is what the first one begins with.
        there: whether there is a value at all from each time on; None is always.

    Returns:
        The lowest, highest and last value of each column, none of them rounded. O(rows).
    """
    order = np.maximum.accumulate(times) if len(times) else times
    begins = span.begins()
    edges = span.edges(order)
    known = np.ones(len(values), np.bool_) if there is None else there
    low: list[int | None] = []
    high: list[int | None] = []
    last: list[int | None] = []
    for begin, (start, stop) in zip(begins, itertools.pairwise(edges), strict=False):
        # What was before the column is part of it, unless another value began with it.
        first = start - 1 if start and (start == stop or order[start] != begin) else start
        some = values[first:stop][known[first:stop]]
        low.append(int(some.min()) if len(some) else None)
        high.append(int(some.max()) if len(some) else None)
        last.append(int(values[stop - 1]) if stop and known[stop - 1] else None)
    return Columns(low, high, last)


def add_up(times: npt.NDArray[np.int64], values: npt.NDArray[np.int64], span: Span) -> list[int]:
    """Add up what happened in each column.

    Args:
        times: when, in ns, in order.
        values: how much.
        span: the columns; what is outside of them is left out.

    Returns:
        The sum of each column, exact.
    """
    order = np.maximum.accumulate(times) if len(times) else times
    edges = span.edges(order)
    return [sum(values[start:stop].tolist()) for start, stop in itertools.pairwise(edges)]
