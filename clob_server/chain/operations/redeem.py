"""Redeem: pays out all tokens of a resolved condition that a wallet holds.

The contract redeems the operator's whole balance of a token. So no other operation of the
condition may run meanwhile, and the wallet is paid for the tokens transferred from it. Any other
tokens of the condition belong to stuck operations, for which the redemption is recorded.
"""

import msgspec

from clob_server.chain.eth.token_ids import token_ids
from clob_server.chain.operation_bodies import RedeemAnswer, RedeemBody
from clob_server.chain.operations.base import (
    Lock,
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import (
    INDEX_SETS,
    TOKEN_FROM,
    StepBuilder,
)
from clob_server.chain.operations.preconditions import (
    check_approved,
    check_condition,
    check_gas,
    check_user,
    payout_of,
    payout_reads,
    read_once,
    read_until_valid,
    token_reads,
)
from clob_server.chain.operations.refund import PULLS, REFUNDS, record_redeemed, refund_tokens


class Redeem(Work):
    """Redeems the tokens of a wallet.

    Args:
        body: the parameters.
    """

    kind: str = "redeem"
    step_names: tuple[str, ...] = (*PULLS, "redeemTx", "returnTx")
    gas: int = 700_000

    def __init__(self, body: RedeemBody) -> None:
        self._body = body
        self._condition = bytes.fromhex(body.condition_id[2:])
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=True)

    async def check(self, context: OperationContext) -> None:
        """Reject a redemption without payout, or that cannot succeed.

        Raises:
            OperationRejectedError: the wallet is invalid, the node does not respond, the condition
                is unknown or not resolved, the payout is 0, the approval is missing, or the
                operator has too little ether.
        """
        user = self._body.user
        check_user(context, user)
        tokens = token_ids(context.addresses.collateral, self._condition)
        reads = token_reads(context, user, self._body.condition_id, tokens)
        slots, balances, is_approved, *payouts = await read_once(
            context, *reads, *payout_reads(context, self._condition)
        )
        check_condition(context, self._body.condition_id, slots)
        if not payouts[0]:
            raise OperationRejectedError(
                "CONDITION_NOT_RESOLVED",
                f"the condition {self._body.condition_id} is not resolved",
            )
        if not payout_of(balances, payouts):
            raise OperationRejectedError(
                "NOTHING_TO_REDEEM",
                f"the payout of {user} is 0: it has {balances[0]} wei of YES ({tokens[0]}) and "
                f"{balances[1]} of NO ({tokens[1]}), which pay {payouts[1]}/{payouts[0]} and "
                f"{payouts[2]}/{payouts[0]}",
            )
        check_approved(context, user, is_approved)
        check_gas(context, self.gas)

    async def run(self, run: Run) -> msgspec.Struct:
        """Transfer all tokens to the operator, redeem them and send the payout to the wallet.

        Raises:
            StepFailedError: it failed and the tokens were returned.
            StuckError: it failed and the operator still holds tokens or collateral.
        """
        user, context = self._body.user, run.context
        builder = StepBuilder(context.addresses, context.node.operator)
        tokens = token_ids(context.addresses.collateral, self._condition)
        payouts = await read_until_valid(context, *payout_reads(context, self._condition))
        amounts = await self._amounts(run, tokens)
        sets = [each for each, amount in zip(INDEX_SETS, amounts, strict=True) if amount]
        redemption = builder.redeem("redeemTx", self._condition, sets)
        payout = payout_of(amounts, payouts)
        payment = builder.pay("returnTx", user, payout)
        try:
            run.continue_undoing(*REFUNDS)
            pulls = [
                builder.pull_token(name, user, token, amount)
                for name, token, amount in zip(PULLS, tokens, amounts, strict=True)
                if amount
            ]
            if not payout:
                raise StepFailedError(f"{user} has no tokens left to redeem")
            pulled = {step.name: step for step in await run.confirm(*pulls, then=redemption)}
            (redeemed,) = await run.confirm(redemption, then=payment)
        except StepFailedError:
            await refund_tokens(run, builder, self._body, tokens, amounts)
            raise
        record_redeemed(run, self._body.condition_id, [tokens[each - 1] for each in sets])
        (paid,) = await run.confirm_or_stick(payment)
        hashes = [step_hash(pulled[name]) if name in pulled else None for name in PULLS]
        return RedeemAnswer(
            message=f"{payout} wei of collateral were paid to {user}",
            yes_transfer_tx=hashes[0],
            no_transfer_tx=hashes[1],
            redeem_tx=step_hash(redeemed),
            return_tx=step_hash(paid),
            amount=str(payout),
        )

    async def _amounts(self, run: Run, tokens: tuple[int, int]) -> tuple[int, int]:
        """Return the amounts to redeem: those of stored steps, or else the wallet's balances."""
        current = run.context.outbox.current_steps(run.operation.number)
        if any(name in current for name in PULLS):
            yes, no = (
                TOKEN_FROM.arguments(current[name].data)[3] if name in current else 0
                for name in PULLS
            )
            return yes, no
        reads = token_reads(run.context, self._body.user, self._body.condition_id, tokens)
        _, (yes, no), _ = await read_until_valid(run.context, *reads)
        return yes, no
