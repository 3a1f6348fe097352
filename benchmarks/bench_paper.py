"""``clob paper``: the time from the receipt of a message until the strategy has handled it.

A second process sends orders at the best price over HTTP, one at a time, so that each message
changes a best price and calls ``on_book``. The time begins when the WebSocket library returns the
message, and ends when ``on_book`` is called: it includes decoding, the local book with its checks,
the recording on disk and the execution in shadow mode. The strategy has a resting own order, which
it replaces at each call.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import httpx

from benchmarks.bench_http import server
from benchmarks.measure import Row, check_equal
from benchmarks.workload import cache_dir
from clob.client.feed import Feed
from clob.live import paper
from clob.replay import MarketView, Strategy

P99_TARGET_MS: Final = 1.0
NUM_ORDERS: Final = 2_000
NUM_QUICK: Final = 200
PAUSE_S: Final = 0.002
"""Pause after an order, and after a cancel."""
MARKET, TOKEN = "paper", "101"
PRICE: Final = 50
WEI: Final = 10**18
EVERY_NS: Final = 10**8


class Quoter(Strategy):
    """Keeps a bid below the best one, and notes the time of each call.

    Args:
        is_done: returns whether to end the run.
    """

    def __init__(self, is_done: Callable[[], bool]) -> None:
        self._is_done = is_done
        self.received_ns = 0
        """When the oldest message was received that no call followed yet; 0 without one."""
        self.taken_ns: list[int] = []

    def on_book(self, market: MarketView) -> None:
        """Note the time since the message, and replace the bid."""
        if self.received_ns:
            self.taken_ns.append(time.perf_counter_ns() - self.received_ns)
            self.received_ns = 0
        for order in market.open_orders:
            market.cancel(order)
        market.buy(PRICE - 1, 10**6)

    def on_wake(self, market: MarketView) -> None:
        """End the run after the last order."""
        if self._is_done():
            signal.raise_signal(signal.SIGINT)


def order(number: int) -> dict[str, Any]:
    """Return an order at the best price."""
    return {
        "marketId": MARKET,
        "tokenId": TOKEN,
        "maker": f"0x{1 + number % 5:040x}",
        "side": 0,
        "price": PRICE,
        "size": str(WEI),
    }


def send_orders(url: str, count: int) -> None:
    """Send orders, and cancel each before the next."""
    with httpx.Client(base_url=url, trust_env=False) as http:
        for number in range(count):
            body = order(number)
            order_id = http.post("/api/orders/gasless", json=body).json()["orderId"]
            time.sleep(PAUSE_S)
            maker = {"maker": body["maker"]}
            http.request("DELETE", f"/api/orders/{order_id}", json=maker)
            time.sleep(PAUSE_S)


def measured_ns(url: str, recording: Path, count: int) -> list[int]:
    """Return the times of a run over orders of another process."""
    answer = httpx.post(f"{url}/api/orders/gasless", json=order(0), trust_env=False)
    check_equal("status of an order", 200, answer.status_code)
    command = [sys.executable, "-m", "benchmarks.bench_paper", url, str(count)]
    sender = subprocess.Popen(command)
    strategy, on_data = Quoter(lambda: sender.poll() is not None), Feed.on_data

    def stamped(feed: Feed, data: bytes) -> None:
        strategy.received_ns = strategy.received_ns or time.perf_counter_ns()
        on_data(feed, data)
        if b'"channel":"orderbook"' not in data:
            strategy.received_ns = 0

    Feed.on_data = stamped  # type: ignore[method-assign, assignment]
    try:
        paper(url, strategy, markets=[MARKET], record=recording, every_ns=EVERY_NS, proxy=None)
    finally:
        Feed.on_data = on_data  # type: ignore[method-assign]
        sender.terminate()
        code = sender.wait()
    check_equal("exit code of the sender", 0, code)
    return strategy.taken_ns


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    if shutil.which("taskset") is None:
        yield Row("paper: not measured, it needs taskset", "", "", None)
        return
    count = NUM_QUICK if quick else NUM_ORDERS
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        path = Path(folder)
        with server(path / "data", "process") as side:
            taken_ns = measured_ns(side.url, path / "feed.jsonl", count)
    cuts = [each / 1e6 for each in quantiles(taken_ns, n=100)]
    title = f"paper: from message to strategy, p50 and p99 of {len(taken_ns)}"
    target = f"p99 < {P99_TARGET_MS:g} ms"
    shown = f"{cuts[49]:.2f}, {cuts[98]:.2f} ms"
    yield Row(title, target, shown, cuts[98] < P99_TARGET_MS)


if __name__ == "__main__":
    send_orders(sys.argv[1], int(sys.argv[2]))
