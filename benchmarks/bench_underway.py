"""Trades under way: what it costs an order that trades settle on a chain, and the loop meanwhile.

The same signed orders go into a market whose trades settle and into one whose trades move balances
at once; wallets have enough of everything in both, and nothing else differs. What is compared is
the time of the processor that the server takes for an order. The lag of the loop is
the server's own measurement, while two wallets trade with each other on the development chain and
each trade is settled.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from eth_account import Account

from benchmarks.bench_chain import (
    ALL,
    LAG_MS_MAX,
    PATIENCE_S,
    PAUSE_S,
    Node,
    ask,
    faucet,
    lags,
    p99_ms,
)
from benchmarks.bench_http import CONNECTIONS, Load, accepted, requests, run, server
from benchmarks.measure import Row, same
from benchmarks.orders import MARKET, TOKENS, keys, wishes
from benchmarks.workload import cache_dir
from clob import AddMarket, Funds, Market, SetBalance, Side, tokens
from clob.signing import Domain, SignedOrder, order_hash, sign
from clob.signing.secp import checksummed
from clob_server.authority import ADMIN
from clob_server.chain.accounts import ACCOUNTS, ETHER_WEI
from clob_server.commands import BeginSettlement
from clob_server.engine import Engine
from clob_server.exchange import Exchange
from clob_server.log import SqliteLog
from clob_server.secrets import TOKENS as SECRET
from clob_server.secrets import secret
from clob_server.settings import Settings
from clob_server.tokens import mint

RATIO_MAX = 1.05
PER_S = 16_000
RICH = tokens(10**9)
COLLATERAL = "usd"
TRADES_PER_S = 25
PRICE = 50
SIZE = tokens(1) // 10
WHALE = ACCOUNTS[8].private_key
UNITS = 100


# ----- an order ------------------------------------------------------------------------------


async def prepare(folder: Path, *, settles: bool) -> None:
    """Write a log with a market in it, and with wallets that have enough of everything."""
    log = SqliteLog(folder)
    engine = Engine(log, Exchange(), lambda: time.time_ns() // 1_000_000)
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
    await engine.ask(lambda now_ms: BeginSettlement(base=bytes(16), now_ms=now_ms))
    await engine.ask(lambda now_ms: AddMarket(market=market, now_ms=now_ms))
    for address, _ in keys():
        wallet = checksummed(bytes.fromhex(address[2:]))
        await engine.ask(
            lambda now_ms, wallet=wallet: tuple(  # type: ignore[misc]
                SetBalance(wallet=wallet, asset=asset, amount=RICH, now_ms=now_ms)
                for asset in (COLLATERAL, yes, no)
            )
        )
    engine.stop()
    await work
    log.close()


def bodies(count: int) -> Iterator[str]:
    """The bodies of signed orders, whose salts are numbers, as wallets draw them."""
    wallets, domain = keys(), Settings().domain
    for salt, (owner, side, price, size) in enumerate(wishes(count, 7), 1):
        maker, key = wallets[owner]
        order = SignedOrder.from_price_size(
            side=side, price=price, size=size, maker=maker, token_id=TOKENS[0], salt=salt
        )
        raw = key.sign_recoverable(order_hash(order, domain), hasher=None)
        signature = f"0x{raw[:64].hex()}{raw[64] + 27:02x}"
        yield json.dumps(order.to_json() | {"signature": signature, "marketId": MARKET})


def load(folder: Path, file: Path, taken_s: int, *, settles: bool) -> Load:
    """Send orders to a server whose market is as asked for."""
    asyncio.run(prepare(folder, settles=settles))
    with server(folder, "process") as side:
        run(side, requests(folder / "warm", [("GET", "/health", "")]), 1)
        before = accepted(side)
        found, count = run(side, file, taken_s)
        same("orders accepted", 0 <= accepted(side) - before - count <= CONNECTIONS, True)
    return found


def order_row(*, quick: bool) -> Row:
    """An order with and without."""
    rounds, taken_s = (2, 1) if quick else (15, 2)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as name:
        folder = Path(name)
        lines = [("POST", "/api/orders", body) for body in bodies(PER_S * taken_s)]
        file = requests(folder / "requests", lines)
        pairs = []
        for turn in range(rounds):
            order = (False, True) if turn % 2 else (True, False)
            found = {
                settles: load(folder / f"{turn}{settles}", file, taken_s, settles=settles)
                for settles in order
            }
            pairs.append((found[False], found[True]))
    ratio = median(mine.cpu_us / theirs.cpu_us for theirs, mine in pairs)
    return Row(
        "underway: processor an order, trades settle / move balances at once",
        f"<= {RATIO_MAX:.2f}",
        f"{ratio:.3f}",
        ratio <= RATIO_MAX,
        median(theirs.cpu_us for theirs, _ in pairs) * 1e3,
        median(mine.cpu_us for _, mine in pairs) * 1e3,
    )


# ----- the loop ------------------------------------------------------------------------------


@contextmanager
def embedded() -> Iterator[tuple[str, Path]]:
    """A server with a chain of its own: its address and its folder."""
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
    """Somebody with collateral and tokens who lets the exchange contract take both.

    Args:
        url: the server.
        node: its node.
        number: which one.
    """

    def __init__(self, url: str, node: Node, number: int) -> None:
        self.key = f"0x{(0x0DDE5 << 128) + number:064x}"
        self.address = Account.from_key(self.key).address
        chain, market = ask(url)["chain"], ask(f"{url}/api/markets/{MARKET}")
        node.call(WHALE, self.address, "gas(uint256)", number, value_wei=ETHER_WEI)
        faucet(url, self.address)
        collateral, conditional = chain["collateral"], chain["conditionalTokens"]
        node.call(self.key, collateral, "approve(address,uint256)", chain["operator"], ALL)
        names = ("conditionId", "yesTokenId", "noTokenId")
        split = {"user": self.address, "amount": str(tokens(UNITS // 2))}
        split |= {name: market[name] for name in names}
        same("split", True, ask(f"{url}/api/gasless/split", split).get("success"))
        node.call(self.key, collateral, "approve(address,uint256)", chain["exchange"], ALL)
        approve = "setApprovalForAll(address,bool)"
        node.call(self.key, conditional, approve, chain["exchange"], True)
        self._domain = Domain("clob", "1", chain["id"], chain["exchange"])
        self._token = int(market["yesTokenId"])

    def body(self, side: Side, salt: int) -> dict[str, object]:
        """A signed order."""
        order = SignedOrder.from_price_size(
            side=side,
            price=PRICE,
            size=SIZE,
            maker=self.address,
            token_id=self._token,
            salt=salt,
            signature_type=1,
        )
        return {**sign(order, self._domain, self.key).to_json(), "marketId": MARKET}


def open_market(url: str, folder: Path) -> None:
    """Open a market whose trades settle, and wait until it is on the chain."""
    while ask(url)["chain"]["state"] != "ready":
        time.sleep(PAUSE_S)
    token = mint(secret(folder, SECRET), "benchmark", ADMIN, time.time_ns() // 10**9)
    body = {"marketId": MARKET, "question": "How fast?", "settles": True}
    request = urllib.request.Request(
        f"{url}/api/admin/markets",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        answer.read()
    while ask(f"{url}/api/markets/{MARKET}")["chain"] != "prepared":
        time.sleep(PAUSE_S)


def figure(url: str, name: str) -> float:
    """Read a metric."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return 0.0 if found is None else float(found.group(1))


