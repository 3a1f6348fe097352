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
from clob_server.chain.operations.base import OperationContext, Run, Work, step_hash
from clob_server.chain.operations.calls import ETHER_TRANSFER_GAS
from clob_server.chain.operations.preconditions import check_gas, check_user, read_once
from clob_server.chain.tx.gas_limits import StepCall

ENOUGH_WEI: Final = ETHER_WEI // 100
"""Balance from which a wallet receives no ether for gas."""
GAP_GAS: Final = 100_000
"""Gas limit of the transaction that fills a gap: 21,000, and more on some chains."""
GAP_STEP: Final = "gapTx"
"""Name of the step that fills a gap."""


class Faucet(Work[FaucetBody]):
    """Sends collateral and some ether to a wallet."""

    step_names: tuple[str, ...] = ("faucetTx", "transferTx", "gasTx")
    gas: int = 400_000

    async def check(self, context: OperationContext) -> None:
        """Reject an invalid wallet, or if the operator has too little ether."""
        check_user(context, self.body.user)
        await read_once(context)
        check_gas(context, self.gas, context.gas_gift)

    async def run(self, run: Run) -> FaucetAnswer:
        """Mint test dollars and wrap them for the wallet.

        If only the wrapping fails, the test dollars stay with the operator: they are worthless.

        Raises:
            StepFailedError: the wallet received nothing.
        """
        user, units, builder = self.body.user, self.body.units, run.context.builder
        (mint,) = await run.confirm(builder.mint("faucetTx", units))
        (wrap,) = await run.confirm(builder.wrap("transferTx", user, units))
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


class GapBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="gap"):
    """Parameters of :class:`Gap`, which the worker starts."""

    nonce: int
    """The unused nonce."""


class GapAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer of :class:`Gap`."""

    gap_tx: str


class Gap(Work[GapBody]):
    """Uses a missing nonce."""

    step_names: tuple[str, ...] = (GAP_STEP,)
    gas: int = GAP_GAS

    async def run(self, run: Run) -> GapAnswer:
        """Sign the transaction with the nonce and wait until it is confirmed."""
        call = StepCall(GAP_STEP, run.context.node.operator, b"")
        if not run.has_begun(GAP_STEP):
            await run.context.sender.sign_at(run.operation, call, self.body.nonce, GAP_GAS)
        (step,) = await run.confirm(call)
        return GapAnswer(gap_tx=step_hash(step))
