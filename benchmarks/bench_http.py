"""HTTP benchmarks: requests per second over a socket, relative to a minimal app on uvicorn.

wrk sends over 32 connections on one core; the server has the other core. Both sides run in turn,
and the ratio of requests per second is reported. Every order is distinct and signed by one of 200
wallets; about half of them trade. The number of accepted orders is checked against the server's
metric. History is written by a separate process on wrk's core, or by a thread of the server.

In the row with differing heads each request has a trace id of its own and an API key, and rate
limits are counted, with budgets above the load; its ratio is that of processor time.

A single client is measured in :mod:`benchmarks.bench_one_client`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.measure import Row, check_equal
from benchmarks.orders import MARKET, gasless_bodies, signed_bodies
from benchmarks.workload import cache_dir
from clob import tokens
from clob.client import Client
from clob_server.auth.tokens import mint
from clob_server.settings import Settings

SERVER_CPU, LOAD_CPU = "0", "1"
CONNECTIONS = 32
TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")
SCRIPT = Path(__file__).with_name("wrk") / "send.lua"
LEVELS = 99
PER_REQUEST = 20
SECRET = "secret of the tokens in a benchmark"
BUDGET = 100_000
"""Requests per minute, more than a run sends."""


class Sizes(NamedTuple):
    """Rounds, durations and prepared requests of one run."""

    rounds: int = 3
    taken_s: int = 4
    signed_per_s: int = 16_000
    gasless_per_s: int = 26_000


QUICK = Sizes(rounds=1, taken_s=1)


class Load(NamedTuple):
    """Result of one run of wrk."""

    per_s: float
    p99_us: int
    cpu_us: float


class Side(NamedTuple):
    """A running HTTP server."""

    url: str
    pid: int


# ----- servers -------------------------------------------------------------------------------


@contextmanager
def hello() -> Iterator[Side]:
    """Start the minimal application."""
    command = [
        "taskset", "-c", SERVER_CPU, sys.executable, "-m", "uvicorn", "benchmarks.hello:app",
        "--port", "0", "--no-access-log", "--loop", "uvloop", "--http", "httptools",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = None
        while url is None:
            url = re.search(r"http://[\d.:]+", process.stderr.readline())
        try:
            yield Side(url.group(), process.pid)
        finally:
            process.terminate()


@contextmanager
def server(folder: Path, history: str, rate_limits: str = "off") -> Iterator[Side]:
    """Start the server on a folder, which is removed at the end."""
    command = [
        "taskset", "-c", SERVER_CPU, sys.executable, "-m", "clob_server", "run", "--chain", "none",
        "--port", "0", "--data-dir", str(folder), "--rate-limits", rate_limits,
        "--history", history, "--log-level", "error", "--drain-s", "0", "--jwt-secret", SECRET,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            subprocess.run(["taskset", "-cp", LOAD_CPU, child], check=True, capture_output=True)
        try:
            yield Side(url, process.pid)
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder)


def cpu_us(pid: int) -> float:
    """Return the CPU time that a process has used, in microseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US


# ----- load ----------------------------------------------------------------------------------


def requests(path: Path, lines: list[tuple[str, str, str]]) -> Path:
    """Write requests for ``wrk/send.lua``: method, path and body, separated by tabs."""
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return path


def run(side: Side, file: Path, taken_s: int, key: str = "") -> tuple[Load, int]:
    """Send requests for a while; return the result and the number of requests.

    With an API key, each request has the key and a trace id.
    """
    command = [
        "taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{taken_s}s", "--latency",
        "--timeout", "10s", "-s", str(SCRIPT), side.url, str(file), key,
    ]  # fmt: skip
    before = cpu_us(side.pid)
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    used = cpu_us(side.pid) - before
    summary = json.loads(completed.stdout.strip().splitlines()[-1])
    check_equal("rejected and failed requests", (0, 0), (summary["rejected"], summary["failed"]))
    count = summary["requests"]
    per_s = count / summary["duration_us"] * 1e6
    return Load(per_s, summary["p99_us"], used / count), count


def metric(url: str, name: str) -> float | None:
    """Return a metric of a server; None if it does not exist yet."""
    with Client(url) as client:
        match = re.search(rf"^{re.escape(name)} (\S+)$", client.metrics(), re.MULTILINE)
    return None if match is None else float(match.group(1))


def accepted(side: Side) -> int:
    """Return the number of accepted orders from the server's metrics."""
    count = metric(side.url, "clob_orders_total")
    assert count is not None
    return int(count)


def new_key(side: Side) -> str:
    """Raise the budgets above the load, and return a new API key."""
    token = mint(SECRET.encode(), "benchmark", "admin", int(time.time()))  # noqa: TID251 - outside the engine
    with Client(side.url, token=token) as operator:
        budgets = operator.admin_get_limits()["budgets"]
        operator.admin_set_limits(budgets=dict.fromkeys(budgets, BUDGET))
        return operator.admin_create_key("benchmark", ["trade"]).key