def trade(url: str, pair: tuple[Trader, Trader], taken_s: float) -> int:
    """Trade at an even pace for a while; each buys what he has sold before."""
    begin, count = time.monotonic(), 0
    while time.monotonic() < begin + taken_s:
        seller, buyer = pair if count % 2 else pair[::-1]
        for who, side in ((seller, Side.SELL), (buyer, Side.BUY)):
            answer = ask(f"{url}/api/orders", who.body(side, 2 * count + int(side)))
            same("an order", None, answer.get("detail"))
        count += 1
        time.sleep(max(0.0, begin + count / TRADES_PER_S - time.monotonic()))
    return count


def lag_rows(*, quick: bool) -> Iterator[Row]:
    """How late the loop is while trades settle."""
    taken_s = 5 if quick else 30
    with embedded() as (url, folder):
        open_market(url, folder)
        node = Node(ask(url)["chain"]["rpcUrl"])
        pair = Trader(url, node, 1), Trader(url, node, 2)
        time.sleep(2)  # by then the worker has told what they hold
        idle = lags(url)
        time.sleep(taken_s)
        before = lags(url)
        count = trade(url, pair, taken_s)
        busy, quiet = p99_ms(before, lags(url)), p99_ms(idle, before)
        end = time.monotonic() + PATIENCE_S
        while figure(url, 'clob_settlements_total{outcome="settled"}') < count:
            same("still in time", True, time.monotonic() < end)
            time.sleep(PAUSE_S)
        same("accounts that differ", 0.0, figure(url, "clob_settlement_difference"))
        waited_s = figure(url, "clob_settlement_seconds_sum") / count
    question = f"underway: lag of the loop with {count / taken_s:.0f} trades a second, p99 at most"
    yield Row(question, f"<= {LAG_MS_MAX} ms", f"{busy:.1f} ms", busy <= LAG_MS_MAX)
    yield Row("    the same with no trade", "", f"{quiet:.1f} ms", None)
    yield Row("    from a trade to the news that it is settled", "", f"{waited_s:.2f} s", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    yield order_row(quick=quick)
    yield from lag_rows(quick=quick)
