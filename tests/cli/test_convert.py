"""``clob convert``: whatever goes round through all formats comes back, in bounded memory."""

import dataclasses
import gzip
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clob.cli import main
from clob.records import EVENT, Kind
from clob.replay import (
    Instrument,
    ReplayFormatError,
    Stream,
    backtest,
    open_stream,
    read_npz,
    write_npz,
    write_stream,
)
from tests.matcher_model.worlds import SMALL
from tests.replay.readers.journals import record_flow

KINDS = [Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE, Kind.CLEAR]


CHUNK_EVENTS = 16_384

SIZE_MAX = 922 * 10**16 - 1
"""The largest number that a reader of tables takes."""


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return path


def same(one, other):
    """Whether two recordings say the same, the unused bytes of their records apart."""
    for name in ("events", "seed", "fills"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if (mine is None) != (theirs is None) or (mine is not None and (mine != theirs).any()):
            return False
    return True


@pytest.mark.parametrize("name", ["flow.csv", "flow.csv.gz", "flow.parquet", "again.npz"])
def test_every_format_leads_back_to_the_recording(file, day, tmp_path, name, capsys):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    other, back = tmp_path / name, tmp_path / "back.npz"
    assert main(["convert", str(file), str(other)]) == 0
    count = len(day.seed) + len(day.events) + len(day.fills)
    assert capsys.readouterr().out == f"{other}: {count:,} events, lots of {day.lot_wei} wei\n"
    assert main(["convert", str(other), str(back)]) == 0
    found = read_npz(back)
    assert same(found, day)
    if not name.startswith("flow.csv"):
        assert (found.lo, found.hi, found.lot_wei) == (day.lo, day.hi, day.lot_wei)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({file.name, name, "back.npz"})
    assert backtest(open_stream(other)).check.ok


def rows(draw, count, kinds):
    """Draw events that any recording may hold, in the sequence of their times."""
    whole = st.integers(0, 2**62 - 1)
    events = np.zeros(count, EVENT)
    events["ts_ns"] = np.cumsum(
        draw(st.lists(st.integers(0, 10**15), min_size=count, max_size=count)), dtype=np.int64
    )
    events["recv_ns"] = events["ts_ns"]
    for field, values in {
        "seq": whole,
        "order_id": whole,
        "size": st.integers(0, SIZE_MAX),
        "owner": st.integers(0, 2**31 - 2),
        "price": st.integers(0, 2**31 - 2),
        "kind": st.sampled_from([int(kind) for kind in kinds]),
        "side": st.integers(0, 1),
        "flags": st.integers(0, 2**10 - 1),
    }.items():
        events[field] = draw(st.lists(values, min_size=count, max_size=count))
    return events


@st.composite
def recordings(draw):
    """Draw a recording; nothing in it need make sense to a book."""
    num_seeds, num_events = draw(st.integers(0, 3)), draw(st.integers(0, 8))
    both = rows(draw, num_seeds + num_events, KINDS)
    seed, events = both[:num_seeds], both[num_seeds:]
    seed["kind"] = Kind.SEED
    stream = [seed]
    for place in range(num_events):
        stream.append(events[place : place + 1])
        fills = rows(draw, draw(st.integers(0, 2)), [Kind.FILL])
        for field in ("ts_ns", "recv_ns", "seq", "owner", "flags"):
            fills[field] = events[field][place] if field in ("ts_ns", "recv_ns", "seq") else 0
        fills["side"] = 1 - events["side"][place]
        stream.append(fills)
    parts = [part.copy() for part in stream]
    return Stream(lambda: [part.copy() for part in parts], lo=1, hi=99, lot_wei=10**18)


@settings(max_examples=25)
@given(recordings(), st.sampled_from([".csv", ".csv.gz", ".parquet"]))
def test_events_of_any_kind_go_round(tmp_path_factory, stream, ending):
    folder = tmp_path_factory.mktemp("round")
    wanted = stream.collect()
    write_stream(folder / "a.npz", stream)
    assert same(read_npz(folder / "a.npz"), wanted)
    write_stream(folder / f"b{ending}", open_stream(folder / "a.npz"))
    if not len(wanted.events) and not len(wanted.seed):
        return
    found = open_stream(folder / f"b{ending}", grid=(1, 99)).collect()
    wanted = wanted if len(wanted.fills) else dataclasses.replace(wanted, fills=None)
    assert same(found, wanted)


def test_a_recording_is_written_as_write_npz_writes_it(day, file, tmp_path):
    write_stream(tmp_path / "again.npz", Stream.of(day))
    with zipfile.ZipFile(file) as one, zipfile.ZipFile(tmp_path / "again.npz") as other:
        assert one.namelist() == other.namelist()
        for name in one.namelist():
            assert one.read(name) == other.read(name)


def test_several_files_become_one_by_time(file, day, tmp_path):
    other = tmp_path / "other.npz"
    write_npz(other, dataclasses.replace(day, name="another"))
    out = tmp_path / "both.csv"
    assert main(["convert", str(file), str(other), str(out)]) == 0
    lines = out.read_text().splitlines()
    assert len(lines) == 1 + 2 * (len(day.seed) + len(day.events) + len(day.fills))


def test_a_journal_of_many_books_replays_the_same_as_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    journal, table = tmp_path / "day.frames", tmp_path / "day.parquet"
    journal.write_bytes(record_flow(SMALL, 1, 400)[1])
    assert main(["convert", str(journal), str(table)]) == 0
    found = backtest(open_stream(table))
    assert found.digest == backtest(open_stream(journal)).digest
    assert (len(found.fills) > 10, found.check.ok) == (True, True)


def test_a_recording_is_of_one_book(tmp_path, capsys):
    events = np.zeros(2, EVENT)
    events["order_id"], events["size"], events["price"], events["instrument"] = [1, 2], 1, 5, [0, 1]
    books = [Instrument(0, "m"), Instrument(1, "m", "NO")]
    stream = Stream(lambda: [events.copy()], lo=1, hi=99, lot_wei=1, instruments=books)
    with pytest.raises(ReplayFormatError, match=r"out\.npz: a recording holds one book"):
        write_stream(tmp_path / "out.npz", stream)
    table = tmp_path / "two.csv"
    assert write_stream(table, stream) == 2
    assert main(["convert", str(table), str(tmp_path / "x.npz")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"clob: REPLAY_FORMAT: {tmp_path / 'x.npz'}: a recording holds one")
    assert [path.name for path in tmp_path.glob("*x.npz")] == []


def test_what_is_broken_is_told_or_ends_it_and_leaves_nothing_behind(file, tmp_path, capsys):
    table, out = tmp_path / "flow.csv", tmp_path / "out.npz"
    assert main(["convert", str(file), str(table)]) == 0
    text = table.read_text().splitlines()
    text[-1] = "broken"
    packed = tmp_path / "flow.csv.gz"
    packed.write_bytes(gzip.compress("\n".join(text).encode()))
    before = {path.name for path in tmp_path.iterdir()}
    assert main(["convert", str(packed), str(out)]) == 2
    assert {path.name for path in tmp_path.iterdir()} == before
    assert f"clob: REPLAY_FORMAT: {packed}:{len(text)}: " in capsys.readouterr().err
    assert main(["convert", "--policy", "warn", str(packed), str(out)]) == 0
    captured = capsys.readouterr()
    assert f"clob: flow.csv.gz:{len(text)}: " in captured.err
    assert captured.out.startswith(f"{out}: {len(text) - 2:,} events, ")


def test_a_place_that_cannot_be_written_is_told(file, tmp_path, capsys):
    assert main(["convert", str(file), str(tmp_path / "no" / "out.csv")]) == 2
    nowhere = tmp_path / "no" / "out.csv"
    assert f"clob: FILE_UNWRITABLE: {nowhere}: No such" in capsys.readouterr().err
    assert main(["convert", str(file), str(tmp_path / "out.txt")]) == 2
    text = "output file must end in .npz, .csv, .csv.gz, .parquet; got 'out.txt'"
    assert text in capsys.readouterr().err
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert main(["convert", str(file), str(folder)]) == 2
    assert f"clob: FILE_UNWRITABLE: {folder}: Is a directory" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "none"), str(tmp_path / "out.csv")]) == 2
    assert f"clob: FILE_UNREADABLE: {tmp_path / 'none'}: No such" in capsys.readouterr().err


def test_memory_does_not_grow_with_the_stream(tmp_path):
    few, many = (peak_of(tmp_path / "out.npz", chunks) for chunks in (32, 64))
    assert many < few + 4_000_000
    assert 32 * CHUNK_EVENTS * EVENT.itemsize > 28_000_000


def peak_of(path, chunks):
    """Write so many chunks, and give the most memory that was in use."""
    events = np.zeros(CHUNK_EVENTS, EVENT)
    events["kind"][1::2] = Kind.FILL
    stream = Stream(lambda: (events.copy() for _ in range(chunks)), lo=1, hi=99, lot_wei=1)
    tracemalloc.start()
    try:
        write_stream(path, stream)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
