"""Delays of messages: uniform, by quantiles, lognormal, or measured.

A delay is a function of :class:`~clob.replay.samples.synthetic.Draws`, or a
:class:`MeasuredDelays`, which depends on the time. All are made of integers and can be pickled, so
a seed draws the same delays on every machine and Python version.
"""

import dataclasses
import functools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import (
    FilePath,
    is_parquet,
    need_pyarrow,
    open_bytes,
    parquet_errors,
    plain_name,
)
from clob.replay.samples.synthetic import Draws


def check_delay(delay_ns: object) -> int:
    """Return a delay, or raise ``ValueError`` if it is not an integer of 0 or more."""
    if type(delay_ns) is not int or delay_ns < 0:
        raise ValueError(f"a delay must be an integer of 0 or more (ns); got {delay_ns!r}")
    return delay_ns


@dataclasses.dataclass(frozen=True)
class UniformDelay:
    """A delay that is equally likely anywhere in a range, both ends included."""

    low_ns: int
    high_ns: int

    def __call__(self, draws: Draws) -> int:
        """Draw a delay in ns."""
        return draws.between(self.low_ns, self.high_ns)


def between(low_ns: int, high_ns: int) -> UniformDelay:
    """Return a delay that is drawn uniformly from a range.

    Args:
        low_ns: the shortest delay.
        high_ns: the longest delay, included.

    Returns:
        A function to pass to :class:`~clob.replay.sim.latency.Latency`.

    Raises:
        ValueError: a bound is not an integer of 0 or more, or the range is empty.
    """
    if not check_delay(low_ns) <= check_delay(high_ns):
        raise ValueError(f"low_ns must not exceed high_ns; got {low_ns} and {high_ns}")
    return UniformDelay(low_ns, high_ns)


PARTS = 100_000_000
"""Parts of a distribution: percentages have up to six decimals."""


@dataclasses.dataclass(frozen=True)
class QuantileDelay:
    """A delay with known quantiles, linear between them and constant outside."""

    parts: tuple[int, ...]
    """The share of delays below each value, of ``PARTS``; increasing."""
    values_ns: tuple[int, ...]
    """The values."""

    def __call__(self, draws: Draws) -> int:
        """Draw a delay in ns."""
        part = draws.between(0, PARTS - 1)
        place = bisect_right(self.parts, part)
        if place in (0, len(self.parts)):
            return self.values_ns[min(place, len(self.parts) - 1)]
        start, end = self.parts[place - 1], self.parts[place]
        low, high = self.values_ns[place - 1], self.values_ns[place]
        return low + (high - low) * (part - start) // (end - start)


def quantiles(values_ns: Mapping[int | float | str, int]) -> QuantileDelay:
    """Return a delay that is drawn from quantiles.

    Args:
        values_ns: delays by percentage, such as ``{0: 10**6, 50: 2 * 10**6, "99.9": 10**7}``.
            Delays are linear between two percentages, and constant below the first and above the
            last.

    Raises:
        ValueError: there is none, a percentage is not from 0 to 100 with up to six decimals, or a
            delay is not an integer of 0 or more, or is below that of a smaller percentage.
    """
    points = sorted((_part(percent), check_delay(delay)) for percent, delay in values_ns.items())
    if not points:
        raise ValueError("quantiles needs one or more percentages; got none")
    for (before, low), (part, high) in pairwise(points):
        if part == before or high < low:
            raise ValueError(
                f"quantiles must not decrease; got {low} ns at {_percent(before)} % and "
                f"{high} ns at {_percent(part)} %"
            )
    return QuantileDelay(*zip(*points, strict=True))


