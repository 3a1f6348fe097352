"""Memory benchmark: bytes per resting order, from the growth of a process by a million orders.

Each figure comes from a separate process, which first fills a small book to load all code and then
compares its resident size from /proc before and after. Event arrays are created before and do not
count; text ids, orders and everything else that the book keeps alive do.
"""

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bench_submit import TOKEN
from benchmarks.growth import NUM_ORDERS, NUM_QUICK, orders, resting
from benchmarks.measure import Row
from benchmarks.workload import WEI_PER_LOT, to_events
from clob import Book, Order
from clob.records import FILL

BENCHMARKS = (
    ("core", "run, integer ids", 64),
    ("ids", "submit, text ids, Order dropped", 180),
    ("orders", "submit, text ids, Order kept in a dict", 400),
)
STATM = Path("/proc/self/statm")


def resident() -> int:
    """Return the resident size of this process in bytes, after releasing free memory."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grow_core(num_orders: int) -> tuple[int, object]:
    """Fill a book by ``run``.

    Returns:
        The growth in bytes, and the objects to keep alive until then.
    """
    events = to_events(resting(num_orders), "arbitrary")
    # With room for every possible fill the book need not check the remaining room per event. The
    # pages are never written, so they take no memory.
    fills, status = np.zeros(num_orders + 1, dtype=FILL), np.ones(num_orders, dtype=np.uint8)
    begin = resident()
    book = Book(lot_wei=WEI_PER_LOT)
    book.run(events, fills=fills, status=status)
    assert len(book) == num_orders
    return resident() - begin, book


def grow_text(num_orders: int, *, keep: bool) -> tuple[int, object]:
    """Fill a book by ``submit``; keep each order in a dict, or drop it.

    Returns:
        The growth in bytes, and the objects to keep alive until then.
    """
    workload = resting(num_orders)
    todo = orders(workload)
    kept: dict[str | int, Order] = {}
    begin = resident()
    book = Book(token=TOKEN)
    for order in todo:
        book.submit(order)
        if keep:
            kept[order.id] = order
    assert len(book) == num_orders
    return resident() - begin, (book, kept)


def measure(kind: str, num_orders: int) -> float:
    """Return bytes per resting order, measured in this process."""

    def grow(count: int) -> tuple[int, object]:
        return grow_core(count) if kind == "core" else grow_text(count, keep=kind == "orders")

    grow(1_000)
    grown, _alive = grow(num_orders)
    return grown / num_orders


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table; none on a system without /proc."""
    if not STATM.exists():
        return
    num_orders = NUM_QUICK if quick else NUM_ORDERS
    for kind, case, limit in BENCHMARKS:
        command = [sys.executable, "-m", __spec__.name, kind, str(num_orders)]
        root = Path(__file__).parents[1]
        completed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
        bytes_per_order = float(completed.stdout)
        title = f"memory at {num_orders:,} resting: {case}"
        met = bytes_per_order <= limit
        yield Row(title, f"<= {limit} B", f"{bytes_per_order:.1f} B", met)


if __name__ == "__main__":
    sys.stdout.write(f"{measure(sys.argv[1], int(sys.argv[2]))}\n")
