"""Stall benchmark: the longest time that any request holds the event loop.

Each row sends hostile input to one route while 100 clients read the feed. The server measures the
CPU time of each iteration of its loop, which other work on the machine does not change much; it
runs on asyncio's own loop, since uvloop has no hook for this. Clients of the feed follow the market
of the attack, ten of them its maker as well.
"""

import json
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
from eth_account import Account

from benchmarks.bench_feed import SERVER_CPU, LineProcess, run_module
from benchmarks.measure import Row
from benchmarks.workload import cache_dir
from clob.client import Client
from clob_server.auth.api_keys import TOKENS, secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint

LIMIT_MS = 50.0
NUM_SUBSCRIBERS, NUM_MAKERS = 100, 10
SETTLE_S = 0.3
"""Seconds until the feed has sent everything after a request."""
ALICE = Account.from_key(f"0x{0xA11CE:064x}")
BOB = f"0x{0xB0B:040x}"
SIZE = 10**18
TIMEOUT_S = 120


def now_s() -> int:
    """Return the time, Unix seconds."""
    return time.time_ns() // 10**9


class Readers:
    """WebSockets whose frames are read and dropped by a thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._selector = selectors.DefaultSelector()
        self._is_over = False
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def add(self, count: int = 1, **request: object) -> None:
        """Connect some times, and send a subscription each time."""
        for _ in range(count):
            self._connect(request)

    def _connect(self, request: dict[str, object]) -> None:
        client = socket.create_connection(("127.0.0.1", self._port))
        client.sendall(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        text = json.dumps({"type": "subscribe", **request}).encode()
        size = bytes((len(text),)) if len(text) < 126 else b"\x7e" + len(text).to_bytes(2)
        client.sendall(b"\x81" + bytes((size[0] | 0x80,)) + size[1:] + bytes(4) + text)
        client.setblocking(False)
        self._selector.register(client, selectors.EVENT_READ)

    def _read(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select(0.05):
                connection: Any = key.fileobj
                if not connection.recv(1 << 20):
                    self._selector.unregister(connection)

    def close(self) -> None:
        """End the thread."""
        self._is_over = True
        self._thread.join()


class Attack:
    """A server, its clients, and the requests that hold it up."""

    def __init__(self, folder: Path, server: LineProcess, scale: float) -> None:
        self._server = server
        self._scale = scale
        [port] = server.read()
        self.readers = Readers(int(port))
        url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=url, timeout=TIMEOUT_S)
        token = mint(secret(folder, TOKENS), "bench", ADMIN, now_s())
        self.operator = Client(url, token=token, timeout_s=TIMEOUT_S)
        self.alice = Client(url, signer=ALICE, timeout_s=TIMEOUT_S)
        self.bob = Client(url, maker=BOB, timeout_s=TIMEOUT_S)

    def scaled(self, count: int) -> int:
        """Return a number of orders, fewer in a quick run."""
        return max(20, int(count * self._scale))

    def fill(self, count: int, markets: int = 1, price: int = 60, expiration_s: int = 0) -> None:
        """Place resting sell orders of ALICE."""
        self._server.request(
            "fill", markets, ALICE.address, self.scaled(count), price, expiration_s
        )

    def worst_ms(self, work: Callable[[], object]) -> float:
        """Return the longest iteration of the loop during some requests."""
        time.sleep(SETTLE_S)
        self._server.request("worst")
        work()
        time.sleep(SETTLE_S)
        return int(self._server.request("worst")[0]) / 1_000

    def buy(self, count: int) -> dict[str, object]:
        """Return an order that meets ``count`` resting orders."""
        size = str(self.scaled(count) * SIZE)
        return {
            "maker": BOB, "marketId": "m0", "tokenId": "1", "side": 0, "price": 99, "size": size,
        }  # fmt: skip

    def set_nonce(self) -> None:
        """Cancel all of ALICE's orders."""
        self.alice.set_nonce(self.alice.nonce + 1)

    def get(self, *paths: str) -> None:
        """Request paths as the operator."""
        for path in paths:
            self.http.get(path, headers=self.operator.headers).raise_for_status()


