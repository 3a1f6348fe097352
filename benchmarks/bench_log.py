"""The log: how long until what was asked is durable and answered, and how long a start takes.

The engine alone, over a log in a folder, with no sockets. An acknowledgement is from the call of
``ask`` to the answer. Beside one client stands a write and an ``fdatasync`` of a page in the thread
of an executor, the two in turn. In the open loop commands come from another process by the
clock, whether the ones before are answered or not, so that a pause falls on all who come in it;
that is done five times, since a pause of the machine looks like one of ours.

A start is timed over a log as a server leaves it, where the papers of every order stand before it,
and over one of the commands of the engine alone. Both lead to an exchange.
"""

import asyncio
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.measure import Pair, Row, at_most, garbage, same
from benchmarks.workload import cache_dir, load
from clob import AddMarket, Command, Submit
from clob.journal import ZERO_HASH
from clob_server.commands import AnyCommand, Papers, encode
from clob_server.engine import Engine
from clob_server.exchange import Exchange
from clob_server.log import SqliteLog
from clob_server.recovery import recover, take_snapshot

CLIENT_MAX, TAIL_MS_MAX = 1.5, 4.0
RECOVER_PER_S, SNAPSHOT_S_MAX = 300_000, 2.0
PER_S = 10_000
OPEN_ROUNDS = 5
PER_FRAME = 64
NUM_SINCE = 1_000
BLOCK_BYTES = 4096
ASIDE = "aside"


class Sizes(NamedTuple):
    """How much of everything."""

    rounds: int = 7
    asks: int = 1_000
    open_s: float = 4.0
    closed_s: float = 2.0
    logged: int = 1_000_000
    since: int = NUM_SINCE


QUICK = Sizes(rounds=3, asks=50, open_s=0.2, closed_s=0.1, logged=50_000, since=500)


def at_index(sorted_ns: list[int], share: float) -> float:
    """The time in milliseconds that so large a share is done within."""
    return sorted_ns[min(len(sorted_ns) - 1, int(share * len(sorted_ns)))] / 1e6


def with_engine(
    folder: Path, work: Callable[[Engine], Coroutine[Any, Any, list[int]]]
) -> list[int]:
    """Have something done with an engine that works; the log must hold all of it afterwards."""

    async def main() -> list[int]:
        with closing(SqliteLog(folder)) as log:
            engine = Engine(log, Exchange(matcher_for(1, set(), accounts=False)), clock_ms)
            run = asyncio.create_task(engine.run())
            with garbage(collected=True):
                taken_ns = await work(engine)
            engine.stop()
            await run
            same("the log", engine.seq, sum(frame.count for frame in log.read()))
        return taken_ns

    return asyncio.run(main())


def clock_ms() -> int:
    """Tell the time."""
    return time.time_ns() // 1_000_000


async def timed_ask(
    engine: Engine, stream: Iterator[Command], taken_ns: list[int], begin: int = 0
) -> None:
    """Ask for what is next, and note how long it took from a moment that may lie before.

    What is next is settled as the batch is made, so that whoever asks the stream stays in order.
    """
    begin = begin or time.perf_counter_ns()
    await engine.ask(lambda _: next(stream))
    taken_ns.append(time.perf_counter_ns() - begin)


# ----- one client ----------------------------------------------------------------------------


def one_client(folder: Path, todo: list[Command], sizes: Sizes) -> Pair:
    """A durable acknowledgement beside one sync in a thread, the two in turn in one loop."""

    async def work(engine: Engine) -> list[int]:
        stream, pairs = iter(todo), []
        for turn in range(sizes.rounds):
            ours: list[int] = []
            theirs: list[int] = []
            for mine in (turn % 2 == 0, turn % 2 == 1):
                if mine:
                    for _ in range(sizes.asks):
                        await timed_ask(engine, stream, ours)
                else:
                    await synced(folder / ASIDE, sizes.asks, theirs)
            pairs.append((int(median(theirs)), int(median(ours))))
        return [value for pair in pairs for value in pair]

    found = with_engine(folder, work)
    theirs, ours = found[::2], found[1::2]
    ratios = [mine / other for other, mine in zip(theirs, ours, strict=True)]
    return Pair(median(theirs), median(ours), median(ratios))


