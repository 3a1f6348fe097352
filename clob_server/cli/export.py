"""Exports a log as tables or as a journal, and deletes exported frames.

The tables are ``events``, ``trades``, ``orders`` and ``settlements``, with the fields of the
server's JSON and amounts as decimal digits. Rows are written as they are produced, so memory does
not grow with the log. A trade's row therefore shows the trade when it was made; its settlement has
a row of its own. Parquet needs the extra ``[export]``.
"""

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final, get_args

import apsw
import msgspec
from msgspec.structs import fields

from clob import Event, OrderAdded, OrderReduced, OrderRemoved, Rejected, RejectedError, Trade
from clob.wire import Wire
from clob.wire.markets import TradeBody
from clob.wire.orders import OrderBody
from clob_server.cli.verify import journal_of
from clob_server.core.commands import EndTrades, ReviseTrades
from clob_server.core.ids import Ids
from clob_server.core.recovery import commands_of
from clob_server.core.serialize import order_body, trade_body
from clob_server.core.settlement_ledger import SettlementLedger
from clob_server.core.settlement_status import NONE, PENDING, fate_at
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.follower import start_snapshot
from clob_server.history.rows import HistoryRows
from clob_server.history.store import FILE, StoreReader
from clob_server.log import Folder, SqliteLog
from clob_server.log.files import snapshot_names, snapshot_seq, sync_folder

GROUP_ROWS: Final = 50_000
"""Rows per Parquet row group."""

_encode: Final = msgspec.json.Encoder().encode


