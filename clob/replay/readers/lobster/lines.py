"""Reads the lines of LOBSTER message and book files into columns of integers."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.io.files import FilePath, Progress, line_blocks
from clob.replay.io.numerals import Integers
from clob.replay.io.problems import Problems
from clob.replay.io.streams import INVENTED_ID
from clob.replay.io.text import Cells

NEW, PART, GONE, EXECUTED, HIDDEN, AUCTION, HALT = range(1, 8)
"""The types of messages."""

BLOCK_BYTES = 1 << 20
"""Block size for reading, about the size of a processor cache."""

PRICE_LIMIT, SIZE_LIMIT = 2**31 - 1, 2**40
"""Exclusive limits of prices in ticks and of sizes; sums of such sizes fit 63 bits."""

NO_ASK, NO_BID = 9_999_999_999, -9_999_999_999
"""The prices of empty levels."""

EXPECTED = "time, type 1 to 7, order id, size, price, direction 1 or -1"
"""The cells of a line, for the texts of problems."""

OUTSIDE = "message outside the grid"
"""The remark for messages outside the grid."""


class Messages(NamedTuple):
    """Messages as columns; prices are in ticks."""

    line: Integers
    ts_ns: Integers
    type: Integers
    order_id: Integers
    size: Integers
    price: Integers
    side: Integers
    """The side of the resting order: 0 buy, 1 sell."""

    def some(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> "Messages":
        """Select rows."""
        return Messages(*(column[which] for column in self))


class MessageLines(NamedTuple):
    """A message file and the options for reading it."""

    path: FilePath
    midnight_ns: int
    """The midnight that times count from, in ns since 1970."""
    tick: int
    """The tick, in units of the file."""
    grid: tuple[int, int] | None
    """The prices to read, in ticks; None for all."""

    def messages(self, problems: Problems, progress: Progress | None = None) -> Iterator[Messages]:
        """Read the messages.

        Yields:
            Blocks that do not split messages of one time. Halts, trades between two ticks and
            messages outside the grid are skipped and counted.
        """
        rest: Messages | None = None
        latest = -(2**63)
        for first, text in line_blocks(self.path, problems, progress, BLOCK_BYTES):
            block = self._in_order(self._parse(text, first, problems), latest, problems)
            if not len(block.line):
                continue
            latest = int(block.ts_ns[-1])
            if rest is not None:
                block = Messages(*map(np.concatenate, zip(rest, block, strict=True)))
            done = int(np.searchsorted(block.ts_ns, latest))
            rest = block.some(slice(done, None))
            if done:
                yield block.some(slice(0, done))
        if rest is not None:
            yield rest

    def _parse(self, text: bytes, first: int, problems: Problems) -> Messages:
        first, text = without_header(first, text, problems)
        cells = Cells(
            text,
            6,
            file=os.fspath(self.path),
            first=first,
            problems=problems,
            separator=separator_of(text),
            expected=EXPECTED,
        )
        times, rounded = cells.rounded(0, 9)
        problems.remark("time rounded to a nanosecond", rounded)
        ts_ns = times + self.midnight_ns
        kind, order_id, size = (cells.integers(column) for column in (1, 2, 3))
        money, direction = (cells.integers(column, signed=True) for column in (4, 5))
        price = money // self.tick
        off = money != price * self.tick
        cells.reject((kind < NEW) | (kind > HALT) | (np.abs(direction) != 1))
        cells.reject((kind <= EXECUTED) & (off | (size < 1) | (price < 1)))
        cells.reject((price >= PRICE_LIMIT) | (size >= SIZE_LIMIT) | (order_id >= INVENTED_ID))
        rows = Messages(cells.line, ts_ns, kind, order_id, size, price, direction >> 1 & 1)
        kept = cells.rows()
        if kept is not None:
            rows, off = rows.some(kept), off[kept]
        return self._select(rows, off, problems)

    def _select(self, rows: Messages, off: npt.NDArray[np.bool_], problems: Problems) -> Messages:
        """Drop and count messages that have no place in a stream."""
        halt = rows.type == HALT
        off = off & ~halt
        far = np.zeros(len(off), np.bool_)
        if self.grid is not None:
            far = ~halt & ((rows.price < self.grid[0]) | (rows.price > self.grid[1]))
        dropped = halt | off | far
        if not dropped.any():
            return rows
        problems.remark("trading halt or resumption", int(np.count_nonzero(halt)))
        problems.remark("hidden trade between two ticks", int(np.count_nonzero(off & ~far)))
        problems.remark(OUTSIDE, int(np.count_nonzero(far)))
        return rows.some(~dropped)

    def _in_order(self, rows: Messages, latest: int, problems: Problems) -> Messages:
        """Report and drop messages that are earlier than the one before."""
        so_far = np.maximum(np.maximum.accumulate(rows.ts_ns), latest)
        late = rows.ts_ns < so_far
        if not late.any():
            return rows
        for row in np.flatnonzero(late).tolist():
            text = f"time must not be before {so_far[row]} ns, got {rows.ts_ns[row]}"
            problems.report("clock backwards", text, self.path, int(rows.line[row]))
        return rows.some(~late)


def separator_of(text: bytes) -> bytes:
    """Return the separator of a text: a semicolon if its first line has no comma but semicolons."""
    line = text.partition(b"\n")[0]
    return b";" if b";" in line and b"," not in line else b","


def without_header(first: int, text: bytes, problems: Problems) -> tuple[int, bytes]:
    """Remove a line of column names from the start of a file."""
    if first != 1:
        return first, text
    line, end, rest = text.partition(b"\n")
    cell = line.split(separator_of(text))[0].strip(b" \"'\r")
    if end and cell[:1].isalpha():
        problems.remark("header line skipped")
        return 2, rest
    return first, text


def read_levels(
    path: FilePath, problems: Problems, tick: int
) -> Iterator[tuple[Integers, Integers]]:
    """Read a LOBSTER book file.

    Each line has ask price, ask size, bid price, bid size, best level first.

    Yields:
        Blocks: the line number of each row, and the rows with four columns per level as in the
        file, prices in ticks. An empty level has size 0 and an undefined price.
    """
    columns = 0
    for first, text in line_blocks(path, problems, None, BLOCK_BYTES):
        first, text = without_header(first, text, problems)
        separator = separator_of(text)
        columns = columns or text.partition(b"\n")[0].count(separator) + 1
        if columns % 4:
            message = f"expected four cells per level, got {columns} cells"
            problems.report("wrong number of cells", message, path, first)
            return
        cells = Cells(
            text,
            columns,
            file=os.fspath(path),
            first=first,
            problems=problems,
            separator=separator,
            expected="ask price, ask size, bid price, bid size per level",
        )
        values = [cells.integers(column, signed=True) for column in range(columns)]
        for price in values[::2]:
            exists = (price != NO_ASK) & (price != NO_BID)
            cells.reject(exists & (price % tick != 0))
            price //= tick
        rows = np.stack(values, axis=1)
        kept = cells.rows()
        yield (cells.line, rows) if kept is None else (cells.line[kept], rows[kept])
