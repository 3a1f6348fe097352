"""Split: converts collateral of a wallet into the same amount of both outcome tokens."""

from clob.wire.operations import Permit, SplitAnswer, SplitBody
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
from clob_server.chain.operations.calls import ALLOWANCE, BALANCE, SLOTS
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


class Split(Work[SplitBody]):
    """Splits collateral of a wallet into tokens."""

    step_names: tuple[str, ...] = (
        "permitTx",
        "collateralTransferTx",
        "splitTx",
        "yesTransferTx",
        "noTransferTx",
    )
    gas: int = 900_000

    def __init__(self, body: SplitBody) -> None:
        super().__init__(body)
        self._amount = int(body.amount)
        self._condition = bytes.fromhex(body.condition_id[2:])
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=False)
        self.reservations: tuple[Reservation, ...] = (
            Reservation(body.user, "collateral", self._amount),
        )

    async def check(self, context: OperationContext) -> dict[str, int]:
        """Reject an invalid wallet, condition or token id, and a lack of collateral or an approval.

        Returns:
            Gas estimate of the collateral transfer, unless a permit precedes it.
        """
        body, collateral = self.body, context.addresses.collateral
        check_user(context, body.user)
        reads = [
            Read(context.addresses.conditional_tokens, SLOTS, (self._condition,)),
            Read(collateral, BALANCE, (body.user,)),
            self._allowance(context),
        ]
        calls = [] if body.permit else [self._pull(context)]
        (slots, balance, allowance), gas = await read_and_estimate(context, reads, calls)
        check_condition(context, body.condition_id, slots)
        check_tokens(context, body)
        check_balance(context, f"the collateral {collateral}", balance, self.reservations[0])
        reserved = context.reserved.total(body.user, "collateral")
        if allowance - reserved < self._amount:
            await self._check_permit(context, max(0, allowance - reserved))
        check_gas(context, self.gas)
        return gas

    def _allowance(self, context: OperationContext) -> Read:
        """Return the read of the wallet's approval for the operator."""
        collateral = context.addresses.collateral
        return Read(collateral, ALLOWANCE, (self.body.user, context.node.operator))

    def _pull(self, context: OperationContext) -> StepCall:
        """Return the step that transfers the collateral to the operator."""
        return context.builder.pull("collateralTransferTx", self.body.user, self._amount)

    async def _check_permit(self, context: OperationContext, approved: int) -> None:
        """Reject if there is no valid permit for the amount; the error has the call that approves.

        Args:
            context: the context.
            approved: amount that the wallet has approved on chain, in wei.
        """
        permit, user, operator = self.body.permit, self.body.user, context.node.operator
        if permit is not None and int(permit.value) >= self._amount:
            reason = await call_error(context, self._permit_step(context, permit))
            if reason is None:
                return
            problem = f"the permit is invalid: {reason}"
        else:
            signed = "" if permit is None else f", and its permit is for {permit.value}"
            problem = f"{user} has approved {approved} wei of collateral{signed}"
        collateral, call = context.addresses.collateral, f"approve({operator}, {self._amount})"
        raise OperationRejectedError(
            "NOT_APPROVED",
            f"{problem}; {user} must call {call} on {collateral}",
            contract=collateral,
            call=call,
        )

    async def run(self, run: Run) -> SplitAnswer:
        """Transfer the collateral to the operator, split it and send both tokens to the wallet.

        Raises:
            StepFailedError: it failed and the collateral was returned.
            StuckError: it failed and the operator still holds collateral or tokens.
        """
        body, amount, context = self.body, self._amount, run.context
        yes, no = int(body.yes_token_id), int(body.no_token_id)
        split = context.builder.split("splitTx", self._condition, amount)
        yes_payment = context.builder.pay_token("yesTransferTx", body.user, yes, amount)
        try:
            run.continue_undoing(*UNDO)
            permit_tx = await self._submit_permit(run)
            (pulled,) = await run.confirm(self._pull(context), then=split)
            context.reserved.release(run.operation.id)
            (was_split,) = await run.confirm(split, then=yes_payment)
            (paid_yes,) = await run.confirm(yes_payment)
        except StepFailedError:
            await self._undo(run)
            raise
        no_payment = await payment_step(run, "noTransferTx", body, (yes, no), 1, amount)
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

    async def _submit_permit(self, run: Run) -> str | None:
        """Submit the permit if it is needed; return the hash, None if it was not sent or failed.

        Every account may submit a permit. If another one came first, ours reverts although the
        approval is valid, so its failure is ignored; the transfer that follows fails if the
        approval is missing.
        """
        if self.body.permit is None:
            return None
        if not run.has_begun("permitTx"):
            (allowance,) = await read_until_valid(run.context, self._allowance(run.context))
            if allowance >= self._amount:
                return None
        return await run.send_optional(self._permit_step(run.context, self.body.permit))

    def _permit_step(self, context: OperationContext, permit: Permit) -> StepCall:
        """Return the step that submits the permit."""
        numbers = int(permit.value), int(permit.deadline), permit.v
        signature = bytes.fromhex(permit.r[2:]), bytes.fromhex(permit.s[2:])
        return context.builder.permit("permitTx", self.body.user, *numbers, *signature)

    async def _undo(self, run: Run) -> None:
        """Return the collateral that was transferred.

        Raises:
            StuckError: it cannot be returned.
        """
        builder = run.context.builder
        if run.is_confirmed("yesTransferTx"):
            raise StuckError("the YES tokens were already sent to the wallet")
        if run.is_confirmed("splitTx"):
            await run.confirm_or_stick(builder.merge("mergeBackTx", self._condition, self._amount))
        if run.is_confirmed("collateralTransferTx"):
            await run.confirm_or_stick(builder.pay("refundTx", self.body.user, self._amount))
