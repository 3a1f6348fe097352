"""Reads the tables of events and of trades that ``clob-server export`` writes.

A stream of the events replays fill for fill. The events do not contain the request of an order that
did not rest: it becomes immediate-or-cancel with the size that it traded, at the price of its last
trade. A stream cannot express trades between orders for two tokens, so events of a mint or a merge
are rejected. The table of trades yields ``TRADE`` records only. Each line or row is an object with
the keys of the HTTP interface, and amounts are strings of digits.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import Side
from clob.records import EVENT, LOTS_MAX, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import (
    FilePath,
    Progress,
    is_parquet,
    lines,
    parquet_batches,
    parquet_errors,
    parquet_schema,
    plain_name,
)
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import DIGITS_MAX
from clob.replay.readers import MS_NS, OUTCOMES, file_stream
from clob.replay.readers.journal.rows import INSTRUMENTS_MAX, ROWS, CommonLot, EventRows
from clob.units import PRICE_MAX, PRICE_MIN

SEQ_MAX = 2**63 - 1
"""The highest number of a command or an event."""

TIME_MAX_MS = SEQ_MAX // 10**6
"""The latest time of an event, Unix milliseconds."""

TABLES: dict[str, tuple[str, ...]] = {
    "events": ("commandSeq", "marketId", "tokenId", "type"),
    "trades": ("restingOrderId", "incomingSide", "marketId", "tokenId"),
    "orders": ("filledTokens", "marketId", "tokenId", "maker"),
}
"""Columns that identify each table."""

Rows: TypeAlias = "Iterator[tuple[int, Any]]"
"""The numbers of lines or rows, and their objects: as text, as mappings, or parsed."""

Numbers: TypeAlias = dict[tuple[str, str], int]
"""The instrument by market and token."""


class EventLine(msgspec.Struct, frozen=True, rename="camel"):
    """A row of the table of events; see ``clob-server export``."""

    command_seq: int
    timestamp: int
    """Unix milliseconds."""
    market_id: str
    seq: int
    """The number of the event in its market."""
    type: Literal["order_added", "order_reduced", "order_removed", "trade"]
    token_id: str
    order_id: str
    """The order; for a trade the resting one."""
    incoming_order_id: str | None = None
    side: Side | None = None
    """The side; for a trade that of the incoming order."""
    price: int | None = None
    """In cents."""
    size: str | None = None
    """For a trade, the size in wei."""
    remaining: str = "0"
    """The remaining size of the order, in wei."""
    incoming_remaining: str | None = None
    """For a trade, the remaining size of the incoming order, in wei."""
    reason: RemovalReason | None = None


class TradeLine(msgspec.Struct, frozen=True, rename="camel"):
    """A row of the table of trades: price in cents, size in wei, Unix milliseconds."""

    market_id: str
    token_id: str
    price: int
    size: str
    timestamp: int
    seq: int
    """The number of the event in its market."""
    incoming_side: Side


def table_of(names: Iterable[str]) -> str:
    """Return the table of an export that has these columns; empty for any other table.

    >>> table_of(["commandSeq", "timestamp", "marketId", "seq", "type", "tokenId"])
    'events'
    """
    columns = set(names)
    return next((name for name, needed in TABLES.items() if columns.issuperset(needed)), "")


def is_export(head: bytes) -> bool:
    """Return whether a file is a table of an export, by its complete first line."""
    if not head.startswith(b"{"):
        return False
    try:
        return bool(table_of(json.loads(head.partition(b"\n")[0])))
    except (ValueError, RecursionError):
        return False


# ----- rows ----------------------------------------------------------------------------------


def _detect_table(path: FilePath) -> str:
    """Return the table of a file, ``"events"`` or ``"trades"``; reject any other."""
    if is_parquet(path):
        names: Iterable[str] = parquet_schema(path).names
    else:
        first = next(lines(path, Ignored()), (1, b""))[1]
        names = json.loads(first) if is_export(first) else ()
    table = table_of(names)
    if table == "orders":
        raise ReplayFormatError(
            f"{plain_name(path)}: the table of orders has no order of events; "
            "export the table of events instead"
        )
    if not table:
        raise ReplayFormatError(
            f"{plain_name(path)}: expected a table of events or trades of an export"
        )
    return table


def _lines(path: FilePath, problems: Problems, progress: Progress) -> Rows:
    """Yield the lines of a text file, or the rows of a Parquet file, with their numbers."""
    if not is_parquet(path):
        yield from (line for line in lines(path, problems, progress) if line[1].strip())
        return
    yield from enumerate(_parquet_rows(path), 1)
    progress.done_bytes = progress.total_bytes


def _parquet_rows(path: FilePath) -> Iterator[Any]:
    for batch in parquet_batches(path):
        with parquet_errors(path):
            rows = batch.to_pylist()
        yield from rows


def _read_lines(
    path: FilePath,
    kind: type[EventLine] | type[TradeLine],
    problems: Problems,
    progress: Progress,
) -> Rows:
    """Parse the rows of a table; report those that are malformed or earlier than one before."""
    decode = msgspec.json.Decoder(kind).decode
    latest = 0
    for number, line in _lines(path, problems, progress):
        try:
            row = decode(line) if isinstance(line, bytes) else msgspec.convert(line, kind)
            _check(row)
        except (ValueError, RecursionError) as error:
            problems.report("broken line", str(error), path, number)
            continue
        if row.timestamp < latest:
            text = f"time must not be before {latest} ms, got {row.timestamp}"
            problems.report("clock backwards", text, path, number)
            continue
        latest = row.timestamp
        yield number, row


def _check(row: EventLine | TradeLine) -> None:
    """Raise ``ValueError`` for a row that lacks a field of its type or has one out of range."""
    amounts = [row.size]
    numbers = [row.seq]
    if isinstance(row, EventLine):
        amounts = [row.remaining]
        numbers.append(row.command_seq)
        if row.type == "trade":
            amounts += [row.size, row.incoming_remaining]
            if row.incoming_order_id is None:
                raise ValueError("a trade must have incomingOrderId")
        if row.type in ("trade", "order_added") and row.side is None:
            raise ValueError(f"an event of type {row.type} must have a side")
        if row.type == "order_removed" and row.reason is None:
            raise ValueError("an event of type order_removed must have a reason")
    for amount in amounts:
        if not (amount and amount.isascii() and amount.isdecimal()):
            raise ValueError(f"an amount must be a string of digits, got {amount!r}")
        if len(amount) > DIGITS_MAX:
            raise ValueError(f"an amount must have at most {DIGITS_MAX} digits, got {len(amount)}")
    for name, number, limit in (
        *(("seq", each, SEQ_MAX) for each in numbers),
        ("timestamp", row.timestamp, TIME_MAX_MS),
    ):
        if not 0 <= number <= limit:
            raise ValueError(f"{name} must be 0 to {limit}, got {number}")
    priced = isinstance(row, TradeLine) or row.type in ("trade", "order_added")
    if priced and not PRICE_MIN <= (row.price or 0) <= PRICE_MAX:
        raise ValueError(f"price must be {PRICE_MIN} to {PRICE_MAX} (cents), got {row.price}")


EXPORT_DIGITS_MAX = 18
"""An order id of more digits stays a string."""


def read_export(
    path: FilePath,
    *,
    yes: Mapping[str, str] | None = None,
    lot_wei: int | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a table of events or of trades written by ``clob-server export``.

    Args:
        path: ``events`` or ``trades``, as JSON lines, compressed or not, or as ``.parquet``.
        yes: the YES token by market. Tables do not state it; for a market not listed here it is
            the token that occurs first.
        lot_wei: the size of one lot, in wei; None takes the largest that divides all sizes.
        on_problem: the policy for malformed lines, gaps in event numbers, and orders that were
            never added.

    Returns:
        The stream. For trades it has ``TRADE`` records only. ``seq`` is the number of the command,
        or of the event for trades.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: the format is Parquet and pyarrow is not installed.
        ReplayFormatError: the file is another table, the input is malformed and the policy is
            ``"raise"``, sizes are too large for the lot, or the events contain a mint or a merge.
    """
    table = _detect_table(path)
    kind = EventLine if table == "events" else TradeLine
    ahead = Problems(on_problem) if on_problem == "raise" else Ignored()
    numbers, common_lot = _survey(_read_lines(path, kind, ahead, Progress()), yes or {})
    if max(numbers.values(), default=0) >= INSTRUMENTS_MAX:
        raise ReplayFormatError(
            f"{plain_name(path)}: a stream has at most {INSTRUMENTS_MAX} tokens; got {len(numbers)}"
        )
    lot = lot_wei or common_lot or 1

    def read(problems: Problems, progress: Progress) -> Iterator[Records]:
        rows = _read_lines(path, kind, problems, progress)
        if kind is TradeLine:
            return _trades(path, rows, numbers, lot)
        return _events(path, rows, numbers, lot, problems)

    books = sorted((number, market) for (market, _), number in numbers.items())
    return file_stream(
        path,
        read,
        on_problem,
        lo=PRICE_MIN,
        hi=PRICE_MAX,
        lot_wei=lot,
        instruments=[Instrument(number, market, OUTCOMES[number % 2]) for number, market in books]
        or (Instrument(0, ""),),
        note=f"{table} of an export",
        has_fills=table == "events",
    )


