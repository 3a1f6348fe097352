"""``backtest`` compared with hftbacktest and nautilus_trader, over half a million events.

CPU time is measured, so that other work on the machine does not count; all three are CPU-bound. The
rows of a library that is not installed are replaced by a note.
"""

import time
from collections.abc import Callable, Iterator

from benchmarks import agreement, history
from benchmarks.measure import Row, alternate, at_least, at_most, check_equal, frozen_gc
from clob.replay import backtest
from clob.replay.io.recording import Records
from clob.replay.results import Backtest
from clob.replay.samples.synthetic import LOT_WEI
from clob.replay.strategies import MarketMaker

ROUNDS, ROUNDS_QUICK = 5, 3
EVERY_NS, SIZE, LIMIT = 100_000_000, 100, 1_000
"""Interval, quote size and position limit of the market makers."""

FLOWS = (("day", True), ("depth1k", False), ("mixed", False))
"""Histories, and whether the market makers and nautilus_trader run over them."""


def cpu_ns(work: Callable[[], object]) -> int:
    """Return the CPU time of one call, with the garbage collector on."""
    with frozen_gc(enabled=True):
        begin = time.process_time_ns()
        work()
        return time.process_time_ns() - begin


def run_replay(events: Records) -> Backtest:
    """Replay a history; keep fills and best prices and compare them with the recorded ones."""
    result = backtest(history.stream_of(events))
    check_equal("recorded fills are matched", True, result.check is not None and result.check.ok)
    return result


def run_maker(events: Records) -> Backtest:
    """Run a market maker over a history."""
    maker = MarketMaker(1, SIZE, LIMIT)
    return backtest(history.stream_of(events), strategy=maker, every_ns=EVERY_NS)


def best_of(result: Backtest) -> tuple[int, int, int, int]:
    """Return the final best bid and ask and their sizes in lots."""
    depth = result.books[0].depth(1)
    bid, ask = depth.bids[0], depth.asks[0]
    return bid.price, ask.price, bid.size // LOT_WEI, ask.size // LOT_WEI


class Hft:
    """Both backtests with hftbacktest."""

    def __init__(self, events: Records) -> None:
        from benchmarks import rival_hft  # noqa: PLC0415 - optional dependency

        self.rival = rival_hft
        feed = history.feed(events)
        self.rows = rival_hft.events_of(feed)
        self.span_ns = 2 * int(feed["ts_ns"][-1] - feed["ts_ns"][0]) + EVERY_NS

    def run(self) -> tuple[int, tuple[int, ...]]:
        """Replay to the end; return nanoseconds, and the final best prices with sizes."""
        prepared = self.rival.prepared(self.rows)
        best: list[tuple[int, ...]] = []
        taken_ns = cpu_ns(lambda: best.append(self.rival.run(prepared, self.span_ns)))
        prepared.close()
        return taken_ns, best[0]

    def take(self, times: list[int]) -> agreement.Taken:
        """Run the taker at given times."""
        prepared = self.rival.prepared(self.rows)
        found: agreement.Taken = self.rival.take(prepared, times)
        prepared.close()
        return found

    def quote(self) -> int:
        """Run the market maker; return nanoseconds."""
        prepared = self.rival.prepared(self.rows)
        size, limit = float(SIZE), float(LIMIT)
        taken_ns = cpu_ns(lambda: self.rival.quote(prepared, EVERY_NS, size, limit))
        prepared.close()
        return taken_ns


class Nautilus:
    """Both backtests with nautilus_trader."""

    def __init__(self, events: Records) -> None:
        from benchmarks import rival_nautilus  # noqa: PLC0415 - optional dependency

        self.rival = rival_nautilus
        self.deltas = rival_nautilus.deltas_of(history.feed(events))

    def run(self) -> int:
        """Replay to the end; return nanoseconds."""
        engine = self.rival.prepared(self.deltas)
        taken_ns = cpu_ns(engine.run)
        engine.dispose()
        return taken_ns

    def take(self, times: list[int]) -> agreement.Taken:
        """Run the taker at given times."""
        taker = self.rival.Taker(times)
        engine = self.rival.prepared(self.deltas, taker)
        engine.run()
        engine.dispose()
        found: agreement.Taken = taker.taken()
        return found

    def quote(self) -> tuple[int, tuple[int, int]]:
        """Run the market maker; return nanoseconds and the final best prices of others."""
        maker = self.rival.Maker(EVERY_NS, SIZE, LIMIT)
        engine = self.rival.prepared(self.deltas, maker)
        taken_ns = cpu_ns(engine.run)
        best = self.rival.best_of(engine)
        engine.dispose()
        return taken_ns, best


def agreement_row(
    name: str, events: Records, rival: "Hft | Nautilus", every_ns: int = agreement.EVERY_NS
) -> Row:
    """Compare position, cash and fills of a rule whose orders never wait."""
    ours, times = agreement.taken(events, every_ns)
    check_equal(f"taker over {name}: position, cash, fills", rival.take(times), ours)
    text = f"position {ours.position}, cash {ours.cash:,}, {ours.fills:,} fills"
    return Row(f"    taker over {name}: position, cash, fills", "equal", text, met=True)


def hft_rows(name: str, events: Records, rounds: int, *, makers: bool) -> Iterator[Row]:
    """Compare with hftbacktest."""
    try:
        rival = Hft(events)
    except ImportError:
        yield Row(f"replay {name}: not measured, needs hftbacktest", "", "", None)
        return
    title = f"replay {name} / hftbacktest L3"
    # The first call compiles, and checks that both end with the same book.
    check_equal(title, rival.run()[1], best_of(run_replay(events)))
    pair = alternate(
        lambda: rival.run()[0], lambda: cpu_ns(lambda: run_replay(events)), len(events), rounds
    )
    yield at_least(title, 8, pair)
    yield agreement_row(name, events, rival)
    if makers:
        rival.quote()
        pair = alternate(
            rival.quote, lambda: cpu_ns(lambda: run_maker(events)), len(events), rounds
        )
        yield at_most("    market maker in Python / their compiled one", 0.65, pair)
    hour = agreement.recorded() if name == "day" else None
    if hour is not None:
        every_ns = agreement.RECORDED_EVERY_NS
        yield agreement_row("a recorded hour", hour, Hft(hour), every_ns)


def nautilus_rows(name: str, events: Records, rounds: int) -> Iterator[Row]:
    """Compare with nautilus_trader."""
    try:
        rival = Nautilus(events)
    except ImportError:
        yield Row(f"replay {name}: not measured, needs nautilus_trader", "", "", None)
        return
    title = f"replay {name} / nautilus_trader, no strategy"
    check_equal(title, rival.quote()[1], best_of(run_replay(events))[:2])
    pair = alternate(rival.run, lambda: cpu_ns(lambda: run_replay(events)), len(events), rounds)
    yield at_least(title, 100, pair)
    yield agreement_row(name, events, rival)
    pair = alternate(
        lambda: rival.quote()[0], lambda: cpu_ns(lambda: run_maker(events)), len(events), rounds
    )
    yield at_least("    market maker / their market maker", 40, pair)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    rounds = ROUNDS_QUICK if quick else ROUNDS
    for name, makers in FLOWS:
        events = history.history(quick=quick) if name == "day" else history.deep(name, quick=quick)
        yield from hft_rows(name, events, rounds, makers=makers)
        if makers:
            yield from nautilus_rows(name, events, rounds)
