"""Detects the format of an order flow file from its first bytes and opens it with its reader."""

import codecs
import importlib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clob.errors import PackageMissingError
from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import (
    FilePath,
    byte_blocks,
    first_bytes,
    parquet_schema,
    plain_name,
)
from clob.replay.io.npz import read_npz
from clob.replay.io.problems import Problems
from clob.replay.io.streams import Stream
from clob.replay.io.text import first_line

HEAD_BYTES = 4_096
"""How many bytes of a file are read to detect its format."""

LOBSTER_LINE = re.compile(
    rb"(?:[A-Za-z\"'][^\n]*\n)?\d+(\.\d+)?([,;])[1-7]\2\d+\2\d+\2-?\d+\2-?1(\r?\n|$)"
)
"""A line of a LOBSTER message file, possibly after a line of column names."""

LOBSTER_BOOK = re.compile(rb"(-?\d+[,;]\d+[,;]-?\d+[,;]\d+)([,;]-?\d+[,;]\d+)*\r?\n")
"""A line of a LOBSTER book file."""

HEADERS = {
    "kalshi": {"timestamp", "market_ticker", "best_yes_bid", "best_no_bid"},
    "table": {"price", "size", "side"},
}
"""Columns that identify the formats with a header line."""

TABLE_COLUMNS, COLUMN_NAME = 4, re.compile(r"[a-z_][\w ./()%-]*")
"""How many names in lower case, and only names, make a line the header of a table."""

JSON_START = re.compile(rb"(?:\s|PING|PONG)*[\[{]")
"""The start of JSON lines, possibly after heartbeats of a connection."""

JSON_SIGNS = {
    "feed": re.compile(rb'^\s*\{"type"\s*:\s*"recording"'),
    "betfair": re.compile(rb'"op"\s*:\s*"(mcm|connection|status)"'),
    "kalshi-ws": re.compile(
        rb'"type"\s*:\s*"(orderbook_snapshot|orderbook_delta|subscribed|ok|trade)"'
    ),
    "polymarket": re.compile(rb'"(asset_id|assets_ids|price_changes|clob_token_ids)"\s*:'),
}
"""Keys and values that identify the JSON lines of each venue."""


TAR = "a tar archive; unpack it, and replay its files"
"""A tar archive has its signature at byte 257."""

FOREIGN = {
    b"SQLite format 3": "an SQLite database; export a table as CSV or Parquet",
    b"ARROW1": "an Arrow (Feather) file; save it as Parquet",
    b"\x93NUMPY": "a single NumPy array; a recording is an .npz file",
    b"\x80\x04\x95": "a Python pickle; save it as CSV or Parquet",
    b"\x80\x05\x95": "a Python pickle; save it as CSV or Parquet",
    b"\x89HDF": "an HDF5 file; save it as CSV or Parquet",
    b"\xfd7zXZ": "an xz archive; unpack it",
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"Rar!": "a RAR archive; unpack it",
    b"P*M\x18": "a DBZ file, the format before DBN; convert it with the dbn command",
    b"<": "a page of HTML or XML; the download has failed",
}
"""Formats without a reader, by their first bytes."""


def _read_recording(path: FilePath, **options: Any) -> Stream:
    if options:
        raise TypeError(f"a recording takes no options; got {min(options)!r}")
    return Stream.of(read_npz(path))


def _later(name: str, function: str) -> Callable[..., Stream]:
    """Return a reader that is imported at its first use, which keeps the start-up short."""

    def read(path: FilePath, **options: Any) -> Stream:
        module = importlib.import_module(f"clob.replay.readers.{name}")
        stream: Stream = getattr(module, function)(path, **options)
        return stream

    return read


READERS: dict[str, Callable[..., Stream]] = {
    "npz": _read_recording,
    "mbo": _later("mbo", "read_mbo"),
    "dbn": _later("dbn", "read_dbn"),
    "lobster": _later("lobster", "read_lobster"),
    "table": _later("tables", "read_table"),
    "kalshi": _later("kalshi", "read_kalshi"),
    "kalshi-ws": _later("kalshi_ws", "read_kalshi_ws"),
    "polymarket": _later("polymarket", "read_polymarket"),
    "betfair": _later("betfair", "read_betfair"),
    "journal": _later("journal", "read_journal"),
    "feed": _later("feed", "read_feed"),
    "export": _later("exports", "read_export"),
}
"""The reader of each format, by name."""


