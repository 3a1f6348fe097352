"""The file of history: finished orders, all trades, what came of them, and how far they reach.

One connection writes, each time a whole number of frames with the place they reach to, in one
transaction: what is there is exactly what the log led to up to that place. It can be deleted; it
is made again from the log.
"""

import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import msgspec

from clob import ClobError, MatchType, PairedTrade, Side, Trade
from clob.journal import ZERO_HASH
from clob_server.core.settlement_status import Fate, fate_at, settled_as
from clob_server.log.files import make_file

FILE: Final = "history.db"
"""The file, in the folder of the log."""
LOCK: Final = "history.lock"
"""Whoever writes history has this file locked: of two writers the second waits for the first."""
ASIDE: Final = "history.db.aside"
"""What a history is called that belongs to another log."""
DAY_MS: Final = 86_400_000
"""A day."""

BUSY_MS: Final = 10_000
"""How long a connection waits for another that sets the file up."""
ASKED_MAX: Final = 1_000
"""How many settlements are asked for at once."""

_VERSION: Final = 3
_PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    # A checkpoint syncs all it moves on, and the log's commit waits for that disk, too: 2 ms for
    # the thousand pages that are SQLite's own choice, 12 for eight thousand, hardly for these.
    "PRAGMA wal_autocheckpoint=100",
)
_SCHEMA: Final = f"""
CREATE TABLE applied(seq INTEGER NOT NULL, chain_hash BLOB NOT NULL, event_hash BLOB NOT NULL);
INSERT INTO applied VALUES(0, zeroblob(32), zeroblob(32));
CREATE TABLE orders(
    id TEXT NOT NULL, hash BLOB, market TEXT NOT NULL, maker TEXT NOT NULL, client_id TEXT,
    status TEXT NOT NULL, command_seq INTEGER NOT NULL, finished_ms INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE UNIQUE INDEX orders_id ON orders(id);
CREATE INDEX orders_hash ON orders(hash) WHERE hash IS NOT NULL;
CREATE TABLE trades(
    market TEXT NOT NULL, seq INTEGER NOT NULL, token TEXT NOT NULL,
    resting_order_id TEXT NOT NULL, incoming_order_id TEXT NOT NULL, price INTEGER NOT NULL,
    size TEXT NOT NULL, buyer TEXT NOT NULL, seller TEXT NOT NULL, resting_remaining TEXT NOT NULL,
    incoming_remaining TEXT NOT NULL, incoming_side INTEGER NOT NULL, buyer_fee TEXT NOT NULL,
    seller_fee TEXT NOT NULL, match_type TEXT NOT NULL, settled_as INTEGER NOT NULL,
    command_seq INTEGER NOT NULL, traded_ms INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY(market, seq)) WITHOUT ROWID;
CREATE INDEX trades_token ON trades(market, token, seq);
CREATE INDEX trades_incoming ON trades(incoming_order_id);
CREATE INDEX trades_settled ON trades(settled_as) WHERE settled_as>0;
CREATE TABLE settlements(
    settled_as INTEGER PRIMARY KEY, tx TEXT NOT NULL, reason TEXT NOT NULL,
    command_seq INTEGER NOT NULL, ended_ms INTEGER NOT NULL);
PRAGMA user_version={_VERSION};
"""
_TIMES: Final = """
CREATE INDEX IF NOT EXISTS orders_time ON orders(finished_ms);
CREATE INDEX IF NOT EXISTS trades_time ON trades(traded_ms);
"""
_ORDER: Final = f"INSERT OR REPLACE INTO orders VALUES({','.join('?' * 9)})"
_TRADE: Final = f"INSERT INTO trades VALUES({','.join('?' * 19)})"
# Only of a trade that settles, and only the first end of it: as the registry has it.
_IS_TRADE: Final = "EXISTS(SELECT 1 FROM trades WHERE trades.settled_as={} AND trades.settled_as>0)"
_END: Final = (
    f"INSERT OR IGNORE INTO settlements SELECT ?1,?2,?3,?4,?5 WHERE {_IS_TRADE.format('?1')}"
)
_FORGET: Final = f"DELETE FROM settlements WHERE NOT {_IS_TRADE.format('settlements.settled_as')}"
_APPLIED: Final = "UPDATE applied SET seq=?, chain_hash=?, event_hash=?"

