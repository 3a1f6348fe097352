"""Redeem: pays out all tokens of a resolved condition that a wallet holds.

The contract redeems the operator's whole balance of a token. So no other operation of the
condition may run meanwhile, and the wallet is paid for the tokens transferred from it. Any other
tokens of the condition belong to stuck operations, for which the redemption is recorded.
"""

from clob.wire.operations import RedeemAnswer, RedeemBody
from clob_server.chain.eth.token_ids import token_ids
from clob_server.chain.operations.base import (
    Lock,
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import INDEX_SETS, TOKEN_FROM
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
from clob_server.chain.operations.refund import PULLS, Pair, pull_steps, record_redeemed, refunding


class Redeem(Work[RedeemBody]):
    """Redeems the tokens of a wallet."""

    step_names: tuple[str, ...] = (*PULLS, "redeemTx", "returnTx")
    gas: int = 700_000

    def __init__(self, body: RedeemBody) -> None:
        super().__init__(body)
        self._condition = bytes.fromhex(body.condition_id[2:])
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=True)

    async def check(self, context: OperationContext) -> None:
        """Reject an invalid wallet, an unresolved condition, no payout, and no approval."""
        user, condition = self.body.user, self.body.condition_id
        check_user(context, user)
        tokens = token_ids(context.addresses.collateral, self._condition)
        reads = token_reads(context, user, condition, tokens)
        slots, balances, is_approved, *payouts = await read_once(
            context, *reads, *payout_reads(context, self._condition)
        )
        check_condition(context, condition, slots)
        if not payouts[0]:
            raise OperationRejectedError(
                "CONDITION_NOT_RESOLVED", f"the condition {condition} is not resolved"
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

    async def run(self, run: Run) -> RedeemAnswer:
        """Transfer all tokens to the operator, redeem them and send the payout to the wallet.

        Raises:
            StepFailedError: it failed and the tokens were returned.
            StuckError: it failed and the operator still holds tokens or collateral.
        """
        user, context = self.body.user, run.context
        tokens = token_ids(context.addresses.collateral, self._condition)
        payouts = await read_until_valid(context, *payout_reads(context, self._condition))
        amounts = await self._amounts(run, tokens)
        sets = [each for each, amount in zip(INDEX_SETS, amounts, strict=True) if amount]
        redemption = context.builder.redeem("redeemTx", self._condition, sets)
        payout = payout_of(amounts, payouts)
        payment = context.builder.pay("returnTx", user, payout)
        async with refunding(run, self.body, tokens, amounts):
            if not payout:
                raise StepFailedError(f"{user} has no tokens left to redeem")
            pulls = pull_steps(context, user, tokens, amounts)
            pulled = await run.confirm(*pulls, then=redemption)
            (redeemed,) = await run.confirm(redemption, then=payment)
        record_redeemed(run, self.body.condition_id, [tokens[each - 1] for each in sets])
        (paid,) = await run.confirm_or_stick(payment)
        hashes = {step.name: step_hash(step) for step in pulled}
        return RedeemAnswer(
            message=f"{payout} wei of collateral were paid to {user}",
            yes_transfer_tx=hashes.get(PULLS[0]),
            no_transfer_tx=hashes.get(PULLS[1]),
            redeem_tx=step_hash(redeemed),
            return_tx=step_hash(paid),
            amount=str(payout),
        )

    async def _amounts(self, run: Run, tokens: Pair) -> Pair:
        """Return the amounts to redeem: those of stored steps, or else the wallet's balances."""
        current = run.context.outbox.current_steps(run.operation.number)
        if any(name in current for name in PULLS):
            yes, no = (
                TOKEN_FROM.arguments(current[name].data)[3] if name in current else 0
                for name in PULLS
            )
            return yes, no
        reads = token_reads(run.context, self.body.user, self.body.condition_id, tokens)
        _, (yes, no), _ = await read_until_valid(run.context, *reads)
        return yes, no
