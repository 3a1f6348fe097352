"""Transfer of an ERC-20 from a wallet to the operator, by an approval or a signed permit."""

from typing import Final, NamedTuple

from clob.wire.operations import Permit
from clob_server.chain.operations.base import OperationContext, OperationRejectedError, Run
from clob_server.chain.operations.calls import ALLOWANCE
from clob_server.chain.operations.preconditions import Read, call_error, read_until_valid
from clob_server.chain.tx.gas_limits import StepCall

PERMIT_STEP: Final = "permitTx"
"""Name of the step that submits a permit."""


class Payment(NamedTuple):
    """A transfer to the operator. Amounts are in the token's smallest unit."""

    step: str
    """Name of the step that transfers."""
    asset: str
    """Word for the token in errors."""
    token: str
    """Address of the token."""
    user: str
    """Wallet that pays."""
    amount: int
    permit: Permit | None

    def allowance(self, context: OperationContext) -> Read:
        """Return the read of the wallet's approval for the operator."""
        return Read(self.token, ALLOWANCE, (self.user, context.node.operator))

    def pull(self, context: OperationContext) -> StepCall:
        """Return the step that transfers."""
        return context.builder.pull(self.step, self.user, self.amount, self.token)

    def refund(self, name: str, context: OperationContext) -> StepCall:
        """Return the step that pays the amount back."""
        return context.builder.pay(name, self.user, self.amount, self.token)

    async def check_approved(self, context: OperationContext, approved: int) -> None:
        """Reject a wallet without sufficient approval and valid permit, with the call to approve.

        Args:
            context: the context.
            approved: amount that the wallet has approved on chain, without reserved amounts.

        Raises:
            OperationRejectedError: NOT_APPROVED; CHAIN_UNAVAILABLE.
        """
        if approved >= self.amount:
            return
        permit, user, operator = self.permit, self.user, context.node.operator
        if permit is not None and int(permit.value) >= self.amount:
            reason = await call_error(context, self._permit_step(context, permit))
            if reason is None:
                return
            problem = f"the permit is invalid: {reason}"
        else:
            signed = "" if permit is None else f", and its permit is for {permit.value}"
            problem = f"{user} has approved {max(0, approved)} {self.asset}{signed}"
        call = f"approve({operator}, {self.amount})"
        raise OperationRejectedError(
            "NOT_APPROVED",
            f"{problem}; {user} must call {call} on {self.token}",
            contract=self.token,
            call=call,
        )

    async def submit_permit(self, run: Run) -> str | None:
        """Submit the permit if it is needed; return the hash, None if it was not sent or failed.

        Every account may submit a permit. If another one came first, ours reverts although the
        approval is valid, so its failure is ignored; the transfer that follows fails if the
        approval is missing.
        """
        if self.permit is None:
            return None
        if not run.has_begun(PERMIT_STEP):
            (allowance,) = await read_until_valid(run.context, self.allowance(run.context))
            if allowance >= self.amount:
                return None
        return await run.send_optional(self._permit_step(run.context, self.permit))

    def _permit_step(self, context: OperationContext, permit: Permit) -> StepCall:
        """Return the step that submits the permit."""
        numbers = int(permit.value), int(permit.deadline), permit.v
        signature = bytes.fromhex(permit.r[2:]), bytes.fromhex(permit.s[2:])
        arguments = self.user, *numbers, *signature
        return context.builder.permit(PERMIT_STEP, *arguments, token=self.token)
