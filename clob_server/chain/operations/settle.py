"""Settle: sends trades to the exchange contract in one transaction, each settled independently.

The watcher reports the result of each trade from the logs. The operation is done when its
transaction succeeds. The contract skips trades that are settled already, so resending them is safe.
"""

from typing import Final

from clob.wire.operations import SettleAnswer, SettleBody
from clob_server.chain.eth.exchange_abi import (
    FILL_GAS,
    FILLS_MAX,
    IS_PAUSED,
    OPERATOR,
    encode_settle_bodies,
)
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.preconditions import (
    NO_ESCROW,
    Read,
    check_gas,
    escrow_read,
    read_once,
    without_escrow,
)
from clob_server.chain.tx.gas_limits import StepCall

STEP: Final = "settleTx"
"""Name of the only step."""
BASE_GAS: Final = 60_000
"""Gas of a transaction without its fills: 21,000, and the code around the loop."""
FILL_OVERHEAD_GAS: Final = 40_000
"""Gas of a fill beyond its limit: the call, its log, the record of its result, and the gas that a
call cannot forward."""
ZERO_BYTE_GAS: Final = 4
"""Gas of a zero byte of calldata."""
BYTE_GAS: Final = 16
"""Gas of any other byte of calldata."""
OTHERS_GAS: Final = 900_000
"""Upper estimate of the gas of each other pending operation."""


class Settle(Work[SettleBody]):
    """Settles trades."""

    step_names: tuple[str, ...] = (STEP,)

    def __init__(self, body: SettleBody) -> None:
        super().__init__(body)
        self.gas: int = gas_limit(len(body.fills), b"")  # without the calldata

    async def check(self, context: OperationContext) -> None:
        """Reject a batch that the contract would reject as a whole.

        It is empty or too long, a trade cannot be encoded, there is no exchange, it is paused, has
        another operator or no escrow, or the gas exceeds the block gas limit or the operator's
        ether.
        """
        exchange, num_fills = context.addresses.exchange, len(self.body.fills)
        if not exchange:
            raise OperationRejectedError(
                "CHAIN_UNAVAILABLE", "there is no exchange contract on this chain"
            )
        if not 1 <= num_fills <= FILLS_MAX:
            raise OperationRejectedError(
                "INVALID_COMMAND",
                f"a settlement must have 1 to {FILLS_MAX} trades; got {num_fills}",
            )
        try:
            gas = self._call(exchange).gas or 0
        except ValueError as error:
            raise OperationRejectedError(
                "INVALID_COMMAND", f"a trade cannot be encoded: {error}"
            ) from error
        reads = Read(exchange, IS_PAUSED, ()), Read(exchange, OPERATOR, ()), escrow_read(exchange)
        is_paused, operator, escrow = await read_once(context, *reads)
        limit = context.node.gas_limit
        problem = ""
        if is_paused:
            problem = f"the exchange {exchange} is paused"
        elif operator != context.node.operator:
            problem = (
                f"the operator of the exchange {exchange} is {operator}; expected "
                f"{context.node.operator}"
            )
        elif self.body.custody == "escrow" and escrow == NO_ESCROW:
            problem = without_escrow(exchange)
        elif limit is not None and gas > limit:
            problem = f"{num_fills} trades need up to {gas} gas; the block gas limit is {limit}"
        if problem:
            raise OperationRejectedError("CHAIN_UNAVAILABLE", problem)
        # Other pending operations are counted with their own gas, not with that of this batch.
        extra = max(0, gas - OTHERS_GAS) * context.node.fees.max_fee
        check_gas(context, OTHERS_GAS, extra)

    def _call(self, exchange: str) -> StepCall:
        """Return the step.

        Raises:
            ValueError: a trade cannot be encoded.
        """
        data = encode_settle_bodies(self.body.fills, self.body.custody)
        return StepCall(STEP, exchange, data, gas=gas_limit(len(self.body.fills), data))

    async def run(self, run: Run) -> SettleAnswer:
        """Send the transaction.

        Raises:
            StepFailedError: it was reverted and no trade settled.
        """
        exchange = run.context.addresses.exchange
        if not exchange and not run.has_begun(STEP):
            raise StepFailedError("there is no exchange contract any more")
        (step,) = await run.confirm(self._call(exchange))
        return SettleAnswer(
            message=f"{len(self.body.fills)} trades were sent to the exchange contract",
            settle_tx=step_hash(step),
        )


def gas_limit(num_fills: int, data: bytes) -> int:
    """Return the gas limit of a settlement with this calldata.

    It lets each fill use its full limit, so that no fill fails for lack of gas. An estimate of the
    node is not sufficient: the code of a token receiver may use more gas in the block than in the
    estimate. Unused gas is not charged.
    """
    num_zeros = data.count(0)
    data_gas = ZERO_BYTE_GAS * num_zeros + BYTE_GAS * (len(data) - num_zeros)
    return BASE_GAS + num_fills * (FILL_GAS + FILL_OVERHEAD_GAS) + data_gas