Row: TypeAlias = tuple[Any, ...]
"""A row of a table."""


class ForeignHistoryError(ClobError):
    """The file is the history of another log, or of another version; it has to be made again."""

    code = "HISTORY_FOREIGN"


class Applied(NamedTuple):
    """How far history reaches."""

    seq: int = 0
    """The last command that is in it, the last of its frame."""
    chain_hash: bytes = ZERO_HASH
    """The chain hash of that frame."""
    event_hash: bytes = ZERO_HASH
    """The event hash after that command."""


class TradeRow(NamedTuple):
    """A trade, and what its id is made of."""

    event: Trade
    """The trade."""
    now_ms: int
    """When, Unix milliseconds."""
    number: int
    """Which of all trades of the server it is, counted from 1."""


class HistoryStore:
    """The connection that writes.

    Args:
        folder: the folder of the log.
        days: how many days orders and trades stay, by the time of the last command; 0 is for ever.

    Raises:
        ForeignHistoryError: another version of this package wrote the file.
    """

    def __init__(self, folder: Path, days: int = 0) -> None:
        self.folder: Final = folder
        """The folder."""
        self._days = days
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        make_file(folder / FILE)
        self._db = apsw.Connection(str(folder / FILE))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Set the file up, or find out how far it reaches."""
        self._db.set_busy_timeout(BUSY_MS)
        for pragma in _PRAGMAS:
            self._db.execute(pragma).fetchall()
        with self._db:
            ((version,),) = self._db.execute("PRAGMA user_version").fetchall()
            if version not in (0, _VERSION):
                raise ForeignHistoryError(f"{FILE} is of version {version}, not {_VERSION}")
            if not version:
                self._db.execute(_SCHEMA)
            if self._days:
                self._db.execute(_TIMES)
            self.applied: Applied = applied_in(self._db)
            """How far it reaches."""
        self._pruned_ms = 0

    def write(
        self,
        orders: Iterable[Row],
        trades: Iterable[Row],
        ends: Iterable[Row],
        applied: Applied,
        now_ms: int,
    ) -> None:
        """Add rows, and how far they reach, in one transaction.

        Args:
            orders: rows of orders, each finished since the last call.
            trades: rows of trades since then.
            ends: rows of settlements that came to an end since then.
            applied: how far history reaches with them.
            now_ms: the time of the last command, Unix milliseconds.
        """
        with self._db:
            self._db.executemany(_ORDER, orders)
            self._db.executemany(_TRADE, trades)
            self._db.executemany(_END, ends)
            self._db.execute(_APPLIED, applied)
            self._prune(now_ms)
        self.applied = applied

    def _prune(self, now_ms: int) -> None:
        """Let go of what is too old, by whole days, so that it is the same however it is made."""
        before_ms = (now_ms // DAY_MS - self._days) * DAY_MS
        if self._days and before_ms > self._pruned_ms:
            self._db.execute("DELETE FROM orders WHERE finished_ms<?", (before_ms,))
            self._db.execute("DELETE FROM trades WHERE traded_ms<?", (before_ms,))
            self._db.execute(_FORGET)
            self._pruned_ms = before_ms

    def close(self) -> None:
        """Let it go; another may write."""
        self._db.close(True)
        os.close(self._lock)


class StoreReader:
    """A connection that reads, in any thread, one at a time.

    Args:
        folder: the folder of the log.

    Raises:
        apsw.Error: there is no history yet.
    """

    def __init__(self, folder: Path) -> None:
        self._db = apsw.Connection(str(folder / FILE), flags=apsw.SQLITE_OPEN_READONLY)
        self._db.set_busy_timeout(BUSY_MS)

    def applied(self) -> Applied:
        """Tell how far history reaches."""
        return applied_in(self._db)

    def order(self, order_id: str) -> bytes | None:
        """Give a finished order in JSON, by its id."""
        return self._body("SELECT body FROM orders WHERE id=?", order_id)

    def order_by_hash(self, order_hash: bytes) -> bytes | None:
        """Give a finished order in JSON, by the hash that was signed."""
        return self._body("SELECT body FROM orders WHERE hash=?", order_hash)

    def trades(
        self, market: str, before: int, limit: int, token: str | None = None
    ) -> list[TradeRow]:
        """Give trades of a market, the newest first.

        Args:
            market: the market.
            before: the ``seq`` that all of them are below.
            limit: how many at most.
            token: which token's; None is both.
        """
        which, given = ("", (market, before)) if token is None else (" AND token=?", None)
        return self._trades(
            f"SELECT * FROM trades WHERE market=? AND seq<?{which} ORDER BY seq DESC LIMIT ?",
            *(given or (market, before, token)),
            limit,
        )

    def first_trades(self, order_id: str, now_ms: int) -> list[TradeRow]:
        """Give the trades that an order made when it came in at some time, the oldest first."""
        return self._trades(
            "SELECT * FROM trades WHERE incoming_order_id=? AND traded_ms=? ORDER BY number",
            order_id,
            now_ms,
        )

    def fates(self, numbers: Sequence[int]) -> dict[int, Fate]:
        """Give how trades stand that came to an end, by the numbers they are settled as."""
        found: dict[int, Fate] = {}
        for start in range(0, len(numbers), ASKED_MAX):
            part = tuple(numbers[start : start + ASKED_MAX])
            query = f"SELECT * FROM settlements WHERE settled_as IN ({','.join('?' * len(part))})"
            rows: list[Any] = self._db.execute(query, part).fetchall()
            found.update((number, fate_at(tx, reason)) for number, tx, reason, *_ in rows)
        return found

    def _body(self, query: str, name: object) -> bytes | None:
        """Give the body that a query finds."""
        rows: list[Any] = self._db.execute(query, (name,)).fetchall()
        return rows[-1][0] if rows else None

    def _trades(self, query: str, *arguments: Any) -> list[TradeRow]:
        """Give the trades that a query finds."""
        return [traded(row) for row in self._db.execute(query, arguments).fetchall()]

    def close(self) -> None:
        """Let it go."""
        self._db.close(True)


def applied_in(connection: apsw.Connection) -> Applied:
    """Read how far history reaches."""
    row: Any
    (row,) = connection.execute("SELECT * FROM applied").fetchall()
    return Applied(*row)


def trade_row(
    trade: Trade, command_seq: int, now_ms: int, number: int, *, settles: bool = False
) -> Row:
    """Write a trade as a row; what it is settled as is 0 where it settles nowhere."""
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


def traded(row: Row) -> TradeRow:
    """Read a trade from its row."""
    market, seq, token, resting, incoming, price, size, buyer, seller, *rest = row
    resting_left, incoming_left, side, buyer_fee, seller_fee, match_type, *_, now_ms, number = rest
    event = Trade(
        seq,
        market,
        token,
        resting,
        incoming,
        price,
        int(size),
        buyer,
        seller,
        int(resting_left),
        int(incoming_left),
        Side(side),
        int(buyer_fee),
        int(seller_fee),
    )
    if match_type != MatchType.DIRECT:
        fields = msgspec.structs.asdict(event)
        event = PairedTrade(**fields, match_type=MatchType(match_type))
    return TradeRow(event, now_ms, number)


def put_aside(folder: Path) -> None:
    """Put a history that is another log's under another name, so that a new one begins.

    Nobody may have it open.
    """
    for ending in ("-wal", "-shm"):
        (folder / f"{FILE}{ending}").unlink(missing_ok=True)
    if (folder / FILE).exists():
        os.replace(folder / FILE, folder / ASIDE)
