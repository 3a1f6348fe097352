"""Reads LOBSTER files: a line for each message of a stock, and beside it the book after it.

A line is time in seconds after midnight, type, order id, size, price, direction (1: the resting
order buys). Types: 1 a new order, 2 part of one cancelled, 3 deleted, 4 executed, 5 a hidden order
executed, 6 an auction, 7 a halt. What the format leaves open is read so:

- Executions in a row, of the same time and direction, are one incoming order: an ``IOC`` of their
  total at the worst price, with a ``FILL`` for each. Hidden executions between them do not part
  them; they and auctions become ``TRADE`` records, which have no effect on the book.
- An order with an id below that of the first new order is older than the file. When the file
  announces it nevertheless, it comes in before the younger orders at its price: these are taken
  out and rested again behind it.
- An order that is never announced has the size that is taken off it in all. Where its id is
  older than the file it is of the seed, by ids; else it rests just before it is first mentioned.
- With a book file, what its first line shows at a price and no known order accounts for is one
  order without a name, the oldest of its price; and the best prices are given as ``BBO`` records.
  A book file of n levels needs messages of more than n: a message file leaves out what happens
  beyond its levels.

A time is nanoseconds after midnight unless the midnight is given. Sizes are shares, one to a lot.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, Flag, Kind
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.numerals import Integers
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records, join, ticks_of
from clob.replay.io.streams import INVENTED_ID, Instrument, Stream
from clob.replay.readers.l2.balances import Balances
from clob.replay.readers.lobster.book import Bests
from clob.replay.readers.lobster.lines import (
    AUCTION,
    EXECUTED,
    HIDDEN,
    PART,
    MessageLines,
    Messages,
    read_levels,
)
from clob.replay.readers.lobster.survey import DEEDS, LobsterSurvey, Old, survey_of

TICK = 100
"""The prices of the file are dollars times 10,000; a cent is a tick."""

INCOMING_ID = INVENTED_ID + 2**40
"""The id of an incoming order is this plus the line of its first execution."""

KINDS = np.array([0, Kind.LIMIT, Kind.REDUCE, Kind.CANCEL, Kind.FILL, *[Kind.TRADE] * 2], np.uint8)
"""What becomes of a message of each type."""

BEFORE, SELF, FILLS, AFTER = range(4)
"""The places among one another of what one message becomes."""

PLACES = (BEFORE, FILLS)
"""Where orders that are overtaken go out and come back."""


def read_lobster(
    message: FilePath,
    orderbook: FilePath | None = None,
    *,
    orderbook_message: FilePath | None = None,
    on_problem: Policy = "raise",
    midnight_ns: int = 0,
    tick: int = TICK,
    grid: tuple[int, int] | None = None,
) -> Stream:
    """Read a LOBSTER message file, and the book file beside it if there is one.

    The file is read twice: first for the orders that are older than it and for the range of
    prices, which happens here. Memory grows with the orders alive, not with the file.

    Args:
        message: the message file, of the deepest level there is.
        orderbook: the book file; gives the seed its sizes, and the best prices to compare with.
        orderbook_message: the message file the book file belongs to, if that is not ``message``:
            one of fewer levels, whose messages are among those of ``message``.
        on_problem: what becomes of broken lines, of orders announced twice, and of sizes that
            cannot be.
        midnight_ns: the midnight the times count from, in ns since 1970.
        tick: what a tick is in the prices of the file; 100 is a cent.
        grid: the lowest and the highest price to read, in ticks; what happens beyond is left out
            and remarked. None takes all prices that occur.

    Returns:
        The stream, of the prices that occur, in ticks, on a grid just wide enough.

    Raises:
        OSError: a file cannot be read.
        ReplayFormatError: no line of the file is a message.
        ValueError: the tick is below 1.
    """
    if tick < 1:
        raise ValueError(f"the tick must be 1 or more, not {tick}")
    lines = MessageLines(message, midnight_ns, tick, grid)
    others = None if orderbook_message is None else lines._replace(path=orderbook_message)
    survey = survey_of(lines, orderbook, others)
    reader = _Reader(lines, orderbook, Problems(on_problem))
    symbol = plain_name(message).partition("_")[0]
    return Stream(
        lambda: reader.events(survey),
        lo=survey.lo,
        hi=survey.hi,
        lot_wei=10**18,
        instruments=[Instrument(0, symbol)],
        name=plain_name(message),
        note="LOBSTER messages",
        problems=reader.problems,
        progress=reader.progress,
        scale=ticks_of(10_000, tick),
    )


class _Reader:
    """Reads one message file and its book file, as often as asked."""

    def __init__(self, lines: MessageLines, book: FilePath | None, problems: Problems) -> None:
        self.lines, self.book = lines, book
        self.problems, self.progress = problems, Progress()

    def events(self, survey: LobsterSurvey) -> Iterator[Records]:
        """Read the file for its events."""
        self.progress.expect(self.lines.path)
        problems = self.problems
        problems.remark("order without a name in the first book", len(survey.nameless))
        problems.remark("order older than the file", len(survey.older) + len(survey.overtaken))
        balances = Balances({each: old.size for each, old in survey.older.items()})
        bests = None
        if self.book is not None:
            levels = read_levels(self.book, problems, self.lines.tick)
            bests = Bests(levels, survey.lines, survey.lo, survey.hi)
        start = True
        for place, block in enumerate(self._messages(survey)):
            if start:
                yield _seed(survey, int(block.ts_ns[0]))
                start = False
            known = survey.left[place] if survey.blocks is not None else None
            yield self._block(block, survey, balances, bests, known)

    def _messages(self, survey: LobsterSurvey) -> Iterator[Messages]:
        """Give the messages, from memory if they are there."""
        if survey.blocks is None:
            yield from self.lines.messages(self.problems, self.progress)
            return
        for kind, count in survey.remarks.items():
            self.problems.remark(kind, count)
        for place, block in enumerate(survey.blocks, 1):
            self.progress.done_bytes = self.progress.total_bytes * place // len(survey.blocks)
            yield block

    def _block(
        self,
        block: Messages,
        survey: LobsterSurvey,
        balances: Balances,
        bests: Bests | None,
        known: Integers | None,
    ) -> Records:
        """Turn a block of messages into events; what remains of most orders may be known."""
        shown: npt.NDArray[np.intp] = np.flatnonzero(block.type <= EXECUTED)
        left = np.zeros(len(block.line), np.int64)
        if known is not None:
            # One order's sizes say nothing about another's.
            left[shown if len(shown) < len(left) else slice(None)] = known
            shown = shown[_among(block.order_id, survey.odd)[shown]]
        odds = _Odds(block, shown, survey, self.problems, self.lines.path)
        left[shown] = balances.settle(
            block.order_id[shown], DEEDS[block.type[shown]], block.size[shown], odds.take
        )
        run = _runs(block)
        # Side by side from the beginning, since most blocks have nothing else.
        both = np.zeros(len(block.line) + len(run.first), EVENT)
        own, incoming = both[: len(block.line)], both[len(block.line) :]
        _write_own(own, block, left, run)
        _write_incoming(incoming, block, run)
        again = _overtaken(block, own, survey)
        parts = [own, incoming, odds.arrivals(), *again]
        keys = [
            run.line * 4 + np.where(block.type == EXECUTED, FILLS, SELF),
            run.first_line * 4 + SELF,
            odds.keys(run),
            *(
                part["seq"].astype(np.int64) * 4 + at
                for part, at in zip(again, PLACES, strict=True)
            ),
        ]
        if odds.dropped:
            kept = np.ones(len(own), np.bool_)
            kept[odds.dropped] = False
            parts[0], keys[0] = own.take(np.flatnonzero(kept)), keys[0][kept]
        if bests is not None and len(block.line):
            for lines, records in bests.until(int(block.line[-1]), block.line[run.ends(block)]):
                at = np.searchsorted(block.line, lines)
                records["ts_ns"] = records["recv_ns"] = block.ts_ns[at]
                records["seq"] = run.line[at]
                parts.append(records)
                keys.append(run.line[at] * 4 + AFTER)
        others = odds.dropped or any(len(part) for part in parts[2:])
        whole = join(parts) if others else both
        return whole.take(np.argsort(np.concatenate(keys), kind="stable"))


def _among(ids: Integers, some: Integers) -> npt.NDArray[np.bool_]:
    """Tell which ids are among some others, which rise."""
    if not len(some):
        return np.zeros(len(ids), np.bool_)
    found: npt.NDArray[np.bool_] = some[np.searchsorted(some[:-1], ids)] == ids
    return found


class _Runs(NamedTuple):
    """Executions that are of one incoming order."""

    line: Integers
    """Of each message, its line; of an execution, the line of the first of its run."""
    first: npt.NDArray[np.intp]
    """The first message of each run."""
    first_line: Integers
    """Its line."""
    of: Integers
    """The run of each execution, in order."""
    rows: npt.NDArray[np.intp]
    """The executions."""

    def ends(self, block: Messages) -> npt.NDArray[np.bool_]:
        """Tell after which messages the book is that of the file: not amid a run."""
        step = np.zeros(len(block.line) + 1, np.int64)
        last = self.rows[np.searchsorted(self.of, np.arange(len(self.first)), "right") - 1]
        step[self.first] += 1
        step[last] -= 1
        ends: npt.NDArray[np.bool_] = np.cumsum(step[:-1]) == 0
        return ends


def _runs(block: Messages) -> _Runs:
    """Find the executions that follow one another at one time in one direction."""
    rows = np.flatnonzero(block.type == EXECUTED)
    passed = np.cumsum((block.type == HIDDEN) | (block.type == AUCTION))[rows]
    same = np.zeros(len(rows), np.bool_)
    # One follows another where nothing stands between them but what is passed over.
    same[1:] = np.diff(rows) - np.diff(passed) == 1
    for column in (block.ts_ns, block.side):
        same[1:] &= np.diff(column[rows]) == 0
    first = rows[~same]
    of = np.cumsum(~same) - 1
    line = block.line.copy()
    line[rows] = block.line[first][of]
    # A hidden execution amid a run stays behind its fills, for they bear the line of the first.
    return _Runs(line, first, block.line[first], of, rows)


def _write_own(events: Records, block: Messages, left: Integers, run: _Runs) -> None:
    """Write the event that each message is itself; executions are the fills of their run."""
    kind = KINDS[block.type]
    kind[(block.type == PART) & (left == 0)] = Kind.CANCEL
    events["ts_ns"] = events["recv_ns"] = block.ts_ns
    events["seq"] = run.line
    events["order_id"] = block.order_id
    events["price"] = block.price
    events["side"] = block.side
    events["kind"] = kind
    size = np.where(block.type == PART, left, block.size)
    events["size"] = np.where(kind == int(Kind.CANCEL), 0, size)


def _write_incoming(events: Records, block: Messages, run: _Runs) -> None:
    """Write the incoming order of each run: all of it, at the worst of its prices."""
    if not len(events):
        return
    starts = np.searchsorted(run.of, np.arange(len(events)))
    price = block.price[run.rows]
    side = block.side[run.first]
    worst = np.minimum.reduceat(price, starts), np.maximum.reduceat(price, starts)
    events["ts_ns"] = events["recv_ns"] = block.ts_ns[run.first]
    events["seq"] = run.first_line
    events["order_id"] = run.first_line + INCOMING_ID
    events["size"] = np.add.reduceat(block.size[run.rows], starts)
    events["price"] = np.where(side == 0, *worst)
    events["kind"] = Kind.IOC
    events["side"] = 1 - side
    events["flags"] = Flag.SYNTHETIC


def _overtaken(block: Messages, own: Records, survey: LobsterSurvey) -> tuple[Records, Records]:
    """Rest orders that are older than the file before the younger ones at their price.

    Their own events become ``SEED``; given are the events that take the younger ones out, and
    those that bring them back.
    """
    some = [row for row in _rows_of(block, survey) if len(survey.overtaken[int(block.line[row])])]
    own["kind"][_rows_of(block, survey)] = Kind.SEED
    rows = [row for row in some for _ in survey.overtaken[int(block.line[row])]]
    orders = [order for row in some for order in survey.overtaken[int(block.line[row])]]
    back = _resting(orders)
    back["ts_ns"] = back["recv_ns"] = block.ts_ns[rows]
    back["seq"] = block.line[rows]
    out = back.copy()
    out["kind"], out["size"] = Kind.CANCEL, 0
    return out, back


def _rows_of(block: Messages, survey: LobsterSurvey) -> list[int]:
    """Find the messages that announce orders older than the file."""
    if not survey.overtaken or not len(block.line):
        return []
    new = np.flatnonzero(np.isin(block.line, list(survey.overtaken)))
    rows: list[int] = new.tolist()
    return rows


class _Odds:
    """What does not fit in a block of messages, and what becomes of it."""

    def __init__(
        self,
        block: Messages,
        shown: npt.NDArray[np.intp],
        survey: LobsterSurvey,
        problems: Problems,
        file: FilePath,
    ) -> None:
        self.block, self.shown, self.survey = block, shown, survey
        self.problems, self.file = problems, file
        self.dropped: list[int] = []
        """Messages that are passed over."""
        self.late: list[tuple[int, Old]] = []
        """Orders that were never announced, with the message that mentions them first."""

    def take(self, place: int, word: str, left: int) -> int:
        """Hear of a message that does not fit; see :data:`~clob.replay.readers.l2.balances.Odd`."""
        row = int(self.shown[place])
        order_id, line = int(self.block.order_id[row]), int(self.block.line[row])
        if word == "unknown" and order_id in self.survey.unannounced:
            old = self.survey.unannounced[order_id]
            self.problems.remark("order never announced")
            self.late.append((row, old))
            return old.size
        size = int(self.block.size[row])
        text = {
            "unknown": f"order {order_id} is not in the book",
            "twice": f"order {order_id} is in the book already, with {left}",
            "too much": f"{size} of order {order_id}, of which {left} remained",
            "other size": f"{size} of order {order_id} deleted, of which {left} remained",
        }[word]
        self.problems.report(
            f"order {word}" if word in ("unknown", "twice") else word, text, self.file, line
        )
        if word in ("unknown", "twice"):
            self.dropped.append(row)
        return 0

    def arrivals(self) -> Records:
        """Give the orders that were never announced, as events that rest them."""
        rows = [row for row, _ in self.late]
        events = _resting([(int(self.block.order_id[row]), old) for row, old in self.late])
        events["ts_ns"] = events["recv_ns"] = self.block.ts_ns[rows]
        events["seq"] = self.block.line[rows]
        return events

    def keys(self, run: _Runs) -> Integers:
        """Give the places of the arrivals."""
        return run.line[[row for row, _ in self.late]] * 4 + BEFORE


def _resting(orders: list[tuple[int, Old]]) -> Records:
    """Turn orders into ``SEED`` events, marked as made by the reader."""
    events = np.zeros(len(orders), EVENT)
    events["order_id"] = [order_id for order_id, _ in orders]
    for place, field in enumerate(("side", "price", "size")):
        events[field] = [old[place] for _, old in orders]
    events["kind"] = Kind.SEED
    events["flags"] = Flag.SYNTHETIC
    return events


def _seed(survey: LobsterSurvey, ts_ns: int) -> Records:
    """Give the orders that rested before the file."""
    nameless = [(INVENTED_ID + place, old) for place, old in enumerate(survey.nameless)]
    events = _resting([*nameless, *survey.older.items()])
    events["ts_ns"] = events["recv_ns"] = ts_ns
    return events
