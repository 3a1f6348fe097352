"""Tells what a file of order flow is by its first bytes, and opens it with the right reader."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clob.replay.errors import ReplayFormatError
from clob.replay.files import FilePath, byte_blocks, plain_name
from clob.replay.npz import read_npz
from clob.replay.problems import Problems
from clob.replay.readers.dbn import read_dbn
from clob.replay.readers.lobster import read_lobster
from clob.replay.readers.mbo import read_mbo
from clob.replay.readers.tables import read_table
from clob.replay.streams import Stream

HEAD_BYTES = 4_096
"""How much of a file is looked at."""

LOBSTER_LINE = re.compile(rb"\d+(\.\d+)?,[1-7],\d+,\d+,-?\d+,-?1\r?\n")
"""What the lines of a LOBSTER message file look like."""


def _read_recording(path: FilePath, **options: Any) -> Stream:
    """Read a recording as a stream; it has no options."""
    if options:
        raise TypeError(f"a recording has no option {min(options)!r}")
    return Stream.of(read_npz(path))


READERS: dict[str, Callable[..., Stream]] = {
    "npz": _read_recording,
    "mbo": read_mbo,
    "dbn": read_dbn,
    "lobster": read_lobster,
    "table": read_table,
}
"""The reader of each format, by its name."""


def detect(path: FilePath) -> str:
    """Tell the format of a file by what it begins with.

    Args:
        path: the file, compressed or not.

    Returns:
        A name out of :data:`READERS`.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is compressed in a way that needs a package.
        ReplayFormatError: it is none of the formats, or a damaged archive.
    """
    head = next(byte_blocks(path, Problems(), None, HEAD_BYTES), b"")
    if head.startswith(b"PK"):
        return _of_archive(path)
    if head.startswith(b"DBN"):
        return "dbn"
    if head.startswith(b"PAR1"):
        return "table"
    if LOBSTER_LINE.match(head):
        return "lobster"
    first = head.partition(b"\n")[0].decode("utf-8", "replace").lower()
    if {"price", "size", "side"} <= {cell.strip().strip("\ufeff") for cell in first.split(",")}:
        return "table"
    raise ReplayFormatError(
        f"{plain_name(path)}: none of the formats {', '.join(READERS)}; "
        f"it begins with {head[:40]!r}"
    )


def _of_archive(path: FilePath) -> str:
    """Tell which arrays an archive has: those of a recording, or records of an exchange."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ReplayFormatError(f"{plain_name(path)}: not a whole zip archive: {error}") from error
    return "mbo" if "events.npy" in members and "meta.npy" not in members else "npz"


def open_stream(path: FilePath, format: str = "auto", **options: Any) -> Stream:
    """Open a file of order flow.

    Args:
        path: the file. A LOBSTER book file beside a message file is found by its name.
        format: a name out of :data:`READERS`, or ``"auto"`` to tell by the file.
        options: what the reader of that format takes.

    Returns:
        The stream.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: it is none of the formats, or not as its format wants it.
        ValueError: there is no such format.
    """
    name = detect(path) if format == "auto" else format
    if name not in READERS:
        raise ValueError(f"there is no format {name!r}, only auto, {', '.join(READERS)}")
    if name == "lobster" and "orderbook" not in options:
        beside = Path(path).with_name(Path(path).name.replace("_message_", "_orderbook_"))
        if beside != Path(path) and beside.exists():
            options["orderbook"] = beside
    return READERS[name](path, **options)