async def synced(path: Path, count: int, taken_ns: list[int]) -> None:
    """Write a block and sync it in the thread of an executor, again and again.

    The blocks are there already, as those of a write-ahead log are.
    """
    block, loop = os.urandom(BLOCK_BYTES), asyncio.get_running_loop()
    path.write_bytes(bytes(BLOCK_BYTES) * count)
    descriptor = os.open(path, os.O_WRONLY)

    def write(place: int) -> None:
        os.pwrite(descriptor, block, place * BLOCK_BYTES)
        os.fdatasync(descriptor)

    try:
        os.fsync(descriptor)
        with ThreadPoolExecutor(1) as thread:
            for place in range(count):
                begin = time.perf_counter_ns()
                await loop.run_in_executor(thread, write, place)
                taken_ns.append(time.perf_counter_ns() - begin)
    finally:
        os.close(descriptor)
        path.unlink()


# ----- many clients --------------------------------------------------------------------------


SENDER = """
import os, struct, sys, time
per_s, count = map(int, sys.argv[1:])
start, sent = time.perf_counter_ns(), 0
while sent < count:
    now = time.perf_counter_ns()
    due = min(count, (now - start) * per_s // 10**9 + 1, sent + 500)
    os.write(1, struct.pack("<q", now) * (due - sent))
    sent = due
    time.sleep(max(0, start + sent * 10**9 // per_s - time.perf_counter_ns()) / 10**9)
"""
"""Another process, so that it takes neither the loop nor the lock of the interpreter: it writes the
time, once for each command, when it is due."""


