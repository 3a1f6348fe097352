"""Walk-forward slices: each starts and ends with the book of the whole run at that time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clob.records import EVENT, Kind
from clob.replay import Instrument, Stream, backtest, map_stream, merge, synthetic_day, walk_forward
from clob.replay.io.detect import open_stream
from clob.replay.modes.rematch import StreamDriver
from clob.replay.sim.driver import NEVER, Stop
from clob.replay.strategies import MarketMaker
from clob.replay.sweeps.walk import resting_orders

HOUR_NS = 3600 * 10**9
MINUTE_NS = 60 * 10**9


def books_at(stream, until_ns):
    """Return the queues of all books after the events before a time."""
    driver = StreamDriver(stream)
    driver.advance(until_ns - 1 if until_ns < NEVER else NEVER, Stop.NO)
    return {number: book.orders() for number, book in driver.history.items()}


def parts_of(split):
    return [
        (split.train, split.start_ns, split.test_ns),
        (split.test, split.test_ns, split.end_ns),
    ]


def check_splits(stream, splits):
    """Compare the books at both ends of each slice with those of the whole run."""
    for split in splits:
        for part, start_ns, end_ns in parts_of(split):
            assert books_at(part, start_ns) == books_at(stream, start_ns)
            assert books_at(part, NEVER) == books_at(stream, end_ns)


def events_of(stream):
    """Return the events of a stream without the leading seeds."""
    events = np.concatenate([np.zeros(0, EVENT), *stream.chunks()])
    leading = np.flatnonzero(events["kind"] != Kind.SEED)
    return events[leading[0] if len(leading) else len(events) :]


def test_books_and_fills_of_slices_equal_the_whole_run(stream):
    splits = list(walk_forward(stream, train_ns=6 * HOUR_NS, test_ns=2 * HOUR_NS))
    assert [split.number for split in splits] == list(range(9))
    check_splits(stream, splits)
    whole = backtest(stream)
    for split in splits:
        for part, start_ns, end_ns in parts_of(split):
            result = backtest(part)
            assert result.check.ok
            inside = (whole.fills["ts_ns"] >= start_ns) & (whole.fills["ts_ns"] < end_ns)
            names = ["resting_id", "incoming_id", "size", "price", "ts_ns"]
            for name in names:
                assert (result.fills[name] == whole.fills[inside][name]).all()
    tests = np.concatenate([events_of(split.test) for split in splits])
    after = events_of(stream)
    assert (tests == after[after["ts_ns"] >= splits[0].test_ns]).all()


def test_steps_may_overlap_and_the_last_slice_may_be_short(stream):
    splits = list(walk_forward(stream, train_ns=10 * HOUR_NS, test_ns=5 * HOUR_NS, step_ns=HOUR_NS))
    start_ns = splits[0].start_ns
    assert [split.start_ns - start_ns for split in splits] == [k * HOUR_NS for k in range(14)]
    assert all(split.test_ns - split.start_ns == 10 * HOUR_NS for split in splits)
    assert all(split.end_ns - split.test_ns == 5 * HOUR_NS for split in splits)
    check_splits(stream, splits[::4])
    assert splits[-1].test_ns <= int(events_of(stream)["ts_ns"].max())
    assert splits[3].train.name == "synthetic day 3, training 3"


def test_gaps_without_events_are_left_out():
    day = synthetic_day(seed=3, orders=300)
    events = day.events.copy()
    late = events["ts_ns"] > np.median(events["ts_ns"])
    for field in ("ts_ns", "recv_ns"):
        events[field][late] += 10**6 * HOUR_NS
    gap = Stream(lambda: [day.seed, events], lo=1, hi=99, lot_wei=day.lot_wei, has_fills=False)
    splits = list(walk_forward(gap, train_ns=3 * HOUR_NS, test_ns=2 * HOUR_NS))
    assert [split.number for split in splits] == list(range(len(splits)))
    assert len(splits) > 4
    for split in splits:
        assert len(events_of(split.train))
        assert len(events_of(split.test))
    check_splits(gap, splits[-2:])


def test_several_books(day, tmp_path):
    other = synthetic_day(seed=4, orders=700)
    stream = merge([Stream.of(day), _named(other, "other")])
    mapped = map_stream(stream, tmp_path)
    splits = list(walk_forward(mapped, train_ns=8 * HOUR_NS, test_ns=8 * HOUR_NS))
    assert len(splits) == 2
    assert {one.number for one in splits[0].test.instruments} == {0, 2}
    check_splits(stream, splits)


def _named(recording, market):
    stream = Stream.of(recording)
    stream.instruments = (Instrument(0, market),)
    return stream


def test_real_hour(golden_path):
    stream = open_stream(golden_path)
    splits = list(walk_forward(stream, train_ns=20 * MINUTE_NS, test_ns=10 * MINUTE_NS))
    assert len(splits) >= 3
    check_splits(stream, splits)
    assert all(backtest(split.test).check.ok for split in splits)


@pytest.mark.parametrize("step", range(1, 12))
def test_recorded_fills_stay_with_their_command(step):
    """Fills that were recorded later than their command belong to its slice."""
    day = synthetic_day(seed=5, orders=40)
    events = np.concatenate(list(Stream.of(day).chunks()))
    starts = events["kind"] != Kind.SEED
    events["ts_ns"][~starts] = 0
    events["ts_ns"][starts] = np.arange(starts.sum())
    stream = Stream(lambda: [events], lo=1, hi=99, lot_wei=day.lot_wei)
    splits = list(walk_forward(stream, train_ns=step, test_ns=step))
    check_splits(stream, splits)
    for split in splits:
        assert backtest(split.test).check is None or backtest(split.test).check.ok
    tests = np.concatenate([events_of(split.test) for split in splits])
    assert len(set(tests["ts_ns"].tolist())) == len(tests)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    train=st.integers(1, 30),
    test=st.integers(1, 30),
    step=st.integers(1, 30),
    chunk=st.integers(1, 400),
)
def test_random_slices_start_and_end_with_the_book_of_the_whole_run(seed, train, test, step, chunk):
    day = Stream.of(synthetic_day(seed=seed, orders=60))
    pieces = list(day.chunks(chunk))
    fields = {name: value for name, value in vars(day).items() if not name.startswith("_")}
    stream = Stream(lambda: pieces, **fields)
    lengths = {"train_ns": train * HOUR_NS, "test_ns": test * HOUR_NS, "step_ns": step * HOUR_NS}
    check_splits(stream, list(walk_forward(stream, **lengths))[:3])


def test_resting_orders_restore_the_hash_of_the_book(stream):
    driver = StreamDriver(stream)
    driver.advance(driver.start_ns + 9 * HOUR_NS, Stop.NO)
    seed = resting_orders(driver.history, driver.last_ns)
    restored = StreamDriver(
        Stream(lambda: [seed], lo=stream.lo, hi=stream.hi, lot_wei=stream.lot_wei)
    ).history[0]
    restored.seq = driver.history[0].seq
    assert restored.state_hash() == driver.history[0].state_hash()


def test_a_strategy_runs_on_slices(stream):
    split = next(walk_forward(stream, train_ns=12 * HOUR_NS, test_ns=6 * HOUR_NS))
    result = backtest(split.test, strategy=MarketMaker(), every_ns=MINUTE_NS)
    assert len(result.own_fills) > 0
    assert split.test_ns <= result.own_fills["ts_ns"].min()
    assert result.own_fills["ts_ns"].max() < split.end_ns


@pytest.mark.parametrize("name", ["train_ns", "test_ns", "step_ns"])
@pytest.mark.parametrize("value", [0, 1.5, True])
def test_invalid_lengths_are_rejected(stream, name, value):
    lengths = {"train_ns": 1, "test_ns": 1, "step_ns": 1, name: value}
    with pytest.raises(ValueError, match=f"{name} must be an integer of 1 or more"):
        walk_forward(stream, **lengths)


def test_a_stream_too_short_has_no_splits(stream):
    assert list(walk_forward(stream, train_ns=48 * HOUR_NS, test_ns=HOUR_NS)) == []
