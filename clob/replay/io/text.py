"""Reads exact integers from text: columns of delimited text in blocks, single numbers and dates.

No value passes through a floating-point number.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from clob.replay.io.numerals import (
    MARGIN,
    NEWLINE,
    Integers,
    Mask,
    decimal_fractions,
    marks_of,
    whole_numbers,
)
from clob.replay.io.problems import Problems


class Cells:
    """A block of lines with the same number of cells each; other lines are reported and skipped.

    The last line of the text may lack its newline. ``first`` is the number of the first line,
    counted from 1. Lines with another number of cells and cells that are not numbers are reported
    to ``problems``, which raises ``ReplayFormatError`` if its policy is ``"raise"``.
    """

    def __init__(
        self,
        text: bytes,
        columns: int,
        *,
        file: str,
        first: int,
        problems: Problems,
        separator: bytes = b",",
        expected: str = "",
    ) -> None:
        self._expected = f"expected {expected}; got " if expected else ""
        if b"\r" in text:
            text = text.replace(b"\r", b"")
        self._whole = text.endswith(b"\n")
        self._file, self._problems = file, problems
        padded = b"".join((bytes(MARGIN - 1), b"\n", text, b"" if self._whole else b"\n", bytes(8)))
        self._text = padded
        self._bytes = np.frombuffer(padded, np.uint8)
        marks, ends = marks_of(padded, separator[0])
        count = ends - 1
        if len(marks) == count * columns + 1 and (self._bytes[marks[::columns]] == NEWLINE).all():
            # The usual case: every line has the right number of cells.
            rows = np.arange(count)
            self._marks = [marks[column::columns][:count] for column in range(columns + 1)]
        else:
            lines = np.flatnonzero(self._bytes[marks] == NEWLINE)
            fits = np.diff(lines) == columns
            self._report_shapes(marks, lines, fits, columns, first)
            last = lines[1:][fits]
            self._marks = [marks[last - columns + column] for column in range(columns + 1)]
            rows = np.flatnonzero(fits)
        self.line: Integers = rows + first
        """The line number of each row."""
        self.sound: Mask = np.ones(len(rows), np.bool_)
        """Rows without a bad cell so far; :meth:`rows` reports and drops the others."""
        self._reasons: list[tuple[Mask, int, str]] = []

    def __len__(self) -> int:
        return len(self.line)

    def _report_shapes(
        self, marks: Integers, ends: Integers, fits: Mask, columns: int, first: int
    ) -> None:
        """Report lines with another number of cells; blank lines are skipped silently."""
        for place in np.flatnonzero(~fits).tolist():
            start, end = int(marks[ends[place]]) + 1, int(marks[ends[place + 1]])
            if not self._text[start:end].strip():
                continue
            cut = place == len(fits) - 1 and not self._whole
            kind = "truncated line" if cut else "wrong number of cells"
            count = int(ends[place + 1] - ends[place])
            text = f"expected {columns} cells, got {count}: {excerpt(self._text[start:end])}"
            self._problems.report(kind, text, self._file, first + place)

    def text(self, column: int, row: int) -> bytes:
        """Return one cell unchanged."""
        before, behind = self._bounds(column)
        return self._text[int(before[row]) + 1 : int(behind[row])]

    def _bounds(self, column: int) -> tuple[Integers, Integers]:
        return self._marks[column], self._marks[column + 1]

    def empty(self, column: int) -> Mask:
        """Return a mask of the empty cells of a column."""
        before, behind = self._bounds(column)
        empty: Mask = behind - before == 1
        return empty

    def _checked(self, value: Integers, bad: Mask | None) -> Integers:
        """Mark the rows of bad cells and return the numbers."""
        if bad is not None:
            self.sound &= ~bad
        return value

    def integers(self, column: int, *, signed: bool = False) -> Integers:
        """Read a column of integers, up to 9,219,999,999,999,999,999 in size.

        The value of a bad cell is undefined; :meth:`rows` drops its row.
        """
        return self._checked(*whole_numbers(self._text, *self._bounds(column), signed))

    def decimals(
        self,
        column: int,
        places: int,
        *,
        signed: bool = False,
        other: Callable[[bytes], int | None] | None = None,
        expected: str = "",
    ) -> Integers:
        """Read a column of decimal fractions as integers of ``10**-places``, exactly.

        With two places ``"0.5"`` is 50; a cell with further non-zero digits is bad, unless
        ``other`` returns a number for its text. ``expected`` is that of :meth:`reject`.
        """
        value, bad = decimal_fractions(self._text, *self._bounds(column), places, signed)
        if bad is None:
            return value
        if other is not None:
            for row in np.flatnonzero(bad).tolist():
                found = other(self.text(column, row))
                if found is not None:
                    value[row], bad[row] = found, False
        self.reject(bad, column, expected)
        return value

    def rounded(self, column: int, places: int) -> tuple[Integers, int]:
        """Read a column like :meth:`decimals`, but round further digits, half up.

        Returns:
            The numbers, and how many of them were rounded.
        """
        count = 0

        def round_half_up(text: bytes) -> int | None:
            nonlocal count
            match = LONG_FRACTION.fullmatch(text)
            if match is None:
                return None
            count += 1
            return int(match[1] + match[2][:places]) + (match[2][places] >= FIVE)

        return self.decimals(column, places, other=round_half_up), count

    def words(self, column: int) -> npt.NDArray[np.bytes_]:
        """Read a column of words of up to 16 bytes as ``S16``; longer cells are bad."""
        before, end = self._bounds(column)
        start = before + 1
        length = end - start
        self.sound &= length <= 16
        words = np.ndarray(len(self._text) - 7, "<u8", self._text, strides=(1,))
        halves = np.zeros((len(start), 2), np.uint64)
        for half in range(2):
            count = np.clip(length - 8 * half, 0, 8)
            place = np.where(count > 0, start + 8 * half, 0)
            shift = (np.uint64(64) - (count * 8).astype(np.uint64)) & np.uint64(63)
            halves[:, half] = np.where(count > 0, words[place] << shift >> shift, 0)
        return halves.view("S16")[:, 0]

    def reject(self, bad: Mask, column: int = 0, expected: str = "") -> None:
        """Mark rows as bad, for checks of the caller.

        ``expected`` begins the error text, with the name of the column and the values it may have;
        the cell follows. Without it the text has the whole line.
        """
        self.sound &= ~bad
        if expected:
            self._reasons.append((bad, column, expected))

    def rows(self) -> npt.NDArray[np.intp] | None:
        """Report the bad rows and return the indices of the others; None means all."""
        if self.sound.all():
            return None
        for row in np.flatnonzero(~self.sound).tolist():
            self._problems.report(
                "unreadable line", self._reason(row), self._file, int(self.line[row])
            )
        return np.flatnonzero(self.sound)

    def _reason(self, row: int) -> str:
        """Return the first reason to reject a row."""
        for bad, column, expected in self._reasons:
            if bad[row]:
                return f"{expected}; got {excerpt(self.text(column, row))}"
        start, end = int(self._marks[0][row]) + 1, int(self._marks[-1][row])
        return self._expected + excerpt(self._text[start:end])


def first_line(text: bytes) -> tuple[int, bytes]:
    """Return the first line that is not blank nor a comment (``#``), and how many are before it."""
    lines = text.splitlines()
    found = (
        (number, line)
        for number, line in enumerate(lines)
        if line.strip() and not line.startswith(b"#")
    )
    return next(found, (len(lines), b""))


def excerpt(text: bytes, length: int = 80) -> str:
    """Return the start of a line with control characters escaped, for error texts.

    >>> excerpt(b"34200.1,1,16113575")
    "'34200.1,1,16113575'"
    """
    shown = ascii(text[:length].decode("latin-1"))
    return shown + "..." if len(text) > length else shown


def received(value: object) -> str:
    """Return a value of a JSON message for an error text, at most 80 characters.

    >>> received(None), received("0.5")
    ('null', "'0.5'")
    """
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= 80 else f"{text[:80]}..."


LONG_FRACTION = re.compile(rb"(\d{1,9})\.(\d{10,50})")
"""A number with more digits after the point than a time in nanoseconds."""

FIVE = b"5"[0]

DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
DATE = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-]\d\d)(?::?([0-5]\d))?)?",
    re.ASCII,
)

