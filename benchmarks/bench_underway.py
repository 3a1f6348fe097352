"""Benchmarks of settlement in progress: CPU time per order, and loop lag while trades settle.

The same signed orders are sent to a market whose trades settle on a chain and to one whose trades
move balances at once; all wallets have enough funds, and nothing else differs. The CPU time of the
server per order is compared. Loop lag is the server's own metric, while two wallets trade with each
other on the development chain and every trade is settled.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.bench_chain import (
    ALL,
    LAG_MS_MAX,
    POLL_S,
    TIMEOUT_S,
    Node,
    chain_of,
    faucet,
    lags,
    once,
    p99_ms,
    wait_for_market,
)
from benchmarks.bench_http import (
    CONNECTIONS,
    Load,
    accepted,
    metric,
    missing_tools,
    requests,
    run,
    server,
)
from benchmarks.measure import Row, check_equal
from benchmarks.orders import MARKET, TOKENS, keys, order_terms
from benchmarks.workload import cache_dir
from clob import AddMarket, Funds, Market, SetBalance, tokens
from clob.client import Client
from clob.signing import SignedOrder, order_hash
from clob.signing.secp import checksummed
from clob_server.auth.api_keys import TOKENS as SECRET
from clob_server.auth.api_keys import secret
from clob_server.auth.policy import ADMIN
from clob_server.auth.tokens import mint
from clob_server.chain.eth.accounts import ACCOUNTS, ETHER_WEI
from clob_server.core.commands import BeginSettlement
from clob_server.core.sequencer import Sequencer
from clob_server.core.state import ServerState
from clob_server.log import SqliteLog
from clob_server.settings import Settings

RATIO_MAX = 1.05
PER_S = 16_000
LARGE_BALANCE = tokens(10**9)
COLLATERAL = "usd"
TRADES_PER_S = 25
PRICE = 50
SIZE = tokens(1) // 10
FUNDED_KEY = ACCOUNTS[8].private_key
UNITS = 100


# ----- CPU per order -------------------------------------------------------------------------


async def prepare(folder: Path, *, settles: bool) -> None:
    """Write a log with a market and with wallets that have enough funds."""
    log = SqliteLog(folder)
    engine = Sequencer(log, ServerState(), lambda: time.time_ns() // 1_000_000)
    work = asyncio.create_task(engine.run())
    yes, no = map(str, TOKENS)
    market = Market(
        id=MARKET,
        yes=yes,
        no=no,
        funds=Funds.ACCOUNTS,
        settles=settles,
        collateral=COLLATERAL,
    )
    await engine.submit(lambda now_ms: BeginSettlement(base=bytes(16), now_ms=now_ms))
    await engine.submit(lambda now_ms: AddMarket(market=market, now_ms=now_ms))
    for address, _ in keys():
        wallet = checksummed(bytes.fromhex(address[2:]))
        await engine.submit(
            lambda now_ms, wallet=wallet: tuple(  # type: ignore[misc]
                SetBalance(wallet=wallet, asset=asset, amount=LARGE_BALANCE, now_ms=now_ms)
                for asset in (COLLATERAL, yes, no)
            )
        )
    engine.stop()
    await work
    log.close()


def bodies(count: int) -> Iterator[str]:
    """Yield request bodies of signed orders; salts are integers, as wallets create them."""
    wallets, domain = keys(), Settings().domain
    for salt, (owner, side, price, size) in enumerate(order_terms(count, 7), 1):
        maker, key = wallets[owner]
        order = SignedOrder.from_price_size(
            side=side, price=price, size=size, maker=maker, token_id=TOKENS[0], salt=salt
        )
        raw = key.sign_recoverable(order_hash(order, domain), hasher=None)
        signature = f"0x{raw[:64].hex()}{raw[64] + 27:02x}"
        yield json.dumps(order.to_json() | {"signature": signature, "marketId": MARKET})


def measure(folder: Path, file: Path, taken_s: int, *, settles: bool) -> Load:
    """Send orders to a server with one kind of market."""
    asyncio.run(prepare(folder, settles=settles))
    with server(folder, "process") as side:
        run(side, requests(folder / "warm", [("GET", "/health", "")]), 1)
        before = accepted(side)
        load, count = run(side, file, taken_s)
        check_equal(
            "all orders are accepted", 0 <= accepted(side) - before - count <= CONNECTIONS, True
        )
    return load


def order_row(*, quick: bool) -> Row:
    """Compare the CPU time per order of both kinds of market."""
    rounds, taken_s = (2, 1) if quick else (15, 2)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name)
        lines = [("POST", "/api/orders", body) for body in bodies(PER_S * taken_s)]
        file = requests(folder / "requests", lines)
        pairs = []
        for turn in range(rounds):
            order = (False, True) if turn % 2 else (True, False)
            loads = {
                settles: measure(folder / f"{turn}{settles}", file, taken_s, settles=settles)
                for settles in order
            }
            pairs.append((loads[False], loads[True]))
    ratio = median(mine.cpu_us / theirs.cpu_us for theirs, mine in pairs)
    return Row(
        "underway: CPU per order, trades settle / move balances at once",
        f"<= {RATIO_MAX:.2f}",
        f"{ratio:.3f}",
        ratio <= RATIO_MAX,
        median(theirs.cpu_us for theirs, _ in pairs) * 1e3,
        median(mine.cpu_us for _, mine in pairs) * 1e3,
    )


# ----- loop lag -----------------------------------------------------------------------------


@contextmanager
def embedded() -> Iterator[tuple[str, Path]]:
    """Start a server with an embedded chain; yield its URL and its folder."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name) / "data"
        command = [
            sys.executable, "-m", "clob_server", "run", "--port", "0", "--data-dir", str(folder),
            "--chain", "embedded", "--chain-port", "0", "--rate-limits", "off", "--log-level",
            "error", "--drain-s", "0",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            try:
                yield url, folder
            finally:
                process.terminate()
                process.wait()


class Trader:
    """A wallet with collateral and tokens, and approvals for the exchange contract.

    Args:
        url: address of the server.
        node: node of its chain.
        number: number of the wallet.
    """

    def __init__(self, url: str, node: Node, number: int) -> None:
        key = f"0x{(0x0DDE5 << 128) + number:064x}"
        self.client = once(url, key)
        chain = chain_of(self.client)
        node.call(FUNDED_KEY, self.client.maker, "gas(uint256)", number, value_wei=ETHER_WEI)
        faucet(self.client)
        approve = "approve(address,uint256)"
        node.call(key, chain.collateral, approve, chain.operator, ALL)
        self.client.split(MARKET, tokens(UNITS // 2))
        node.call(key, chain.collateral, approve, chain.exchange, ALL)
        approve_all = "setApprovalForAll(address,bool)"
        node.call(key, chain.conditional_tokens, approve_all, chain.exchange, True)


def open_market(url: str, folder: Path) -> None:
    """Open a market whose trades settle, and wait until it exists on the chain."""
    token = mint(secret(folder, SECRET), "benchmark", ADMIN, time.time_ns() // 10**9)
    with Client(url, token=token, respects_limits=False) as operator:
        while chain_of(operator).state != "ready":
            time.sleep(POLL_S)
        operator.admin_create_market(MARKET, {"question": "How fast?", "settles": True})
    wait_for_market(url, MARKET)


def trade(pair: tuple[Trader, Trader], taken_s: float) -> int:
    """Trade at a fixed rate for a while, in alternating directions; return the number of trades."""
    begin, count = time.monotonic(), 0
    while time.monotonic() < begin + taken_s:
        seller, buyer = pair if count % 2 else pair[::-1]
        seller.client.sell(MARKET, "YES", price=PRICE, size=SIZE)
        buyer.client.buy(MARKET, "YES", price=PRICE, size=SIZE)
        count += 1
        time.sleep(max(0.0, begin + count / TRADES_PER_S - time.monotonic()))
    return count


def lag_rows(*, quick: bool) -> Iterator[Row]:
    """Measure the loop lag while trades settle."""
    taken_s = 5 if quick else 30
    with embedded() as (url, folder):
        open_market(url, folder)
        node = Node(chain_of(once(url)).rpc_url)
        pair = Trader(url, node, 1), Trader(url, node, 2)
        time.sleep(2)  # until the worker has reported the balances
        idle = lags(url)
        time.sleep(taken_s)
        before = lags(url)
        count = trade(pair, taken_s)
        busy, quiet = p99_ms(before, lags(url)), p99_ms(idle, before)
        end = time.monotonic() + TIMEOUT_S
        while (metric(url, 'clob_settlements_total{outcome="settled"}') or 0) < count:
            check_equal("settled before the timeout", True, time.monotonic() < end)
            time.sleep(POLL_S)
        check_equal(
            "accounts that differ from the chain", 0.0, metric(url, "clob_settlement_difference")
        )
        waited_s = (metric(url, "clob_settlement_seconds_sum") or 0) / count
    name = f"underway: p99 loop lag at {count / taken_s:.0f} trades/s, upper bound"
    yield Row(name, f"<= {LAG_MS_MAX} ms", f"{busy:.1f} ms", busy <= LAG_MS_MAX)
    yield Row("    the same without trades", "", f"{quiet:.1f} ms", None)
    yield Row("    from a trade to its settled status", "", f"{waited_s:.2f} s", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    if missing := missing_tools():
        yield Row(f"underway: CPU per order not measured, needs {missing}", "", "", None)
    else:
        yield order_row(quick=quick)
    yield from lag_rows(quick=quick)
