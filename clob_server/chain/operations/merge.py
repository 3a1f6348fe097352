"""Merge: converts equal amounts of both outcome tokens of a wallet into collateral.

Both tokens are transferred to the operator and confirmed before they are merged: the operator also
holds tokens of other operations, which would replace a missing one.
"""

import msgspec

from clob_server.chain.operation_bodies import MergeAnswer, MergeBody
from clob_server.chain.operations.base import (
    Lock,
    OperationContext,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import StepBuilder
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
from clob_server.chain.operations.refund import PULLS, REFUNDS, refund_tokens
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall


class Merge(Work):
    """Merges tokens of a wallet into collateral.

    Args:
        body: the parameters.
    """

    kind: str = "merge"
    step_names: tuple[str, ...] = (*PULLS, "mergeTx", "returnTx")
    gas: int = 700_000

    def __init__(self, body: MergeBody) -> None:
        self._body = body
        self._amount = int(body.amount)
        self._tokens = int(body.yes_token_id), int(body.no_token_id)
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=False)
        self.reservations: tuple[Reservation, ...] = tuple(
            Reservation(body.user, str(token), self._amount) for token in self._tokens
        )

    async def check(self, context: OperationContext) -> dict[str, int]:
        """Reject a merge that cannot succeed.

        Returns:
            Gas estimates of the token transfers.

        Raises:
            OperationRejectedError: the wallet is invalid, the node does not respond, the condition
                is unknown, the token ids do not belong to it, the balances are too low, the
                approval is missing, or the operator has too little ether.
        """
        body = self._body
        check_user(context, body.user)
        reads = token_reads(context, body.user, body.condition_id, self._tokens)
        pulls = self._pulls(StepBuilder(context.addresses, context.node.operator))
        (slots, balances, is_approved), gas = await read_and_estimate(context, reads, pulls)
        check_condition(context, body.condition_id, slots)
        check_tokens(context, body.condition_id, body.yes_token_id, body.no_token_id)
        for name, balance, each in zip(("YES", "NO"), balances, self.reservations, strict=True):
            check_balance(context, f"{name} ({each.asset})", balance, each)
        check_approved(context, body.user, is_approved)
        check_gas(context, self.gas)
        return gas

    def _pulls(self, builder: StepBuilder) -> list[StepCall]:
        """Return the steps that transfer both tokens to the operator."""
        return [
            builder.pull_token(name, self._body.user, token, self._amount)
            for name, token in zip(PULLS, self._tokens, strict=True)
        ]

    async def run(self, run: Run) -> msgspec.Struct:
        """Transfer both tokens to the operator, merge them and send the collateral to the wallet.

        Raises:
            StepFailedError: it failed and the tokens were returned.
            StuckError: it failed and the operator still holds tokens or collateral.
        """
        body = self._body
        builder = StepBuilder(run.context.addresses, run.context.node.operator)
        merge = builder.merge("mergeTx", bytes.fromhex(body.condition_id[2:]), self._amount)
        payment = builder.pay("returnTx", body.user, self._amount)
        try:
            run.continue_undoing(*REFUNDS)
            yes, no = await run.confirm(*self._pulls(builder), then=merge)
            run.context.reserved.release(run.operation.id)
            (merged,) = await run.confirm(merge, then=payment)
        except StepFailedError:
            await refund_tokens(run, builder, body, self._tokens, (self._amount, self._amount))
            raise
        (paid,) = await run.confirm_or_stick(payment)
        return MergeAnswer(
            message=f"{body.amount} wei of both tokens were merged into collateral of {body.user}",
            yes_transfer_tx=step_hash(yes),
            no_transfer_tx=step_hash(no),
            merge_tx=step_hash(merged),
            return_tx=step_hash(paid),
            amount=body.amount,
        )