def detect(path: FilePath) -> str:
    """Detect the format of a file from its first bytes.

    Args:
        path: the file, compressed or not.

    Returns:
        A key of ``READERS``.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: its compression needs a package that is not installed.
        ReplayFormatError: the format is unknown, or the file is a damaged archive.
    """
    if first_bytes(path).startswith(b"PK"):
        archive = _of_archive(path)
        if archive:
            return archive
    head = next(byte_blocks(path, Problems(), None, HEAD_BYTES), b"").replace(b"\r\n", b"\n")
    head = head.replace(b"\r", b"\n").removeprefix(codecs.BOM_UTF8)
    _reject_foreign(path, head)
    if head.startswith(b"DBN"):
        return "dbn"
    if head.startswith(b"PAR1"):
        return _of_parquet(path)
    if head.startswith(b"CLOBFRM"):
        return "journal"
    if LOBSTER_LINE.match(head):
        return "lobster"
    if JSON_START.match(head):
        name = _of_json(head)
        if name is not None:
            return name
    first = first_line(head)[1].decode("utf-8", "replace").lower()
    names = {cell.strip(' \ufeff\r"') for cell in re.split("[,;\t]", first)}
    for format, needed in HEADERS.items():
        if needed <= names:
            return format
    if len(names) >= TABLE_COLUMNS and all(map(COLUMN_NAME.fullmatch, names)):
        # Its reader names the columns that it needs.
        return "table"
    if LOBSTER_BOOK.match(head):
        raise ReplayFormatError(
            f"{plain_name(path)}: got a LOBSTER book file; expected its message file, whose name "
            "has 'message' instead of 'orderbook'. The book file is found by that name"
        )
    if not head.strip():
        raise ReplayFormatError(f"{plain_name(path)}: the file is empty; expected order flow")
    raise ReplayFormatError(
        f"{plain_name(path)}: unknown format; expected one of {', '.join(READERS)}, "
        f"got a file that starts with {head[:40]!r}"
    )


def _reject_foreign(path: FilePath, head: bytes) -> None:
    """Raise for a file of a known format that no reader accepts."""
    compressed = head.startswith(b"PAR1") and first_bytes(path, 4) != b"PAR1"
    if compressed or head.startswith(b"PK"):
        found = "a compressed Parquet or .npz file; decompress it"
    else:
        found = next((name for start, name in FOREIGN.items() if head.startswith(start)), "")
        found = TAR if head[257:262] == b"ustar" else found
    if found:
        raise ReplayFormatError(f"{plain_name(path)}: expected order flow, got {found}")


def _of_json(head: bytes) -> str | None:
    """Return the format of JSON lines, or None if it is unknown."""
    exports = importlib.import_module("clob.replay.readers.exports")
    if exports.is_export(head):
        return "export"
    return next((name for name, sign in JSON_SIGNS.items() if sign.search(head)), None)


def _of_parquet(path: FilePath) -> str:
    """Distinguish an export from any other table, by its columns."""
    exports = importlib.import_module("clob.replay.readers.exports")
    try:
        names = parquet_schema(path).names
    except (PackageMissingError, ReplayFormatError):
        # The reader reports the error.
        return "table"
    return "export" if exports.table_of(names) else "table"


def _of_archive(path: FilePath) -> str:
    """Return the format of an archive of arrays; empty for an archive of anything else."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        text = f"{plain_name(path)}: not a complete zip archive: {error}"
        raise ReplayFormatError(text) from error
    if "[Content_Types].xml" in members:
        raise ReplayFormatError(
            f"{plain_name(path)}: expected order flow, got an Excel file; save it as CSV"
        )
    if not any(name.endswith(".npy") for name in members):
        return ""
    return "mbo" if "events.npy" in members and "meta.npy" not in members else "npz"


def open_stream(path: FilePath, format: str = "auto", **options: Any) -> Stream:
    """Open a file of order flow.

    Args:
        path: the file. The book file of a LOBSTER message file is found by its name.
        format: a key of ``READERS``, or ``"auto"`` to detect it.
        options: keyword arguments of the reader.

    Returns:
        The stream.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the format is unknown, or the file does not follow its format.
        ValueError: ``format`` is unknown.
    """
    name = detect(path) if format == "auto" else format
    if name not in READERS:
        raise ValueError(f"format must be auto, {', '.join(READERS)}; got {name!r}")
    if name == "lobster" and "orderbook" not in options:
        book = Path(path).with_name(Path(path).name.replace("_message_", "_orderbook_"))
        if book != Path(path) and book.exists():
            options["orderbook"] = book
    return READERS[name](path, **options)
