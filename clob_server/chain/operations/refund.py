"""Transfers of tokens to the operator, and refunds of the tokens or of their payout.

A token that cannot be refunded stays with the operator, and its operation becomes stuck. If the
condition is resolved, the redemption of another wallet redeems this token as well; from then on the
wallet is owed the payout instead.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec

from clob.wire.operations import DepositBody, MergeBody, RedeemBody, SplitBody
from clob_server.chain.operations.base import OperationContext, Run, StepFailedError
from clob_server.chain.operations.preconditions import payout_of, payout_reads, read_until_valid
from clob_server.chain.tx.gas_limits import StepCall

PULLS: Final = ("yesTransferTx", "noTransferTx")
"""Steps that transfer the tokens to the operator."""
REFUNDS: Final = ("refundYesTx", "refundNoTx")
"""Steps that return the tokens."""

TokenBody: TypeAlias = SplitBody | MergeBody | RedeemBody
"""Parameters with a wallet and a condition."""
Pair: TypeAlias = tuple[int, int]
"""Token ids, or amounts in wei, of YES and NO."""

_DECODE: Final = msgspec.json.Decoder(TokenBody | DepositBody).decode
_KINDS: Final = ("split", "merge", "redeem", "deposit")


def pull_steps(context: OperationContext, user: str, tokens: Pair, amounts: Pair) -> list[StepCall]:
    """Return the steps that transfer tokens of a wallet to the operator, without amounts of 0."""
    return [
        context.builder.pull_token(name, user, token, amount)
        for name, token, amount in zip(PULLS, tokens, amounts, strict=True)
        if amount
    ]


@asynccontextmanager
async def refunding(run: Run, body: TokenBody, tokens: Pair, amounts: Pair) -> AsyncIterator[None]:
    """Return the transferred tokens to the wallet if a step in the context fails.

    Raises:
        StepFailedError: a step failed and the tokens were returned.
        StuckError: a token could not be returned.
    """
    try:
        run.continue_undoing(*REFUNDS)
        yield
    except StepFailedError:
        refunds = [
            await payment_step(run, refund, body, tokens, outcome, amounts[outcome])
            for outcome, (pull, refund) in enumerate(zip(PULLS, REFUNDS, strict=True))
            if run.is_confirmed(pull)
        ]
        for call in refunds:  # one by one, so that a failure of one does not prevent the other
            await run.send(call)
        if refunds:
            await run.confirm_or_stick(*refunds)
        raise


async def payment_step(
    run: Run, name: str, body: TokenBody, tokens: Pair, outcome: int, amount: int
) -> StepCall:
    """Return the step that sends a token to a wallet, or its payout if it was redeemed.

    Args:
        run: the operation.
        name: name of the step.
        body: its parameters.
        tokens: ids of YES and NO.
        outcome: 0 for YES, 1 for NO.
        amount: amount of the token, in wei.
    """
    context, token = run.context, tokens[outcome]
    if context.outbox.get_fact(redeemed_fact(run.operation.number, token)) is None:
        return context.builder.pay_token(name, body.user, token, amount)
    condition = bytes.fromhex(body.condition_id[2:])
    payouts = await read_until_valid(context, *payout_reads(context, condition))
    amounts = (amount, 0) if outcome == 0 else (0, amount)
    return context.builder.pay(name, body.user, payout_of(amounts, payouts))


def record_redeemed(run: Run, condition: str, tokens: list[int]) -> None:
    """Record for stuck operations of a condition that a redemption redeemed their tokens too."""
    outbox = run.context.outbox
    for operation in outbox.stuck():
        if operation.kind not in _KINDS:
            continue
        for token in _held_tokens(_DECODE(operation.body), condition, tokens):
            outbox.set_fact(redeemed_fact(operation.number, token), run.operation.id)


def _held_tokens(body: TokenBody | DepositBody, condition: str, tokens: list[int]) -> list[int]:
    """Return which of the tokens of a condition an operation may hold."""
    if isinstance(body, DepositBody):
        return [token for token in tokens if str(token) == body.asset]
    return tokens if body.condition_id.lower() == condition.lower() else []


def redeemed_fact(operation: int, token: int) -> str:
    """Return the name of the outbox fact that a token held for an operation was redeemed."""
    return f"paid out {operation} {token}"
