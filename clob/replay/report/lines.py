"""What is drawn inside a figure, as paths of SVG with whole numbers only.

A figure of some columns is twice as many units wide, so that a column has a middle.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.report.tables import DAY_NS, HOUR_NS, MINUTE_NS, clock, date, has_date
from clob.replay.report.tags import Markup, tag

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


HEIGHT = 10_000
"""How high the inside of every figure is, in units of its drawing."""

_SECONDS = [10**power * unit for power in range(10) for unit in (1, 2, 5)]
_MINUTES = [count * MINUTE_NS for count in (1, 2, 5, 10, 15, 30)]
_HOURS = [count * HOUR_NS for count in (1, 2, 3, 6, 12)]
_DAYS = [10**power * unit * DAY_NS for power in range(6) for unit in (1, 2, 5)]
STEPS_NS = sorted(
    [step for step in _SECONDS if step < 10**10]
    + [10 * 10**9, 15 * 10**9, 30 * 10**9]
    + _MINUTES
    + _HOURS
    + _DAYS
)
"""The steps of time that people count in."""


class Mark(NamedTuple):
    """A line of the grid."""

    place: int
    """Where it is: in ten-thousandths of the width, or of the height from the top."""
    label: str
    """What stands beside it."""


class Scale(NamedTuple):
    """What the height of a figure shows."""

    low: int
    """What the bottom stands for."""
    high: int
    """What the top stands for; above ``low``."""

    def y(self, value: int) -> int:
        """Give the height of a value, from the top, in units of the drawing.

        Values off the figure lie a little off it, so that no number gets long.
        """
        place = (self.high - value) * HEIGHT // (self.high - self.low)
        return min(max(place, -HEIGHT), 2 * HEIGHT)


def scale_of(low: int, high: int, *, zero: bool = False) -> Scale:
    """Make a scale with some air above and below.

    Args:
        low: the lowest value to show.
        high: the highest.
        zero: whether 0 is shown, too.
    """
    if zero:
        low, high = min(low, 0), max(high, 0)
    air = max((high - low) // 16, 1)
    return Scale(low - air, high + air)


def round_step(width: int, most: int) -> int:
    """Give the smallest step of 1, 2 or 5 and zeros that parts a width in so many pieces.

    >>> round_step(98, 5), round_step(4, 5)
    (20, 1)
    """
    step = 1
    while True:
        for unit in (1, 2, 5):
            if step * unit * most >= width:
                return step * unit
        step *= 10


def multiples(low: int, high: int, step: int) -> list[int]:
    """List the multiples of a step from low to high, both included."""
    return list(range(-(-low // step) * step, high + 1, step))


def time_marks(span: Span, most: int = 8) -> list[Mark]:
    """Choose round times for a time axis.

    Args:
        span: what the axis shows.
        most: how many there are at most, about.

    Returns:
        Their marks; midnight bears the date where there are several days.
    """
    width = span.width_ns
    step = next((one for one in STEPS_NS if one * most >= width), STEPS_NS[-1])
    decimals = 9 - len(str(step)) + 1 if step < 10**9 else 0
    marks = []
    for ts_ns in multiples(span.start_ns, span.last_ns, step):
        place = (ts_ns - span.start_ns) * 10_000 // width
        marks.append(Mark(place, _time_label(ts_ns, step, decimals, width)))
    return marks


def _time_label(ts_ns: int, step: int, decimals: int, width: int) -> str:
    """Say a round time as shortly as its neighbours allow."""
    if step >= DAY_NS or (ts_ns % DAY_NS == 0 and width > DAY_NS):
        told = date(ts_ns)
        return told[5:] if has_date(ts_ns) and width < 200 * DAY_NS else told
    told = clock(ts_ns, decimals)
    return told[:-3] if step % MINUTE_NS == 0 else told


ROW = HEIGHT // 200
"""How high the cells are that dots are thinned by, for each column they are wide."""


def line(columns: Columns, scale: Scale, colour: str) -> Markup:
    """Draw a value in steps; where it had several in a column, from the lowest to the highest.

    Args:
        columns: what to draw.
        scale: what the height stands for.
        colour: the class of its colour.
    """
    return tag("path", class_=f"line {colour}", d=steps(columns, scale))


def steps(columns: Columns, scale: Scale) -> str:
    """Write the path of a line, with gaps where there is no value."""
    told: list[str] = []
    pen: int | None = None
    x = 0
    for column, (low, high, last) in enumerate(zip(*columns, strict=True)):
        x = 2 * column + 1
        if low is None or high is None:
            if pen is not None:
                told.append(f"H{x - 1}")
            pen = None
            continue
        bottom, top = scale.y(low), scale.y(high)
        end = (bottom + top) // 2 if last is None else scale.y(last)
        if pen is None:
            told.append(f"M{x - 1} {end}")
        elif bottom == top == pen:
            continue
        told.append(f"H{x}" + "".join(f"V{y}" for y in _turns(pen, bottom, top, end)))
        pen = None if last is None else end
    return "".join(told) + (f"H{x + 1}" if pen is not None else "")


def _turns(pen: int | None, bottom: int, top: int, end: int) -> list[int]:
    """List the heights to go to in a column, the nearer extreme first, none for nothing."""
    turns: list[int] = []
    for y in sorted((bottom, top), key=lambda y: abs(y - (end if pen is None else pen))):
        if y != (turns[-1] if turns else pen):
            turns.append(y)
    return turns if turns and turns[-1] == end else [*turns, end]


def area(values: Sequence[int | None], scale: Scale, base: int, colour: str) -> Markup:
    """Fill what is between a value for each column and a base.

    Args:
        values: one for each column; nothing is filled where it is None.
        scale: what the height stands for.
        base: the value it is filled from.
        colour: the class of its colour.
    """
    ground = scale.y(base)
    path = "".join(
        f"M{2 * column} {ground}V{y}h2V{ground}"
        for column, y in ((at, scale.y(value)) for at, value in enumerate(values) if value)
        if y != ground
    )
    return tag("path", class_=f"fill {colour}", d=path)


def band(lower: Columns, upper: Columns, scale: Scale, colour: str) -> Markup:
    """Fill what is between the last values of two lines.

    Args:
        lower: the one below.
        upper: the one above.
        scale: what the height stands for.
        colour: the class of its colour.
    """
    path = "".join(
        f"M{2 * column} {scale.y(below)}V{scale.y(above)}h2V{scale.y(below)}"
        for column, (below, above) in enumerate(zip(lower.last, upper.last, strict=True))
        if below is not None and above is not None
    )
    return tag("path", class_=f"fill {colour}", d=path)


def thin(places: Iterable[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Leave out dots next to others until there are few enough to draw.

    Args:
        places: column and height in units of the drawing.
        most: how many there may be, 1 or more.

    Returns:
        The first of those places in each cell of a grid, the finest one that will do.
    """
    found = sorted(set(places))
    cell = 1
    while len(found) > most:
        cell *= 2
        kept: dict[tuple[int, int], tuple[int, int]] = {}
        for column, y in found:
            # No height is below this, so that in the end all lie in one cell.
            kept.setdefault((column // cell, (y + HEIGHT) // (ROW * cell)), (column, y))
        found = list(kept.values())
    return found


def dots(places: Iterable[tuple[int, int]], colour: str) -> Markup:
    """Draw round dots; their size is that of the stroke, however wide the page is.

    Args:
        places: column and height in units of the drawing; equal ones are drawn once.
        colour: the class of their colour and size.
    """
    path = "".join(f"M{2 * column + 1} {y}h0" for column, y in sorted(set(places)))
    return tag("path", class_=f"dots {colour}", d=path)


def grid(heights: Iterable[int], places: Iterable[int], width: int) -> Markup:
    """Draw the lines of the grid.

    Args:
        heights: of the horizontal ones, in ten-thousandths from the top.
        places: of the vertical ones, in ten-thousandths from the left.
        width: how wide the drawing is, in its units.
    """
    path = "".join(f"M0 {y}H{width}" for y in heights)
    path += "".join(f"M{place * width // 10_000} 0V{HEIGHT}" for place in places)
    return tag("path", class_="grid", d=path)


def level(y: int, width: int) -> Markup:
    """Draw a level line across, as that of the beginning.

    Args:
        y: its height, in units of the drawing.
        width: how wide the drawing is.
    """
    return tag("path", class_="level", d=f"M0 {y}H{width}")


# MERGED clob.replay.report.lines: Where the lines of a grid are, and what stands beside them: round numbers, round times.

# MERGED clob.replay.report.lines: Draws down long tables to the columns of a figure: the lowest, highest and last of each, exactly.
#
# A value holds until the next one, so that a column in which nothing happens shows what was before.
