"""The first reading of a LOBSTER file: which orders are older than it, and which prices occur."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, plain_name
from clob.replay.io.numerals import Integers
from clob.replay.io.problems import Ignored
from clob.replay.readers.l2.balances import ADD, DELETE, TAKE, Balances
from clob.replay.readers.lobster.book import BookPairing
from clob.replay.readers.lobster.lines import (
    EXECUTED,
    GONE,
    NEW,
    OUTSIDE,
    MessageLines,
    Messages,
    read_levels,
)

KEPT_ROWS = 1 << 20
"""How many messages are kept from the first reading for the second, at 64 bytes each."""

DEEDS = np.array([TAKE, ADD, TAKE, DELETE, TAKE], np.uint8)
"""What a message of each type does to its order."""


class Old(NamedTuple):
    """An order that is older than the file, or never announced by it."""

    side: int
    """0 buy, 1 sell."""
    price: int
    """In ticks."""
    size: int
    """In lots."""


class LobsterSurvey(NamedTuple):
    """What has to be known of the whole file before its first line."""

    older: dict[int, Old]
    """Orders older than the file that it never announces, by id, rising."""
    overtaken: dict[int, list[tuple[int, Old]]]
    """Of each line that announces an order older than the file: the younger orders at its price,
    in their order, with what remains of them; the announced one comes in before them."""
    unannounced: dict[int, Old]
    """Orders that are not older and are never announced, by id."""
    nameless: list[Old]
    """What rested besides, by the first line of the book file; the oldest of their prices."""
    lines: Integers | None
    """Of each line of the book file, the message it comes after; None for that of its number."""
    lo: int
    """The lowest price, in ticks."""
    hi: int
    """The highest price, in ticks."""
    blocks: list[Messages] | None
    """All messages, if they are not too many to be kept and none was broken."""
    left: list[Integers]
    """For each of those blocks what remains of its order after each message that has one; of the
    orders below it is not known yet."""
    odd: Integers
    """The orders of which some message does not fit, by id, rising."""
    remarks: Counter[str]
    """What was remarked while they were read."""


class _Surveyor:
    """Goes through a file for the first time."""

    def __init__(self) -> None:
        self.balances = Balances()
        self.first_id = -1
        self.announced: list[tuple[int, int, int, int]] = []
        self.older: dict[int, Old] = {}
        self.unannounced: dict[int, Old] = {}
        self.odd: set[int] = set()
        self.lo, self.hi = 2**31, 0

    def see(self, block: Messages) -> Integers:
        """Take down the orders that are not announced when they should be.

        Returns:
            What remains of its order after each message that has one.
        """
        shown = block
        if int(block.type.max()) > EXECUTED:
            shown = block.some(block.type <= EXECUTED)
        if not len(shown.line):
            return shown.line
        self.lo = min(self.lo, int(shown.price.min()))
        self.hi = max(self.hi, int(shown.price.max()))
        new = shown.type == NEW
        if self.first_id < 0 and new.any():
            self.first_id = int(shown.order_id[np.argmax(new)])

        def odd(row: int, word: str, left: int) -> int:
            """Add up what is taken off an order that nobody announced."""
            self.odd.add(int(shown.order_id[row]))
            if word == "unknown":
                self._add(self.unannounced, shown, row)
            return 0

        left = self.balances.settle(shown.order_id, DEEDS[shown.type], shown.size, odd)
        old = shown.some(np.flatnonzero(new & (shown.order_id < self.first_id)))
        columns = (old.line, old.side, old.price, old.order_id)
        self.announced += zip(*(column.tolist() for column in columns), strict=True)
        return left

    def _add(self, orders: dict[int, Old], shown: Messages, row: int) -> None:
        """Add the size of a message to its order."""
        order_id = int(shown.order_id[row])
        before = orders.get(order_id)
        size = int(shown.size[row]) + (before.size if before else 0)
        orders[order_id] = Old(int(shown.side[row]), int(shown.price[row]), size)

    def finish(self) -> None:
        """Part the orders that are older than the file from the others never announced."""
        for order_id in sorted(each for each in self.unannounced if each < self.first_id):
            self.older[order_id] = self.unannounced.pop(order_id)


def survey_of(
    lines: MessageLines, book: FilePath | None, book_lines: MessageLines | None
) -> LobsterSurvey:
    """Read a message file for what has to be known beforehand; its problems are left alone.

    Args:
        lines: the message file.
        book: the book file, or None.
        book_lines: the message file of the book file, if that is another.

    Returns:
        What has to be known.

    Raises:
        OSError: a file cannot be read.
        ReplayFormatError: no line is a message.
    """
    seen = _Surveyor()
    pairs = None
    if book_lines is not None:
        pairs = BookPairing(book_lines.messages(Ignored()))
    problems = Ignored()
    blocks: list[Messages] | None = []
    left: list[Integers] = []
    for block in lines.messages(problems):
        remains = seen.see(block)
        if blocks is not None:
            blocks.append(block)
            left.append(remains)
            if sum(len(each.line) for each in blocks) > KEPT_ROWS:
                blocks, left = None, []
        if pairs is not None:
            pairs.see(block)
    seen.finish()
    if seen.lo > seen.hi:
        raise ReplayFormatError(f"{plain_name(lines.path)}: {_why_none(lines, problems)}")
    after = None if pairs is None else pairs.lines()
    nameless = _nameless(lines, book, seen, after) if book is not None else []
    lo = min([seen.lo, *(old.price for old in nameless)])
    hi = max([seen.hi, *(old.price for old in nameless)])
    return LobsterSurvey(
        older=seen.older,
        overtaken=_overtaken(blocks or lines.messages(Ignored()), seen.announced),
        unannounced=seen.unannounced,
        nameless=nameless,
        lines=after,
        lo=lo,
        hi=hi,
        blocks=None if problems.counts else blocks,
        left=left,
        odd=np.array(sorted(seen.odd), np.int64),
        remarks=problems.remarks,
    )


def _why_none(lines: MessageLines, problems: Ignored) -> str:
    """Say why nothing is left of a file."""
    outside = problems.remarks[OUTSIDE]
    if outside and lines.grid is not None:
        lo, hi = lines.grid
        return f"no message lies in the grid {lo}:{hi}, {outside:,} lie outside"
    return f"no line is a LOBSTER message{f'; {problems.kept[0]}' if problems.kept else ''}"


def _nameless(
    lines: MessageLines, book: FilePath, seen: _Surveyor, after: Integers | None
) -> list[Old]:
    """Find what the book's first line shows and no known order accounts for."""
    tick = lines.tick
    _, rows = next(read_levels(book, Ignored(), tick), (None, np.zeros((0, 4), np.int64)))
    if not len(rows):
        return []
    until = 1 if after is None else int(after[0])
    named: Counter[tuple[int, int]] = Counter()
    for old in seen.older.values():
        named[old.side, old.price] += old.size
    first = next(lines.messages(Ignored()))
    for row in range(int(np.searchsorted(first.line, until, "right"))):
        if first.type[row] <= EXECUTED:
            sign = 1 if first.type[row] == NEW else -1
            place = int(first.side[row]), int(first.price[row])
            named[place] += sign * int(first.size[row])
    grid = lines.grid or (1, 2**31 - 1)
    levels = [
        Old(side, price, size - named[side, price])
        for side, at in ((0, 2), (1, 0))
        for price, size in rows[0].reshape(-1, 4)[:, at : at + 2].tolist()
        if grid[0] <= price <= grid[1]
    ]
    return [level for level in levels if level.size > 0]


