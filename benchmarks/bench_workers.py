"""Several processes: what an order costs the one that commits, how far feeds are apart, the total.

The first process gets orders that were verified elsewhere over the protocol of nodes, as fast as it
takes them; its processor time per order bounds what any number of workers or nodes can place. The
lag is the time from an event at a WebSocket of the node that took the order to the same event at
another node, at 1,000 orders per second over three nodes and three nats-servers on this machine.
The totals are those of wrk over 32 connections, which shares the processors with the server.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from websockets.asyncio.client import connect

from benchmarks.bench_http import Side, cpu_us, metric, missing_tools, requests, run
from benchmarks.measure import Row
from benchmarks.orders import MARKET, signed_bodies
from benchmarks.workload import cache_dir
from clob.codec import decode
from clob.codec.layout import FIRST_FOREIGN_KIND as OWN
from clob.commands import Submit
from clob_server.auth.api_keys import ids_key
from clob_server.cluster.messages import FromOwner, PeerPlace, PeerPlaced
from clob_server.cluster.peers import OwnerPeer
from clob_server.log import SqliteLog
from clob_server.settings import Settings
from tests.server.cluster.nodes import cluster
from tests.server.log.nats_servers import nats_path

PLACED = 30_000
UNANSWERED = 512
"""Orders that are sent before the first is answered."""
PLACE_MAX_US = 40.0
LAG_MAX_MS = 20.0
RATE = 1_000
LAG_S = 8
WARM = 50
SENDERS = 16
TAKEN_S = 4
OPENER = b"bench"


@contextmanager
def server(folder: Path, workers: int) -> Iterator[Side]:
    """Run a server with so many processes, until all of them answer."""
    command = [
        sys.executable, "-m", "clob_server", "run", "--chain", "none", "--port", "0",
        "--data-dir", str(folder), "--rate-limits", "off", "--log-level", "error",
        "--drain-s", "0", "--workers", str(workers),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        while workers > 1 and metric(url, "clob_workers") != workers - 1:
            time.sleep(0.1)
        try:
            yield Side(url, process.pid)
        finally:
            process.terminate()
            process.wait()


# ----- the first process ---------------------------------------------------------------------


def verified(folder: Path, count: int) -> list[bytes]:
    """Return the commands of so many signed orders, as a server has logged them."""
    domain = Settings().domain
    lines = [("POST", "/api/orders", body) for body in signed_bodies(count, domain, 7)]
    with server(folder / "logged", 1) as side:
        run(side, requests(folder / "orders", lines), count // 5_000)
    with closing(SqliteLog(folder / "logged")) as log:
        commands = [raw for frame in log.read() for raw in frame.raw]
    return [bytes(raw) for raw in commands if raw[0] < OWN and type(decode(raw)) is Submit]


def listening_port(side: Side) -> int:
    """Return the port at which a first process listens for workers."""
    listed = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    ports = [
        int(line.split()[3].rpartition(":")[2])
        for line in listed.splitlines()
        if f"pid={side.pid}," in line
    ]
    return next(port for port in ports if not side.url.endswith(f":{port}"))


async def place_all(port: int, key: bytes, submits: list[bytes]) -> None:
    """Place orders over the protocol of nodes, a bounded number at a time."""
    opened, done = asyncio.Event(), asyncio.Event()
    rest = iter(enumerate(submits, 1))
    left = len(submits)

    def send(count: int) -> None:
        for _ in range(count):
            if (each := next(rest, None)) is not None:
                peer.send(PeerPlace(*each, OPENER, None))

    def receive(message: FromOwner) -> None:
        nonlocal left
        assert type(message) is PeerPlaced
        assert message.seq, message
        left -= 1
        send(1)
        if not left:
            done.set()

    loop = asyncio.get_running_loop()
    _, peer = await loop.create_connection(
        lambda: OwnerPeer(key, "bench", opened.set, receive, lambda: None), "127.0.0.1", port
    )
    await opened.wait()
    send(UNANSWERED)
    await done.wait()
    peer.transport.close()


def placing(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Measure the processor time of the first process per order that a worker has verified."""
    submits = verified(folder, PLACED // 3 if quick else PLACED)
    taken, rates = [], []
    for turn in range(1 if quick else 3):
        data = folder / f"placed{turn}"
        with server(data, 2) as side:
            key, port = ids_key(data, lambda: 0), listening_port(side)
            before, start = cpu_us(side.pid), time.perf_counter()
            asyncio.run(place_all(port, key, submits))
            rates.append(len(submits) / (time.perf_counter() - start))
            taken.append((cpu_us(side.pid) - before) / len(submits))
    us = median(taken)
    yield Row(
        "workers: processor of the first process per verified order",
        f"<= {PLACE_MAX_US:.0f} us",
        f"{us:.1f} us",
        us <= PLACE_MAX_US,
    )
    yield Row("    orders per second", "", f"{median(rates):,.0f}", None)


# ----- feeds ---------------------------------------------------------------------------------


async def send_orders(url: str, bodies: list[bytes]) -> None:
    """Send orders at a fixed rate over some connections."""
    host, port = url.split("//")[1].split(":")
    free: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(SENDERS):
        free.put_nowait(await asyncio.open_connection(host, int(port)))

    async def send(body: bytes) -> None:
        reader, writer = await free.get()
        head = b"POST /api/orders HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\n"
        writer.write(head % host.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body))
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in answer[:20], answer
        length = answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        free.put_nowait((reader, writer))

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, body in enumerate(bodies):
            await asyncio.sleep(start + number / RATE - time.perf_counter())
            group.create_task(send(body))
    while not free.empty():
        free.get_nowait()[1].close()


