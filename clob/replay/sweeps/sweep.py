"""Runs a strategy with every combination of parameters, in several processes over one stream."""

import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

from clob.replay.io.streams import Stream
from clob.replay.sim.strategy import Strategy
from clob.replay.sweeps.folder import SweepFolder
from clob.replay.sweeps.grid import Grid, RunPoint, Seed, expand
from clob.replay.sweeps.mapped import MappedStream, map_stream
from clob.replay.sweeps.plan import (
    SweepPlan,
    check_plan,
    check_seeds_matter,
    check_sendable,
    identity_of,
)
from clob.replay.sweeps.result import SweepResult
from clob.replay.sweeps.rows import DONE, SweepRow, SweepTask
from clob.replay.sweeps.workers import STARTS, processors, run_points


class SweepProgress(NamedTuple):
    """The state of a sweep after a run."""

    done: int
    """Runs that have a row, those that the folder had at the start included."""
    total: int
    """All runs."""
    failed: int
    """Runs that ended with an error."""
    skipped: int
    """Runs that the folder had at the start."""
    row: SweepRow
    """The latest row."""


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep; ``result`` has the runs until then."""

    def __init__(self, result: SweepResult) -> None:
        super().__init__(str(result))
        self.result: SweepResult = result


def sweep(
    strategy: Callable[..., Strategy],
    grid: Grid,
    stream: Stream | MappedStream,
    *,
    seeds: Sequence[Seed] | None = None,
    jobs: int | None = None,
    start: str = "spawn",
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
    **settings: Any,
) -> SweepResult:
    """Run a backtest for each combination of parameters and seed, on all processors.

    The stream is read once and written to an uncompressed file that all processes map. A run has
    the same digest as ``backtest`` with the same arguments. An error in a run is a row of the
    result and does not end the sweep; nor does a process that the system kills.

    Args:
        strategy: the class, or a function that returns a strategy; called with the parameters.
            ``functools.partial`` sets arguments that are equal in all runs.
        grid: values by parameter, or a list of combinations; see
            :func:`~clob.replay.sweeps.grid.expand`.
        stream: the recorded flow.
        seeds: seeds of each combination, integers of 0 or more or names. A seed replaces that of a
            drawn latency, and is the argument ``seed`` of a strategy that has one. None is the seed
            of the latency, or 0.
        jobs: number of processes; None is one for each processor. With 1, the runs are in this
            process, which also works with a strategy that cannot be imported.
        start: ``"spawn"``, for which the strategy must be importable by name, on all systems; or
            ``"fork"``, not on Windows, which inherits it.
        out: folder for the results. Each finished run is appended; the runs that it already has
            are skipped, except those whose process was killed. None keeps no files.
        on_progress: called after each run.
        settings: arguments of :func:`~clob.replay.backtest`, such as ``every_ns`` or ``latency``.
            ``keep`` and ``check`` are empty by default.

    Returns:
        The rows, in order of the grid.

    Raises:
        ValueError: the grid, the seeds, a setting or another argument is not valid.
        SweepError: the strategy or a setting cannot be imported by workers; the folder has the
            results of another stream, strategy, source or setting; a worker cannot start.
        SweepInterrupted: Ctrl-C. Workers have stopped; finished runs are in ``result`` and ``out``.
        OSError: a file cannot be read or written.
        ReplayFormatError: the input is malformed and the policy is ``"raise"``.
    """
    plan = SweepPlan(strategy, settings)
    if seeds is not None:
        check_seeds_matter(plan)
    points = expand(grid, _seeds(seeds, settings))
    check_plan(plan, points)
    jobs = _jobs(jobs, start)
    if jobs > 1 and start == "spawn":
        check_sendable(plan)
    with ExitStack() as stack:
        folder = None
        if isinstance(stream, MappedStream):
            mapped, source = stream, stream.open()
        else:
            # On Windows a file cannot be removed while a process maps it.
            made = tempfile.TemporaryDirectory(prefix="clob-", ignore_cleanup_errors=True)
            folder = stack.enter_context(made)
            mapped, source = map_stream(stream, folder), stream
        results = None
        if out is not None:
            results = stack.enter_context(closing(SweepFolder(out, identity_of(plan, mapped))))
        task = SweepTask(plan, mapped, folder)
        return _run(task, points, source, (jobs, start), results, on_progress)


def _seeds(seeds: Sequence[Seed] | None, settings: dict[str, Any]) -> Sequence[Seed]:
    if seeds is not None:
        return list(seeds)
    return [getattr(settings.get("latency"), "seed", 0)]


def _jobs(jobs: int | None, start: str) -> int:
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}; got {start!r}")
    if jobs is not None and (type(jobs) is not int or jobs < 1):
        raise ValueError(f"jobs must be None or an integer of 1 or more; got {jobs!r}")
    return processors() if jobs is None else jobs


def _run(
    task: SweepTask,
    points: list[RunPoint],
    source: Stream,
    workers: tuple[int, str],
    results: SweepFolder | None,
    on_progress: Callable[[SweepProgress], None] | None,
) -> SweepResult:
    """Run the points that have no row, and return all rows."""
    known = [results.finished(point) for point in points] if results else []
    rows = {row.number: row for row in known if row is not None}
    skipped = len(rows)
    failed = sum(row.state != DONE for row in rows.values())
    left = [point for point in points if point.number not in rows]

    def result() -> SweepResult:
        ordered = [rows[number] for number in sorted(rows)]
        more = {"total": len(points), "skipped": skipped}
        return SweepResult(task.plan, source, ordered, digest=task.mapped.digest, **more)

    try:
        with closing(_rows(task, left, *workers)) as arriving:
            for row in arriving:
                rows[row.number] = row
                failed += row.state != DONE
                if results is not None:
                    results.append(row)
                if on_progress is not None:
                    on_progress(SweepProgress(len(rows), len(points), failed, skipped, row))
    except KeyboardInterrupt:
        raise SweepInterrupted(result()) from None
    return result()


def _rows(task: SweepTask, points: list[RunPoint], jobs: int, start: str) -> Generator[SweepRow]:
    """Yield the rows of points, from this process if there is one job."""
    if jobs == 1:
        return (task.run(point) for point in points)
    return run_points(task, points, jobs, start)
