"""Reading benchmarks: a LOBSTER file, the first result of a new process, memory for 10M events.

The file is written from the history of ``history.py``. The baseline for reading it is
``pandas.read_csv`` and a loop over the rows.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import history
from benchmarks.bench_replay import cpu_ns
from benchmarks.measure import Row, alternate, at_least
from benchmarks.workload import cache_dir
from clob.records import EVENT, Kind
from clob.replay import backtest, read_lobster, synthetic_day, write_npz
from clob.replay.io.recording import Records
from clob.replay.io.streams import CHUNK, Stream

ROUNDS, ROUNDS_QUICK = 5, 3
SPEEDUP_MIN, EVENTS_PER_S_MIN = 10, 3_000_000
"""Speed relative to the loop, and events per second."""

GOLDEN_ORDERS = 26_000
"""Orders in a synthetic day of about fifty thousand events."""

FIRST_S = 0.3
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
DAYS, GROWN_MB = 20, 150
STATUS = Path("/proc/self/status")
REFS = Path("/proc/self/clear_refs")
FIRST = """
import sys
from clob.replay import backtest, open_stream
sys.stdout.write(str(backtest(open_stream(sys.argv[1]))))
"""


# ----- reading ----------------------------------------------------------------------------------


class LobsterWriter:
    """Writes a feed as a LOBSTER message file; an order that changes its price gets a new id."""

    def __init__(self, first_ns: int) -> None:
        self.first_ns = first_ns
        self.lines: list[str] = []
        self.orders: dict[int, tuple[int, int, int]] = {}
        self.names: dict[int, int] = {}
        self.count = 0
        self.filled = False

    def line(self, ts_ns: int, kind: int, order_id: int, size: int) -> None:
        """Write a line of an order; time counts from 34,200 seconds after midnight."""
        seconds, rest_ns = divmod(ts_ns - self.first_ns, 10**9)
        _, price, side = self.orders[order_id]
        name, direction = self.names[order_id], 1 - 2 * side
        self.lines.append(
            f"{34_200 + seconds}.{rest_ns:09},{kind},{name},{size},{price * 100},{direction}\n"
        )

    def add(self, ts_ns: int, order_id: int, size: int, price: int, side: int) -> None:
        """Write a new order under the next number."""
        self.count += 1
        self.names[order_id] = self.count
        self.orders[order_id] = size, price, side
        self.line(ts_ns, 1, order_id, size)

    def write(self, row: tuple[int, ...]) -> None:
        """Write a row of a feed."""
        ts_ns, order_id, size, price, action, side = row
        filled, self.filled = self.filled, action == history.FILL
        if action == history.ADD:
            self.add(ts_ns, order_id, size, price, side)
        elif action == history.FILL:
            before, _, _ = self.orders[order_id]
            self.line(ts_ns, 4, order_id, size)
            self.orders[order_id] = before - size, price, side
        elif action == history.TRADE or filled:
            return
        elif action == history.DELETE:
            self.line(ts_ns, 3, order_id, self.orders[order_id][0])
        else:
            self.modify(ts_ns, order_id, size, price, side)

    def modify(self, ts_ns: int, order_id: int, size: int, price: int, side: int) -> None:
        """Write a reduction, or a removal followed by a new order."""
        before, old_price, _ = self.orders[order_id]
        if price == old_price and size < before:
            self.line(ts_ns, 2, order_id, before - size)
            self.orders[order_id] = size, price, side
        else:
            self.line(ts_ns, 3, order_id, before)
            self.add(ts_ns, order_id, size, price, side)


def lobster_file(*, quick: bool) -> Path:
    """Return the path of the message file; write it on first use."""
    path = cache_dir() / ("HISTORY_quick_message_50.csv" if quick else "HISTORY_message_50.csv")
    if not path.exists():
        feed = history.feed(history.history(quick=quick))
        writer = LobsterWriter(int(feed["ts_ns"][0]))
        for row in feed.tolist():
            writer.write(row)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text("".join(writer.lines))
        part.replace(path)
    return path


def read_with_pandas(path: Path) -> Records:
    """Read a message file with pandas and a loop: one event per line, without checks."""
    import pandas as pd  # noqa: PLC0415 - optional dependency

    kinds = {1: Kind.LIMIT, 2: Kind.REDUCE, 3: Kind.CANCEL, 4: Kind.FILL, 5: Kind.TRADE}
    table = pd.read_csv(path, header=None, dtype={0: str})
    rows = []
    for number, row in enumerate(table.itertuples(index=False, name=None)):
        time_s, kind, order_id, size, price, direction = row
        seconds, _, rest = time_s.partition(".")
        ts_ns = int(seconds) * 10**9 + int(rest.ljust(9, "0"))
        side = 0 if direction == 1 else 1
        event = (ts_ns, ts_ns, number, order_id, size, 0, price // 100, 0, kinds[kind], side, 0)
        rows.append(event)
    return np.array(rows, EVENT)


def reading_rows(*, quick: bool) -> Iterator[Row]:
    """Measure the speed of reading."""
    path = lobster_file(quick=quick)
    num_events = sum(map(len, read_lobster(path).chunks()))
    num_lines = path.read_bytes().count(b"\n")

    def ours() -> int:
        return cpu_ns(lambda: sum(map(len, read_lobster(path).borrowed())))

    try:
        read_with_pandas(lobster_file(quick=True))
    except ImportError:
        yield Row("read LOBSTER: baseline not measured, needs pandas", "", "", None)
        taken_ns = statistics.median(ours() for _ in range(ROUNDS)) / num_lines
    else:
        rounds = ROUNDS_QUICK if quick else ROUNDS
        pair = alternate(lambda: cpu_ns(lambda: read_with_pandas(path)), ours, num_lines, rounds)
        yield at_least("read LOBSTER / pandas.read_csv and a loop", SPEEDUP_MIN, pair)
        taken_ns = pair.ours_ns
    speed = num_events / num_lines * 1e9 / taken_ns
    met = speed >= EVENTS_PER_S_MIN
    yield Row("    events per second", f">= {EVENTS_PER_S_MIN:,}", f"{speed:,.0f}", met)


# ----- the first result -------------------------------------------------------------------------


def bytecode_environment() -> dict[str, str]:
    """Return an environment with a cache of compiled byte code, as pip leaves it."""
    environment = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    return {**environment, "PYTHONPYCACHEPREFIX": str(cache_dir() / "compiled")}


def first_result_rows(*, quick: bool) -> Iterator[Row]:
    """Measure wall-clock time of a whole process, from its start to its end."""
    path = cache_dir() / "first.npz"
    if not path.exists():
        write_npz(path, synthetic_day(1, GOLDEN_ORDERS))
    environment = bytecode_environment()
    for title, command, limit in (
        ("first result of 50k events, library, s", ["-c", FIRST], FIRST_S),
        ("    command line, s", ["-m", "clob.cli", "replay"], FIRST_S),
        ("    import of NumPy alone, s", ["-c", "import numpy"], None),
    ):
        taken: list[float] = []
        # The first run may compile modules and does not count.
        for _ in range(1 + (ROUNDS_QUICK if quick else ROUNDS)):
            begin = time.perf_counter()
            subprocess.run(
                [sys.executable, *command, str(path)],
                check=True,
                stdout=subprocess.DEVNULL,
                cwd=Path(__file__).parents[1],
                env=environment,
            )
            taken.append(time.perf_counter() - begin)
        seconds = statistics.median(taken[1:])
        target, met = ("", None) if limit is None else (f"<= {limit}", seconds <= limit)
        yield Row(title, target, f"{seconds:.2f}", met)


# ----- memory -----------------------------------------------------------------------------------


def days(events: Records, count: int) -> Iterator[Records]:
    """Yield a history repeatedly, with new ids and times and a cleared book for each day."""
    span_ns = int(events["ts_ns"].max() - events["ts_ns"].min()) + 1
    clear = np.zeros(1, EVENT)
    clear["kind"] = Kind.CLEAR
    for day in range(count):
        clear["ts_ns"] = events["ts_ns"][0] + day * span_ns
        yield clear.copy()
        for start in range(0, len(events), CHUNK):
            part = events[start : start + CHUNK].copy()
            part["ts_ns"] += day * span_ns
            part["order_id"] += np.uint64(day * len(events))
            yield part


def status_kb(name: str) -> int:
    """Return a field of this process's status file, in kilobytes."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(name)


