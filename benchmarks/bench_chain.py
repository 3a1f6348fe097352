"""The chain: a cold start to a funded faucet call, merges, and the server's loop meanwhile.

The cold start is that of ``make run`` once everything is installed: the demo in an empty folder,
from the start of its process to the answer of a first faucet call. A merge is the four transactions
of ``/api/gasless/merge`` over HTTP, on the development chain and on anvil. The lag of the loop is
the server's own measurement, while clients keep merging side by side on the development chain.
"""

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from eth_abi import encode
from eth_account import Account
from eth_utils import keccak

from benchmarks.measure import Row, same
from benchmarks.workload import cache_dir
from clob import tokens
from clob_server.chain.accounts import WALLETS
from clob_server.demo.market import MARKET

START_S_MAX = 4.0
MERGE_MS_MAX = {"development chain": 60, "anvil": 15}
LAG_MS_MAX = 2
ANVIL = Path("tests/clients/js/node_modules/@foundry-rs")
PATIENCE_S = 60
PAUSE_S = 0.01
GAS = 100_000
ALL = 2**256 - 1


class Sizes(NamedTuple):
    """How much of everything."""

    starts: int = 5
    merges: int = 60
    lag_s: int = 30
    clients: int = 4


QUICK = Sizes(starts=1, merges=5, lag_s=3)


# ----- asking --------------------------------------------------------------------------------


def ask(url: str, body: object = None) -> Any:
    """Ask over HTTP, and give what is answered, a refusal too."""
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return json.loads(error.read())


class Node:
    """A node, as a wallet has it.

    Args:
        url: where it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, *params: object) -> Any:
        """Ask for one thing."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return ask(self.url, body)["result"]

    def call(
        self, key: str, to: str, signature: str, *arguments: object, value_wei: int = 0
    ) -> None:
        """Have a transaction of a wallet happen; a wallet without code takes any call."""
        types = signature[signature.index("(") + 1 : -1].split(",")
        sender = Account.from_key(key).address
        signed = Account.sign_transaction(
            {
                "to": to,
                "data": keccak(text=signature)[:4] + encode(types, arguments),
                "value": value_wei,
                "gas": GAS,
                "gasPrice": 2 * int(self.ask("eth_gasPrice"), 16),
                "nonce": int(self.ask("eth_getTransactionCount", sender, "pending"), 16),
                "chainId": int(self.ask("eth_chainId"), 16),
            },
            key,
        )
        hashed = self.ask("eth_sendRawTransaction", f"0x{signed.raw_transaction.hex()}")
        while (receipt := self.ask("eth_getTransactionReceipt", hashed)) is None:
            time.sleep(PAUSE_S)
        same("a wallet's transaction", "0x1", receipt["status"])


# ----- what answers --------------------------------------------------------------------------


