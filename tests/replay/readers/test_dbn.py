"""Reading of DBN files built byte by byte."""

import gzip
import struct

import numpy as np
import pytest

from clob.records import Kind
from clob.replay import ReplayFormatError
from clob.replay.errors import ReplayWarning
from clob.replay.io.detect import detect, open_stream
from clob.replay.readers.dbn import MBO, read_dbn
from clob.replay.readers.mbo_book import LAST, SNAPSHOT

METADATA = b"metadata of any length"


def record(ts, action, side, price, size, order_id, flags, instrument=7):
    money = price * 250_000_000
    head = struct.pack("<BBHIQ", 14, 0xA0, 1, instrument, ts)
    body = struct.pack("<QqIBBccQiI", order_id, money, size, flags, 0, action, side, ts + 1, 0, 0)
    return head + body


ROWS = [
    record(1, b"R", b"N", 0, 0, 0, SNAPSHOT),
    record(1, b"A", b"B", 40, 5, 1, SNAPSHOT),
    record(1, b"A", b"A", 42, 5, 2, SNAPSHOT | LAST),
    record(2, b"T", b"B", 42, 3, 9, 0),
    record(2, b"F", b"A", 42, 3, 2, 0),
    record(2, b"M", b"A", 42, 2, 2, LAST),
    record(3, b"C", b"B", 40, 5, 1, LAST),
]
OTHER = struct.pack("<BBHIQ", 4, 0x17, 1, 7, 1)
"""A record of another type."""


def write(tmp_path, rows, name="es.dbn", pack=bytes):
    path = tmp_path / name
    head = b"DBN" + struct.pack("<BI", 3, len(METADATA)) + METADATA
    path.write_bytes(pack(head + b"".join(rows)))
    return path


def kinds_of(stream):
    return [Kind(kind) for kind in next(stream.chunks())["kind"].tolist()]


EXPECTED = [Kind.SEED, Kind.SEED, Kind.IOC, Kind.FILL, Kind.CANCEL]


def test_records_are_read(tmp_path):
    assert MBO.itemsize == 56
    stream = read_dbn(write(tmp_path, ROWS))
    events = next(stream.chunks())
    assert [Kind(kind) for kind in events["kind"].tolist()] == EXPECTED
    assert events["ts_ns"].tolist()[2:] == [2, 2, 3]
    assert events["recv_ns"].tolist()[2:] == [3, 3, 4]
    assert (stream.lo, stream.hi) == (20, 21)


def test_other_record_types_are_skipped(tmp_path):
    path = write(tmp_path, [OTHER, *ROWS[:3], OTHER, *ROWS[3:]], "es.dbn.gz", gzip.compress)
    assert kinds_of(read_dbn(path)) == EXPECTED
    assert detect(path) == "dbn"
    assert kinds_of(open_stream(path)) == EXPECTED


def test_instrument_must_be_chosen_if_there_are_several(tmp_path):
    path = write(tmp_path, [*ROWS, record(9, b"A", b"B", 1, 1, 1, LAST, instrument=8)])
    assert kinds_of(read_dbn(path, instrument_id=7)) == EXPECTED
    with pytest.raises(ReplayFormatError, match="instrument_id must be one of 7, 8; got None"):
        read_dbn(path)
    with pytest.raises(ReplayFormatError, match="instrument_id must be one of 7, 8; got 5"):
        read_dbn(path, instrument_id=5)


def test_truncated_record_is_reported(tmp_path):
    path = write(tmp_path, ROWS, pack=lambda whole: whole[:-10])
    with pytest.raises(ReplayFormatError, match="7: truncated record: expected 56 bytes, got 46"):
        read_dbn(path)
    with pytest.warns(ReplayWarning, match="truncated record"):
        stream = read_dbn(path, on_problem="warn")
    for _ in range(2):
        assert kinds_of(stream) == EXPECTED[:-1]
        assert stream.problems.counts == {"truncated record": 1}


@pytest.mark.parametrize("content", [b"", b"DBN", b"no such thing at all"])
def test_other_files_are_rejected(tmp_path, content):
    path = tmp_path / "x.dbn"
    path.write_bytes(content)
    with pytest.raises(ReplayFormatError, match="must start with 'DBN'"):
        read_dbn(path)


def test_file_without_market_by_order_records_is_rejected(tmp_path):
    with pytest.raises(ReplayFormatError, match="no market-by-order record"):
        read_dbn(write(tmp_path, [OTHER]))


def test_file_without_orders_is_rejected(tmp_path):
    with pytest.raises(ReplayFormatError, match="the file has no records of orders"):
        read_dbn(write(tmp_path, ROWS[:1]))


def test_undefined_receive_time_falls_back_to_event_time(tmp_path):
    """All bits set mark an undefined time in this format."""
    nobody = b"\xff" * 8
    rows = [*ROWS[:6], ROWS[6][:40] + nobody + ROWS[6][48:]]
    events = next(read_dbn(write(tmp_path, rows)).chunks())
    assert events["recv_ns"].tolist()[2:] == [3, 3, 3]
    rows = [*ROWS[:6], ROWS[6][:8] + nobody + ROWS[6][16:]]
    with pytest.raises(
        ReplayFormatError, match=r"7: time out of range: .* got 1844674407370955161"
    ):
        list(read_dbn(write(tmp_path, rows)).chunks())


def test_layout_matches_the_databento_package(tmp_path):
    """The vendor's own package must decode a record to the same values."""
    dbn = pytest.importorskip("databento_dbn", reason="databento-dbn is not installed")
    found = dbn.MBOMsg(1, 7, 2, 9, 42 * 250_000_000, 3, dbn.Action.TRADE, dbn.Side.BID, 3)
    ours = np.frombuffer(bytes(found), MBO)[0]
    for field in ("instrument_id", "ts_event", "order_id", "price", "size", "ts_recv"):
        assert ours[field] == getattr(found, field)
    assert (ours["action"], ours["side"]) == (b"T", b"B")


def test_other_schema_is_named(tmp_path):
    path = tmp_path / "es.dbn"
    metadata = b"GLBX.MDP3".ljust(16, b"\0") + (2).to_bytes(2, "little") + bytes(40)
    path.write_bytes(b"DBN\x03" + len(metadata).to_bytes(4, "little") + metadata + OTHER)
    with pytest.raises(ReplayFormatError, match=r"es\.dbn: schema mbp-10; mbo is needed"):
        read_dbn(path)
