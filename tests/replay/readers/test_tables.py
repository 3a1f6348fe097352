"""Tables: round trips, mapping of columns, exact numbers and detection of formats."""

import gzip

import numpy as np
import pytest

from clob.records import Kind
from clob.replay import ReplayFormatError, backtest, read_npz, write_npz
from clob.replay.errors import ReplayWarning
from clob.replay.io.detect import detect, open_stream
from clob.replay.io.recording import join
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.write import write_stream
from clob.replay.readers import tables
from clob.replay.readers.tables import read_table

TABLE = """\
when,what,who,way,at,amount,note
1.5,Add,7,BID,0.42,1.25,x
1.5,add,8,ask,0.45,3,y
2.000000001,market,9,B,0.45,0.50,z
2.25,delete,7,bid,0.42,0,
"""
MAPPED = {
    "columns": {
        "ts_ns": "when",
        "kind": "what",
        "order_id": 2,
        "side": "way",
        "price": "at",
        "size": "amount",
    },
    "time_unit": "s",
    "tick": "0.01",
    "lot": "0.25",
}


def written(tmp_path, text, name="flow.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_columns_are_mapped(tmp_path):
    stream = read_table(written(tmp_path, TABLE), **MAPPED, lot_wei=25 * 10**16)
    events = next(stream.chunks())
    assert (stream.lo, stream.hi, stream.lot_wei) == (42, 45, 25 * 10**16)
    assert stream.instruments == (Instrument(0, "flow"),)
    assert not stream.has_fills
    names = ["ts_ns", "kind", "order_id", "side", "price", "size", "seq"]
    assert events[names].tolist() == [
        (1_500_000_000, Kind.LIMIT, 7, 0, 42, 5, 2),
        (1_500_000_000, Kind.LIMIT, 8, 1, 45, 12, 3),
        (2_000_000_001, Kind.IOC, 9, 0, 45, 2, 4),
        (2_250_000_000, Kind.CANCEL, 7, 0, 42, 0, 5),
    ]


@pytest.mark.parametrize("start", ["# day 1\n", "\n\r\n", "# a, b; c\n\n# 2\n"])
def test_comments_and_blank_lines_before_the_header_are_skipped(tmp_path, start):
    path = written(tmp_path, start + TABLE, "later.csv")
    plain = read_table(written(tmp_path, TABLE), **MAPPED)
    stream = read_table(path, **MAPPED)
    events, expected = next(stream.chunks()), next(plain.chunks())
    events["seq"] -= start.count("\n")
    assert events.tolist() == expected.tolist()
    assert not stream.problems.counts
    text = start + "ts_ns,kind,order_id,side,price,size\n1,limit,1,buy,50,x\n"
    with pytest.raises(ReplayFormatError, match=f":{start.count(chr(10)) + 2}: "):
        next(open_stream(written(tmp_path, text)).chunks())


def test_text_without_header_and_with_custom_words(tmp_path):
    path = written(tmp_path, "5;open;1;long;3;4\n")
    places = ["ts_ns", "kind", "order_id", "side", "price", "size"]
    stream = read_table(
        path,
        {field: place for place, field in enumerate(places)},
        header=False,
        separator=";",
        time_unit="ms",
        kinds={"open": Kind.LIMIT},
        sides={"long": 0},
    )
    assert next(stream.chunks())[["ts_ns", "price"]].tolist() == [(5_000_000, 3)]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_written_stream_is_read_back(tmp_path, day, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"day{suffix}"
    stream = Stream.of(day)
    whole = join(list(stream.chunks()))
    assert write_stream(path, stream) == len(whole)
    assert detect(path) == "table"
    back = open_stream(path, lot_wei=day.lot_wei)
    assert np.array_equal(join(list(back.chunks())), whole)
    assert back.has_fills
    recording = back.collect()
    for field in ("events", "seed", "fills"):
        assert np.array_equal(getattr(recording, field), getattr(day, field))
    if suffix == ".parquet":
        assert (back.lo, back.hi) == (day.lo, day.hi)
        assert open_stream(path).lot_wei == day.lot_wei


def test_written_recording_is_opened(tmp_path, day):
    path = tmp_path / "day.npz"
    count = write_stream(path, Stream.of(day))
    assert count == len(day.seed) + len(day.events) + len(day.fills)
    assert np.array_equal(read_npz(path).events, day.events)
    assert detect(path) == "npz"
    assert np.array_equal(open_stream(path).collect().fills, day.fills)
    with pytest.raises(TypeError, match="a recording takes no options; got 'grid'"):
        open_stream(path, grid=(1, 2))


def test_parquet_metadata_keeps_the_scale(tmp_path, day):
    path = tmp_path / "fine.parquet"
    part = Stream.of(day).collect().events[:200]
    write_stream(path, Stream(lambda: [part.copy()], lo=1, hi=999, lot_wei=1, scale=1_000))
    assert read_table(path).scale == 1_000


def test_parquet_of_another_program(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = arrow.array([1_500_000, 1_500_001], arrow.timestamp("us", "UTC"))
    columns = {
        "ts_ns": times,
        "kind": ["limit", "limit"],
        "order_id": [1, 2],
        "side": ["buy", "sell"],
        "price": [0.42, 0.57],
        "size": ["1.5", "2"],
    }
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table(columns), path)
    for tick, scale in (("0.01", 100), ("0.0025", 400), ("0.03", 100), ("1", 100), ("1.0", 100)):
        assert read_table(path, tick=tick, lot="0.5", on_problem="warn").scale == scale
    events = next(read_table(path, tick="0.01", lot="0.5", time_unit="s").chunks())
    assert events[["ts_ns", "price", "size"]].tolist() == [
        (1_500_000_000, 42, 3),
        (1_500_001_000, 57, 4),
    ]


@pytest.mark.parametrize("size", [1, 7, 4_096])
@pytest.mark.parametrize("block", [1, 100])
def test_chunk_and_block_sizes_do_not_change_events(tmp_path, day, monkeypatch, size, block):
    path = tmp_path / "day.csv"
    part = Stream.of(day).collect()
    write_stream(path, Stream(lambda: [part.events[:200].copy()], lo=1, hi=99, lot_wei=1))
    whole = join(list(read_table(path).chunks()))
    monkeypatch.setattr(tables, "BLOCK_BYTES", block)
    assert np.array_equal(join(list(read_table(path).chunks(size))), whole)


BROKEN = [
    ("3,add,1,bid,0.425,1,", "unreadable line"),
    ("3,add,1,bid,0.42,1.1,", "unreadable line"),
    ("3,add,1,bid,-0.42,1,", "unreadable line"),
    ("3,add,1,over,0.42,1,", "unreadable line"),
    ("3,walk,1,bid,0.42,1,", "unreadable line"),
    ("3,add,,bid,0.42,1,", "unreadable line"),
    ("3.0000000001,add,1,bid,0.42,1,", "unreadable line"),
    ("2,add,1,bid,0.42,1,", "clock backwards"),
    ("3,add,1", "wrong number of cells"),
]


@pytest.mark.parametrize(("line", "kind"), BROKEN)
def test_problem_names_kind_and_line(tmp_path, line, kind):
    path = written(tmp_path, f"{TABLE}{line}\n")
    with pytest.raises(ReplayFormatError, match=f"^flow.csv:6: {kind}: "):
        list(read_table(path, **MAPPED).chunks())
    stream = read_table(path, **MAPPED, on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        assert sum(map(len, stream.chunks())) == 4


PLAIN = "ts,kind,order_id,side,price,size\n"
CELLS = {
    "ts": ("noon", "ts must be a number of ns from 1970 to 2262, or a date"),
    "kind": ("walk", "kind must be one of limit, cancel, "),
    "order_id": ("", "order_id must not be empty, except for clear"),
    "side": ("yes", "side must be one of 0, 1, buy, sell, b, s, bid, ask"),
    "price": ("0.42", "price must be a multiple of tick 1, and not negative"),
    "size": ("-3", "size must be a multiple of lot 1, and not negative"),
}
"""An unreadable cell of each column, and the start of its error."""


@pytest.mark.parametrize("column", CELLS)
def test_unreadable_cell_is_named_with_what_is_expected(tmp_path, column):
    cell, expected = CELLS[column]
    fine = dict(zip(PLAIN.strip().split(","), ["5", "limit", "1", "buy", "42", "3"], strict=True))
    line = ",".join((fine | {column: cell}).values())
    with pytest.raises(ReplayFormatError, match=f"flow.csv:2: .*{expected}.*; got '{cell}'"):
        list(read_table(written(tmp_path, f"{PLAIN}{line}\n")).chunks())


def test_columns_are_found_in_any_case_and_with_spaces_around_cells(tmp_path):
    text = (
        'TS ,"Kind", order_ID,Side,PRICE,Size\n 5, limit ,1,  buy,42 , 3\r\n 6,limit,2,sell,43,1\n'
    )
    events = next(read_table(written(tmp_path, text)).chunks())
    assert events[["ts_ns", "order_id", "side", "price", "size"]].tolist() == [
        (5, 1, 0, 42, 3),
        (6, 2, 1, 43, 1),
    ]


def test_exact_name_of_a_column_comes_before_another_case(tmp_path):
    text = "ts,Price,kind,order_id,side,price,size\n5,1,limit,1,buy,42,3\n"
    assert next(read_table(written(tmp_path, text)).chunks())["price"].tolist() == [42]
    text = "ts,Price,kind,order_id,side,PRICE,size\n5,1,limit,1,buy,42,3\n"
    with pytest.raises(ReplayFormatError, match="column 'price' for price must occur once"):
        read_table(written(tmp_path, text))


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_dates_are_read_as_times_in_any_unit(tmp_path, unit):
    dates = ("2026-01-31T09:30:00Z", "2026-01-31 11:30:00.25+02:00", "2026-01-31 09:30:01")
    lines = [f"{date},limit,{number},buy,4,1\n" for number, date in enumerate(dates, 1)]
    stream = read_table(written(tmp_path, PLAIN + "".join(lines)), time_unit=unit)
    start = 1_769_851_800 * 10**9
    times = next(stream.chunks())["ts_ns"].tolist()
    assert times == [start, start + 250_000_000, start + 10**9]
    assert not stream.problems.remarks


def test_unit_that_the_times_are_not_in_is_remarked(tmp_path):
    stream = read_table(written(tmp_path, f"{PLAIN}1700000000000,limit,1,buy,4,1\n"))
    list(stream.chunks())
    assert dict(stream.problems.remarks) == {"time unit is ns, but times look like ms": 1}


def test_time_that_is_too_late_in_its_unit_is_rejected(tmp_path):
    path = written(tmp_path, f"{PLAIN}1700000000000,limit,1,buy,4,1\n")
    with pytest.raises(ReplayFormatError, match="ts must be a number of s from 1970 to 2262"):
        list(read_table(path, time_unit="s").chunks())


def test_short_names_of_fields_name_their_columns(tmp_path):
    path = written(tmp_path, PLAIN.replace("ts,", "clock,") + "5,limit,1,buy,4,1\n")
    assert next(read_table(path, {"ts": "clock"}).chunks())["ts_ns"].tolist() == [5]


def test_orders_and_owners_with_names_trade_like_numbered_ones(tmp_path):
    flow = [
        ("limit", "8d1f-a", "buy", "42", "3", "0xA1"),
        ("limit", "8d1f-b", "buy", "42", "2", "0xb2"),
        ("cancel", "8d1f-a", "", "", "", ""),
        ("ioc", "8d1f-c", "sell", "42", "1", "0xA1"),
        ("reduce", "8d1f-b", "", "", "1", ""),
    ]
    numbers = {"8d1f-a": "1", "8d1f-b": "2", "8d1f-c": "3", "0xA1": "1", "0xb2": "2"}

    def lines(name):
        head = PLAIN.strip() + ",owner\n"
        rows = [",".join((str(at), *map(name, row))) for at, row in enumerate(flow, 1)]
        return head + "".join(f"{row}\n" for row in rows)

    named = read_table(written(tmp_path, lines(str)))
    numbered = read_table(
        written(tmp_path, lines(lambda cell: numbers.get(cell, cell)), "numbers.csv")
    )
    assert [len(set(stream.collect().events["order_id"])) for stream in (named, numbered)] == [3, 3]
    fills = [
        backtest(stream).fills[["price", "size", "ts_ns"]].tolist() for stream in (named, numbered)
    ]
    assert fills[0] == fills[1] == [(42, 1, 4)]
    again = join(list(named.chunks(2)))
    assert again["order_id"].tolist() == join(list(named.chunks()))["order_id"].tolist()


def test_immediate_order_without_a_price_trades_at_any(tmp_path):
    rows = ("1,limit,1,sell,42,3", "2,limit,2,sell,60,3", "3,limit,3,buy,40,1")
    text = PLAIN + "".join(f"{row}\n" for row in (*rows, "4,market,4,buy,,5", "5,ioc,5,sell,,2"))
    stream = read_table(written(tmp_path, text))
    assert (stream.lo, stream.hi) == (40, 60)
    fills = backtest(stream).fills
    assert fills[["price", "size"]].tolist() == [(42, 3), (60, 2), (40, 1)]


@pytest.mark.parametrize("field", ["side", "price", "size"])
def test_cell_that_a_kind_needs_must_not_be_empty(tmp_path, field):
    cells = {"side": "buy", "price": "42", "size": "3"} | {field: ""}
    path = written(tmp_path, f"{PLAIN}5,limit,1,{','.join(cells.values())}\n")
    with pytest.raises(
        ReplayFormatError, match=f"{field} must not be empty, except for cancel, .*; got ''"
    ):
        list(read_table(path).chunks())


def test_header_with_other_names_is_that_of_a_table(tmp_path):
    path = written(tmp_path, "timestamp,type,id,side,px,contracts\n5,limit,1,buy,42,3\n")
    assert detect(path) == "table"
    with pytest.raises(ReplayFormatError, match="needs a column for ts, order_id, size, price, k"):
        open_stream(path)


def test_invalid_arguments_are_rejected(tmp_path):
    path = written(tmp_path, TABLE)
    with pytest.raises(
        ReplayFormatError,
        match=r"a table needs a column for ts, order_id, size, price, kind, side; got when.*: "
        r"--columns ts=\.\.\.,order_id=\.\.\.,size=",
    ):
        read_table(path)
    with pytest.raises(ReplayFormatError, match="column 'hour' for ts_ns is missing; got when"):
        read_table(path, {"ts_ns": "hour"})
    with pytest.raises(ValueError, match=r"fields must be among .*; got 'colour'"):
        read_table(path, {"colour": 1})
    with pytest.raises(ValueError, match="time unit must be one of s, ms, us, ns; got 'h'"):
        read_table(path, time_unit="h")
    for tick in ("0", "-1", "x", "1e-2"):
        with pytest.raises(ValueError, match="a unit must be a positive decimal number"):
            read_table(path, **MAPPED | {"tick": tick})
    with pytest.raises(ValueError, match=r"output file must end in .*; got 'x\.txt'"):
        write_stream(tmp_path / "x.txt", Stream(list, lo=1, hi=2, lot_wei=1))


def test_formats_are_detected(tmp_path, day):
    line = "34200.004241176,1,16113575,18,5853300,1\n"
    assert detect(written(tmp_path, line)) == "lobster"
    packed = tmp_path / "AB_message_5.csv.gz"
    packed.write_bytes(gzip.compress(line.encode()))
    assert detect(packed) == "lobster"
    np.savez(tmp_path / "r.npz", events=np.zeros(1))
    assert detect(tmp_path / "r.npz") == "mbo"
    write_npz(tmp_path / "d.npz", day)
    assert detect(tmp_path / "d.npz") == "npz"
    for content in (b"", b"PK", b"hello\n"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ReplayFormatError):
            detect(tmp_path / "x")
    (tmp_path / "x.csv.gz").write_bytes(b"\0no archive")
    with pytest.raises(ReplayFormatError, match="damaged file"):
        detect(tmp_path / "x.csv.gz")
    with pytest.raises(ValueError, match=r"format must be auto, .*; got 'pdf'"):
        open_stream(packed, "pdf")


def test_book_file_of_a_message_file_is_found_by_name(tmp_path):
    line = "34200.004241176,1,16113575,18,5853300,1\n"
    path = written(tmp_path, line, "AB_message_1.csv")
    assert len(next(open_stream(path).chunks())) == 1
    written(tmp_path, "5859400,200,5853300,18\n", "AB_orderbook_1.csv")
    kinds = next(open_stream(path).chunks())["kind"].tolist()
    assert kinds == [Kind.SEED, Kind.LIMIT, Kind.BBO, Kind.BBO]
