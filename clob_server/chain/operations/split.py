"""Split: converts collateral of a wallet into the same amount of both outcome tokens."""

import msgspec

from clob_server.chain.operation_bodies import Permit, SplitAnswer, SplitBody
from clob_server.chain.operations.base import (
    Lock,
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    StuckError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import ALLOWANCE, BALANCE, SLOTS, StepBuilder
from clob_server.chain.operations.preconditions import (
    Read,
    call_error,
    check_balance,
    check_condition,
    check_gas,
    check_tokens,
    check_user,
    read_and_estimate,
    read_until_valid,
)
from clob_server.chain.operations.refund import payment_step
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall

UNDO = ("mergeBackTx", "refundTx")
"""Steps that undo a split."""


class Split(Work):
    """Splits collateral of a wallet into tokens.

    Args:
        body: the parameters.
    """

    kind: str = "split"
    step_names: tuple[str, ...] = (
        "permitTx",
        "collateralTransferTx",
        "splitTx",
        "yesTransferTx",
        "noTransferTx",
    )
    gas: int = 900_000

    def __init__(self, body: SplitBody) -> None:
        self._body = body
        self._amount = int(body.amount)
        self._condition = bytes.fromhex(body.condition_id[2:])
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=False)
        self.reservations: tuple[Reservation, ...] = (
            Reservation(body.user, "collateral", self._amount),
        )

    async def check(self, context: OperationContext) -> dict[str, int]:
        """Reject a split that cannot succeed.

        Returns:
            Gas estimate of the collateral transfer, unless a permit precedes it.

        Raises:
            OperationRejectedError: the wallet is invalid, the node does not respond, the condition
                is unknown, the token ids do not belong to it, the balance is too low, the approval
                is missing, or the operator has too little ether.
        """
        body, operator = self._body, context.node.operator
        check_user(context, body.user)
        collateral = context.addresses.collateral
        reads = [
            Read(context.addresses.conditional_tokens, SLOTS, (self._condition,)),
            Read(collateral, BALANCE, (body.user,)),
            self._allowance(context),
        ]
        calls = [] if body.permit else [self._pull(StepBuilder(context.addresses, operator))]
        (slots, balance, allowance), gas = await read_and_estimate(context, reads, calls)
        check_condition(context, body.condition_id, slots)
        check_tokens(context, body.condition_id, body.yes_token_id, body.no_token_id)
        check_balance(context, f"the collateral {collateral}", balance, self.reservations[0])
        reserved = context.reserved.total(body.user, "collateral")
        if allowance - reserved < self._amount:
            await self._check_permit(context, max(0, allowance - reserved))
        check_gas(context, self.gas)
        return gas

    def _allowance(self, context: OperationContext) -> Read:
        """Return the read of the wallet's approval for the operator."""
        collateral = context.addresses.collateral
        return Read(collateral, ALLOWANCE, (self._body.user, context.node.operator))

    def _pull(self, builder: StepBuilder) -> StepCall:
        """Return the step that transfers the collateral to the operator."""
        return builder.pull("collateralTransferTx", self._body.user, self._amount)

    async def _check_permit(self, context: OperationContext, approved: int) -> None:
        """Reject if there is no valid permit for the amount.

        Args:
            context: the context.
            approved: amount that the wallet has approved on chain, in wei.

        Raises:
            OperationRejectedError: there is none; the error contains the call that approves.
        """
        permit, operator = self._body.permit, context.node.operator
        if permit is not None and int(permit.value) >= self._amount:
            builder = StepBuilder(context.addresses, operator)
            reason = await call_error(context, self._permit_step(builder, permit))
            if reason is None:
                return
            problem = f"the permit is invalid: {reason}"
        else:
            signed = "" if permit is None else f", and its permit is for {permit.value}"
            problem = f"{self._body.user} has approved {approved} wei of collateral{signed}"
        collateral = context.addresses.collateral
        raise OperationRejectedError(
            "NOT_APPROVED",
            f"{problem}; {self._body.user} must call approve({operator}, {self._amount}) on "
            f"{collateral}",
            contract=collateral,
            call=f"approve({operator}, {self._amount})",
        )

    async def run(self, run: Run) -> msgspec.Struct:
        """Transfer the collateral to the operator, split it and send both tokens to the wallet.

        Raises:
            StepFailedError: it failed and the collateral was returned.
            StuckError: it failed and the operator still holds collateral or tokens.
        """
        body, amount = self._body, self._amount
        builder = StepBuilder(run.context.addresses, run.context.node.operator)
        yes, no = int(body.yes_token_id), int(body.no_token_id)
        split = builder.split("splitTx", self._condition, amount)
        yes_payment = builder.pay_token("yesTransferTx", body.user, yes, amount)
        try:
            run.continue_undoing(*UNDO)
            permit_tx = await self._submit_permit(run, builder)
            (pulled,) = await run.confirm(self._pull(builder), then=split)
            run.context.reserved.release(run.operation.id)
            (was_split,) = await run.confirm(split, then=yes_payment)
            (paid_yes,) = await run.confirm(yes_payment)
        except StepFailedError:
            await self._undo(run, builder)
            raise
        no_payment = await payment_step(run, builder, "noTransferTx", body, (yes, no), 1, amount)
        (paid_no,) = await run.confirm_or_stick(no_payment)
        return SplitAnswer(
            message=f"{body.amount} wei of collateral were split into both tokens of {body.user}",
            permit_tx=permit_tx,
            collateral_transfer_tx=step_hash(pulled),
            split_tx=step_hash(was_split),
            yes_transfer_tx=step_hash(paid_yes),
            no_transfer_tx=step_hash(paid_no),
            amount=body.amount,
        )

    async def _submit_permit(self, run: Run, builder: StepBuilder) -> str | None:
        """Submit the permit if it is needed.

        Anybody may submit a permit first. Ours then reverts although the approval is valid, so its
        failure is ignored; the transfer that follows fails if the approval is missing.

        Returns:
            The transaction hash; None if it was not submitted or failed.
        """
        if self._body.permit is None:
            return None
        if not run.has_begun("permitTx"):
            (allowance,) = await read_until_valid(run.context, self._allowance(run.context))
            if allowance >= self._amount:
                return None
        (step,) = await run.send(self._permit_step(builder, self._body.permit))
        return step_hash(step) if step is not None and step.status == "confirmed" else None

    def _permit_step(self, builder: StepBuilder, permit: Permit) -> StepCall:
        """Return the step that submits the permit."""
        return builder.permit(
            "permitTx",
            self._body.user,
            int(permit.value),
            int(permit.deadline),
            permit.v,
            bytes.fromhex(permit.r[2:]),
            bytes.fromhex(permit.s[2:]),
        )

    async def _undo(self, run: Run, builder: StepBuilder) -> None:
        """Return the collateral that was transferred.

        Raises:
            StuckError: it cannot be returned.
        """
        if run.is_confirmed("yesTransferTx"):
            raise StuckError("the YES tokens were already sent to the wallet")
        if run.is_confirmed("splitTx"):
            await run.confirm_or_stick(builder.merge("mergeBackTx", self._condition, self._amount))
        if run.is_confirmed("collateralTransferTx"):
            await run.confirm_or_stick(builder.pay("refundTx", self._body.user, self._amount))
