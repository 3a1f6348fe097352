"""Streams: chunk sizes do not change events, and merging keeps the order of each stream."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.records import EVENT, FILL, Kind
from clob.replay.io.recording import Recording, join, split_fills
from clob.replay.io.streams import Instrument, Stream, fill_records, merge


def same(one, other):
    arrays = ("events", "seed", "fills")
    plain = ("lo", "hi", "lot_wei", "name", "note")
    return all(getattr(one, f) == getattr(other, f) for f in plain) and all(
        np.array_equal(getattr(one, f), getattr(other, f)) for f in arrays
    )


def test_collect_returns_the_recording(day):
    stream = Stream.of(day)
    assert same(stream.collect(), day)
    assert same(stream.collect(), day)


def test_collect_returns_a_recording_without_fills(day):
    bare = dataclasses.replace(day, fills=None)
    assert Stream.of(bare).collect().fills is None


@pytest.mark.parametrize("size", [1, 7, 4_096, 10**6])
def test_chunk_size_does_not_change_events(day, size):
    whole = next(Stream.of(day).chunks(10**6))
    chunks = list(Stream.of(day).chunks(size))
    assert np.array_equal(join(chunks), whole)
    assert {len(chunk) for chunk in chunks[:-1]} <= {size}
    assert len(whole) == len(day.seed) + len(day.events) + len(day.fills)


@pytest.mark.parametrize("size", [1, 7, 4_096, 10**6])
@pytest.mark.parametrize("block", [1, 100, 10**6])
def test_borrowed_chunks_have_the_same_events(day, size, block):
    whole = next(Stream.of(day).chunks(10**6))
    blocks = [whole[start : start + block] for start in range(0, len(whole), block)]
    stream = Stream(lambda: blocks, lo=day.lo, hi=day.hi, lot_wei=day.lot_wei)
    chunks = list(stream.borrowed(size))
    assert np.array_equal(join(chunks), whole)
    assert all(0 < len(chunk) <= size for chunk in chunks)
    # Small pieces are joined, large ones are passed on.
    assert len(chunks) <= len(whole) // max(size // 4, 1) + 1
    if block >= size:
        assert all(np.shares_memory(chunk, whole) for chunk in chunks)


def test_borrowed_chunk_size_must_be_positive(day):
    with pytest.raises(ValueError, match="1 or more; got 0"):
        Stream.of(day).borrowed(0)


def test_fills_follow_their_command(day):
    whole = next(Stream.of(day).chunks(10**6))
    filled = np.flatnonzero(whole["kind"] == Kind.FILL)
    before = whole["kind"][filled - 1]
    assert np.isin(before, [Kind.FILL, Kind.LIMIT, Kind.IOC, Kind.REPLACE]).all()
    assert (whole["seq"][filled] == whole["seq"][filled - 1]).all()


def test_modifying_a_chunk_does_not_change_the_stream(day):
    stream = Stream.of(day)
    for chunk in stream.chunks(100):
        chunk["size"] = 0
    assert same(stream.collect(), day)


def test_chunk_size_must_be_positive(day):
    with pytest.raises(ValueError, match="must be 1 or more; got 0"):
        Stream.of(day).chunks(0)


def test_fill_before_any_command_is_rejected():
    events = np.zeros(1, EVENT)
    events["kind"] = Kind.FILL
    with pytest.raises(ValueError, match="a fill must follow its command"):
        split_fills(events)


def test_fill_records_of_no_fills():
    assert len(fill_records(np.zeros(0, FILL), np.zeros(0, EVENT))) == 0


def stream_of(times, market, **fields):
    events = np.zeros(len(times), EVENT)
    events["ts_ns"] = times
    events["seq"] = np.arange(len(times))
    events["order_id"] = np.arange(len(times)) + fields.pop("ids", 0)
    options = {"lo": 1, "hi": 9, "lot_wei": 1, "instruments": [Instrument(0, market)]} | fields
    return Stream(lambda: [events.copy()], **options)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=1, max_size=4), st.integers(1, 9)
)
def test_merge_sorts_by_time_and_keeps_each_order(times, chunk):
    streams = [stream_of(each, f"m{place}") for place, each in enumerate(times)]
    merged = join([np.zeros(0, EVENT), *merge(streams, chunk=chunk).chunks()])
    keys = [
        (latest, place, row)
        for place, each in enumerate(times)
        for row, latest in enumerate(np.maximum.accumulate(each).tolist() if each else [])
    ]
    found = merged[["instrument", "order_id"]].tolist()
    assert found == [(place * 2, row) for _, place, row in sorted(keys)]


def test_merge_renumbers_instruments():
    both = [Instrument(0, "b", "YES"), Instrument(1, "b", "NO")]
    one, two = stream_of([1], "a"), stream_of([1], "b", instruments=both, lo=0, hi=20)
    merged = merge([one, two, stream_of([0], "a")])
    assert merged.instruments == (Instrument(0, "a"), Instrument(2, "b"), Instrument(3, "b", "NO"))
    assert (merged.lo, merged.hi) == (0, 20)
    assert next(merged.chunks())["instrument"].tolist() == [0, 0, 2]


def test_merge_reads_streams_of_an_iterator_again():
    names = ["a", "b"]
    merged = merge(stream_of([1], name) for name in names)
    assert [len(next(merged.chunks())) for _ in range(2)] == [2, 2]
    assert [one.market for one in merged.instruments] == names


def test_merge_sums_problems():
    def blocks(stream):
        def read():
            stream.problems.remark("seen")
            yield np.zeros(1, EVENT)

        return read

    streams = [stream_of([1], "a"), stream_of([1], "b")]
    for stream in streams:
        stream._blocks = blocks(stream)
    merged = merge(streams)
    for _ in range(2):
        list(merged.chunks())
        assert merged.problems.remarks == {"seen": 2}


def test_merge_rejects_different_lots_and_scales():
    with pytest.raises(ValueError, match="merge needs one or more streams"):
        merge([])
    with pytest.raises(ValueError, match=r"the same lot; got \[1, 2\] wei"):
        merge([stream_of([1], "a"), stream_of([1], "b", lot_wei=2)])


def test_collect_of_an_empty_stream():
    none = np.zeros(0, EVENT)
    empty = Recording(events=none, seed=none, fills=np.zeros(0, FILL), lo=1, hi=9, lot_wei=1)
    assert len(Stream.of(empty).collect().events) == 0
    assert list(Stream.of(empty).chunks()) == []