def growth_mb(keep: tuple[str, ...], *, quick: bool) -> float:
    """Return the peak growth of this process in megabytes, after a small warm-up run."""
    events = history.history(quick=quick)
    stream = history.stream_of(events)
    count = DAYS
    backtest(history.stream_of(events[:1_000]), keep=keep)
    ten_million = Stream(
        lambda: days(events, count), lo=stream.lo, hi=stream.hi, lot_wei=stream.lot_wei
    )
    REFS.write_text("5")
    begin = status_kb("VmRSS")
    result = backtest(ten_million, keep=keep)
    assert result.check is not None
    assert result.check.ok
    return (status_kb("VmHWM") - begin) / 1024


def memory_rows(*, quick: bool) -> Iterator[Row]:
    """Measure memory; yield no row on a system without /proc."""
    if not REFS.exists():
        return
    for title, keep, limit in (
        ("memory above the baseline, 10M events, tables counted and hashed only", (), GROWN_MB),
        ("    fills and best prices kept", ("fills", "bests"), None),
    ):
        command = [sys.executable, "-m", __spec__.name, str(int(quick)), *keep]
        root = Path(__file__).parents[1]
        completed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
        megabytes = float(completed.stdout)
        target, met = ("", None) if limit is None else (f"<= {limit} MB", megabytes <= limit)
        yield Row(title, target, f"{megabytes:.0f} MB", met)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    yield from reading_rows(quick=quick)
    yield from first_result_rows(quick=quick)
    yield from memory_rows(quick=quick)


if __name__ == "__main__":
    sys.stdout.write(f"{growth_mb(tuple(sys.argv[2:]), quick=sys.argv[1] == '1')}\n")
