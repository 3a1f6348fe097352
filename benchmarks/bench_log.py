"""Log benchmarks: delay until a command is durable and acknowledged, and start-up time.

The engine runs over a log in a folder, without sockets. An acknowledgement is timed from the call
to its result.

- One client: compared with a write and an ``fdatasync`` of one page in an executor thread; both run
  in turn.
- Open loop: another process sends commands at a fixed rate without waiting for results, so that a
  pause delays every command that arrives during it. Compared with a thread that writes and syncs
  as many bytes at the same arrivals; five runs of both in turn, since a pause of the machine looks
  like a pause of the engine.
- Replicated: appends of one writer to a log on three nats-servers of this machine, compared with
  appends to a log in a folder, in turn; and the time until another node has pulled a frame. Skipped
  without nats-server, which ``make nats`` fetches.
- Start-up: over a log with a signature record before every order, as a server writes it, and over a
  log of engine commands alone.
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
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.measure import Pair, Row, alternate, at_most, check_equal, frozen_gc
from benchmarks.workload import cache_dir, load
from clob import AddMarket, Command, Submit
from clob.journal import ZERO_HASH
from clob_server.core.commands import AnyCommand, SignatureRecord, encode
from clob_server.core.recovery import recover, take_snapshot
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.log import FrameStream, Log, ReplicatedLog, SqliteLog
from tests.server.log.nats_servers import Cluster, nats_path, running

CLIENT_MAX, TAIL_RATIO_MAX = 1.5, 2.0
RECOVER_PER_S, SNAPSHOT_S_MAX = 300_000, 2.0
PER_S = 10_000
OPEN_ROUNDS = 5
PER_FRAME = 64
NUM_SINCE = 1_000
BLOCK_BYTES = 4096
SYNC_FILE = "sync"


class Sizes(NamedTuple):
    """Rounds, durations and commands of one run."""

    rounds: int = 7
    requests: int = 1_000
    open_s: float = 4.0
    closed_s: float = 2.0
    logged: int = 1_000_000
    since: int = NUM_SINCE
    appends: int = 300


QUICK = Sizes(rounds=3, requests=50, open_s=0.2, closed_s=0.1, logged=50_000, since=500, appends=30)


def quantile_ms(sorted_ns: list[int], share: float) -> float:
    """Return a quantile of sorted times, in milliseconds."""
    return sorted_ns[min(len(sorted_ns) - 1, int(share * len(sorted_ns)))] / 1e6


def run_with_engine(
    folder: Path, work: Callable[[Sequencer], Coroutine[Any, Any, list[int]]]
) -> list[int]:
    """Run a coroutine with a running engine, then check that the log has all commands."""

    async def main() -> list[int]:
        with closing(SqliteLog(folder)) as log:
            engine = Sequencer(log, ServerState(matcher_for(1, set(), accounts=False)), clock_ms)
            run = asyncio.create_task(engine.run())
            with frozen_gc(enabled=True):
                taken_ns = await work(engine)
            engine.stop()
            await run
            check_equal("commands in the log", engine.seq, sum(frame.count for frame in log.read()))
        return taken_ns

    return asyncio.run(main())


def clock_ms() -> int:
    """Return the wall-clock time."""
    return time.time_ns() // 1_000_000


async def timed_request(
    engine: Sequencer, stream: Iterator[Command], taken_ns: list[int], begin: int = 0
) -> None:
    """Queue the next command and record its time, counted from ``begin`` or from now.

    The command is taken from the stream when its batch is built, so the stream stays in order for
    any number of clients.
    """
    begin = begin or time.perf_counter_ns()
    await engine.submit(lambda _: next(stream))
    taken_ns.append(time.perf_counter_ns() - begin)


# ----- one client ----------------------------------------------------------------------------


def one_client(folder: Path, todo: list[Command], sizes: Sizes) -> Pair:
    """Compare a durable acknowledgement with one sync in a thread, both in turn in one loop."""

    async def work(engine: Sequencer) -> list[int]:
        stream, pairs = iter(todo), []
        for turn in range(sizes.rounds):
            ours: list[int] = []
            theirs: list[int] = []
            for ours_now in (turn % 2 == 0, turn % 2 == 1):
                if ours_now:
                    for _ in range(sizes.requests):
                        await timed_request(engine, stream, ours)
                else:
                    await synced(folder / SYNC_FILE, sizes.requests, theirs)
            pairs.append((int(median(theirs)), int(median(ours))))
        return [value for pair in pairs for value in pair]

    times_ns = run_with_engine(folder, work)
    theirs, ours = times_ns[::2], times_ns[1::2]
    ratios = [mine / other for other, mine in zip(theirs, ours, strict=True)]
    return Pair(median(theirs), median(ours), median(ratios))


async def synced(path: Path, count: int, taken_ns: list[int]) -> None:
    """Write and sync one block in an executor thread, ``count`` times.

    The file has its full size beforehand, like a write-ahead log.
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
"""Writes the time once per command when the command is due. A separate process, so that it needs
neither the event loop nor the interpreter lock of the measured one."""


