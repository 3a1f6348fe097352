"""SQLite database of a chain: py-evm's keys, and tables of blocks, transactions and logs.

One exclusive connection in write-ahead mode syncs at each commit. Writes are buffered in memory
until :meth:`ChainStore.commit` stores them in one transaction, so a block is stored completely or
not at all.
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
CACHE_KEYS: Final = 20_000
"""Keys cached in memory, at most; a trie key has some hundred bytes."""
_VERSION: Final = 1
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
    """A store is unusable; the text is the reason."""


class ChainStore(BaseAtomicDB):
    """The database of one chain in a folder; for py-evm a mapping of bytes to bytes.

    Raises:
        StoreError: the database is in use, damaged, or of a newer version.
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
            raise StoreError(f"another process is using the chain in {folder}") from None
        except apsw.Error as error:
            self.close()
            raise StoreError(f"the chain in {folder} is damaged: SQLite error: {error}") from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Take the exclusive lock and create missing tables."""
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
            self.rows(f"PRAGMA {pragma}")
        self._db.execute("BEGIN IMMEDIATE")
        ((version,),) = self.rows("PRAGMA user_version")
        if version > _VERSION:
            raise StoreError(f"{self._path} has version {version}; this package reads {_VERSION}")
        if not version:
            self._db.execute(_SCHEMA)
        self._db.execute("COMMIT")

    # ----- keys of py-evm --------------------------------------------------------------------

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
        """Read a key from the write buffer, the cache or the disk."""
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
        """Cache a key; a full cache is cleared first."""
        if len(self._read) >= CACHE_KEYS:
            self._read.clear()
        self._read[key] = value

    @contextmanager
    def atomic_batch(self) -> Iterator[AtomicWriteBatchAPI]:
        """Yield the store itself, since nothing is written before a commit.

        A failed batch fails the block, which drops all buffered writes.
        """
        yield cast(AtomicWriteBatchAPI, self)

    # ----- rows ------------------------------------------------------------------------------

    def add(self, statement: str, *arguments: Any) -> None:
        """Buffer a statement for the next commit."""
        self._rows.append((statement, arguments))

    def commit(self) -> None:
        """Write all buffered changes in one synced transaction."""
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
        kept = [(key, value) for key, value in self._written.items() if value is not None]
        gone = [(key,) for key, value in self._written.items() if value is None]
        self._db.executemany("INSERT OR REPLACE INTO keys VALUES(?, ?)", kept)
        self._db.executemany("DELETE FROM keys WHERE key=?", gone)
        for statement, arguments in self._rows:
            self._db.execute(statement, arguments)

    def forget(self) -> None:
        """Drop buffered changes."""
        self._written.clear()
        self._rows.clear()

    def rows(self, query: str, *arguments: Any) -> Sequence[tuple[Any, ...]]:
        """Return the committed rows of a query."""
        return self._db.execute(query, arguments).fetchall()

    def row(self, query: str, *arguments: Any) -> tuple[Any, ...] | None:
        """Return the first committed row of a query, or None."""
        rows = self.rows(query, *arguments)
        return rows[0] if rows else None

    def close(self) -> None:
        """Close the database."""
        self._db.close(True)
