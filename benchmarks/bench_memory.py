"""Bytes per resting order: how much larger a process became by a million orders.

Each figure comes from a process of its own, which first runs a small book to have its code loaded,
and reads its resident size from /proc before and after. Arrays that hold the events are made before
and not counted; text ids, orders and whatever else the book keeps alive are.
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

QUESTIONS = (
    ("core", "run, integer ids", 64),
    ("ids", "submit, text ids, Order dropped", 180),
    ("orders", "submit, text ids, Order kept in a dict", 400),
)
STATM = Path("/proc/self/statm")


def resident() -> int:
    """The resident size of this process in bytes, what is free already given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grow_core(num_orders: int) -> tuple[int, object]:
    """Fill a book by ``run``.

    Returns:
        The bytes it took, and what must stay alive until they are counted.
    """
    events = to_events(resting(num_orders), "arbitrary")
    # Room for fills that never come, so that no event has to be tried beforehand; the pages are
    # never touched and take nothing.
    fills, status = np.zeros(num_orders + 1, dtype=FILL), np.ones(num_orders, dtype=np.uint8)
    begin = resident()
    book = Book(lot_wei=WEI_PER_LOT)
    book.run(events, fills=fills, status=status)
    assert len(book) == num_orders
    return resident() - begin, book


def grow_text(num_orders: int, *, keep: bool) -> tuple[int, object]:
    """Fill a book by ``submit``, keeping each order by its id or dropping it.

    Returns:
        The bytes it took, and what must stay alive until they are counted.
    """
    workload = resting(num_orders)
    todo = orders(workload)
    kept: dict[str | int, Order] = {}
    begin = resident()
    book = Book(token=TOKEN)
    for one in todo:
        book.submit(one)
        if keep:
            kept[one.id] = one
    assert len(book) == num_orders
    return resident() - begin, (book, kept)


def measure(kind: str, num_orders: int) -> float:
    """Bytes per resting order, in this process."""

    def grow(count: int) -> tuple[int, object]:
        return grow_core(count) if kind == "core" else grow_text(count, keep=kind == "orders")

    grow(1_000)
    grown, _alive = grow(num_orders)
    return grown / num_orders


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table; where the system has no /proc there are none."""
    if not STATM.exists():
        return
    num_orders = NUM_QUICK if quick else NUM_ORDERS
    for kind, what, limit in QUESTIONS:
        command = [sys.executable, "-m", __spec__.name, kind, str(num_orders)]
        root = Path(__file__).parents[1]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
        bytes_per_order = float(answer.stdout)
        title = f"memory at {num_orders:,} resting: {what}"
        met = bytes_per_order <= limit
        yield Row(title, f"<= {limit} B", f"{bytes_per_order:.1f} B", met)


if __name__ == "__main__":
    sys.stdout.write(f"{measure(sys.argv[1], int(sys.argv[2]))}\n")
