"""The history file: finished orders, all trades and their settlement, in SQLite.

Each transaction writes the rows of whole frames together with the position in the log, so that
the file always matches the log up to that position. A deleted file is rebuilt from the log.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import msgspec

from clob import ClobError, MatchType, PairedTrade, Side, Trade
from clob.journal import ZERO_HASH
from clob_server.core.settlement_status import SettlementStatus, fate_at, settled_as
from clob_server.history import candles, positions
from clob_server.history.candles import Candle, CandleRange, Candles
from clob_server.history.positions import PositionChange, PositionWriter
from clob_server.log.files import make_file

FILE: Final = "history.db"
"""File name, in the folder of the log."""
LOCK: Final = "history.lock"
"""Lock file of the writer; a second writer waits for the first."""
ASIDE: Final = "history.db.aside"
"""Name for a history file of another log."""
DAY_MS: Final = 86_400_000
EXPIRED: Final = "expired"
"""Status in the table of an order that was cancelled because it expired."""

BUSY_MS: Final = 10_000
"""Milliseconds a connection waits for another one that creates the tables."""
PARAMETERS_MAX: Final = 1_000
"""Parameters of one query."""

_VERSION: Final = 4
_PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    # A checkpoint syncs all pages it moves, and delays the log's commits on the same disk: by 12 ms
    # for 8,000 pages, 2 ms for SQLite's default of 1,000, and hardly for these.
    "PRAGMA wal_autocheckpoint=100",
    # Rows of many makers go to many pages of the indexes by maker. With SQLite's default of 2 MB
    # these leave the cache within a transaction, and are written to the disk several times.
    "PRAGMA cache_size=-32768",
)
_SCHEMA: Final = f"""
CREATE TABLE applied(seq INTEGER NOT NULL, chain_hash BLOB NOT NULL, event_hash BLOB NOT NULL);
INSERT INTO applied VALUES(0, zeroblob(32), zeroblob(32));
CREATE TABLE orders(
    id TEXT NOT NULL, hash BLOB, market TEXT NOT NULL, token TEXT NOT NULL, side INTEGER NOT NULL,
    maker TEXT NOT NULL, client_id TEXT, status TEXT NOT NULL, command_seq INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX orders_id ON orders(id);
CREATE INDEX orders_hash ON orders(hash) WHERE hash IS NOT NULL;
CREATE INDEX orders_maker ON orders(maker, status);
CREATE INDEX orders_market ON orders(maker, market, status);
CREATE INDEX orders_client ON orders(maker, client_id) WHERE client_id IS NOT NULL;
CREATE TABLE trades(
    market TEXT NOT NULL, seq INTEGER NOT NULL, token TEXT NOT NULL,
    resting_order_id TEXT NOT NULL, incoming_order_id TEXT NOT NULL, price INTEGER NOT NULL,
    size TEXT NOT NULL, buyer TEXT NOT NULL, seller TEXT NOT NULL, resting_remaining TEXT NOT NULL,
    incoming_remaining TEXT NOT NULL, incoming_side INTEGER NOT NULL, buyer_fee TEXT NOT NULL,
    seller_fee TEXT NOT NULL, match_type TEXT NOT NULL, settled_as INTEGER NOT NULL,
    command_seq INTEGER NOT NULL, traded_ms INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY(market, seq)) WITHOUT ROWID;
CREATE INDEX trades_token ON trades(market, token, seq);
CREATE INDEX trades_incoming ON trades(incoming_order_id, number);
CREATE INDEX trades_resting ON trades(resting_order_id, number);
CREATE INDEX trades_buyer ON trades(buyer, number);
CREATE INDEX trades_seller ON trades(seller, number);
CREATE INDEX trades_buyer_market ON trades(buyer, market, number);
CREATE INDEX trades_seller_market ON trades(seller, market, number);
CREATE INDEX trades_settled ON trades(settled_as) WHERE settled_as>0;
CREATE TABLE settlements(
    settled_as INTEGER PRIMARY KEY, tx TEXT NOT NULL, reason TEXT NOT NULL,
    command_seq INTEGER NOT NULL, ended_ms INTEGER NOT NULL);
CREATE TABLE pruned(command_seq INTEGER NOT NULL);
INSERT INTO pruned VALUES(-1);
{candles.SCHEMA}
{positions.SCHEMA}
PRAGMA user_version={_VERSION};
"""
_TIMES: Final = """
CREATE INDEX IF NOT EXISTS orders_time ON orders(finished_ms);
CREATE INDEX IF NOT EXISTS trades_time ON trades(traded_ms);
"""
_ORDER: Final = f"INSERT OR REPLACE INTO orders VALUES({','.join('?' * 11)})"
_TRADE: Final = f"INSERT INTO trades VALUES({','.join('?' * 19)})"
# A later end of a trade replaces an earlier one, which a reorganisation removed.
_IS_TRADE: Final = "EXISTS(SELECT 1 FROM trades WHERE trades.settled_as={} AND trades.settled_as>0)"
_END: Final = (
    f"INSERT OR REPLACE INTO settlements SELECT ?1,?2,?3,?4,?5 WHERE {_IS_TRADE.format('?1')}"
)
_PRUNE_ENDS: Final = (
    f"DELETE FROM settlements WHERE NOT {_IS_TRADE.format('settlements.settled_as')}"
)
_PRUNED: Final = (
    "UPDATE pruned SET command_seq=max(command_seq, "
    "(SELECT ifnull(max(command_seq), -1) FROM orders WHERE finished_ms<?1), "
    "(SELECT ifnull(max(command_seq), -1) FROM trades WHERE traded_ms<?1))"
)
"""Keeps the last command of which a row was deleted, so that readers know their gap."""
_APPLIED: Final = "UPDATE applied SET seq=?, chain_hash=?, event_hash=?"

DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError)
"""SQLite errors of a damaged file; it is rebuilt."""

Row: TypeAlias = tuple[Any, ...]
"""A row of a table."""


class Rows(NamedTuple):
    """New rows of each table."""

    orders: list[Row]
    """Orders that finished."""
    trades: list[Row]
    ends: list[Row]
    """Results of settlements; without transaction and reason for a withdrawn one."""
    candles: Candles
    """The candles of the new trades."""
    positions: list[PositionChange]
    """The new trades and results, as the positions of makers follow from them."""


class ForeignHistoryError(ClobError, code="HISTORY_FOREIGN"):
    """The file belongs to another log or version and must be rebuilt."""


class Applied(NamedTuple):
    """Position of history in the log."""

    seq: int = 0
    """Last command in the file, the last of its frame."""
    chain_hash: bytes = ZERO_HASH
    """Chain hash of that frame."""
    event_hash: bytes = ZERO_HASH
    """Event hash after that command."""


class TradeRow(NamedTuple):
    """A trade, and the parts of its id."""

    event: Trade
    now_ms: int
    """Time of the trade, Unix milliseconds."""
    number: int
    """Number of the trade in all markets, from 1."""


class HistoryStore:
    """The writing connection.

    Args:
        folder: the folder of the log.
        days: days to keep orders and trades, by the time of the last command; 0 for ever.

    Raises:
        ForeignHistoryError: another version of this package wrote the file.
    """

    def __init__(self, folder: Path, days: int = 0) -> None:
        self.folder: Final = folder
        self._days = days
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if not (folder / FILE).exists():
            move_aside(folder)  # the rest of a deleted file
        make_file(folder / FILE)
        self._db = apsw.Connection(str(folder / FILE))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Create the tables if needed, and read the position."""
        self._db.set_busy_timeout(BUSY_MS)
        for pragma in _PRAGMAS:
            self._db.execute(pragma).fetchall()
        with self._db:
            ((version,),) = self._db.execute("PRAGMA user_version").fetchall()
            if version not in (0, _VERSION):
                raise ForeignHistoryError(
                    f"unsupported version {version} of {FILE} (expected {_VERSION})"
                )
            if not version:
                self._db.execute(_SCHEMA)
            self._db.execute(positions.INDEX)
            if self._days:
                self._db.execute(_TIMES)
            self.applied: Applied = applied_in(self._db)
            """Position in the log."""
        self._pruned_ms = 0
        self._files = identities(self.folder)

    def check_files(self) -> None:
        """Raise ForeignHistoryError if the open file was deleted, replaced or truncated.

        SQLite goes on with the deleted file, whose rows no reader would find any more.
        """
        if identities(self.folder) != self._files or not (self.folder / FILE).stat().st_size:
            raise ForeignHistoryError(f"{FILE} was deleted, replaced or truncated")

    def write(self, rows: Rows, applied: Applied, now_ms: int, oldest_unsettled: int = 0) -> None:
        """Add rows and their position in one transaction.

        Args:
            rows: the rows.
            applied: their position.
            now_ms: time of the last command.
            oldest_unsettled: number of the oldest trade whose settlement may change, after the
                last command.
        """
        self.check_files()
        with self._db:
            self._db.executemany(_ORDER, rows.orders)
            self._db.executemany(_TRADE, rows.trades)
            self._db.executemany(_END, rows.ends)
            candles.write_candles(self._db, rows.candles)
            PositionWriter(self._db).write(rows.positions, oldest_unsettled)
            self._db.execute(_APPLIED, applied)
            self._prune(now_ms)
        self.applied = applied

    def skip_to(self, seq: int) -> None:
        """Note that the rows of commands up to ``seq`` may be missing."""
        self._db.execute("UPDATE pruned SET command_seq=max(command_seq, ?)", (seq,))

    def _prune(self, now_ms: int) -> None:
        """Delete old rows by whole days, so that a rebuild leaves the same rows."""
        before_ms = (now_ms // DAY_MS - self._days) * DAY_MS
        if self._days and before_ms != self._pruned_ms:  # time may have been taken back
            self._db.execute(_PRUNED, (before_ms,))
            self._db.execute("DELETE FROM orders WHERE finished_ms<?", (before_ms,))
            self._db.execute("DELETE FROM trades WHERE traded_ms<?", (before_ms,))
            self._db.execute(_PRUNE_ENDS)
            self._pruned_ms = before_ms

    def close(self) -> None:
        """Close the file, and release the lock."""
        self._db.close(True)
        os.close(self._lock)


class StoreReader:
    """A reading connection, for any thread but one at a time.

    Args:
        folder: the folder of the log.

    Raises:
        apsw.Error: the file does not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.db: Final = apsw.Connection(str(folder / FILE), flags=apsw.SQLITE_OPEN_READONLY)
        """The connection, for queries of other modules."""
        self.db.set_busy_timeout(BUSY_MS)

    def applied(self) -> Applied:
        """Return the position in the log."""
        return applied_in(self.db)

    def order(self, order_id: str) -> bytes | None:
        """Return a finished order as JSON, by id; None if it is not there."""
        return self._body("SELECT body FROM orders WHERE id=?", order_id)

    def order_by_hash(self, order_hash: bytes) -> bytes | None:
        """Return a finished order as JSON, by order hash; None if it is not there."""
        return self._body("SELECT body FROM orders WHERE hash=?", order_hash)

    def trades(
        self, market: str, before: int, limit: int, token: str | None = None
    ) -> list[TradeRow]:
        """Return up to ``limit`` trades of a market with ``seq < before``, newest first."""
        condition, tokens = ("", ()) if token is None else (" AND token=?", (token,))
        return self._trades(
            f"SELECT * FROM trades WHERE market=? AND seq<?{condition} ORDER BY seq DESC LIMIT ?",
            *(market, before, *tokens, limit),
        )

    def trades_after(
        self, market: str, after: int, before: int, limit: int, token: str | None = None
    ) -> list[TradeRow]:
        """Return up to ``limit`` trades with ``after < seq < before``, oldest first."""
        condition, tokens = ("", ()) if token is None else (" AND token=?", (token,))
        return self._trades(
            f"SELECT * FROM trades WHERE market=? AND seq>? AND seq<?{condition} "
            "ORDER BY seq LIMIT ?",
            *(market, after, before, *tokens, limit),
        )

    def candles(self, wanted: Sequence[CandleRange]) -> tuple[int, list[list[Candle]]]:
        """Return the position in the log, and the candles of ranges up to there."""
        with self.db:  # all in one read
            seq, found = self.applied().seq, [candles.read_candles(self.db, w) for w in wanted]
        return seq, found

    def first_trades(self, order_id: str, now_ms: int) -> list[TradeRow]:
        """Return the trades of an order at its entry, oldest first."""
        return self._trades(
            "SELECT * FROM trades WHERE incoming_order_id=? AND traded_ms=? ORDER BY number",
            order_id,
            now_ms,
        )

    def statuses(self, numbers: Sequence[int]) -> dict[int, SettlementStatus]:
        """Return the final settlement statuses by settlement number."""
        statuses: dict[int, SettlementStatus] = {}
        for start in range(0, len(numbers), PARAMETERS_MAX):
            part = tuple(numbers[start : start + PARAMETERS_MAX])
            query = f"SELECT * FROM settlements WHERE settled_as IN ({','.join('?' * len(part))})"
            rows: list[Any] = self.db.execute(query, part).fetchall()
            statuses.update((number, fate_at(tx, reason)) for number, tx, reason, *_ in rows)
        return statuses

    def _body(self, query: str, name: object) -> bytes | None:
        rows: list[Any] = self.db.execute(query, (name,)).fetchall()
        return rows[-1][0] if rows else None

    def _trades(self, query: str, *arguments: Any) -> list[TradeRow]:
        return [trade_from_row(row) for row in self.db.execute(query, arguments).fetchall()]

    def close(self) -> None:
        """Close the file."""
        self.db.close(True)


def identities(folder: Path) -> list[tuple[int, int] | None]:
    """Return device and inode of each file of the history; None if it does not exist."""
    found: list[tuple[int, int] | None] = []
    for ending in ("", "-wal", "-shm"):
        try:
            status = os.stat(folder / f"{FILE}{ending}")
            found.append((status.st_dev, status.st_ino))
        except FileNotFoundError:
            found.append(None)
    return found


def applied_in(connection: apsw.Connection) -> Applied:
    """Read the position in the log."""
    rows: list[Any] = connection.execute("SELECT * FROM applied").fetchall()
    if len(rows) != 1:
        raise ForeignHistoryError(f"{FILE} has {len(rows)} positions, not one")
    return Applied(*rows[0])


def trade_row(
    trade: Trade, command_seq: int, now_ms: int, number: int, *, settles: bool = False
) -> Row:
    """Return the row of a trade; its settlement number is 0 if it does not settle."""
    return (
        trade.market,
        trade.seq,
        trade.token,
        str(trade.resting_order_id),
        str(trade.incoming_order_id),
        trade.price,
        str(trade.size),
        trade.buyer,
        trade.seller,
        str(trade.resting_remaining),
        str(trade.incoming_remaining),
        int(trade.incoming_side),
        str(trade.buyer_fee),
        str(trade.seller_fee),
        trade.match_type.value,
        settled_as(trade, number) if settles else 0,
        command_seq,
        now_ms,
        number,
    )


def trade_from_row(row: Row) -> TradeRow:
    """Return the trade of a row."""
    market, seq, token, resting, incoming, price, size, buyer, seller, *rest = row
    resting_left, incoming_left, side, buyer_fee, seller_fee, match_type, *_, now_ms, number = rest
    sizes = int(resting_left), int(incoming_left), Side(side), int(buyer_fee), int(seller_fee)
    event = Trade(seq, market, token, resting, incoming, price, int(size), buyer, seller, *sizes)
    if match_type != MatchType.DIRECT:
        fields = msgspec.structs.asdict(event)
        event = PairedTrade(**fields, match_type=MatchType(match_type))
    return TradeRow(event, now_ms, number)


def move_aside(folder: Path) -> None:
    """Rename the history file, so that the next writer creates a new one.

    No connection to it may be open.
    """
    for ending in ("-wal", "-shm"):
        (folder / f"{FILE}{ending}").unlink(missing_ok=True)
    if (folder / FILE).exists():
        os.replace(folder / FILE, folder / ASIDE)
