"""What the chain worker must not forget: operations, their transactions, every signed byte.

A transaction is a row before it is sent: with its number among the operator's, its bytes and its
hash. SQLite in write-ahead mode, one connection that holds it exclusively, and a sync at each
commit. What a node can tell again (that a transaction is in a block) waits for the next commit;
:meth:`Outbox.commit` is called before anything leaves that others may rely on.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from clob_server.chain.tx.steps import Draft, Operation, SignedTransaction, Step
from clob_server.log.files import make_file, make_folder, sync_folder

FILE: Final = "outbox.db"
"""The file, in the folder of the worker."""

_VERSION: Final = 1
_SCHEMA: Final = f"""
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE operations(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, body BLOB NOT NULL,
    status TEXT NOT NULL, answer BLOB, error TEXT, begun_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL);
CREATE INDEX operations_status ON operations(status, number);
CREATE TABLE steps(
    number INTEGER PRIMARY KEY, operation INTEGER NOT NULL, name TEXT NOT NULL,
    counts INTEGER NOT NULL, status TEXT NOT NULL, nonce INTEGER UNIQUE, target TEXT NOT NULL,
    data BLOB NOT NULL, value TEXT NOT NULL, gas INTEGER NOT NULL, expects TEXT NOT NULL,
    head INTEGER NOT NULL, hash TEXT, block INTEGER, logs BLOB, error TEXT,
    changed_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX steps_name ON steps(operation, name) WHERE counts;
CREATE INDEX steps_status ON steps(status, nonce);
CREATE TABLE offers(
    hash TEXT PRIMARY KEY, step INTEGER NOT NULL, raw BLOB NOT NULL, max_fee TEXT NOT NULL,
    tip TEXT NOT NULL);
CREATE INDEX offers_step ON offers(step);
PRAGMA user_version={_VERSION};
"""
_OPERATION: Final = (
    "SELECT number, id, kind, body, status, answer, error, begun_ms, changed_ms FROM operations "
)
_STEP: Final = (
    "SELECT number, operation, name, counts, status, nonce, target, data, value, gas, expects, "
    "head, hash, block, logs, error, changed_ms FROM steps "
)
_INSERT: Final = (
    "INSERT INTO steps(operation, name, counts, status, nonce, target, data, value, gas, expects, "
    "head, error, changed_ms) VALUES(?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class OutboxError(Exception):
    """The outbox cannot be opened."""


class Outbox:
    """The connection.

    Args:
        folder: where it is kept; made if it is not there.

    Raises:
        OutboxError: another process has it open, a newer version wrote it, or it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.path: Final[Path] = folder / FILE
        """The file."""
        self._is_closed = False
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
            raise OutboxError(f"another process has the outbox {self.path} open") from None
        except apsw.Error as error:
            self._db.close(True)
            raise OutboxError(f"the outbox {self.path} cannot be read: {error}") from error

    def _set_up(self) -> None:
        """Lock it, and make its tables where there are none."""
        for name in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
            self._rows(f"PRAGMA {name}")
        self._db.execute("BEGIN IMMEDIATE")
        ((version,),) = self._rows("PRAGMA user_version")
        if version > _VERSION:
            raise OutboxError(f"the outbox {self.path} is of version {version}, not {_VERSION}")
        if not version:
            self._db.execute(_SCHEMA)
        self._db.execute("COMMIT")
        counted: Any = self._rows("SELECT status, count(*) FROM operations GROUP BY status")
        self.counts: dict[str, int] = {
            "pending": 0, "done": 0, "failed": 0, "stuck": 0, **dict(counted)
        }  # fmt: skip
        """How many operations there are, by status."""
        ((offers, steps),) = self._rows("SELECT count(*), count(DISTINCT step) FROM offers")
        self.num_bumped: int = offers - steps
        """How many transactions were signed again with a higher fee."""
        ((foreign,),) = self._rows("SELECT count(*) FROM steps WHERE status='lost'")
        self.num_foreign: int = foreign
        """How many nonces somebody else used."""

    # ----- writing ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Make durable what was written."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def _write(self, query: str, *arguments: Any) -> None:
        """Write something that the next :meth:`commit` makes durable."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN")
        self._db.execute(query, arguments)

    def _rows(self, query: str, *arguments: Any) -> list[Any]:
        """Give the rows that a query finds."""
        return self._db.execute(query, arguments).fetchall()

    # ----- facts -----------------------------------------------------------------------------

    def fact(self, name: str) -> str | None:
        """Give a fact by its name; None where it is not known."""
        rows = self._rows("SELECT value FROM facts WHERE name=?", name)
        return rows[0][0] if rows else None

    def keep(self, name: str, value: str) -> None:
        """Keep a fact."""
        self._write("INSERT OR REPLACE INTO facts VALUES(?, ?)", name, value)

    # ----- operations ------------------------------------------------------------------------

    def begin(self, name: str, kind: str, body: bytes, now_ms: int) -> Operation:
        """Write an operation that is about to be begun."""
        self._write(
            "INSERT INTO operations(id, kind, body, status, begun_ms, changed_ms) "
            "VALUES(?, ?, ?, 'pending', ?, ?)",
            *(name, kind, body, now_ms, now_ms),
        )
        self.counts["pending"] += 1
        return Operation(
            self._db.last_insert_rowid(), name, kind, body, "pending", None, None, now_ms, now_ms
        )

    def find(self, name: str) -> Operation | None:
        """Give an operation by what the server calls it."""
        rows = self._rows(f"{_OPERATION} WHERE id=?", name)
        return Operation(*rows[0]) if rows else None

    def operation(self, number: int) -> Operation:
        """Give an operation by its number."""
        return Operation(*self._rows(f"{_OPERATION} WHERE number=?", number)[0])

    def pending(self) -> list[Operation]:
        """Give those under way, the oldest first."""
        rows = self._rows(f"{_OPERATION} WHERE status='pending' ORDER BY number")
        return [Operation(*row) for row in rows]

    def stuck(self) -> list[Operation]:
        """Give those that are stuck, the oldest first."""
        rows = self._rows(f"{_OPERATION} WHERE status='stuck' ORDER BY number")
        return [Operation(*row) for row in rows]

    def newest(self, status: str | None, limit: int, before: int | None) -> list[Operation]:
        """Give operations, the newest first.

        Args:
            status: only those; None is all.
            limit: how many at most.
            before: only those with a number below this.
        """
        which = "" if status is None else "status=? AND "
        given = () if status is None else (status,)
        last = 2**62 if before is None else before
        query = f"{_OPERATION} WHERE {which}number<? ORDER BY number DESC LIMIT ?"
        return [Operation(*row) for row in self._rows(query, *given, last, limit)]

    def settle(
        self, number: int, status: str, *, answer: bytes | None = None, error: str | None = None
    ) -> Operation:
        """Write what came of an operation, or that it goes on.

        Args:
            number: which.
            status: where it stands now.
            answer: what came of it, as JSON.
            error: what went wrong.
        """
        before = self.operation(number)
        self.counts[before.status] -= 1
        self.counts[status] += 1
        self._write(
            "UPDATE operations SET status=?, answer=?, error=?, changed_ms=? WHERE number=?",
            *(status, answer, error, clock_ms(), number),
        )
        return self.operation(number)

    # ----- steps -----------------------------------------------------------------------------

    def steps(self, operation: int) -> list[Step]:
        """Give all steps of an operation, in the order they were written."""
        return list(self._steps("WHERE operation=? ORDER BY number", operation))

    def step(self, number: int) -> Step:
        """Give a step by its number."""
        (found,) = self._steps("WHERE number=?", number)
        return found

    def standing(self, operation: int) -> dict[str, Step]:
        """Give the steps of an operation that count, by name, in the order they were written."""
        found = self._steps("WHERE operation=? AND counts ORDER BY number", operation)
        return {step.name: step for step in found}

    def from_nonce(self, nonce: int) -> list[Step]:
        """Give the steps that were signed with this nonce or one above, the lowest first."""
        return list(self._steps("WHERE nonce>=? ORDER BY nonce", nonce))

    def _steps(self, where: str, *arguments: Any) -> Iterator[Step]:
        """Give the steps that a query finds, with what was offered for each."""
        for row in self._rows(_STEP + where, *arguments):
            offers = self._rows(
                "SELECT hash, raw, max_fee, tip FROM offers WHERE step=? ORDER BY rowid", row[0]
            )
            step = Step(*row)
            yield step._replace(
                value=int(row[8]),
                offers=tuple(
                    SignedTransaction(found, raw, int(fee), int(tip))
                    for found, raw, fee, tip in offers
                ),
            )

    def next_nonce(self) -> int:
        """Give the nonce above all that were ever signed."""
        ((highest,),) = self._rows("SELECT max(nonce) FROM steps")
        return 0 if highest is None else highest + 1

    def highest_settled(self) -> int:
        """Give the highest nonce that is known to be in a block; -1 where there is none."""
        ((highest,),) = self._rows(
            "SELECT max(nonce) FROM steps WHERE status IN ('confirmed', 'reverted')"
        )
        return -1 if highest is None else highest

    def sign(self, draft: Draft, offer: SignedTransaction) -> int:
        """Write a step that is signed, and give its number."""
        self._insert(draft, "signed", None)
        number = self._db.last_insert_rowid()
        self._offer(number, offer)
        return number

    def refuse(self, draft: Draft, error: str) -> None:
        """Write a step that the node says cannot succeed, and that is not sent."""
        self._insert(draft, "failed", error)

    def _insert(self, draft: Draft, status: str, error: str | None) -> None:
        """Write a step."""
        self._write(
            _INSERT,
            *(draft.operation, draft.name, status, draft.nonce, draft.target, draft.data),
            *(str(draft.value), draft.gas, draft.expects, draft.head, error, clock_ms()),
        )

    def bump(self, number: int, offer: SignedTransaction) -> None:
        """Write a step's next offer."""
        self._offer(number, offer)
        self.num_bumped += 1

    def _offer(self, number: int, offer: SignedTransaction) -> None:
        """Write an offer."""
        fees = str(offer.max_fee), str(offer.tip)
        query = "INSERT INTO offers(hash, step, raw, max_fee, tip) VALUES(?, ?, ?, ?, ?)"
        self._write(query, offer.hash, number, offer.raw, *fees)

    def happened(
        self, number: int, status: str, found: str, block: int, logs: bytes, error: str | None
    ) -> None:
        """Write that a step is in a block.

        Args:
            number: which.
            status: ``confirmed`` or ``reverted``.
            found: the hash of the offer.
            block: the number of the block.
            logs: the logs it left, as JSON.
            error: what went wrong.
        """
        self._write(
            "UPDATE steps SET status=?, hash=?, block=?, logs=?, error=?, changed_ms=? "
            "WHERE number=?",
            *(status, found, block, logs, error, clock_ms(), number),
        )

    def take_back(self, number: int) -> None:
        """Write that a step is in no block any more."""
        self._write(
            "UPDATE steps SET status='signed', hash=NULL, block=NULL, logs=NULL, changed_ms=? "
            "WHERE number=?",
            *(clock_ms(), number),
        )

    def note(self, number: int, error: str) -> None:
        """Write what a node said of a step that is not in a block yet."""
        self._write(
            "UPDATE steps SET error=?, changed_ms=? WHERE number=?", error, clock_ms(), number
        )

    def lose(self, number: int, error: str) -> None:
        """Write that somebody else used the nonce of a step, which has none from then on.

        It is free for another step if a reorganisation takes that somebody's transaction back.
        """
        self._write(
            "UPDATE steps SET status='lost', counts=0, nonce=NULL, error=?, changed_ms=? "
            "WHERE number=?",
            *(error, clock_ms(), number),
        )
        self.num_foreign += 1

    def forget_failures(self, operation: int) -> None:
        """Have the steps of an operation that failed count no more, so that they are tried anew."""
        self._write(
            "UPDATE steps SET counts=0 "
            "WHERE operation=? AND counts AND status IN ('failed', 'reverted')",
            operation,
        )

    def close(self) -> None:
        """Let it go; another may open it."""
        if not self._is_closed:
            self._is_closed = True
            self.commit()
            self._db.close(True)


def clock_ms() -> int:
    """Give the time for people to read, Unix milliseconds; nothing is decided by it."""
    return time.time_ns() // 1_000_000
