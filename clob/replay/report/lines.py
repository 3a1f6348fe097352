"""Scales, time axes and SVG paths of figures, with whole numbers only.

Functions that draw take the CSS class of the colour.

Long tables are reduced exactly to the lowest, highest and last value of each column of time. A
value holds until the next one, so a column without events shows the value before it. A figure is
two units wide per column, so that a column has a middle.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.io.numerals import Integers, Mask
from clob.replay.report.formats import DAY_NS, HOUR_NS, MINUTE_NS, clock, date, has_date
from clob.replay.report.tags import Markup, tag

LAST_NS = 2**63 - 1
"""The latest time that 63 bits hold."""


class Span(NamedTuple):
    """The time range of a figure, in columns of equal width."""

    start_ns: int
    last_ns: int
    """The last time in the last column; not before ``start_ns``."""
    columns: int
    """The number of columns, 1 or more."""
    detail: int = 1
    """The number of fine columns in each, for readers who zoom in."""

    @property
    def width_ns(self) -> int:
        """The length of the range."""
        return self.last_ns - self.start_ns + 1

    @property
    def fine(self) -> "Span":
        """The same range in fine columns; each column has the same number of them."""
        return Span(self.start_ns, self.last_ns, self.columns * self.detail)

    def begins(self) -> list[int]:
        """Return the first time of each column, and the end of the last."""
        width, count = self.width_ns, self.columns
        return [self.start_ns - (-width * column // count) for column in range(count + 1)]

    def edges(self, times: Integers) -> list[int]:
        """Return for each of :meth:`begins` the number of sorted times before it."""
        begins = self.begins()
        # The end of the last column may exceed 63 bits.
        places = np.searchsorted(times, np.array([min(one, LAST_NS) for one in begins], np.int64))
        return [
            len(times) if begin > LAST_NS else place
            for begin, place in zip(begins, places.tolist(), strict=True)
        ]

    def column(self, ts_ns: int) -> int:
        """Return the column of a time; times outside belong to the first or the last one."""
        place = (ts_ns - self.start_ns) * self.columns // self.width_ns
        return min(max(place, 0), self.columns - 1)


class Columns(NamedTuple):
    """A value over time, reduced to columns; None for columns without a value."""

    low: list[int | None]
    high: list[int | None]
    last: list[int | None]
    """The value at the end of each column."""

    def bounds(self) -> tuple[int, int] | None:
        """Return the lowest and the highest value, or None if there are no values."""
        lows = [value for value in self.low if value is not None]
        highs = [value for value in self.high if value is not None]
        return (min(lows), max(highs)) if lows else None


def reduce_steps(
    times: Integers,
    values: npt.NDArray[Any],
    span: Span,
    exists: Mask | None = None,
) -> Columns:
    """Reduce a step function to columns. O(rows).

    Args:
        times: the start of each value, in ns; an earlier time than the one before counts as that.
        values: integers, or Python integers as objects.
        span: the columns. The latest value before them holds at the start of the first.
        exists: whether there is a value from each time on; None means always.

    Returns:
        The exact lowest, highest and last value of each column.
    """
    order = np.maximum.accumulate(times)
    edges = np.array(span.edges(order), np.int64)
    starts, stops = edges[:-1], edges[1:]
    begins = np.array([min(one, LAST_NS) for one in span.begins()[:-1]], np.int64)
    # The value before the column belongs to it, unless another one starts with the column.
    held = starts > 0
    inside = np.flatnonzero(held & (starts < stops))
    held[inside] = order[starts[inside]] != begins[inside]
    firsts = np.where(held, starts - 1, starts)
    known = np.ones(len(values), np.bool_) if exists is None else exists
    rows, counts = np.flatnonzero(known), np.cumsum(known)
    # Places of the first and behind the last known value of each column.
    firsts, ends = (np.concatenate(([0], counts))[places] for places in (firsts, stops))
    low, high = (_reduced(kind, values[rows], firsts, ends) for kind in (np.minimum, np.maximum))
    last = [int(values[stop - 1]) if stop and known[stop - 1] else None for stop in stops.tolist()]
    return Columns(low, high, last)


def _reduced(
    kind: np.ufunc, values: npt.NDArray[Any], firsts: Integers, ends: Integers
) -> list[int | None]:
    """Return the least or greatest of each range of values; None for empty ranges."""
    found: list[int | None] = [None] * len(firsts)
    full = np.flatnonzero(firsts < ends)
    if len(full):
        # Every second result is that of a range; the value behind the end is only a limit.
        limits = np.stack([firsts[full], ends[full]], axis=1).ravel()
        reduced = kind.reduceat(np.concatenate((values, values[-1:])), limits)[::2]
        for place, value in zip(full.tolist(), reduced.tolist(), strict=True):
            found[place] = value
    return found


def coarsen(columns: Columns, detail: int) -> Columns:
    """Combine each ``detail`` columns into one, exactly as if reduced to the wider ones.

    Each column must be a nanosecond long or longer.
    """
    low, high, last = columns
    groups = range(0, len(last), detail)

    def combine(kind: Callable[[Iterable[int]], int], parts: list[int | None]) -> list[int | None]:
        known = ([one for one in parts[at : at + detail] if one is not None] for at in groups)
        return [kind(some) if some else None for some in known]

    return Columns(combine(min, low), combine(max, high), last[detail - 1 :: detail])


def add_up(times: Integers, values: Integers, span: Span) -> list[int]:
    """Return the exact sum of each column of values by time; values outside are left out."""
    edges = span.edges(np.maximum.accumulate(times))
    return [sum(values[start:stop].tolist()) for start, stop in itertools.pairwise(edges)]


HEIGHT = 10_000
"""The height of the drawing area of a figure, in units."""

_SECONDS = [10**power * unit for power in range(10) for unit in (1, 2, 5)]
_SECONDS += [count * 10**9 for count in (10, 15, 30)]
_MINUTES = [count * MINUTE_NS for count in (1, 2, 5, 10, 15, 30)]
_HOURS = [count * HOUR_NS for count in (1, 2, 3, 6, 12)]
_DAYS = [10**power * unit * DAY_NS for power in range(6) for unit in (1, 2, 5)]
STEPS_NS = sorted([*_SECONDS, *_MINUTES, *_HOURS, *_DAYS])
"""Steps of a time axis."""


class Mark(NamedTuple):
    """A line of the grid."""

    place: int
    """Position in ten-thousandths of the width, or of the height from the top."""
    label: str


class Scale(NamedTuple):
    """The values at the bottom and, above it, at the top of a figure."""

    low: int
    high: int

    def y(self, value: int) -> int:
        """Return the height of a value from the top, in units.

        Values outside the scale are clipped just outside the figure, so that numbers stay short.
        """
        place = (self.high - value) * HEIGHT // (self.high - self.low)
        return min(max(place, -HEIGHT), 2 * HEIGHT)


def scale_of(low: int, high: int, *, zero: bool = False) -> Scale:
    """Make a scale with some margin; with ``zero`` it includes 0."""
    if zero:
        low, high = min(low, 0), max(high, 0)
    air = max((high - low) // 16, 1)
    return Scale(low - air, high + air)


def round_step(width: int, most: int) -> int:
    """Return the smallest step of 1, 2 or 5 times a power of ten with at most ``most`` pieces.

    >>> round_step(98, 5), round_step(4, 5)
    (20, 1)
    """
    units: Iterator[int] = (10**power * unit for power in itertools.count() for unit in (1, 2, 5))
    return next(step for step in units if step * most >= width)


def multiples(low: int, high: int, step: int) -> list[int]:
    """List the multiples of a step from low to high, both included."""
    return list(range(-(-low // step) * step, high + 1, step))


def time_marks(span: Span, most: int = 8) -> list[Mark]:
    """Choose about ``most`` round times at most; midnight shows the date of several days."""
    width = span.width_ns
    step = next((one for one in STEPS_NS if one * most >= width), STEPS_NS[-1])
    decimals = 9 - len(str(step)) + 1 if step < 10**9 else 0
    return [
        Mark((at - span.start_ns) * 10_000 // width, _time_label(at, step, decimals, width))
        for at in multiples(span.start_ns, span.last_ns, step)
    ]


def _time_label(ts_ns: int, step: int, decimals: int, width: int) -> str:
    """Return the shortest unambiguous label of a round time."""
    if step >= DAY_NS or (ts_ns % DAY_NS == 0 and width > DAY_NS):
        day = date(ts_ns)
        return day[5:] if has_date(ts_ns) and width < 200 * DAY_NS else day
    time = clock(ts_ns, decimals)
    return time[:-3] if step % MINUTE_NS == 0 else time


ROW = HEIGHT // 200
"""The height of the cells for thinning dots, per column of their width."""


def line(columns: Columns, scale: Scale, colour: str) -> Markup:
    """Draw a step line; a column with several values spans from the lowest to the highest."""
    return tag("path", class_=f"line {colour}", d=steps(columns, scale))


def steps(columns: Columns, scale: Scale) -> str:
    """Return the path of a step line, with gaps where there is no value."""
    commands: list[str] = []
    pen: int | None = None
    x = 0
    for column, (low, high, last) in enumerate(zip(*columns, strict=True)):
        x = 2 * column + 1
        if low is None or high is None:
            if pen is not None:
                commands.append(f"H{x - 1}")
            pen = None
            continue
        bottom, top = scale.y(low), scale.y(high)
        end = (bottom + top) // 2 if last is None else scale.y(last)
        if pen is None:
            commands.append(f"M{x - 1} {end}")
        elif bottom == top == pen:
            continue
        commands.append(f"H{x}" + "".join(f"V{y}" for y in _turns(pen, bottom, top, end)))
        pen = None if last is None else end
    return "".join(commands) + (f"H{x + 1}" if pen is not None else "")


def _turns(pen: int | None, bottom: int, top: int, end: int) -> list[int]:
    """Return the heights to draw to within a column, the nearer extreme first."""
    turns: list[int] = []
    for y in sorted((bottom, top), key=lambda y: abs(y - (end if pen is None else pen))):
        if y != (turns[-1] if turns else pen):
            turns.append(y)
    return turns if turns and turns[-1] == end else [*turns, end]


def band(
    lower: Sequence[int | None], upper: Sequence[int | None], scale: Scale, colour: str
) -> Markup:
    """Fill each column between two values, if there are both."""
    path = ""
    for column, (below, above) in enumerate(zip(lower, upper, strict=True)):
        if below is not None and above is not None and scale.y(below) != scale.y(above):
            path += f"M{2 * column} {scale.y(below)}V{scale.y(above)}h2V{scale.y(below)}"
    return tag("path", class_=f"fill {colour}", d=path)


def thin(places: Iterable[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Drop neighbouring dots until few enough are left.

    Args:
        places: column and height in units.
        most: the maximum number of dots, 1 or more.

    Returns:
        The first dot in each cell of the finest grid that suffices.
    """
    kept_dots = sorted(set(places))
    cell = 1
    while len(kept_dots) > most:
        cell *= 2
        kept: dict[tuple[int, int], tuple[int, int]] = {}
        for column, y in kept_dots:
            # Heights are never below -HEIGHT, so that finally all dots are in one cell.
            kept.setdefault((column // cell, (y + HEIGHT) // (ROW * cell)), (column, y))
        kept_dots = list(kept.values())
    return kept_dots


def dots(places: Iterable[tuple[int, int]], colour: str) -> Markup:
    """Draw round dots at columns and heights; the CSS class sets colour and size."""
    path = "".join(f"M{2 * column + 1} {y}h0" for column, y in sorted(set(places)))
    return tag("path", class_=f"dots {colour}", d=path)


def grid(heights: Iterable[int], places: Iterable[int], width: int) -> Markup:
    """Draw the lines of the grid.

    Args:
        heights: of horizontal lines, in ten-thousandths from the top.
        places: of vertical lines, in ten-thousandths from the left.
        width: the width of the drawing, in units.
    """
    path = "".join(f"M0 {y}H{width}" for y in heights)
    path += "".join(f"M{place * width // 10_000} 0V{HEIGHT}" for place in places)
    return tag("path", class_="grid", d=path)


def level(y: int, width: int) -> Markup:
    """Draw a horizontal reference line at a height, in units."""
    return tag("path", class_="level", d=f"M0 {y}H{width}")
