"""Market benchmark: costs that must not grow with the number of markets.

Opening a market, and commands of a maker with one order, are timed at few and at many markets. The
memory of an empty market is the growth of a process: of the engine alone, of a server that restores
them, and of one that opens them. The longest iteration of a server's event loop is CPU time, as in
the benchmark ``stall``.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.bench_feed import SERVER_CPU, run_module
from benchmarks.bench_log import PER_FRAME
from benchmarks.bench_memory import STATM, resident
from benchmarks.bench_restart import start_server, wait_for_history, write_log
from benchmarks.bench_stall import ALICE, BOB, LIMIT_MS, Attack
from benchmarks.measure import Row, alternate, at_most, frozen_gc, timed
from benchmarks.stall_server import numbered_market
from benchmarks.workload import cache_dir
from clob import AddMarket, CancelAll, Matcher, Mode, Order, RemoveMarket, SetMode, SetNonce, Side
from clob_server.core.commands import AnyCommand

RATIO_MAX, START_RATIO_MAX, BYTES_MAX = 1.5, 3.0, 4_096
MAKER, CALLS, ROUNDS, STARTS = "maker", 200, 21, 5
PAGE, TIMERS_S = 500, 3.0
IDS = count()


class Sizes(NamedTuple):
    """Numbers of markets."""

    opening: int = 1_000
    """Where opening a market is compared, and which a server has before it opens more."""
    one_order: int = 5_000
    """Where commands of a maker with one order are compared."""
    many: int = 100_000


QUICK = Sizes(20, 50, 2_000)


def with_markets(number: int) -> Matcher:
    """Return a matcher with empty markets."""
    matcher = Matcher()
    for each in range(number):
        matcher.add_market(numbered_market(each))
    return matcher


# ----- commands --------------------------------------------------------------------------------


def open_markets(matcher: Matcher) -> int:
    """Open markets and return the nanoseconds that it took; remove them again."""
    first = len(matcher.markets)
    markets = [numbered_market(each) for each in range(first, first + CALLS)]
    commands = [AddMarket(market=each, now_ms=1) for each in markets]
    taken_ns = timed(lambda: [matcher.apply(each) for each in commands])
    for each in markets:
        matcher.apply(SetMode(market=each.id, mode=Mode.RESOLVED, now_ms=1))
        matcher.apply(RemoveMarket(market=each.id, now_ms=1))
    return taken_ns


def rest_order(matcher: Matcher) -> None:
    """Rest an order of the maker in the first market."""
    market, nonce = numbered_market(0), matcher.nonce(MAKER)
    order = Order(
        id=next(IDS),
        token=market.yes,
        maker=MAKER,
        side=Side.BUY,
        price=50,
        size=10**18,
        nonce=nonce,
    )
    matcher.submit(market.id, order, 1)


def cancel_all(matcher: Matcher) -> None:
    """Cancel all orders of the maker."""
    matcher.apply(CancelAll(maker=MAKER, now_ms=1))


def set_nonce(matcher: Matcher) -> None:
    """Raise the nonce of the maker."""
    matcher.apply(SetNonce(maker=MAKER, nonce=matcher.nonce(MAKER) + 1, now_ms=1))


def open_orders(matcher: Matcher) -> None:
    """Read the open orders of the maker."""
    matcher.open_orders(MAKER)


def with_one_order(matcher: Matcher, work: Callable[[Matcher], None]) -> int:
    """Return the nanoseconds of calls, each while the maker has one resting order.

    The median stands for all, since a call takes less than a disturbance.
    """
    taken_ns = []
    with frozen_gc(enabled=False):
        for _ in range(CALLS):
            rest_order(matcher)
            begin = time.perf_counter_ns()
            work(matcher)
            taken_ns.append(time.perf_counter_ns() - begin)
            cancel_all(matcher)
    return int(median(taken_ns)) * CALLS


def command_rows(sizes: Sizes) -> Iterator[Row]:
    """Yield the rows about commands of the engine."""
    few, some, many = map(with_markets, sizes)
    pair = alternate(lambda: open_markets(few), lambda: open_markets(many), CALLS, ROUNDS)
    yield at_most(f"AddMarket at {sizes.many:,} / {sizes.opening:,} markets", RATIO_MAX, pair)
    for name, work in (
        ("cancel-all", cancel_all),
        ("open orders", open_orders),
        ("nonce", set_nonce),
    ):
        pair = alternate(
            lambda work=work: with_one_order(some, work),  # type: ignore[misc]
            lambda work=work: with_one_order(many, work),  # type: ignore[misc]
            CALLS,
            ROUNDS,
        )
        title = f"{name}, one order, {sizes.many:,} / {sizes.one_order:,} markets"
        yield at_most(title, RATIO_MAX, pair)


# ----- memory and start ------------------------------------------------------------------------


def grown_bytes(number: int) -> float:
    """Return the growth of this process per empty market of the engine."""
    _first = with_markets(100)
    before = resident()
    _alive = with_markets(number)
    return (resident() - before) / number


def bytes_row(name: str, taken: float) -> Row:
    """Return the row of a memory figure."""
    return Row(name, f"<= {BYTES_MAX:,} B", f"{taken:,.0f} B", taken <= BYTES_MAX)


def engine_row(sizes: Sizes) -> Row:
    """Return the row about the memory of the engine, which is measured in another process."""
    command = [sys.executable, "-m", __spec__.name, str(sizes.many)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return bytes_row("memory of an empty market: engine", float(done.stdout))


def write_markets(folder: Path, number: int) -> Path:
    """Write a log of empty markets, with a snapshot, and return its folder."""
    folder.mkdir()
    todo: list[AnyCommand] = [
        AddMarket(market=numbered_market(each), now_ms=1) for each in range(number)
    ]
    write_log(folder, todo, PER_FRAME, number)
    return folder


def start_row(few: Path, many: Path, number: int) -> Row:
    """Return the row about a start with many markets, relative to one with few."""
    taken: dict[Path, list[float]] = {few: [], many: []}
    for folder in (few, many):
        with start_server(folder) as start:  # writes the history
            wait_for_history(start.url)
    for _ in range(STARTS):
        for folder, starts in taken.items():
            with start_server(folder) as start:
                starts.append(start.wall_s)
    base_s, start_s = median(taken[few]), median(taken[many])
    return Row(
        f"start until listening, {number:,} markets ({start_s:.2f} s) / few",
        f"<= {START_RATIO_MAX:.1f} x",
        f"{start_s / base_s:.2f} x",
        start_s <= START_RATIO_MAX * base_s,
    )


# ----- the server ------------------------------------------------------------------------------


def scenarios(attack: Attack, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield requests to a server with many markets; the code before them prepares it."""
    last = number - PAGE
    attack.fill(1)
    yield "timers", lambda: time.sleep(TIMERS_S)
    for path in ("/api/markets", "/api/admin/markets", "/api/tickers"):
        page, end = f"{path}?limit={PAGE}", f"{path}?limit={PAGE}&cursor={last}"
        yield f"GET {path}, first and last {PAGE}", lambda page=page, end=end: attack.get(page, end)  # type: ignore[misc]
    yield (
        "account, open orders, metrics",
        lambda: attack.get(
            f"/api/accounts/{ALICE.address}",
            f"/api/orders?maker={ALICE.address}",
            "/metrics",
            "/api/admin/engine",
        ),
    )
    terms = {"yesTokenId": "900000001", "noTokenId": "900000002"}
    yield "a market opens", lambda: attack.operator.admin_create_market("new", terms)
    order = {"maker": BOB, "marketId": f"m{last}", "tokenId": f"{2 * last + 1}", "side": 0}
    first = {**order, "price": 40, "size": str(10**18)}
    yield "first order of a market", lambda: attack.bob.create_gasless_order(first)
    yield "nonce", attack.set_nonce
    attack.fill(1)
    yield "cancel-all", attack.alice.cancel_all
    yield (
        "20 subscribers of a market",
        lambda: attack.readers.add(20, channel="orderbook", marketId="m0"),
    )


