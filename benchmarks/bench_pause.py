"""Pause benchmark: the longest single ``submit`` while a book grows to a million resting orders.

Every call is timed, with text ids and without the garbage collector. Other work on the machine
delays some calls, too, so the book is filled several times and two upper bounds are reported: the
smallest of the longest calls, and a closer one, the longest call after taking the minimum of each
call over all fillings.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bench_submit import TOKEN
from benchmarks.growth import NUM_ORDERS, NUM_QUICK, orders, resting
from benchmarks.measure import Row, frozen_gc
from clob import Book

LIMIT_NS = 1_000_000
FILLINGS, FILLINGS_QUICK = 5, 2


def grow(num_orders: int, capacity: int) -> np.ndarray:
    """Fill a book; return nanoseconds per call, including the clock reading."""
    todo, taken_ns = orders(resting(num_orders)), np.ones(num_orders, dtype=np.int64)
    book, now_ns = Book(token=TOKEN, capacity=capacity), time.perf_counter_ns
    with frozen_gc(enabled=False):
        for number, order in enumerate(todo):
            begin = now_ns()
            book.submit(order)
            taken_ns[number] = now_ns() - begin
    return taken_ns


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table, with and without a capacity."""
    num_orders, fillings = (NUM_QUICK, FILLINGS_QUICK) if quick else (NUM_ORDERS, FILLINGS)
    for with_capacity in (True, False):
        all_ns = [grow(num_orders, num_orders if with_capacity else 0) for _ in range(fillings)]
        worst_ns = sorted(int(taken.max()) for taken in all_ns)
        # Every filling makes the same calls, but disturbances hit different ones.
        calm_ns = int(np.min(all_ns, axis=0).max())
        tail_ns = float(np.median([np.percentile(taken, 99.99) for taken in all_ns]))
        how = "capacity given" if with_capacity else "no capacity"
        yield Row(
            f"longest submit of {num_orders:,}, {how}: best of {fillings} fillings",
            "<= 1.000 ms" if with_capacity else "",
            f"{worst_ns[0] / 1e6:.3f} ms",
            worst_ns[0] <= LIMIT_NS if with_capacity else None,
        )
        yield Row(f"    worst of {fillings}", "", f"{worst_ns[-1] / 1e6:.3f} ms", None)
        yield Row(
            "    longest call after the minimum per call", "", f"{calm_ns / 1e6:.3f} ms", None
        )
        yield Row("    99.99 % of the calls, median", "", f"{tail_ns / 1e6:.3f} ms", None)
