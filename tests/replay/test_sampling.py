"""Pictures of the books: what stood there at that time, however the run was cut."""

from typing import ClassVar

import numpy as np
import pytest

from clob.replay import Latency, Stream, backtest, merge
from clob.replay.modes.rematch import StreamDriver
from clob.replay.modes.sampling import LEVELS_MAX, Sampler
from clob.replay.sim.driver import NEVER, Stop
from tests.books import ask, bid, load
from tests.replay.report.runs import LATENCY, Busy, stream_of
from tests.replay.run.streams import stream_of as stream_of_rows


def played(stream, until_ns, instrument=0):
    """The levels of a book at a time, from a run of its own."""
    driver = StreamDriver(stream)
    driver.advance(until_ns, Stop.NO)
    depth = driver.books[instrument].depth(LEVELS_MAX)
    return [
        (side, level.price, level.size // stream.lot_wei)
        for side, levels in enumerate((depth.bids, depth.asks))
        for level in levels
    ]


def pictured(depths, picture, instrument=0):
    rows = depths.levels
    rows = rows[(rows["picture"] == picture) & (rows["instrument"] == instrument)]
    return [(int(row["side"]), int(row["price"]), int(row["size"])) for row in rows]


def test_pictures_are_what_stood_there(book_class):
    parts = [stream_of(4, 200, 0, "rain"), stream_of(5, 200, 0, "frost")]
    stream = merge(parts)
    depths = backtest(stream, sample=5, book_class=book_class).depths
    assert 5 <= len(depths.times) - 1 < 10
    steps = np.diff(depths.times[:-1])
    assert (steps == steps[0]).all()
    for number, ts_ns in enumerate(depths.times.tolist()):
        for instrument in (0, 2):
            assert pictured(depths, number, instrument) == played(stream, ts_ns, instrument)
    assert pictured(depths, len(depths.times) - 1) == played(stream, NEVER)


@pytest.mark.parametrize("strategy", [False, True])
def test_pictures_change_nothing_and_do_not_depend_on_chunks(day, strategy):
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


def test_a_strategy_that_looks_at_every_book_is_pictured_alike(day):
    class Looking(Busy):
        """Is called for each change of the book, and does nothing then."""

        def on_book(self, market):
            pass

    mine = {"every_ns": 600 * 10**9, "sample": 20}
    some, every = (backtest(Stream.of(day), strategy=one(), **mine) for one in (Busy, Looking))
    assert some.own_fills.tolist() == every.own_fills.tolist()
    assert some.depths.levels.tolist() == every.depths.levels.tolist()


@pytest.mark.parametrize("mode", ["rematch", "shadow"])
def test_pictures_hold_own_orders(day, mode):
    class Watching(Busy):
        """Takes pictures of its own, before it acts."""

        seen: ClassVar = {}

        def on_wake(self, market):
            bids, asks = market.depth(LEVELS_MAX)
            self.seen[market.now_ns] = [(0, *one) for one in bids] + [(1, *one) for one in asks]
            super().on_wake(market)

    times = backtest(Stream.of(day), sample=30).depths.times
    step = int(times[1] - times[0])
    # What it sends arrives when the picture of that time has been taken.
    mine = {"strategy": Watching(), "every_ns": step, "latency": Latency(1, 1)}
    result = backtest(Stream.of(day), mode=mode, sample=30, **mine)
    assert len(result.own_fills) > 10
    for number, ts_ns in enumerate(result.depths.times[:-1].tolist()):
        assert pictured(result.depths, number) == Watching.seen[ts_ns]


def test_a_run_of_a_moment_has_one_picture():
    depths = backtest(stream_of_rows(bid(1, 40, 3), ask(2, 60, 4)), sample=8).depths
    assert len(depths.times) == 1
    assert pictured(depths, 0) == [(0, 40, 3), (1, 60, 4)]


def test_a_run_of_nothing_has_an_empty_picture():
    depths = backtest(stream_of_rows(), sample=8).depths
    assert (len(depths.times), len(depths.levels)) == (1, 0)


@pytest.mark.parametrize("count", [0, -1, True, 2.0])
def test_a_senseless_count_is_refused(count):
    with pytest.raises(ValueError, match="sample must be None or an integer of 1 or more"):
        Sampler(StreamDriver(stream_of_rows()), count)
