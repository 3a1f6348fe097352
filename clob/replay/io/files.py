"""Opens plain and compressed files, reads them in bounded blocks and counts the bytes read."""

import bz2
import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from clob.replay.errors import ReplayFormatError, need
from clob.replay.io.problems import Problems

FilePath: TypeAlias = str | os.PathLike[str]
"""The path of a file."""

BLOCK_BYTES = 1 << 22
"""Maximum size of a block after decompression."""

LINE_BYTES_MAX = 1 << 26
"""A file with a longer line is rejected as not being text."""

NEWLINE = b"\n"[0]

ONCE = "a pipe or a device can be read only once, readers need to read twice; save it as a file"
"""Error text for a path that is not a regular file."""

SUFFIXES = (".gz", ".bz2", ".zst")
"""The suffixes of supported compressions."""

DAMAGED = (EOFError, ValueError, zlib.error)
"""Raised by the decompressors for a file that is cut off or modified."""


class Progress:
    """Progress of reading some files, in bytes on disk (compressed)."""

    def __init__(self) -> None:
        self.done_bytes: int = 0
        """Bytes read so far."""
        self.total_bytes: int = 0
        """Bytes to read in total; 0 if unknown."""

    def expect(self, *paths: FilePath) -> None:
        """Restart from zero, with these files to be read."""
        self.done_bytes = 0
        self.total_bytes = sum(os.path.getsize(path) for path in paths)


class _Counted(io.RawIOBase):
    """A file that adds the bytes read from it to a progress."""

    def __init__(self, file: io.FileIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count: int = self._file.readinto(buffer) or 0  # type: ignore[arg-type]
        self._progress.done_bytes += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def plain_name(path: FilePath) -> str:
    """Return the name of a file without its directory and the suffix of its compression.

    >>> plain_name("data/AAPL_message_50.csv.gz")
    'AAPL_message_50.csv'
    """
    name = Path(path).name
    return Path(name).stem if Path(name).suffix.lower() in SUFFIXES else name


def is_parquet(path: FilePath) -> bool:
    """Return whether a file is Parquet, by its suffix."""
    return os.fspath(path).lower().endswith(".parquet")


def need_pyarrow(module: str = "pyarrow.parquet") -> Any:
    """Import a module of pyarrow for reading, or raise ``PackageMissingError``."""
    return need(module, "Reading Parquet files", "clob[export]")


@contextmanager
def parquet_errors(path: FilePath) -> Iterator[None]:
    """Raise ``ReplayFormatError`` for each error of pyarrow about the content of a file."""
    try:
        yield
    except Exception as error:
        # An OSError of the system has an errno. The classes of pyarrow are known by their module.
        if type(error).__module__.partition(".")[0] == "pyarrow" or (
            isinstance(error, UnicodeDecodeError)
            or (isinstance(error, OSError) and error.errno is None)
        ):
            text = f"{plain_name(path)}: damaged Parquet file: {error}"
            raise ReplayFormatError(text) from error
        raise


def parquet_schema(path: FilePath) -> Any:
    """Return the schema of a Parquet file.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: pyarrow is not installed.
        ReplayFormatError: the file is damaged.
    """
    parquet = need_pyarrow()
    with parquet_errors(path), open(path, "rb") as file:
        return parquet.read_schema(file)


def parquet_batches(path: FilePath) -> Iterator[Any]:
    """Yield the rows of a Parquet file in batches; errors as for :func:`parquet_schema`."""
    parquet = need_pyarrow()
    with parquet_errors(path), open(path, "rb") as file:
        yield from parquet.ParquetFile(file).iter_batches(1 << 14)


def open_bytes(path: FilePath, progress: Progress | None = None) -> IO[bytes]:
    """Open a file for reading, decompressed by its suffix: ``.gz``, ``.bz2``, ``.zst`` or none.

    Args:
        path: the file.
        progress: counts every byte read from the disk.

    Returns:
        A binary file. Reading it may raise one of ``DAMAGED``, or ``OSError``.

    Raises:
        OSError: the file cannot be opened, or it is a pipe or a device, which could not be read a
            second time.
        PackageMissingError: the suffix is ``.zst`` and zstandard is not installed.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.ESPIPE, ONCE, os.fspath(path))
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by its reader
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
    """Read a file in decompressed blocks.

    A compressed file that is cut off or damaged is a problem of kind ``"damaged file"``; the
    content before the damage is still yielded.

    Args:
        path: the file.
        problems: receives damage.
        progress: counts every byte read from the disk.
        size: the maximum size of a block, in bytes.

    Yields:
        Non-empty blocks.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: see :func:`open_bytes`.
        ReplayFormatError: the file is damaged and the policy is ``"raise"``.
    """
    with open_bytes(path, progress) as file:
        ended = False
        while not ended:
            parts: list[bytes] = []
            count = 0
            # Small reads, so that damage does not lose the content decompressed before it.
            while count < size and not ended:
                try:
                    part = file.read1(size - count)  # type: ignore[attr-defined]
                except Exception as error:
                    if not _is_damage(error):
                        raise
                    if parts:
                        yield b"".join(parts)
                    problems.report("damaged file", f"decompression failed: {error}", path)
                    return
                parts.append(part)
                count += len(part)
                ended = not part
            if count:
                yield b"".join(parts)


def _is_damage(error: Exception) -> bool:
    """Distinguish a damaged archive from a disk error, which has an errno."""
    if isinstance(error, OSError):
        return error.errno is None
    # The exception of zstandard is known by its module, to avoid importing the package.
    foreign = type(error).__module__.partition(".")[0] == "zstandard"
    return foreign or isinstance(error, DAMAGED)


def line_blocks(
    path: FilePath, problems: Problems, progress: Progress | None = None, size: int = BLOCK_BYTES
) -> Iterator[tuple[int, bytes]]:
    r"""Read a text file in blocks of whole lines.

    Args:
        path: the file.
        problems: receives damage; a missing newline at the end of the file is left to the caller.
        progress: counts every byte read from the disk.
        size: the approximate size of a block, in bytes.

    Yields:
        The number of the first line of a block, counted from 1, and the block. Every block ends
        with ``\n``, except possibly the last.

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
                text = f"a line must be at most {LINE_BYTES_MAX:,} bytes"
                problems.report("endless line", text, path, first)
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
    """Read a text file line by line, with the arguments and errors of :func:`line_blocks`.

    Yields:
        The number of a line, counted from 1, and the line without its newline.
    """
    for first, block in line_blocks(path, problems, progress):
        for place, line in enumerate(block.splitlines()):
            yield first + place, line
