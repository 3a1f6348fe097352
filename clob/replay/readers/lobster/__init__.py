"""Reads LOBSTER files: a message file of a stock, and optionally the book after each message.

A line has time in seconds after midnight, type, order id, size, price and direction (1: the resting
order buys). Types are 1 new order, 2 partial cancel, 3 deletion, 4 execution, 5 execution of a
hidden order, 6 auction, 7 halt. The reader resolves what the format leaves open:

- Consecutive executions of the same time and direction are one incoming order: an ``IOC`` of their
  total size at the worst price, with one ``FILL`` each. Hidden executions in between do not
  separate them; these and auctions become ``TRADE`` records, which do not change the book.
- An order with an id below that of the first new order is older than the file. If the file
  announces it later, it is inserted before the younger orders at its price, which are cancelled and
  rested again after it.
- An order that is never announced gets the total size of its reductions. If its id is older than
  the file it is part of the seed, in order of ids; otherwise it rests just before its first
  message.
- With a book file, size at a price of its first line that no known order explains is one order
  without an id, the oldest at its price; best prices become ``BBO`` records. A book file of n
  levels needs messages of more than n levels, since a message file omits changes beyond its own.

Times are nanoseconds after midnight unless ``midnight_ns`` is given. A lot is one share.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, Flag, Kind
from clob.replay.io.files import FilePath, Progress, plain_name
from clob.replay.io.numerals import Integers
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records, join, ticks_per_token
from clob.replay.io.streams import INVENTED_ID, Instrument, Stream
from clob.replay.readers import file_stream
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
from clob.replay.readers.lobster.survey import ACTIONS, LobsterSurvey, OlderOrder, survey_of

TICK = 100
"""Default tick: prices of the file are in units of 1/10,000 dollar, so 100 is a cent."""

INCOMING_ID = INVENTED_ID + 2**40
"""An incoming order has this id plus the line of its first execution."""

KINDS = np.array([0, Kind.LIMIT, Kind.REDUCE, Kind.CANCEL, Kind.FILL, *[Kind.TRADE] * 2], np.uint8)
"""The kind of event for each message type."""

BEFORE, SELF, FILLS, AFTER = range(4)
"""The order of events that belong to one message."""

PLACES = (BEFORE, FILLS)
"""Places of the events that cancel overtaken orders and rest them again."""


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
    """Read a LOBSTER message file and optionally its book file.

    The file is read twice: first, in this call, for the orders that are older than it and for the
    range of prices. Memory grows with the live orders, not with the file.

    Args:
        message: the message file, of the deepest level available.
        orderbook: the book file; provides sizes of the seed and best prices to compare with.
        orderbook_message: the message file of ``orderbook`` if it is not ``message``: one with
            fewer levels, whose messages also occur in ``message``.
        on_problem: the policy for malformed lines, orders announced twice, and inconsistent sizes.
        midnight_ns: the midnight that times count from, in ns since 1970.
        tick: the tick in units of the file; 100 is a cent.
        grid: lowest and highest price to read, in ticks; other messages are skipped and counted.
            None reads all prices.

    Returns:
        The stream, with prices in ticks on the smallest grid that covers them.

    Raises:
        OSError: a file cannot be read.
        ReplayFormatError: the file has no valid message.
        ValueError: ``tick`` is below 1.
    """
    if tick < 1:
        raise ValueError(f"tick must be 1 or more; got {tick}")
    lines = MessageLines(message, midnight_ns, tick, grid)
    others = None if orderbook_message is None else lines._replace(path=orderbook_message)
    survey = survey_of(lines, orderbook, others)
    return file_stream(
        message,
        lambda problems, progress: _Reader(lines, orderbook, survey, problems, progress).events(),
        on_problem,
        lo=survey.lo,
        hi=survey.hi,
        lot_wei=10**18,
        instruments=[Instrument(0, plain_name(message).partition("_")[0])],
        note="LOBSTER messages",
        scale=ticks_per_token(10_000, tick),
    )


class _Reader(NamedTuple):
    """One reading of a message file and its book file."""

    lines: MessageLines
    book: FilePath | None
    survey: LobsterSurvey
    problems: Problems
    progress: Progress

    def events(self) -> Iterator[Records]:
        problems, survey = self.problems, self.survey
        problems.remark("order without a name in the first book", len(survey.nameless))
        problems.remark("order older than the file", len(survey.older) + len(survey.overtaken))
        balances = Balances({each: old.size for each, old in survey.older.items()})
        bests = None
        if self.book is not None:
            levels = read_levels(self.book, problems, self.lines.tick)
            bests = Bests(levels, survey.lines, survey.lo, survey.hi)
        for place, block in enumerate(self._messages()):
            if not place:
                yield _seed(survey, int(block.ts_ns[0]))
            known = survey.left[place] if survey.blocks is not None else None
            yield self._block(block, balances, bests, known)

    def _messages(self) -> Iterator[Messages]:
        """Yield the messages, from memory if the first pass kept them."""
        survey = self.survey
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
        balances: Balances,
        bests: Bests | None,
        known: Integers | None,
    ) -> Records:
        """Convert a block of messages; ``known`` has remaining sizes from the first pass."""
        survey = self.survey
        shown: npt.NDArray[np.intp] = np.flatnonzero(block.type <= EXECUTED)
        left = np.zeros(len(block.line), np.int64)
        if known is not None:
            # Only orders with a mismatch are computed again; orders do not affect each other.
            left[shown if len(shown) < len(left) else slice(None)] = known
            shown = shown[_contains(survey.odd, block.order_id)[shown]]
        mismatches = _Mismatches(self, block, shown)
        left[shown] = balances.apply(
            block.order_id[shown], ACTIONS[block.type[shown]], block.size[shown], mismatches.add
        )
        run = _runs(block)
        # One array from the start, since most blocks have no other parts.
        both = np.zeros(len(block.line) + len(run.first), EVENT)
        own, incoming = both[: len(block.line)], both[len(block.line) :]
        _write_own(own, block, left, run)
        _write_incoming(incoming, block, run)
        requeued = _requeue_overtaken(block, own, survey)
        parts = [own, incoming, mismatches.arrivals(), *requeued]
        keys = [
            run.line * 4 + np.where(block.type == EXECUTED, FILLS, SELF),
            run.first_line * 4 + SELF,
            mismatches.keys(run),
            *(
                part["seq"].astype(np.int64) * 4 + at
                for part, at in zip(requeued, PLACES, strict=True)
            ),
        ]
        if mismatches.dropped:
            kept = np.ones(len(own), np.bool_)
            kept[mismatches.dropped] = False
            parts[0], keys[0] = own.take(np.flatnonzero(kept)), keys[0][kept]
        if bests is not None and len(block.line):
            for lines, records in bests.until(int(block.line[-1]), block.line[run.ends(block)]):
                at = np.searchsorted(block.line, lines)
                records["ts_ns"] = records["recv_ns"] = block.ts_ns[at]
                records["seq"] = run.line[at]
                parts.append(records)
                keys.append(run.line[at] * 4 + AFTER)
        others = mismatches.dropped or any(len(part) for part in parts[2:])
        whole = join(parts) if others else both
        return whole.take(np.argsort(np.concatenate(keys), kind="stable"))


def _contains(ids: Integers, some: Integers) -> npt.NDArray[np.bool_]:
    """Return a mask of ``some`` that are in ``ids``, which is increasing."""
    if not len(ids):
        return np.zeros(len(some), np.bool_)
    mask: npt.NDArray[np.bool_] = ids[np.searchsorted(ids[:-1], some)] == some
    return mask


class _Runs(NamedTuple):
    """The runs of executions that belong to one incoming order each."""

    line: Integers
    """The line of each message; for an execution the line of the first of its run."""
    first: npt.NDArray[np.intp]
    """The first message of each run."""
    first_line: Integers
    of: Integers
    """The run of each execution, in order."""
    rows: npt.NDArray[np.intp]
    """Indices of the executions."""

    def ends(self, block: Messages) -> npt.NDArray[np.bool_]:
        """Return a mask of messages after which the book is final, that is not within a run."""
        step = np.zeros(len(block.line) + 1, np.int64)
        last = self.rows[np.searchsorted(self.of, np.arange(len(self.first)), "right") - 1]
        step[self.first] += 1
        step[last] -= 1
        ends: npt.NDArray[np.bool_] = np.cumsum(step[:-1]) == 0
        return ends


def _runs(block: Messages) -> _Runs:
    """Find consecutive executions of one time and one direction."""
    rows = np.flatnonzero(block.type == EXECUTED)
    skipped = np.cumsum((block.type == HIDDEN) | (block.type == AUCTION))[rows]
    same = np.zeros(len(rows), np.bool_)
    # Executions are consecutive if only skipped messages are between them.
    same[1:] = np.diff(rows) - np.diff(skipped) == 1
    for column in (block.ts_ns, block.side):
        same[1:] &= np.diff(column[rows]) == 0
    first = rows[~same]
    of = np.cumsum(~same) - 1
    line = block.line.copy()
    line[rows] = block.line[first][of]
    # A hidden execution within a run stays after its fills, which have the line of the first.
    return _Runs(line, first, block.line[first], of, rows)


def _write_own(events: Records, block: Messages, left: Integers, run: _Runs) -> None:
    """Write the event of each message; executions are the fills of their run."""
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
    """Write the incoming order of each run, with the total size and the worst price."""
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


def _requeue_overtaken(
    block: Messages, own: Records, survey: LobsterSurvey
) -> tuple[Records, Records]:
    """Rest orders that are older than the file before the younger ones at their price.

    Their own events become ``SEED``. Returns the events that cancel the younger orders and those
    that rest them again.
    """
    announced: list[int] = []
    if survey.overtaken:
        announced = np.flatnonzero(np.isin(block.line, list(survey.overtaken))).tolist()
    own["kind"][announced] = Kind.SEED
    back_rows = [
        (row, order) for row in announced for order in survey.overtaken[int(block.line[row])]
    ]
    rows = [row for row, _ in back_rows]
    back = _resting([order for _, order in back_rows])
    back["ts_ns"] = back["recv_ns"] = block.ts_ns[rows]
    back["seq"] = block.line[rows]
    out = back.copy()
    out["kind"], out["size"] = Kind.CANCEL, 0
    return out, back


class _Mismatches:
    """The messages of a block that do not fit, and their resolution."""

    def __init__(self, reader: _Reader, block: Messages, shown: npt.NDArray[np.intp]) -> None:
        self.reader, self.block, self.shown = reader, block, shown
        self.dropped: list[int] = []
        """Messages to skip."""
        self.late: list[tuple[int, OlderOrder]] = []
        """Orders that were never announced, with their first message."""

    def add(self, place: int, word: str, left: int) -> int:
        """Handle one row; see :data:`~clob.replay.readers.l2.balances.Mismatch`."""
        row, problems = int(self.shown[place]), self.reader.problems
        order_id, line = int(self.block.order_id[row]), int(self.block.line[row])
        old = self.reader.survey.unannounced.get(order_id)
        if word == "unknown" and old is not None:
            problems.remark("order never announced")
            self.late.append((row, old))
            return old.size
        size = int(self.block.size[row])
        text = {
            "unknown": f"order {order_id} is not in the book",
            "twice": f"order {order_id} is already in the book, with {left} lots",
            "too much": f"order {order_id} has {left} lots, got a reduction by {size}",
            "other size": f"order {order_id} has {left} lots, got a deletion of {size}",
        }[word]
        dropped = word in ("unknown", "twice")
        kind = f"order {word}" if dropped else word
        problems.report(kind, text, self.reader.lines.path, line)
        if dropped:
            self.dropped.append(row)
        return 0

    def arrivals(self) -> Records:
        """Return events that rest the orders that were never announced."""
        rows = [row for row, _ in self.late]
        events = _resting([(int(self.block.order_id[row]), old) for row, old in self.late])
        events["ts_ns"] = events["recv_ns"] = self.block.ts_ns[rows]
        events["seq"] = self.block.line[rows]
        return events

    def keys(self, run: _Runs) -> Integers:
        return run.line[[row for row, _ in self.late]] * 4 + BEFORE


def _resting(orders: list[tuple[int, OlderOrder]]) -> Records:
    """Convert orders to synthetic ``SEED`` events."""
    events = np.zeros(len(orders), EVENT)
    events["order_id"] = [order_id for order_id, _ in orders]
    for place, field in enumerate(("side", "price", "size")):
        events[field] = [old[place] for _, old in orders]
    events["kind"] = Kind.SEED
    events["flags"] = Flag.SYNTHETIC
    return events


def _seed(survey: LobsterSurvey, ts_ns: int) -> Records:
    nameless = [(INVENTED_ID + place, old) for place, old in enumerate(survey.nameless)]
    events = _resting([*nameless, *survey.older.items()])
    events["ts_ns"] = events["recv_ns"] = ts_ns
    return events
