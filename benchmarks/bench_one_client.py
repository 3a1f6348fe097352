"""A signed create of a single client, compared with the sum of its parts, each alone.

The parts are a hello request, one verification, and one acknowledgement of the log. Over one
connection a request follows the other; the server and the parts have one core, the client and the
history process the other. All four run in turns of a few milliseconds, and each turn has a ratio of
its own: a shared machine changes its speed by half within seconds.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.bench_http import LOAD_CPU, SERVER_CPU, Side, hello, server
from benchmarks.bench_socket import HTTP, RECEIVED, connected, http_request
from benchmarks.measure import Row, check_equal
from benchmarks.orders import MARKET, TOKENS, signed_bodies
from benchmarks.workload import cache_dir
from clob import AddMarket, Market
from clob.signing import SignedOrder, order_hash, to_order, verify
from clob_server.api.options import OrderOptions
from clob_server.core.clock import wall_clock_ms
from clob_server.core.ids import KEY_BYTES, Ids
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.log import SqliteLog
from clob_server.orders.place import ParsedOrder
from clob_server.settings import Settings

RATIO_MAX = 1.25
PER_TURN = 20
WARM_TURNS = 20
HELLO = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PARTS_SEED = 1_000


class Sizes(NamedTuple):
    """Rounds, each with servers of its own, and turns of one round."""

    rounds: int = 5
    turns: int = 200


QUICK = Sizes(rounds=1, turns=5)


class Turn(NamedTuple):
    """Medians of one turn, in nanoseconds."""

    create: float
    hello: float
    verification: float
    acknowledgement: float
    """From the command to its durable result, in the sequencer."""

    @property
    def parts(self) -> float:
        """The sum of the parts."""
        return self.hello + self.verification + self.acknowledgement


# ----- the parts in a process of their own ---------------------------------------------------


async def run_parts(folder: Path) -> None:
    """Verify signed orders and commit them to a log in a folder, once per line of standard input.

    Writes the median times of each turn as JSON.
    """
    domain, orders = Settings().domain, signed_orders()
    with closing(SqliteLog(folder)) as log:
        engine = Sequencer(log, ServerState(), wall_clock_ms, ids=Ids(bytes(KEY_BYTES)))
        run = asyncio.create_task(engine.run())
        await engine.submit(AddMarket(market=Market(id=MARKET, yes=str(TOKENS[0]), no="")))
        for _ in sys.stdin:
            verified_ns, acknowledged_ns = [], []
            turn = list(islice(orders, PER_TURN))
            for each in turn:
                assert each.signed is not None
                begin_ns = time.perf_counter_ns()
                verify(each.signed, domain)
                verified_ns.append(time.perf_counter_ns() - begin_ns)
            for work in [each.new() for each in turn]:
                begin_ns = time.perf_counter_ns()
                await engine.submit(work)
                acknowledged_ns.append(time.perf_counter_ns() - begin_ns)
            sys.stdout.write(f"{json.dumps([median(verified_ns), median(acknowledged_ns)])}\n")
            sys.stdout.flush()
        engine.stop()
        await run


def signed_orders() -> Iterator[ParsedOrder]:
    """Yield signed orders as the server reads them."""
    domain = Settings().domain
    for seed in count(PARTS_SEED):
        for body in signed_bodies(1_000, domain, seed):
            signed = SignedOrder.from_json(json.loads(body))
            order, digest = to_order(signed, id=""), order_hash(signed, domain)
            yield ParsedOrder(order, OrderOptions(MARKET), False, signed, digest)


@contextmanager
def started_parts(folder: Path) -> Iterator[Callable[[], Sequence[float]]]:
    """Start the process of the parts; yield the function that runs them and returns their times."""
    command = ["taskset", "-c", SERVER_CPU, sys.executable, "-m", __name__, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines_in, lines_out = process.stdin, process.stdout

        def measure() -> Sequence[float]:
            lines_in.write("\n")
            times: Sequence[float] = json.loads(lines_out.readline())
            return times

        yield measure
        lines_in.close()


# ----- requests ------------------------------------------------------------------------------


def port_of(side: Side) -> int:
    """Return the port of a server."""
    return int(side.url.rpartition(":")[2])


def median_ns(connection: socket.socket, requests: Sequence[bytes], end: bytes) -> float:
    """Send requests one after the other; return the median time until the end of a reply."""
    taken_ns = []
    for each in requests:
        begin_ns = time.perf_counter_ns()
        connection.sendall(each)
        reply = connection.recv(RECEIVED)
        while not reply.endswith(end):  # uvicorn writes head and body one after the other
            reply += connection.recv(RECEIVED)
        taken_ns.append(time.perf_counter_ns() - begin_ns)
        check_equal("status", b"200", reply[9:12])
    return median(taken_ns)


def measured(folder: Path, seed: int, turns: int) -> list[Turn]:
    """Return the turns of one round, after some to warm up."""
    num_orders = (WARM_TURNS + turns) * PER_TURN
    bodies = signed_bodies(num_orders, Settings().domain, seed)
    creates = [http_request(body) for body in bodies]
    hellos = [HELLO] * PER_TURN
    found = []
    with (
        server(folder / "server", "process") as side,
        hello() as other,
        started_parts(folder / "log") as measure_parts,
        connected(port_of(side), HTTP) as ours,
        connected(port_of(other), HTTP) as theirs,
    ):
        for first in range(0, num_orders, PER_TURN):
            create = median_ns(ours, creates[first : first + PER_TURN], b"}")
            plain = median_ns(theirs, hellos, b"hello")
            found.append(Turn(create, plain, *measure_parts()))
    return found[WARM_TURNS:]


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    if shutil.which("taskset") is None:
        yield Row("one client: not measured, needs taskset", "", "", None)
        return
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    turns: list[Turn] = []
    try:
        for seed in range(sizes.rounds):
            with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
                turns += measured(Path(name), seed, sizes.turns)
    finally:
        os.sched_setaffinity(0, affinity)
    ratio = median(each.create / each.parts for each in turns)
    yield Row(
        "one client: signed create / hello, verification and log acknowledgement, each alone",
        f"<= {RATIO_MAX:.2f}",
        f"{ratio:.2f}",
        ratio <= RATIO_MAX,
        median(each.parts for each in turns),
        median(each.create for each in turns),
    )
    for name in ("hello", "verification", "acknowledgement"):
        taken_us = median(getattr(each, name) for each in turns) / 1e3
        yield Row(f"    {name}", "", f"{taken_us:.0f} us", None)


if __name__ == "__main__":
    asyncio.run(run_parts(Path(sys.argv[1])))
