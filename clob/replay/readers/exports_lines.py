"""The lines of the tables that ``clob-server export`` writes, as text or as rows of Parquet."""

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from clob.events import RemovalReason
from clob.order import Side
from clob.replay.digits import DIGITS_MAX
from clob.replay.errors import ReplayFormatError
from clob.replay.files import FilePath, Progress, lines, plain_name
from clob.replay.optional import need
from clob.replay.problems import Ignored, Problems
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