DIGITS_MAX = 60
"""Longer text is rejected as not being a number."""

SECOND_NS = 10**9

SIZE_MAX, TIME_NS_MAX = 2**53 - 1, 2**63 - 1
"""The largest size in lots, so that 1,000 of them fit 63 bits; the latest time, in year 2262."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def units(text: str | int, places: int) -> int:
    """Read a decimal number as an integer of the unit ``10**-places``.

    >>> units("585.3300", 2), units(".5", 3), units("1.5E3", 0), units(-2, 1)
    (58533, 500, 1500, -20)

    Raises:
        ValueError: the text is not a number, or not a multiple of the unit.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError(f"expected a decimal number, got {received(text)}")
    match = DECIMAL.fullmatch(str(text)) if len(str(text)) <= DIGITS_MAX else None
    whole, fraction = (match[2], match[3] or "") if match else ("", "")
    if match is None or not whole + fraction:
        raise ValueError(f"expected a decimal number, got {received(text)}")
    digits = int(whole + fraction)
    shift = places - len(fraction) + int(match[4] or 0)
    scale: int = 10 ** abs(shift)
    if shift >= 0:
        digits *= scale
    elif digits % scale:
        raise ValueError(f"expected a number of at most {places} decimal places, got {text}")
    else:
        digits //= scale
    return -digits if match[1] == "-" else digits


