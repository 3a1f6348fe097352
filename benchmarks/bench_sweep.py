"""A sweep compared with independent processes that run the same backtests, and its cost per run.

Both sides run in turn, in equal numbers of processes and over the same half million events. They
compete with other work on the machine alike; the overhead is CPU time, so other work does not count
there.
"""

import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import history
from benchmarks.measure import Row, alternate, at_least, at_most, check_equal, frozen_gc
from clob.records import EVENT
from clob.replay import Stream, backtest, map_stream, sweep
from clob.replay.strategies import MarketMaker
from clob.replay.sweeps.result import SweepResult
from clob.replay.sweeps.rows import figures_of

JOBS = 2
RUNS, RUNS_QUICK = 48, 4
ROUNDS, ROUNDS_QUICK = 5, 3
EVERY_NS = 100_000_000


def sizes_of(*, quick: bool) -> list[int]:
    """Return the sizes of the quotes, one for each run."""
    return [10 * (place + 1) for place in range(RUNS_QUICK if quick else RUNS)]


def digest_of(stream: Stream, size: int) -> str:
    """Run one backtest; figures are computed as a program of its own would."""
    result = backtest(stream, strategy=MarketMaker(size=size), every_ns=EVERY_NS, check=(), keep=())
    figures_of(result)
    return result.digest


def independent(path: str, sizes: list[int], connection: Any) -> None:
    """Run some backtests in a process of its own, as often as asked."""
    events = np.load(path).view(EVENT)
    stream = history.stream_of(events)
    while connection.recv():
        begin = time.process_time_ns()
        digests = [digest_of(stream, size) for size in sizes]
        connection.send((digests, time.process_time_ns() - begin))


class Independent:
    """Processes that share nothing, each with an equal part of the runs."""

    def __init__(self, path: str, sizes: list[int]) -> None:
        context = multiprocessing.get_context("spawn")
        self.num_runs = len(sizes)
        self.parts = []
        for place in range(JOBS):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=independent, args=(path, sizes[place::JOBS], theirs), daemon=True
            )
            process.start()
            self.parts.append((ours, process))

    def run(self) -> tuple[list[str], int]:
        """Run all backtests; return the digests and the CPU time."""
        for part, _ in self.parts:
            part.send(True)
        answers = [part.recv() for part, _ in self.parts]
        digests = ["" for _ in range(self.num_runs)]
        for place, (some, _) in enumerate(answers):
            digests[place::JOBS] = some
        return digests, sum(cpu_ns for _, cpu_ns in answers)

    def close(self) -> None:
        """End the processes."""
        for part, process in self.parts:
            part.send(False)
            process.join()


def started(path: str, sizes: list[int]) -> None:
    """Start the processes, run all backtests, and end the processes."""
    others = Independent(path, sizes)
    others.run()
    others.close()


def wall_ns(work: Callable[[], object]) -> int:
    """Return the time of one call, with the garbage collector on."""
    with frozen_gc(enabled=True):
        begin = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - begin


def cpu_ns() -> int:
    """Return the CPU time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return int(sum(one.ru_utime + one.ru_stime for one in used) * 1e9)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    events = history.history(quick=quick)
    stream, sizes = history.stream_of(events), sizes_of(quick=quick)
    rounds = ROUNDS_QUICK if quick else ROUNDS
    grid = {"size": sizes}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.npy")
        np.save(path, events)
        mapped = map_stream(stream, folder)

        def swept(start: str) -> SweepResult:
            return sweep(MarketMaker, grid, mapped, every_ns=EVERY_NS, jobs=JOBS, start=start)

        others = Independent(path, sizes)
        check_equal("digests", others.run()[0], [row.digest for row in swept("spawn")])
        number = len(sizes) * len(events)
        pair = alternate(
            lambda: wall_ns(others.run), lambda: wall_ns(lambda: swept("fork")), number, rounds
        )
        yield at_least(f"sweep of {len(sizes)} runs / {JOBS} independent processes", 0.93, pair)
        pair = alternate(
            lambda: wall_ns(lambda: started(path, sizes)),
            lambda: wall_ns(lambda: swept("spawn")),
            number,
            rounds,
        )
        yield at_least("    with the start of the processes on both sides, spawn", 0.93, pair)
        pair = alternate(lambda: others.run()[1], lambda: used_ns(stream, sizes), number, rounds)
        others.close()
    yield at_most("    CPU time in all, the stream written and results appended", 1.05, pair)


def used_ns(stream: Stream, sizes: list[int]) -> int:
    """Return the CPU time of a whole sweep: this process and its workers."""
    with tempfile.TemporaryDirectory() as folder:
        begin = cpu_ns()
        sweep(
            MarketMaker,
            {"size": sizes},
            stream,
            every_ns=EVERY_NS,
            jobs=JOBS,
            start="fork",
            out=folder,
        )
        return cpu_ns() - begin
