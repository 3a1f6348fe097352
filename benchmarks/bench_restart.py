"""Restart benchmark: opening a long log, and from process start until the server listens.

The logs are written in the server's format, signatures included. A first start writes the history
and is not timed. The timed starts include Python itself, opening and checking the log, rebuilding
the state, and checking that the history is complete. The processor time of the server process until
it listened is shown as well, since other load on the machine changes it less.

- A million commands of a mixed flow, a snapshot shortly before the end: opening alone, with one
  command per frame as a sequential client leaves them, and a whole start.
- A million resting orders: a start with the snapshot at the end of the log, as after a clean stop,
  and one after a kill, with as many commands after the snapshot as its cadence leaves at most. The
  memory of server and history process is their proportional share, pages of mapped files included.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.bench_http import metric
from benchmarks.bench_log import PER_FRAME, with_signatures
from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.bench_snapshot import resting_orders
from benchmarks.measure import Row, check_equal, frozen_gc
from benchmarks.orders import gasless_bodies
from benchmarks.workload import cache_dir, load
from clob import AddMarket
from clob.client import Client
from clob.journal import ZERO_HASH, encode_frame, event_hash, frame_hash
from clob_server.auth.api_keys import ids_key
from clob_server.core.commands import ENGINE, AnyCommand, encode
from clob_server.core.recovery import LOG_SHARE, take_snapshot
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import SqliteLog
from clob_server.settings import Settings

RESTART_S_MAX, OPEN_S_MAX, RESTING_S_MAX, KILLED_S_MAX = 2.0, 0.3, 2.5, 3.0
HELD_BYTES_MAX = 1_000
NUM_COMMANDS, NUM_QUICK = 1_000_000, 50_000
SINCE = 1_000
ROUNDS = 5
PER_COMMIT = 1_000
TIMEOUT_S = 600
STAT = Path("/proc")
PSS = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


class Start(NamedTuple):
    """A start of a server."""

    url: str
    wall_s: float
    """Seconds from process start until it listened."""
    busy_s: float
    """Processor time of the server process until then, seconds; 0 on a system without /proc."""
    pid: int
    """Id of the server process."""


def write_log(folder: Path, todo: Iterable[AnyCommand], per_frame: int, covered: int) -> int:
    """Write a log with a snapshot after about ``covered`` commands; return the resting orders."""
    exchange, hashed, stream = ServerState(), ZERO_HASH, iter(todo)
    ids_key(folder, lambda: 0)
    with closing(SqliteLog(folder)) as log:
        seq, chain, frames, is_covered = 0, ZERO_HASH, [], False
        while part := list(islice(stream, per_frame)):
            frames.append(encode_frame(list(map(encode, part)), seq + 1, chain, event_hash=hashed))
            seq, chain = seq + len(part), frame_hash(frames[-1])
            for command in part:
                outcome = outcome_of(exchange, command)
                if type(command) in ENGINE:
                    hashed = event_hash(hashed, outcome)
            is_due = not is_covered and seq >= covered
            if is_due or len(frames) == PER_COMMIT:
                log.extend(frames)
                log.tidy()
                frames.clear()
            if is_due:
                is_covered = True
                take_snapshot(log, exchange, hashed)
        log.extend(frames)
    return len(exchange.matcher)


def most_since(snapshot_bytes: int) -> int:
    """Return the most commands after a snapshot of this size before the next one is due."""
    some = list(islice(with_signatures(resting_orders(PER_COMMIT, 0)), PER_COMMIT))
    each = sum(len(encode(command)) for command in some) / len(some)
    return max(Settings().snapshot_commands, int(snapshot_bytes / LOG_SHARE / each)) - PER_COMMIT


# ----- one start -----------------------------------------------------------------------------


@contextmanager
def start_server(folder: Path, *, kill: bool = False) -> Iterator[Start]:
    """Start a server; stop it afterwards, or kill it."""
    command = [
        sys.executable, "-m", "clob_server", "run", "--chain", "none",
        "--port", "0", "--data-dir", str(folder), "--log-level", "error", "--drain-s", "0",
    ]  # fmt: skip
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        taken_s = time.perf_counter() - begin
        try:
            yield Start(url, taken_s, busy_s(process.pid), process.pid)
        finally:
            if kill:
                process.kill()
            else:
                process.terminate()
            process.wait()


def busy_s(pid: int) -> float:
    """Return the processor time of a process."""
    stat = STAT / str(pid) / "stat"
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def held_bytes(pid: int) -> int:
    """Return the memory of a process and its children: their share of each page."""
    children = (STAT / str(pid) / "task" / str(pid) / "children").read_text().split()
    sizes = [STAT / str(each) / "smaps_rollup" for each in (pid, *children)]
    return sum(int(PSS.findall(path.read_text())[0]) * 1024 for path in sizes)


def wait_for_history(url: str) -> None:
    """Wait until the history is complete."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if metric(url, "clob_history_lag_commands") == 0:
            return
        time.sleep(0.5)
    raise TimeoutError(f"history is not complete after {TIMEOUT_S} s")


