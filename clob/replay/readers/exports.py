"""Reads what ``clob-server export`` writes: its table of events, and that of trades.

The events say all that the books did, so that a stream of them replays fill for fill. What they do
not say is what an order asked for that did not rest: it becomes immediate-or-cancel, of the size
that it traded, at the last price it paid. Nor can a stream say that orders for two tokens met:
events of a mint or a merge are refused. Of the trades alone, only records of trades can be made.
Each line or row is an object with the names that the server uses in JSON, amounts as digits.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import Side
from clob.records import EVENT, LOTS_MAX, Kind
from clob.replay.errors import ReplayFormatError, need
from clob.replay.io.files import FilePath, Progress, lines, plain_name
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import DIGITS_MAX
from clob.replay.readers.journal.rows import (
    GRID,
    INSTRUMENTS_MAX,
    NS_PER_MS,
    OUTCOMES,
    ROWS,
    CommonLot,
    EventRows,
    SizeError,
)
from clob.units import PRICE_MAX, PRICE_MIN

SEQ_MAX = 2**63 - 1
"""The highest number of a command or an event."""

TIME_MAX_MS = SEQ_MAX // 10**6
"""The latest time that an event can have, Unix milliseconds."""

TABLES: dict[str, tuple[str, ...]] = {
    "events": ("commandSeq", "marketId", "tokenId", "type"),
    "trades": ("restingOrderId", "incomingSide", "marketId", "tokenId"),
    "orders": ("filledTokens", "marketId", "tokenId", "maker"),
}
"""Names by which each table is known."""

Base: TypeAlias = "EventLine | TradeLine"
Line: TypeAlias = tuple[int, Any]
"""The number of a line or row, and the object that stands there, as text or as a mapping."""


class EventLine(msgspec.Struct, frozen=True, rename="camel"):
    """A row of the table of events; see ``clob-server export``."""

    command_seq: int
    """The command that it came of."""
    timestamp: int
    """Its time, Unix milliseconds."""
    market_id: str
    """The market."""
    seq: int
    """The number of the event in its market."""
    type: Literal["order_added", "order_reduced", "order_removed", "trade"]
    """What happened."""
    token_id: str
    """The outcome token."""
    order_id: str
    """The order; of a trade the one that rested."""
    incoming_order_id: str | None = None
    """Of a trade, the order that came in."""
    side: Side | None = None
    """Buy or sell; of a trade which way the order that came in trades."""
    price: int | None = None
    """Cents."""
    size: str | None = None
    """Of a trade, the tokens traded, in wei."""
    remaining: str = "0"
    """What is left of the order, in wei."""
    incoming_remaining: str | None = None
    """Of a trade, what is left of the order that came in, in wei."""
    reason: RemovalReason | None = None
    """Why the order left the book."""


class TradeLine(msgspec.Struct, frozen=True, rename="camel"):
    """A row of the table of trades; see ``clob-server export``."""

    market_id: str
    """The market."""
    token_id: str
    """The outcome token."""
    price: int
    """Cents."""
    size: str
    """Tokens, in wei."""
    timestamp: int
    """Its time, Unix milliseconds."""
    seq: int
    """The number of the event in its market."""
    incoming_side: Side
    """Which way the order that came in trades."""


def table_of(names: Iterable[str]) -> str:
    """Tell which table of an export it is by the names of its columns.

    Args:
        names: the names.

    Returns:
        ``"events"``, ``"trades"`` or ``"orders"``; empty if it is none of them.

    >>> table_of(["commandSeq", "timestamp", "marketId", "seq", "type", "tokenId"])
    'events'
    """
    known = set(names)
    return next((name for name, columns in TABLES.items() if known.issuperset(columns)), "")


def is_export(head: bytes) -> bool:
    """Tell whether a text is a table of an export by its first line.

    Args:
        head: what it begins with, its first line whole.
    """
    if not head.startswith(b"{"):
        return False
    try:
        first = json.loads(head.partition(b"\n")[0])
    except ValueError:
        return False
    return bool(table_of(first))


# ----- rows ----------------------------------------------------------------------------------


def _is_parquet(path: FilePath) -> bool:
    """Tell Parquet from text, by the name."""
    return os.fspath(path).lower().endswith(".parquet")


def found_in(path: FilePath) -> str:
    """Tell which table a file is; refuse what cannot be replayed.

    Args:
        path: the file.

    Returns:
        ``"events"`` or ``"trades"``.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ReplayFormatError: it is neither of them.
    """
    if _is_parquet(path):
        parquet = need("pyarrow.parquet", "Reading Parquet files", "clob[export]")
        names: Iterable[str] = parquet.read_schema(path).names
    else:
        first = next(lines(path, Ignored()), (1, b""))[1]
        names = json.loads(first) if is_export(first) else ()
    table = table_of(names)
    if table == "orders":
        raise ReplayFormatError(
            f"{plain_name(path)}: orders as they ended do not say what happened when; "
            "the table of events does"
        )
    if not table:
        raise ReplayFormatError(f"{plain_name(path)}: no table of events or trades of an export")
    return table


def _lines(path: FilePath, problems: Problems, progress: Progress) -> Iterator[Line]:
    """Give the lines of a text, or the rows of a Parquet file, with their numbers."""
    if not _is_parquet(path):
        yield from lines(path, problems, progress)
        return
    parquet = need("pyarrow.parquet", "Reading Parquet files", "clob[export]")
    number = 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(1 << 14):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    progress.done_bytes = progress.total_bytes


def read_lines(
    path: FilePath,
    kind: type[EventLine] | type[TradeLine],
    problems: Problems,
    progress: Progress,
) -> Iterator[tuple[int, Any]]:
    """Read a table; rows that cannot be read, or are earlier than one before, are reported.

    Args:
        path: the file.
        kind: what its rows are.
        problems: where the others are reported.
        progress: is told of every byte read from the disk.

    Yields:
        The number of each row, counted from 1, and the row.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the input is broken and the policy is to raise.
    """
    decode = msgspec.json.Decoder(kind).decode
    latest = 0
    for number, line in _lines(path, problems, progress):
        try:
            row = decode(line) if isinstance(line, bytes) else msgspec.convert(line, kind)
            _check(row)
        except ValueError as error:
            problems.report("broken line", str(error), path, number)
            continue
        if row.timestamp < latest:
            said = f"{row.timestamp} ms comes after {latest} ms"
            problems.report("clock backwards", said, path, number)
            continue
        latest = row.timestamp
        yield number, row


def _check(row: Base) -> None:
    """Refuse a row that does not say what its type must say."""
    told = [row.size]
    whole = [row.seq]
    if isinstance(row, EventLine):
        told = [row.remaining]
        whole.append(row.command_seq)
        if row.type == "trade":
            told += [row.size, row.incoming_remaining]
            if row.incoming_order_id is None:
                raise ValueError("a trade must name the order that came in")
        if row.type in ("trade", "order_added") and row.side is None:
            raise ValueError("there is no side")
        if row.type == "order_removed" and row.reason is None:
            raise ValueError("there is no reason")
    for amount in told:
        if not (amount and amount.isascii() and amount.isdecimal()):
            raise ValueError(f"an amount must be digits, not {amount!r}")
        if len(amount) > DIGITS_MAX:
            raise ValueError(f"an amount has up to {DIGITS_MAX} digits, not {len(amount)}")
    in_range = min(whole) >= 0 and max(whole) <= SEQ_MAX
    if not in_range or not 0 <= row.timestamp <= TIME_MAX_MS:
        raise ValueError(f"a number or the time {row.timestamp} is out of range")
    priced = isinstance(row, TradeLine) or row.type in ("trade", "order_added")
    if priced and not PRICE_MIN <= (row.price or 0) <= PRICE_MAX:
        raise ValueError(f"a price must be {PRICE_MIN} to {PRICE_MAX}, not {row.price}")


EXPORT_DIGITS_MAX = 18
"""An order named by no more digits is named by that number."""

Numbers: TypeAlias = dict[tuple[str, str], int]


def read_export(
    path: FilePath,
    *,
    yes: Mapping[str, str] | None = None,
    lot_wei: int | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a table of events or of trades, as ``clob-server export`` writes it.

    Args:
        path: ``events`` or ``trades``, as JSON lines, compressed or not, or as ``.parquet``.
        yes: the YES token of each market. A table does not say which that is; of a market that
            is not named here it is the token that occurs first.
        lot_wei: what a size of 1 is to stand for, in wei; None takes the largest that divides all
            sizes.
        on_problem: what becomes of lines that cannot be read, of gaps in the numbers of events,
            and of orders that were never added.

    Returns:
        The stream; of trades it has ``TRADE`` records only, and nothing to execute. ``seq`` is
        the number of the command, or of the event where trades are read.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ReplayFormatError: it is no such table, the input is broken and the policy is to raise,
            sizes are too large for the lot, or events tell of a mint or a merge.
    """
    table = found_in(path)
    kind = EventLine if table == "events" else TradeLine
    problems, progress = Problems(on_problem), Progress()
    ahead = Problems(on_problem) if on_problem == "raise" else Ignored()
    numbers, found = _survey(read_lines(path, kind, ahead, Progress()), yes or {})
    if max(numbers.values(), default=0) >= INSTRUMENTS_MAX:
        raise ReplayFormatError(f"{plain_name(path)}: {len(numbers)} tokens are too many")
    lot = lot_wei or found or 1
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Read the file anew."""
        progress.expect(path)
        rows = read_lines(path, kind, problems, progress)
        make: Callable[..., Iterator[Records]] = _events if table == "events" else _trades
        return make(path, rows, numbers, lot, problems)

    return Stream(
        blocks,
        lo=GRID[0],
        hi=GRID[1],
        lot_wei=lot,
        instruments=[
            Instrument(number, market, OUTCOMES[number % 2])
            for (market, _), number in sorted(numbers.items(), key=lambda item: item[1])
        ]
        or (Instrument(0, ""),),
        name=plain_name(path),
        note=f"{table} of an export",
        problems=problems,
        progress=progress,
        has_fills=table == "events",
    )


# ----- beforehand ----------------------------------------------------------------------------


def _survey(rows: Iterator[tuple[int, Any]], yes: Mapping[str, str]) -> tuple[Numbers, int]:
    """Go through all rows for the books there are, and for the lot that divides every size."""
    numbers: Numbers = {}
    markets: dict[str, int] = {}
    taken: set[int] = set()
    lot = CommonLot()
    before: Any = None
    for _, row in rows:
        if before is not None:
            _check_apart(before, row)
        before = row if isinstance(row, EventLine) and row.type == "trade" else None
        of_trade = isinstance(row, TradeLine) or row.type == "trade"
        lot.size(int(row.size if of_trade else row.remaining))
        if (row.market_id, row.token_id) in numbers:
            continue
        number = markets.setdefault(row.market_id, 2 * len(markets))
        is_no = yes[row.market_id] != row.token_id if row.market_id in yes else number in taken
        if number + is_no in taken:
            raise ReplayFormatError(f"market {row.market_id!r} has more than two tokens")
        taken.add(number + is_no)
        numbers[row.market_id, row.token_id] = number + is_no
    return numbers, lot.lot_wei


def _check_apart(before: EventLine, row: EventLine) -> None:
    """Refuse a mint or a merge: two trades of the same two orders, each of another token."""
    is_pair = (
        row.type == "trade"
        and (row.market_id, row.seq) == (before.market_id, before.seq + 1)
        and (row.order_id, row.incoming_order_id) == (before.order_id, before.incoming_order_id)
        and row.token_id != before.token_id
    )
    if is_pair:
        raise ReplayFormatError(
            f"market {row.market_id!r} is complementary: events {before.seq} and {row.seq} are "
            "trades of two tokens that meet, which the events of a stream cannot say"
        )


# ----- events --------------------------------------------------------------------------------


def _events(
    path: FilePath,
    lines_read: Iterator[tuple[int, EventLine]],
    numbers: Numbers,
    lot_wei: int,
    problems: Problems,
) -> Iterator[Records]:
    """Make events of the table of events, those of one command at a time."""
    rows = EventRows(numbers, lot_wei)
    expected: dict[str, int] = {}
    some: list[Event] = []
    before: EventLine | None = None
    try:
        for number, line in chain(lines_read, [(0, None)]):
            if before and (line is None or line.command_seq != before.command_seq):
                rows.happened(before.command_seq, before.timestamp, some)
                some = []
                if len(rows) >= ROWS:
                    yield rows.take()
            if line is not None:
                _report_gap(path, number, line, expected, problems)
                some.append(_event(line))
            before = line
    except SizeError as error:
        raise ReplayFormatError(f"{plain_name(path)}: {error}") from error
    if len(rows):
        yield rows.take()


def _report_gap(
    path: FilePath, number: int, line: EventLine, expected: dict[str, int], problems: Problems
) -> None:
    """Report events that are missing, be it because the beginning of the log was dropped."""
    wanted = expected.get(line.market_id, 1)
    expected[line.market_id] = line.seq + 1
    if line.seq != wanted:
        said = f"event {line.seq} of market {line.market_id!r} comes where {wanted} was to follow"
        problems.report("gap", said, path, number)


def _event(line: EventLine) -> Event:
    """Make the event of the engine of a row."""
    market, token, order_id = line.market_id, line.token_id, _named(line.order_id)
    remaining = int(line.remaining)
    if line.type == "order_removed":
        reason = line.reason or RemovalReason.CANCELLED
        return OrderRemoved(line.seq, market, token, order_id, reason, remaining)
    if line.type == "order_reduced":
        return OrderReduced(line.seq, market, token, order_id, remaining)
    side, price = line.side or Side.BUY, line.price or 0
    if line.type == "order_added":
        return OrderAdded(line.seq, market, token, order_id, side, price, remaining)
    return Trade(
        seq=line.seq,
        market=market,
        token=token,
        resting_order_id=order_id,
        incoming_order_id=_named(line.incoming_order_id or ""),
        price=price,
        size=int(line.size or 0),
        buyer="",
        seller="",
        resting_remaining=remaining,
        incoming_remaining=int(line.incoming_remaining or 0),
        incoming_side=side,
    )


def _named(text: str) -> str | int:
    """Give the name of an order; one of digits alone is a number."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= EXPORT_DIGITS_MAX
    return int(text) if is_number and text[0] != "0" else text


# ----- trades --------------------------------------------------------------------------------


def _trades(
    path: FilePath,
    lines_read: Iterator[tuple[int, TradeLine]],
    numbers: Numbers,
    lot_wei: int,
    problems: Problems,
) -> Iterator[Records]:
    """Make records of trades of the table of trades."""
    del problems  # those of the lines are all there are
    rows: list[tuple[int, ...]] = []
    for number, line in chain(lines_read, [(0, None)]):
        if line is not None:
            lots, rest = divmod(int(line.size), lot_wei)
            if rest or lots > LOTS_MAX:
                raise ReplayFormatError(
                    f"{plain_name(path)}:{number}: {line.size} wei are not 0 to {LOTS_MAX} lots "
                    f"of {lot_wei} wei"
                )
            ts_ns, book = line.timestamp * NS_PER_MS, numbers[line.market_id, line.token_id]
            side = int(line.incoming_side)
            rows.append((ts_ns, ts_ns, line.seq, 0, lots, 0, line.price, book, Kind.TRADE, side, 0))
        if len(rows) >= ROWS or (line is None and rows):
            yield np.array(rows, EVENT)
            rows = []


# MERGED clob.replay.readers.exports: The lines of the tables that ``clob-server export`` writes, as text or as rows of Parquet.
