"""A log written out for those who read it elsewhere, and its frames let go that nobody needs.

Four tables can be made of a log: ``events``, ``trades``, ``orders`` and ``settlements``, each row
as the server says it in JSON, amounts as decimal digits. They are written as they come, so that
memory does not grow with the log; a trade therefore stands in its row as it did when it was made,
and what came of it on the chain has a row of its own. As Parquet they need the extra ``[export]``.
"""

import importlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final, Protocol, get_args

import apsw
import msgspec

from clob import (
    Event,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    Rejected,
    RejectedError,
    Trade,
)
from clob_server.api.schemas import OrderBody, TradeBody, Wire
from clob_server.cli.verify import journal_of
from clob_server.core.commands import AnyCommand, EndTrades
from clob_server.core.ids import Ids
from clob_server.core.recovery import commands_of
from clob_server.core.serialize import order_body, trade_body
from clob_server.core.settlement_ledger import Settling
from clob_server.core.settlement_status import NONE, PENDING, fate_at
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.follower import beginning
from clob_server.history.rows import HistoryRows
from clob_server.history.store import FILE, StoreReader
from clob_server.log import Folder, SqliteLog
from clob_server.log.files import snapshot_names, snapshot_seq, sync_folder

GROUP_ROWS: Final = 50_000
"""How many rows of a table are held until they are written as a group of Parquet."""

_encode: Final = msgspec.json.Encoder().encode


class RowSink(Protocol):
    """Takes the rows of a table."""

    def write(self, row: Wire) -> None:
        """Take one."""

    def close(self) -> None:
        """Write what is left, durably."""