# ----- first pass ----------------------------------------------------------------------------


def _survey(rows: Rows, yes: Mapping[str, str]) -> tuple[Numbers, int]:
    """Find the books of all rows and the lot that divides every size."""
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
        lot.add(int(row.size if of_trade else row.remaining))
        if (row.market_id, row.token_id) in numbers:
            continue
        number = markets.setdefault(row.market_id, 2 * len(markets))
        is_no = yes[row.market_id] != row.token_id if row.market_id in yes else number in taken
        if number + is_no in taken:
            raise ReplayFormatError(f"market {row.market_id!r} must have at most two tokens")
        taken.add(number + is_no)
        numbers[row.market_id, row.token_id] = number + is_no
    return numbers, lot.lot_wei


def _check_apart(before: EventLine, row: EventLine) -> None:
    """Reject a mint or a merge: two trades of the same two orders in different tokens."""
    is_pair = (
        row.type == "trade"
        and (row.market_id, row.seq) == (before.market_id, before.seq + 1)
        and (row.order_id, row.incoming_order_id) == (before.order_id, before.incoming_order_id)
        and row.token_id != before.token_id
    )
    if is_pair:
        raise ReplayFormatError(
            f"market {row.market_id!r} is complementary: events {before.seq} and {row.seq} are a "
            "trade between two tokens, which a stream cannot express"
        )


