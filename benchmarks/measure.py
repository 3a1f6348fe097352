"""Comparison of two sides in alternating rounds, and the table rows of the result."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Row(NamedTuple):
    """A row of the table.

    ``target`` and ``measured`` are texts with their unit; ``met`` is None without a target. The
    last two are nanoseconds per event of the other side and of ours, None if no time is measured.
    """

    name: str
    target: str
    measured: str
    met: bool | None
    other_ns: float | None = None
    ours_ns: float | None = None


class Pair(NamedTuple):
    """Medians over the rounds: nanoseconds per event of both sides, and the ratio ours / other."""

    other_ns: float
    ours_ns: float
    ratio: float


class MismatchError(AssertionError):
    """The two sides have different results, so their times cannot be compared."""


def alternate(
    other: Callable[[], int], ours: Callable[[], int], num_events: int, rounds: int
) -> Pair:
    """Run both sides in turn and return medians.

    The ratio is the median of the ratios within a round, so that a disturbance longer than a round
    affects both sides. The side that runs first alternates.

    Args:
        other: runs the other side once and returns nanoseconds.
        ours: runs our side once and returns nanoseconds.
        num_events: timed events per run.
        rounds: number of rounds.
    """
    pairs = []
    for turn in range(rounds):
        if turn % 2:
            mine, theirs = ours(), other()
        else:
            theirs, mine = other(), ours()
        pairs.append((theirs, mine))
    return Pair(
        statistics.median(theirs for theirs, _ in pairs) / num_events,
        statistics.median(mine for _, mine in pairs) / num_events,
        statistics.median(mine / theirs for theirs, mine in pairs),
    )


@contextmanager
def frozen_gc(*, enabled: bool) -> Iterator[None]:
    """Freeze all existing objects and switch the garbage collector on or off.

    Freezing excludes the prepared events of the harness from collections, since a program would not
    have them.
    """
    gc.collect()
    gc.freeze()
    if not enabled:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def timed(work: Callable[[], object], *, gc_enabled: bool = False) -> int:
    """Return the time of one call in nanoseconds."""
    with frozen_gc(enabled=gc_enabled):
        begin = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - begin


def at_most(name: str, limit: float | None, pair: Pair) -> Row:
    """Return a row whose target is at most ``limit`` times the time of the other side."""
    target = "" if limit is None else f"<= {limit:.2f} x"
    met = None if limit is None else pair.ratio <= limit
    return Row(name, target, f"{pair.ratio:.2f} x", met, pair.other_ns, pair.ours_ns)


def at_least(name: str, limit: float | None, pair: Pair) -> Row:
    """Return a row whose target is at least ``limit`` times the speed of the other side."""
    target, faster = "" if limit is None else f">= {limit:g} x faster", 1 / pair.ratio
    met = None if limit is None else faster >= limit
    return Row(name, target, f"{faster:.2f} x faster", met, pair.other_ns, pair.ours_ns)


def check_equal(subject: str, expected: object, actual: object) -> None:
    """Check that two results are equal; the first one is the other side's or the expected one.

    Raises:
        MismatchError: they differ.
    """
    if expected != actual:
        raise MismatchError(f"{subject}: expected {expected}; got {actual}")
