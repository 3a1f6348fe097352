"""Reads the market-by-order records of DBN files, the binary format of Databento.

A file is the letters ``DBN``, a version, the length of the metadata, the metadata, and records that
start with their length. Market-by-order records have the same layout in all versions, so NumPy is
enough to read them; files that end in ``.zst`` need zstandard.
"""

import struct

import numpy as np

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, byte_blocks, plain_name
from clob.replay.io.problems import HEADER_AGAIN, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Stream
from clob.replay.readers.mbo import stream_of

PREFIX = struct.Struct("<3sBI")
"""The letters, the version, and the size of the metadata in bytes."""

RTYPE_MBO = 0xA0
"""The type of market-by-order records."""

HEADER_BYTES = 16
"""The length of the shortest record."""

WORD_BYTES = 4
"""The unit of the length of a record."""

DATASET_BYTES = 16
"""The length of the name of the dataset, the first field of the metadata."""

SCHEMAS = (
    *("mbo", "mbp-1", "mbp-10", "tbbo", "trades", "ohlcv-1s", "ohlcv-1m", "ohlcv-1h", "ohlcv-1d"),
    *("definition", "statistics", "status", "imbalance", "ohlcv-eod", "cmbp-1", "cbbo-1s"),
    *("cbbo-1m", "tcbbo", "bbo-1s", "bbo-1m"),
)
"""The schemas by their number, the second field of the metadata."""

MBO = np.dtype(
    [
        ("length", "u1"),
        ("rtype", "u1"),
        ("publisher_id", "<u2"),
        ("instrument_id", "<u4"),
        ("ts_event", "<u8"),
        ("order_id", "<u8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("flags", "u1"),
        ("channel_id", "u1"),
        ("action", "S1"),
        ("side", "S1"),
        ("ts_recv", "<u8"),
        ("ts_in_delta", "<i4"),
        ("sequence", "<u4"),
    ]
)
"""A market-by-order record."""

MBO_WORDS = MBO.itemsize // WORD_BYTES
"""The length of a market-by-order record, in words."""


def read_dbn(
    path: FilePath,
    *,
    instrument_id: int | None = None,
    tick: int | None = None,
    offset: int = 0,
    grid: tuple[int, int] | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read the market-by-order records of one instrument.

    Args:
        path: a DBN file, plain or compressed.
        instrument_id: the instrument; None takes the only one of the file.
        tick: this and the following are as in :func:`~clob.replay.readers.mbo.read_mbo`.
        offset: subtracted from every price, in ticks.
        grid: lowest and highest price to read, in ticks after the offset.
        on_problem: the policy for inconsistent records.

    Returns:
        The stream. The records are held in memory, 56 bytes each.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: the file ends in ``.zst`` and zstandard is not installed.
        ReplayFormatError: the file is not a DBN file, it has no market-by-order records of the
            instrument, or it has several instruments and ``instrument_id`` is None.
    """
    problems = Problems(on_problem)
    content = b"".join(byte_blocks(path, problems))
    records = _records(content, path, problems)
    instruments = np.unique(records["instrument_id"]).tolist()
    if instrument_id is None and len(instruments) == 1:
        instrument_id = instruments[0]
    if not instruments:
        schema = _schema(content)
        found = f"schema {schema}; mbo is needed" if schema else "no market-by-order record"
        raise ReplayFormatError(f"{plain_name(path)}: {found}")
    if instrument_id not in instruments:
        known = ", ".join(map(str, instruments))
        raise ReplayFormatError(
            f"{plain_name(path)}: instrument_id must be one of {known}; got {instrument_id}"
        )
    records = records.take(np.flatnonzero(records["instrument_id"] == instrument_id))
    return stream_of(
        records, path, tick=tick, offset=offset, grid=grid, on_problem=on_problem, loaded=[problems]
    )


def _schema(content: bytes) -> str:
    """Return the name of the schema in the metadata; empty for mbo, mixed or unknown ones."""
    place = PREFIX.size + DATASET_BYTES
    number = int.from_bytes(content[place : place + 2], "little")
    return SCHEMAS[number] if 0 < number < len(SCHEMAS) else ""


def _records(content: bytes, path: FilePath, problems: Problems) -> Records:
    if len(content) < PREFIX.size or not content.startswith(b"DBN"):
        raise ReplayFormatError(f"{plain_name(path)}: a DBN file must start with 'DBN'")
    start = _records_start(content, 0)
    count = (len(content) - start) // MBO.itemsize
    if count > 0:
        records = np.frombuffer(content, MBO, count, start)
        uniform = (records["rtype"] == RTYPE_MBO) & (records["length"] == MBO_WORDS)
        if uniform.all() and start + count * MBO.itemsize == len(content):
            return records
    return _one_by_one(content, start, path, problems)


def _records_start(content: bytes, start: int) -> int:
    """Return where the records of the file begin that begins at ``start``."""
    if len(content) - start < PREFIX.size:
        return len(content)
    length: int = PREFIX.unpack_from(content, start)[2]
    return start + PREFIX.size + length


def _one_by_one(content: bytes, start: int, path: FilePath, problems: Problems) -> Records:
    """Collect the market-by-order records of a file that also has records of other types."""
    parts, number = [], 0
    while start < len(content):
        if content.startswith(b"DBN", start):
            # Files that were joined; the letters would be a record of 272 bytes, which no type has.
            problems.remark(HEADER_AGAIN)
            start = _records_start(content, start)
            continue
        number += 1
        length = content[start] * WORD_BYTES
        if length < HEADER_BYTES or start + length > len(content):
            text = f"expected {max(length, HEADER_BYTES)} bytes, got {len(content) - start}"
            problems.report("truncated record", text, path, number)
            break
        if content[start + 1] == RTYPE_MBO and length == MBO.itemsize:
            parts.append(content[start : start + length])
        else:
            problems.remark("record of another type")
        start += length
    return np.frombuffer(b"".join(parts), MBO)
