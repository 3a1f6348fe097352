"""Makers on a chain and fills of their orders, for tests of settlement."""

import asyncio
import itertools

from eth_utils import keccak

from clob.order import Side
from clob.signing import ZERO_ADDRESS, Domain, SignedOrder, sign
from clob.wire.operations import FillBody, SettleBody
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.exchange_abi import FAILED, FAILED_BEFORE, SETTLED, SETTLED_BEFORE
from clob_server.chain.eth.rpc import Rpc
from clob_server.chain.tx.node import Node
from clob_server.chain.watcher.failures import Failure, explain_failures
from tests.chain.chains import answer_of, done, split
from tests.chain.signed_fills import party_of
from tests.chain.wallets import MAX, UNIT, receipt_of

EXCHANGE = DEVELOPMENT.exchange
DOMAIN = Domain("clob", "1", 31337, EXCHANGE)
BUY, SELL = Side.BUY, Side.SELL
PRICE = 40
INVALID = b"\xfe"
"""Code of a wallet that burns all gas at once."""

ACCEPTS = bytes.fromhex("63f23a6e6160e01b60005260206000f3")
"""Code of a wallet that accepts every token."""

_salts = itertools.count(1)


def approve_exchange(user):
    """Approve collateral and tokens for the exchange."""
    contracts = user.contracts
    user.call(contracts.collateral, "approve(address,uint256)", EXCHANGE, MAX)
    user.call(contracts.conditional_tokens, "setApprovalForAll(address,bool)", EXCHANGE, True)


class Makers:
    """A market on a chain and makers with collateral and tokens.

    Args:
        chain: the chain.
        worker: a worker that is ready.
        units: amount of collateral and tokens that the source of the makers' funds gets.
    """

    def __init__(self, chain, worker, units=10_000):
        self.chain = chain
        self.condition = chain.condition(worker)
        self._source = chain.user(worker, 2 * units)
        done(worker, next(chain.names), split(self._source, self.condition, units * UNIT))

    def maker(self, units=100, *, approved=True):
        """Return a maker with these units of collateral and of both tokens."""
        user = self.chain.user(None, approved=False)
        self._source.send_collateral(user.address, units * UNIT)
        for token in (self.condition.yes, self.condition.no):
            self._source.send_token(user.address, token, units * UNIT)
        if approved:
            approve_exchange(user)
        return user

    def buy(self, maker, price=PRICE, size=UNIT, token=None, **more):
        """Return a buy order."""
        return party(maker, BUY, price, size, token or self.condition.yes, **more)

    def sell(self, maker, price=PRICE, size=UNIT, token=None, **more):
        """Return a sell order."""
        return party(maker, SELL, price, size, token or self.condition.yes, **more)

    def trade(self, buyer, seller, size=UNIT, **more):
        """Return a valid fill of two new orders."""
        return self.fill(self.buy(buyer, size=size, **more), self.sell(seller, size=size), size)

    def mint(self, one, other, size=UNIT, price=PRICE):
        """Return a fill of two new buy orders."""
        second = self.buy(other, 100 - price, size, self.condition.no)
        return self.fill(self.buy(one, price, size), second, size, price)

    def merge(self, one, other, size=UNIT, price=PRICE):
        """Return a fill of two new sell orders."""
        second = self.sell(other, 100 - price, size, self.condition.no)
        return self.fill(self.sell(one, price, size), second, size, price)

    def fill(self, resting, incoming, size=UNIT, price=PRICE):
        """Return a fill of two orders."""
        return fill_of(self.chain, resting, incoming, size, price)


def fill_of(chain, resting, incoming, size=UNIT, price=PRICE):
    """Return a fill of two orders with a new trade id."""
    number = int.from_bytes(keccak(text=next(chain.names)))
    return FillBody(
        trade_id=str(number), price=price, size=str(size), resting=resting, incoming=incoming
    )


def party(maker, side, price, size, token, *, key=None, wallet=ZERO_ADDRESS, charged=0, **more):
    """Return a signed order as a part of a fill.

    Args:
        maker: a user with a key.
        side: buy or sell.
        price: price in cents.
        size: size in wei.
        token: token id.
        key: key of another signer.
        wallet: wallet that pays or is paid instead of the maker.
        charged: fee rate in basis points.
        more: other fields of the order.
    """
    fields = {"signature_type": 1, "salt": next(_salts), **more}
    order = SignedOrder.from_price_size(
        side=side, price=price, size=size, maker=maker.address, token_id=token, **fields
    )
    return party_of(sign(order, DOMAIN, key or maker.key), wallet, charged)


# ----- settling and its results --------------------------------------------------------------


def settle(chain, worker, *fills, custody="wallet"):
    """Settle fills in one operation and return its transaction hash."""
    body = SettleBody(fills=list(fills), custody=custody)
    answer = answer_of(worker.do(next(chain.names), body))
    assert list(answer) == ["success", "message", "settleTx"]
    return answer["settleTx"]


def logs_of(chain, hashed):
    """Return the event and its values for each fill of a transaction, by trade id."""
    receipt = receipt_of(chain.node, hashed)
    assert receipt["status"] == "0x1"
    return {
        str(event.decode(log)[0]): (event, event.decode(log))
        for log in receipt["logs"]
        for event in (SETTLED, FAILED, SETTLED_BEFORE, FAILED_BEFORE)
        if event.is_in(log) and log["address"].lower() == EXCHANGE.lower()
    }


def outcomes(chain, hashed, fills):
    """Return the event name of each fill."""
    logs = logs_of(chain, hashed)
    return [logs[fill.trade_id][0].name for fill in fills]


def failures_of(chain, hashed, fills):
    """Return the failed fills of a transaction."""
    logs = logs_of(chain, hashed)
    block = int(receipt_of(chain.node, hashed)["blockNumber"], 16)
    return [
        Failure(trade_id=int(fill.trade_id), reason=values[1], tx=hashed, block=block)
        for fill in fills
        for event, values in [logs[fill.trade_id]]
        if event is FAILED
    ]


def failure_causes(chain, hashed, fills):
    """Return the cause of each failed fill; None for settled fills."""
    failures = failures_of(chain, hashed, fills)
    numbers = [each.trade_id for each in failures]
    causes = dict(zip(numbers, explain(chain, failures), strict=True))
    return [causes.get(int(fill.trade_id)) for fill in fills]


def error_and_wallets(chain, hashed, fills):
    """Return error name and responsible wallets of each fill; None for settled fills."""
    return [
        cause and (cause.error.partition(":")[0], cause.responsible)
        for cause in failure_causes(chain, hashed, fills)
    ]


def explain(chain, failures):
    """Explain failures with the node's data."""

    async def ask():
        rpc = Rpc(chain.node.url)
        try:
            node = Node(rpc, chain.operator, 31337, 10**12, lambda: None)
            return await explain_failures(node, DEVELOPMENT, failures)
        finally:
            await rpc.close()

    return asyncio.run(ask())


def advance_time(node, seconds):
    """Advance the time of a node from its newest block, which may be ahead of the clock."""
    node.ask("evm_setNextBlockTimestamp", hex(now_s(node) + seconds))
    node.ask("evm_mine")


def now_s(node):
    """Return the time of the newest block."""
    return int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)


def reverting_code(data):
    """Return the code of a wallet that reverts with these bytes."""
    length = bytes([len(data)])
    return b"\x60" + length + bytes.fromhex("600c60003960") + length + b"\x60\0\xfd" + data