async def receive_events(url: str, seen: dict[int, float], ready: asyncio.Event) -> None:
    """Note when each event of the market arrives at a WebSocket."""
    async with connect(f"{url.replace('http', 'ws')}/ws", max_size=None) as socket:
        wanted = {"type": "subscribe", "channel": "orderbook", "marketId": MARKET, "extended": True}
        await socket.send(json.dumps(wanted))
        async for message in socket:
            now = time.perf_counter()
            ready.set()
            seq = json.loads(message).get("seq")
            if seq is not None:
                seen.setdefault(seq, now)


async def lags_ms(taker: str, other: str, bodies: list[bytes]) -> list[float]:
    """Return how much later each event arrives at another node than at the one with the orders."""
    await send_orders(taker, bodies[:WARM])
    places: list[dict[int, float]] = [{}, {}]
    readers = []
    for url, seen in zip((taker, other), places, strict=True):
        ready = asyncio.Event()
        readers.append(asyncio.create_task(receive_events(url, seen, ready)))
        await ready.wait()
    await send_orders(taker, bodies[WARM:])
    await asyncio.sleep(1)
    for each in readers:
        each.cancel()
    first, second = places
    return [1e3 * (second[seq] - first[seq]) for seq in first if seq in second]


def feed_lag(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Measure the lag between the feeds of two nodes of a cluster."""
    name = "cluster: feed lag between nodes at 1,000 orders/s, p99"
    if nats_path() is None:
        yield Row(f"{name}: not measured, needs nats-server", "", "", None)
        return
    count = RATE * (2 if quick else LAG_S)
    bodies = [body.encode() for body in signed_bodies(count, Settings().domain, 9)]
    with cluster(folder / "cluster", log_level="warning") as nodes:
        taker, other = nodes.followers()
        lags = sorted(asyncio.run(lags_ms(taker.live.url, other.live.url, bodies)))
    p99 = lags[int(0.99 * len(lags))]
    yield Row(name, f"<= {LAG_MAX_MS:.0f} ms", f"{p99:.1f} ms", p99 <= LAG_MAX_MS)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started: history, then the workers."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]


# ----- the total -----------------------------------------------------------------------------


def totals(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Compare the orders per second of one process with those of two."""
    count = 16_000 * TAKEN_S
    lines = [("POST", "/api/orders", body) for body in signed_bodies(count, Settings().domain, 8)]
    file = requests(folder / "totals", lines)
    pairs, taken = [], []
    for turn in range(1 if quick else 3):
        rates, costs = [], []
        for workers in (1, 2):
            with server(folder / f"total{turn}-{workers}", workers) as side:
                pids = [side.pid, *children_of(side.pid)]
                before = [cpu_us(pid) for pid in pids]
                load, count = run(side, file, TAKEN_S)
                costs.append(
                    [(cpu_us(pid) - at) / count for pid, at in zip(pids, before, strict=True)]
                )
                rates.append(load.per_s)
        pairs.append(rates)
        taken.append(costs)
    ratio = median(two / one for one, two in pairs)
    name = "workers: signed create, two processes / one, on these processors"
    yield Row(name, "", f"{ratio:.2f}", None)
    yield Row("    per second, two", "", f"{median(two for _, two in pairs):,.0f}", None)
    for name, workers, place in (
        ("one process", 0, 0),
        ("its history process", 0, 1),
        ("first of two, with half of the orders", 1, 0),
        ("second of two, with the other half", 1, 2),
    ):
        us = median(costs[workers][place] for costs in taken)
        yield Row(f"    processor of {name}, per order", "", f"{us:.0f} us", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    if missing := missing_tools():
        yield Row(f"workers: not measured, needs {missing}", "", "", None)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache_dir())))
        for measure in (placing, feed_lag, totals):
            yield from measure(folder, quick=quick)
