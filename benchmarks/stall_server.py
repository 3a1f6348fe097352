"""A server that measures the CPU time of each iteration of its event loop.

Prints its port first. Each input line is a command: ``fill MARKETS MAKER COUNT PRICE EXPIRATION_S``
places resting sell orders; ``open FIRST COUNT`` opens empty markets; ``worst`` replies with the
longest iteration since the last ``worst``, in microseconds, without other threads; ``resident``
replies with the memory of the process in bytes.
"""

import asyncio
import selectors
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_memory import resident
from benchmarks.feed_server import LIMITS, write_line
from clob import AddMarket, Limits, Market, Order, SetLimits, Side, Submit, TimeInForce
from clob_server.app import App
from clob_server.service import Service
from clob_server.settings import Settings
from clob_server.transport.server import HttpServer, config_for

SIZE = 10**18
ORDERS_MAX = 1 << 20
TOGETHER = 500
"""Orders that are placed, or markets that are opened, in one commit."""


class TimedSelector(selectors.DefaultSelector):
    """Measures the CPU time of the thread between two calls of ``select``."""

    def __init__(self) -> None:
        super().__init__()
        self._began_s = time.thread_time()
        self.worst_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events; the iteration before ends here."""
        self.worst_s = max(self.worst_s, time.thread_time() - self._began_s)
        events = super().select(timeout)
        self._began_s = time.thread_time()
        return events

    def take_us(self) -> int:
        """Return the longest iteration, and begin again."""
        taken_us, self.worst_s = round(self.worst_s * 1e6), 0.0
        return taken_us


def numbered_market(number: int) -> Market:
    """Return a market with two tokens."""
    return Market(id=f"m{number}", yes=str(2 * number + 1), no=str(2 * number + 2))


async def open_markets(service: Service, first: str, count: str) -> int:
    """Open empty markets."""
    numbers = range(int(first), int(first) + int(count))
    for start in range(0, len(numbers), TOGETHER):
        part = numbers[start : start + TOGETHER]
        commands = (AddMarket(market=numbered_market(number)) for number in part)
        await asyncio.gather(*map(service.sequencer.submit, commands))
    return len(service.state.markets)


async def fill(
    service: Service, markets: str, maker: str, count: str, price: str, expiration_s: str
) -> int:
    """Place sell orders at a price, or at all prices for 0, in that many markets."""
    num_markets, fixed, expires = int(markets), int(price), int(expiration_s)
    nonce = service.state.matcher.nonce(maker)
    missing = [n for n in range(num_markets) if f"m{n}" not in service.state.markets]
    for number in missing:
        await service.sequencer.submit(AddMarket(market=numbered_market(number)))
    placed: list[asyncio.Task[Any]] = []
    for index in range(int(count)):
        number = index % num_markets

        def submit(now_ms: int, index: int = index, number: int = number) -> Submit:
            return Submit(
                market=f"m{number}",
                now_ms=now_ms,
                order=Order(
                    id=service.sequencer.next_order_id(now_ms),
                    token=str(2 * number + 1),
                    maker=maker,
                    side=Side.SELL,
                    price=fixed or 50 + index % 50,
                    size=SIZE,
                    time_in_force=TimeInForce.GTD if expires else TimeInForce.GTC,
                    expiration_s=expires,
                    nonce=nonce,
                ),
            )

        placed.append(asyncio.create_task(service.sequencer.submit(submit)))
        if len(placed) == TOGETHER:
            await asyncio.gather(*placed)
            placed.clear()
    await asyncio.gather(*placed)
    return len(service.state.matcher)


async def main(selector: TimedSelector) -> None:
    """Serve, and run the commands from standard input."""
    settings = Settings(
        data_dir=sys.argv[1], port=0, chain="none", rate_limits=False, snapshot_commands=0
    )
    service = Service(settings)
    app, loop = App(service), asyncio.get_running_loop()
    port: asyncio.Future[int] = loop.create_future()
    server = HttpServer(
        config_for(app, port=0, limits=LIMITS, drain_s=0, grace_s=5),
        on_listening=lambda host, number: port.set_result(number),
    )
    serving = asyncio.create_task(server.serve())
    write_line(await port)
    limits = Limits(orders_max=ORDERS_MAX)
    await service.sequencer.submit(SetLimits(limits=limits))
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, *words = line.decode().split()
        if name == "fill":
            write_line(await fill(service, *words))
        elif name == "open":
            write_line(await open_markets(service, *words))
        elif name == "resident":
            write_line(resident())
        else:
            write_line(selector.take_us())
    server.end()
    await serving


def run() -> None:
    """Run the server on a loop that is measured."""
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    selector = TimedSelector()

    def new_loop() -> Any:
        return asyncio.SelectorEventLoop(selector)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(selector))


if __name__ == "__main__":
    run()
