"""Faucet, and the filling of nonce gaps.

The faucet mints test dollars and wraps them into collateral of a wallet, with a little ether for
gas. A gap is filled by a transaction of the operator to itself that uses a missing nonce, for which
later transactions wait.
"""

from typing import Final

import msgspec

from clob.wire.operations import FaucetAnswer, FaucetBody
from clob_server.chain.eth.accounts import ETHER_WEI
from clob_server.chain.eth.rpc import number, result
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import ETHER_TRANSFER_GAS, UNIT
from clob_server.chain.operations.preconditions import (
    call_error,
    check_gas,
    check_user,
    read_and_estimate,
    scale_read,
)
from clob_server.chain.tx.gas_limits import StepCall

ENOUGH_WEI: Final = ETHER_WEI // 100
"""Balance from which a wallet receives no ether for gas."""
UNIT_SCALE: Final = ETHER_WEI // UNIT
"""Wei of collateral for the smallest unit of test dollars."""
GAP_GAS: Final = 100_000
"""Gas limit of the transaction that fills a gap: 21,000, and more on some chains."""
GAP_STEP: Final = "gapTx"
"""Name of the step that fills a gap."""


class Faucet(Work[FaucetBody]):
    """Sends collateral and some ether to a wallet."""

    step_names: tuple[str, ...] = ("faucetTx", "transferTx", "gasTx")
    gas: int = 400_000

    async def check(self, context: OperationContext) -> dict[str, int]:
        """Reject an invalid wallet, a stablecoin of another minter, and a lack of ether.

        Returns:
            Gas estimate of the minting.
        """
        check_user(context, self.body.user)
        mint = context.builder.mint("faucetTx", self.body.units)
        (scale,), gas = await read_and_estimate(context, [scale_read(context)], [mint])
        reason = None if mint.name in gas else await call_error(context, mint)
        if reason is None and scale != UNIT_SCALE:
            reason = "it is not wrapped as a stablecoin of 6 decimals"
        if reason is not None:
            raise no_faucet(context, reason)
        check_gas(context, self.gas, context.gas_gift)
        return gas

    async def run(self, run: Run) -> FaucetAnswer:
        """Mint test dollars and wrap them for the wallet.

        If only the wrapping fails, the test dollars stay with the operator: they are worthless.

        Raises:
            StepFailedError: the wallet received nothing.
        """
        user, units, builder = self.body.user, self.body.units, run.context.builder
        (mint,) = await run.confirm(builder.mint("faucetTx", units))
        (wrap,) = await run.confirm(builder.wrap("transferTx", user, units * UNIT))
        gas_tx = await self._send_ether(run)
        return FaucetAnswer(
            message=f"{units} units of collateral were sent to {user}",
            faucet_tx=step_hash(mint),
            transfer_tx=step_hash(wrap),
            gas_tx=gas_tx,
            amount=units,
        )

    async def _send_ether(self, run: Run) -> str | None:
        """Send ether to a wallet that has little; a wallet that rejects it receives none."""
        user, gift = self.body.user, run.context.gas_gift
        if not gift:
            return None
        if not run.has_begun("gasTx"):
            balance = await run.context.node.request_until_valid(
                [("eth_getBalance", (user, "latest"))], lambda replies: number(result(replies[0]))
            )
            if balance >= ENOUGH_WEI:
                return None
        call = StepCall("gasTx", user, b"", value=gift, gas_max=ETHER_TRANSFER_GAS)
        return await run.send_optional(call)


def no_faucet(context: OperationContext, reason: str) -> OperationRejectedError:
    """Return the rejection of a chain whose stablecoin is not a test stablecoin of the operator."""
    stablecoin, operator = context.addresses.stablecoin, context.node.operator
    return OperationRejectedError(
        "NO_FAUCET",
        f"the faucet needs a test stablecoin that the operator {operator} mints; {stablecoin} is "
        f"none: {reason}. Obtain stablecoin elsewhere and wrap it: POST /api/gasless/wrap",
    )


class GapBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="gap"):
    """Parameters of :class:`Gap`, which the worker starts."""

    nonce: int
    """The unused nonce."""
    account: str = ""
    """The account; empty for the operator."""


class GapAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer of :class:`Gap`."""

    gap_tx: str


class Gap(Work[GapBody]):
    """Uses a missing nonce."""

    step_names: tuple[str, ...] = (GAP_STEP,)
    gas: int = GAP_GAS

    async def run(self, run: Run) -> GapAnswer:
        """Sign the transaction with the nonce and wait until it is confirmed."""
        run = Run(run.context.acting_as(self.body.account), run.operation)
        call = StepCall(GAP_STEP, run.context.node.operator, b"")
        if not run.has_begun(GAP_STEP):
            await run.context.sender.sign_at(run.operation, call, self.body.nonce, GAP_GAS)
        (step,) = await run.confirm(call)
        return GapAnswer(gap_tx=step_hash(step))
