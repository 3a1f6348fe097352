"""Where the lines of a grid are, and what stands beside them: round numbers, round times."""

from typing import NamedTuple

from clob.replay.report.columns import Span
from clob.replay.report.words import DAY_NS, HOUR_NS, MINUTE_NS, clock, date, has_date

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