# ----- events --------------------------------------------------------------------------------


def _events(
    path: FilePath, lines_read: Rows, numbers: Numbers, lot_wei: int, problems: Problems
) -> Iterator[Records]:
    """Convert the table of events, one command at a time."""
    rows = EventRows(path, numbers, lot_wei)
    expected: dict[str, int] = {}
    for seq, group in groupby(lines_read, lambda pair: pair[1].command_seq):
        events: list[Event] = []
        now_ms = 0
        for number, line in group:
            # Events before a log that was truncated at its start are missing, too.
            wanted = expected.get(line.market_id, 1)
            expected[line.market_id] = line.seq + 1
            if line.seq != wanted:
                text = f"expected event {wanted} of market {line.market_id!r}, got {line.seq}"
                problems.report("gap", text, path, number)
            events.append(_event(line))
            now_ms = line.timestamp
        rows.add_command(seq, now_ms, events)
        if len(rows) >= ROWS:
            yield rows.take()
    if len(rows):
        yield rows.take()


def _event(line: EventLine) -> Event:
    market, token, order_id = line.market_id, line.token_id, _order_id(line.order_id)
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
        incoming_order_id=_order_id(line.incoming_order_id or ""),
        price=price,
        size=int(line.size or 0),
        buyer="",
        seller="",
        resting_remaining=remaining,
        incoming_remaining=int(line.incoming_remaining or 0),
        incoming_side=side,
    )


def _order_id(text: str) -> str | int:
    """Return the id of an order; a short one of digits alone becomes an integer."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= EXPORT_DIGITS_MAX
    return int(text) if is_number and text[0] != "0" else text


# ----- trades --------------------------------------------------------------------------------


def _trades(path: FilePath, lines_read: Rows, numbers: Numbers, lot_wei: int) -> Iterator[Records]:
    rows: list[tuple[int, ...]] = []
    for number, line in lines_read:
        lots, rest = divmod(int(line.size), lot_wei)
        if rest or lots > LOTS_MAX:
            raise ReplayFormatError(
                f"{plain_name(path)}:{number}: size must be 0 to {LOTS_MAX} lots of "
                f"{lot_wei} wei; got {line.size} wei"
            )
        ts_ns, book = line.timestamp * MS_NS, numbers[line.market_id, line.token_id]
        side = int(line.incoming_side)
        rows.append((ts_ns, ts_ns, line.seq, 0, lots, 0, line.price, book, Kind.TRADE, side, 0))
        if len(rows) >= ROWS:
            yield np.array(rows, EVENT)
            rows = []
    if rows:
        yield np.array(rows, EVENT)