def lots_of(text: str | int, places: int) -> int:
    """Read a size as lots of ``10**-places``, 0 to ``SIZE_MAX``.

    >>> lots_of("60.5", 6)
    60500000

    Raises:
        ValueError: the text is not a number, not a multiple of a lot, or out of range.
    """
    lots = units(text, places)
    if not 0 <= lots <= SIZE_MAX:
        raise ValueError(f"size must be 0 to {SIZE_MAX:,} lots, got {text}")
    return lots


def time_ns(count: int, unit_ns: int) -> int:
    """Convert a Unix time to nanoseconds.

    >>> time_ns(1757908892000, 10**6)
    1757908892000000000

    Raises:
        ValueError: the result is not 0 to ``TIME_NS_MAX``.
    """
    ns = count * unit_ns
    if not 0 <= ns <= TIME_NS_MAX:
        raise ValueError(f"time must be from 1970 to 2262, got {count}")
    return ns


def places_of(text: str | int) -> int:
    """Return the number of digits after the point that a number needs.

    >>> places_of("0.420"), places_of("7"), places_of("0.999")
    (2, 0, 3)

    Raises:
        ValueError: the text is not a number, or needs more than twelve places.
    """
    value = units(text, 12)
    places = 12
    while places and value % 10 == 0:
        value //= 10
        places -= 1
    return places


def date_ns(text: str) -> int:
    """Read a date and time as nanoseconds since 1970; it is in UTC unless it has an offset.

    >>> date_ns("1970-01-02T00:00:00.25"), date_ns("1970-01-01 01:00:00+01:00")
    (86400250000000, 0)

    Raises:
        ValueError: the text is not a date, or is over 292 years from 1970.
    """
    match = DATE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"expected a date and time such as 2026-01-31T09:30:00Z, got {text[:40]!r}"
        )
    since = datetime.fromisoformat(match[1]).replace(tzinfo=UTC) - EPOCH
    seconds = since.days * 86_400 + since.seconds
    if match[3]:
        minutes = int(match[3][1:]) * 60 + int(match[4] or 0)
        seconds += 60 * minutes if match[3][0] == "-" else -60 * minutes
    ns = seconds * SECOND_NS + int((match[2] or "").ljust(9, "0"))
    if abs(ns) > TIME_NS_MAX:
        raise ValueError(f"time must be from 1677 to 2262, got {text[:40]!r}")
    return ns
