"""``clob convert``: lossless conversion between all formats, in bounded memory."""

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
"""Largest size that the table reader accepts."""


@pytest.fixture
def file(tmp_path, day):
    path = tmp_path / "flow.npz"
    write_npz(path, day)
    return path


def same(one, other):
    """Return whether two recordings are equal, without the unused bytes of their records."""
    for name in ("events", "seed", "fills"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if (mine is None) != (theirs is None) or (mine is not None and (mine != theirs).any()):
            return False
    return True


@pytest.mark.parametrize("name", ["flow.csv", "flow.csv.gz", "flow.parquet", "again.npz"])
def test_conversion_to_any_format_and_back_keeps_the_recording(file, day, tmp_path, name, capsys):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    other, back = tmp_path / name, tmp_path / "back.npz"
    assert main(["convert", str(file), str(other)]) == 0
    count = len(day.seed) + len(day.events) + len(day.fills)
    out = capsys.readouterr().out
    assert out.startswith(f"{other}: {count:,} events, lots of {day.lot_wei} wei\n")
    assert ("CSV holds events only" in out) is name.startswith("flow.csv")
    assert main(["convert", str(other), str(back)]) == 0
    converted = read_npz(back)
    assert same(converted, day)
    if not name.startswith("flow.csv"):
        assert (converted.lo, converted.hi, converted.lot_wei) == (day.lo, day.hi, day.lot_wei)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({file.name, name, "back.npz"})
    assert backtest(open_stream(other)).check.ok


def rows(draw, count, kinds):
    """Draw events that a recording may contain, in order of time."""
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
    """Draw a recording, which need not be valid for a book."""
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
def test_conversion_keeps_events_of_any_kind(tmp_path_factory, stream, ending):
    folder = tmp_path_factory.mktemp("round")
    expected = stream.collect()
    write_stream(folder / "a.npz", stream)
    assert same(read_npz(folder / "a.npz"), expected)
    write_stream(folder / f"b{ending}", open_stream(folder / "a.npz"))
    if not len(expected.events) and not len(expected.seed):
        return
    converted = open_stream(folder / f"b{ending}", grid=(1, 99)).collect()
    expected = expected if len(expected.fills) else dataclasses.replace(expected, fills=None)
    assert same(converted, expected)


def test_write_stream_writes_the_same_npz_as_write_npz(day, file, tmp_path):
    write_stream(tmp_path / "again.npz", Stream.of(day))
    with zipfile.ZipFile(file) as one, zipfile.ZipFile(tmp_path / "again.npz") as other:
        assert one.namelist() == other.namelist()
        for name in one.namelist():
            assert one.read(name) == other.read(name)


def test_several_files_are_merged_by_time(file, day, tmp_path):
    other = tmp_path / "other.npz"
    write_npz(other, dataclasses.replace(day, name="another"))
    out = tmp_path / "both.csv"
    assert main(["convert", str(file), str(other), str(out)]) == 0
    lines = out.read_text().splitlines()
    assert len(lines) == 1 + 2 * (len(day.seed) + len(day.events) + len(day.fills))


def test_journal_of_several_books_replays_the_same_from_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    journal, table = tmp_path / "day.frames", tmp_path / "day.parquet"
    journal.write_bytes(record_flow(SMALL, 1, 400)[1])
    assert main(["convert", str(journal), str(table)]) == 0
    result = backtest(open_stream(table))
    assert result.digest == backtest(open_stream(journal)).digest
    assert (len(result.fills) > 10, result.check.ok) == (True, True)


def test_npz_of_several_books_is_rejected(tmp_path, capsys):
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


def test_broken_input_stops_without_output_or_is_skipped_by_policy(file, tmp_path, capsys):
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


def test_symbolic_link_as_output_stays_and_its_file_is_replaced(file, tmp_path):
    real, link = tmp_path / "folder" / "real.csv", tmp_path / "latest.csv"
    real.parent.mkdir()
    link.symlink_to(real)
    for content in ("", "old"):
        real.write_text(content)
        assert main(["convert", str(file), str(link)]) == 0
        assert link.is_symlink()
        assert real.read_text().startswith("ts_ns,")
    assert [path.name for path in real.parent.iterdir()] == ["real.csv"]


def test_unwritable_output_and_unreadable_input_are_reported(file, tmp_path, capsys):
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


def test_memory_does_not_depend_on_the_stream_length(tmp_path):
    few, many = (peak_of(tmp_path / "out.npz", chunks) for chunks in (32, 64))
    assert many < few + 4_000_000
    assert 32 * CHUNK_EVENTS * EVENT.itemsize > 28_000_000


def peak_of(path, chunks):
    """Write a number of chunks; return the peak of used memory."""
    events = np.zeros(CHUNK_EVENTS, EVENT)
    events["kind"][1::2] = Kind.FILL
    stream = Stream(lambda: (events.copy() for _ in range(chunks)), lo=1, hi=99, lot_wei=1)
    tracemalloc.start()
    try:
        write_stream(path, stream)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_names_scale_and_labels_are_kept(day, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    labels = [f"{price}.00" for price in range(day.lo, day.hi + 1)]
    about = {"market": "rain", "outcome": "NO", "scale": 350, "inferred": True, "labels": labels}
    path, other = tmp_path / "flow.npz", tmp_path / f"other.{suffix}"
    write_npz(path, dataclasses.replace(day, **about))
    assert main(["convert", str(path), str(other)]) == 0
    stream = open_stream(other)
    assert [one[1:] for one in stream.instruments] == [("rain", "NO")]
    assert (stream.scale, stream.inferred, list(stream.labels)) == (350, True, labels)
    assert stream.label(day.lo + 1) == labels[1]
    collected = stream.collect()
    assert {name: getattr(collected, name) for name in about} == about | {"labels": tuple(labels)}