def server_rows(many: Path, number: int) -> Iterator[Row]:
    """Yield the rows about the event loop of a server with many markets."""
    with run_module(SERVER_CPU, "benchmarks.stall_server", many) as server:
        attack = Attack(many, server, 1)
        try:
            taken = [(name, attack.worst_ms(work)) for name, work in scenarios(attack, number)]
        finally:
            attack.readers.close()
    worst = max(ms for _, ms in taken)
    yield Row(
        f"longest iteration of the loop, {number:,} markets",
        f"<= {LIMIT_MS:.0f} ms",
        f"{worst:.1f} ms",
        worst <= LIMIT_MS,
    )
    for name, ms in taken:
        yield Row(f"    {name}", "", f"{ms:.1f} ms", None)


def server_bytes(few: Path, many: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the rows about the memory of a server."""
    added = sizes.many - sizes.opening
    with run_module(SERVER_CPU, "benchmarks.stall_server", many) as server:
        server.read()
        [restored] = server.request("resident")
    with run_module(SERVER_CPU, "benchmarks.stall_server", few) as server:
        server.read()
        [before] = server.request("resident")
        server.request("open", sizes.opening, added)
        [opened] = server.request("resident")
    yield bytes_row(
        "memory of an empty market: server, restored", (int(restored) - int(before)) / added
    )
    yield bytes_row(
        "memory of an empty market: server, opened", (int(opened) - int(before)) / added
    )


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table; those of memory need /proc."""
    sizes = QUICK if quick else Sizes()
    yield from command_rows(sizes)
    if STATM.exists():
        yield engine_row(sizes)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        few = write_markets(Path(name, "few"), sizes.opening)
        many = write_markets(Path(name, "many"), sizes.many)
        yield start_row(few, many, sizes.many)
        if STATM.exists():
            yield from server_bytes(few, many, sizes)
        yield from server_rows(many, sizes.many)


if __name__ == "__main__":
    sys.stdout.write(f"{grown_bytes(int(sys.argv[1]))}\n")
