"""Finds the orders older than a LOBSTER file and its range of prices in a first pass."""

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

BOOK_ROWS = 500
"""How many lines of a book file are compared with the messages."""

KEPT_ROWS = 1 << 20
"""How many messages are kept for the second pass, at 64 bytes each."""

ACTIONS = np.array([TAKE, ADD, TAKE, DELETE, TAKE], np.uint8)
"""The action of a message of each type on its order."""


class OlderOrder(NamedTuple):
    """An order older than the file or never announced: 0 buy or 1 sell, ticks, lots."""

    side: int
    price: int
    size: int


class LobsterSurvey(NamedTuple):
    """Properties of the whole file that are needed before its first line."""

    older: dict[int, OlderOrder]
    """Orders older than the file that are never announced, by increasing id."""
    overtaken: dict[int, list[tuple[int, OlderOrder]]]
    """For each line that announces an order older than the file: the younger orders at its price
    with their remaining sizes, in queue order. The announced order is inserted before them."""
    unannounced: dict[int, OlderOrder]
    """Orders that are not older and are never announced, by id."""
    nameless: list[OlderOrder]
    """Orders without an id, from the first line of the book file; the oldest at their prices."""
    lines: Integers | None
    """The message before each line of the book file; None if they have the same numbers."""
    lo: int
    """The lowest price, in ticks."""
    hi: int
    """The highest price, in ticks."""
    blocks: list[Messages] | None
    """All messages, unless there are too many or some were malformed."""
    left: list[Integers]
    """For each block the remaining size of the order after each message that has one; undefined
    for the orders in ``odd``."""
    odd: Integers
    """Orders with a message that does not fit, by increasing id."""
    remarks: Counter[str]


class _Surveyor:
    """Collects the survey, block by block."""

    def __init__(self) -> None:
        self.balances = Balances()
        self.first_id = -1
        self.announced: list[tuple[int, int, int, int]] = []
        self.older: dict[int, OlderOrder] = {}
        self.unannounced: dict[int, OlderOrder] = {}
        self.odd: set[int] = set()
        self.lo, self.hi = 2**31, 0

    def add(self, block: Messages) -> Integers:
        """Add a block; return the remaining size of the order after each message that has one."""
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

        def on_mismatch(row: int, word: str, left: int) -> int:
            """Add up the reductions of an order that was not announced."""
            order_id = int(shown.order_id[row])
            self.odd.add(order_id)
            if word == "unknown":
                before = self.unannounced.get(order_id)
                side, price, size = (int(c[row]) for c in (shown.side, shown.price, shown.size))
                size += before.size if before else 0
                self.unannounced[order_id] = OlderOrder(side, price, size)
            return 0

        left = self.balances.apply(shown.order_id, ACTIONS[shown.type], shown.size, on_mismatch)
        old = shown.some(np.flatnonzero(new & (shown.order_id < self.first_id)))
        columns = (old.line, old.side, old.price, old.order_id)
        self.announced += zip(*(column.tolist() for column in columns), strict=True)
        return left

    def finish(self) -> None:
        """Separate orders older than the file from others that were never announced."""
        for order_id in sorted(each for each in self.unannounced if each < self.first_id):
            self.older[order_id] = self.unannounced.pop(order_id)


def survey_of(
    lines: MessageLines, book: FilePath | None, book_lines: MessageLines | None
) -> LobsterSurvey:
    """Read a message file in a first pass, ignoring its problems.

    Args:
        lines: the message file.
        book: the book file, or None.
        book_lines: the message file of the book file if it is another one.

    Raises:
        OSError: a file cannot be read.
        ReplayFormatError: the file has no valid message, or the book file belongs to another one.
    """
    survey, problems = _Surveyor(), Ignored()
    pairs = None if book_lines is None else BookPairing(book_lines.messages(Ignored()))
    blocks: list[Messages] | None = []
    left: list[Integers] = []
    for block in lines.messages(problems):
        remains = survey.add(block)
        if blocks is not None:
            blocks.append(block)
            left.append(remains)
            if sum(len(each.line) for each in blocks) > KEPT_ROWS:
                blocks, left = None, []
        if pairs is not None:
            pairs.add(block)
    survey.finish()
    if survey.lo > survey.hi:
        raise ReplayFormatError(f"{plain_name(lines.path)}: {_empty_reason(lines, problems)}")
    after = None if pairs is None else pairs.lines()
    nameless = _nameless(lines, book, survey, after) if book is not None else []
    prices = [survey.lo, survey.hi, *(old.price for old in nameless)]
    return LobsterSurvey(
        older=survey.older,
        overtaken=_overtaken(blocks or lines.messages(Ignored()), survey.announced),
        unannounced=survey.unannounced,
        nameless=nameless,
        lines=after,
        lo=min(prices),
        hi=max(prices),
        blocks=None if problems.counts else blocks,
        left=left,
        odd=np.array(sorted(survey.odd), np.int64),
        remarks=problems.remarks,
    )


