"""A million orders that rest: what fills a book for the questions of memory and of pauses.

Buyers are at 1 to 49 and sellers at 51 to 99, so that nothing trades.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.bench_submit import order, text_id
from benchmarks.workload import WEI_PER_LOT, Workload
from clob import Order

NUM_ORDERS = 1_000_000
NUM_QUICK = 50_000


def resting(num_orders: int) -> Workload:
    """Orders at random prices, alternately to buy and to sell."""
    rng = np.random.default_rng(21)
    side = np.arange(num_orders, dtype=np.uint8) % 2
    price = rng.integers(1, 50, num_orders, dtype=np.uint8) + side * np.uint8(50)
    size = rng.integers(1, 101, num_orders, dtype=np.uint64)
    ids = np.arange(num_orders, dtype=np.uint32)
    return Workload(np.zeros(num_orders, dtype=np.uint8), side, price, size, ids, 0)


def orders(workload: Workload) -> Iterator[Order]:
    """The same as orders with text ids, each made when it is asked for."""
    # One by one, as lists of a million integers would come and go while memory is measured.
    for number in range(len(workload)):
        side, price, lots = (c.item(number) for c in (workload.side, workload.price, workload.size))
        yield order(text_id(number), side, price, lots * WEI_PER_LOT)
