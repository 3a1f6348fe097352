"""Tells what a file of order flow is by its first bytes, and opens it with the right reader."""

import importlib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clob.replay.errors import PackageMissingError, ReplayFormatError, need
from clob.replay.io.files import FilePath, byte_blocks, plain_name
from clob.replay.io.npz import read_npz
from clob.replay.io.problems import Problems
from clob.replay.io.streams import Stream

HEAD_BYTES = 4_096
"""How much of a file is looked at."""

LOBSTER_LINE = re.compile(rb"\d+(\.\d+)?,[1-7],\d+,\d+,-?\d+,-?1\r?\n")
"""What the lines of a LOBSTER message file look like."""


HEADERS = {
    "kalshi": {"timestamp", "market_ticker", "best_yes_bid", "best_no_bid"},
    "table": {"price", "size", "side"},
}
"""The columns by which text with a line of names is known."""

JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|PING|PONG)*[\[{]")
"""What JSON lines begin with, perhaps behind what kept a connection open."""

JSON_SIGNS = {
    "betfair": re.compile(rb'"op"\s*:\s*"(mcm|connection|status)"'),
    "kalshi-ws": re.compile(
        rb'"type"\s*:\s*"(orderbook_snapshot|orderbook_delta|subscribed|ok|trade)"'
    ),
    "polymarket": re.compile(rb'"(asset_id|assets_ids|price_changes|clob_token_ids)"\s*:'),
}
"""What is in the first lines of JSON of each venue."""


def _read_recording(path: FilePath, **options: Any) -> Stream:
    """Read a recording as a stream; it has no options."""
    if options:
        raise TypeError(f"a recording has no option {min(options)!r}")
    return Stream.of(read_npz(path))


def _later(name: str, function: str) -> Callable[..., Stream]:
    """Give a reader that is imported when it is first used: most are not, and a start is short."""

    def read(path: FilePath, **options: Any) -> Stream:
        """Import the reader and let it read."""
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
    "export": _later("exports", "read_export"),
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
        return _of_parquet(path)
    if head.startswith(b"CLOBFRM"):
        return "journal"
    if LOBSTER_LINE.match(head):
        return "lobster"
    if JSON_START.match(head):
        name = _of_json(head)
        if name is not None:
            return name
    first = head.partition(b"\n")[0].decode("utf-8", "replace").lower()
    names = {cell.strip().strip("\ufeff") for cell in first.split(",")}
    for format, needed in HEADERS.items():
        if needed <= names:
            return format
    raise ReplayFormatError(
        f"{plain_name(path)}: none of the formats {', '.join(READERS)}; "
        f"it begins with {head[:40]!r}"
    )


def _of_json(head: bytes) -> str | None:
    """Tell whose JSON lines these are; None if nobody knows."""
    exports = importlib.import_module("clob.replay.readers.exports")
    if exports.is_export(head):
        return "export"
    return next((name for name, sign in JSON_SIGNS.items() if sign.search(head)), None)


def _of_parquet(path: FilePath) -> str:
    """Tell an export from any other table, by its columns."""
    exports = importlib.import_module("clob.replay.readers.exports")
    try:
        parquet = need("pyarrow.parquet", "Reading Parquet files", "clob[export]")
        names = parquet.read_schema(path).names
    except (PackageMissingError, ValueError):
        # Whoever reads it says so.
        return "table"
    return "export" if exports.table_of(names) else "table"


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
