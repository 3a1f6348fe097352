"""LOBSTER reader: every message type, every derived order, every kind of problem."""

import gzip
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.records import Flag, Kind
from clob.replay import ReplayFormatError
from clob.replay.errors import ReplayWarning
from clob.replay.io.detect import detect
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers.lobster import INCOMING_ID, read_lobster
from clob.replay.readers.lobster import lines as lobster_lines

MESSAGES = """\
34200.1,1,100,30,5000,1
34200.1,1,101,20,5100,-1
34200.2,1,102,10,5100,-1
34200.3,4,101,20,5100,-1
34200.3,5,0,7,5150,-1
34200.3,4,102,4,5100,-1
34200.4,2,100,12,5000,1
34200.5,7,0,0,-1,-1
34200.6,4,50,9,4900,1
34200.6,6,0,3,5000,1
34200.7,3,100,18,5000,1
34200.8,3,103,5,5200,-1
34200.9,1,60,8,5100,-1
34201,2,102,6,5100,-1
"""

BOOK = """\
5200,5,5000,30,9999999999,0,4900,15
5100,20,5000,30,5200,5,4900,15
5100,30,5000,30,5200,5,4900,15
5100,10,5000,30,5200,5,4900,15
5100,10,5000,30,5200,5,4900,15
5100,6,5000,30,5200,5,4900,15
5100,6,5000,18,5200,5,4900,15
5100,6,5000,18,5200,5,4900,15
5100,6,5000,18,5200,5,4900,6
5100,6,5000,18,5200,5,4900,6
5100,6,4900,6,5200,5,-9999999999,0
5100,6,4900,6,9999999999,0,-9999999999,0
5100,14,4900,6,9999999999,0,-9999999999,0
5100,8,4900,6,9999999999,0,-9999999999,0
"""


