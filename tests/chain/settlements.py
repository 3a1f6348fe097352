"""Makers on a chain, and fills of their orders as a chain worker is asked to settle them."""

import asyncio
import itertools

from eth_utils import keccak

from clob.order import Side
from clob.signing import ZERO_ADDRESS, Domain, SignedOrder, sign
from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.exchange_abi import FAILED, SETTLED, SETTLED_BEFORE, order_values
from clob_server.chain.eth.rpc import Rpc
from clob_server.chain.operation_bodies import FillBody, PartyBody, SettleBody
from clob_server.chain.tx.node import Node
from clob_server.chain.watcher.failures import Failure, judge
from tests.chain.people import MAX, UNIT, receipt_of
from tests.chain.worlds import answer_of, done, split

EXCHANGE = DEVELOPMENT.exchange
DOMAIN = Domain("clob", "1", 31337, EXCHANGE)
BUY, SELL = Side.BUY, Side.SELL
PRICE = 40
INVALID = b"\xfe"
"""The code of a wallet that takes all the gas it is given, at once."""

ACCEPTS = bytes.fromhex("63f23a6e6160e01b60005260206000f3")
"""The code of a wallet that takes any token, as a good one does."""

_salts = itertools.count(1)


def may_settle(user):
    """Let the exchange take whatever a wallet has."""
    contracts = user.contracts
    user.call(contracts.collateral, "approve(address,uint256)", EXCHANGE, MAX)
    user.call(contracts.conditional_tokens, "setApprovalForAll(address,bool)", EXCHANGE, True)


class Makers:
    """A market on a chain, and people who have collateral and tokens of it.

    Args:
        world: the chain.
        worker: a worker that is ready.
        units: how much of everything the one has whom the others get theirs from.
    """

    def __init__(self, world, worker, units=10_000):
        self.world = world
        self.condition = world.condition(worker)
        self._source = world.user(worker, 2 * units)
        done(worker, next(world.names), split(self._source, self.condition, units * UNIT))

    def maker(self, units=100, *, approved=True):
        """Somebody with so many units of collateral and of both tokens."""
        user = self.world.user(None, approved=False)
        self._source.give_collateral(user.address, units * UNIT)
        for token in (self.condition.yes, self.condition.no):
            self._source.give_token(user.address, token, units * UNIT)
        if approved:
            may_settle(user)
        return user

    def buy(self, maker, price=PRICE, size=UNIT, token=None, **more):
        """An order to buy."""
        return party(maker, BUY, price, size, token or self.condition.yes, **more)

    def sell(self, maker, price=PRICE, size=UNIT, token=None, **more):
        """An order to sell."""
        return party(maker, SELL, price, size, token or self.condition.yes, **more)

    def trade(self, buyer, seller, size=UNIT, **more):
        """A fill of two fresh orders, with which nothing is wrong."""
        return self.fill(self.buy(buyer, size=size, **more), self.sell(seller, size=size), size)

    def mint(self, one, other, size=UNIT, price=PRICE):
        """A fill of two fresh orders that buy."""
        second = self.buy(other, 100 - price, size, self.condition.no)
        return self.fill(self.buy(one, price, size), second, size, price)

    def merge(self, one, other, size=UNIT, price=PRICE):
        """A fill of two fresh orders that sell."""
        second = self.sell(other, 100 - price, size, self.condition.no)
        return self.fill(self.sell(one, price, size), second, size, price)

    def fill(self, resting, incoming, size=UNIT, price=PRICE):
        """A fill of two orders."""
        return fill_of(self.world, resting, incoming, size, price)


def fill_of(world, resting, incoming, size=UNIT, price=PRICE):
    """A fill of two orders, with a number that no other has."""
    number = int.from_bytes(keccak(text=next(world.names)))
    return FillBody(
        trade_id=str(number), price=price, size=str(size), resting=resting, incoming=incoming
    )


