"""Reads benchmark: fills, orders, accounts and candles of a million trades, while orders come in.

The log is written in the server's format, with a snapshot at its end, and history catches up with
it. Two thousand makers trade in eight markets; the n-th has a share proportional to 1/n. Then a
process sends signed orders at a fixed rate, whatever the answers, and one connection reads. The
time of the query alone follows each latency. Last, the processor time of a book with ``depth`` is
compared with that of the whole one.
"""

import asyncio
import http.client
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
from msgspec import structs

from benchmarks.bench_http import (
    LOAD_CPU,
    accepted,
    cpu_us,
    fill_book,
    server,
)
from benchmarks.bench_log import PER_FRAME, with_signatures
from benchmarks.bench_restart import wait_for_history
from benchmarks.bench_socket import HOST, HTTP, RECEIVED, send_all
from benchmarks.measure import Row, check_equal
from benchmarks.orders import MARKET, TOKENS, gasless_bodies, keys, signed_bodies
from benchmarks.workload import cache_dir
from clob import AddMarket, Cancel, Market, Order, Side, Submit, TimeInForce, tokens
from clob.journal import ZERO_HASH, event_hash
from clob.signing.secp import checksummed
from clob_server.auth.api_keys import ids_key
from clob_server.core.commands import ENGINE, AnyCommand, encode
from clob_server.core.recovery import take_snapshot
from clob_server.core.state import ServerState, outcome_of
from clob_server.history.candles import MINUTE_MS, CandleRange
from clob_server.history.follower import catch_up
from clob_server.history.of_maker import (
    FINISHED,
    PLACE_MAX,
    FillRange,
    FinishedRange,
    read_fills,
    read_finished,
)
from clob_server.history.positions import read_positions
from clob_server.history.store import HistoryStore, StoreReader
from clob_server.log import SqliteLog
from clob_server.settings import Settings

P99_MS_MAX = 10.0
PER_S = 1_000
DEPTH = 10
BOOKS = "", f"?depth={DEPTH}"
DEPTH_RATIO_MAX = 1.0
NUM_MARKETS, NUM_MAKERS = 8, 2_000
DAYS = 7
LIMIT = 100
CONNECTIONS = 32
PAUSE_S = 0.002
SEED = 21
CANCELS = 2
"""Of sixteen commands that are drawn; the others are orders."""


class Sizes(NamedTuple):
    """Trades, seconds of orders, queries of each kind, books per round, and rounds of books."""

    num_trades: int = 1_000_000
    taken_s: int = 60
    queries: int = 100
    books: int = 10_000
    rounds: int = 3


QUICK = Sizes(num_trades=20_000, taken_s=3, queries=10, books=500, rounds=1)


# ----- the history ---------------------------------------------------------------------------


def market_name(number: int) -> str:
    """Return the id of a market; the first one takes the signed orders."""
    return f"{MARKET}{number or ''}"


def makers() -> list[str]:
    """Return the makers, the heaviest first; those with a key are the heaviest."""
    wallets = [checksummed(bytes.fromhex(address[2:])) for address, _ in keys()]
    others = range(len(wallets), NUM_MAKERS)
    return wallets + [checksummed((10**40 + number).to_bytes(20)) for number in others]


def markets() -> list[AnyCommand]:
    """Return the commands that add the markets."""
    pairs = [(yes + number, no + number) for number in range(NUM_MARKETS) for yes, no in (TOKENS,)]
    return [
        AddMarket(market=Market(id=market_name(number), yes=str(yes), no=str(no)), now_ms=1)
        for number, (yes, no) in enumerate(pairs)
    ]


def flow(names: list[str], end_ms: int, count: int) -> Iterator[AnyCommand]:
    """Yield quotes, orders that trade at once, and cancels; about a trade per order.

    The commands end at ``end_ms`` and are spread evenly over the days before.
    """
    rng = np.random.default_rng(SEED)
    shares = 1 / np.arange(1, len(names) + 1)
    owners = rng.choice(len(names), count, p=shares / shares.sum()).tolist()
    places, sides = rng.integers(0, NUM_MARKETS, count), rng.integers(0, 2, count)
    kinds, lots = rng.integers(0, 16, count), rng.integers(1, 101, count)
    prices = rng.integers(45, 50, count) + 6 * sides
    drawn = (owners, *(column.tolist() for column in (places, sides, kinds, prices, lots)))
    recent: deque[Cancel] = deque(maxlen=PER_S)
    begin_ms = end_ms - DAYS * 24 * 60 * MINUTE_MS
    for number, (owner, place, side, kind, price, size) in enumerate(zip(*drawn, strict=True)):
        now_ms = begin_ms + (end_ms - begin_ms) * number // count
        if len(recent) == PER_S and kind < CANCELS:
            yield structs.replace(recent[size], now_ms=now_ms)
            continue
        quotes = kind % 2 == 0
        order = Order(
            id=f"ord_{now_ms // 1000}_{number:06d}",
            token=str(TOKENS[0] + place),
            maker=names[owner],
            side=Side(side),
            price=price if quotes else 99 - 98 * side,
            size=tokens(size),
            time_in_force=TimeInForce.GTC if quotes else TimeInForce.IOC,
        )
        if quotes:
            recent.append(Cancel(order_id=order.id, maker=order.maker))
        yield Submit(market=market_name(place), order=order, now_ms=now_ms)


