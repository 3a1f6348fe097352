"""The compiled Book against its plain-Python twin, one call at a time; the events must be equal.

Timed are the calls alone, their events dropped: what keeping them costs, fresh memory above all, is
the same for both and hides the difference. A row with the events kept stands beside it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.bench_submit import TOKEN, Action, drive_prebuilt, once, with_orders
from benchmarks.measure import Row, alternate, at_least, same
from benchmarks.workload import Workload, load
from clob._book_py import Book as Twin
from clob.book import COMPILED, Book

ROUNDS, ROUNDS_QUICK = 9, 3
NUM_TIMED, TIMED_QUICK = 50_000, 5_000

QUESTIONS = (
    ("mixed", "dropped", 10.0),
    ("add_cancel", "dropped", None),
    ("sweep", "dropped", None),
    ("mixed", "kept", None),
)


def drive_and_drop(book: Any, todo: list[Action], _keep: Callable[[Any], None]) -> None:
    """Make the calls and let their events go."""
    submit, cancel = book.submit, book.cancel
    for cancels, subject, _side, _price, _size in todo:
        if cancels:
            cancel(subject)
        else:
            submit(subject)


DRIVES = {"dropped": drive_and_drop, "kept": drive_prebuilt}


def question(name: str, events: str, limit: float | None, *, quick: bool) -> Row:
    """Compare what both books announce first, then measure."""
    title = f"submit {name}, events {events}, compiled / twin"
    workload = load(name).head(TIMED_QUICK if quick else NUM_TIMED)

    def run(kind: type, drive: Any, workload: Workload = workload) -> tuple[int, list[object]]:
        return once(workload, kind(token=TOKEN), drive, with_orders)

    same(title, run(Twin, drive_prebuilt)[1], run(Book, drive_prebuilt)[1])
    pair = alternate(
        lambda: run(Twin, DRIVES[events])[0],
        lambda: run(Book, DRIVES[events])[0],
        workload.num_timed,
        ROUNDS_QUICK if quick else ROUNDS,
    )
    return at_least(title, limit, pair)


def rows(*, quick: bool) -> Iterator[Row]:
    """Answer all questions; without a compiled Book there is nothing to compare."""
    if not COMPILED:
        yield Row("submit, compiled / twin", ">= 10.0 x faster", "not compiled", None)
        return
    for name, events, limit in QUESTIONS:
        yield question(name, events, limit, quick=quick)
