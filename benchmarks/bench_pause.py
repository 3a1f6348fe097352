"""The longest single ``submit`` while a book grows to a million resting orders, text ids.

Every call is timed on its own. Whatever else the machine does falls on some call as well, and would
be taken for a pause of the book: the book is grown several times, and the smallest of the worst
calls is reported. What remains of it is an upper bound. Below it stands a closer one: each call at
its best over the growths, and the longest of these. The collector is off.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bench_submit import TOKEN
from benchmarks.growth import NUM_ORDERS, NUM_QUICK, orders, resting
from benchmarks.measure import Row, garbage
from clob import Book

LIMIT_NS = 1_000_000
GROWTHS, GROWTHS_QUICK = 5, 2


def grow(num_orders: int, capacity: int) -> np.ndarray:
    """Nanoseconds of each call, the reading of the clock included."""
    todo, taken_ns = orders(resting(num_orders)), np.ones(num_orders, dtype=np.int64)
    book, now_ns = Book(token=TOKEN, capacity=capacity), time.perf_counter_ns
    with garbage(collected=False):
        for number, one in enumerate(todo):
            begin = now_ns()
            book.submit(one)
            taken_ns[number] = now_ns() - begin
    return taken_ns


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table: capacity given, and not."""
    num_orders, growths = (NUM_QUICK, GROWTHS_QUICK) if quick else (NUM_ORDERS, GROWTHS)
    for given in (True, False):
        all_ns = [grow(num_orders, num_orders if given else 0) for _ in range(growths)]
        worst_ns = sorted(int(taken.max()) for taken in all_ns)
        # Call for call, all growths do the same work, but a disturbance falls on another call.
        calm_ns = int(np.min(all_ns, axis=0).max())
        tail_ns = float(np.median([np.percentile(taken, 99.99) for taken in all_ns]))
        how = "capacity given" if given else "capacity not given"
        yield Row(
            f"longest submit of {num_orders:,}, {how}: smallest of {growths} growths",
            "<= 1.000 ms" if given else "",
            f"{worst_ns[0] / 1e6:.3f} ms",
            worst_ns[0] <= LIMIT_NS if given else None,
        )
        yield Row(f"    the largest of the {growths}", "", f"{worst_ns[-1] / 1e6:.3f} ms", None)
        yield Row(
            "    each call at its best, then the longest", "", f"{calm_ns / 1e6:.3f} ms", None
        )
        yield Row("    99.99 % of the calls, median", "", f"{tail_ns / 1e6:.3f} ms", None)
