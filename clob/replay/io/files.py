"""Opens plain and compressed files, reads them in bounded blocks and counts the bytes read."""

import bz2
import codecs
import errno
import gzip
import io
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
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

SUFFIXES = (".gz", ".bz2", ".zst", ".zip")
"""The suffixes of supported compressions."""

SIGNATURES = {
    ".gz": re.compile(rb"\x1f\x8b\x08"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd"),
    ".zip": re.compile(rb"PK(\x03\x04|\x05\x06)"),
}
"""The first bytes of each compression."""

OF_SYSTEM = re.compile(r"(^|/)(__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)")
"""Files that an operating system adds to the archive of a folder."""

SIGNATURE_BYTES = 10
"""The length of the longest signature."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The byte order marks of text with two bytes per character, as Windows programs write it."""

DAMAGED = (EOFError, ValueError, zlib.error, zipfile.BadZipFile, NotImplementedError)
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

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: object) -> int:
        count: int = self._file.readinto(buffer) or 0  # type: ignore[arg-type]
        self._progress.done_bytes += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def plain_name(path: FilePath) -> str:
    """Return the name of a file without its directory and the suffix of its compression.

    Bytes that are not text in the file system's encoding become question marks, so that the name
    can be written to reports and tables.

    >>> plain_name("data/AAPL_message_50.csv.gz")
    'AAPL_message_50.csv'
    """
    name = Path(path).name.encode("utf-8", "replace").decode()
    return Path(name).stem if Path(name).suffix.lower() in SUFFIXES else name


def first_bytes(path: FilePath, count: int = SIGNATURE_BYTES) -> bytes:
    """Read the first bytes of a file as they are on disk; errors as for :func:`open_bytes`."""
    _check_regular(path)
    with open(path, "rb") as file:
        return file.read(count)


def _check_regular(path: FilePath) -> None:
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.ESPIPE, ONCE, os.fspath(path))


def is_parquet(path: FilePath) -> bool:
    """Return whether a file is Parquet, by its suffix or its first bytes."""
    return os.fspath(path).lower().endswith(".parquet") or first_bytes(path, 4) == b"PAR1"


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
    """Open a file for reading, decompressed.

    The first bytes decide the compression, not the suffix, since programs that download files
    rename them: gzip, bzip2, Zstandard, a zip archive of one file, or none.

    Args:
        path: the file.
        progress: counts every byte read from the disk.

    Returns:
        A binary file. Reading it may raise one of ``DAMAGED``, or ``OSError``.

    Raises:
        OSError: the file cannot be opened, or it is a pipe or a device, which could not be read a
            second time.
        PackageMissingError: the compression is Zstandard and zstandard is not installed.
        ReplayFormatError: the file is a zip archive that is damaged or has not exactly one file.
    """
    _check_regular(path)
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by its reader
    raw = io.BufferedReader(_Counted(file, progress or Progress()), 1 << 18)
    compression = _compression(path, raw.peek(SIGNATURE_BYTES))
    if compression == ".gz":
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if compression == ".bz2":
        return bz2.BZ2File(raw)
    if compression == ".zst":
        zstandard = need("zstandard", "Reading .zst files", "clob[replay]")
        stream: IO[bytes] = zstandard.ZstdDecompressor().stream_reader(
            raw, read_across_frames=True, closefd=True
        )
        return stream
    return _member(path, raw) if compression == ".zip" else raw


def _compression(path: FilePath, head: bytes) -> str:
    """Return the suffix of a compression, or an empty text.

    Content that fits no compression is read as it is, unless the suffix states one and the content
    is not text: that is a damaged file, which the decompressor reports.
    """
    for suffix, signature in SIGNATURES.items():
        if signature.match(head):
            return suffix
    suffix = Path(path).suffix.lower()
    is_text = head[:1].isascii() and (head[:1].isspace() or head[:1] >= b" ")
    stated = suffix in SUFFIXES[:3] and not is_text and not head.startswith((*UTF_16, b"\xef"))
    return suffix if stated else ""


def _member(path: FilePath, raw: IO[bytes]) -> IO[bytes]:
    """Open the only file of a zip archive."""
    name = plain_name(path)
    try:
        archive = zipfile.ZipFile(raw)
        files = [one for one in archive.infolist() if not one.is_dir()]
        members = [one for one in files if not OF_SYSTEM.search(one.filename)]
        if len(members) != 1:
            names = ", ".join(sorted(one.filename for one in members)[:3]) or "no file"
            more = ", ..." if len(members) > 3 else ""
            raise ReplayFormatError(
                f"{name}: a zip archive must have one file; got {len(members)}: {names}{more}; "
                "unpack it, and replay one of them"
            )
        return archive.open(members[0])
    except RuntimeError as error:
        raise ReplayFormatError(f"{name}: the zip archive is encrypted; unpack it") from error
    except (*DAMAGED, OSError) as error:
        if isinstance(error, ReplayFormatError) or not _is_damage(error):
            raise
        raise ReplayFormatError(f"{name}: not a complete zip archive: {error}") from error


def byte_blocks(
    path: FilePath, problems: Problems, progress: Progress | None = None, size: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """Read a file in decompressed blocks; text of UTF-16 is converted to UTF-8.

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
    blocks = _stored_blocks(path, problems, progress, size)
    first = next(blocks, b"")
    if not first.startswith(UTF_16):
        yield from filter(None, chain((first,), blocks))
        return
    decoder = codecs.getincrementaldecoder("utf-16")()
    try:
        for block in chain((first,), blocks):
            # A lone half of a character pair is passed on, and no reader accepts it.
            yield decoder.decode(block).encode("utf-8", "surrogatepass")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        problems.report("damaged file", f"the text is not UTF-16: {error.reason}", path)


def _stored_blocks(
    path: FilePath, problems: Problems, progress: Progress | None, size: int
) -> Iterator[bytes]:
    """Read a file in decompressed blocks of its stored content."""
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
    r"""Read a text file in blocks of whole lines; every end of a line becomes ``\n``.

    A byte order mark is removed.

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
    for block in _unix_ends(byte_blocks(path, problems, progress, size)):
        if first == 1 and not rest:
            block = block.removeprefix(codecs.BOM_UTF8)
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


def _unix_ends(blocks: Iterator[bytes]) -> Iterator[bytes]:
    r"""Replace ``\r\n``, ``\r\r\n`` and ``\r`` by ``\n``, also where a block ends inside one.

    Programs that convert line ends twice write ``\r\r\n``.
    """
    held = b""
    for block in blocks:
        block = held + block
        held = block[-2:] if block.endswith(b"\r\r") else b"\r" * block.endswith(b"\r")
        if b"\r" in block:
            block = block[: len(block) - len(held)]
            for end in (b"\r\r\n", b"\r\n", b"\r"):
                block = block.replace(end, b"\n")
        if block:
            yield block
    if held:
        yield b"\n" * len(held)


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
