"""Durable storage of the chain worker: operations, their transactions, all signed bytes.

A transaction is stored with account, nonce, bytes and hash before it is sent. SQLite in WAL mode,
one exclusive connection, fsync at each commit. Data that the node can provide again (such as
receipts) waits for the next commit; :meth:`Outbox.commit` is called before anything is sent or
reported.

In a cluster a commit is first a record in the log, from which the other nodes make the same changes
to outboxes of their own. So each of them can continue the operations, and none signs a nonce twice.
"""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from clob_server.chain.tx.steps import Draft, Operation, SignedTransaction, Step
from clob_server.log import LogError
from clob_server.log.files import make_file, make_folder, sync_folder

FILE: Final = "outbox.db"
"""File name, in the folder of the worker."""

_VERSION: Final = 2
_STEPS: Final = """
CREATE TABLE steps(
    number INTEGER PRIMARY KEY, operation INTEGER NOT NULL, name TEXT NOT NULL,
    counts INTEGER NOT NULL, status TEXT NOT NULL, nonce INTEGER, target TEXT NOT NULL,
    data BLOB NOT NULL, value TEXT NOT NULL, gas INTEGER NOT NULL, expects TEXT NOT NULL,
    head INTEGER NOT NULL, hash TEXT, block INTEGER, logs BLOB, error TEXT,
    changed_ms INTEGER NOT NULL, account TEXT NOT NULL);
"""
_INDEXES: Final = f"""
CREATE UNIQUE INDEX steps_name ON steps(operation, name) WHERE counts;
CREATE UNIQUE INDEX steps_nonce ON steps(account, nonce);
CREATE INDEX steps_status ON steps(status, nonce);
PRAGMA user_version={_VERSION};
"""
_FROM_VERSION_1: Final = f"""
ALTER TABLE steps RENAME TO steps_1;
{_STEPS}
INSERT INTO steps SELECT *, '' FROM steps_1;
DROP TABLE steps_1;
{_INDEXES}
"""
"""Version 1 had one account only, so a nonce occurred once."""
_SCHEMA: Final = f"""
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE operations(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, body BLOB NOT NULL,
    status TEXT NOT NULL, answer BLOB, error TEXT, begun_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL);
CREATE INDEX operations_status ON operations(status, number);
CREATE TABLE offers(
    hash TEXT PRIMARY KEY, step INTEGER NOT NULL, raw BLOB NOT NULL, max_fee TEXT NOT NULL,
    tip TEXT NOT NULL);
CREATE INDEX offers_step ON offers(step);
{_STEPS}
{_INDEXES}
"""
_OPERATION: Final = (
    "SELECT number, id, kind, body, status, answer, error, begun_ms, changed_ms FROM operations "
)
_STEP: Final = (
    "SELECT operation, name, nonce, target, data, value, gas, expects, head, number, counts, "
    "status, hash, block, logs, error, changed_ms FROM steps "
)
_CHANGES: Final = {
    "fact": "INSERT OR REPLACE INTO facts VALUES(?, ?)",
    "operation": (
        "INSERT INTO operations(id, kind, body, status, begun_ms, changed_ms) "
        "VALUES(?, ?, ?, 'pending', ?, ?)"
    ),
    "status": "UPDATE operations SET status=?, answer=?, error=?, changed_ms=? WHERE number=?",
    "step": (
        "INSERT INTO steps(operation, name, counts, status, nonce, target, data, value, gas, "
        "expects, head, error, changed_ms, account) "
        "VALUES(?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ),
    "transaction": "INSERT INTO offers(hash, step, raw, max_fee, tip) VALUES(?, ?, ?, ?, ?)",
    "receipt": (
        "UPDATE steps SET status=?, hash=?, block=?, logs=?, error=?, changed_ms=? WHERE number=?"
    ),
    "reset": (
        "UPDATE steps SET status='signed', hash=NULL, block=NULL, logs=NULL, changed_ms=? "
        "WHERE number=?"
    ),
    "error": "UPDATE steps SET error=?, changed_ms=? WHERE number=?",
    "lost": (
        "UPDATE steps SET status='lost', counts=0, nonce=NULL, error=?, changed_ms=? WHERE number=?"
    ),
    "discard": (
        "UPDATE steps SET counts=0 "
        "WHERE operation=? AND counts AND status IN ('failed', 'reverted')"
    ),
}
"""Every change of an outbox, by the name that records have for it."""
_RECORDS: Final = "records"
"""Fact: number of the last record, and of its command in the log."""

Place: TypeAlias = tuple[int, int, int]
"""The highest operation and step, and the number of transactions."""
StoreRecord: TypeAlias = Callable[[int, bytes], int]
"""Stores a record by its number in the log, and returns the number of its command."""


class OutboxCommit(msgspec.Struct, array_like=True):
    """The changes of one commit."""

    before: Place = (0, 0, 0)
    """Content of the outbox before them."""
    changes: list[tuple[str, tuple[Any, ...]]] = []
    """Names and values."""


class OutboxError(Exception):
    """The outbox cannot be opened."""


class OutboxBehindError(LogError, code="OUTBOX_BEHIND"):
    """The outbox lacks changes that the log of the cluster no longer has, or never had."""


class Outbox:
    """The database connection.

    Args:
        folder: folder of the file; created if it is missing.
        store: stores each commit in the log of a cluster first; None outside of one.
        floor: the log accepts records with higher numbers only.
        is_copy: whether it only follows records, which the log has if this file loses them.

    Raises:
        OutboxError: another process uses it, a newer version wrote it, or it is damaged.
    """

    def __init__(
        self,
        folder: Path,
        store: StoreRecord | None = None,
        *,
        floor: int = 0,
        is_copy: bool = False,
    ) -> None:
        self.path: Final[Path] = folder / FILE
        """Path of the file."""
        self._store, self._floor = store, floor
        self._synchronous = "NORMAL" if is_copy else "FULL"
        self._next = OutboxCommit()
        self._is_closed = False
        self._account = ""
        try:
            make_folder(folder)
            make_file(self.path)
            sync_folder(folder)
            self._db = apsw.Connection(str(self.path))
        except (OSError, apsw.Error) as error:
            raise OutboxError(f"the outbox {self.path} cannot be opened: {error}") from error
        try:
            self._set_up()
        except apsw.BusyError:
            self._db.close(True)
            raise OutboxError(f"another process uses the outbox {self.path}") from None
        except apsw.Error as error:
            self._db.close(True)
            raise OutboxError(f"the outbox {self.path} cannot be read: {error}") from error
        except BaseException:
            self._db.close(True)
            raise

    def _set_up(self) -> None:
        """Lock the database and create missing tables."""
        for name in ("locking_mode=EXCLUSIVE", "journal_mode=WAL"):
            self._rows(f"PRAGMA {name}")
        self._rows(f"PRAGMA synchronous={self._synchronous}")
        self._db.execute("BEGIN IMMEDIATE")
        ((version,),) = self._rows("PRAGMA user_version")
        if version > _VERSION:
            raise OutboxError(
                f"unsupported version {version} of the outbox {self.path} (expected {_VERSION})"
            )
        if version < _VERSION:
            self._db.execute(_FROM_VERSION_1 if version else _SCHEMA)
        self._db.execute("COMMIT")
        counted: Any = self._rows("SELECT status, count(*) FROM operations GROUP BY status")
        self.counts: dict[str, int] = {
            "pending": 0, "done": 0, "failed": 0, "stuck": 0, **dict(counted)
        }  # fmt: skip
        """Number of operations by status."""
        ((offers, steps),) = self._rows("SELECT count(*), count(DISTINCT step) FROM offers")
        ((foreign,),) = self._rows("SELECT count(*) FROM steps WHERE status='lost'")
        self._totals: dict[str, int] = {"bumped": offers - steps, "foreign": foreign}

    def of(self, account: str) -> "Outbox":
        """Return the outbox for another account than the operator's: it has nonces of its own.

        Both share the connection, which the operator's closes.
        """
        other = copy.copy(self)
        other._account = account
        return other

    @property
    def num_bumped(self) -> int:
        """Transactions signed again with a higher fee."""
        return self._totals["bumped"]

    @property
    def num_foreign(self) -> int:
        """Nonces used by transactions of another sender."""
        return self._totals["foreign"]

    # ----- writing ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Make all writes durable, in a cluster first in its log."""
        if self._store is not None and self._next.changes:
            number = max(self.records[0], self._floor) + 1
            data = msgspec.msgpack.encode(self._next)
            self._next.changes.clear()
            self._set_records(number, self._store(number, data))
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def _write(self, change: str, *values: Any) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")
        if self._store is not None:
            if not self._next.changes:
                self._next.before = self._place()
            self._next.changes.append((change, values))
        self._db.execute(_CHANGES[change], values)

    def _rows(self, query: str, *arguments: Any) -> list[Any]:
        return self._db.execute(query, arguments).fetchall()

    # ----- records of a cluster ----------------------------------------------------------------

    @property
    def records(self) -> tuple[int, int]:
        """Number of the last record that this outbox contains, and of its command; 0 for none."""
        number, _, seq = (self.get_fact(_RECORDS) or "0:0").partition(":")
        return int(number), int(seq)

    def _set_records(self, number: int, seq: int) -> None:
        self._db.execute(_CHANGES["fact"], (_RECORDS, f"{number}:{seq}"))

    def _place(self) -> Place:
        query = "SELECT ifnull(max(number), 0) FROM {}"
        queries = (*map(query.format, ("operations", "steps")), "SELECT count(*) FROM offers")
        operation, step, transactions = (self._rows(each)[0][0] for each in queries)
        return operation, step, transactions

    def follow(self, number: int, seq: int, data: bytes) -> None:
        """Make the changes of a record, unless this outbox contains them.

        Args:
            number: number of the record.
            seq: number of its command in the log.
            data: the record.

        Raises:
            OutboxBehindError: this outbox is not the one before the record.
        """
        if number <= self.records[0]:
            return
        record = msgspec.msgpack.decode(data, type=OutboxCommit)
        unknown = {change for change, _ in record.changes} - _CHANGES.keys()
        if unknown:
            raise OutboxBehindError(
                f"record {number} of the log has changes of a newer version: {sorted(unknown)}"
            )
        if record.before != (place := self._place()):
            raise OutboxBehindError(
                f"{self.path} differs from the outboxes of the other nodes: record {number} of the "
                f"log follows operation {record.before[0]} and step {record.before[1]}, and it ends"
                f" with {place[0]} and {place[1]}; replace it by that of another node"
            )
        with self._db:
            for change, values in record.changes:
                self._db.execute(_CHANGES[change], values)
            self._set_records(number, seq)

    # ----- facts -----------------------------------------------------------------------------

    def get_fact(self, name: str) -> str | None:
        """Return a fact; None if it is unknown."""
        rows = self._rows("SELECT value FROM facts WHERE name=?", name)
        return rows[0][0] if rows else None

    def set_fact(self, name: str, value: str) -> None:
        """Store a fact."""
        self._write("fact", name, value)

    # ----- operations ------------------------------------------------------------------------

    def begin(self, name: str, kind: str, body: bytes, now_ms: int) -> Operation:
        """Insert a pending operation."""
        self._write("operation", name, kind, body, now_ms, now_ms)
        self.counts["pending"] += 1
        return self.operation(self._db.last_insert_rowid())

    def find(self, name: str) -> Operation | None:
        """Return an operation by id; None if it is unknown."""
        return next(iter(self._operations("WHERE id=?", name)), None)

    def operation(self, number: int) -> Operation:
        """Return an operation by number."""
        (operation,) = self._operations("WHERE number=?", number)
        return operation

    def pending(self) -> list[Operation]:
        """Return pending operations, oldest first."""
        return self._operations("WHERE status='pending' ORDER BY number")

    def stuck(self) -> list[Operation]:
        """Return stuck operations, oldest first."""
        return self._operations("WHERE status='stuck' ORDER BY number")

    def newest(self, status: str | None, limit: int, before: int | None) -> list[Operation]:
        """Return operations with a status and a number below ``before``, newest first."""
        condition = "" if status is None else "status=? AND "
        arguments = () if status is None else (status,)
        last = 2**62 if before is None else before
        where = f"WHERE {condition}number<? ORDER BY number DESC LIMIT ?"
        return self._operations(where, *arguments, last, limit)

    def _operations(self, where: str, *arguments: Any) -> list[Operation]:
        return [Operation(*row) for row in self._rows(_OPERATION + where, *arguments)]

    def set_status(
        self, number: int, status: str, *, answer: bytes | None = None, error: str | None = None
    ) -> Operation:
        """Update status, answer and error of an operation."""
        self.counts[self.operation(number).status] -= 1
        self.counts[status] += 1
        self._write("status", status, answer, error, clock_ms(), number)
        return self.operation(number)

    # ----- steps -----------------------------------------------------------------------------

    def steps(self, operation: int) -> list[Step]:
        """Return all steps of an operation in insertion order."""
        return self._steps("WHERE operation=? ORDER BY number", operation)

    def step(self, number: int) -> Step:
        """Return a step by number."""
        (step,) = self._steps("WHERE number=?", number)
        return step

    def current_steps(self, operation: int) -> dict[str, Step]:
        """Return the current steps of an operation by name, in insertion order."""
        steps = self._steps("WHERE operation=? AND counts ORDER BY number", operation)
        return {step.name: step for step in steps}

    def from_nonce(self, nonce: int) -> list[Step]:
        """Return the account's steps with this nonce or a higher one, lowest first."""
        return self._steps("WHERE account=? AND nonce>=? ORDER BY nonce", self._account, nonce)

    def _steps(self, where: str, *arguments: Any) -> list[Step]:
        """Return the steps of a query with their signed transactions."""
        query = "SELECT hash, raw, max_fee, tip FROM offers WHERE step=? ORDER BY rowid"
        steps = [Step(*row) for row in self._rows(_STEP + where, *arguments)]
        return [
            msgspec.structs.replace(
                step,
                value=int(step.value),
                transactions=tuple(
                    SignedTransaction(tx_hash, raw, int(fee), int(tip))
                    for tx_hash, raw, fee, tip in self._rows(query, step.number)
                ),
            )
            for step in steps
        ]

    def next_nonce(self) -> int:
        """Return the nonce after the highest one ever signed."""
        query = "SELECT ifnull(max(nonce) + 1, 0) FROM steps WHERE account=?"
        ((nonce,),) = self._rows(query, self._account)
        return int(nonce)

    def highest_included_nonce(self) -> int:
        """Return the highest nonce known to be in a block, or -1."""
        query = (
            "SELECT ifnull(max(nonce), -1) FROM steps "
            "WHERE account=? AND status IN ('confirmed', 'reverted')"
        )
        ((nonce,),) = self._rows(query, self._account)
        return int(nonce)

    def insert_signed(self, draft: Draft, transaction: SignedTransaction) -> int:
        """Insert a signed step and return its number."""
        self._insert(draft, "signed", None)
        number = self._db.last_insert_rowid()
        self._insert_transaction(number, transaction)
        return number

    def insert_failed(self, draft: Draft, error: str) -> None:
        """Insert a step that the node reports as failing; it is not sent."""
        self._insert(draft, "failed", error)

    def _insert(self, draft: Draft, status: str, error: str | None) -> None:
        self._write(
            "step",
            *(draft.operation, draft.name, status, draft.nonce, draft.target, draft.data),
            *(str(draft.value), draft.gas, draft.expects, draft.head, error, clock_ms()),
            self._account,
        )

    def add_transaction(self, number: int, transaction: SignedTransaction) -> None:
        """Insert a transaction with a higher fee for a step."""
        self._insert_transaction(number, transaction)
        self._totals["bumped"] += 1

    def _insert_transaction(self, number: int, transaction: SignedTransaction) -> None:
        fees = str(transaction.max_fee), str(transaction.tip)
        self._write("transaction", transaction.hash, number, transaction.raw, *fees)

    def record_receipt(
        self, number: int, status: str, tx_hash: str, block: int, logs: bytes, error: str | None
    ) -> None:
        """Store that a step is in a block.

        Args:
            number: number of the step.
            status: ``confirmed`` or ``reverted``.
            tx_hash: hash of the mined transaction.
            block: number of the block.
            logs: logs of the receipt, as JSON.
            error: reason of the failure.
        """
        self._write("receipt", status, tx_hash, block, logs, error, clock_ms(), number)

    def reset_step(self, number: int) -> None:
        """Store that a step is in no block after a reorganisation."""
        self._write("reset", clock_ms(), number)

    def record_error(self, number: int, error: str) -> None:
        """Store the node's error for a step that is not in a block yet."""
        self._write("error", error, clock_ms(), number)

    def mark_lost(self, number: int, error: str) -> None:
        """Store that another sender used the nonce of a step, and remove the nonce from the step.

        Another step can use the nonce if a reorganisation removes the foreign transaction.
        """
        self._write("lost", error, clock_ms(), number)
        self._totals["foreign"] += 1

    def discard_failures(self, operation: int) -> None:
        """Mark the failed steps of an operation as earlier attempts, so that they are retried."""
        self._write("discard", operation)

    def close(self) -> None:
        """Commit and close the connection; in a cluster, writes without a commit are lost."""
        if not self._is_closed:
            self._is_closed = True
            if self._store is None:
                self.commit()
            self._db.close(True)


def clock_ms() -> int:
    """Return the time for display, Unix milliseconds; no decision depends on it."""
    return time.time_ns() // 1_000_000
