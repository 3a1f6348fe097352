"""The compiled Book against its plain-Python twin, one call at a time; the events must be equal."""

from collections.abc import Iterator

from benchmarks.bench_submit import TOKEN, drive_prebuilt, once, with_orders
from benchmarks.measure import Row, alternate, at_least, same
from benchmarks.workload import Workload, load
from clob._book_py import Book as Twin
from clob.book import COMPILED, Book

ROUNDS, ROUNDS_QUICK = 5, 3
NUM_TIMED, TIMED_QUICK = 50_000, 5_000


def rows(*, quick: bool) -> Iterator[Row]:
    """A row a workload; without a compiled Book they say so."""
    for name in ("mixed", "add_cancel", "sweep"):
        title = f"submit {name}, compiled / twin"
        if not COMPILED:
            yield Row(title, ">= 10.0 x faster", "not compiled", None)
            continue
        workload = load(name).head(TIMED_QUICK if quick else NUM_TIMED)

        def run(kind: type, workload: Workload = workload) -> tuple[int, list[object]]:
            return once(workload, kind(token=TOKEN), drive_prebuilt, with_orders)

        same(title, run(Twin)[1], run(Book)[1])
        rounds = ROUNDS_QUICK if quick else ROUNDS
        pair = alternate(
            lambda run=run: run(Twin)[0], lambda run=run: run(Book)[0], workload.num_timed, rounds
        )
        yield at_least(title, 10.0, pair)
