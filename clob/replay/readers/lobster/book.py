"""Lines up LOBSTER book files with messages: which line comes after which, and the best prices."""

from collections.abc import Iterator

import numpy as np

from clob.records import EVENT, Kind
from clob.replay.io.numerals import Integers
from clob.replay.io.recording import Records
from clob.replay.readers.lobster.lines import Messages


class BookPairing:
    """Finds the messages of a file of few levels among those of a file of more.

    Args:
        shallow: the messages of the file of few levels.
    """

    def __init__(self, shallow: Iterator[Messages]) -> None:
        self._shallow = _rows(shallow)
        self._next = next(self._shallow, None)
        self._found: list[tuple[int, int]] = []

    def see(self, block: Messages) -> None:
        """Look through some messages of the file of more levels, in order."""
        columns = [column.tolist() for column in block]
        for line, *row in zip(*columns, strict=True):
            if self._next is None:
                return
            if row == self._next[1]:
                self._found.append((self._next[0], line))
                self._next = next(self._shallow, None)

    def lines(self) -> Integers:
        """Give, for each line of the shallow file from 1 on, the line in the other; 0 for none."""
        last = max((line for line, _ in self._found), default=0)
        lines = np.zeros(last, np.int64)
        for shallow, deep in self._found:
            lines[shallow - 1] = deep
        return lines


def _rows(blocks: Iterator[Messages]) -> Iterator[tuple[int, list[int]]]:
    """Give messages one by one, as line and the rest."""
    for block in blocks:
        for line, *row in zip(*(column.tolist() for column in block), strict=True):
            yield line, row


class Bests:
    """The recorded best prices, as records for where they change.

    Args:
        levels: line and levels of the book file, in blocks.
        lines: the message of each line; None where they have the same number.
        lo: the lowest price of the grid.
        hi: the highest price of the grid.
    """

    def __init__(
        self,
        levels: Iterator[tuple[Integers, Integers]],
        lines: Integers | None,
        lo: int,
        hi: int,
    ) -> None:
        self._levels, self._lines = levels, lines
        self._none = (lo - 1, hi + 1)
        self._line = np.zeros(0, np.int64)
        self._rows = np.zeros((0, 4), np.int64)
        self._last = np.full((1, 4), -1, np.int64)

    def until(self, line: int, ends: Integers) -> Iterator[tuple[Integers, Records]]:
        """Give the records of each side after some messages.

        Args:
            line: the last message.
            ends: the messages after which the book can be compared, rising.

        Yields:
            Twice, for bids and asks: the messages, and the records that stand behind them.
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
        """Take one more block in: bid price and size, ask price and size."""
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
        """Turn prices and sizes of one side into records."""
        records = np.zeros(len(rows), EVENT)
        records["kind"] = Kind.BBO
        records["side"] = side
        records["price"], records["size"] = rows[:, 0], rows[:, 1]
        return records
