"""Chain benchmarks: cold start to a funded faucet call, merges, and event-loop lag under load.

- Cold start: the demo in an empty folder, from process start to the reply of the first faucet call,
  as with ``make run`` after installation.
- Merge: the four transactions of ``/api/gasless/merge`` over HTTP, on the development chain and on
  anvil.
- Loop lag: the server's own metric while several clients merge and split on the development chain.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import httpx
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from benchmarks.measure import Row, check_equal
from benchmarks.workload import cache_dir
from clob import tokens
from clob.client import Client, UnavailableError
from clob_server.chain.eth.accounts import WALLETS
from clob_server.demo.market import MARKET

START_S_MAX = 4.0
MERGE_MS_MAX = {"development chain": 60, "anvil": 15}
LAG_MS_MAX = 2
ANVIL = Path("tests/clients/js/node_modules/@foundry-rs")
TIMEOUT_S = 60
POLL_S = 0.01
GAS = 100_000
ALL = 2**256 - 1


class Sizes(NamedTuple):
    """Repetitions, durations and clients of one run."""

    starts: int = 5
    merges: int = 60
    lag_s: int = 30
    clients: int = 4


QUICK = Sizes(starts=1, merges=5, lag_s=3)


# ----- requests --------------------------------------------------------------------------------


class Node:
    """JSON-RPC client of a node.

    Args:
        url: address of the node.
    """

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=TIMEOUT_S)

    def rpc(self, method: str, *params: object) -> Any:
        """Return the result of one JSON-RPC call."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._http.post("", json=body).json()["result"]

    def call(
        self, key: str, to: str, signature: str, *arguments: object, value_wei: int = 0
    ) -> None:
        """Send a transaction and wait for its receipt. A wallet without code accepts any call."""
        types = signature[signature.index("(") + 1 : -1].split(",")
        sender = Account.from_key(key).address
        signed = Account.sign_transaction(
            {
                "to": to,
                "data": keccak(text=signature)[:4] + encode(types, arguments),
                "value": value_wei,
                "gas": GAS,
                "gasPrice": 2 * int(self.rpc("eth_gasPrice"), 16),
                "nonce": int(self.rpc("eth_getTransactionCount", sender, "pending"), 16),
                "chainId": int(self.rpc("eth_chainId"), 16),
            },
            key,
        )
        hashed = self.rpc("eth_sendRawTransaction", f"0x{signed.raw_transaction.hex()}")
        while (receipt := self.rpc("eth_getTransactionReceipt", hashed)) is None:
            time.sleep(POLL_S)
        check_equal("status of a wallet's transaction", "0x1", receipt["status"])


# ----- servers and nodes ---------------------------------------------------------------------


@contextmanager
def demo(chain: str = "embedded") -> Iterator[tuple[str, float]]:
    """Start the demo in an empty folder; yield its URL and the start time of its process."""
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
    """Start anvil; yield its URL."""
    with subprocess.Popen(
        [str(program), "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Listening on "))
        drain = threading.Thread(target=process.stdout.read)
        drain.start()
        try:
            yield f"http://{line.split()[-1]}"
        finally:
            process.terminate()
            drain.join()


def faucet(client: Client) -> None:
    """Request collateral from the faucet, again and at once while the chain is not available."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        try:
            client.faucet()
        except UnavailableError as error:
            if error.code != "CHAIN_UNAVAILABLE" or time.monotonic() > end:
                raise
            time.sleep(POLL_S)
        else:
            return


class Holder:
    """A test wallet with tokens of the demo market and approvals for the operator.

    Args:
        url: address of the server.
        node: node of the server's chain.
        number: index of the test wallet.
    """

    def __init__(self, url: str, node: Node, number: int) -> None:
        key = WALLETS[number].private_key
        self._client = once(url, key)
        chain = chain_of(self._client)
        faucet(self._client)
        node.call(key, chain.collateral, "approve(address,uint256)", chain.operator, ALL)
        approve = "setApprovalForAll(address,bool)"
        node.call(key, chain.conditional_tokens, approve, chain.operator, True)
        self.convert("split", tokens(100))

    def convert(self, kind: Literal["split", "merge"], amount: int) -> float:
        """Run a split or a merge and return its duration in seconds."""
        begin = time.perf_counter()
        convert = self._client.split if kind == "split" else self._client.merge
        convert(MARKET, amount)
        return time.perf_counter() - begin


def once(url: str, key: str | None = None) -> Client:
    """Return a client that sends each request once, for a wallet with this key."""
    return Client(url, signer=key, timeout_s=TIMEOUT_S, deadline_s=0, respects_limits=False)


def chain_of(client: Client) -> Any:
    """Return the state and the contracts of a server's chain, a ``RootChain``."""
    chain = client.info().chain
    assert chain is not None
    return chain


