"""Small files next to the log database: the tip and the snapshots.

The **tip** is the end of the log at the last commit, in 48 bytes: command number, chain hash, and
the first 8 bytes of the hash of both. It is overwritten after each commit without a sync, so it
costs almost nothing and is never ahead of the log. SQLite treats the first damaged page of its
write-ahead log as the end; a tip beyond that end reveals the damage.

A **snapshot** is a header of 89 bytes, the state, and the hash of both.
"""

import contextlib
import hashlib
import mmap
import os
import shlex
import stat
import struct
import threading
from pathlib import Path
from typing import Final

import msgspec

from clob_server.log.base import Damage, Snapshot, Tail

MODE: Final = 0o600
"""Mode of a file with a secret."""
SHARED: Final = 0o077
"""Permissions of the group and of other users."""
NEW_SUFFIX: Final = ".new"
"""Suffix of a file that is still being written."""
DAMAGED_SUFFIX: Final = ".damaged"
"""Suffix of a snapshot that could not be used."""


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably, with mode 0700.

    Raises:
        OSError: it cannot be created; a part of the path is a file.
    """
    missing = []
    while not path.is_dir():
        if path.exists():
            raise NotADirectoryError(f"{path} is not a folder")
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def make_file(path: Path) -> None:
    """Create an empty file with mode 0600 unless it exists.

    An existing file is not opened: closing it would release every POSIX lock that this process
    holds on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def check_private(path: Path, mode_of_root: int = MODE) -> None:
    """Reject a file with a secret that other users may use. Symbolic links are followed.

    Args:
        path: the file.
        mode_of_root: most that the mode of a file that belongs to root may allow; other files may
            have mode 0600.

    Raises:
        OSError: the file does not exist, is not a regular file, or has a wider mode.
    """
    status = path.stat()
    is_of_root = status.st_uid == 0
    mode, widest = stat.S_IMODE(status.st_mode), mode_of_root if is_of_root else MODE
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{path} must be a regular file")
    if mode & SHARED & ~widest:
        owner = "root" if is_of_root else f"user {status.st_uid}"
        raise PermissionError(
            f"{path} holds a secret, but its mode {mode:04o} allows other users of the machine to "
            f"use it; a file of {owner} must have mode {widest:04o} or less; "
            f"run: chmod {widest:o} {shlex.quote(str(path))}"
        )


def sync_file(path: Path) -> None:
    """Sync a file that another writer made, and make it readable for its owner only."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fchmod(descriptor, 0o600)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Sync the directory entries of a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Folder:
    """An existing folder of the file system."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[str, int] = {}

    def read(self, name: str, bytes_max: int = -1) -> bytes | None:
        """Return the content of a file, or its first bytes; None if it does not exist."""
        try:
            with (self._path / name).open("rb", buffering=0) as file:
                return file.read(bytes_max)
        except FileNotFoundError:
            return None

    def view(self, name: str) -> memoryview | None:
        """Return the content of a file without reading it yet; None if it does not exist.

        The file must only be replaced or removed, never changed: the content stays as it is until
        the view is gone. Processes that view a file share its memory.
        """
        try:
            with (self._path / name).open("rb") as file:
                if not os.fstat(file.fileno()).st_size:
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int:
        """Return the bytes of a file; 0 if it does not exist."""
        try:
            return (self._path / name).stat().st_size
        except FileNotFoundError:
            return 0

    def replace(self, name: str, *parts: bytes | memoryview) -> None:
        """Replace or create a file, durably and atomically: write a new one, sync it, rename it.

        Args:
            name: name of the file.
            parts: its content, in parts that follow one another.
        """
        new = self._path / f"{name}{NEW_SUFFIX}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for part in parts:
                with memoryview(part) as left:
                    done = 0
                    while done < len(left):
                        done += os.write(descriptor, left[done:])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._close(name)
        os.replace(new, self._path / name)
        sync_folder(self._path)

    def overwrite(self, name: str, data: bytes) -> None:
        """Overwrite an existing file of the same size in one call, without a sync."""
        descriptor = self._open.get(name)
        if descriptor is None:
            descriptor = self._open[name] = os.open(self._path / name, os.O_WRONLY)
        if os.pwrite(descriptor, data, 0) != len(data):
            raise OSError(f"{self._path / name} was written only in part")

    def remove(self, name: str) -> None:
        """Remove a file, durably."""
        self._close(name)
        (self._path / name).unlink(missing_ok=True)
        sync_folder(self._path)

    def rename(self, name: str, to: str) -> None:
        """Rename a file, durably, replacing an existing one; a missing file is no error."""
        self._close(name)
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._path / name, self._path / to)
        sync_folder(self._path)

    def names(self) -> list[str]:
        """Return the file names, including those left by an interrupted :meth:`replace`."""
        return sorted(each.name for each in self._path.iterdir() if each.is_file())

    def close(self) -> None:
        """Close the open files."""
        for name in list(self._open):
            self._close(name)

    def _close(self, name: str) -> None:
        descriptor = self._open.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)


TIP: Final = "tip"
"""File name of the tip."""

SNAPSHOTS_KEPT: Final = 2
"""Number of snapshots; the older one is a fallback for a damaged newer one."""

