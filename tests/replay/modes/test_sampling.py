"""Depth snapshots: the state of the books at that time, for any chunk size."""

from typing import ClassVar

import numpy as np
import pytest

from clob.replay import Latency, Stream, backtest, merge
from clob.replay.modes.rematch import StreamDriver
from clob.replay.modes.sampling import LEVELS_MAX, Sampler
from clob.replay.sim.driver import NEVER, Stop
from tests.books import ask, bid, load
from tests.replay.report.runs import LATENCY, Busy, stream_of
from tests.replay.streams import stream_of as stream_of_rows


def levels_at(stream, until_ns, instrument=0):
    """Return the levels of a book at a time, from a separate run."""
    driver = StreamDriver(stream)
    driver.advance(until_ns, Stop.NO)
    depth = driver.books[instrument].depth(LEVELS_MAX)
    return [
        (side, level.price, level.size // stream.lot_wei)
        for side, levels in enumerate((depth.bids, depth.asks))
        for level in levels
    ]


def snapshot_of(depths, number, instrument=0):
    rows = depths.levels
    rows = rows[(rows["snapshot"] == number) & (rows["instrument"] == instrument)]
    return [(int(row["side"]), int(row["price"]), int(row["size"])) for row in rows]


def test_snapshots_equal_separate_runs(book_class):
    parts = [stream_of(4, 200, 0, "rain"), stream_of(5, 200, 0, "frost")]
    stream = merge(parts)
    depths = backtest(stream, sample=5, book_class=book_class).depths
    assert 5 <= len(depths.times) - 1 < 10
    steps = np.diff(depths.times[:-1])
    assert (steps == steps[0]).all()
    for number, ts_ns in enumerate(depths.times.tolist()):
        for instrument in (0, 2):
            assert snapshot_of(depths, number, instrument) == levels_at(stream, ts_ns, instrument)
    assert snapshot_of(depths, len(depths.times) - 1) == levels_at(stream, NEVER)


@pytest.mark.parametrize("strategy", [False, True])
def test_snapshots_do_not_change_the_run_nor_depend_on_chunks(day, strategy):
    def run(**arguments):
        mine = {"strategy": Busy(), "every_ns": 600 * 10**9, "latency": LATENCY}
        return backtest(Stream.of(day), **arguments, **(mine if strategy else {}))

    bare, whole = run(), run(sample=20)
    assert bare.depths is None
    assert bare.digest == whole.digest
    for arguments in ({"chunk": 7}, {"chunk": 4_096}, {"book_class": load("python")}):
        other = run(sample=20, **arguments).depths
        assert other.times.tolist() == whole.depths.times.tolist()
        assert other.levels.tolist() == whole.depths.levels.tolist()


def test_on_book_strategy_has_equal_snapshots(day):
    class Looking(Busy):
        """Ignores each book change."""

        def on_book(self, market):
            pass

    mine = {"every_ns": 600 * 10**9, "sample": 20}
    some, every = (backtest(Stream.of(day), strategy=one(), **mine) for one in (Busy, Looking))
    assert some.own_fills.tolist() == every.own_fills.tolist()
    assert some.depths.levels.tolist() == every.depths.levels.tolist()


@pytest.mark.parametrize("mode", ["rematch", "shadow"])
def test_snapshots_include_own_orders(day, mode):
    class Watching(Busy):
        """Records the depth before it acts."""

        seen: ClassVar = {}

        def on_wake(self, market):
            bids, asks = market.depth(LEVELS_MAX)
            self.seen[market.now_ns] = [(0, *one) for one in bids] + [(1, *one) for one in asks]
            super().on_wake(market)

    times = backtest(Stream.of(day), sample=30).depths.times
    step = int(times[1] - times[0])
    # Its orders arrive after the snapshot of that time.
    mine = {"strategy": Watching(), "every_ns": step, "latency": Latency(1, 1)}
    result = backtest(Stream.of(day), mode=mode, sample=30, **mine)
    assert len(result.own_fills) > 10
    for number, ts_ns in enumerate(result.depths.times[:-1].tolist()):
        assert snapshot_of(result.depths, number) == Watching.seen[ts_ns]


def test_run_at_a_single_time_has_one_snapshot():
    depths = backtest(stream_of_rows(bid(1, 40, 3), ask(2, 60, 4)), sample=8).depths
    assert len(depths.times) == 1
    assert snapshot_of(depths, 0) == [(0, 40, 3), (1, 60, 4)]


def test_empty_run_has_an_empty_snapshot():
    depths = backtest(stream_of_rows(), sample=8).depths
    assert (len(depths.times), len(depths.levels)) == (1, 0)


@pytest.mark.parametrize("count", [0, -1, True, 2.0])
def test_invalid_count_is_rejected(count):
    with pytest.raises(ValueError, match="sample must be None or an integer of 1 or more"):
        Sampler(StreamDriver(stream_of_rows()), count)
