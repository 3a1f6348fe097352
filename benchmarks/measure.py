"""How two sides are measured against each other, and a row of the table that comes of it."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Row(NamedTuple):
    """A line of the table.

    ``target`` and ``measured`` are texts with their unit, ``met`` is None where nothing is asked.
    The last two are nanoseconds per event of the other side and of ours, None where time is not
    what is measured.
    """

    question: str
    target: str
    measured: str
    met: bool | None
    other_ns: float | None = None
    ours_ns: float | None = None


class Pair(NamedTuple):
    """Medians over the rounds: both sides in nanoseconds per event, and ours over the other."""

    other_ns: float
    ours_ns: float
    ratio: float


class MismatchError(AssertionError):
    """The two sides did not do the same; no time of theirs means anything."""


def alternate(
    other: Callable[[], int], ours: Callable[[], int], num_events: int, rounds: int
) -> Pair:
    """Let both sides run in turn, and take medians.

    The ratio is the median of the ratios within a round, so that what disturbs the machine for
    longer than a round falls on both sides. Which of the two begins changes from round to round.

    Args:
        other: runs the other side once and returns nanoseconds.
        ours: the same for ours.
        num_events: how many events either of them times.
        rounds: how often.
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
def garbage(*, collected: bool) -> Iterator[None]:
    """Time with the collector as a program has it, or without; what exists already is frozen.

    Freezing keeps it from walking the events that the harness prepared, which no program has.
    """
    gc.collect()
    gc.freeze()
    if not collected:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def timed(work: Callable[[], object], *, collected: bool = False) -> int:
    """Nanoseconds that one call takes."""
    with garbage(collected=collected):
        begin = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - begin


def at_most(question: str, limit: float | None, pair: Pair) -> Row:
    """A row that asks for at most ``limit`` times the time of the other side."""
    target = "" if limit is None else f"<= {limit:.2f} x"
    met = None if limit is None else pair.ratio <= limit
    return Row(question, target, f"{pair.ratio:.2f} x", met, pair.other_ns, pair.ours_ns)


def at_least(question: str, limit: float | None, pair: Pair) -> Row:
    """A row that asks to be at least ``limit`` times as fast as the other side."""
    target, faster = "" if limit is None else f">= {limit:g} x faster", 1 / pair.ratio
    met = None if limit is None else faster >= limit
    return Row(question, target, f"{faster:.2f} x faster", met, pair.other_ns, pair.ours_ns)


def same(question: str, other: object, ours: object) -> None:
    """Insist that both sides came to the same result.

    Raises:
        MismatchError: they did not.
    """
    if other != ours:
        raise MismatchError(f"{question}: the other side made {other}, ours {ours}")
