"""Refunds of tokens to a wallet, or of their payout if the tokens were redeemed meanwhile.

A token that cannot be refunded stays with the operator, and its operation becomes stuck. If the
condition is resolved, the redemption of another wallet redeems this token as well; from then on the
wallet is owed the payout instead.
"""

from typing import Final

import msgspec

from clob_server.chain.operation_bodies import MergeBody, RedeemBody, SplitBody
from clob_server.chain.operations.base import Run
from clob_server.chain.operations.calls import StepBuilder
from clob_server.chain.operations.preconditions import payout_of, payout_reads, read_until_valid
from clob_server.chain.tx.gas_limits import StepCall

PULLS: Final = ("yesTransferTx", "noTransferTx")
"""Steps that transfer the tokens to the operator."""
REFUNDS: Final = ("refundYesTx", "refundNoTx")
"""Steps that return the tokens."""

_DECODE: Final = msgspec.json.Decoder(SplitBody | MergeBody | RedeemBody).decode
_KINDS: Final = ("split", "merge", "redeem")


async def refund_tokens(
    run: Run,
    builder: StepBuilder,
    body: MergeBody | RedeemBody,
    tokens: tuple[int, int],
    amounts: tuple[int, int],
) -> None:
    """Return the tokens that were transferred to the operator.

    Args:
        run: the operation.
        builder: builds the steps.
        body: parameters with the wallet and the condition.
        tokens: ids of YES and NO.
        amounts: amounts of YES and NO, in wei.

    Raises:
        StuckError: a token could not be returned.
    """
    refunds = []
    for outcome, (pull, refund) in enumerate(zip(PULLS, REFUNDS, strict=True)):
        if run.is_confirmed(pull):
            amount = amounts[outcome]
            refunds.append(await payment_step(run, builder, refund, body, tokens, outcome, amount))
    for call in refunds:  # sent one by one, so that a failure of one does not prevent the other
        await run.send(call)
    if refunds:
        await run.confirm_or_stick(*refunds)


async def payment_step(
    run: Run,
    builder: StepBuilder,
    name: str,
    body: SplitBody | MergeBody | RedeemBody,
    tokens: tuple[int, int],
    outcome: int,
    amount: int,
) -> StepCall:
    """Return the step that sends a token to a wallet, or its payout if it was redeemed.

    Args:
        run: the operation.
        builder: builds the steps.
        name: name of the step.
        body: parameters with the wallet and the condition.
        tokens: ids of YES and NO.
        outcome: 0 for YES, 1 for NO.
        amount: amount of the token, in wei.
    """
    token = tokens[outcome]
    if run.context.outbox.get_fact(redeemed_fact(run.operation.number, token)) is None:
        return builder.pay_token(name, body.user, token, amount)
    condition = bytes.fromhex(body.condition_id[2:])
    payouts = await read_until_valid(run.context, *payout_reads(run.context, condition))
    amounts = (amount, 0) if outcome == 0 else (0, amount)
    return builder.pay(name, body.user, payout_of(amounts, payouts))


def record_redeemed(run: Run, condition: str, tokens: list[int]) -> None:
    """Record for stuck operations of a condition that their tokens were redeemed.

    Args:
        run: the operation that redeemed them.
        condition: condition id, 32 bytes in hex.
        tokens: ids of the redeemed tokens.
    """
    outbox = run.context.outbox
    for operation in outbox.stuck():
        if operation.kind not in _KINDS:
            continue
        if _DECODE(operation.body).condition_id.lower() == condition.lower():
            for token in tokens:
                outbox.set_fact(redeemed_fact(operation.number, token), run.operation.id)


def redeemed_fact(operation: int, token: int) -> str:
    """Return the name of the outbox fact that a token held for an operation was redeemed."""
    return f"paid out {operation} {token}"