_TIP = struct.Struct("<Q32s8s")
_HEAD = struct.Struct("<8sBQ32s32sQ")
_MAGIC: Final = b"CLOBSNAP"
_VERSION: Final = 1
_HASH_BYTES: Final = 32
_PREFIX, _SUFFIX = "snapshot-", ".bin"


def hash_of(*parts: bytes | memoryview) -> bytes:
    """Return the 32-byte BLAKE2b hash of parts that follow one another."""
    sealed = hashlib.blake2b(digest_size=_HASH_BYTES)
    for part in parts:
        sealed.update(part)
    return sealed.digest()


def encode_tip(tail: Tail) -> bytes:
    """Return the bytes of the tip file."""
    body = _TIP.pack(tail.seq, tail.chain_hash, b"")[:-8]
    return body + hash_of(body)[:8]


def decode_tip(data: bytes) -> Tail | None:
    """Return the end of the log from the bytes of the tip file; None if they are damaged."""
    if len(data) != _TIP.size or hash_of(data[:-8])[:8] != data[-8:]:
        return None
    seq, chain_hash, _ = _TIP.unpack(data)
    return Tail(seq, chain_hash)


def snapshot_name(seq: int) -> str:
    """Return the file name of a snapshot; names sort by number."""
    return f"{_PREFIX}{seq:020d}{_SUFFIX}"


def snapshot_seq(name: str) -> int | None:
    """Return the command number in a snapshot's file name; None for other files."""
    digits = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    fits = len(digits) == 20 and digits.isascii() and digits.isdecimal()
    return int(digits) if fits and name == f"{_PREFIX}{digits}{_SUFFIX}" else None


def encode_snapshot(snapshot: Snapshot) -> tuple[bytes, bytes | memoryview, bytes]:
    """Return the three parts of a snapshot file."""
    seq, chain_hash, event_hash, state = msgspec.structs.astuple(snapshot)
    head = _HEAD.pack(_MAGIC, _VERSION, seq, chain_hash, event_hash, len(state))
    return head, state, hash_of(head, state)


def decode_snapshot(data: memoryview) -> Snapshot | str:
    """Return the snapshot of a file without checking its hash, or a description of its damage.

    Its state is a part of the data.
    """
    _, version, seq, chain_hash, event_hash, length = _HEAD.unpack_from(data)
    if version != _VERSION:
        return f"unsupported version {version} (expected {_VERSION})"
    state = data[_HEAD.size : -_HASH_BYTES]
    if len(state) != length:
        return f"the state has {len(state)} bytes, the header says {length}"
    return Snapshot(seq=seq, chain_hash=chain_hash, event_hash=event_hash, state=state)


class HashCheck:
    """Compares the hash at the end of a file in a thread: 0.3 s for a million resting orders."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._damage: str | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        if hash_of(self._data[:-_HASH_BYTES]) != self._data[-_HASH_BYTES:]:
            self._damage = "wrong hash"

    def damage(self) -> str | None:
        """Wait for the result: a description of the damage, or None."""
        self._thread.join()
        mapped = self._data.obj
        if isinstance(mapped, mmap.mmap):
            mapped.madvise(mmap.MADV_DONTNEED)  # most of the file is not read again
        return self._damage


def read_unchecked(files: Folder, name: str) -> tuple[Snapshot | str, Damage]:
    """Return the snapshot of a file, or its damage, and a function that checks its hash."""
    data = files.view(name)
    if data is None:
        return "missing", lambda: None
    if len(data) < _HEAD.size + _HASH_BYTES or bytes(data[: len(_MAGIC)]) != _MAGIC:
        return "not a snapshot, or truncated", lambda: None
    found, check = decode_snapshot(data), HashCheck(data)
    if not isinstance(found, str) and snapshot_name(found.seq) != name:
        found = f"it is of command {found.seq}"
    return found, check.damage


def read_snapshot(files: Folder, name: str) -> Snapshot | str:
    """Return the snapshot of a file, checked, or a description of its damage."""
    found, damage = read_unchecked(files, name)
    return damage() or found


def read_end(files: Folder, name: str) -> Tail | None:
    """Return the frame end that the header of a snapshot names, unchecked; None if it has none."""
    head = files.read(name, _HEAD.size) or b""
    if len(head) != _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
        return None
    _, _, seq, chain_hash, _, _ = _HEAD.unpack(head)
    return Tail(seq, chain_hash) if snapshot_name(seq) == name else None


def snapshot_names(files: Folder) -> list[str]:
    """Return the file names of the snapshots, oldest first."""
    return [name for name in files.names() if snapshot_seq(name) is not None]


def newest_snapshot(files: Folder) -> tuple[int, int]:
    """Return command number and bytes of the newest snapshot; zeros if there are none."""
    names = snapshot_names(files)
    return (snapshot_seq(names[-1]) or 0, files.size(names[-1])) if names else (0, 0)


def keep_snapshot(files: Folder, snapshot: Snapshot) -> None:
    """Store a snapshot of a durable frame, and delete all but it and the one before."""
    files.replace(snapshot_name(snapshot.seq), *encode_snapshot(snapshot))
    for old in snapshot_names(files)[:-SNAPSHOTS_KEPT]:
        files.remove(old)
