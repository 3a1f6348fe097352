"""Cuts delimited text into cells and reads exact integers out of them, a whole block at a time.

Eight digits are read as one 64-bit word, so a block costs some array operations and no Python per
line. Nothing here goes through a floating-point number.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clob.replay.problems import Problems

Integers: TypeAlias = npt.NDArray[np.int64]
"""One integer for each row."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Which rows are meant."""

MARGIN = 24
"""Bytes before the text, so that three words can end anywhere in it."""

DIGITS_MAX = 19
"""No number of more digits fits 63 bits."""

TOP_MAX = 921
"""The highest number before the last sixteen digits that surely fits 63 bits."""

NEWLINE, MINUS, POINT, ZERO = b"\n"[0], b"-"[0], b"."[0], b"0"[0]

ZEROS = np.uint64(0x3030303030303030)
OVER_NINE = np.uint64(0x7676767676767676)
HIGH_BITS = np.uint64(0x8080808080808080)
BYTES_EVEN, SHORTS_EVEN = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
TENS, HUNDREDS, MYRIADS = np.uint64(2561), np.uint64(6553601), np.uint64(42949672960001)


class Cells:
    """A block of lines with the same number of cells each; others are reported and left out.

    Args:
        text: whole lines; the last may lack its end.
        columns: how many cells a line has.
        file: the file, for reports.
        first: the number of the first line, counted from 1.
        problems: where lines of another shape and cells that are no numbers are reported.
        separator: what stands between cells, one byte.

    Raises:
        ReplayFormatError: a line has another number of cells, and the policy is to raise.
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
    ) -> None:
        if b"\r" in text:
            text = text.replace(b"\r", b"")
        self._whole = text.endswith(b"\n")
        self._file, self._problems = file, problems
        padded = b"".join((bytes(MARGIN - 1), b"\n", text, b"" if self._whole else b"\n", bytes(8)))
        self._bytes = np.frombuffer(padded, np.uint8)
        self._words = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
        ends = self._bytes == NEWLINE
        count = int(np.count_nonzero(ends)) - 1
        marks = np.flatnonzero((self._bytes == separator[0]) | ends)
        if len(marks) == count * columns + 1 and ends[marks[::columns]].all():
            # As it should be: every so many marks a line ends.
            rows = np.arange(count)
            stop = count * columns
            self._marks = [
                marks[column : column + stop - columns + 1 : columns]
                for column in range(columns + 1)
            ]
        else:
            rows = self._well_shaped(marks, np.flatnonzero(ends[marks]), columns, first)
        self.line: Integers = rows + first
        """The number of each row's line."""
        self.sound: Mask = np.ones(len(rows), np.bool_)
        """Which rows have had no bad cell so far; :meth:`rows` reports and drops the others."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.line)

    def _well_shaped(self, marks: Integers, ends: Integers, columns: int, first: int) -> Integers:
        """Find the cells of the lines that have as many as they should, and report the others."""
        fits = np.diff(ends) == columns
        self._report_shapes(marks, ends, fits, columns, first)
        last = ends[1:][fits]
        self._marks = [marks[last - columns + column] for column in range(columns + 1)]
        return np.flatnonzero(fits)

    def _report_shapes(
        self, marks: Integers, ends: Integers, fits: Mask, columns: int, first: int
    ) -> None:
        """Report the lines with another number of cells; empty lines are nobody's fault."""
        for place in np.flatnonzero(~fits).tolist():
            start, end = int(marks[ends[place]]) + 1, int(marks[ends[place + 1]])
            if start == end:
                continue
            cut = place == len(fits) - 1 and not self._whole
            kind = "truncated line" if cut else "wrong number of cells"
            found = int(ends[place + 1] - ends[place])
            text = self._bytes[start:end].tobytes()
            self._problems.report(
                kind,
                f"{found} cells instead of {columns}: {excerpt(text)}",
                self._file,
                first + place,
            )

    def text(self, column: int, row: int) -> bytes:
        """Give one cell as it stands."""
        start, end = self._bounds(column)
        return self._bytes[int(start[row]) : int(end[row])].tobytes()

    def _bounds(self, column: int) -> tuple[Integers, Integers]:
        """Find where the cells of a column begin and end."""
        return self._marks[column] + 1, self._marks[column + 1]

    def integers(self, column: int, *, signed: bool = False) -> Integers:
        """Read a column of whole numbers; the value of a bad cell means nothing.

        Args:
            column: which one, from 0.
            signed: whether a minus may stand before the digits.

        Returns:
            The numbers, up to 9,219,999,999,999,999,999.
        """
        start, end = self._bounds(column)
        if not signed:
            return self._digits(start, end)
        minus = self._bytes[start] == MINUS
        if not minus.any():
            return self._digits(start, end)
        value = self._digits(start + minus, end)
        signs: Integers = 1 - 2 * minus.astype(np.int64)
        signs *= value
        return signs

    def decimals(self, column: int, places: int, *, signed: bool = False) -> Integers:
        """Read a column of decimal fractions as whole numbers of a unit, exactly.

        Args:
            column: which one, from 0.
            places: how many digits behind the point a unit is; digits beyond must be zeros, else
                the cell is bad.
            signed: whether a minus may stand before the digits.

        Returns:
            The numbers: with two places ``"0.5"`` is 50.
        """
        start, end = self._bounds(column)
        minus = self._bytes[start] == MINUS if signed else np.zeros(0, np.bool_)
        signed = bool(minus.any())
        if signed:
            start = start + minus
        point = self._points(start, end)
        behind = np.minimum(point + 1 + places, end)
        scale = 10 ** np.arange(places + 1, dtype=np.int64)
        length = behind - point - 1
        if int(length.min(initial=1)) > 0:
            fraction = self._digits(point + 1, behind) * scale[places - length]
        else:
            fraction = np.zeros(len(start), np.int64)
            has = np.flatnonzero(length > 0)
            digits = self._digits(point[has] + 1, behind[has], has)
            fraction[has] = digits * scale[places - length[has]]
        for row in np.flatnonzero(behind < end).tolist():
            zeros = self._bytes[int(behind[row]) : int(end[row])] == ZERO
            self.sound[row] &= bool(zeros.all())
        value: Integers = self._digits(start, point) * scale[places] + fraction
        # Nineteen digits that do not fit 63 bits fit 64, and so come out negative.
        self.sound &= (point - start + places <= DIGITS_MAX) & (value >= 0)
        if not signed:
            return value
        signs: Integers = 1 - 2 * minus.astype(np.int64)
        signs *= value
        return signs

    def words(self, column: int) -> npt.NDArray[np.bytes_]:
        """Read a column of short words, of up to 16 bytes; longer ones are bad cells.

        Args:
            column: which one, from 0.

        Returns:
            Array of ``S16``.
        """
        start, end = self._bounds(column)
        length = end - start
        self.sound &= length <= 16
        halves = np.zeros((len(start), 2), np.uint64)
        for half in range(2):
            count = np.clip(length - 8 * half, 0, 8)
            place = np.where(count > 0, start + 8 * half, 0)
            shift = (np.uint64(64) - (count * 8).astype(np.uint64)) & np.uint64(63)
            halves[:, half] = np.where(count > 0, self._words[place] << shift >> shift, 0)
        return halves.view("S16")[:, 0]

    def refuse(self, bad: Mask) -> None:
        """Mark rows as bad, for what the caller knows about their cells."""
        self.sound &= ~bad

    def rows(self) -> npt.NDArray[np.intp] | None:
        """Report the bad rows, and give the places of the others; None means all.

        Raises:
            ReplayFormatError: there is a bad row, and the policy is to raise.
        """
        if self.sound.all():
            return None
        for row in np.flatnonzero(~self.sound).tolist():
            start, end = int(self._marks[0][row]) + 1, int(self._marks[-1][row])
            text = self._bytes[start:end].tobytes()
            line = int(self.line[row])
            self._problems.report("unreadable line", excerpt(text), self._file, line)
        return np.flatnonzero(self.sound)

    def _points(self, start: Integers, end: Integers) -> Integers:
        """Find the decimal point of each cell, or its end where it has none."""
        if len(start):
            # Most often all points stand at the same distance; `_digits` refuses any before it.
            guess = start + max(self._bytes[start[0] : end[0]].tobytes().find(POINT), 0)
            if bool((self._bytes[guess] == POINT).all()) and bool((guess < end).all()):
                return guess
        point = end.copy()
        missing = np.ones(len(start), np.bool_)
        for step in range(int((end - start).max(initial=0))):
            place = start + step
            found = missing & (self._bytes[np.minimum(place, end)] == POINT)
            point[found] = place[found]
            missing &= ~found
            if not missing.any():
                break
        return point

    def _digits(
        self, start: Integers, end: Integers, rows: npt.NDArray[np.intp] | None = None
    ) -> Integers:
        """Read digits from ``start`` to ``end``, and mark the rows where something else stands."""
        length = end - start
        longest = int(length.max(initial=0))
        bad = (length < 1) | (length > DIGITS_MAX)
        if longest <= 1:
            digit = self._bytes[start] - np.uint8(ZERO)
            bad |= digit > 9
            value = digit.astype(np.int64)
        else:
            value = np.zeros(len(start), np.int64)
            for word in range((min(longest, DIGITS_MAX) + 7) // 8):
                digits = self._word(end, length, word)
                odd = ((digits + OVER_NINE) | digits) & HIGH_BITS
                if odd.any():
                    bad |= odd != 0
                part = _value(digits)
                if word == 2:
                    bad |= part > TOP_MAX
                value += part * 10 ** (8 * word)
        if bad.any():
            self.sound[np.flatnonzero(bad) if rows is None else rows[bad]] = False
        return value

    def _word(self, end: Integers, length: Integers, word: int) -> npt.NDArray[np.uint64]:
        """Give up to eight digits of each cell as the bytes of a word, counted from the end."""
        shift = 64 * (word + 1) - 8 * length
        np.maximum(shift, 0, out=shift)
        # A shift by 64 bits or more is undefined; such a word has no digit and becomes zero below.
        shift = (shift & 63).view(np.uint64)
        digits: npt.NDArray[np.uint64] = self._words[end - 8 * (word + 1)]
        digits ^= ZEROS
        digits >>= shift
        digits <<= shift
        if word:
            digits[length <= 8 * word] = 0
        return digits


def _value(digits: npt.NDArray[np.uint64]) -> Integers:
    """Turn words of eight digits into numbers; the words are used up."""
    digits *= TENS
    digits >>= np.uint64(8)
    digits &= BYTES_EVEN
    digits *= HUNDREDS
    digits >>= np.uint64(16)
    digits &= SHORTS_EVEN
    digits *= MYRIADS
    digits >>= np.uint64(32)
    return digits.view(np.int64)


def excerpt(text: bytes, length: int = 80) -> str:
    """Show the beginning of a line, so that it cannot steer a terminal.

    >>> excerpt(b"34200.1,1,16113575")
    "'34200.1,1,16113575'"
    """
    shown = ascii(text[:length].decode("latin-1"))
    return shown + "..." if len(text) > length else shown
