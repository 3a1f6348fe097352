"""Gives tokens back to a wallet, or what they paid where they are gone.

A token that could not be given back stays with the operator, and its operation is stuck. If the
condition is resolved and somebody else redeems it, the contract pays out that token as well. From
then on the wallet is owed collateral in its stead.
"""

from typing import Final

import msgspec

from clob_server.chain.operation_bodies import MergeBody, RedeemBody, SplitBody
from clob_server.chain.operations.base import Run
from clob_server.chain.operations.calls import StepBuilder
from clob_server.chain.operations.preconditions import ask, payout_reads, worth
from clob_server.chain.tx.gas_limits import StepCall

PULLS: Final = ("yesTransferTx", "noTransferTx")
"""The steps that take the tokens."""
REFUNDS: Final = ("refundYesTx", "refundNoTx")
"""The steps that give them back."""

_BODY: Final = msgspec.json.Decoder(SplitBody | MergeBody | RedeemBody)
_KINDS: Final = ("split", "merge", "redeem")


async def give_back(
    run: Run,
    calls: StepBuilder,
    body: MergeBody | RedeemBody,
    tokens: tuple[int, int],
    amounts: tuple[int, int],
) -> None:
    """Give the tokens back that were taken.

    Args:
        run: the operation.
        calls: makes the steps.
        body: whose they are, and of which condition.
        tokens: their ids, YES and NO.
        amounts: how much of each, in wei.

    Raises:
        StuckError: they cannot be given back.
    """
    refunds = []
    for place, (pull, refund) in enumerate(zip(PULLS, REFUNDS, strict=True)):
        if run.happened(pull):
            refunds.append(await owed(run, calls, refund, body, tokens, place, amounts[place]))
    for call in refunds:  # one after the other: one that fails must not hold up the other
        await run.send(call)
    if refunds:
        await run.must_or_stick(*refunds)


async def owed(
    run: Run,
    calls: StepBuilder,
    name: str,
    body: SplitBody | MergeBody | RedeemBody,
    tokens: tuple[int, int],
    place: int,
    amount: int,
) -> StepCall:
    """Give a wallet one of the tokens, or what it paid.

    Args:
        run: the operation.
        calls: makes the steps.
        name: what the step is called.
        body: whose it is, and of which condition.
        tokens: the ids of YES and NO.
        place: 0 for YES, 1 for NO.
        amount: how much, in wei.
    """
    token = tokens[place]
    if run.world.outbox.get_fact(burnt(run.operation.number, token)) is None:
        return calls.pay_token(name, body.user, token, amount)
    condition = bytes.fromhex(body.condition_id[2:])
    payouts = await ask(run.world, *payout_reads(run.world, condition))
    amounts = (amount, 0) if place == 0 else (0, amount)
    return calls.pay(name, body.user, worth(amounts, payouts))


def was_burnt(run: Run, condition: str, tokens: list[int]) -> None:
    """Note for the operations of a condition that are stuck that their tokens were paid out.

    Args:
        run: the operation that had them paid out.
        condition: the condition, 32 bytes in hex.
        tokens: the ids.
    """
    outbox = run.world.outbox
    for operation in outbox.stuck():
        if operation.kind not in _KINDS:
            continue
        if _BODY.decode(operation.body).condition_id.lower() == condition.lower():
            for token in tokens:
                outbox.set_fact(burnt(operation.number, token), run.operation.id)


def burnt(operation: int, token: int) -> str:
    """Name the fact that a token which an operation held was paid out."""
    return f"paid out {operation} {token}"
