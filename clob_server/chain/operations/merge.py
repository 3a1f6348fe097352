"""Merge: converts equal amounts of both outcome tokens of a wallet into collateral.

Both tokens are transferred to the operator and confirmed before they are merged: the operator also
holds tokens of other operations, which would replace a missing one.
"""

from clob.wire.operations import MergeAnswer, MergeBody
from clob_server.chain.operations.base import Lock, OperationContext, Run, Work, step_hash
from clob_server.chain.operations.preconditions import (
    check_approved,
    check_balance,
    check_condition,
    check_gas,
    check_tokens,
    check_user,
    read_and_estimate,
    token_reads,
)
from clob_server.chain.operations.refund import PULLS, pull_steps, refunding
from clob_server.chain.operations.reserved import Reservation


class Merge(Work[MergeBody]):
    """Merges tokens of a wallet into collateral."""

    step_names: tuple[str, ...] = (*PULLS, "mergeTx", "returnTx")
    gas: int = 700_000

    def __init__(self, body: MergeBody) -> None:
        super().__init__(body)
        amount = int(body.amount)
        self._tokens = int(body.yes_token_id), int(body.no_token_id)
        self._amounts = amount, amount
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=False)
        self.reservations: tuple[Reservation, ...] = tuple(
            Reservation(body.user, str(token), amount) for token in self._tokens
        )

    async def check(self, context: OperationContext) -> dict[str, int]:
        """Reject an invalid wallet, condition or token id, and a lack of tokens or an approval.

        Returns:
            Gas estimates of the token transfers.
        """
        body = self.body
        check_user(context, body.user)
        reads = token_reads(context, body.user, body.condition_id, self._tokens)
        pulls = pull_steps(context, body.user, self._tokens, self._amounts)
        (slots, balances, is_approved), gas = await read_and_estimate(context, reads, pulls)
        check_condition(context, body.condition_id, slots)
        check_tokens(context, body)
        for name, balance, each in zip(("YES", "NO"), balances, self.reservations, strict=True):
            check_balance(context, f"{name} ({each.asset})", balance, each)
        check_approved(context, body.user, is_approved)
        check_gas(context, self.gas)
        return gas

    async def run(self, run: Run) -> MergeAnswer:
        """Transfer both tokens to the operator, merge them and send the collateral to the wallet.

        Raises:
            StepFailedError: it failed and the tokens were returned.
            StuckError: it failed and the operator still holds tokens or collateral.
        """
        body, builder, amount = self.body, run.context.builder, self._amounts[0]
        merge = builder.merge("mergeTx", bytes.fromhex(body.condition_id[2:]), amount)
        payment = builder.pay("returnTx", body.user, amount)
        async with refunding(run, body, self._tokens, self._amounts):
            pulls = pull_steps(run.context, body.user, self._tokens, self._amounts)
            yes, no = await run.confirm(*pulls, then=merge)
            run.context.reserved.release(run.operation.id)
            (merged,) = await run.confirm(merge, then=payment)
        (paid,) = await run.confirm_or_stick(payment)
        return MergeAnswer(
            message=f"{body.amount} wei of both tokens were merged into collateral of {body.user}",
            yes_transfer_tx=step_hash(yes),
            no_transfer_tx=step_hash(no),
            merge_tx=step_hash(merged),
            return_tx=step_hash(paid),
            amount=body.amount,
        )