@contextmanager
def demo(chain: str = "embedded") -> Iterator[tuple[str, float]]:
    """The demo in an empty folder: its address, and when its process was started."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        command = [
            sys.executable, "-m", "clob_server", "--demo", "--port", "0", "--data-dir",
            str(Path(folder) / "data"), "--chain", chain, "--chain-port", "0", "--rate-limits",
            "off", "--log-level", "error", "--drain-s", "0",
        ]  # fmt: skip
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            try:
                yield url, begin
            finally:
                process.terminate()
                process.wait()


@contextmanager
def anvil(program: Path) -> Iterator[str]:
    """Anvil; its address."""
    with subprocess.Popen(
        [str(program), "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = next(line for line in process.stdout if line.startswith("Listening on "))
        rest = threading.Thread(target=process.stdout.read)
        rest.start()
        try:
            yield f"http://{told.split()[-1]}"
        finally:
            process.terminate()
            rest.join()


def faucet(url: str, user: str) -> None:
    """Ask for collateral until there is some."""
    end = time.monotonic() + PATIENCE_S
    while (answer := ask(f"{url}/api/gasless/faucet", {"user": user})).get("success") is not True:
        same("the faucet", "CHAIN_UNAVAILABLE", answer["code"])
        if time.monotonic() > end:
            raise TimeoutError(answer["message"])
        time.sleep(PAUSE_S)


class Holder:
    """Somebody with tokens of the demo's market, who lets the operator move them.

    Args:
        url: the server.
        node: the node.
        number: which of the test wallets.
    """

    def __init__(self, url: str, node: Node, number: int) -> None:
        wallet = WALLETS[number]
        chain, market = ask(url)["chain"], ask(f"{url}/api/markets/{MARKET}")
        faucet(url, wallet.address)
        operator, key = chain["operator"], wallet.private_key
        node.call(key, chain["collateral"], "approve(address,uint256)", operator, ALL)
        approve = "setApprovalForAll(address,bool)"
        node.call(key, chain["conditionalTokens"], approve, operator, True)
        self._url = url
        self._body = {
            "user": wallet.address,
            **{name: market[name] for name in ("conditionId", "yesTokenId", "noTokenId")},
        }
        self.convert("split", tokens(100))

    def convert(self, kind: str, amount: int) -> float:
        """Have a split or a merge done, and give its seconds."""
        begin = time.perf_counter()
        body = {**self._body, "amount": str(amount)}
        answer = ask(f"{self._url}/api/gasless/{kind}", body)
        taken_s = time.perf_counter() - begin
        same(kind, None, answer.get("detail"))
        return taken_s


def wait_for_market(url: str) -> None:
    """Wait until the market of the demo is on the chain."""
    while ask(f"{url}/api/markets/{MARKET}")["chain"] != "prepared":
        time.sleep(PAUSE_S)


# ----- the questions -------------------------------------------------------------------------


def start_row(sizes: Sizes) -> Row:
    """From the start of a process to a funded wallet."""
    taken_s = []
    for _ in range(sizes.starts):
        with demo() as (url, begin):
            faucet(url, WALLETS[0].address)
            taken_s.append(time.perf_counter() - begin)
    middle = median(taken_s)
    question = "chain: cold start of the demo to a funded first faucet call"
    return Row(question, f"<= {START_S_MAX:.1f} s", f"{middle:.2f} s", middle <= START_S_MAX)


def merge_row(where: str, url: str, node: Node, sizes: Sizes) -> Row:
    """A merge, again and again."""
    wait_for_market(url)
    holder = Holder(url, node, 0)
    amount = tokens(1)
    holder.convert("merge", amount)
    taken_ms = [1e3 * holder.convert("merge", amount) for _ in range(sizes.merges)]
    middle, most = median(taken_ms), MERGE_MS_MAX[where]
    return Row(
        f"chain: a merge of four transactions on {where}, median of {sizes.merges}",
        f"<= {most} ms",
        f"{middle:.1f} ms",
        middle <= most,
    )


def lags(url: str) -> list[tuple[float, int]]:
    """How often the loop was so late at most: bounds in milliseconds and counts, accumulated."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    found = re.findall(r'^clob_loop_lag_seconds_bucket\{le="(.*?)"\} (\S+)$', text, re.MULTILINE)
    return [(1e3 * float(bound), int(float(count))) for bound, count in found]


def p99_ms(before: list[tuple[float, int]], after: list[tuple[float, int]]) -> float:
    """The smallest bound that 99 of 100 were within."""
    counts = [later - earlier for (_, earlier), (_, later) in zip(before, after, strict=True)]
    return next(
        bound for (bound, _), count in zip(after, counts, strict=True) if count >= 0.99 * counts[-1]
    )


def lag_rows(url: str, node: Node, sizes: Sizes) -> Iterator[Row]:
    """How late the loop is while clients merge and split side by side."""
    wait_for_market(url)
    holders = [Holder(url, node, number) for number in range(sizes.clients)]
    idle = lags(url)
    time.sleep(sizes.lag_s)
    before = lags(url)
    end = time.monotonic() + sizes.lag_s
    counts = [0] * len(holders)

    def work(number: int) -> None:
        while time.monotonic() < end:
            holders[number].convert("merge" if counts[number] % 2 == 0 else "split", tokens(1))
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(holders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    busy, quiet = p99_ms(before, lags(url)), p99_ms(idle, before)
    question = f"chain: lag of the loop with {sizes.clients} clients at it, p99 at most"
    yield Row(question, f"<= {LAG_MS_MAX} ms", f"{busy:.1f} ms", busy <= LAG_MS_MAX)
    yield Row("    the same with nobody at it", "", f"{quiet:.1f} ms", None)
    per_s = sum(counts) / sizes.lag_s
    yield Row("    operations a second meanwhile", "", f"{per_s:.1f}", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    sizes = QUICK if quick else Sizes()
    yield start_row(sizes)
    with demo() as (url, _):
        faucet(url, WALLETS[0].address)
        node = Node(ask(url)["chain"]["rpcUrl"])
        yield merge_row("development chain", url, node, sizes)
        yield from lag_rows(url, node, sizes)
    program = next(Path(__file__).parents[1].glob(f"{ANVIL}/anvil-*/bin/anvil*"), None)
    if program is None:
        yield Row("chain: anvil not measured, `make clients` installs it", "", "", None)
        return
    with anvil(program) as target, demo(target) as (url, _):
        yield merge_row("anvil", url, Node(target), sizes)
