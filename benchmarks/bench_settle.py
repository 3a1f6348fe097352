"""Settling: 25 trades of 50 wallets in one transaction, from the request until it is confirmed.

The request is the server's own, to the chain worker and no further: what is measured is the worker
and the node. All orders are fresh and signed, and each wallet trades in each transaction.
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

from benchmarks.bench_chain import ALL, ANVIL, PAUSE_S, Node, anvil
from benchmarks.measure import Row, same
from benchmarks.workload import cache_dir
from clob import Side, tokens
from clob.signing import ZERO_ADDRESS, Domain, SignedOrder, sign
from clob_server.chain.accounts import ACCOUNTS, ETHER_WEI
from clob_server.chain.bodies import (
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
from clob_server.chain.exchange import FILLS_MAX, SETTLED, order_values
from clob_server.chain.link import Link
from clob_server.chain.messages import Done
from clob_server.settings import Settings

SETTLE_MS_MAX = {"development chain": 300, "anvil": 30}
UNITS = 100
PRICE = 40
SIZE = tokens(1) // 10
QUESTION = f"0x{'5e' * 32}"
RICH = ACCOUNTS[8].private_key
GAS_WEI = ETHER_WEI // 10
KEY = 0x5E771E << 128
"""The private keys of the wallets follow this one."""


class Market(NamedTuple):
    """Where trades settle."""

    link: Link
    node: Node
    domain: Domain
    condition: PrepareAnswer


# ----- the chain and its people --------------------------------------------------------------


async def opened(chain: str, folder: Path) -> Link:
    """A worker that is ready, on a chain."""

    async def risen() -> None:
        """Nothing is left over."""

    settings = Settings(chain=chain, chain_port=0, data_dir=str(folder), faucet_units=UNITS)
    link = Link(settings, folder, risen=risen, ended=lambda _: None)
    link.begin()
    while not link.is_open:
        await asyncio.sleep(PAUSE_S)
    return link


async def done(link: Link, name: str, body: AnyBody) -> bytes:
    """Have an operation carried out, and give its answer."""
    end = await link.talk.carry_out(name, body, time.time_ns() // 1_000_000)
    if not isinstance(end, Done):
        raise TypeError(f"{name} came to {end}")
    return bytes(end.answer)


async def market_on(link: Link, url: str) -> Market:
    """A market that settles."""
    node = Node(url)
    answer = await done(link, "prepare", PrepareBody(question_id=QUESTION))
    condition = msgspec.json.decode(answer, type=PrepareAnswer)
    assert link.addresses is not None
    domain = Domain("clob", "1", int(node.ask("eth_chainId"), 16), link.addresses.exchange)
    return Market(link, node, domain, condition)


async def wallet(market: Market, number: int) -> str:
    """Somebody with collateral who lets the exchange take it; each other one has tokens."""
    key = f"0x{KEY + number:064x}"
    user = Account.from_key(key).address
    link, node, condition = market.link, market.node, market.condition
    assert link.addresses is not None
    places = link.addresses
    node.call(RICH, user, "gas(uint256)", number, value_wei=GAS_WEI)
    await done(link, f"faucet {number}", FaucetBody(user=user, units=UNITS))
    node.call(key, places.collateral, "approve(address,uint256)", places.exchange, ALL)
    if number % 2:
        node.call(key, places.collateral, "approve(address,uint256)", link.operator, ALL)
        body = SplitBody(
            user=user,
            amount=str(tokens(UNITS)),
            condition_id=condition.condition_id,
            yes_token_id=condition.yes_token_id,
            no_token_id=condition.no_token_id,
        )
        await done(link, f"split {number}", body)
        approve = "setApprovalForAll(address,bool)"
        node.call(key, places.conditional_tokens, approve, places.exchange, True)
    return key


# ----- trades --------------------------------------------------------------------------------


def party(market: Market, key: str, side: Side, salt: int) -> PartyBody:
    """A signed order as a fill has it."""
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
    number, maker, signer, taker, *amounts, sold, kind = order_values(signed)
    token_id, maker_amount, taker_amount, expiration, nonce, rate = map(str, amounts)
    return PartyBody(
        salt=str(number),
        maker=maker,
        signer=signer,
        taker=taker,
        token_id=token_id,
        maker_amount=maker_amount,
        taker_amount=taker_amount,
        expiration=expiration,
        nonce=nonce,
        fee_rate_bps=rate,
        side=int(sold),
        signature_type=int(kind),
        signature=signed.signature,
        wallet=ZERO_ADDRESS,
        charged_bps=0,
    )


def batch(market: Market, keys: list[str], number: int) -> SettleBody:
    """As many trades as go into a transaction, of wallets that are all different."""
    first = number * FILLS_MAX + 1
    return SettleBody(
        fills=[
            FillBody(
                trade_id=str(first + place),
                price=PRICE,
                size=str(SIZE),
                resting=party(market, keys[2 * place], Side.BUY, first + place),
                incoming=party(market, keys[2 * place + 1], Side.SELL, first + place),
            )
            for place in range(FILLS_MAX)
        ]
    )


async def times_ms(chain: str, url: str, num_batches: int) -> list[float]:
    """How long each of some settlements takes."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        link = await opened(chain, Path(folder))
        try:
            market = await market_on(link, url or link.rpc_url)
            keys = [await wallet(market, number) for number in range(2 * FILLS_MAX)]
            batches = [batch(market, keys, number) for number in range(num_batches + 1)]
            taken_ms = []
            for number, body in enumerate(batches):
                begin = time.perf_counter()
                answer = await done(link, f"settle {number}", body)
                taken_ms.append(1e3 * (time.perf_counter() - begin))
                check(market, msgspec.json.decode(answer, type=SettleAnswer))
            return taken_ms[1:]  # the first one finds everything cold
        finally:
            await link.close(10)


def check(market: Market, answer: SettleAnswer) -> None:
    """See that all trades of a transaction settled."""
    receipt = market.node.ask("eth_getTransactionReceipt", answer.settle_tx)
    settled = sum(SETTLED.is_in(log) for log in receipt["logs"])
    same("trades that settled", FILLS_MAX, settled)


def row(where: str, chain: str, url: str, num_batches: int) -> Row:
    """Settle on a chain."""
    middle = median(asyncio.run(times_ms(chain, url, num_batches)))
    most = SETTLE_MS_MAX[where]
    return Row(
        f"settle: {FILLS_MAX} trades in a transaction on {where}, median of {num_batches}",
        f"<= {most} ms",
        f"{middle:.1f} ms",
        middle <= most,
    )


def rows(*, quick: bool) -> Iterator[Row]:
    """The rows of the table."""
    num_batches = 3 if quick else 20
    yield row("development chain", "embedded", "", num_batches)
    program = next(Path(__file__).parents[1].glob(f"{ANVIL}/anvil-*/bin/anvil*"), None)
    if program is None:
        yield Row("settle: anvil not measured, `make clients` installs it", "", "", None)
        return
    with anvil(program) as url:
        yield row("anvil", url, url, num_batches)