class JsonLines:
    """A file of JSON lines.

    Args:
        path: the file, which must not be there.
    """

    def __init__(self, path: Path, _: type[Wire]) -> None:
        self._file = path.open("xb")

    def write(self, row: Wire) -> None:
        """Write a line."""
        self._file.write(_encode(row) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Parquet:
    """A file of Parquet.

    Args:
        path: the file, which must not be there.
        kind: what the rows are.
    """

    def __init__(self, path: Path, kind: type[Wire]) -> None:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        self._table = arrow.Table.from_pylist
        self._schema = arrow.schema(
            [
                (field.encode_name, column(arrow, field.type))
                for field in msgspec.structs.fields(kind)
            ]
        )
        self._rows: list[dict[str, Any]] = []
        self._file = path.open("xb")
        self._writer = parquet.ParquetWriter(self._file, self._schema)

    def write(self, row: Wire) -> None:
        """Take a row; groups of them are written."""
        self._rows.append(msgspec.to_builtins(row))
        if len(self._rows) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write a group."""
        self._writer.write_table(self._table(self._rows, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Write the last group, and close the file."""
        if self._rows:
            self._flush()
        self._writer.close()
        self._file.close()


def column(arrow: Any, annotation: Any) -> Any:
    """Give the type of a column."""
    kinds = set(get_args(annotation) or (annotation,))
    if int in kinds:
        return arrow.int64()
    return arrow.bool_() if bool in kinds else arrow.string()


PARQUET: Final = "parquet"
"""A file of Parquet for each table."""
JSON_LINES: Final = "jsonl"
"""A file of JSON for each table, an object in each line."""
FORMATS: Final = (PARQUET, JSON_LINES)
"""The formats there are; each is the ending of its files, too."""


class EventBody(Wire, frozen=True, kw_only=True):
    """An event, with all that any kind of event has; null is what its kind has not."""

    command_seq: int
    """The command that it came of."""
    timestamp: int
    """The time of that, Unix milliseconds."""
    market_id: str
    """The market."""
    seq: int
    """The number of the event in its market."""
    type: str
    """``order_added``, ``order_reduced``, ``order_removed`` or ``trade``."""
    token_id: str
    """The outcome token."""
    order_id: str
    """The order; of a trade the one that rested."""
    incoming_order_id: str | None = None
    """Of a trade, the order that came in."""
    side: int | None = None
    """0 buys, 1 sells; of a trade which way the order that came in trades."""
    price: int | None = None
    """Cents."""
    size: str | None = None
    """Of a trade, the tokens traded, in wei."""
    remaining: str | None = None
    """What is left of the order, in wei."""
    incoming_remaining: str | None = None
    """Of a trade, what is left of the order that came in, in wei."""
    reason: str | None = None
    """Why the order left the book."""


class SettlementRow(Wire, frozen=True, kw_only=True):
    """What came of a trade on the chain; of a mint or a merge each of the two has one."""

    command_seq: int
    """The command that it came with."""
    timestamp: int
    """The time of that, Unix milliseconds."""
    trade_id: str
    """The trade."""
    market_id: str
    """The market."""
    token_id: str
    """The token that was traded."""
    seq: int
    """The number of the event that the trade was."""
    settlement: str
    """``settled`` or ``failed``."""
    tx_hash: str | None = None
    """The transaction that settled it."""
    settlement_reason: str | None = None
    """Why it failed."""


TABLES: Final[dict[str, type[Wire]]] = {
    "events": EventBody,
    "trades": TradeBody,
    "orders": OrderBody,
    "settlements": SettlementRow,
}
"""What the rows of each table are."""

# ----- tables --------------------------------------------------------------------------------


def export_tables(
    log: SqliteLog,
    folder: Path,
    target: Path,
    ids: Ids,
    *,
    form: str = PARQUET,
    tables: Sequence[str] = tuple(TABLES),
) -> dict[str, int]:
    """Write tables of all that a log led to, a file for each.

    Where the beginning was dropped, they begin with the oldest snapshot. Orders are written when
    they are finished, those that rest at the end of the log after all others.

    Args:
        log: the log.
        folder: its folder.
        target: the folder for the files; it is made if it is not there.
        ids: what names trades, with the key of the server whose log it is.
        form: one of :data:`FORMATS`.
        tables: which of :data:`TABLES`.

    Returns:
        How many rows each table has.

    Raises:
        ValueError: there is no such format or table.
        ModuleNotFoundError: Parquet is asked for, and pyarrow is not installed.
        FileExistsError: a file is there already.
        LogDamagedError: a frame or a snapshot is not what was written.
    """
    if form not in FORMATS or not TABLES.keys() >= set(tables):
        raise ValueError(
            f"formats are {', '.join(FORMATS)} and tables {', '.join(TABLES)}, "
            f"not {form!r} and {', '.join(tables)}"
        )
    target.mkdir(parents=True, exist_ok=True)
    counts = dict.fromkeys(tables, 0)
    make: Callable[[Path, type[Wire]], RowSink] = JsonLines if form == JSON_LINES else Parquet
    with ExitStack() as stack:
        sinks: dict[str, RowSink] = {}
        for table in tables:
            sinks[table] = make(target / f"{table}.{form}", TABLES[table])
            stack.enter_context(closing(sinks[table]))
        for table, row in rows_of(log, folder, ids):
            if table in sinks:
                sinks[table].write(row)
                counts[table] += 1
    return counts


def rows_of(log: SqliteLog, folder: Path, ids: Ids) -> Iterator[tuple[str, Wire]]:
    """Do a log again, and give each row with the name of its table."""
    origin = log.origin.seq
    start = beginning(Folder(folder), origin, origin)
    exchange = ServerState() if start is None else ServerState.restore(start.state)
    rows = HistoryRows(exchange)
    seq = 0 if start is None else start.seq
    for frame in log.read(seq):
        for command in commands_of(frame):
            seq += 1
            num_trades, known = exchange.num_trades, rows.known(command)
            if type(command) is EndTrades:
                yield from came_of(seq, command, exchange.registry.settling, ids)
            outcome = outcome_of(exchange, command)
            if isinstance(outcome, RejectedError):
                continue
            settles = exchange.settles
            yield from happened(seq, command, outcome, num_trades, ids, settles=settles)
            rows.take(seq, command, outcome, num_trades, known)
        for row in rows.orders:
            yield "orders", msgspec.json.decode(row[-1], type=OrderBody)
        rows.clear()
    papers = exchange.registry.papers
    for record in exchange.matcher.open_orders():
        yield "orders", order_body(record, papers.get(record.order.id))


def came_of(
    seq: int, command: EndTrades, settling: Settling, ids: Ids
) -> Iterator[tuple[str, Wire]]:
    """Give the rows of trades that come to an end with a command, which is yet to be done."""
    ended: set[int] = set()
    for end in command.ends:
        what = settling.held.get(end.trade)
        if what is None or end.trade in ended:
            continue
        ended.add(end.trade)
        settlement, tx_hash, reason = fate_at(end.tx, end.reason)
        for half in what.halves:
            yield (
                "settlements",
                SettlementRow(
                    command_seq=seq,
                    timestamp=command.now_ms,
                    trade_id=ids.trade(what.traded_ms, half.number),
                    market_id=what.market,
                    token_id=half.token,
                    seq=half.seq,
                    settlement=settlement,
                    tx_hash=tx_hash,
                    settlement_reason=reason,
                ),
            )


def happened(
    seq: int,
    command: AnyCommand,
    events: Sequence[Event | Rejected],
    num_trades: int,
    ids: Ids,
    *,
    settles: Collection[str] = (),
) -> Iterator[tuple[str, Wire]]:
    """Give the rows of the events of a command."""
    now_ms = command.now_ms
    for event in events:
        if isinstance(event, Rejected):
            continue
        yield "events", event_body(event, seq, now_ms)
        if isinstance(event, Trade):
            num_trades += 1
            fate = PENDING if event.market in settles else NONE
            yield "trades", trade_body(event, ids.trade(now_ms, num_trades), now_ms, fate)


def event_body(event: Event, command_seq: int, now_ms: int) -> EventBody:
    """Describe an event."""
    more: dict[str, Any] = {}
    if isinstance(event, Trade):
        more = {
            "type": "trade",
            "order_id": str(event.resting_order_id),
            "incoming_order_id": str(event.incoming_order_id),
            "side": int(event.incoming_side),
            "price": event.price,
            "size": str(event.size),
            "remaining": str(event.resting_remaining),
            "incoming_remaining": str(event.incoming_remaining),
        }
    else:
        more = {"order_id": str(event.order_id), "remaining": str(event.remaining)}
        if isinstance(event, OrderAdded):
            more |= {"type": "order_added", "side": int(event.side), "price": event.price}
        elif isinstance(event, OrderReduced):
            more["type"] = "order_reduced"
        elif isinstance(event, OrderRemoved):
            more |= {"type": "order_removed", "reason": event.reason.value}
    return EventBody(
        command_seq=command_seq,
        timestamp=now_ms,
        market_id=event.market,
        seq=event.seq,
        token_id=event.token,
        **more,
    )


# ----- frames --------------------------------------------------------------------------------


def export_journal(log: SqliteLog, path: Path, up_to: int | None = None) -> int:
    """Write the frames of a log as a journal, durably.

    Args:
        log: the log.
        path: the file, which must not be there.
        up_to: the last command; None is all.

    Returns:
        How many frames were written.

    Raises:
        FileExistsError: the file is there.
        LogDamagedError: a frame is not what was written.
    """
    count = 0
    with path.open("xb") as file:
        for frame in journal_of(log, log.origin, log.tail.seq if up_to is None else up_to):
            file.write(frame)
            count += 1
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
    return count


def droppable(folder: Path) -> int:
    """Say up to which command the frames of a log are needed no more; 0 is none of them.

    They are covered by the older of the snapshots that are kept, so that either will do, and
    history has reached that far, since it could not be made of them again.

    Args:
        folder: the folder of the log.
    """
    names = snapshot_names(Folder(folder))
    oldest = (snapshot_seq(names[0]) or 0) if names else 0
    reached = 0
    if (folder / FILE).is_file():
        with suppress(apsw.Error), closing(StoreReader(folder)) as reader:
            reached = reader.applied().seq
    return oldest if oldest <= reached else 0


def drop(log: SqliteLog, folder: Path) -> int:
    """Let go of the frames that are needed no more; what was exported is up to the caller.

    Args:
        log: the log.
        folder: its folder.

    Returns:
        How many frames were let go.
    """
    return log.drop(droppable(folder))


# MERGED clob_server.cli.export: Files of rows, written as they come: JSON lines, or Parquet a group of rows at a time.
