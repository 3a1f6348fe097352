"""A million resting orders, the input of the memory and pause benchmarks.

Bids are at 1 to 49 and asks at 51 to 99, so that no order trades.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.bench_submit import make_order, text_id
from benchmarks.workload import WEI_PER_LOT, Workload
from clob import Order

NUM_ORDERS = 1_000_000
NUM_QUICK = 50_000


def resting(num_orders: int) -> Workload:
    """Return orders at random prices, alternately bids and asks."""
    rng = np.random.default_rng(21)
    side = np.arange(num_orders, dtype=np.uint8) % 2
    price = rng.integers(1, 50, num_orders, dtype=np.uint8) + side * np.uint8(50)
    size = rng.integers(1, 101, num_orders, dtype=np.uint64)
    ids = np.arange(num_orders, dtype=np.uint32)
    return Workload(np.zeros(num_orders, dtype=np.uint8), side, price, size, ids, 0)


def orders(workload: Workload) -> Iterator[Order]:
    """Yield the orders of a stream as objects with text ids, created one at a time."""
    # Item by item: lists of a million integers would distort the memory measurement.
    for number in range(len(workload)):
        side, price, lots = (c.item(number) for c in (workload.side, workload.price, workload.size))
        yield make_order(text_id(number), side, price, lots * WEI_PER_LOT)
