"""Split: converts collateral of a wallet into the same amount of both outcome tokens."""

from clob.wire.operations import SplitAnswer, SplitBody
from clob_server.chain.operations.base import (
    Lock,
    OperationContext,
    Run,
    StepFailedError,
    StuckError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import BALANCE, SLOTS
from clob_server.chain.operations.payment import Payment
from clob_server.chain.operations.preconditions import (
    Read,
    check_balance,
    check_condition,
    check_gas,
    check_tokens,
    check_user,
    read_and_estimate,
)
from clob_server.chain.operations.refund import payment_step
from clob_server.chain.operations.reserved import Reservation

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
        body, collateral, payment = self.body, context.addresses.collateral, self._payment(context)
        check_user(context, body.user)
        reads = [
            Read(context.addresses.conditional_tokens, SLOTS, (self._condition,)),
            Read(collateral, BALANCE, (body.user,)),
            payment.allowance(context),
        ]
        calls = [] if body.permit else [payment.pull(context)]
        (slots, balance, allowance), gas = await read_and_estimate(context, reads, calls)
        check_condition(context, body.condition_id, slots)
        check_tokens(context, body)
        check_balance(context, f"the collateral {collateral}", balance, self.reservations[0])
        reserved = context.reserved.total(body.user, "collateral")
        await payment.check_approved(context, allowance - reserved)
        check_gas(context, self.gas)
        return gas

    def _payment(self, context: OperationContext) -> Payment:
        """Return the transfer of the collateral to the operator."""
        collateral, body = context.addresses.collateral, self.body
        return Payment(
            "collateralTransferTx",
            "wei of collateral",
            collateral,
            body.user,
            self._amount,
            body.permit,
        )

    async def run(self, run: Run) -> SplitAnswer:
        """Transfer the collateral to the operator, split it and send both tokens to the wallet.

        Raises:
            StepFailedError: it failed and the collateral was returned.
            StuckError: it failed and the operator still holds collateral or tokens.
        """
        body, amount, context = self.body, self._amount, run.context
        yes, no = int(body.yes_token_id), int(body.no_token_id)
        payment = self._payment(context)
        split = context.builder.split("splitTx", self._condition, amount)
        yes_payment = context.builder.pay_token("yesTransferTx", body.user, yes, amount)
        try:
            run.continue_undoing(*UNDO)
            permit_tx = await payment.submit_permit(run)
            (pulled,) = await run.confirm(payment.pull(context), then=split)
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

    async def _undo(self, run: Run) -> None:
        """Return the collateral that was transferred.

        Raises:
            StuckError: it cannot be returned.
        """
        context = run.context
        if run.is_confirmed("yesTransferTx"):
            raise StuckError("the YES tokens were already sent to the wallet")
        if run.is_confirmed("splitTx"):
            merge = context.builder.merge("mergeBackTx", self._condition, self._amount)
            await run.confirm_or_stick(merge)
        if run.is_confirmed("collateralTransferTx"):
            await run.confirm_or_stick(self._payment(context).refund("refundTx", context))