def _overtaken(
    blocks: Iterable[Messages], announced: list[tuple[int, int, int, int]]
) -> dict[int, list[tuple[int, Old]]]:
    """Find the orders that rest where an older one is announced, and are younger than that.

    Only the messages at the prices of such orders are gone through one by one, and only as far as
    the last of the announcements.
    """
    found: dict[int, list[tuple[int, Old]]] = {line: [] for line, *_ in announced}
    if not announced:
        return found
    until = announced[-1][0]
    places = np.unique([price * 2 + side for _, side, price, _ in announced])
    queues: dict[tuple[int, int], dict[int, int]] = {}
    for block in blocks:
        near = (block.type <= EXECUTED) & np.isin(block.price * 2 + block.side, places)
        for row in zip(*(column.tolist() for column in block.some(near)), strict=True):
            line, _, kind, order_id, size, price, side = row
            queue = queues.setdefault((side, price), {})
            if line in found:
                younger = [each for each in queue if each > order_id]
                found[line] = [(each, Old(side, price, queue[each])) for each in younger]
                queue[order_id] = size
                for each in younger:
                    queue[each] = queue.pop(each)
            elif kind == NEW:
                queue[order_id] = size
            elif order_id in queue:
                queue[order_id] -= size
                if queue[order_id] <= 0 or kind == GONE:
                    del queue[order_id]
        if len(block.line) and block.line[-1] >= until:
            break
    return found
