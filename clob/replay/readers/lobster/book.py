"""Aligns the lines of LOBSTER book files with messages and derives the recorded best prices."""

from collections.abc import Iterable, Iterator

import numpy as np

from clob.records import EVENT, Kind
from clob.replay.io.numerals import Integers
from clob.replay.io.recording import Records
from clob.replay.readers.lobster.lines import Messages


class BookPairing:
    """Finds the messages of a ``shallow`` file, with few levels, among those of a deeper one."""

    def __init__(self, shallow: Iterator[Messages]) -> None:
        self._shallow = _rows(shallow)
        self._next = next(self._shallow, None)
        self._pairs: list[tuple[int, int]] = []

    def add(self, block: Messages) -> None:
        """Search the next messages of the file with more levels, in order."""
        for line, row in _rows([block]):
            if self._next is None:
                return
            if row == self._next[1]:
                self._pairs.append((self._next[0], line))
                self._next = next(self._shallow, None)

    def lines(self) -> Integers:
        """Return the line in the deep file for each line of the shallow file from 1; 0 if none."""
        last = max((line for line, _ in self._pairs), default=0)
        lines = np.zeros(last, np.int64)
        for shallow, deep in self._pairs:
            lines[shallow - 1] = deep
        return lines


def _rows(blocks: Iterable[Messages]) -> Iterator[tuple[int, list[int]]]:
    """Yield messages one by one, as the line and the other columns."""
    for block in blocks:
        for line, *row in zip(*(column.tolist() for column in block), strict=True):
            yield line, row


class Bests:
    """The recorded best prices, as a ``BBO`` record for each change.

    Args:
        levels: blocks of line numbers and levels of the book file.
        lines: the message of each line; None if they have the same numbers.
        lo: the lowest price of the grid.
        hi: the highest price of the grid.
    """

    def __init__(
        self, levels: Iterator[tuple[Integers, Integers]], lines: Integers | None, lo: int, hi: int
    ) -> None:
        self._levels, self._lines = levels, lines
        self._none = (lo - 1, hi + 1)
        self._line = np.zeros(0, np.int64)
        self._rows = np.zeros((0, 4), np.int64)
        self._last = np.full((1, 4), -1, np.int64)

    def until(self, line: int, ends: Integers) -> Iterator[tuple[Integers, Records]]:
        """Yield for bids and for asks some messages and the records that follow them.

        Args:
            line: the last message.
            ends: the messages after which the book is comparable, increasing.
        """
        while not len(self._line) or self._line[-1] <= line:
            block = next(self._levels, None)
            if block is None:
                break
            self._add(*block)
        end = int(np.searchsorted(self._line, line, "right"))
        at, rows = self._line[:end], self._rows[:end]
        self._line, self._rows = self._line[end:], self._rows[end:]
        kept = np.isin(at, ends, assume_unique=True)
        at, rows = at[kept], rows[kept]
        before = np.concatenate([self._last, rows])
        self._last = before[-1:]
        for side in (0, 1):
            columns = slice(side * 2, side * 2 + 2)
            changed = (before[1:, columns] != before[:-1, columns]).any(axis=1)
            yield at[changed], self._records(side, rows[changed, columns])

    def _add(self, line: Integers, levels: Integers) -> None:
        """Append a block with columns bid price, bid size, ask price, ask size."""
        if self._lines is not None:
            some = line <= len(self._lines)
            line, levels = self._lines[line[some] - 1], levels[some]
            line, levels = line[line > 0], levels[line > 0]
        rows = levels[:, [2, 3, 0, 1]]
        for side, none in enumerate(self._none):
            rows[rows[:, side * 2 + 1] == 0, side * 2] = none
        self._line = np.concatenate([self._line, line])
        self._rows = np.concatenate([self._rows, rows])

    def _records(self, side: int, rows: Integers) -> Records:
        records = np.zeros(len(rows), EVENT)
        records["kind"] = Kind.BBO
        records["side"] = side
        records["price"], records["size"] = rows[:, 0], rows[:, 1]
        return records
