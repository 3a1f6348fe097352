"""Client benchmarks: an order of the client, compared with the same request by httpx alone.

Both sides send through the same kind of httpx client to a transport that answers from memory, with
the headers and the body of a real answer, so that the difference is the work of the client: fields,
hash, JSON, budgets, steps and result. The curve operation of the signature is timed in the same
run and is subtracted. All times are CPU times, since nothing here waits.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
from coincurve import PrivateKey

from benchmarks.measure import Row, alternate, frozen_gc
from clob.client import AsyncClient, Client
from clob.wire.info import RootBody
from clob.wire.markets import MarketBody
from clob.wire.orders import CreatedBody

NUM_ORDERS, NUM_QUICK = 400, 20
ROUNDS, ROUNDS_QUICK = 21, 3
TARGET_US = 60
KEY = b"\x07" * 32
URL = "http://exchange"
MARKET = MarketBody(
    market_id="rain", yes_token_id="101", no_token_id="102", mode="open", question="",
    description="", outcome=None, min_size="10000000000000000", resting_fee_rate_bps=0,
    incoming_fee_rate_bps=0, complementary=False, lot_wei="1", condition_id=None,
    question_id=None, oracle=None, collateral=None, chain=None, settlement="none", custody=None,
    stalled=None, best_bid=40, best_ask=60, last_update=0, seq=0,
)  # fmt: skip
INFO = RootBody(
    name="clob", version="1", description="", documentation="", endpoints={}, status="beta",
    rate_limit={}, support={}, environment="test", websocket="", chain=None,
    eip712={
        "name": "clob", "version": "1", "chainId": 31337,
        "verifyingContract": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
    },
)  # fmt: skip
CREATED = CreatedBody(
    success=True, order_id="ord_1767225600_abcdef", matched=False, trades=[], status="open"
)
HEADERS = {
    "content-type": "application/json",
    "x-request-id": "0123456789abcdef",
    "ratelimit": '"orders";r=29;t=60',
    "ratelimit-policy": '"orders";q=30;w=60',
    "x-ratelimit-limit": "30",
    "x-ratelimit-remaining": "29",
    "x-ratelimit-reset": "1767225660",
    "x-applied-seq": "123456",
}


class Memory(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport that answers from memory and keeps the last request."""

    last: httpx.Request

    def __init__(self) -> None:
        self._answers = {
            "/": msgspec.json.encode(INFO),
            "/api/markets/rain": msgspec.json.encode(MARKET),
            "/api/orders": msgspec.json.encode(CREATED),
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.last = request
        content = self._answers[request.url.path]
        return httpx.Response(200, headers=HEADERS, content=content)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


def rows(*, quick: bool) -> list[Row]:
    """Return the rows of both clients."""
    count, rounds = (NUM_QUICK, ROUNDS_QUICK) if quick else (NUM_ORDERS, ROUNDS)
    with asyncio.Runner() as runner:
        return [blocking(count, rounds), awaiting(count, rounds, runner)]


def blocking(count: int, rounds: int) -> Row:
    """Compare the blocking client."""
    memory = Memory()
    http = httpx.Client(transport=memory)
    client = Client(URL, signer=KEY, http=http)

    def order(number: int) -> CreatedBody:
        return client.buy("rain", "YES", price=1 + number % 99, size="2.5")

    order(0)
    content, headers = memory.last.read(), sent_headers(client.headers)

    def plain() -> None:
        for _ in range(count):
            response = http.request(
                "POST", f"{URL}/api/orders", content=content, headers=headers, timeout=10
            )
            assert response.content

    def ours() -> None:
        for number in range(count):
            order(number)

    return compare("client: order over HTTP, beyond the signature", plain, ours, count, rounds)


def awaiting(count: int, rounds: int, runner: asyncio.Runner) -> Row:
    """Compare the asynchronous client."""
    memory = Memory()
    http = httpx.AsyncClient(transport=memory)
    client = AsyncClient(URL, signer=KEY, http=http)

    async def order(number: int) -> CreatedBody:
        return await client.buy("rain", "YES", price=1 + number % 99, size="2.5")

    runner.run(order(0))
    content, headers = memory.last.read(), sent_headers(client.headers)

    async def plain() -> None:
        for _ in range(count):
            response = await http.request(
                "POST", f"{URL}/api/orders", content=content, headers=headers, timeout=10
            )
            assert response.content

    async def ours() -> None:
        for number in range(count):
            await order(number)

    return compare(
        "client: order over HTTP, asynchronous, beyond the signature",
        lambda: runner.run(plain()),
        lambda: runner.run(ours()),
        count,
        rounds,
    )


def cpu_ns(work: Callable[[], None]) -> int:
    """Return the CPU time of one call in nanoseconds."""
    with frozen_gc(enabled=False):
        begin_ns = time.process_time_ns()
        work()
        return time.process_time_ns() - begin_ns


def sent_headers(headers: Any) -> dict[str, str]:
    """Return the headers of a request of the client."""
    return {**headers, "content-type": "application/json"}


def compare(
    name: str, plain: Callable[[], None], ours: Callable[[], None], count: int, rounds: int
) -> Row:
    """Return the row of the difference, less the curve operation."""
    pair = alternate(lambda: cpu_ns(plain), lambda: cpu_ns(ours), count, rounds)
    private, digest = PrivateKey(KEY), b"\x09" * 32

    def sign() -> None:
        for _ in range(count):
            private.sign_recoverable(digest, hasher=None)

    signature = alternate(lambda: cpu_ns(sign), lambda: cpu_ns(sign), count, rounds)
    overhead_us = (pair.ours_ns - pair.other_ns - signature.ours_ns) / 1_000
    return Row(
        name,
        f"<= {TARGET_US} us",
        f"{overhead_us:.1f} us",
        overhead_us <= TARGET_US,
        pair.other_ns,
        pair.ours_ns,
    )