def write_log(folder: Path, todo: Iterator[AnyCommand], num_trades: int) -> int:
    """Write a log until it has a number of trades; return the number of its commands."""
    exchange, hashed, seq = ServerState(), ZERO_HASH, 0
    ids_key(folder, lambda: 0)
    with closing(SqliteLog(folder)) as log:
        while exchange.num_trades < num_trades:
            part = [next(todo) for _ in range(PER_FRAME)]
            log.append(list(map(encode, part)), seq, event_hash=hashed)
            for command in part:
                outcome = outcome_of(exchange, command)
                if type(command) in ENGINE:
                    hashed = event_hash(hashed, outcome)
            seq += len(part)
            log.tidy()
        take_snapshot(log, exchange, hashed)
    return seq


def write_history(folder: Path) -> float:
    """Let history catch up with the log; return the seconds taken."""
    with closing(SqliteLog(folder)) as log, closing(HistoryStore(folder)) as store:
        begin = time.perf_counter()
        catch_up(store, folder, log)
        return time.perf_counter() - begin


# ----- orders --------------------------------------------------------------------------------


async def send_orders(port: int, messages: list[bytes]) -> int:
    """Send messages at ``PER_S`` in turn over the connections; return how many were accepted."""
    opened = [await asyncio.open_connection(HOST, port) for _ in range(CONNECTIONS)]
    begin, accepted_count = time.perf_counter(), 0

    async def read(reader: asyncio.StreamReader) -> None:
        nonlocal accepted_count
        while data := await reader.read(RECEIVED):
            accepted_count += data.count(HTTP.accepted)

    tasks = [asyncio.create_task(read(reader)) for reader, _ in opened]
    for number, message in enumerate(messages):
        early_s = begin + number / PER_S - time.perf_counter()
        if early_s > 0:
            await asyncio.sleep(early_s)
        opened[number % CONNECTIONS][1].write(message)
    while accepted_count < len(messages):
        await asyncio.sleep(PAUSE_S)
    for task in tasks:
        task.cancel()
    return accepted_count


def main(arguments: list[str]) -> None:
    """Send the orders of a file, a body per line, to a port."""
    port, path = arguments
    messages = [HTTP.encode(body) for body in Path(path).read_text().splitlines()]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    asyncio.run(send_orders(int(port), messages))


# ----- reads ---------------------------------------------------------------------------------


class Read(NamedTuple):
    """A request, and the query of history that answers it."""

    name: str
    path: str
    query: Callable[[StoreReader], object]


def query_fills(wanted: FillRange, reader: StoreReader) -> object:
    """Read fills."""
    return read_fills(reader.db, wanted)


def query_finished(wanted: FinishedRange, reader: StoreReader) -> object:
    """Read finished orders."""
    return read_finished(reader.db, wanted)


def query_positions(maker: str, reader: StoreReader) -> object:
    """Read the positions of a maker."""
    return read_positions(reader.db, maker, None, 1_000)


def query_candles(wanted: CandleRange, reader: StoreReader) -> object:
    """Read candles."""
    return reader.candles([wanted])