def party(maker, side, price, size, token, *, key=None, wallet=ZERO_ADDRESS, charged=0, **more):
    """An order in a fill, signed by its maker.

    Args:
        maker: somebody with a key.
        side: whether he buys or sells.
        price: in cents.
        size: in wei.
        token: which.
        key: who signs in his place.
        wallet: who pays or is paid in his place.
        charged: the fee, in basis points.
        more: other fields of the order.
    """
    fields = {"signature_type": 1, "salt": next(_salts), **more}
    order = SignedOrder.from_price_size(
        side=side, price=price, size=size, maker=maker.address, token_id=token, **fields
    )
    return party_of(sign(order, DOMAIN, key or maker.key), wallet, charged)


def party_of(order, wallet=ZERO_ADDRESS, charged=0):
    """Write an order as a fill has it."""
    salt, maker, signer, taker, *numbers, side, kind = order_values(order)
    token_id, maker_amount, taker_amount, expiration, nonce, rate = map(str, numbers)
    return PartyBody(
        salt=str(salt),
        maker=maker,
        signer=signer,
        taker=taker,
        token_id=token_id,
        maker_amount=maker_amount,
        taker_amount=taker_amount,
        expiration=expiration,
        nonce=nonce,
        fee_rate_bps=rate,
        side=int(side),
        signature_type=int(kind),
        signature=order.signature,
        wallet=wallet,
        charged_bps=charged,
    )


# ----- settling, and what came of it ---------------------------------------------------------


def settle(world, worker, *fills):
    """Have fills settled by an operation, and give its transaction."""
    answer = answer_of(worker.do(next(world.names), SettleBody(fills=list(fills))))
    assert list(answer) == ["success", "message", "settleTx"]
    return answer["settleTx"]


def logs_of(world, hashed):
    """What a transaction says of its fills: the event and its values, by number."""
    receipt = receipt_of(world.node, hashed)
    assert receipt["status"] == "0x1"
    return {
        str(event.decode(log)[0]): (event, event.decode(log))
        for log in receipt["logs"]
        for event in (SETTLED, FAILED, SETTLED_BEFORE)
        if event.is_in(log) and log["address"].lower() == EXCHANGE.lower()
    }


def outcomes(world, hashed, fills):
    """What came of each fill: the names of events."""
    said = logs_of(world, hashed)
    return [said[fill.trade_id][0].name for fill in fills]


def failures_of(world, hashed, fills):
    """Those of the fills that failed, as the worker judges them."""
    said = logs_of(world, hashed)
    block = int(receipt_of(world.node, hashed)["blockNumber"], 16)
    return [
        Failure(trade_id=int(fill.trade_id), reason=values[1], tx=hashed, block=block)
        for fill in fills
        for event, values in [said[fill.trade_id]]
        if event is FAILED
    ]


def verdicts(world, hashed, fills):
    """Why each fill failed and who is to blame, as the worker judges it; None where it settled."""
    failures = failures_of(world, hashed, fills)
    numbers = [each.trade_id for each in failures]
    found = dict(zip(numbers, judged(world, failures), strict=True))
    return [found.get(int(fill.trade_id)) for fill in fills]


def blamed(world, hashed, fills):
    """The name of what failed, and who is to blame, of each fill; None where it settled."""
    return [
        verdict and (verdict.error.partition(":")[0], verdict.blamed)
        for verdict in verdicts(world, hashed, fills)
    ]


def judged(world, failures):
    """Ask the node who is to blame."""

    async def ask():
        rpc = Rpc(world.node.url)
        try:
            node = Node(rpc, world.operator, 31337, 10**12, lambda: None)
            return await judge(node, DEVELOPMENT, failures)
        finally:
            await rpc.close()

    return asyncio.run(ask())


def passed(node, seconds):
    """Have time pass on a node, from the newest block on, which may be ahead of the clock."""
    node.ask("evm_setNextBlockTimestamp", hex(now_s(node) + seconds))
    node.ask("evm_mine")


def now_s(node):
    """The time of the newest block."""
    return int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)


def says(data):
    """The code of a wallet that reverts with these bytes."""
    length = bytes([len(data)])
    return b"\x60" + length + bytes.fromhex("600c60003960") + length + b"\x60\0\xfd" + data
