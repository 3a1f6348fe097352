"""Feed benchmarks: CPU time per broadcast message, and delay until many subscribers have read it.

The feed runs in one process on one core; all clients run in another process on the other core. The
baseline is a loop in the feed's process that writes a prebuilt frame of the same size to as many
bare uvloop transports. Both run in turn; CPU time is compared.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from benchmarks.measure import Row, alternate, at_least, check_equal

SERVER_CPU, READER_CPU = "0", "1"
NUM_SUBSCRIBERS, NUM_MANY = 100, 1_000
RATIO_MIN, P99_MS_MAX = 0.75, 10.0
P99_RATIO_MAX = 1.3
"""Limit of the p99 delay relative to bare transports, which took 6.6 ms when 10 ms was set."""
PER_S = 50
PACED_ROUNDS = 5


class Sizes(NamedTuple):
    """Rounds and events of one run."""

    rounds: int = 9
    events: int = 1_000
    paced: int = 500


QUICK = Sizes(rounds=3, events=200, paced=50)


class Paced(NamedTuple):
    """Delay until an event was read, and CPU time per message, in ns."""

    p99_ns: int
    p50_ns: int
    message_ns: float


class LineProcess:
    """A process that answers each input line with one output line.

    Args:
        process: the running process.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def read(self) -> list[str]:
        """Return the words of the next output line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def request(self, *words: object) -> list[str]:
        """Send a line and return the words of the reply."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self.read()


@contextmanager
def run_module(cpu: str, module: str, *arguments: object) -> Iterator[LineProcess]:
    """Run a module of this package as a process on one processor."""
    command = ["taskset", "-c", cpu, sys.executable, "-m", module, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield LineProcess(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


def start_readers(kind: str, port: str, count: int) -> AbstractContextManager[LineProcess]:
    """Start ``count`` clients in one process."""
    return run_module(READER_CPU, "benchmarks.feed_reader", kind, port, count)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    with run_module(SERVER_CPU, "benchmarks.feed_server") as server:
        port, raw_port = server.read()
        with (
            start_readers("ws", port, NUM_SUBSCRIBERS) as ws,
            start_readers("raw", raw_port, NUM_SUBSCRIBERS) as raw,
        ):
            check_equal("state of the clients", ["ready", "ready"], [*ws.read(), *raw.read()])

            def broadcast_ns(kind: str) -> int:
                return int(server.request(kind, sizes.events)[0])

            messages = sizes.events * NUM_SUBSCRIBERS
            pair = alternate(
                partial(broadcast_ns, "raw"), partial(broadcast_ns, "ours"), messages, sizes.rounds
            )
            received = int(ws.request(messages * sizes.rounds)[0])
            check_equal("messages received", messages * sizes.rounds, received)
        yield at_least(
            f"feed: messages to {NUM_SUBSCRIBERS} subscribers / raw writes", RATIO_MIN, pair
        )
        ours, bare = paced(server, {"ws": port, "raw": raw_port}, sizes)
        ratio = ours.p99_ns / bare.p99_ns
        yield Row(
            f"feed: p99 delay until read, {NUM_MANY:,} subscribers, {PER_S} events/s",
            f"<= {P99_MS_MAX:.1f} ms",
            f"{ours.p99_ns / 1e6:.2f} ms",
            ours.p99_ns / 1e6 <= P99_MS_MAX,
            bare.message_ns,
            ours.message_ns,
        )
        yield Row(
            "    the same / raw transports",
            f"<= {P99_RATIO_MAX:.2f}",
            f"{ratio:.2f}",
            ratio <= P99_RATIO_MAX,
        )
        for name, delay_ns in (
            ("p50", ours.p50_ns),
            ("raw transports, p99", bare.p99_ns),
            ("raw transports, p50", bare.p50_ns),
        ):
            yield Row(f"    {name}", "", f"{delay_ns / 1e6:.2f} ms", None)


def paced(server: LineProcess, ports: dict[str, str], sizes: Sizes) -> list[Paced]:
    """Measure the delay until many clients have read; return the median round of each kind."""
    rounds: dict[str, list[Paced]] = {kind: [] for kind in ports}
    with ExitStack() as stack:
        readers = {
            kind: stack.enter_context(start_readers(kind, port, NUM_MANY))
            for kind, port in ports.items()
        }
        for clients in readers.values():
            check_equal("state of the clients", ["ready"], clients.read())
        for _ in range(PACED_ROUNDS):
            for kind, clients in readers.items():
                rounds[kind].append(paced_once(server, kind, clients, sizes))
    return [sorted(each)[PACED_ROUNDS // 2] for each in rounds.values()]


def paced_once(server: LineProcess, kind: str, clients: LineProcess, sizes: Sizes) -> Paced:
    """Measure one round of paced events."""
    command = {"ws": "ours_paced", "raw": "raw_paced"}[kind]
    cpu_ns = int(server.request(command, PER_S, sizes.paced)[0])
    count, p50_ns, p99_ns = map(int, clients.request(NUM_MANY * sizes.paced))
    check_equal("messages received", NUM_MANY * sizes.paced, count)
    return Paced(p99_ns, p50_ns, cpu_ns / count)