def reads(names: list[str], num_trades: int) -> Iterator[Read]:
    """Yield the measured requests."""
    half = num_trades  # a place is twice a number
    for kind, maker in (("heaviest", names[0]), ("median", names[len(names) // 2])):
        for name, path, wanted in (
            ("newest", "", FillRange(maker, None, PLACE_MAX, LIMIT + 1, newest_first=True)),
            (
                "after a cursor",
                f"&order=asc&after=0-{half}",
                FillRange(maker, None, half, LIMIT + 1, newest_first=False),
            ),
            (
                "of one market",
                f"&marketId={market_name(1)}",
                FillRange(maker, market_name(1), PLACE_MAX, LIMIT + 1, newest_first=True),
            ),
        ):
            yield Read(
                f"fills, {name}, {kind} maker",
                f"/api/fills?maker={maker}{path}",
                partial(query_fills, wanted),
            )
        finished = FinishedRange(maker, FINISHED, PLACE_MAX, LIMIT + 1, ())
        yield Read(
            f"orders, all, {kind} maker",
            f"/api/orders?maker={maker}&status=all",
            partial(query_finished, finished),
        )
        yield Read(
            f"account, {kind} maker",
            f"/api/accounts/{maker}",
            partial(query_positions, maker),
        )
    for interval, interval_ms in (("1m", MINUTE_MS), ("1h", 60 * MINUTE_MS)):
        candles = CandleRange(
            market_name(0), str(TOKENS[0]), interval_ms, 0, 2**62, LIMIT, newest=True
        )
        yield Read(
            f"{LIMIT} candles of {interval}",
            f"/api/markets/{MARKET}/candles?interval={interval}&limit={LIMIT}",
            partial(query_candles, candles),
        )


def read_all(url: str, todo: list[Read], client: "subprocess.Popen[str]") -> dict[str, list[float]]:
    """Send the requests in turn while a client sends orders; return milliseconds by name."""
    taken_ms: dict[str, list[float]] = {each.name: [] for each in todo}
    port = int(url.rpartition(":")[2])
    with closing(http.client.HTTPConnection(HOST, port)) as connection:
        while client.poll() is None:
            for each in todo:
                time.sleep(PAUSE_S)
                begin = time.perf_counter()
                connection.request("GET", each.path)
                response = connection.getresponse()
                body = response.read()
                taken_ms[each.name].append((time.perf_counter() - begin) * 1e3)
                check_equal(f"{each.path}: {body[:200]!r}", 200, response.status)
    return taken_ms


def queries_ns(folder: Path, todo: list[Read], turns: int) -> dict[str, float]:
    """Return the median time of each query alone."""
    found: dict[str, float] = {}
    with closing(StoreReader(folder)) as reader:
        for each in todo:
            taken = []
            for _ in range(turns):
                begin = time.perf_counter_ns()
                each.query(reader)
                taken.append(time.perf_counter_ns() - begin)
            found[each.name] = median(taken)
    return found


def read_rows(folder: Path, todo: list[Read], sizes: Sizes) -> Iterator[Row]:
    """Read while signed orders come in; yield a row for each kind."""
    alone_ns = queries_ns(folder / "data", todo, sizes.queries)
    count = PER_S * sizes.taken_s
    file = folder / "bodies"
    file.write_text("\n".join(signed_bodies(count, Settings().domain, SEED)))
    with server(folder / "data", "process") as side:
        wait_for_history(side.url)
        port = side.url.rpartition(":")[2]
        command = ["taskset", "-c", LOAD_CPU, sys.executable, "-m", "benchmarks.bench_reads"]
        with subprocess.Popen(
            [*command, port, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            check_equal("client", process.stdout.readline(), "ready\n")
            process.stdin.write("\n")
            process.stdin.flush()
            before, begin = accepted(side), time.perf_counter()
            taken_ms = read_all(side.url, todo, process)
            taken_s = time.perf_counter() - begin
            per_s = (accepted(side) - before) / taken_s
    for each in todo:
        p50, p99 = (quantiles(taken_ms[each.name], n=100)[cut] for cut in (49, 98))
        yield Row(
            f"reads: {each.name}: p99",
            f"<= {P99_MS_MAX:.0f} ms",
            f"{p99:.1f} ms",
            p99 <= P99_MS_MAX,
            None,
            alone_ns[each.name],
        )
        yield Row("    p50", "", f"{p50:.1f} ms", None)
    yield Row("    orders accepted meanwhile", "", f"{per_s:,.0f} /s", None)


# ----- books ---------------------------------------------------------------------------------


def book_row(folder: Path, sizes: Sizes) -> Row:
    """Compare the processor time of a changing book with and without ``depth``."""
    pairs = [
        [book_us(folder / "book", turn, query, sizes.books) for query in BOOKS]
        for turn in range(sizes.rounds)
    ]
    ratio = median(short / whole for whole, short in pairs)
    return Row(
        f"reads: book of 99 levels, each after an order: depth={DEPTH} / whole",
        f"<= {DEPTH_RATIO_MAX:.2f}",
        f"{ratio:.3f}",
        ratio <= DEPTH_RATIO_MAX,
        median(whole for whole, _ in pairs) * 1e3,
        median(short for _, short in pairs) * 1e3,
    )


def book_us(folder: Path, seed: int, query: str, count: int) -> float:
    """Return the processor time of an order and a read of its book, in microseconds."""
    path = f"/api/markets/{MARKET}/orderbook{query}"
    read = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    orders = [
        HTTP.encode(body).replace(b"/api/orders", b"/api/orders/gasless", 1)
        for body in gasless_bodies(count, seed)
    ]
    both = [message for order in orders for message in (order, read)]
    with server(folder, "process") as side:
        fill_book(side)
        before = cpu_us(side.pid)
        send_all(int(side.url.rpartition(":")[2]), HTTP, both, 1, 1)
        return (cpu_us(side.pid) - before) / count


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    if shutil.which("taskset") is None:
        yield Row("reads: not measured, needs taskset", "", "", None)
        return
    names = makers()
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        end_ms = time.time_ns() // 1_000_000
        todo = with_signatures(flow(names, end_ms, 2 * sizes.num_trades))
        seq = write_log(data, iter([*markets(), *todo]), sizes.num_trades)
        taken_s = write_history(data)
        title = f"history of {sizes.num_trades:,} trades caught up, commands"
        yield Row(title, "", f"{seq / taken_s:,.0f} /s", None)
        yield from read_rows(folder, list(reads(names, sizes.num_trades)), sizes)
        yield book_row(folder, sizes)


if __name__ == "__main__":
    main(sys.argv[1:])
