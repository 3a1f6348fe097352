"""The small files beside a log: whole and durable, or overwritten in place and not."""

import contextlib
import os
from pathlib import Path
from typing import Protocol

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
