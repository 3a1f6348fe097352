"""Where a chain lives: the keys that py-evm writes, and rows of what can be asked about the past.

One connection of SQLite, held exclusively, in write-ahead mode with a sync at each commit. What is
written stands aside in memory until :meth:`ChainStore.commit`, which writes all of it in one
transaction: a block is there whole, or not at all.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import apsw
from eth.abc import AtomicWriteBatchAPI
from eth.db.backends.base import BaseAtomicDB

from clob_server.log.files import make_file, make_folder

DATABASE: Final = "chain.db"
"""The file of a chain."""
CACHE_KEYS: Final = 20_000
"""How many keys are kept in memory at most; a key of a trie is some hundred bytes."""
_VERSION: Final = 1
_PRAGMAS: Final = (
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
)
_SCHEMA: Final = f"""
CREATE TABLE keys(key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE facts(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE blocks(number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body BLOB NOT NULL);
CREATE TABLE transactions(
    hash BLOB PRIMARY KEY, block INTEGER NOT NULL, body BLOB NOT NULL, receipt BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX transactions_of ON transactions(block);
CREATE TABLE logs(
    block INTEGER NOT NULL, place INTEGER NOT NULL, address BLOB NOT NULL,
    topic0 BLOB, topic1 BLOB, topic2 BLOB, topic3 BLOB, body BLOB NOT NULL,
    PRIMARY KEY(block, place)
) WITHOUT ROWID;
CREATE INDEX logs_of ON logs(address, topic0);
CREATE TABLE queue(
    sender BLOB NOT NULL, nonce INTEGER NOT NULL, hash BLOB NOT NULL UNIQUE, raw BLOB NOT NULL,
    PRIMARY KEY(sender, nonce)
) WITHOUT ROWID;
PRAGMA user_version={_VERSION};
"""


class StoreError(Exception):
    """A store cannot be used; the text says why."""


class ChainStore(BaseAtomicDB):
    """The database of one chain, as py-evm wants one: a mapping of bytes to bytes.

    Args:
        folder: where it is kept; made if it is not there.

    Raises:
        StoreError: another process has it, it is damaged, or a newer version wrote it.
    """

    def __init__(self, folder: Path) -> None:
        self._path: Final = folder / DATABASE
        self._written: Final[dict[bytes, bytes | None]] = {}
        self._read: Final[dict[bytes, bytes]] = {}
        self._rows: Final[list[tuple[str, tuple[Any, ...]]]] = []
        try:
            make_folder(folder)
            make_file(self._path)
            self._db: Final = apsw.Connection(str(self._path))
        except (OSError, apsw.CantOpenError) as error:
            raise StoreError(f"the chain in {folder} cannot be opened: {error}") from error
        try:
            self._open()
        except apsw.BusyError:
            self.close()
            raise StoreError(f"another process has the chain in {folder} open") from None
        except apsw.Error as error:
            self.close()
            raise StoreError(f"the chain in {folder} is damaged: SQLite says {error}") from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Take the lock for good, and make the tables where there are none."""
        for pragma in _PRAGMAS:
            self.rows(pragma)
        self._db.execute("BEGIN IMMEDIATE")
        ((version,),) = self.rows("PRAGMA user_version")
        if version > _VERSION:
            raise StoreError(f"{self._path} is of version {version}; this package reads {_VERSION}")
        if not version:
            self._db.execute(_SCHEMA)
        self._db.execute("COMMIT")

    # ----- what py-evm reads and writes ------------------------------------------------------

    def __getitem__(self, key: bytes) -> bytes:
        value = self._find(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._written[key] = value

    def __delitem__(self, key: bytes) -> None:
        self._written[key] = None

    def _exists(self, key: bytes) -> bool:
        return self._find(key) is not None

    def _find(self, key: bytes) -> bytes | None:
        """Look where it was written last, in memory, and on the disk."""
        if key in self._written:
            return self._written[key]
        value = self._read.get(key)
        if value is None:
            row = self.row("SELECT value FROM keys WHERE key=?", key)
            if row is not None:
                value = cast(bytes, row[0])
                self._remember(key, value)
        return value

    def _remember(self, key: bytes, value: bytes) -> None:
        """Keep a key in memory, in place of all others where there are too many."""
        if len(self._read) >= CACHE_KEYS:
            self._read.clear()
        self._read[key] = value

    @contextmanager
    def atomic_batch(self) -> Iterator[AtomicWriteBatchAPI]:
        """Give what a batch is written to: the store itself, which writes nothing before a commit.

        A batch that fails fails the block, and with it everything that was written.
        """
        yield cast(AtomicWriteBatchAPI, self)

    # ----- rows ------------------------------------------------------------------------------

    def add(self, statement: str, *arguments: Any) -> None:
        """Have a statement run with the next commit."""
        self._rows.append((statement, arguments))

    def commit(self) -> None:
        """Write everything since the last commit in one transaction, and sync it."""
        try:
            with self._db:
                self._write()
        except BaseException:
            self.forget()
            raise
        for key, value in self._written.items():
            if value is None:
                self._read.pop(key, None)
            else:
                self._remember(key, value)
        self.forget()

    def _write(self) -> None:
        """Write keys and rows."""
        self._db.executemany(
            "INSERT OR REPLACE INTO keys VALUES(?, ?)",
            [(key, value) for key, value in self._written.items() if value is not None],
        )
        self._db.executemany(
            "DELETE FROM keys WHERE key=?",
            [(key,) for key, value in self._written.items() if value is None],
        )
        for statement, arguments in self._rows:
            self._db.execute(statement, arguments)

    def forget(self) -> None:
        """Let go of what was written since the last commit."""
        self._written.clear()
        self._rows.clear()

    def rows(self, query: str, *arguments: Any) -> Sequence[tuple[Any, ...]]:
        """Give the rows that a query finds among what was committed."""
        return self._db.execute(query, arguments).fetchall()

    def row(self, query: str, *arguments: Any) -> tuple[Any, ...] | None:
        """Give the first of them; None where there is none."""
        found = self.rows(query, *arguments)
        return found[0] if found else None

    def close(self) -> None:
        """Let it go; another process may open it."""
        self._db.close(True)
