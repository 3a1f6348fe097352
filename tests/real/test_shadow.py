"""Recorded hours in shadow mode: recorded fills, and the books of rematch mode."""

from collections import defaultdict

import numpy as np
import pytest

from clob.records import Kind
from clob.replay.backtest import backtest
from clob.replay.io.recording import Recording
from clob.replay.io.streams import Stream
from clob.replay.readers.lobster import read_lobster
from clob.replay.readers.mbo import read_mbo
from clob.replay.strategies.market_maker import MarketMaker
from tests.books import load
from tests.real.data import data_file
from tests.real.golden import columns, read_golden
from tests.real.lobster import read_stream

FUTURES = "esh4_20231225_mbo.npz"
STOCK = "lobster_AAPL_2012-06-21_0930_0950_message_50.csv"


def both(read):
    """Run a recording in both modes."""
    return backtest(read()), backtest(read(), mode="shadow")


def by_event(fills):
    """Group fills by event."""
    groups = defaultdict(list)
    for event, *fill in fills[["event", "resting_id", "size", "price"]].tolist():
        groups[event].append(fill)
    return groups


def recorded(stream):
    """Return id, size, price and time of the recorded fills of the stream."""
    events = next(stream.chunks(10**6))
    rows = events.take(np.flatnonzero(events["kind"] == Kind.FILL))
    return rows[["order_id", "size", "price", "ts_ns"]].tolist()


def shown(fills):
    """Return fills in the columns of :func:`recorded`."""
    return fills[["resting_id", "size", "price", "ts_ns"]].tolist()


def test_both_modes_reproduce_every_fill_of_the_golden_hour(book_class):
    golden = read_golden()
    plain = load("compiled")()
    plain.seed(golden.seed)
    fills = plain.run(golden.events)
    assert np.array_equal(columns(fills), golden.fills)
    hour = Recording(events=golden.events, seed=golden.seed, fills=fills, lo=1, hi=99, lot_wei=1)
    rematch, shadow = (
        backtest(Stream.of(hour), mode=mode, book_class=book_class)
        for mode in ("rematch", "shadow")
    )
    assert shown(shadow.fills) == shown(fills)
    assert (shadow.digest, shadow.check) == (rematch.digest, rematch.check)
    assert (shadow.check.exact, shadow.divergence.total) == (2_914, 0)
    assert shadow.books[0].state_hash() == rematch.books[0].state_hash() == plain.state_hash()


@pytest.mark.parametrize(
    ("read", "differing", "left"),
    [
        (lambda: read_mbo(data_file(FUTURES)), {"hidden": 27, "sequence": 31}, {"hidden": 27}),
        (
            lambda: read_mbo(data_file(FUTURES), offset=19_173, grid=(1, 99)),
            {"hidden": 27, "sequence": 31},
            {"hidden": 27},
        ),
        (lambda: read_lobster(data_file(STOCK)), {"orders": 2}, {}),
        (read_stream, {"orders": 2}, {}),
    ],
    ids=["futures", "futures on 99 prices", "stock", "stock and its book"],
)
def test_raw_recordings_differ_by_the_divergences_of_rematch(read, differing, left):
    rematch, shadow = both(read)
    assert shown(shadow.fills) == recorded(read())
    here, there = by_event(rematch.fills), by_event(shadow.fills)
    other = {event for event in {*here, *there} if here.get(event) != there.get(event)}
    assert rematch.divergence.counts == differing
    assert len(other) == rematch.divergence.total
    assert {one.event for one in rematch.divergence.kept} <= other
    # The rest are fills larger than the displayed size, which the book cannot reproduce.
    assert shadow.divergence.counts == left
    assert np.array_equal(rematch.bests, shadow.bests)
    assert rematch.books[0].state_hash() == shadow.books[0].state_hash()


@pytest.mark.parametrize("name", [FUTURES, STOCK])
def test_maker_does_not_change_history_and_fills_are_bounded(name):
    def read():
        return (read_mbo if name == FUTURES else read_lobster)(data_file(name))

    alone = backtest(read(), mode="shadow")
    maker = MarketMaker(half_spread=1, size=2, limit=20)
    busy = backtest(read(), mode="shadow", strategy=maker, every_ns=10**9)
    assert len(busy.own_fills) > 30
    assert np.array_equal(alone.fills, busy.fills)
    assert np.array_equal(alone.bests, busy.bests)
    assert alone.books[0].state_hash() == busy.books[0].state_hash()
    events = next(read().chunks(10**6))
    comes = events.take(np.flatnonzero(np.isin(events["kind"], (Kind.IOC, Kind.LIMIT, Kind.SEED))))
    sizes = defaultdict(int)
    for order_id, size in comes[["order_id", "size"]].tolist():
        sizes[order_id] = max(sizes[order_id], size)
    met = defaultdict(int)
    for event in busy.own_fills[["other_id", "size"]].tolist():
        met[event[0]] += event[1]
    assert all(size <= sizes[one] for one, size in met.items())


@pytest.mark.long
@pytest.mark.parametrize(("reader", "name"), [(read_mbo, FUTURES), (read_lobster, STOCK)])
def test_chunks_and_book_class_do_not_change_the_result(reader, name):
    def run(**arguments):
        maker = MarketMaker(half_spread=1, size=2, limit=20)
        return backtest(
            reader(data_file(name)), mode="shadow", strategy=maker, every_ns=10**10, **arguments
        )

    whole = run()
    for arguments in ({"chunk": 7}, {"chunk": 4_096}, {"book_class": load("python")}):
        other = run(**arguments)
        assert other.digest == whole.digest
        assert (other.check, other.divergence) == (whole.check, whole.divergence)
