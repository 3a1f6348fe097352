"""The server over a socket, beside the smallest application on the same uvicorn.

wrk sends on one core, 32 connections at a time; what answers has the other. Both sides run in turn
on the same machine, and the ratio is that of requests a second. Every order is another one, signed
by one of 200 wallets; half of them trade. That all were accepted is compared with the server's own
count. The history is written by a process of its own on the core of wrk, or in the server's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.measure import Row, same
from benchmarks.orders import MARKET, gasless_bodies, signed_bodies
from benchmarks.workload import cache_dir
from clob import tokens
from clob_server.settings import Settings

SERVER_CPU, LOAD_CPU = "0", "1"
CONNECTIONS = 32
TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")
SCRIPT = Path(__file__).with_name("wrk") / "send.lua"
LEVELS = 99
PER_REQUEST = 20


class Sizes(NamedTuple):
    """How much of everything."""

    rounds: int = 3
    taken_s: int = 4
    signed_per_s: int = 16_000
    gasless_per_s: int = 26_000


QUICK = Sizes(rounds=1, taken_s=1)


class Load(NamedTuple):
    """What came of a run of wrk."""

    per_s: float
    p99_us: int
    cpu_us: float


class Side(NamedTuple):
    """Something that answers."""

    url: str
    pid: int


# ----- what answers --------------------------------------------------------------------------


@contextmanager
def hello() -> Iterator[Side]:
    """The smallest application."""
    command = [
        "taskset", "-c", SERVER_CPU, sys.executable, "-m", "uvicorn", "benchmarks.hello:app",
        "--port", "0", "--no-access-log", "--loop", "uvloop", "--http", "httptools",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = None
        while found is None:
            found = re.search(r"http://[\d.:]+", process.stderr.readline())
        try:
            yield Side(found.group(), process.pid)
        finally:
            process.terminate()


@contextmanager
def server(folder: Path, history: str) -> Iterator[Side]:
    """The server, on a folder of its own."""
    command = [
        "taskset", "-c", SERVER_CPU, sys.executable, "-m", "clob_server", "run", "--chain", "none",
        "--port", "0", "--data-dir", str(folder), "--rate-limits", "off", "--history", history,
        "--log-level", "error", "--drain-s", "0",
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
    """The microseconds of processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US


# ----- what asks -----------------------------------------------------------------------------


def requests(path: Path, lines: list[tuple[str, str, str]]) -> Path:
    """Write requests as wrk's script reads them: method, path, body."""
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return path


def run(side: Side, file: Path, taken_s: int) -> tuple[Load, int]:
    """Send for a while; give what came of it, and how many requests that was."""
    command = [
        "taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{taken_s}s", "--latency",
        "--timeout", "10s", "-s", str(SCRIPT), side.url, str(file),
    ]  # fmt: skip
    before = cpu_us(side.pid)
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    used = cpu_us(side.pid) - before
    found = json.loads(ran.stdout.strip().splitlines()[-1])
    same("the load", (0, 0), (found["refused"], found["broken"]))
    count = found["requests"]
    return Load(count / found["duration_us"] * 1e6, found["p99_us"], used / count), count