def fill_book(side: Side) -> None:
    """Submit one resting order per price: bids below, asks above."""
    with Client(side.url) as client:
        for price in range(1, LEVELS + 1):
            body = json.loads(gasless_bodies(1, price)[0])
            body |= {"side": int(price > LEVELS // 2), "price": price, "size": str(tokens(price))}
            client.create_gasless_order(body)


# ----- measurements --------------------------------------------------------------------------


class Scenario(NamedTuple):
    """Requests sent to the server in a loop, and the target relative to the minimal app."""

    name: str
    target: float
    lines: list[tuple[str, str, str]]
    orders_per_request: int = 0
    orders_first: bool = False
    history: str = "process"
    differs: bool = False
    """Whether each request has its own head, with an API key, and limits are counted."""


def scenarios(sizes: Sizes) -> Iterator[Scenario]:
    """Yield the measured scenarios."""
    domain = Settings().domain
    count = sizes.signed_per_s * sizes.taken_s
    for seed, (history, target) in enumerate((("process", 0.16), ("thread", 0.13))):
        bodies = signed_bodies(count, domain, seed)
        lines = [("POST", "/api/orders", body) for body in bodies]
        writer = "in its own process" if history == "process" else "in the server's"
        yield Scenario(f"http: signed create, history {writer}", target, lines, 1, history=history)
    lines = [("POST", "/api/orders", body) for body in signed_bodies(count, domain, 4)]
    name = "http: signed create, heads that differ, API key, limits, processor time"
    yield Scenario(name, 0.18, lines, 1, differs=True)
    bodies = signed_bodies(2 * count, domain, 2)
    batches = [
        f'{{"orders":[{",".join(bodies[start : start + PER_REQUEST])}]}}'
        for start in range(0, len(bodies) - PER_REQUEST + 1, PER_REQUEST)
    ]
    yield Scenario(
        f"http: signed create in batches of {PER_REQUEST}, per order",
        0.30,
        [("POST", "/api/orders/batch", body) for body in batches],
        PER_REQUEST,
    )
    gasless = gasless_bodies(sizes.gasless_per_s * sizes.taken_s, 3)
    lines = [("POST", "/api/orders/gasless", body) for body in gasless]
    yield Scenario("http: gasless create", 0.28, lines, 1)
    read = ("GET", f"/api/markets/{MARKET}/orderbook", "")
    name = "http: GET orderbook, 99 levels, "
    yield Scenario(f"{name}unchanged", 0.60, [read], orders_first=True)
    lines = []
    for body in gasless[: len(gasless) // 2]:
        lines += [read] * 10 + [("POST", "/api/orders/gasless", body)]
    yield Scenario(f"{name}one gasless create per 10 reads", 0.45, lines, orders_first=True)


def measure(scenario: Scenario, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Run both sides in turn and yield the rows of a scenario."""
    file = requests(folder / "requests", scenario.lines)
    plain = requests(folder / "hello", [("GET", "/", "")])
    pairs: list[tuple[Load, Load]] = []
    each = scenario.orders_per_request or 1
    rate_limits = "on" if scenario.differs else "off"
    for turn in range(sizes.rounds):
        data = folder / f"data{turn}"
        with server(data, scenario.history, rate_limits) as side, hello() as other:
            key = new_key(side) if scenario.differs else ""
            if scenario.orders_first:
                fill_book(side)
            run(side, requests(folder / "warm", [("GET", "/health", "")]), 1)
            run(other, plain, 1, key)
            theirs, _ = run(other, plain, sizes.taken_s, key)
            before = accepted(side)
            mine, count = run(side, file, sizes.taken_s, key)
            if scenario.orders_per_request:
                check_equal(scenario.name, len(scenario.lines) >= count, True)
                orders = accepted(side) - before
                check_equal(scenario.name, 0 <= orders - count * each <= CONNECTIONS * each, True)
            pairs.append((theirs, mine))
    yield from result_rows(scenario, pairs, each)


def result_rows(scenario: Scenario, pairs: list[tuple[Load, Load]], each: int) -> Iterator[Row]:
    """Yield the rows of a scenario from its rounds."""
    if scenario.differs:
        ratio = median(theirs.cpu_us / mine.cpu_us for theirs, mine in pairs)
    else:
        ratio = median(mine.per_s * each / theirs.per_s for theirs, mine in pairs)
    theirs_us = median(theirs.cpu_us for theirs, _ in pairs)
    mine_us = median(mine.cpu_us / each for _, mine in pairs)
    yield Row(
        f"{scenario.name} / hello",
        f">= {scenario.target:.2f}",
        f"{ratio:.3f}",
        ratio >= scenario.target,
        theirs_us * 1e3,
        mine_us * 1e3,
    )
    per_s = median(mine.per_s * each for _, mine in pairs)
    yield Row("    per second", "", f"{per_s:,.0f}", None)
    if scenario.name.startswith("http: signed create, history in its own"):
        slower = median(mine.p99_us / theirs.p99_us for theirs, mine in pairs)
        yield Row("    p99 / p99 of hello", "<= 5.0", f"{slower:.2f}", slower <= 5)


def missing_tools() -> str:
    """Return the names of the load tools that are not installed, or an empty text."""
    return " and ".join(tool for tool in ("wrk", "taskset") if shutil.which(tool) is None)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    if missing := missing_tools():
        yield Row(f"http: not measured, needs {missing}", "", "", None)
        return
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        for scenario in scenarios(sizes):
            yield from measure(scenario, Path(name), sizes)
