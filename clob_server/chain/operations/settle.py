"""Settle: trades go to the exchange contract in one transaction, each by itself.

What came of each of them is in the logs, and is told as news. The operation is done once its
transaction happened: what settled before moves nothing, so it does no harm to ask again.
"""

from typing import Final

import msgspec

from clob_server.chain.eth.exchange_abi import (
    FILL_GAS,
    FILLS_MAX,
    IS_PAUSED,
    OPERATOR,
    encode_settle_bodies,
)
from clob_server.chain.operation_bodies import SettleAnswer, SettleBody
from clob_server.chain.operations.base import (
    RefusalError,
    Run,
    StepFailedError,
    Work,
    World,
    hash_of,
)
from clob_server.chain.operations.preconditions import Read, check_gas, look
from clob_server.chain.tx.gas_limits import StepCall

STEP: Final = "settleTx"
"""The one step."""
BASE_GAS: Final = 60_000
"""What a transaction takes besides its fills: 21,000, and the contract around its loop."""
BESIDES_GAS: Final = 30_000
"""What a fill takes besides what it may burn: the call, its log, and what a call must leave."""
ZERO_GAS: Final = 4
"""What a byte of the transaction costs that is 0."""
BYTE_GAS: Final = 16
"""What another byte costs."""
OTHERS_GAS: Final = 900_000
"""What each other operation under way may take in gas, generously."""


class Settle(Work):
    """Settles trades.

    Args:
        body: what is asked for.
    """

    kind: str = "settle"
    """What it does."""
    names: tuple[str, ...] = (STEP,)
    """Its steps."""

    def __init__(self, body: SettleBody) -> None:
        self._body = body
        self.gas: int = gas_limit(len(body.fills), b"")
        """What it takes in gas, at most; what the bytes cost is left out."""

    async def check(self, world: World) -> None:
        """Refuse what the contract would not take as a whole.

        Raises:
            RefusalError: why.
        """
        exchange = world.addresses.exchange
        if not exchange:
            raise RefusalError("CHAIN_UNAVAILABLE", "there is no exchange contract on this chain")
        if not 1 <= len(self._body.fills) <= FILLS_MAX:
            count = len(self._body.fills)
            raise RefusalError("INVALID_COMMAND", f"1 to {FILLS_MAX} trades settle, not {count}")
        try:
            call = self._call(exchange)
        except ValueError as error:
            raise RefusalError("INVALID_COMMAND", f"a trade cannot be written: {error}") from error
        reads = Read(exchange, IS_PAUSED, ()), Read(exchange, OPERATOR, ())
        is_paused, operator = await look(world, *reads)
        self._check_contract(world, is_paused, operator)
        self._check_gas(world, call.gas or 0)

    def _check_contract(self, world: World, is_paused: bool, operator: str) -> None:
        """Refuse while the contract takes no trades from here.

        Raises:
            RefusalError: its owner paused it, or named another operator.
        """
        exchange = world.addresses.exchange
        if is_paused:
            raise RefusalError("CHAIN_UNAVAILABLE", f"the exchange {exchange} is paused")
        if operator != world.node.operator:
            raise RefusalError(
                "CHAIN_UNAVAILABLE",
                f"the operator of the exchange {exchange} is {operator}, not {world.node.operator}",
            )

    def _check_gas(self, world: World, gas: int) -> None:
        """Refuse what fits into no block, or cannot be paid for.

        Raises:
            RefusalError: it does not, or cannot.
        """
        limit = world.node.gas_limit
        if limit is not None and gas > limit:
            raise RefusalError(
                "CHAIN_UNAVAILABLE",
                f"{len(self._body.fills)} trades may take {gas} gas, and a block has {limit}",
            )
        # Those under way beside it take as much as others do, and not as much as this.
        more = max(0, gas - OTHERS_GAS) * world.node.fees.max_fee
        check_gas(world, OTHERS_GAS, more)

    def _call(self, exchange: str) -> StepCall:
        """Write the transaction."""
        data = encode_settle_bodies(self._body.fills)
        return StepCall(STEP, exchange, data, gas=gas_limit(len(self._body.fills), data))

    async def run(self, run: Run) -> msgspec.Struct:
        """Have the transaction happen.

        Raises:
            StepFailedError: it was reverted, and nothing moved.
        """
        exchange = run.world.addresses.exchange
        if not exchange and not run.has_begun(STEP):
            raise StepFailedError("there is no exchange contract any more")
        (step,) = await run.must(self._call(exchange))
        return SettleAnswer(
            message=f"{len(self._body.fills)} trades were brought before the exchange contract",
            settle_tx=hash_of(step),
        )


def gas_limit(num_fills: int, data: bytes) -> int:
    """Say how much gas a settlement is given.

    So much that each fill can burn all it may, and none is refused for want of gas. A node's
    estimate is no help: between it and the block, a receiver may begin to burn. What is left is
    not paid for.

    Args:
        num_fills: how many trades.
        data: the transaction's bytes.
    """
    num_zeros = data.count(0)
    written = ZERO_GAS * num_zeros + BYTE_GAS * (len(data) - num_zeros)
    return BASE_GAS + num_fills * (FILL_GAS + BESIDES_GAS) + written
