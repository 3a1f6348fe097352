"""Settlement benchmark: 25 trades of 50 wallets in one transaction, from request to confirmation.

The requests go directly to the chain worker, so that worker and node are measured without the rest
of the server. All orders are new and signed, and every wallet trades in every transaction.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from eth_account import Account

from benchmarks.bench_chain import ALL, ANVIL, POLL_S, Node, anvil
from benchmarks.measure import Row, check_equal
from benchmarks.workload import cache_dir
from clob import Side, tokens
from clob.signing import ZERO_ADDRESS, Domain, SignedOrder, sign
from clob.wire.operations import (
    AnyBody,
    FaucetBody,
    FillBody,
    PartyBody,
    PrepareAnswer,
    PrepareBody,
    SettleAnswer,
    SettleBody,
    SplitBody,
)
from clob_server.chain.client import ChainClient
from clob_server.chain.eth.accounts import ACCOUNTS, ETHER_WEI
from clob_server.chain.eth.exchange_abi import FILLS_MAX, SETTLED
from clob_server.chain.messages import OperationDone
from clob_server.settings import Settings

SETTLE_MS_MAX = {"development chain": 300, "anvil": 30}
UNITS = 100
PRICE = 40
SIZE = tokens(1) // 10
QUESTION = f"0x{'5e' * 32}"
FUNDED_KEY = ACCOUNTS[8].private_key
GAS_WEI = ETHER_WEI // 10
KEY = 0x5E771E << 128
"""The private keys of the wallets follow this one."""


class Market(NamedTuple):
    """A market whose trades settle, and its chain."""

    link: ChainClient
    node: Node
    domain: Domain
    condition: PrepareAnswer


# ----- chain and wallets ---------------------------------------------------------------------


async def open_link(chain: str, folder: Path) -> ChainClient:
    """Start a chain worker and wait until it is ready."""

    async def on_ready() -> None:
        """Do nothing: no operation is pending."""

    settings = Settings(chain=chain, chain_port=0, data_dir=str(folder), faucet_units=UNITS)
    link = ChainClient(settings, folder, on_ready=on_ready, on_end=lambda _: None)
    link.start()
    while not link.is_open:
        await asyncio.sleep(POLL_S)
    return link


async def run_operation(link: ChainClient, name: str, body: AnyBody) -> bytes:
    """Run a chain operation and return its result."""
    end = await link.worker.run_operation(name, body, time.time_ns() // 1_000_000)
    if not isinstance(end, OperationDone):
        raise TypeError(f"{name} must end as Done; got {end}")
    return bytes(end.answer)


async def market_on(link: ChainClient, url: str) -> Market:
    """Open a market whose trades settle."""
    node = Node(url)
    answer = await run_operation(link, "prepare", PrepareBody(question_id=QUESTION))
    condition = msgspec.json.decode(answer, type=PrepareAnswer)
    assert link.addresses is not None
    domain = Domain("clob", "1", int(node.rpc("eth_chainId"), 16), link.addresses.exchange)
    return Market(link, node, domain, condition)


async def wallet(market: Market, number: int) -> str:
    """Return the key of a new wallet with collateral and approvals; odd ones also have tokens."""
    key = f"0x{KEY + number:064x}"
    user = Account.from_key(key).address
    link, node, condition = market.link, market.node, market.condition
    assert link.addresses is not None
    contracts = link.addresses
    node.call(FUNDED_KEY, user, "gas(uint256)", number, value_wei=GAS_WEI)
    await run_operation(link, f"faucet {number}", FaucetBody(user=user, units=UNITS))
    node.call(key, contracts.collateral, "approve(address,uint256)", contracts.exchange, ALL)
    if number % 2:
        node.call(key, contracts.collateral, "approve(address,uint256)", link.operator, ALL)
        body = SplitBody(
            user=user,
            amount=str(tokens(UNITS)),
            condition_id=condition.condition_id,
            yes_token_id=condition.yes_token_id,
            no_token_id=condition.no_token_id,
        )
        await run_operation(link, f"split {number}", body)
        approve = "setApprovalForAll(address,bool)"
        node.call(key, contracts.conditional_tokens, approve, contracts.exchange, True)
    return key


# ----- trades --------------------------------------------------------------------------------


def party(market: Market, key: str, side: Side, salt: int) -> PartyBody:
    """Return a signed order in the form of a fill."""
    order = SignedOrder.from_price_size(
        side=side,
        price=PRICE,
        size=SIZE,
        maker=Account.from_key(key).address,
        token_id=int(market.condition.yes_token_id),
        salt=salt,
        signature_type=1,
    )
    signed = sign(order, market.domain, key)
    return PartyBody(
        salt=str(signed.salt),
        maker=signed.maker,
        signer=signed.signer,
        taker=signed.taker,
        token_id=str(signed.token_id),
        maker_amount=str(signed.maker_amount),
        taker_amount=str(signed.taker_amount),
        expiration=str(signed.expiration_s),
        nonce=str(signed.nonce),
        fee_rate_bps=str(signed.fee_rate_bps),
        side=int(signed.side),
        signature_type=int(signed.signature_type),
        signature=signed.signature,
        wallet=ZERO_ADDRESS,
        charged_bps=0,
    )


def batch(market: Market, keys: list[str], number: int) -> SettleBody:
    """Return a full transaction of trades, every wallet in one of them."""
    first_id = number * FILLS_MAX + 1
    return SettleBody(
        fills=[
            FillBody(
                trade_id=str(first_id + index),
                price=PRICE,
                size=str(SIZE),
                resting=party(market, keys[2 * index], Side.BUY, first_id + index),
                incoming=party(market, keys[2 * index + 1], Side.SELL, first_id + index),
            )
            for index in range(FILLS_MAX)
        ]
    )


async def times_ms(chain: str, url: str, num_batches: int) -> list[float]:
    """Return the times of consecutive settlements in milliseconds."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        link = await open_link(chain, Path(folder))
        try:
            market = await market_on(link, url or link.rpc_url)
            keys = [await wallet(market, number) for number in range(2 * FILLS_MAX)]
            batches = [batch(market, keys, number) for number in range(num_batches + 1)]
            taken_ms = []
            for number, body in enumerate(batches):
                begin = time.perf_counter()
                answer = await run_operation(link, f"settle {number}", body)
                taken_ms.append(1e3 * (time.perf_counter() - begin))
                check(market, msgspec.json.decode(answer, type=SettleAnswer))
            return taken_ms[1:]  # the first one runs with cold caches
        finally:
            await link.close(10)


def check(market: Market, answer: SettleAnswer) -> None:
    """Check that all trades of a transaction settled."""
    receipt = market.node.rpc("eth_getTransactionReceipt", answer.settle_tx)
    settled = sum(SETTLED.is_in(log) for log in receipt["logs"])
    check_equal("settled trades", FILLS_MAX, settled)


def row(name: str, chain: str, url: str, num_batches: int) -> Row:
    """Measure settlements on one chain."""
    typical = median(asyncio.run(times_ms(chain, url, num_batches)))
    limit = SETTLE_MS_MAX[name]
    return Row(
        f"settle: {FILLS_MAX} trades in a transaction on {name}, median of {num_batches}",
        f"<= {limit} ms",
        f"{typical:.1f} ms",
        typical <= limit,
    )


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    num_batches = 3 if quick else 20
    yield row("development chain", "embedded", "", num_batches)
    program = next(Path(__file__).parents[1].glob(f"{ANVIL}/anvil-*/bin/anvil*"), None)
    if program is None:
        yield Row("settle: not measured on anvil; `make clients` installs it", "", "", None)
        return
    with anvil(program) as url:
        yield row("anvil", url, url, num_batches)
