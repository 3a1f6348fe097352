"""Restart benchmark: from process start until the server listens, after a million commands.

The log is written in the server's format, signatures included, with a snapshot shortly before its
end. A first start writes the history and is not timed. The timed starts include Python itself,
opening and checking the log, rebuilding the state, and checking that the history is complete.
"""

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.bench_log import PER_FRAME, with_signatures
from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.measure import Row
from benchmarks.workload import cache_dir, load
from clob import AddMarket
from clob.journal import ZERO_HASH, event_hash
from clob_server.auth.api_keys import ids_key
from clob_server.core.commands import ENGINE, AnyCommand, encode
from clob_server.core.recovery import take_snapshot
from clob_server.core.state import ServerState, outcome_of
from clob_server.log import SqliteLog

RESTART_S_MAX = 2.0
NUM_COMMANDS, NUM_QUICK = 1_000_000, 50_000
SINCE = 1_000
ROUNDS = 5
TIMEOUT_S = 300


def write_log(folder: Path, todo: list[AnyCommand]) -> int:
    """Write a log as a server does; return the number of resting orders at its end."""
    exchange, hashed = ServerState(), ZERO_HASH
    ids_key(folder, lambda: 0)
    with closing(SqliteLog(folder)) as log:
        for start in range(0, len(todo), PER_FRAME):
            part = todo[start : start + PER_FRAME]
            log.append(list(map(encode, part)), start, event_hash=hashed)
            for command in part:
                outcome = outcome_of(exchange, command)
                if type(command) in ENGINE:
                    hashed = event_hash(hashed, outcome)
            log.tidy()
            if start < len(todo) - SINCE <= start + PER_FRAME:
                take_snapshot(log, exchange, hashed)
    return len(exchange.matcher)


@contextmanager
def start_server(folder: Path) -> Iterator[tuple[str, float]]:
    """Start a server; yield its URL and the seconds until it listened."""
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
            yield url, taken_s
        finally:
            process.terminate()
            process.wait()


def wait_for_history(url: str) -> None:
    """Wait until the history is complete."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{url}/metrics") as response:
            text = response.read().decode()
        if re.search(r"^clob_history_lag_commands 0\.0$", text, re.MULTILINE):
            return
        time.sleep(0.5)
    raise TimeoutError(f"history is not complete after {TIMEOUT_S} s")


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    count = NUM_QUICK if quick else NUM_COMMANDS
    markets: list[AnyCommand] = [
        AddMarket(market=each, now_ms=1) for each in matcher_for(1, set(), accounts=False).markets
    ]
    stream = commands(load("mixed").head(count), 1, hashed=False)
    todo = [*markets, *with_signatures(stream)][:count]
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name)
        resting = write_log(folder, todo)
        with start_server(folder) as (url, _):
            wait_for_history(url)
        taken_s = []
        for _ in range(ROUNDS):
            with start_server(folder) as (_, start_s):
                taken_s.append(start_s)
    worst, typical = max(taken_s), median(taken_s)
    yield Row(
        f"restart until listening, {count:,} commands, {resting:,} resting orders",
        f"<= {RESTART_S_MAX:.1f} s",
        f"{typical:.2f} s",
        typical <= RESTART_S_MAX,
    )
    yield Row(f"    slowest of {ROUNDS}", "", f"{worst:.2f} s", None)
