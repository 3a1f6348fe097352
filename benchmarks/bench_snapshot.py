"""Snapshot benchmark: seconds to write and restore a million resting orders, and bytes per order.

A restore runs in a new process, as on a restart. Like signed orders, the orders have ids of 21
characters, one of a thousand makers, and a hash each.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from statistics import median

from benchmarks.bench_submit import MAKERS, text_id
from benchmarks.measure import Row, timed
from clob import AddMarket, Limits, Market, Matcher, Order, SetLimits, Side, Submit

TOKENS = ("1" * 77, "2" * 77)
NUM_ORDERS, NUM_QUICK = 1_000_000, 20_000
SECONDS_MAX, BYTES_MAX = 3.0, 150.0


def resting_orders(count: int, changes: int = 0) -> Iterator[AddMarket | SetLimits | Submit]:
    """Yield commands that leave ``count`` orders resting, then more orders of the same kind."""
    yield AddMarket(market=Market(id="m", yes=TOKENS[0], no=TOKENS[1]), now_ms=1)
    yield SetLimits(limits=Limits(orders_max=count + changes), now_ms=1)
    for number in range(count + changes):
        buys = number % 2 == 0
        order = Order(
            id=text_id(number),
            token=TOKENS[number // 2 % 2],
            maker=MAKERS[number % len(MAKERS)],
            side=Side.BUY if buys else Side.SELL,
            price=(1 if buys else 51) + number // 4 % 49,
            size=(1 + number % 100) * 10**18,
        )
        signed = number.to_bytes(32, "big")
        yield Submit(market="m", order=order, order_hash=signed, now_ms=1_700_000_000_000)


def filled(num_orders: int) -> Matcher:
    """Return a matcher with one market and ``num_orders`` resting orders."""
    matcher = Matcher()
    for command in resting_orders(num_orders):
        matcher.apply(command)
    return matcher


def restored_s(state: bytes) -> float:
    """Return the seconds to restore a snapshot in a new process."""
    with tempfile.NamedTemporaryFile(suffix=".snapshot") as file:
        file.write(state)
        file.flush()
        command = [sys.executable, "-c", RESTART, file.name]
        completed = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(completed.stdout)


RESTART = """
import pathlib, sys, time
from clob import Matcher
state = pathlib.Path(sys.argv[1]).read_bytes()
begin = time.perf_counter()
matcher = Matcher.restore(state)
taken = time.perf_counter() - begin
assert matcher.snapshot() == state, "restored state differs from the snapshot"
print(taken)
"""


def write_snapshot(num_orders: int) -> tuple[bytes, float]:
    """Return a snapshot of ``num_orders`` orders and the seconds to write it."""
    matcher, kept = filled(num_orders), []
    taken_ns = [timed(lambda: kept.append(matcher.snapshot()), gc_enabled=True) for _ in "123"]
    return kept[0], median(taken_ns) / 1e9


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    num_orders = NUM_QUICK if quick else NUM_ORDERS
    state, taken_s = write_snapshot(num_orders)
    restore_s = median(restored_s(state) for _ in "123")
    for title, seconds in (("snapshot", taken_s), ("restore", restore_s)):
        met = seconds <= SECONDS_MAX
        target = f"<= {SECONDS_MAX:.1f} s"
        yield Row(f"{title} of {num_orders:,} resting orders", target, f"{seconds:.2f} s", met)
    size = len(state) / num_orders
    yield Row(
        "bytes per order in a snapshot", f"<= {BYTES_MAX:.0f} B", f"{size:.1f} B", size <= BYTES_MAX
    )