@contextmanager
def arrivals(count: int, arrive: Callable[[int], None]) -> Iterator[None]:
    """Call ``arrive`` in the running event loop with the time of each command when it is due."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        for (sent,) in struct.iter_unpack("<q", os.read(pipe, 1 << 16)):
            arrive(sent)

    command = [sys.executable, "-c", SENDER, str(PER_S), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as sender:
        assert sender.stdout is not None
        pipe = sender.stdout.fileno()
        loop.add_reader(pipe, read)
        try:
            yield
        finally:
            loop.remove_reader(pipe)
            sender.kill()


def open_loop(folder: Path, todo: list[Command], sizes: Sizes) -> list[int]:
    """Send commands at a fixed rate; time each from the moment it was sent."""

    async def work(engine: Sequencer) -> list[int]:
        count, stream = int(PER_S * sizes.open_s), iter(todo)
        taken_ns: list[int] = []
        tasks: set[asyncio.Task[None]] = set()
        finished = asyncio.Event()

        def arrive(sent: int) -> None:
            task = asyncio.create_task(timed_request(engine, stream, taken_ns, sent))
            tasks.add(task)
            task.add_done_callback(finish)

        def finish(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if len(taken_ns) == count or task.exception():
                finished.set()

        with arrivals(count, arrive):
            await finished.wait()
        check_equal("commands of the open loop", count, len(taken_ns))
        return taken_ns

    return sorted(run_with_engine(folder, work))


def raw_open_loop(folder: Path, num_each: int, sizes: Sizes) -> list[int]:
    """Write and sync what has arrived since the last sync, without an engine or a log.

    Args:
        folder: on the disk that is measured.
        num_each: bytes of a command.
        sizes: the duration of the run.
    """
    count = int(PER_S * sizes.open_s)
    folder.mkdir()
    path = folder / SYNC_FILE
    path.write_bytes(bytes(count * num_each))

    def write(descriptor: int, start: int, data: bytes) -> None:
        os.pwrite(descriptor, data, start)
        os.fdatasync(descriptor)

    async def main() -> list[int]:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        waiting: list[int] = []
        taken_ns: list[int] = []

        def arrive(sent: int) -> None:
            waiting.append(sent)
            arrived.set()

        descriptor = os.open(path, os.O_WRONLY)
        os.fsync(descriptor)
        with ThreadPoolExecutor(1) as thread, arrivals(count, arrive):
            while len(taken_ns) < count:
                await arrived.wait()
                batch = waiting.copy()
                waiting.clear()
                arrived.clear()
                data = os.urandom(len(batch) * num_each)
                start = len(taken_ns) * num_each
                await loop.run_in_executor(thread, write, descriptor, start, data)
                end = time.perf_counter_ns()
                taken_ns += [end - sent for sent in batch]
        os.close(descriptor)
        return taken_ns

    taken_ns = asyncio.run(main())
    path.unlink()
    return sorted(taken_ns)


def open_rows(folder: Path, todo: list[Command], sizes: Sizes) -> Iterator[Row]:
    """Measure the open loop against the raw disk, in turn."""
    num_each = sum(len(encode(command)) for command in todo[:PER_S]) // len(todo[:PER_S])
    ratios, p999s_ms, p50s_ms = [], [], []
    for turn in range(OPEN_ROUNDS):
        theirs = raw_open_loop(folder / f"raw{turn}", num_each, sizes)
        ours = open_loop(folder / f"open{turn}", todo, sizes)
        p999s_ms.append(quantile_ms(ours, 0.999))
        p50s_ms.append(quantile_ms(ours, 0.5))
        ratios.append(p999s_ms[-1] / quantile_ms(theirs, 0.999))
    name = f"log: p99.9 of acknowledgement at {PER_S:,} commands/s"
    yield Row(
        f"{name} / raw disk",
        f"<= {TAIL_RATIO_MAX:.1f}",
        f"{median(ratios):.2f}",
        median(ratios) <= TAIL_RATIO_MAX,
    )
    yield Row("    in ms", "", f"{median(p999s_ms):.2f} ms", None)
    yield Row("    p50", "", f"{median(p50s_ms):.2f} ms", None)


def closed_loop(folder: Path, todo: list[Command], sizes: Sizes, num_clients: int) -> list[int]:
    """Run clients that send the next command as soon as the last one is acknowledged."""

    async def work(engine: Sequencer) -> list[int]:
        stream = iter(todo)
        taken_ns: list[int] = []
        end = time.perf_counter() + sizes.closed_s

        async def client() -> None:
            while time.perf_counter() < end:
                await timed_request(engine, stream, taken_ns)

        await asyncio.gather(*(client() for _ in range(num_clients)))
        return taken_ns

    return sorted(run_with_engine(folder, work))


# ----- replicated ----------------------------------------------------------------------------


def append_ns(log: Log, raws: list[bytes], count: int) -> int:
    """Append frames one after the other; return the median time of one."""
    taken_ns = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        log.append(raws, log.tail.seq)
        taken_ns.append(time.perf_counter_ns() - begin)
        log.tidy()
    return int(median(taken_ns))


def pull_ns(owner: Log, follower: ReplicatedLog, raws: list[bytes], count: int) -> list[int]:
    """Return the sorted times from an append until another node has the frame on its disk."""
    while follower.tail != owner.tail:
        follower.pull(1)
    begins_ns: list[int] = []

    def append() -> None:
        for _ in range(count):
            begins_ns.append(time.perf_counter_ns())
            owner.append(raws, owner.tail.seq)
            time.sleep(0.005)

    taken_ns: list[int] = []
    with ThreadPoolExecutor(1) as thread:
        appending = thread.submit(append)
        while len(taken_ns) < count:
            for _ in follower.pull(1):
                taken_ns.append(time.perf_counter_ns() - begins_ns[len(taken_ns)])
        appending.result()
    return sorted(taken_ns)


def replicated_rows(folder: Path, todo: list[Command], sizes: Sizes) -> Iterator[Row]:
    """Measure appends to three servers against those to a folder, and the way to another node."""
    if nats_path() is None:
        return

    def log_on(cluster: Cluster, name: str) -> ReplicatedLog:
        stream = FrameStream(cluster.urls, monitors=cluster.monitors)
        return ReplicatedLog(folder / name, stream)

    raws = list(map(encode, todo[:100]))
    with (
        running(folder / "servers", 3) as cluster,
        closing(SqliteLog(folder / "local")) as local,
        closing(log_on(cluster, "owner")) as owner,
        closing(log_on(cluster, "follower")) as follower,
    ):
        for per_frame in (1, 100):
            part, count = raws[:per_frame], sizes.appends
            pair = alternate(
                partial(append_ns, local, part, count),
                partial(append_ns, owner, part, count),
                1,
                sizes.rounds,
            )
            name = f"log: replicated append, commands per frame: {per_frame}"
            ratio = f"{pair.ratio:.2f}"
            yield Row(f"{name} / folder", "", ratio, None, pair.other_ns, pair.ours_ns)
        times_ns = pull_ns(owner, follower, raws[:1], sizes.appends)
        yield Row("log: append until pulled, p50", "", f"{quantile_ms(times_ns, 0.5):.2f} ms", None)
        yield Row("    p99", "", f"{quantile_ms(times_ns, 0.99):.2f} ms", None)


# ----- start-up ------------------------------------------------------------------------------


def with_signatures(stream: Iterable[AnyCommand]) -> Iterator[AnyCommand]:
    """Yield commands, each order with a signature record of realistic size."""
    for command in stream:
        if type(command) is Submit:
            record = SignatureRecord(
                signer=command.order.maker,
                salt=str(int.from_bytes(os.urandom(8))),
                taker="0x" + "00" * 20,
                signature_type=0,
                signature=os.urandom(65),
            )
            yield msgspec.structs.replace(command, attachment=msgspec.msgpack.encode(record))
        else:
            yield command


def fill(folder: Path, todo: list[AnyCommand], since: int) -> bytes:
    """Write a log with a snapshot ``since`` commands before its end; return the final state."""
    exchange, hashed = ServerState(), ZERO_HASH
    with closing(SqliteLog(folder)) as log:
        for start in range(0, len(todo), PER_FRAME):
            part = todo[start : start + PER_FRAME]
            # Recovery compares only the hash of the first frame after a snapshot.
            log.append(list(map(encode, part)), start, event_hash=hashed)
            exchange.replay(part)
            log.tidy()
            if len(todo) - since - PER_FRAME < start + len(part) <= len(todo) - since:
                take_snapshot(log, exchange, hashed)
    return exchange.snapshot()


def startup_s(folder: Path, expected: bytes, count: int) -> tuple[float, float]:
    """Return the seconds to open a log and the seconds to recover from it."""
    with frozen_gc(enabled=True):
        begin = time.perf_counter()
        with closing(SqliteLog(folder)) as log:
            opened = time.perf_counter()
            exchange, _, done = recover(log)
            end = time.perf_counter()
    check_equal("recovered state is the written one", True, expected == exchange.snapshot())
    check_equal("recovered commands are in range", True, count <= done < count + PER_FRAME)
    return opened - begin, end - opened


def startup_rows(folder: Path, todo: list[Command], sizes: Sizes) -> Iterator[Row]:
    """Measure start-up over a long log, without a snapshot and with one."""
    markets: list[AnyCommand] = [
        AddMarket(market=each, now_ms=1) for each in matcher_for(1, set(), accounts=False).markets
    ]
    plain: list[AnyCommand] = [*markets, *todo][: sizes.logged]
    with_records = [*markets, *with_signatures(todo)][: sizes.logged]
    for name, logged in (("with signatures", with_records), ("without signatures", plain)):
        log_folder = folder / name
        expected = fill(log_folder, logged, sizes.since)
        since = startup_s(log_folder, expected, sizes.since)
        for path in log_folder.glob("snapshot-*"):
            path.unlink()
        whole = startup_s(log_folder, expected, len(logged))
        per_s = len(logged) / sum(whole)
        yield Row(
            f"log: opened and recovered, {len(logged):,} commands, {name}",
            f">= {RECOVER_PER_S:,} /s",
            f"{per_s:,.0f} /s",
            per_s >= RECOVER_PER_S,
        )
        yield Row("    recovery alone", "", f"{len(logged) / whole[1]:,.0f} /s", None)
        yield Row(
            f"log: opened and recovered, snapshot before the last {sizes.since:,}",
            f"<= {SNAPSHOT_S_MAX:.1f} s",
            f"{sum(since):.2f} s",
            sum(since) <= SNAPSHOT_S_MAX,
        )
        yield Row("    recovery alone", "", f"{since[1]:.3f} s", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    todo = commands(load("mixed").head(sizes.logged), 1, hashed=False)[: sizes.logged]
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:  # on a disk, which /tmp may not be
        folder = Path(name)
        pair = one_client(folder / "one", todo, sizes)
        yield at_most("log: acknowledgement, one client / fdatasync", CLIENT_MAX, pair)
        yield from open_rows(folder, todo, sizes)
        for num_clients in (100, 1_000):
            times_ns = closed_loop(folder / f"{num_clients}", todo, sizes, num_clients)
            per_s = len(times_ns) / sizes.closed_s
            yield Row(f"log: {num_clients:,} clients", "", f"{per_s:,.0f} /s", None)
        yield from replicated_rows(folder / "replicated", todo, sizes)
        yield from startup_rows(folder / "start", todo, sizes)
