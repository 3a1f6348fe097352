"""The small files beside a log: whole and durable, or overwritten in place and not."""

import contextlib
import hashlib
import os
import struct
from pathlib import Path
from typing import Final, Protocol

from clob_server.log.base import Snapshot, Tail

ASIDE = ".new"
"""What the name of a file ends with that is not in place yet."""


class Files(Protocol):
    """A flat folder of small files."""

    def read(self, name: str) -> bytes | None:
        """Give what a file holds; None where there is none."""

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in place of the one of that name, whole and durable, or not at all."""

    def overwrite(self, name: str, data: bytes) -> None:
        """Write over a file, without making it durable. It must be there, and be as long."""

    def remove(self, name: str) -> None:
        """Remove a file, durably."""

    def names(self) -> list[str]:
        """Name the files, what a death in the middle of :meth:`replace` has left among them."""

    def close(self) -> None:
        """Let go of what is open."""


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably, for its owner alone."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def make_file(path: Path) -> None:
    """Make an empty file for its owner alone, if it is not there.

    One that is there is not opened: to close it would let go of every lock that this process has
    on it, wherever it was taken.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Folder:
    """A folder of the file system.

    Args:
        path: the folder; it must be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """Give what a file holds; None where there is none."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in place of the one of that name: written aside, synced, renamed."""
        aside = self._path / f"{name}{ASIDE}"
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with memoryview(data) as left:
                done = 0
                while done < len(left):
                    done += os.write(descriptor, left[done:])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._forget(name)
        os.replace(aside, self._path / name)
        sync_folder(self._path)

    def overwrite(self, name: str, data: bytes) -> None:
        """Write over a file, in one call and without a sync."""
        descriptor = self._open.get(name)
        if descriptor is None:
            descriptor = self._open[name] = os.open(self._path / name, os.O_WRONLY)
        if os.pwrite(descriptor, data, 0) != len(data):
            raise OSError(f"{self._path / name} could not be written whole")

    def remove(self, name: str) -> None:
        """Remove a file, durably."""
        self._forget(name)
        (self._path / name).unlink(missing_ok=True)
        sync_folder(self._path)

    def names(self) -> list[str]:
        """Name the files."""
        return sorted(each.name for each in self._path.iterdir() if each.is_file())

    def close(self) -> None:
        """Let go of what is open."""
        for name in list(self._open):
            self._forget(name)

    def _forget(self, name: str) -> None:
        """Close a file that was overwritten."""
        descriptor = self._open.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)


TIP: Final = "tip"
"""The file of the tip."""

SNAPSHOTS_KEPT: Final = 2
"""How many snapshots stay; the older one is for the day on which the newer is damaged."""

_TIP = struct.Struct("<Q32s8s")
_HEAD = struct.Struct("<8sBQ32s32sQ")
_MAGIC: Final = b"CLOBSNAP"
_VERSION: Final = 1
_HASH_BYTES: Final = 32
_PREFIX, _SUFFIX = "snapshot-", ".bin"


def hash_of(data: bytes | memoryview) -> bytes:
    """Hash bytes, BLAKE2b of 32 bytes."""
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).digest()


def encode_tip(tail: Tail) -> bytes:
    """Write the tip."""
    body = _TIP.pack(tail.seq, tail.chain_hash, b"")[:-8]
    return body + hash_of(body)[:8]


def decode_tip(data: bytes) -> Tail | None:
    """Read the tip; None where it is damaged."""
    if len(data) != _TIP.size or hash_of(data[:-8])[:8] != data[-8:]:
        return None
    seq, chain_hash, _ = _TIP.unpack(data)
    return Tail(seq, chain_hash)


def snapshot_name(seq: int) -> str:
    """Name the file of a snapshot; names sort as numbers do."""
    return f"{_PREFIX}{seq:020d}{_SUFFIX}"


def snapshot_seq(name: str) -> int | None:
    """Tell of which command the file is a snapshot; None where it is none."""
    digits = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    fits = len(digits) == 20 and digits.isascii() and digits.isdecimal()
    return int(digits) if fits and name == f"{_PREFIX}{digits}{_SUFFIX}" else None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot."""
    head = _HEAD.pack(
        _MAGIC,
        _VERSION,
        snapshot.seq,
        snapshot.chain_hash,
        snapshot.event_hash,
        len(snapshot.state),
    )
    body = head + snapshot.state
    return body + hash_of(body)


def decode_snapshot(data: bytes) -> Snapshot | str:
    """Read a snapshot, or say what is wrong with it."""
    if len(data) < _HEAD.size + _HASH_BYTES or data[:8] != _MAGIC:
        return "it does not begin as a snapshot does, or is cut short"
    _, version, seq, chain_hash, event_hash, length = _HEAD.unpack_from(data)
    with memoryview(data) as view:
        if hash_of(view[:-_HASH_BYTES]) != data[-_HASH_BYTES:]:
            return "its hash is another one"
    if version != _VERSION:
        return f"its version must be {_VERSION}, not {version}"
    state = data[_HEAD.size : -_HASH_BYTES]
    if len(state) != length:
        return f"its state has {len(state)} bytes, not {length}"
    return Snapshot(seq=seq, chain_hash=chain_hash, event_hash=event_hash, state=state)


def snapshot_names(files: Files) -> list[str]:
    """Name the snapshots, the oldest first."""
    return [name for name in files.names() if snapshot_seq(name) is not None]


def newest_seq(files: Files) -> int:
    """Tell of which command the newest snapshot is; 0 where there is none."""
    names = snapshot_names(files)
    return (snapshot_seq(names[-1]) or 0) if names else 0


def keep_snapshot(files: Files, snapshot: Snapshot) -> None:
    """Keep a snapshot as a file, durably, and remove all but it and the one before.

    Args:
        files: the folder of the log.
        snapshot: it must be of a frame that is durable in that log.
    """
    files.replace(snapshot_name(snapshot.seq), encode_snapshot(snapshot))
    for old in snapshot_names(files)[:-SNAPSHOTS_KEPT]:
        files.remove(old)


# MERGED clob_server.log.files: What stands beside the frames, byte by byte: the tip, and a snapshot as a file.
#
# The **tip** is where the log ended when it was last written, 48 bytes: number, chain hash, and the
# first 8 bytes of the hash of both. It is written over after each commit without a sync, so that it
# costs nothing; it is never ahead of the log. SQLite takes the first damaged page of its write-ahead
# log for the end of it. A tip beyond that end gives the damage away.
#
# A **snapshot** is a head of 89 bytes, the state, and the hash of both.