def open_loop(folder: Path, todo: list[Command], sizes: Sizes) -> list[int]:
    """Commands by the clock: so many a second, each timed from when it was sent."""

    async def work(engine: Engine) -> list[int]:
        count, stream = int(PER_S * sizes.open_s), iter(todo)
        taken_ns: list[int] = []
        tasks: set[asyncio.Task[None]] = set()
        over, loop = asyncio.Event(), asyncio.get_running_loop()

        def arrive() -> None:
            for (sent,) in struct.iter_unpack("<q", os.read(pipe, 1 << 16)):
                task = asyncio.create_task(timed_ask(engine, stream, taken_ns, sent))
                tasks.add(task)
                task.add_done_callback(left)

        def left(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if len(taken_ns) == count or task.exception():
                over.set()

        command = [sys.executable, "-c", SENDER, str(PER_S), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as sender:
            assert sender.stdout is not None
            pipe = sender.stdout.fileno()
            loop.add_reader(pipe, arrive)
            try:
                await over.wait()
            finally:
                loop.remove_reader(pipe)
                sender.kill()
        same("the open loop", count, len(taken_ns))
        return taken_ns

    return sorted(with_engine(folder, work))


def closed_loop(folder: Path, todo: list[Command], sizes: Sizes, num_clients: int) -> list[int]:
    """So many clients, each of whom asks again once he is answered."""

    async def work(engine: Engine) -> list[int]:
        stream = iter(todo)
        taken_ns: list[int] = []
        end = time.perf_counter() + sizes.closed_s

        async def client() -> None:
            while time.perf_counter() < end:
                await timed_ask(engine, stream, taken_ns)

        await asyncio.gather(*(client() for _ in range(num_clients)))
        return taken_ns

    return sorted(with_engine(folder, work))


# ----- a start -------------------------------------------------------------------------------


def signed(todo: Iterable[AnyCommand]) -> Iterator[AnyCommand]:
    """Put the papers of each order before it, as large as they are."""
    for command in todo:
        if type(command) is Submit:
            yield Papers(
                now_ms=command.now_ms,
                order_id=str(command.order.id),
                signer=command.order.maker,
                salt=str(int.from_bytes(os.urandom(8))),
                taker="0x" + "00" * 20,
                signature_type=0,
                signature=os.urandom(65),
            )
        yield command


def fill(folder: Path, todo: list[AnyCommand], since: int) -> bytes:
    """Log a stream, its hashes as they have to be, with a snapshot so many before its end."""
    exchange, hashed = Exchange(), ZERO_HASH
    with closing(SqliteLog(folder)) as log:
        for start in range(0, len(todo), PER_FRAME):
            part = todo[start : start + PER_FRAME]
            # Only the hash of the first frame after a snapshot is looked at.
            log.append(list(map(encode, part)), start, event_hash=hashed)
            exchange.replay(part)
            log.tidy()
            if len(todo) - since - PER_FRAME < start + len(part) <= len(todo) - since:
                take_snapshot(log, exchange, hashed)
    return exchange.snapshot()


def start_s(folder: Path, expected: bytes, count: int) -> tuple[float, float]:
    """The seconds that opening a log takes, and recovering from it."""
    with garbage(collected=True):
        begin = time.perf_counter()
        with closing(SqliteLog(folder)) as log:
            opened = time.perf_counter()
            exchange, _, done = recover(log)
            end = time.perf_counter()
    same("recovery", True, expected == exchange.snapshot())
    same("recovery", True, count <= done < count + PER_FRAME)
    return opened - begin, end - opened


def start_rows(folder: Path, todo: list[Command], sizes: Sizes) -> Iterator[Row]:
    """What a start takes after a long day, without a snapshot and with one."""
    markets = [
        AddMarket(market=each, now_ms=1) for each in matcher_for(1, set(), accounts=False).markets
    ]
    plain: list[AnyCommand] = [*markets, *todo][: sizes.logged]
    papered = [*markets, *signed(todo)][: sizes.logged]
    for name, logged in (("orders with papers", papered), ("without papers", plain)):
        where = folder / name
        expected = fill(where, logged, sizes.since)
        since = start_s(where, expected, sizes.since)
        for path in where.glob("snapshot-*"):
            path.unlink()
        whole = start_s(where, expected, len(logged))
        per_s = len(logged) / sum(whole)
        yield Row(
            f"log: opened and recovered, {len(logged):,} commands, {name}",
            f">= {RECOVER_PER_S:,} /s",
            f"{per_s:,.0f} /s",
            per_s >= RECOVER_PER_S,
        )
        yield Row("the same, once it is open", "", f"{len(logged) / whole[1]:,.0f} /s", None)
        yield Row(
            f"log: opened and recovered, snapshot before the last {sizes.since:,}",
            f"<= {SNAPSHOT_S_MAX:.1f} s",
            f"{sum(since):.2f} s",
            sum(since) <= SNAPSHOT_S_MAX,
        )
        yield Row("the same, once it is open", "", f"{since[1]:.3f} s", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    sizes = QUICK if quick else Sizes()
    todo = commands(load("mixed").head(sizes.logged), 1, hashed=False)[: sizes.logged]
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:  # a disk, as /tmp need not be
        folder = Path(name)
        pair = one_client(folder / "one", todo, sizes)
        yield at_most("log: acknowledgement, one client / fdatasync", CLIENT_MAX, pair)
        opens = [open_loop(folder / f"open{turn}", todo, sizes) for turn in range(OPEN_ROUNDS)]
        worst, middle = (
            median(at_index(found, share) for found in opens) for share in (0.999, 0.5)
        )
        yield Row(
            f"log: p99.9 of acknowledgement, {PER_S:,} commands/s come",
            f"<= {TAIL_MS_MAX:.1f} ms",
            f"{worst:.2f} ms",
            worst <= TAIL_MS_MAX,
        )
        yield Row("the same, p50", "", f"{middle:.2f} ms", None)
        for num_clients in (100, 1_000):
            found = closed_loop(folder / f"{num_clients}", todo, sizes, num_clients)
            per_s = len(found) / sizes.closed_s
            yield Row(f"log: {num_clients:,} clients", "", f"{per_s:,.0f} /s", None)
        yield from start_rows(folder / "start", todo, sizes)
