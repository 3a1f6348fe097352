"""The compiled book compared with the plain-Python one, one call at a time; events must be equal.

Events are dropped, because keeping them costs both sides the same memory and hides the difference.
One row keeps them.
"""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.bench_submit import TOKEN, Action, drive_prebuilt, once, with_orders
from benchmarks.measure import Row, alternate, at_least, check_equal
from benchmarks.workload import Workload, load
from clob.book import COMPILED, Book
from clob.book._book_py import Book as Twin

ROUNDS, ROUNDS_QUICK = 9, 3
NUM_TIMED, TIMED_QUICK = 50_000, 5_000

BENCHMARKS = (
    ("mixed", "dropped", 10.0),
    ("add_cancel", "dropped", None),
    ("sweep", "dropped", None),
    ("mixed", "kept", None),
)


def drive_and_drop(book: Any, todo: list[Action], _keep: Callable[[Any], None]) -> None:
    """Run actions and drop their events."""
    submit, cancel = book.submit, book.cancel
    for cancels, subject, _side, _price, _size in todo:
        if cancels:
            cancel(subject)
        else:
            submit(subject)


DRIVES = {"dropped": drive_and_drop, "kept": drive_prebuilt}


def measure(name: str, events: str, limit: float | None, *, quick: bool) -> Row:
    """Check that both books return the same events, then measure."""
    title = f"submit {name}, events {events}, compiled / plain Python"
    workload = load(name).head(TIMED_QUICK if quick else NUM_TIMED)

    def run(kind: type, drive: Any, workload: Workload = workload) -> tuple[int, list[object]]:
        return once(workload, kind(token=TOKEN), drive, with_orders)

    check_equal(title, run(Twin, drive_prebuilt)[1], run(Book, drive_prebuilt)[1])
    pair = alternate(
        lambda: run(Twin, DRIVES[events])[0],
        lambda: run(Book, DRIVES[events])[0],
        workload.num_timed,
        ROUNDS_QUICK if quick else ROUNDS,
    )
    return at_least(title, limit, pair)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table; a note if the book is not compiled."""
    if not COMPILED:
        yield Row("submit, compiled / plain Python", ">= 10.0 x faster", "not compiled", None)
        return
    for name, events, limit in BENCHMARKS:
        yield measure(name, events, limit, quick=quick)