class JsonLines:
    """A new file of JSON lines."""

    def __init__(self, path: Path, _: type[Wire]) -> None:
        self._file = path.open("xb")

    def write(self, row: Wire) -> None:
        """Write a row as one line."""
        self._file.write(_encode(row) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Parquet(JsonLines):
    """A new Parquet file with rows of one type."""

    def __init__(self, path: Path, kind: type[Wire]) -> None:
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        columns = [(each.encode_name, column(arrow, each.type)) for each in fields(kind)]
        self._table = arrow.Table.from_pylist
        self._schema = arrow.schema(columns)
        self._rows: list[dict[str, Any]] = []
        super().__init__(path, kind)
        self._writer = parquet.ParquetWriter(self._file, self._schema)

    def write(self, row: Wire) -> None:
        """Buffer a row; full groups are written."""
        self._rows.append(msgspec.to_builtins(row))
        if len(self._rows) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(self._table(self._rows, schema=self._schema))
        self._rows.clear()

    def close(self) -> None:
        """Write the last group and close the file."""
        if self._rows:
            self._flush()
        self._writer.close()
        super().close()


def column(arrow: Any, annotation: Any) -> Any:
    """Return the Arrow type of a column."""
    kinds = set(get_args(annotation) or (annotation,))
    if int in kinds:
        return arrow.int64()
    return arrow.bool_() if bool in kinds else arrow.string()


PARQUET: Final = "parquet"
"""One Parquet file per table."""
JSON_LINES: Final = "jsonl"
"""One file per table with a JSON object per line."""
FORMATS: Final = (PARQUET, JSON_LINES)
"""Formats; also the file endings."""


class EventBody(Wire, frozen=True, kw_only=True):
    """An event; fields that its type lacks are null."""

    command_seq: int
    timestamp: int
    """Time of the command, Unix milliseconds."""
    market_id: str
    seq: int
    """Sequence number of the event in its market."""
    type: str
    """``order_added``, ``order_reduced``, ``order_removed`` or ``trade``."""
    token_id: str
    order_id: str
    """The order; for a trade, the resting order."""
    incoming_order_id: str | None = None
    """For a trade, the incoming order."""
    side: int | None = None
    """0 buy, 1 sell; for a trade, the side of the incoming order."""
    price: int | None = None
    """Price in cents."""
    size: str | None = None
    """For a trade, the size in wei."""
    remaining: str | None = None
    """Remaining size of the order, in wei."""
    incoming_remaining: str | None = None
    """For a trade, the remaining size of the incoming order, in wei."""
    reason: str | None = None
    """Reason of a removal."""


class SettlementRow(Wire, frozen=True, kw_only=True):
    """The settlement of a trade; both trades of a mint or a merge have one."""

    command_seq: int
    timestamp: int
    """Time of the command, Unix milliseconds."""
    trade_id: str
    market_id: str
    token_id: str
    seq: int
    """Sequence number of the trade's event."""
    settlement: str
    """``settled``, ``failed``, or ``pending`` if a reorganisation of the chain removed the result;
    the last row of a trade counts."""
    tx_hash: str | None = None
    settlement_reason: str | None = None
    """Reason of a failure or withdrawal."""


TABLES: Final[dict[str, type[Wire]]] = {
    "events": EventBody,
    "trades": TradeBody,
    "orders": OrderBody,
    "settlements": SettlementRow,
}
"""Row type of each table."""

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
    """Write tables of a log, one file each.

    If old frames were deleted, the tables start at the oldest snapshot. Orders are written when
    they finish; those that still rest follow at the end.

    Args:
        log: the log.
        folder: its folder.
        target: the folder for the files; created if missing.
        ids: trade ids, with the key of the server that wrote the log.
        form: one of :data:`FORMATS`.
        tables: some of :data:`TABLES`.

    Returns:
        The number of rows per table.

    Raises:
        ValueError: unknown format or table.
        ModuleNotFoundError: Parquet without pyarrow.
        FileExistsError: a file exists.
        LogDamagedError: the bytes of a frame or a snapshot were changed.
    """
    if form not in FORMATS or not TABLES.keys() >= set(tables):
        raise ValueError(
            f"formats are {', '.join(FORMATS)} and tables {', '.join(TABLES)}; "
            f"got {form!r} and {', '.join(tables)}"
        )
    target.mkdir(parents=True, exist_ok=True)
    counts = dict.fromkeys(tables, 0)
    make = JsonLines if form == JSON_LINES else Parquet
    with ExitStack() as stack:
        sinks: dict[str, JsonLines] = {}
        for table in tables:
            sinks[table] = make(target / f"{table}.{form}", TABLES[table])
            stack.enter_context(closing(sinks[table]))
        for table, row in rows_of(log, folder, ids):
            if table in sinks:
                sinks[table].write(row)
                counts[table] += 1
    return counts


def rows_of(log: SqliteLog, folder: Path, ids: Ids) -> Iterator[tuple[str, Wire]]:
    """Replay a log and yield rows with the names of their tables."""
    origin = log.origin.seq
    start = start_snapshot(Folder(folder), origin, origin)
    seq, state = (0, ServerState()) if start is None else (start[0].seq, start[1]())
    rows = HistoryRows(state)
    for frame in log.read(seq):
        for command in commands_of(frame):
            seq += 1
            num_trades, before = state.num_trades, rows.orders_before(command)
            if type(command) is EndTrades or type(command) is ReviseTrades:
                yield from settlement_rows(seq, command, state.registry.settling, ids)
            outcome = outcome_of(state, command)
            if isinstance(outcome, RejectedError):
                continue
            number = num_trades
            for event in outcome:
                if isinstance(event, Rejected):
                    continue
                yield "events", event_body(event, seq, command.now_ms)
                if isinstance(event, Trade):
                    number += 1
                    fate = PENDING if event.market in state.settles else NONE
                    trade_id = ids.trade(command.now_ms, number)
                    yield "trades", trade_body(event, trade_id, command.now_ms, fate)
            rows.add(seq, command, outcome, num_trades, before)
        for row in rows.take().orders:
            yield "orders", msgspec.json.decode(row[-1], type=OrderBody)
    signature = state.signature
    for record in state.matcher.open_orders():
        yield "orders", order_body(record, signature(record.order.id))


def settlement_rows(
    seq: int, command: EndTrades | ReviseTrades, settling: SettlementLedger, ids: Ids
) -> Iterator[tuple[str, Wire]]:
    """Yield rows of trades that a command ends or withdraws the result of, before it is applied."""
    ended: set[int] = set()
    if isinstance(command, EndTrades):
        ends = [(each.trade, each.tx, each.reason) for each in command.ends]
    else:
        ends = [(number, "", command.reason) for number in command.trades]
    for number, tx, why in ends:
        before = settling.ended.get(number)
        can_change = before is not None and before.fill is not None
        trade = settling.held.get(number) or (before if can_change else None)
        if trade is None or number in ended:
            continue
        ended.add(number)
        settlement, tx_hash, _, _ = fate_at(tx, why)
        for half in trade.halves:
            row = SettlementRow(
                command_seq=seq,
                timestamp=command.now_ms,
                trade_id=ids.trade(trade.traded_ms, half.number),
                market_id=trade.market,
                token_id=half.token,
                seq=half.seq,
                settlement=settlement,
                tx_hash=tx_hash,
                settlement_reason=why or None,
            )
            yield "settlements", row


def event_body(event: Event, command_seq: int, now_ms: int) -> EventBody:
    """Build the row of an event."""
    more: dict[str, Any]
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
    """Write the frames of a log up to a command as a durable journal; return their number.

    Raises:
        FileExistsError: the file exists.
        LogDamagedError: the bytes of a frame were changed.
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
    """Return the last command whose frames can be deleted, 0 if none can.

    The oldest kept snapshot must cover them, so that any snapshot can be restored, and history must
    contain them, since it could not be rebuilt.
    """
    names = snapshot_names(Folder(folder))
    oldest = (snapshot_seq(names[0]) or 0) if names else 0
    reached = 0
    if (folder / FILE).is_file():
        with suppress(apsw.Error), closing(StoreReader(folder)) as reader:
            reached = reader.applied().seq
    return oldest if oldest <= reached else 0


def drop(log: SqliteLog, folder: Path) -> int:
    """Delete the frames up to :func:`droppable`, which were exported; return their number."""
    return log.drop(droppable(folder))