def _part(percent: float | str) -> int:
    try:
        parts = Decimal(str(percent)) * (PARTS // 100)
        if 0 <= parts <= PARTS and parts == int(parts):
            return int(parts)
    except ArithmeticError:
        pass
    raise ValueError(f"a percentage must be from 0 to 100, with 6 decimals; got {percent!r}")


def _percent(part: int) -> str:
    return f"{Decimal(part) / (PARTS // 100):f}"


@dataclasses.dataclass(frozen=True)
class SampledDelay:
    """A delay that is drawn from values, all equally likely."""

    values_ns: tuple[int, ...] = dataclasses.field(repr=False)

    def __call__(self, draws: Draws) -> int:
        """Draw a delay in ns."""
        return self.values_ns[draws.between(0, len(self.values_ns) - 1)]


def sampled(values_ns: Sequence[int]) -> SampledDelay:
    """Return a delay that is drawn from measured values, all equally likely.

    Args:
        values_ns: one or more delays.

    Raises:
        ValueError: there is none, or one is not an integer of 0 or more.
    """
    if not len(values_ns):
        raise ValueError("sampled needs one or more delays; got none")
    return SampledDelay(tuple(map(check_delay, values_ns)))


CELLS = 2_048
"""Values of a lognormal delay; the largest is its quantile at 99.98 per cent."""

Z_99 = Decimal("2.32634787404084110089")
"""The quantile of the standard normal distribution at 99 per cent."""

ROOT_2_PI = Decimal("2.50662827463100050241577")

DIGITS = Context(prec=24)
"""Exponentials of decimals are rounded correctly, unlike those of floats, hence equal anywhere."""


def lognormal(median_ns: int, p99_ns: int) -> SampledDelay:
    """Return a delay with a lognormal distribution, as ``CELLS`` equally likely values.

    Args:
        median_ns: half of the delays are below, 1 or more.
        p99_ns: 99 per cent of the delays are below; not less than the median.

    Raises:
        ValueError: a delay is out of range.
    """
    if not 1 <= check_delay(median_ns) <= check_delay(p99_ns):
        raise ValueError(
            f"a lognormal delay needs 1 <= median_ns <= p99_ns; got {median_ns} and {p99_ns}"
        )
    with localcontext(DIGITS):
        sigma = (Decimal(p99_ns) / median_ns).ln() / Z_99
        upper = [(sigma * z).exp() for z in _normal_quantiles()]
        values = [median_ns / factor for factor in reversed(upper)]
        values += [median_ns * factor for factor in upper]
        return SampledDelay(tuple(int(value.to_integral_value()) for value in values))


@functools.cache
def _normal_quantiles() -> tuple[Decimal, ...]:
    """Return the quantiles of the standard normal distribution in the middle of each upper cell."""
    found = []
    with localcontext(DIGITS):
        z = Decimal(0)
        for cell in range(CELLS // 2):
            area = (Decimal(cell) + Decimal("0.5")) / CELLS
            step = Decimal(1)
            while abs(step) > Decimal("1e-12"):
                # Newton's step is exact to twice the digits of the one before.
                step = area * ROOT_2_PI * (z * z / 2).exp() - _series(z)
                z += step
            found.append(z)
    return tuple(found)


def _series(z: Decimal) -> Decimal:
    """Return the area of the normal distribution from 0 to z, divided by its density at z."""
    term = total = z
    odd = 1
    while abs(term) > Decimal("1e-22"):
        odd += 2
        term = term * z * z / odd
        total += term
    return total


@dataclasses.dataclass(frozen=True)
class MeasuredDelays:
    """Delays that were measured over time: a message takes as long as the last one before it.

    Messages before the first measurement take as long as that.
    """

    ts_ns: tuple[int, ...] = dataclasses.field(repr=False)
    """Times of the measurements, not decreasing."""
    values_ns: tuple[int, ...] = dataclasses.field(repr=False)
    """The delays."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for no or invalid measurements."""
        if not self.ts_ns or len(self.ts_ns) != len(self.values_ns):
            raise ValueError(
                "measured delays need one or more times, and a delay for each; got "
                f"{len(self.ts_ns)} and {len(self.values_ns)}"
            )
        for delay in self.values_ns:
            check_delay(delay)
        for place, (before, time) in enumerate(pairwise(self.ts_ns), 1):
            if time < before:
                raise ValueError(
                    f"times of measured delays must not decrease; got {time} after {before} "
                    f"(measurement {place})"
                )

    def at(self, sent_ns: int) -> int:
        """Return the delay of a message in ns.

        Args:
            sent_ns: when it is sent.
        """
        return self.values_ns[max(bisect_right(self.ts_ns, sent_ns) - 1, 0)]


Delay: TypeAlias = int | Callable[[Draws], int] | MeasuredDelays
"""Nanoseconds: a constant, a function that draws a value for each message, or measurements."""


# ----- files ---------------------------------------------------------------------------------

EXPECTED = "columns ts_ns and ns (delays over time), or ns alone (samples), as integers"


def read_delays(path: FilePath) -> SampledDelay | MeasuredDelays:
    """Read measured delays from a file.

    Args:
        path: a ``.npz`` file with arrays ``ts_ns`` and ``ns``, or ``ns`` alone; or a Parquet or
            CSV file with such columns. A CSV file may be compressed; without column names it has
            one column of delays, or two of times and delays.

    Returns:
        Delays by time, or without times samples that are equally likely.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: it has other columns, no rows, times that decrease, or values that are
            not integers, or delays below 0.
    """
    if is_parquet(path):
        columns = _parquet_columns(path)
    elif os.fspath(path).endswith(".npz"):
        columns = _npz_columns(path)
    else:
        columns = _text_columns(path)
    if "ns" not in columns or columns.keys() - {"ts_ns", "ns"}:
        got = ", ".join(columns) or "none"
        raise ReplayFormatError(f"{plain_name(path)}: expected {EXPECTED}; got columns {got}")
    try:
        if "ts_ns" in columns:
            return MeasuredDelays(tuple(columns["ts_ns"]), tuple(columns["ns"]))
        return sampled(columns["ns"])
    except ValueError as error:
        raise ReplayFormatError(f"{plain_name(path)}: {error}") from error


def _parquet_columns(path: FilePath) -> dict[str, list[int]]:
    with parquet_errors(path):
        table = need_pyarrow().read_table(path)
    return _integers(path, {name: table[name].to_numpy() for name in table.column_names})


def _npz_columns(path: FilePath) -> dict[str, list[int]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return _integers(path, {name: arrays[name] for name in arrays.files})
    except (ValueError, EOFError) as error:
        raise ReplayFormatError(f"{plain_name(path)}: expected {EXPECTED}; {error}") from error


def _integers(path: FilePath, columns: Mapping[str, Any]) -> dict[str, list[int]]:
    for name, column in columns.items():
        if column.ndim != 1 or column.dtype.kind not in "iu":
            text = f"array {name} is of {column.ndim} dimensions and type {column.dtype}"
            raise ReplayFormatError(f"{plain_name(path)}: expected {EXPECTED}; {text}")
    return {name: column.tolist() for name, column in columns.items()}


def _text_columns(path: FilePath) -> dict[str, list[int]]:
    rows = _cells(path)
    line, first = next(rows, (1, []))
    names = ["ts_ns", "ns"] if len(first) == 2 else ["ns"]
    columns: dict[str, list[int]] = {}
    if first and not _is_integer(first[0]):
        names = first
        line, first = next(rows, (line, []))
    columns = {name: [] for name in names}
    while first:
        if len(first) != len(names) or not all(map(_is_integer, first)):
            got = ", ".join(first)
            raise ReplayFormatError(
                f"{plain_name(path)}:{line}: expected {', '.join(names)} as integers; got {got!r}"
            )
        for name, cell in zip(names, first, strict=True):
            columns[name].append(int(cell))
        line, first = next(rows, (line, []))
    return columns


def _is_integer(cell: str) -> bool:
    digits = cell.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 20


def _cells(path: FilePath) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line that is not empty, with its number."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            text = line.decode("utf-8", "replace").strip("\ufeff \t\r\n")
            if text:
                yield number, [cell.strip() for cell in text.replace(";", ",").split(",")]