def scenarios(attack: Attack) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name of each attack and its requests; the code before it prepares the server."""
    attack.fill(20_000)
    bob, batch = attack.bob, [attack.buy(1_000)] * 20
    yield "idle", lambda: time.sleep(SETTLE_S)
    yield "batch of 20 orders, 1,000 trades each", lambda: bob.create_batch(batch)
    sweep = attack.buy(1_000)
    yield "one order, 1,000 trades", lambda: bob.create_gasless_order(sweep)
    yield "one order, 300 trades", lambda: bob.create_gasless_order(attack.buy(300))
    yield "simulate 1,000 trades", lambda: bob.simulate_order(sweep)
    yield "validate 1,000 trades", lambda: bob.validate_order(sweep)
    yield (
        "orders of a maker, 500",
        lambda: attack.get(
            "/api/orders?limit=500", f"/api/orders?limit=500&marketId=m0&maker={ALICE.address}"
        ),
    )
    yield (
        "user channel of a maker with 18,000 orders",
        lambda: attack.readers.add(channel="user", maker=ALICE.address, extended=True),
    )
    yield "nonce over 18,000 orders", attack.set_nonce
    attack.fill(10_000, markets=20, price=0)
    attack.readers.add(
        NUM_MAKERS, channel="user", maker=ALICE.address, marketId="m1", extended=True
    )
    yield "nonce over 10,000 orders of 20 markets", attack.set_nonce
    attack.fill(10_000, price=0)
    yield "cancel of all 10,000 orders", attack.alice.cancel_all
    attack.fill(10_000, price=0)
    yield (
        "10 clients resume 10,000 events",
        lambda: attack.readers.add(
            10,
            channel="orderbook",
            marketId="m0",
            extended=True,
            resume={"seq": attack.bob.orderbook("m0").seq - 9_990},
        ),
    )
    yield (
        "100 new subscribers of a full book",
        lambda: attack.readers.add(100, channel="orderbook", marketId="m0"),
    )


def further_scenarios(attack: Attack) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield reads, hostile bodies, and the commands that remove most orders."""
    attack.set_nonce()
    attack.fill(10_000, price=0, expiration_s=now_s() + 30)
    deadline = now_s() + 34
    attack.fill(1_000, markets=1_000)
    yield (
        "markets, 500 of 1,000",
        lambda: attack.get("/api/markets?limit=500", "/api/admin/markets?limit=500"),
    )
    yield (
        "trades, pages of 100",
        lambda: attack.get(
            "/api/markets/m0/trades?limit=100", "/api/markets/m0/trades?limit=100&cursor=20100"
        ),
    )
    yield "documents, metrics, admin lists", lambda: attack.get(
        "/", "/openapi.json", "/asyncapi.json", "/docs", "/metrics", "/api/admin/keys",
        "/api/admin/limits", "/api/admin/engine", "/api/admin/chain",
    )  # fmt: skip
    yield "bodies of 64 KiB: deep, long, wide", lambda: [
        attack.http.post(path, content=body, headers={"Content-Type": "application/json"})
        for path in ("/api/orders", "/api/orders/batch", "/api/orders/nonce")
        for body in (b"[" * 65_000, b'{"orders":[' + b"{}," * 21_000 + b"{}]}",
                     b'{"salt":"' + b"9" * 65_000 + b'"}', b'{"a":' * 10_000)
    ]  # fmt: skip
    yield "10,000 orders expire in one second", lambda: time.sleep(max(0.0, deadline - now_s()))
    attack.fill(10_000, price=0)
    yield (
        "a market with 10,000 orders is resolved",
        lambda: attack.operator.admin_resolve_market("m0", "yes"),
    )


@contextmanager
def attacked(*, quick: bool) -> Iterator[Attack]:
    """Run a server with subscribers."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name)
        with run_module(SERVER_CPU, "benchmarks.stall_server", folder) as server:
            attack = Attack(folder, server, 0.02 if quick else 1)
            try:
                attack.fill(1)
                for number in range(NUM_SUBSCRIBERS):
                    is_extended = number % 2 == 1
                    attack.readers.add(channel="orderbook", marketId="m0", extended=is_extended)
                attack.readers.add(NUM_MAKERS, channel="user", maker=BOB, extended=True)
                yield attack
            finally:
                attack.readers.close()


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table: the worst of all, and each."""
    with attacked(quick=quick) as attack:
        each_scenario = chain(scenarios(attack), further_scenarios(attack))
        taken = [(name, attack.worst_ms(work)) for name, work in each_scenario]
    worst = max(ms for _, ms in taken)
    yield Row(
        f"stall: longest iteration of the loop, {NUM_SUBSCRIBERS} subscribers",
        f"<= {LIMIT_MS:.0f} ms",
        f"{worst:.1f} ms",
        worst <= LIMIT_MS,
    )
    for name, ms in taken:
        yield Row(f"    {name}", "", f"{ms:.1f} ms", None)