def ask(side: Side, path: str, body: str | None = None) -> str:
    """Send one request, and give what is answered."""
    request = urllib.request.Request(
        side.url + path,
        data=None if body is None else body.encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
    return text


def accepted(side: Side) -> int:
    """How many orders the server says it has accepted."""
    found = re.search(r"^clob_orders_total ([\d.e+]+)$", ask(side, "/metrics"), re.MULTILINE)
    assert found is not None
    return int(float(found.group(1)))


def fill_book(side: Side) -> None:
    """Rest an order at every price that keeps the book from trading."""
    for price in range(1, LEVELS + 1):
        body = json.loads(gasless_bodies(1, price)[0])
        body |= {"side": int(price > LEVELS // 2), "price": price, "size": str(tokens(price))}
        ask(side, "/api/orders/gasless", json.dumps(body))


# ----- the questions -------------------------------------------------------------------------


class Question(NamedTuple):
    """What is asked of the server again and again, and how fast it has to be."""

    text: str
    target: float
    lines: list[tuple[str, str, str]]
    orders_per_request: int = 0
    orders_first: bool = False
    history: str = "process"


def questions(sizes: Sizes) -> Iterator[Question]:
    """What is measured."""
    domain = Settings().domain
    count = sizes.signed_per_s * sizes.taken_s
    for seed, (history, target) in enumerate((("process", 0.16), ("thread", 0.13))):
        bodies = signed_bodies(count, domain, seed)
        lines = [("POST", "/api/orders", body) for body in bodies]
        where = "in its own process" if history == "process" else "in the server's"
        yield Question(f"http: signed create, history {where}", target, lines, 1, history=history)
    bodies = signed_bodies(2 * count, domain, 2)
    batches = [
        f'{{"orders":[{",".join(bodies[start : start + PER_REQUEST])}]}}'
        for start in range(0, len(bodies) - PER_REQUEST + 1, PER_REQUEST)
    ]
    yield Question(
        f"http: signed create in batches of {PER_REQUEST}, per order",
        0.30,
        [("POST", "/api/orders/batch", body) for body in batches],
        PER_REQUEST,
    )
    gasless = gasless_bodies(sizes.gasless_per_s * sizes.taken_s, 3)
    lines = [("POST", "/api/orders/gasless", body) for body in gasless]
    yield Question("http: gasless create", 0.28, lines, 1)
    read = ("GET", f"/api/markets/{MARKET}/orderbook", "")
    text = "http: GET orderbook, 99 levels, "
    yield Question(f"{text}unchanged", 0.60, [read], orders_first=True)
    lines = []
    for body in gasless[: len(gasless) // 2]:
        lines += [read] * 10 + [("POST", "/api/orders/gasless", body)]
    yield Question(f"{text}and a gasless create after 10 of them", 0.45, lines, orders_first=True)


def measure(question: Question, folder: Path, sizes: Sizes) -> Iterator[Row]:
    """Both sides in turn."""
    file = requests(folder / "requests", question.lines)
    plain = requests(folder / "hello", [("GET", "/", "")])
    pairs: list[tuple[Load, Load]] = []
    each = question.orders_per_request or 1
    for turn in range(sizes.rounds):
        with server(folder / f"data{turn}", question.history) as side, hello() as other:
            if question.orders_first:
                fill_book(side)
            run(side, requests(folder / "warm", [("GET", "/health", "")]), 1)
            run(other, plain, 1)
            theirs, _ = run(other, plain, sizes.taken_s)
            before = accepted(side)
            mine, count = run(side, file, sizes.taken_s)
            if question.orders_per_request:
                same(question.text, len(question.lines) >= count, True)
                found = accepted(side) - before
                same(question.text, 0 <= found - count * each <= CONNECTIONS * each, True)
            pairs.append((theirs, mine))
    yield from told(question, pairs, each)


def told(question: Question, pairs: list[tuple[Load, Load]], each: int) -> Iterator[Row]:
    """The rows of a question."""
    ratio = median(mine.per_s * each / theirs.per_s for theirs, mine in pairs)
    theirs_us = median(theirs.cpu_us for theirs, _ in pairs)
    mine_us = median(mine.cpu_us / each for _, mine in pairs)
    yield Row(
        f"{question.text} / hello",
        f">= {question.target:.2f}",
        f"{ratio:.3f}",
        ratio >= question.target,
        theirs_us * 1e3,
        mine_us * 1e3,
    )
    per_s = median(mine.per_s * each for _, mine in pairs)
    yield Row("the same, a second", "", f"{per_s:,.0f}", None)
    if question.text.startswith("http: signed create, history in its own"):
        slower = median(mine.p99_us / theirs.p99_us for theirs, mine in pairs)
        yield Row("the same, p99 / hello's", "<= 5.0", f"{slower:.2f}", slower <= 5)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    sizes = QUICK if quick else Sizes()
    missing = [tool for tool in ("wrk", "taskset") if shutil.which(tool) is None]
    if missing:
        yield Row(f"http: not measured, {' and '.join(missing)} missing", "", "", None)
        return
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        for question in questions(sizes):
            yield from measure(question, Path(name), sizes)
