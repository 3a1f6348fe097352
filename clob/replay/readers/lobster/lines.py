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
"""How much of a file is read at a time: about what the caches of a processor hold."""

PRICE_LIMIT, SIZE_LIMIT = 2**31 - 1, 2**40
"""Prices in ticks and sizes from here on are none; sums of such sizes fit 63 bits."""

NO_ASK, NO_BID = 9_999_999_999, -9_999_999_999
"""The prices of levels that are not there."""

OUTSIDE = "message outside the grid"
"""What is remarked of messages at prices that nobody asked for."""


class Messages(NamedTuple):
    """Messages as columns, prices in ticks."""

    line: Integers
    """The line of each."""
    ts_ns: Integers
    """When, in ns."""
    type: Integers
    """Its type."""
    order_id: Integers
    """Its order."""
    size: Integers
    """How much of it."""
    price: Integers
    """At what price."""
    side: Integers
    """The side of the resting order: 0 buy, 1 sell."""

    def some(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> "Messages":
        """Choose rows."""
        return Messages(*(column[which] for column in self))


class MessageLines(NamedTuple):
    """A message file, and how to read its numbers."""

    path: FilePath
    """The file."""
    midnight_ns: int
    """What the times count from."""
    tick: int
    """What a tick is in its prices."""
    grid: tuple[int, int] | None
    """The prices that matter, in ticks; None for all."""

    def messages(self, problems: Problems, progress: Progress | None = None) -> Iterator[Messages]:
        """Read the messages.

        Args:
            problems: where broken lines and a clock running backwards are reported.
            progress: is told of every byte read.

        Yields:
            Blocks in which all messages of a time are together; halts and trades between two
            ticks are left out and remarked, as are messages outside the grid.
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
        """Read a block of lines."""
        cells = Cells(text, 6, file=os.fspath(self.path), first=first, problems=problems)
        ts_ns = cells.decimals(0, 9) + self.midnight_ns
        kind, order_id, size = (cells.integers(column) for column in (1, 2, 3))
        money, direction = (cells.integers(column, signed=True) for column in (4, 5))
        price = money // self.tick
        off = money != price * self.tick
        cells.refuse((kind < NEW) | (kind > HALT) | (np.abs(direction) != 1))
        cells.refuse((kind <= EXECUTED) & (off | (size < 1) | (price < 1)))
        cells.refuse((price >= PRICE_LIMIT) | (size >= SIZE_LIMIT) | (order_id >= INVENTED_ID))
        found = Messages(cells.line, ts_ns, kind, order_id, size, price, direction >> 1 & 1)
        kept = cells.rows()
        if kept is not None:
            found, off = found.some(kept), off[kept]
        return self._needed(found, off, problems)

    def _needed(self, found: Messages, off: npt.NDArray[np.bool_], problems: Problems) -> Messages:
        """Leave out what has no place in a stream, and remark it."""
        halt = found.type == HALT
        off = off & ~halt
        far = np.zeros(len(off), np.bool_)
        if self.grid is not None:
            far = ~halt & ((found.price < self.grid[0]) | (found.price > self.grid[1]))
        dropped = halt | off | far
        if not dropped.any():
            return found
        problems.remark("trading halt or resumption", int(np.count_nonzero(halt)))
        problems.remark("hidden trade between two ticks", int(np.count_nonzero(off & ~far)))
        problems.remark(OUTSIDE, int(np.count_nonzero(far)))
        return found.some(~dropped)

    def _in_order(self, found: Messages, latest: int, problems: Problems) -> Messages:
        """Report where the clock runs backwards, and leave out those messages."""
        so_far = np.maximum(np.maximum.accumulate(found.ts_ns), latest)
        late = found.ts_ns < so_far
        if not late.any():
            return found
        for row in np.flatnonzero(late).tolist():
            text = f"{found.ts_ns[row]} ns comes after {so_far[row]} ns"
            problems.report("clock backwards", text, self.path, int(found.line[row]))
        return found.some(~late)


def read_levels(
    path: FilePath, problems: Problems, tick: int
) -> Iterator[tuple[Integers, Integers]]:
    """Read a LOBSTER book file.

    Args:
        path: the file; each line has ask price, ask size, bid price, bid size, best level first.
        problems: where broken lines are reported.
        tick: what a tick is in its prices.

    Yields:
        Blocks: the line of each row, and the rows with four columns a level as in the file,
        prices in ticks. The price of a level that is not there means nothing, its size is 0.
    """
    columns = 0
    for first, text in line_blocks(path, problems, None, BLOCK_BYTES):
        columns = columns or text.partition(b"\n")[0].count(b",") + 1
        if columns % 4:
            problems.report("wrong number of cells", f"{columns}, not four a level", path, first)
            return
        cells = Cells(text, columns, file=os.fspath(path), first=first, problems=problems)
        found = [cells.integers(column, signed=True) for column in range(columns)]
        for price in found[::2]:
            there = (price != NO_ASK) & (price != NO_BID)
            cells.refuse(there & (price % tick != 0))
            price //= tick
        rows = np.stack(found, axis=1)
        kept = cells.rows()
        yield (cells.line, rows) if kept is None else (cells.line[kept], rows[kept])