def start_rows(folder: Path, title: str, most_s: float, *, kill: bool = False) -> Iterator[Row]:
    """Start a server some times over a log with complete history; yield the rows."""
    with start_server(folder, kill=kill) as first:
        wait_for_history(first.url)
    starts = []
    for _ in range(ROUNDS):
        with start_server(folder, kill=kill) as start:
            starts.append(start)
    worst, typical = max(each.wall_s for each in starts), median(each.wall_s for each in starts)
    busy = median(each.busy_s for each in starts)
    yield Row(title, f"<= {most_s:.1f} s", f"{typical:.2f} s", typical <= most_s)
    yield Row(f"    slowest of {ROUNDS}", "", f"{worst:.2f} s", None)
    yield Row("    processor time of the server", "", f"{busy:.2f} s", None)


# ----- the rows ------------------------------------------------------------------------------


def open_s(folder: Path, count: int) -> float:
    """Return the seconds to open a log."""
    with frozen_gc(enabled=True):
        begin = time.perf_counter()
        with closing(SqliteLog(folder)) as log:
            taken_s = time.perf_counter() - begin
            check_equal("commands of the log", count, log.tail.seq)
    return taken_s


def mixed_rows(folder: Path, count: int) -> Iterator[Row]:
    """Measure the log of a mixed flow."""
    markets: list[AnyCommand] = [
        AddMarket(market=each, now_ms=1) for each in matcher_for(1, set(), accounts=False).markets
    ]
    stream = commands(load("mixed").head(count), 1, hashed=False)
    todo = [*markets, *with_signatures(stream)][:count]
    single, grouped = folder / "single", folder / "grouped"
    for each, per_frame in ((single, 1), (grouped, PER_FRAME)):
        each.mkdir()
        resting = write_log(each, todo, per_frame, count - SINCE)
    taken_s = median(open_s(single, count) for _ in range(ROUNDS))
    title = f"opening a log, {count:,} frames of one command"
    yield Row(title, f"<= {OPEN_S_MAX:.1f} s", f"{taken_s:.3f} s", taken_s <= OPEN_S_MAX)
    title = f"restart until listening, {count:,} commands, {resting:,} resting orders"
    yield from start_rows(grouped, title, RESTART_S_MAX)


def resting_rows(folder: Path, count: int) -> Iterator[Row]:
    """Measure a log that leaves many orders resting."""
    clean, killed = folder / "clean", folder / "killed"
    clean.mkdir()
    killed.mkdir()
    write_log(clean, with_signatures(resting_orders(count, 0)), PER_FRAME, count)
    title = f"restart until listening, {count:,} resting orders, after a clean stop"
    yield from start_rows(clean, title, RESTING_S_MAX)
    with start_server(clean) as start, Client(start.url) as client:
        # The history process restores its state at the first command.
        client.create_gasless_order(json.loads(gasless_bodies(1, 0)[0]))
        wait_for_history(start.url)
        held = held_bytes(start.pid) / count
    title = "memory of server and history process then, bytes per resting order"
    yield Row(title, f"<= {HELD_BYTES_MAX:,}", f"{held:,.0f}", held <= HELD_BYTES_MAX)
    (size,) = (path.stat().st_size for path in clean.glob("snapshot-*"))
    since = most_since(size)
    write_log(killed, with_signatures(resting_orders(count, since)), PER_FRAME, count)
    title = f"the same after a kill, {since:,} commands after the snapshot"
    yield from start_rows(killed, title, KILLED_S_MAX, kill=True)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    count = NUM_QUICK if quick else NUM_COMMANDS
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        yield from mixed_rows(Path(name), count)
        yield from resting_rows(Path(name), count)