def wait_for_market(url: str, market: str = MARKET) -> None:
    """Wait until a market exists on the chain."""
    with Client(url) as client:
        while client.market(market).chain != "prepared":
            time.sleep(POLL_S)


# ----- measurements --------------------------------------------------------------------------


def start_row(sizes: Sizes) -> Row:
    """Measure from process start to a funded wallet."""
    taken_s = []
    for _ in range(sizes.starts):
        with demo() as (url, begin):
            faucet(once(url, WALLETS[0].private_key))
            taken_s.append(time.perf_counter() - begin)
    typical = median(taken_s)
    name = "chain: cold start of the demo to a funded first faucet call"
    return Row(name, f"<= {START_S_MAX:.1f} s", f"{typical:.2f} s", typical <= START_S_MAX)


def merge_row(chain: str, url: str, node: Node, sizes: Sizes) -> Row:
    """Measure repeated merges of one wallet."""
    wait_for_market(url)
    holder = Holder(url, node, 0)
    amount = tokens(1)
    holder.convert("merge", amount)
    taken_ms = [1e3 * holder.convert("merge", amount) for _ in range(sizes.merges)]
    typical, limit = median(taken_ms), MERGE_MS_MAX[chain]
    return Row(
        f"chain: merge of four transactions on {chain}, median of {sizes.merges}",
        f"<= {limit} ms",
        f"{typical:.1f} ms",
        typical <= limit,
    )


def lags(url: str) -> list[tuple[float, int]]:
    """Return the loop-lag histogram: upper bounds in milliseconds and cumulative counts."""
    with Client(url) as client:
        text = client.metrics()
    rows = re.findall(r'^clob_loop_lag_seconds_bucket\{le="(.*?)"\} (\S+)$', text, re.MULTILINE)
    return [(1e3 * float(bound), int(float(count))) for bound, count in rows]


def p99_ms(before: list[tuple[float, int]], after: list[tuple[float, int]]) -> float:
    """Return the smallest bound that covers 99 % of the samples between two histograms."""
    counts = [later - earlier for (_, earlier), (_, later) in zip(before, after, strict=True)]
    return next(
        bound for (bound, _), count in zip(after, counts, strict=True) if count >= 0.99 * counts[-1]
    )


def lag_rows(url: str, node: Node, sizes: Sizes) -> Iterator[Row]:
    """Measure the loop lag while several clients merge and split at once."""
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
    name = f"chain: p99 loop lag with {sizes.clients} clients, upper bound"
    yield Row(name, f"<= {LAG_MS_MAX} ms", f"{busy:.1f} ms", busy <= LAG_MS_MAX)
    yield Row("    the same without clients", "", f"{quiet:.1f} ms", None)
    per_s = sum(counts) / sizes.lag_s
    yield Row("    operations per second during the measurement", "", f"{per_s:.1f}", None)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    sizes = QUICK if quick else Sizes()
    yield start_row(sizes)
    with demo() as (url, _):
        client = once(url, WALLETS[0].private_key)
        faucet(client)
        node = Node(chain_of(client).rpc_url)
        yield merge_row("development chain", url, node, sizes)
        yield from lag_rows(url, node, sizes)
    program = next(Path(__file__).parents[1].glob(f"{ANVIL}/anvil-*/bin/anvil*"), None)
    if program is None:
        yield Row("chain: merge on anvil not measured; `make clients` installs anvil", "", "", None)
        return
    with anvil(program) as target, demo(target) as (url, _):
        yield merge_row("anvil", url, Node(target), sizes)
