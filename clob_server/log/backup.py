"""Copies a log into another folder: from a folder, or from the parts that a server sends.

A log only grows, so a copy up to its present end is consistent without stopping the writer. Each
part is read on the log thread between two commits and has a bounded size. The copy is a folder that
``clob-server verify`` reads; copying into it again adds the frames since.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

import msgspec

from clob.errors import FrameError
from clob_server.log.base import LogDamagedError, Tail
from clob_server.log.files import NEW_SUFFIX, Folder, snapshot_name, snapshot_names, snapshot_seq
from clob_server.log.sqlite import SqliteLog

PART_BYTES: Final = 1 << 20
"""Size of a part of a copy, in bytes; a single larger frame is a part of its own."""
PAGES_MAX: Final = 16
"""Reads of the log for one part."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The extent of a log at one moment."""

    origin: Tail
    """End of the dropped frames."""
    tail: Tail
    """End of the log."""
    snapshot_seq: int = 0
    """Command of the snapshot that covers the dropped frames; 0 if none were dropped."""
    snapshot_bytes: int = 0
    """Size of that snapshot."""


class Source(Protocol):
    """A log that can be copied."""

    def contents(self) -> Contents:
        """Return the extent of the log."""

    def frames(self, after: int) -> list[bytes]:
        """Return the next stored frames after a command; none at the end."""

    def snapshot(self, seq: int, offset: int) -> bytes:
        """Return the next bytes of a snapshot; none at its end."""


class LogSource:
    """The log in a folder that no server uses."""

    def __init__(self, log: SqliteLog, folder: Path) -> None:
        self._log = log
        self._folder = folder

    def contents(self) -> Contents:
        """Return the extent of the log."""
        return contents_of(self._log, self._folder)

    def frames(self, after: int) -> list[bytes]:
        """Return the next stored frames after a command; none at the end."""
        return [frame for _, frame in self._log.frames(after, PART_BYTES)]

    def snapshot(self, seq: int, offset: int) -> bytes:
        """Return the next bytes of a snapshot; none at its end."""
        return read_part(self._folder, seq, offset)


def contents_of(log: SqliteLog, folder: Path) -> Contents:
    """Return the extent of a log.

    Raises:
        LogDamagedError: commands were dropped, and there is no snapshot that covers them.
    """
    if not log.origin.seq:
        return Contents(origin=log.origin, tail=log.tail)
    seqs = [snapshot_seq(name) or 0 for name in snapshot_names(Folder(folder))]
    covering = [seq for seq in seqs if seq >= log.origin.seq]
    if not covering:
        raise LogDamagedError(f"no snapshot covers the dropped commands up to {log.origin.seq}")
    size = (folder / snapshot_name(covering[0])).stat().st_size
    return Contents(origin=log.origin, tail=log.tail, snapshot_seq=covering[0], snapshot_bytes=size)


def read_part(folder: Path, seq: int, offset: int) -> bytes:
    """Return the bytes of a snapshot from an offset on, at most ``PART_BYTES``.

    Raises:
        FileNotFoundError: there is no such snapshot.
    """
    with (folder / snapshot_name(seq)).open("rb") as file:
        return os.pread(file.fileno(), PART_BYTES, offset)


def copy_log(source: Source, target: Path) -> tuple[Tail, int]:
    """Copy a log into a folder, or add the commands that an earlier copy lacks.

    Every command that was durable when this function was called is in the copy.

    Returns:
        The end of the copy, and the number of added commands.

    Raises:
        LogDamagedError: a frame is damaged, the log no longer has the commands that the copy lacks,
            or the folder has a copy of another log.
    """
    extent = source.contents()
    with closing(SqliteLog(target)) as log:
        if not log.tail.seq and extent.origin.seq:
            copy_snapshot(source, extent, target)
            log.begin(extent.origin)
        if log.tail.seq < extent.origin.seq:
            raise LogDamagedError(
                f"the copy in {target} ends with command {log.tail.seq}, and the log has dropped "
                f"the commands up to {extent.origin.seq}; copy into a new folder"
            )
        before, end = log.tail, extent.tail
        another = f"the copy in {target} is of another log, or of this one before it was restored"
        if before.seq > end.seq or (before.seq == end.seq and before != end):
            raise LogDamagedError(f"{another}; copy into a new folder")
        while log.tail.seq < end.seq:
            frames = source.frames(log.tail.seq)
            if not frames:
                text = f"the log ends with command {log.tail.seq}, not {end.seq}; copy it again"
                raise LogDamagedError(text)
            try:
                log.extend(frames)
            except FrameError as error:
                text = f"{another}, or a frame is damaged ({error}); copy into a new folder"
                raise LogDamagedError(text) from error
        return log.tail, log.tail.seq - before.seq


def copy_snapshot(source: Source, extent: Contents, target: Path) -> None:
    """Copy the snapshot that covers the dropped frames, durably."""
    folder, name = Folder(target), snapshot_name(extent.snapshot_seq)
    new = f"{name}{NEW_SUFFIX}"
    done = 0
    with (target / new).open("wb") as file:
        while done < extent.snapshot_bytes and (data := source.snapshot(extent.snapshot_seq, done)):
            done += file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if done != extent.snapshot_bytes:
        raise LogDamagedError(f"{name} has {extent.snapshot_bytes} bytes; got {done}")
    folder.rename(new, name)