def _empty_reason(lines: MessageLines, problems: Ignored) -> str:
    """Return the error text for a file without messages."""
    outside = problems.remarks[OUTSIDE]
    if outside and lines.grid is not None:
        lo, hi = lines.grid
        return f"all {outside:,} messages are outside the grid {lo}:{hi}"
    return f"the file has no LOBSTER message{problems.clause()}"


def _nameless(
    lines: MessageLines, book: FilePath, survey: _Surveyor, after: Integers | None
) -> list[OlderOrder]:
    """Return size in the first line of the book file that no known order explains, by price."""
    tick = lines.tick
    _, rows = next(read_levels(book, Ignored(), tick), (None, np.zeros((0, 4), np.int64)))
    if not len(rows):
        return []
    until = 1 if after is None else int(after[0])
    if after is None:
        _check_book(lines, book, rows)
    named: Counter[tuple[int, int]] = Counter()
    for old in survey.older.values():
        named[old.side, old.price] += old.size
    first = next(lines.messages(Ignored()))
    for row in range(int(np.searchsorted(first.line, until, "right"))):
        if first.type[row] <= EXECUTED:
            sign = 1 if first.type[row] == NEW else -1
            place = int(first.side[row]), int(first.price[row])
            named[place] += sign * int(first.size[row])
    grid = lines.grid or (1, 2**31 - 1)
    levels = [
        OlderOrder(side, price, size - named[side, price])
        for side, at in ((0, 2), (1, 0))
        for price, size in rows[0].reshape(-1, 4)[:, at : at + 2].tolist()
        if grid[0] <= price <= grid[1]
    ]
    return [level for level in levels if level.size > 0]


def _check_book(lines: MessageLines, book: FilePath, rows: Integers) -> None:
    """Raise ``ReplayFormatError`` if the new orders of a message file are not in a book file."""
    first = next(lines.messages(Ignored()))
    found = missing = 0
    new = (first.type == NEW) & (first.line <= min(len(rows), BOOK_ROWS))
    for line, _, _, _, size, price, side in zip(
        *(column[new].tolist() for column in first), strict=True
    ):
        levels = rows[line - 1].reshape(-1, 4)[:, 0 if side else 2 :][:, :2]
        sizes = dict(levels[levels[:, 1] > 0].tolist())
        found += sizes.get(price, 0) >= size
        if sizes and price not in sizes:
            # Within the visible levels, or better than all of them.
            missing += price <= max(sizes) if side else price >= min(sizes)
    if missing > found:
        raise ReplayFormatError(
            f"{plain_name(book)}: the book belongs to another file than {plain_name(lines.path)}: "
            f"{missing} of its first {missing + found} new orders are not in the book after them"
        )


def _overtaken(
    blocks: Iterable[Messages], announced: list[tuple[int, int, int, int]]
) -> dict[int, list[tuple[int, OlderOrder]]]:
    """Find the younger orders at the price of each order that is announced too late.

    Only messages at the prices of such orders are processed one by one, up to the last
    announcement.
    """
    overtaken: dict[int, list[tuple[int, OlderOrder]]] = {line: [] for line, *_ in announced}
    if not announced:
        return overtaken
    until = announced[-1][0]
    places = np.unique([price * 2 + side for _, side, price, _ in announced])
    queues: dict[tuple[int, int], dict[int, int]] = {}
    for block in blocks:
        near = (block.type <= EXECUTED) & np.isin(block.price * 2 + block.side, places)
        for row in zip(*(column.tolist() for column in block.some(near)), strict=True):
            line, _, kind, order_id, size, price, side = row
            queue = queues.setdefault((side, price), {})
            if line in overtaken:
                younger = [each for each in queue if each > order_id]
                overtaken[line] = [(each, OlderOrder(side, price, queue[each])) for each in younger]
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
    return overtaken
