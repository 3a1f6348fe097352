"""``backtest`` against hftbacktest and nautilus_trader: half a million events of one history.

What is measured is the time of the processor, since none of the three waits for anything; so other
work on the machine does not count. Where one of the two is not installed its rows say so.
"""

import time
from collections.abc import Callable, Iterator

from benchmarks import history
from benchmarks.measure import Row, alternate, at_least, at_most, garbage, same
from clob.replay import backtest
from clob.replay.recording import Records
from clob.replay.results import Backtest
from clob.replay.strategies import MarketMaker
from clob.replay.synthetic import LOT_WEI

ROUNDS, ROUNDS_QUICK = 5, 3
EVERY_NS, SIZE, LIMIT = 100_000_000, 100, 1_000
"""How often the makers wake, what they quote, and what they have or owe at most."""

FLOWS = (("day", True), ("depth1k", False), ("mixed", False))
"""The histories, and whether the makers and nautilus_trader run over them, too."""


def spent(work: Callable[[], object]) -> int:
    """Nanoseconds of the processor that one call takes, with the collector as a program has it."""
    with garbage(collected=True):
        begin = time.process_time_ns()
        work()
        return time.process_time_ns() - begin


def replayed(events: Records) -> Backtest:
    """Replay a history, fills and best prices kept, all that was recorded compared."""
    result = backtest(history.stream_of(events))
    same("recorded fills", True, result.check is not None and result.check.ok)
    return result


def quoted(events: Records) -> Backtest:
    """Make a market in a history."""
    maker = MarketMaker(1, SIZE, LIMIT)
    return backtest(history.stream_of(events), strategy=maker, every_ns=EVERY_NS)


def best_of(result: Backtest) -> tuple[int, int, int, int]:
    """Tell the best prices of the end and how much rests there, in lots."""
    depth = result.books[0].depth(1)
    bid, ask = depth.bids[0], depth.asks[0]
    return bid.price, ask.price, bid.size // LOT_WEI, ask.size // LOT_WEI


class Hft:
    """Both backtests in hftbacktest."""

    def __init__(self, events: Records) -> None:
        from benchmarks import rival_hft  # noqa: PLC0415 - where it is installed

        self.rival = rival_hft
        feed = history.feed(events)
        self.rows = rival_hft.events_of(feed)
        self.span_ns = 2 * int(feed["ts_ns"][-1] - feed["ts_ns"][0]) + EVERY_NS

    def run(self) -> tuple[int, tuple[int, ...]]:
        """Replay to the end; give nanoseconds, the best prices and what rests there."""
        prepared = self.rival.prepared(self.rows)
        best: list[tuple[int, ...]] = []
        taken_ns = spent(lambda: best.append(self.rival.run(prepared, self.span_ns)))
        prepared.close()
        return taken_ns, best[0]

    def quote(self) -> int:
        """Make a market; give nanoseconds."""
        prepared = self.rival.prepared(self.rows)
        size, limit = float(SIZE), float(LIMIT)
        taken_ns = spent(lambda: self.rival.quote(prepared, EVERY_NS, size, limit))
        prepared.close()
        return taken_ns


class Nautilus:
    """Both backtests in nautilus_trader."""

    def __init__(self, events: Records) -> None:
        from benchmarks import rival_nautilus  # noqa: PLC0415 - where it is installed

        self.rival = rival_nautilus
        self.deltas = rival_nautilus.deltas_of(history.feed(events))

    def run(self) -> int:
        """Replay to the end; give nanoseconds."""
        engine = self.rival.prepared(self.deltas)
        taken_ns = spent(engine.run)
        engine.dispose()
        return taken_ns

    def quote(self) -> tuple[int, tuple[int, int]]:
        """Make a market; give nanoseconds and the best prices of others at the end."""
        maker = self.rival.Maker(EVERY_NS, SIZE, LIMIT)
        engine = self.rival.prepared(self.deltas, maker)
        taken_ns = spent(engine.run)
        best = self.rival.best_of(engine)
        engine.dispose()
        return taken_ns, best


def hft_rows(name: str, events: Records, rounds: int, *, makers: bool) -> Iterator[Row]:
    """The rows against hftbacktest."""
    try:
        rival = Hft(events)
    except ImportError:
        yield Row(f"replay {name}: hftbacktest is not installed", "", "", None)
        return
    title = f"replay {name} / hftbacktest L3"
    # The first call compiles, and proves that both end with the same book.
    same(title, rival.run()[1], best_of(replayed(events)))
    pair = alternate(
        lambda: rival.run()[0], lambda: spent(lambda: replayed(events)), len(events), rounds
    )
    yield at_least(title, 8, pair)
    if makers:
        rival.quote()
        pair = alternate(rival.quote, lambda: spent(lambda: quoted(events)), len(events), rounds)
        yield at_most("the same with a maker in Python / their compiled one", 1.0, pair)


def nautilus_rows(name: str, events: Records, rounds: int) -> Iterator[Row]:
    """The rows against nautilus_trader."""
    try:
        rival = Nautilus(events)
    except ImportError:
        yield Row(f"replay {name}: nautilus_trader is not installed", "", "", None)
        return
    title = f"replay {name} / nautilus_trader, no strategy"
    same(title, rival.quote()[1], best_of(replayed(events))[:2])
    pair = alternate(rival.run, lambda: spent(lambda: replayed(events)), len(events), rounds)
    yield at_least(title, 100, pair)
    pair = alternate(
        lambda: rival.quote()[0], lambda: spent(lambda: quoted(events)), len(events), rounds
    )
    yield at_least("the same with a maker / their maker", 40, pair)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    for name, makers in FLOWS:
        events = history.history(quick=quick) if name == "day" else history.deep(name, quick=quick)
        yield from hft_rows(name, events, rounds, makers=makers)
        if makers:
            yield from nautilus_rows(name, events, rounds)
