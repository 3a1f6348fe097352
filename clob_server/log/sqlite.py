"""The log in a folder: a row of SQLite for each frame, a tip, and snapshots as files.

One connection, held exclusively, in write-ahead mode with a sync at each commit. Four rules came
out of attacking it; each is here for a reason that a test shows.

1. At open, everything is moved from the write-ahead log into the database before anybody is shown
   it: what a dead process left in the page cache is readable and not yet durable.
2. After each commit the tip is written; at open a log that ends before it is refused.
3. Checkpoints are made here, on this connection, after the acknowledgements are out.
4. After a commit that failed nothing is appended any more.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from clob.errors import FrameError
from clob.journal import Frame, frame_hash, read_frames
from clob_server.log import files as beside
from clob_server.log.base import (
    LogDamagedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    Snapshot,
    Tail,
    check_drop,
    check_read,
    next_frame,
)
from clob_server.log.files import ASIDE, Files, Folder, make_file, make_folder

DATABASE: Final = "log.db"
"""The file of the frames."""

CHECKPOINT_PAGES: Final = 250
"""How many pages the write-ahead log may have before :meth:`SqliteLog.tidy` moves them on."""

_WRONG_BYTES: Final = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)

_VERSION: Final = 1
_PRAGMAS: Final = (
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=0",
)
_SCHEMA: Final = f"""
CREATE TABLE frames(first INTEGER PRIMARY KEY, frame BLOB NOT NULL);
CREATE TABLE origin(seq INTEGER NOT NULL, chain_hash BLOB NOT NULL);
INSERT INTO origin VALUES(0, zeroblob(32));
PRAGMA user_version={_VERSION};
"""
_PAGE: Final = "SELECT first, frame FROM frames WHERE first>? ORDER BY first LIMIT 256"
_INSERT: Final = "INSERT INTO frames VALUES(?, ?)"


class SqliteLog:
    """A log that outlives its process, and the machine's power.

    Args:
        folder: where it is kept; made if it is not there.
        vfs: the name of the VFS of SQLite that the frames go through; None is the system's.
        files: what the tip and the snapshots go through; None is the folder.
        accept_tail: take the end of the log for its end, whatever the tip says, and remove the
            snapshots beyond it. For a folder that was restored from a backup, or once a person has
            looked at the damage.

    Raises:
        LogLockedError: another process has it open.
        LogNewerError: a newer version of this package wrote it.
        LogDamagedError: a frame is not what was written, or the end of the log is missing.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        vfs: str | None = None,
        files: Files | None = None,
        accept_tail: bool = False,
    ) -> None:
        self._folder = Path(folder)
        self._failed = False
        self._pages = 0
        self._origin = self._tail = Tail()
        try:
            make_folder(self._folder)
            if vfs is None:
                make_file(self._folder / DATABASE)
            self._db = apsw.Connection(str(self._folder / DATABASE), vfs=vfs)
        except (OSError, apsw.CantOpenError) as error:
            raise LogError(f"the log in {self._folder} cannot be opened: {error}") from error
        self._files = Folder(self._folder) if files is None else files
        try:
            self._open(accept_tail)
        except apsw.BusyError:
            self.close()
            raise LogLockedError(f"another process has the log in {self._folder} open") from None
        except apsw.Error as error:
            self.close()
            if is_damage(error):
                raise self._damaged(f"SQLite says {error}") from error
            raise LogError(f"the log in {self._folder} cannot be opened: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def origin(self) -> Tail:
        """The end of what was dropped, where it begins."""
        return self._origin

    @property
    def tail(self) -> Tail:
        """Where it ends."""
        return self._tail

    # ----- opening ---------------------------------------------------------------------------

    def _open(self, accept_tail: bool) -> None:
        """Lock it, check all of it, find its end, and make durable what is there.

        Nothing is written before all is found to be right: who looks into the damage, or sets it
        right, finds the files as they were.
        """
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for pragma in _PRAGMAS:
            self._row(pragma)
        self._row("BEGIN IMMEDIATE")
        if self._db.readonly("main"):
            raise self._damaged(f"{DATABASE} says that it is to be read only")
        (version,) = self._row("PRAGMA user_version")
        if version > _VERSION:
            raise LogNewerError(
                f"the log in {self._folder} is of version {version}; this package reads {_VERSION}"
            )
        if not version:
            self._db.execute(_SCHEMA)
        self._find_tail(accept_tail)
        # From here on it may be written to; what fails must leave nothing behind, see _commit.
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._row("COMMIT")
        self._checkpoint("TRUNCATE")
        self._files.replace(beside.TIP, beside.encode_tip(self._tail))
        for name in self._files.names():
            if name.endswith(ASIDE):
                self._files.remove(name)
        self._db.set_wal_hook(self._after_commit)

    def _find_tail(self, accept_tail: bool) -> None:
        """Read all frames, and hold their end against the tip and the snapshots."""
        origin = self._row("SELECT seq, chain_hash FROM origin") or ()
        if tuple(map(type, origin)) != (int, bytes):
            raise self._damaged(f"{DATABASE} does not say where the log begins")
        self._origin = self._tail = Tail(*origin)
        told = self._tip()
        found = told is not None and (told == self._tail or told.seq < self._tail.seq)
        for frame in self._walk(self._origin):
            self._tail = Tail(frame.first_seq + frame.count - 1, frame.chain_hash)
            found = found or self._tail == told
        if not accept_tail:
            self._compare(told, found)
        for name in self._snapshots():
            if name > beside.snapshot_name(self._tail.seq):
                if not accept_tail:
                    raise self._damaged(f"it ends with command {self._tail.seq}, before {name}")
                self._files.remove(name)

    def _tip(self) -> Tail | None:
        """Read the tip; None where there is none, or a damaged one."""
        data = self._files.read(beside.TIP)
        return None if data is None else beside.decode_tip(data)

    def _compare(self, told: Tail | None, found: bool) -> None:
        """Refuse a log that does not reach as far as it did."""
        if told is None and self._tail.seq:
            raise self._damaged("the tip, which says where the log ends, is missing or damaged")
        if told is not None and not found:
            raise self._damaged(
                f"it ends with command {self._tail.seq}, and the tip says that there was a frame "
                f"up to command {told.seq} with chain hash {told.chain_hash.hex()}"
            )

    def _damaged(self, what: str) -> LogDamagedError:
        """Say what is wrong, and where."""
        return LogDamagedError(f"the log in {self._folder} is damaged: {what}")

    # ----- appending -------------------------------------------------------------------------

    def append(
        self,
        commands: Sequence[bytes],
        after: int,
        *,
        event_hash: bytes | None = None,
        state_hash: bytes | None = None,
    ) -> int:
        """Add a frame in one transaction, and return once it is synced; see :meth:`Log.append`."""
        frame, tail = next_frame(self._tail, commands, after, event_hash, state_hash)
        with self._commit(f"commands {after + 1} to {tail.seq}"):
            self._db.execute(_INSERT, (after + 1, frame))
            self._files.overwrite(beside.TIP, beside.encode_tip(tail))
        self._tail = tail
        return tail.seq

    @contextmanager
    def _commit(self, what: str) -> Iterator[None]:
        """Write something, and have done with the log where that fails.

        The connection is closed at once. It rolls back, and removes what was written of it to the
        write-ahead log. Left there, the next process would find it in the page cache, whole and
        not on the disk, and take it for a commit.
        """
        self._check_failed()
        self._failed = True  # until all of it is done
        try:
            yield
        except (apsw.Error, OSError) as error:
            with suppress(apsw.Error):
                self._db.close(True)
            raise LogFailedError(f"{what}: {error}") from error
        self._failed = False

    def _check_failed(self) -> None:
        """Refuse to go on after a commit that failed."""
        if self._failed:
            raise LogFailedError("a commit failed before; start again to read what is durable")

    def _after_commit(self, _db: Any, _name: str, pages: int) -> int:
        """Hear of how many pages the write-ahead log has."""
        self._pages = pages
        return apsw.SQLITE_OK

    def tidy(self) -> None:
        """Move pages on into the database, where there are many."""
        if self._pages > CHECKPOINT_PAGES and not self._failed:
            self._pages = 0
            self._checkpoint("PASSIVE")

    def _checkpoint(self, mode: str) -> None:
        """Move pages from the write-ahead log into the database."""
        number = getattr(apsw, f"SQLITE_CHECKPOINT_{mode}")
        with self._commit("moving the write-ahead log on"):
            pages, _ = self._db.wal_checkpoint(mode=number)
        if pages < 0:  # a connection that has read nothing does nothing, without a word
            raise LogError("the checkpoint was not made")

    # ----- reading ---------------------------------------------------------------------------

    def read(self, after: int = 0) -> Iterator[Frame]:
        """Give the frames from the one with command ``after + 1`` on, each checked."""
        self._check_failed()
        check_read(after, self._origin)
        return self._walk(self._before(after + 1))

    def _walk(self, before: Tail) -> Iterator[Frame]:
        """Give the frames after one that is known."""
        keys: list[int] = []
        try:
            for frame in read_frames(
                self._rows(before.seq, keys), before.chain_hash, before.seq + 1
            ):
                if keys[-1] != frame.first_seq:
                    raise self._damaged(f"the frame from {frame.first_seq} is kept as {keys[-1]}")
                yield frame
        except FrameError as error:
            raise self._damaged(f"after command {before.seq}: {error}") from error
        except apsw.Error as error:
            raise self._damaged(f"SQLite says {error}") from error

    def _rows(self, after: int, keys: list[int]) -> Iterator[bytes]:
        """Give the frames as they are kept, and note the key of each.

        So many at a time: a statement that is left open keeps the write-ahead log from being moved.
        """
        while rows := self._db.execute(_PAGE, (after,)).fetchall():
            for row in rows:
                first, frame = row
                if type(first) is not int or type(frame) is not bytes:
                    raise self._damaged(f"{DATABASE}, after command {after}: a row holds no frame")
                keys[:] = [first]
                yield frame
                after = first

    def frames(self, after: int, bytes_max: int) -> list[tuple[int, bytes]]:
        """Give frames as they are kept, unchecked, for somebody who checks them himself.

        Args:
            after: the frames that begin after this command.
            bytes_max: how much at most; the first frame is given whatever its size.

        Returns:
            Each frame with the number of its first command.

        Raises:
            LogDamagedError: the next frame was dropped, or SQLite cannot read it.
        """
        self._check_failed()
        check_read(after, self._origin)
        found: list[tuple[int, bytes]] = []
        try:
            for first, frame in self._db.execute(_PAGE, (after,)):
                bytes_max -= len(frame)
                if found and bytes_max < 0:
                    break
                found.append((first, frame))
        except apsw.Error as error:
            raise self._damaged(f"SQLite says {error}") from error
        return found

    def _before(self, seq: int) -> Tail:
        """Tell where the frame ends that is before the one with this command."""
        if seq > self._tail.seq:
            return self._tail
        (first,) = self._row("SELECT max(first) FROM frames WHERE first<=?", seq)
        row = self._row("SELECT frame FROM frames WHERE first<? ORDER BY first DESC LIMIT 1", first)
        return Tail(first - 1, frame_hash(row[0])) if row else self._origin

    def _row(self, query: str, *arguments: Any) -> Any:
        """Give the first row of what a statement gives, and run it to its end."""
        rows = self._db.execute(query, arguments).fetchall()
        return rows[0] if rows else None

    # ----- snapshots -------------------------------------------------------------------------

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot as a file; see :meth:`Log.put_snapshot`."""
        self._check_failed()
        if not self._has(snapshot):
            raise ValueError(f"no frame ends with command {snapshot.seq} and that chain hash")
        beside.keep_snapshot(self._files, snapshot)

    def get_snapshot(self) -> Snapshot | None:
        """Give the newest snapshot, checked; None where there is none."""
        self._check_failed()
        for name in reversed(self._snapshots()):
            data = self._files.read(name)
            found = "it is gone" if data is None else beside.decode_snapshot(data)
            if isinstance(found, str):
                raise self._damaged(f"{name}: {found}")
            if beside.snapshot_name(found.seq) != name or not self._has(found):
                raise self._damaged(f"{name}: no frame here ends with it")
            return found
        return None

    def _has(self, snapshot: Snapshot) -> bool:
        """Say whether it is a snapshot of this history."""
        return self._before(snapshot.seq + 1) == Tail(snapshot.seq, snapshot.chain_hash)

    def _snapshots(self) -> list[str]:
        """Name the snapshots, the oldest first."""
        return beside.snapshot_names(self._files)

    def drop(self, up_to: int) -> int:
        """Let go of the frames that end with or before ``up_to``, in one transaction."""
        self._check_failed()
        check_drop(up_to, self.get_snapshot())
        last = self._before(up_to + 1)
        if last.seq <= self._origin.seq:
            return 0
        origin = last.seq, last.chain_hash
        with self._commit(f"dropping the commands up to {last.seq}"), self._db:
            self._db.execute("DELETE FROM frames WHERE first<=?", (last.seq,))
            count = self._db.changes()
            self._db.execute("UPDATE origin SET seq=?, chain_hash=?", origin)
        self._origin = last
        return count

    def close(self) -> None:
        """Let it go; another may open it."""
        self._db.close(True)
        self._files.close()


def is_damage(error: apsw.Error) -> bool:
    """Tell what SQLite says of wrong bytes from a disk that is full or does not work."""
    if isinstance(error, apsw.IOError):
        return getattr(error, "extendedresult", 0) in _WRONG_BYTES
    return not isinstance(error, apsw.FullError | apsw.NoMemError)
