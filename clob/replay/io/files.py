"""Opens plain and compressed files in blocks of bounded size, and counts the bytes read of them."""

import bz2
import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from clob.replay.errors import need
from clob.replay.io.problems import Problems

FilePath: TypeAlias = str | os.PathLike[str]
"""Where a file is."""

BLOCK_BYTES = 1 << 22
"""How much of a file is unpacked at a time."""

LINE_BYTES_MAX = 1 << 26
"""A line longer than this is none: the file is not a text."""

NEWLINE = b"\n"[0]

ONCE = "a pipe or a device, which can be read only once; save it as a file first"
"""Why some things that have a path are not read."""

SUFFIXES = (".gz", ".bz2", ".zst")
"""The endings of compressed files that are understood."""

DAMAGED = (EOFError, ValueError, zlib.error)
"""What the decompressors raise over a file that is cut off or changed."""


class Progress:
    """How far the reading of some files is, in bytes as they lie on the disk."""

    def __init__(self) -> None:
        self.done_bytes: int = 0
        """Read so far."""
        self.total_bytes: int = 0
        """To be read in all; 0 where nobody knows."""

    def expect(self, *paths: FilePath) -> None:
        """Begin anew, with these files to be read."""
        self.done_bytes = 0
        self.total_bytes = sum(os.path.getsize(path) for path in paths)


class _Counted(io.RawIOBase):
    """A file that adds what is read of it to a progress."""

    def __init__(self, file: io.FileIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read into a buffer and count."""
        count: int = self._file.readinto(buffer) or 0  # type: ignore[arg-type]
        self._progress.done_bytes += count
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def plain_name(path: FilePath) -> str:
    """Give the name of a file without folder and without the ending of its compression.

    >>> plain_name("data/AAPL_message_50.csv.gz")
    'AAPL_message_50.csv'
    """
    name = Path(path).name
    return Path(name).stem if Path(name).suffix.lower() in SUFFIXES else name


def open_bytes(path: FilePath, progress: Progress | None = None) -> IO[bytes]:
    """Open a file for reading, unpacked by its ending: ``.gz``, ``.bz2``, ``.zst`` or none.

    Args:
        path: the file.
        progress: is told of every byte read from the disk.

    Returns:
        A binary file. Reading it may raise one of ``DAMAGED``, or ``OSError``.

    Raises:
        OSError: it cannot be opened, or is a pipe or a device: files are read more than once, and
            the second time there would be less of it.
        PackageMissingError: it ends in ``.zst`` and zstandard is not installed.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.ESPIPE, ONCE, os.fspath(path))
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by what reads it
    raw = io.BufferedReader(_Counted(file, progress or Progress()), 1 << 18)
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if suffix == ".bz2":
        return bz2.BZ2File(raw)
    if suffix == ".zst":
        zstandard = need("zstandard", "Reading .zst files", "clob[replay]")
        stream: IO[bytes] = zstandard.ZstdDecompressor().stream_reader(
            raw, read_across_frames=True, closefd=True
        )
        return stream
    return raw


def byte_blocks(
    path: FilePath, problems: Problems, progress: Progress | None = None, size: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """Read a file in blocks, unpacked.

    A compressed file that is cut off or damaged is a problem of kind ``"damaged file"``; what
    came before it is given all the same.

    Args:
        path: the file.
        problems: where damage is reported.
        progress: is told of every byte read from the disk.
        size: bytes of a block, at most.

    Yields:
        Blocks, none empty.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: see :func:`open_bytes`.
        ReplayFormatError: the file is damaged and the policy is to raise.
    """
    with open_bytes(path, progress) as file:
        ended = False
        while not ended:
            parts: list[bytes] = []
            count = 0
            # Small reads, so that what was unpacked before the damage is not lost with it.
            while count < size and not ended:
                try:
                    part = file.read1(size - count)  # type: ignore[attr-defined]
                except Exception as error:
                    if not _is_damage(error):
                        raise
                    if parts:
                        yield b"".join(parts)
                    problems.report("damaged file", f"cannot be unpacked further: {error}", path)
                    return
                parts.append(part)
                count += len(part)
                ended = not part
            if count:
                yield b"".join(parts)


def _is_damage(error: Exception) -> bool:
    """Tell a damaged archive from a failing disk, whose errors have an errno."""
    if isinstance(error, OSError):
        return error.errno is None
    # The exception of zstandard cannot be named without importing it.
    foreign = type(error).__module__.partition(".")[0] == "zstandard"
    return foreign or isinstance(error, DAMAGED)


def line_blocks(
    path: FilePath, problems: Problems, progress: Progress | None = None, size: int = BLOCK_BYTES
) -> Iterator[tuple[int, bytes]]:
    r"""Read a text in blocks of whole lines.

    Args:
        path: the file.
        problems: where damage is reported; a last line without an end is the caller's to judge.
        progress: is told of every byte read from the disk.
        size: bytes of a block, about.

    Yields:
        The number of the first line of a block, counted from 1, and the block. All blocks but the
        last end with ``\n``; the last does if the file does.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: see :func:`open_bytes`.
        ReplayFormatError: see :func:`byte_blocks`, or a line exceeds ``LINE_BYTES_MAX``.
    """
    first, rest = 1, b""
    for block in byte_blocks(path, problems, progress, size):
        end = block.rfind(b"\n") + 1
        if not end:
            rest += block
            if len(rest) > LINE_BYTES_MAX:
                problems.report("endless line", f"more than {LINE_BYTES_MAX:,} bytes", path, first)
                return
            continue
        whole = rest + block[:end]
        rest = block[end:]
        yield first, whole
        first += int(np.count_nonzero(np.frombuffer(whole, np.uint8) == NEWLINE))
    if rest:
        yield first, rest


def lines(
    path: FilePath, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, bytes]]:
    """Read a text line by line, as :func:`line_blocks` does.

    Args:
        path: the file.
        problems: where damage is reported.
        progress: is told of every byte read from the disk.

    Yields:
        The number of a line, counted from 1, and the line without its end.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: see :func:`open_bytes`.
        ReplayFormatError: see :func:`line_blocks`.
    """
    for first, block in line_blocks(path, problems, progress):
        for place, line in enumerate(block.splitlines()):
            yield first + place, line
