"""The log in a folder: an SQLite row per frame, the tip file, and snapshot files.

One connection with an exclusive lock, in write-ahead mode, with a sync at each commit. Opening
checks the frames from the newest snapshot on. Four rules, each shown to be necessary by a test:

1. Opening moves the write-ahead log into the database and syncs it before the frames are used:
   frames of a killed process may be readable from the page cache without being durable.
2. The tip is written after each commit; a log that ends before its tip is rejected at open.
3. Checkpoints run on this connection, after the callers got their results.
4. After a failed commit the log accepts no more frames.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from clob.errors import FrameError
from clob.journal import Frame, frame_hash, read_frames
from clob_server.log import files
from clob_server.log.base import (
    Damage,
    Log,
    LogDamagedError,
    LogError,
    LogFailedError,
    LogLockedError,
    LogNewerError,
    LogOlderError,
    Snapshot,
    Tail,
)
from clob_server.log.files import (
    NEW_SUFFIX,
    TIP,
    Folder,
    make_file,
    make_folder,
    sync_file,
    sync_folder,
)

DATABASE: Final = "log.db"
"""File name of the database."""

INT_MAX: Final = 2**63 - 1
"""Largest integer of SQLite."""

CHECKPOINT_PAGES: Final = 250
"""Pages in the write-ahead log above which :meth:`SqliteLog.tidy` runs a checkpoint."""

OPENED_BYTES_MAX: Final = 2**26
"""Most bytes of the frames after the newest snapshot that stay in memory from their check at open
until the first commit, so that the recovery does not read and check them again."""

_CURE: Final = (
    "`clob-server restore` installs a backup or, with --accept-tail, this log up to its present end"
)
_WRONG_BYTES: Final = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)

_VERSION: Final = 3
_OLDEST: Final = 2
"""Oldest format that is read. Opening raises it to ``_VERSION``, whose commands may follow."""
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
_LAST: Final = "SELECT first, frame FROM frames WHERE first<=? ORDER BY first DESC LIMIT 1"
_INSERT: Final = "INSERT INTO frames VALUES(?, ?)"


class SqliteLog(Log):
    """A log that survives the end of its process and a loss of power.

    Args:
        folder: folder of the log; created if it does not exist.
        vfs: name of the SQLite VFS for the database; None for the default.
        files: access to the tip and snapshot files; None for the folder itself.
        accept_tail: ignore the tip, and delete snapshots beyond the end of the log. For a folder
            restored from a backup, or after an operator has examined the damage.

    Raises:
        LogLockedError: another process has the log open.
        LogNewerError, LogOlderError: another version of this package wrote the log, in another
            format.
        LogDamagedError: a frame after the newest snapshot is damaged, or the end of the log is
            missing.
        LogError: the folder or the database cannot be opened.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        vfs: str | None = None,
        files: Folder | None = None,
        accept_tail: bool = False,
    ) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._failed = False
        self._pages = 0
        names = (DATABASE, f"{DATABASE}-wal") if vfs is None else ()
        self._paths = [self._folder / name for name in names]
        self._tip_path = self._folder / TIP
        self._identities: list[int] = []
        self._opened: list[Frame] = []
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
                raise self._damaged(f"SQLite error: {error}") from error
            raise LogError(f"the log in {self._folder} cannot be opened: {error}") from error
        except BaseException:
            self.close()
            raise

    # ----- opening ---------------------------------------------------------------------------

    def _open(self, accept_tail: bool) -> None:
        """Lock and check the log, find its end, and make its frames durable.

        Nothing is written before all checks passed, so that a damaged log stays as it was.
        """
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for pragma in _PRAGMAS:
            self._row(pragma)
        self._row("BEGIN IMMEDIATE")
        if self._db.readonly("main"):
            raise self._damaged(f"{DATABASE} is read-only")
        (version,) = self._row("PRAGMA user_version")
        formats = (
            f"the log in {self._folder} has format {version}; this version reads formats "
            f"{_OLDEST} to {_VERSION}"
        )
        if version > _VERSION:
            raise LogNewerError(formats)
        if 0 < version < _OLDEST:
            raise LogOlderError(
                f"{formats} (nothing was released with format {version}: start with an empty "
                "folder)"
            )
        if not version:
            self._db.execute(_SCHEMA)
        self._find_tail(accept_tail)
        # From here on the database is written; close() must checkpoint again, see _commit.
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._is_older = 0 < version < _VERSION
        self._row("COMMIT")
        self._checkpoint("TRUNCATE")
        self._files.replace(files.TIP, files.encode_tip(self.tail))
        for name in self._files.names():
            if name.endswith(NEW_SUFFIX):
                self._files.remove(name)
        self._db.set_wal_hook(self._after_commit)
        self._identities = self._stored()

    def _find_tail(self, accept_tail: bool) -> None:
        """Check the frames after the newest snapshot; compare the end with tip and snapshots."""
        origin = self._row("SELECT seq, chain_hash FROM origin") or ()
        if tuple(map(type, origin)) != (int, bytes):
            raise self._damaged(f"{DATABASE} has no valid origin")
        self.origin: Tail = Tail(*origin)
        self.tail: Tail = self._newest_junction()
        self.unchecked_seq: int = self.tail.seq
        data = self._files.read(files.TIP)
        tip = None if data is None else files.decode_tip(data)
        found = tip is not None and tip.seq <= self.tail.seq and self.has_end(tip)
        num_bytes, opened = 0, []
        for frame in self._walk(self.tail):
            self.tail = Tail(frame.first_seq + frame.count - 1, frame.chain_hash)
            num_bytes += sum(map(len, frame.raw))
            found = found or self.tail == tip
            opened.append(frame)
            if num_bytes > OPENED_BYTES_MAX:
                opened.clear()
        self.num_bytes: int = num_bytes
        self._opened = opened if num_bytes <= OPENED_BYTES_MAX else []
        if not accept_tail:
            self._check_tip(tip, found)
        for name in files.snapshot_names(self._files):
            if name > files.snapshot_name(self.tail.seq):
                if not accept_tail:
                    raise self._damaged(
                        f"it ends with command {self.tail.seq}, but there is {name}; {_CURE}"
                    )
                self._files.remove(name)

    def _newest_junction(self) -> Tail:
        """Return the end of the frame of the newest snapshot that fits; the origin without one.

        A snapshot fits if it names the number and the chain hash of a frame with undamaged bytes.
        Its state is checked by the recovery, which goes back to an older one if need be; reading
        from there checks the frames between.
        """
        for name in reversed(files.snapshot_names(self._files)):
            end = files.read_end(self._files, name)
            if end is not None and end.seq > self.origin.seq and self.has_end(end):
                return end
        return self.origin

    def _check_tip(self, tip: Tail | None, found: bool) -> None:
        """Raise if the log ends before the tip."""
        if tip is None and self.tail.seq:
            raise self._damaged(
                f"the tip file, the record of its end, is missing or damaged; {_CURE}"
            )
        if tip is not None and not found:
            raise self._damaged(
                f"it ends with command {self.tail.seq}, but the tip file records a frame up to "
                f"command {tip.seq} with chain hash {tip.chain_hash.hex()}; {_CURE}"
            )

    def _damaged(self, problem: str) -> LogDamagedError:
        return LogDamagedError(f"the log in {self._folder} is damaged: {problem}")

    # ----- appending -------------------------------------------------------------------------

    def _store(self, frame: bytes, first: int, tail: Tail) -> None:
        """Write a frame in one transaction with a sync, then the tip."""
        with self._commit(f"commands {first} to {tail.seq}"):
            self._raise_format()
            self._db.execute(_INSERT, (first, frame))
            self._end_at(tail)

    def _end_at(self, tail: Tail) -> None:
        """Write the tip after a commit; raise if the files of the log lost their names."""
        self._opened = []
        self._files.overwrite(files.TIP, files.encode_tip(tail))
        if self._paths and self._stored() != self._identities:
            self._rescue()

    def begin(self, origin: Tail) -> None:
        """Begin an empty log after the dropped frames of the log that it will copy."""
        assert not self.tail.seq, "the log is not empty"
        with self._commit(f"beginning after command {origin.seq}"):
            self._db.execute(
                "UPDATE origin SET seq=?, chain_hash=?", (origin.seq, origin.chain_hash)
            )
            self._files.overwrite(files.TIP, files.encode_tip(origin))
        self.origin = self.tail = origin

    def extend(self, frames: Sequence[bytes]) -> list[Frame]:
        """Append frames of another log as they are, in one commit; return them decoded.

        Raises:
            FrameError: the frames are damaged, or do not continue this log.
            LogFailedError: the commit failed; the log accepts no more frames.
        """
        checked = list(read_frames(frames, self.tail.chain_hash, self.tail.seq + 1))
        if not checked:
            return []
        rows = [(each.first_seq, frame) for each, frame in zip(checked, frames, strict=True)]
        last = checked[-1]
        tail = Tail(last.first_seq + last.count - 1, last.chain_hash)
        with self._commit(f"commands {self.tail.seq + 1} to {tail.seq}"):
            self._raise_format()
            with self._db:
                self._db.executemany(_INSERT, rows)
            self._end_at(tail)
        self.tail = tail
        self.num_bytes += sum(map(len, frames))
        return checked

    def _raise_format(self) -> None:
        """Mark a log of an older format before its first new frame.

        A log that was only read, as by ``clob-server verify``, stays usable for the older version.
        """
        if self._is_older:
            self._row(f"PRAGMA user_version={_VERSION}")
            self._is_older = False

    def _stored(self) -> list[int]:
        """Return the inodes of the open files as their names lead to them; 0 for no file."""
        found = []
        for path in self._paths:
            try:
                found.append(os.stat(path).st_ino)
            except OSError:
                found.append(0)
        return found

    def _rescue(self) -> None:
        """Write the log to its name again, after its files were deleted, moved or replaced.

        Raises:
            OSError: always, since a commit into a file without a name is lost at the end of this
                process.
        """
        lost = ", ".join(
            path.name
            for path, found, known in zip(
                self._paths, self._stored(), self._identities, strict=True
            )
            if found != known
        )
        target = self._folder / DATABASE
        if lost != self._paths[1].name:  # the database itself
            if target.exists():
                target = target.with_name(f"{DATABASE}.rescued")
            new = target.with_name(f"{target.name}{NEW_SUFFIX}")
            self._db.execute("VACUUM INTO ?", (str(new),))
            sync_file(new)
            os.replace(new, target)
            sync_folder(self._folder)
        else:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        raise OSError(
            f"{lost} in {self._folder} was deleted, moved or replaced under the running server; "
            f"the whole log was saved in {target}; restart the server"
        )

    @contextmanager
    def _commit(self, action: str) -> Iterator[None]:
        """Run a write; after a failure reject all further ones.

        A failure closes the connection at once. SQLite then rolls back and removes the partial
        commit from the write-ahead log. Otherwise the next process could find it complete in the
        page cache, although it is not on the disk, and treat it as committed.
        """
        self._check_failed()
        self._failed = True  # reset at the end
        try:
            yield
        except (apsw.Error, OSError) as error:
            with suppress(apsw.Error):
                self._db.close(True)
            raise LogFailedError(f"{action}: {error}") from error
        self._failed = False

    def _check_failed(self) -> None:
        if self._failed:
            raise LogFailedError(
                "a commit failed before; restart the process to read the durable part"
            )

    def _check_readable(self, after: int | None = None) -> None:
        self._check_failed()
        super()._check_readable(after)

    def _after_commit(self, _db: Any, _name: str, pages: int) -> int:
        """Note the number of pages in the write-ahead log."""
        self._pages = pages
        return apsw.SQLITE_OK

    def tidy(self) -> None:
        """Run a checkpoint if the write-ahead log has many pages; write a lost tip again."""
        if self._paths and not self._failed and not self._tip_path.exists():
            self._files.replace(files.TIP, files.encode_tip(self.tail))
        if self._pages > CHECKPOINT_PAGES and not self._failed:
            self._pages = 0
            self._checkpoint("PASSIVE")

    def _checkpoint(self, mode: str) -> None:
        """Move pages from the write-ahead log into the database."""
        number = getattr(apsw, f"SQLITE_CHECKPOINT_{mode}")
        with self._commit("checkpoint"):
            pages, _ = self._db.wal_checkpoint(mode=number)
        if pages < 0:  # on a connection without a read before, SQLite does nothing and returns -1
            raise LogError("SQLite ran no checkpoint")

    # ----- reading ---------------------------------------------------------------------------

    def _walk(self, before: Tail) -> Iterator[Frame]:
        if self._opened and before.seq + 1 == self._opened[0].first_seq:
            yield from self._opened
            return
        keys: list[int] = []
        try:
            for frame in read_frames(
                self._rows(before.seq, keys), before.chain_hash, before.seq + 1
            ):
                if keys[-1] != frame.first_seq:
                    raise self._damaged(f"the frame from {frame.first_seq} has the key {keys[-1]}")
                yield frame
        except FrameError as error:
            raise self._damaged(f"after command {before.seq}: {error}") from error
        except apsw.Error as error:
            raise self._damaged(f"SQLite error: {error}") from error

    def _rows(self, after: int, keys: list[int]) -> Iterator[bytes]:
        """Yield the stored frames, and put the key of each into ``keys``.

        It reads a page of rows at a time: an open statement would block checkpoints.
        """
        while rows := self._db.execute(_PAGE, (after,)).fetchall():
            for first, frame in rows:
                if type(first) is not int or type(frame) is not bytes:
                    raise self._damaged(f"{DATABASE}, after command {after}: a row is not a frame")
                keys[:] = [first]
                yield frame
                after = first

    def frames(self, after: int, bytes_max: int) -> list[tuple[int, bytes]]:
        """Return stored frames without checking them.

        Args:
            after: return frames whose first command is after this one.
            bytes_max: maximum total size; the first frame is returned even if it is larger.

        Returns:
            Frames with the numbers of their first commands.

        Raises:
            LogDamagedError: the next frame was dropped, or SQLite cannot read it.
        """
        self._check_failed()
        if after < self.origin.seq:
            raise self._dropped(after)
        frames: list[tuple[int, bytes]] = []
        try:
            for first, frame in self._db.execute(_PAGE, (after,)):
                bytes_max -= len(frame)
                if frames and bytes_max < 0:
                    break
                frames.append((first, frame))
        except apsw.Error as error:
            raise self._damaged(f"SQLite error: {error}") from error
        return frames

    def has_end(self, end: Tail) -> bool:
        """Return whether an undamaged frame, or the dropped part of the log, ends there."""
        if end.seq <= self.origin.seq:
            return end == self.origin or end.seq < self.origin.seq
        try:
            first, frame = self._last(end.seq)
            (found,) = read_frames(frame, self._before_row(first).chain_hash, first)
        except (LogDamagedError, FrameError, ValueError):  # ValueError: it is several frames
            return False
        return Tail(first + found.count - 1, found.chain_hash) == end

    def _before(self, seq: int) -> Tail:
        if seq > self.tail.seq:
            return self.tail
        return self._before_row(self._last(seq)[0]) if seq > self.origin.seq else self.origin

    def _before_row(self, first: int) -> Tail:
        """Return the end of the frame before the one with a key."""
        if first == self.origin.seq + 1:
            return self.origin
        return Tail(first - 1, frame_hash(self._last(first - 1)[1]))

    def _last(self, seq: int) -> tuple[int, bytes]:
        """Return key and bytes of the last frame that begins with or before a command."""
        first, frame = self._row(_LAST, min(seq, INT_MAX)) or (0, b"")
        if type(first) is not int or type(frame) is not bytes or not frame:
            raise self._damaged(f"{DATABASE} has no frame with command {seq}")
        return first, frame

    def _row(self, query: str, *arguments: Any) -> Any:
        """Run a statement to its end; return the first row."""
        rows = self._db.execute(query, arguments).fetchall()
        return rows[0] if rows else None

    # ----- snapshots -------------------------------------------------------------------------

    def _keep(self, snapshot: Snapshot) -> None:
        files.keep_snapshot(self._files, snapshot)

    def unchecked_snapshots(self) -> Iterator[tuple[str, Snapshot | str, Damage]]:
        """Yield names, contents and checks of the snapshots, newest first."""
        self._check_readable()
        for name in reversed(files.snapshot_names(self._files)):
            found, damage = files.read_unchecked(self._files, name)
            if not isinstance(found, str) and not self._has(found):
                found = damage() or "no frame of this log ends there"
            yield name, found, damage

    def set_aside(self, name: str) -> None:
        """Rename a snapshot that cannot be used, so that it does not count as a kept one."""
        self._files.rename(name, f"{name}{files.DAMAGED_SUFFIX}")

    def _delete(self, last: Tail) -> int:
        origin = last.seq, last.chain_hash
        with self._commit(f"dropping commands up to {last.seq}"), self._db:
            self._opened = []
            self._db.execute("DELETE FROM frames WHERE first<=?", (last.seq,))
            count = self._db.changes()
            self._db.execute("UPDATE origin SET seq=?, chain_hash=?", origin)
        return count

    def close(self) -> None:
        """Close the log, and release its lock."""
        self._db.close(True)
        self._files.close()


def is_damage(error: apsw.Error) -> bool:
    """Return whether an SQLite error means wrong bytes, not a full or failing disk."""
    if isinstance(error, apsw.IOError):
        return getattr(error, "extendedresult", 0) in _WRONG_BYTES
    return not isinstance(error, apsw.FullError | apsw.NoMemError)