@pytest.fixture
def write(tmp_path):
    def written(text, name="XY_2012-06-21_message_10.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return written


def events_of(stream):
    return np.concatenate([np.zeros(0, "i1"), *stream.chunks()][1:])


def rows(events):
    names = ["kind", "order_id", "side", "price", "size", "seq"]
    return [(Kind(kind), *rest) for kind, *rest in events[names].tolist()]


def test_events_of_every_message_type(write):
    stream = read_lobster(write(MESSAGES))
    assert (stream.lo, stream.hi, stream.lot_wei) == (49, 52, 10**18)
    assert stream.instruments[0].market == "XY"
    events = events_of(stream)
    assert rows(events) == [
        (Kind.SEED, 50, 0, 49, 9, 0),
        (Kind.LIMIT, 100, 0, 50, 30, 1),
        (Kind.LIMIT, 101, 1, 51, 20, 2),
        (Kind.LIMIT, 102, 1, 51, 10, 3),
        (Kind.IOC, INCOMING_ID + 4, 0, 51, 24, 4),
        (Kind.FILL, 101, 1, 51, 20, 4),
        (Kind.FILL, 102, 1, 51, 4, 4),
        (Kind.REDUCE, 100, 0, 50, 18, 7),
        (Kind.IOC, INCOMING_ID + 9, 1, 49, 9, 9),
        (Kind.FILL, 50, 0, 49, 9, 9),
        (Kind.TRADE, 0, 0, 50, 3, 10),
        (Kind.CANCEL, 100, 0, 50, 0, 11),
        (Kind.SEED, 103, 1, 52, 5, 12),
        (Kind.CANCEL, 103, 1, 52, 0, 12),
        (Kind.CANCEL, 102, 1, 51, 0, 13),
        (Kind.SEED, 60, 1, 51, 8, 13),
        (Kind.SEED, 102, 1, 51, 6, 13),
        (Kind.CANCEL, 102, 1, 51, 0, 14),
    ]
    assert events["ts_ns"][[1, 4, -1]].tolist() == [
        342_001 * 10**8,
        342_003 * 10**8,
        342_010 * 10**8,
    ]
    assert events["flags"][0] == Flag.SYNTHETIC
    assert stream.problems.remarks == {
        "order older than the file": 2,
        "order never announced": 1,
        "hidden trade between two ticks": 1,
        "trading halt or resumption": 1,
    }


def test_book_file_provides_seed_and_best_prices(write):
    stream = read_lobster(write(MESSAGES), write(BOOK, "XY_2012-06-21_orderbook_10.csv"))
    events = events_of(stream)
    seed = events[: np.argmax(events["kind"] != Kind.SEED)]
    assert rows(seed) == [
        (Kind.SEED, INVENTED_ID, 0, 49, 6, 0),
        (Kind.SEED, INVENTED_ID + 1, 1, 52, 5, 0),
        (Kind.SEED, 50, 0, 49, 9, 0),
    ]
    bests = rows(events[events["kind"] == Kind.BBO])
    assert bests == [
        (Kind.BBO, 0, 0, 50, 30, 1),
        (Kind.BBO, 0, 1, 52, 5, 1),
        (Kind.BBO, 0, 1, 51, 20, 2),
        (Kind.BBO, 0, 1, 51, 30, 3),
        (Kind.BBO, 0, 1, 51, 6, 4),
        (Kind.BBO, 0, 0, 50, 18, 7),
        (Kind.BBO, 0, 0, 49, 6, 11),
        (Kind.BBO, 0, 1, 51, 14, 13),
        (Kind.BBO, 0, 1, 51, 8, 14),
    ]


def test_book_file_with_fewer_levels(write):
    lines, book = MESSAGES.splitlines(), BOOK.splitlines()
    some = [1, 2, 3, 6, 10]
    shallow = write("\n".join(lines[n] for n in some) + "\n", "few_message.csv")
    beside = write("\n".join(book[n] for n in some) + "\n", "few_orderbook.csv")
    stream = read_lobster(write(MESSAGES), beside, orderbook_message=shallow)
    events = events_of(stream)
    bests = rows(events[events["kind"] == Kind.BBO])
    assert [best[-1] for best in bests] == [2, 2, 3, 7, 7, 11]


@pytest.mark.parametrize("size", [1, 7, 4_096])
@pytest.mark.parametrize("block", [1, 64, 1 << 20])
def test_chunk_and_block_sizes_do_not_change_events(write, monkeypatch, size, block):
    path, book = write(MESSAGES), write(BOOK, "b.csv")
    whole = events_of(read_lobster(path, book))
    monkeypatch.setattr(lobster_lines, "BLOCK_BYTES", block)
    monkeypatch.setattr("clob.replay.readers.lobster.survey.KEPT_ROWS", 0)
    stream = read_lobster(path, book)
    for _ in range(2):
        chunks = list(stream.chunks(size))
        assert [len(chunk) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
        assert np.array_equal(np.concatenate(chunks), whole)
    assert stream.progress.done_bytes == stream.progress.total_bytes == path.stat().st_size


def test_compression_and_crlf_do_not_change_events(write, tmp_path):
    whole = events_of(read_lobster(write(MESSAGES)))
    packed = tmp_path / "XY_message.csv.gz"
    packed.write_bytes(gzip.compress(MESSAGES.replace("\n", "\r\n").encode()))
    assert np.array_equal(events_of(read_lobster(packed)), whole)


def test_messages_outside_the_grid_are_skipped(write):
    stream = read_lobster(write(MESSAGES), grid=(50, 51))
    events = events_of(stream)
    assert (stream.lo, stream.hi) == (50, 51)
    assert set(events["price"].tolist()) == {50, 51}
    assert stream.problems.remarks["message outside the grid"] == 2


def test_grid_without_messages_is_an_error(write):
    path = write(MESSAGES)
    text = rf"{path.name}: all \d+ messages are outside the grid 1:9"
    with pytest.raises(ReplayFormatError, match=text):
        read_lobster(path, grid=(1, 9))


def test_times_are_relative_to_midnight_ns(write):
    events = events_of(read_lobster(write(MESSAGES), midnight_ns=10**18))
    assert events["ts_ns"][1] == 10**18 + 34_200_100_000_000


BROKEN = [
    ("34200.1,1,100", "wrong number of cells", "expected 6 cells, got 3: '34200.1,1,100'"),
    ("34200.95,1,1o4,5,5000,1", "unreadable line", "1o4"),
    ("34200.95,9,104,5,5000,1", "unreadable line", "34200.95,9"),
    ("34200.95,1,104,5,5000,2", "unreadable line", "5000,2"),
    ("34200.95,1,104,0,5000,1", "unreadable line", "104,0"),
    ("34200.95,1,104,5,5050,1", "unreadable line", "5050"),
    ("34200.95,1,104,5,214748364700,1", "unreadable line", "214748364700"),
    ("34200.95,1,104,1099511627776,5000,1", "unreadable line", "1099511627776"),
    ("34200.95,1,2305843009213693952,5,5000,1", "unreadable line", "2305843009213693952"),
    ("34200.95,1,104,5.5,5000,1", "unreadable line", "5.5"),
    ("34200.15,1,104,5,5000,1", "clock backwards", "time must not be before"),
    ("34200.95,1,102,5,5100,-1", "order twice", "order 102 is already in the book, with 6 lots"),
    ("34200.95,2,102,50,5100,-1", "too much", "order 102 has 6 lots, got a reduction by 50"),
    ("34200.95,3,102,5,5100,-1", "other size", "order 102 has 6 lots, got a deletion of 5"),
]


@pytest.mark.parametrize(("line", "kind", "text"), BROKEN)
def test_problem_names_kind_and_line(write, line, kind, text):
    lines = MESSAGES.splitlines()
    path = write("\n".join([*lines[:13], line]) + "\n")
    with pytest.raises(ReplayFormatError) as error:
        list(read_lobster(path).chunks())
    assert str(error.value).startswith(f"XY_2012-06-21_message_10.csv:14: {kind}: ")
    assert text in str(error.value)
    stream = read_lobster(path, on_problem="warn")
    for _ in range(2):
        with pytest.warns(ReplayWarning, match=kind):
            list(stream.chunks())
        assert stream.problems.counts == {kind: 1}
        assert stream.problems.kept[0].line == 14


@given(st.integers(0, len(MESSAGES) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_changed_bytes_are_rejected_reported_or_read(place, new, gone):
    """Any content leads to events or to an error of the reader, nothing else."""
    text = MESSAGES.encode()
    text = text[:place] + new + text[place + gone :]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplayWarning)
        path = Path(folder, "XY_message.csv")
        path.write_bytes(text)
        try:
            stream = read_lobster(path, on_problem="warn")
        except ReplayFormatError:
            return
        events = next(stream.chunks(10**6))
        assert (np.diff(events["ts_ns"]) >= 0).all()
        counted = events["kind"] < Kind.TRADE
        assert (events["price"][counted] >= stream.lo).all()
        assert (events["price"][counted] <= stream.hi).all()


def test_truncated_last_line_is_reported(write):
    with pytest.raises(ReplayFormatError, match=r":14: truncated line: expected 6 cells, got 4"):
        list(read_lobster(write(MESSAGES[:-9])).chunks())


def test_damaged_archive_is_reported(tmp_path):
    path = tmp_path / "XY_message.csv.gz"
    path.write_bytes(gzip.compress(MESSAGES.encode())[:-12])
    with pytest.raises(ReplayFormatError, match="damaged file: decompression failed"):
        list(read_lobster(path).chunks())
    path.write_bytes(b"\0no archive")
    with pytest.raises(ReplayFormatError, match=r"the file has no LOBSTER message; .*damaged file"):
        read_lobster(path)


@pytest.mark.parametrize("text", ["", "nothing\n", "\n\n"])
def test_file_without_messages_is_rejected(write, text):
    with pytest.raises(ReplayFormatError, match="the file has no LOBSTER message"):
        read_lobster(write(text))


def test_invalid_arguments_are_rejected(write):
    with pytest.raises(ValueError, match="tick must be 1 or more"):
        read_lobster(write(MESSAGES), tick=0)
    with pytest.raises(ValueError, match="policy must be"):
        read_lobster(write(MESSAGES), on_problem="ignore")
    with pytest.raises(FileNotFoundError):
        read_lobster("absent.csv")


def test_times_of_more_than_nine_decimals_are_rounded_and_counted(write):
    lines = MESSAGES.splitlines()
    late = ["34200.95000000049999,1,104,5,5000,1", "34200.9500000005,1,105,5,5000,1"]
    stream = read_lobster(write("\n".join([*lines[:13], *late]) + "\n"))
    times = next(stream.chunks())["ts_ns"][-2:] - 34_200 * 10**9
    assert times.tolist() == [950_000_000, 950_000_001]
    assert stream.problems.remarks["time rounded to a nanosecond"] == 2
    assert len(stream.problems) == 0


@pytest.mark.parametrize("head", ["Time,Type,ID,Size,Price,Direction", '"t","k","o","s","p","d"'])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_column_names_marks_and_separators_are_recognised(write, head, mark, end, separator):
    expected = next(read_lobster(write(MESSAGES)).chunks())
    text = f"{mark}{head}\n{MESSAGES}".replace("\n", end).replace(",", separator)
    path = write(text)
    assert detect(path) == "lobster"
    stream = read_lobster(path)
    found = next(stream.chunks())
    expected["seq"] += 1
    for field in ("ts_ns", "kind", "side", "price", "size"):
        assert found[field].tolist() == expected[field].tolist()
    assert stream.problems.remarks["header line skipped"]
    with path.open("a") as file:
        file.write(f"oops{end}")
    with pytest.raises(ReplayFormatError, match="expected 6 cells, got 1: 'oops'"):
        list(read_lobster(path).chunks())


def test_book_file_alone_is_named(write):
    path = write(MESSAGES).with_name("XY_orderbook_2.csv")
    path.write_text(BOOK)
    with pytest.raises(ReplayFormatError, match="got a LOBSTER book file; expected its message"):
        detect(path)


def test_book_of_another_file_is_noticed(write):
    path = write(MESSAGES)
    book = path.with_name("other_book.csv")
    book.write_text("900000,5,100,5\n" * len(MESSAGES.splitlines()))
    with pytest.raises(ReplayFormatError, match="the book belongs to another file than XY_"):
        read_lobster(path, book)
