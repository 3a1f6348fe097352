"""The feed: what it costs to tell many of an event, and how long until they have read of it.

A process on one core tells, another on the other core has all the clients and reads. Beside the
feed stands a loop that writes a prebuilt frame of the same size to as many bare transports of
uvloop, in the same process; the two run in turn, and what is compared is time of the processor.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from benchmarks.measure import Row, alternate, at_least, same

SERVER_CPU, READER_CPU = "0", "1"
NUM_SUBSCRIBERS, NUM_MANY = 100, 1_000
RATIO_MIN, P99_MS_MAX = 0.75, 10.0
P99_RATIO_MAX = 1.5
"""By how much longer it may take than bare transports: these had 6.6 ms where 10 was set."""
PER_S = 50
PACED_ROUNDS = 5


class Sizes(NamedTuple):
    """How much of everything."""

    rounds: int = 9
    events: int = 1_000
    paced: int = 500


QUICK = Sizes(rounds=3, events=200, paced=50)


class Paced(NamedTuple):
    """How long until an event was read, and what a message cost, in ns."""

    p99_ns: int
    p50_ns: int
    message_ns: float


class Told:
    """A process that takes lines and answers each with one.

    Args:
        process: the process.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def hear(self) -> list[str]:
        """Give the words of a line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def ask(self, *words: object) -> list[str]:
        """Say a line, and give the words of the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self.hear()


@contextmanager
def running(cpu: str, module: str, *arguments: object) -> Iterator[Told]:
    """A module of this package as a process."""
    command = ["taskset", "-c", cpu, sys.executable, "-m", module, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Told(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


def reading(kind: str, port: str, count: int) -> AbstractContextManager[Told]:
    """So many clients."""
    return running(READER_CPU, "benchmarks.feed_reader", kind, port, count)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    sizes = QUICK if quick else Sizes()
    with running(SERVER_CPU, "benchmarks.feed_server") as server:
        port, raw_port = server.hear()
        with (
            reading("ws", port, NUM_SUBSCRIBERS) as ws,
            reading("raw", raw_port, NUM_SUBSCRIBERS) as raw,
        ):
            same("the clients", ["ready", "ready"], [*ws.hear(), *raw.hear()])

            def took_ns(kind: str) -> int:
                return int(server.ask(kind, sizes.events)[0])

            messages = sizes.events * NUM_SUBSCRIBERS
            pair = alternate(
                partial(took_ns, "raw"), partial(took_ns, "ours"), messages, sizes.rounds
            )
            heard = int(ws.ask(messages * sizes.rounds)[0])
            same("what was heard", messages * sizes.rounds, heard)
        yield at_least(
            f"feed: messages to {NUM_SUBSCRIBERS} subscribers / raw writes", RATIO_MIN, pair
        )
        ours, bare = paced(server, {"ws": port, "raw": raw_port}, sizes)
        ratio = ours.p99_ns / bare.p99_ns
        yield Row(
            f"feed: p99 until read, {NUM_MANY:,} subscribers, {PER_S} events/s",
            f"<= {P99_MS_MAX:.1f} ms",
            f"{ours.p99_ns / 1e6:.2f} ms",
            ours.p99_ns / 1e6 <= P99_MS_MAX,
            bare.message_ns,
            ours.message_ns,
        )
        yield Row(
            "the same / bare transports",
            f"<= {P99_RATIO_MAX:.2f}",
            f"{ratio:.2f}",
            ratio <= P99_RATIO_MAX,
        )
        for name, found in (
            ("p50", ours.p50_ns),
            ("raw, p99", bare.p99_ns),
            ("raw, p50", bare.p50_ns),
        ):
            yield Row(f"the same, {name}", "", f"{found / 1e6:.2f} ms", None)


def paced(server: Told, ports: dict[str, str], sizes: Sizes) -> list[Paced]:
    """How long until many have read, by kind: in turn, and of each the median by its p99."""
    found: dict[str, list[Paced]] = {kind: [] for kind in ports}
    with ExitStack() as stack:
        crowds = {
            kind: stack.enter_context(reading(kind, port, NUM_MANY)) for kind, port in ports.items()
        }
        for many in crowds.values():
            same("the clients", ["ready"], many.hear())
        for _ in range(PACED_ROUNDS):
            for kind, many in crowds.items():
                found[kind].append(paced_once(server, kind, many, sizes))
    return [sorted(some)[PACED_ROUNDS // 2] for some in found.values()]


def paced_once(server: Told, kind: str, many: Told, sizes: Sizes) -> Paced:
    """How long until many have read."""
    way = {"ws": "ours_paced", "raw": "raw_paced"}[kind]
    cpu_ns = int(server.ask(way, PER_S, sizes.paced)[0])
    count, p50_ns, p99_ns = map(int, many.ask(NUM_MANY * sizes.paced))
    same("what was heard", NUM_MANY * sizes.paced, count)
    return Paced(p99_ns, p50_ns, cpu_ns / count)
