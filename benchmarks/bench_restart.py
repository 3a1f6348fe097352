"""A restart of the server: from the start of its process until it listens, after many commands.

The log is written as a server would have, signatures included, with a snapshot shortly before its
end. A first start writes the history; what is timed are the starts after it, from nothing but
files: Python itself, the log opened and checked, state and lists, history found to be whole.
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

from benchmarks.bench_log import PER_FRAME, signed
from benchmarks.bench_matcher import commands, matcher_for
from benchmarks.measure import Row
from benchmarks.workload import cache_dir, load
from clob import AddMarket
from clob.journal import ZERO_HASH, event_hash
from clob_server.commands import ENGINE, AnyCommand, encode
from clob_server.exchange import Exchange, outcome_of
from clob_server.log import SqliteLog
from clob_server.recovery import take_snapshot

RESTART_S_MAX = 2.0
NUM_COMMANDS, NUM_QUICK = 1_000_000, 50_000
SINCE = 1_000
ROUNDS = 5
PATIENCE_S = 300


def write_log(folder: Path, todo: list[AnyCommand]) -> int:
    """Log a stream as a server does, and give how many orders rest at its end."""
    exchange, hashed = Exchange(), ZERO_HASH
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
def started(folder: Path) -> Iterator[tuple[str, float]]:
    """A server; its address, and the seconds until it listened."""
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
    """Wait until history is written."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            found = re.search(
                r"^clob_history_lag_commands 0\.0$", answer.read().decode(), re.MULTILINE
            )
        if found:
            return
        time.sleep(0.5)
    raise TimeoutError("history is not whole")


def rows(*, quick: bool) -> Iterator[Row]:
    """The row of the table."""
    count = NUM_QUICK if quick else NUM_COMMANDS
    markets: list[AnyCommand] = [
        AddMarket(market=each, now_ms=1) for each in matcher_for(1, set(), accounts=False).markets
    ]
    stream = commands(load("mixed").head(count), 1, hashed=False)
    todo = [*markets, *signed(stream)][:count]
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name)
        resting = write_log(folder, todo)
        with started(folder) as (url, _):
            wait_for_history(url)
        taken_s = []
        for _ in range(ROUNDS):
            with started(folder) as (url, each_s):
                taken_s.append(each_s)
    worst, middle = max(taken_s), median(taken_s)
    yield Row(
        f"restart until it listens, {count:,} commands, {resting:,} orders resting",
        f"<= {RESTART_S_MAX:.1f} s",
        f"{middle:.2f} s",
        middle <= RESTART_S_MAX,
    )
    yield Row(f"    the longest of {ROUNDS}", "", f"{worst:.2f} s", None)
