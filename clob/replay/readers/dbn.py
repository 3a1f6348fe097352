"""Reads DBN files, the binary format of Databento, for their market-by-order records.

A file is the letters ``DBN``, a version, the length of its metadata, the metadata, and records that
begin with their length. Those of market by order have had the same layout in all versions, so
nothing but NumPy is needed; files that end in ``.zst`` need zstandard.
"""

import struct

import numpy as np

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, byte_blocks, plain_name
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Stream
from clob.replay.readers.mbo import stream_of

PREFIX = struct.Struct("<3sBI")
"""The letters, the version, and how many bytes of metadata follow."""

RTYPE_MBO = 0xA0
"""The type of market-by-order records."""

WORD_BYTES = 4
"""The lengths of records count in these."""

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
"""Its length, in words."""


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
        instrument_id: which instrument; None takes the only one there is.
        tick: see :func:`~clob.replay.readers.mbo.read_mbo`, as for the following.
        offset: is taken off every price, in ticks.
        grid: the lowest and the highest price to read, in ticks after that.
        on_problem: what becomes of records that cannot be.

    Returns:
        The stream. The records are held in memory, 56 bytes each.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it ends in ``.zst`` and zstandard is not installed.
        ReplayFormatError: it is no whole DBN file, it has no such record, or it has several
            instruments and none was chosen.
    """
    problems = Problems(on_problem)
    content = b"".join(byte_blocks(path, problems))
    records = _records(content, path, problems)
    found = np.unique(records["instrument_id"]).tolist()
    if instrument_id is None and len(found) == 1:
        instrument_id = found[0]
    if instrument_id not in found:
        raise ReplayFormatError(
            f"{plain_name(path)}: instrument {instrument_id} is not among "
            f"{', '.join(map(str, found)) or 'no market-by-order records'}"
        )
    records = records.take(np.flatnonzero(records["instrument_id"] == instrument_id))
    return stream_of(
        records,
        path,
        tick=tick,
        offset=offset,
        grid=grid,
        on_problem=on_problem,
        earlier=problems,
    )


def _records(content: bytes, path: FilePath, problems: Problems) -> Records:
    """Find the market-by-order records of a file."""
    if len(content) < PREFIX.size or not content.startswith(b"DBN"):
        raise ReplayFormatError(f"{plain_name(path)}: does not begin with 'DBN'")
    start = PREFIX.size + PREFIX.unpack_from(content)[2]
    count = (len(content) - start) // MBO.itemsize
    if count > 0:
        records = np.frombuffer(content, MBO, count, start)
        uniform = (records["rtype"] == RTYPE_MBO) & (records["length"] == MBO_WORDS)
        if uniform.all() and start + count * MBO.itemsize == len(content):
            return records
    return _one_by_one(content, start, path, problems)


def _one_by_one(content: bytes, start: int, path: FilePath, problems: Problems) -> Records:
    """Go from record to record, past those of other kinds."""
    found = []
    number = 0
    while start < len(content):
        number += 1
        length = content[start] * WORD_BYTES
        if length < 2 or start + length > len(content):
            left = len(content) - start
            problems.report("truncated record", f"{left} bytes instead of {length}", path, number)
            break
        if content[start + 1] == RTYPE_MBO and length == MBO.itemsize:
            found.append(content[start : start + length])
        start += length
    return np.frombuffer(b"".join(found), MBO)
