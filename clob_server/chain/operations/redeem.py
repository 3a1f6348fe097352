"""Redeem: all tokens that a wallet has of a resolved condition are taken, paid out, and it is paid.

The contract pays out all that the operator has of a token. So nothing else of the condition may be
under way, and the wallet is paid for what was taken from it. What lay here besides belongs to
operations that are stuck, and is noted for them.
"""

import msgspec

from clob_server.chain.eth.token_ids import token_ids
from clob_server.chain.operation_bodies import RedeemAnswer, RedeemBody
from clob_server.chain.operations.base import (
    Lock,
    RefusalError,
    Run,
    StepFailedError,
    Work,
    World,
    hash_of,
)
from clob_server.chain.operations.calls import (
    BOTH,
    TOKEN_FROM,
    StepBuilder,
)
from clob_server.chain.operations.preconditions import (
    ask,
    check_approved,
    check_condition,
    check_gas,
    check_user,
    look,
    payout_reads,
    token_reads,
    worth,
)
from clob_server.chain.operations.refund import PULLS, REFUNDS, give_back, was_burnt


class Redeem(Work):
    """Pays out the tokens of a wallet.

    Args:
        body: what is asked for.
    """

    kind: str = "redeem"
    """What it does."""
    names: tuple[str, ...] = (*PULLS, "redeemTx", "returnTx")
    """Its steps."""
    gas: int = 700_000
    """What it takes in gas, generously."""

    def __init__(self, body: RedeemBody) -> None:
        self._body = body
        self._condition = bytes.fromhex(body.condition_id[2:])
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=True)
        """What it must have."""

    async def check(self, world: World) -> None:
        """Refuse what is worth nothing, or cannot be redeemed.

        Raises:
            RefusalError: why.
        """
        user = self._body.user
        check_user(world, user)
        tokens = token_ids(world.addresses.collateral, self._condition)
        reads = token_reads(world, user, self._body.condition_id, tokens)
        slots, balances, is_approved, *payouts = await look(
            world, *reads, *payout_reads(world, self._condition)
        )
        check_condition(world, self._body.condition_id, slots)
        if not payouts[0]:
            raise RefusalError(
                "CONDITION_NOT_RESOLVED",
                f"the condition {self._body.condition_id} has no outcome yet",
            )
        if not worth(balances, payouts):
            raise RefusalError(
                "NOTHING_TO_REDEEM",
                f"{user} has {balances[0]} wei of YES ({tokens[0]}) and {balances[1]} of NO "
                f"({tokens[1]}), which is worth nothing: they pay {payouts[1]}/{payouts[0]} and "
                f"{payouts[2]}/{payouts[0]}",
            )
        check_approved(world, user, is_approved)
        check_gas(world, self.gas)

    async def run(self, run: Run) -> msgspec.Struct:
        """Take all, have it paid out, and pay.

        Raises:
            StepFailedError: the tokens that were taken are back.
            StuckError: something stays here.
        """
        user, world = self._body.user, run.world
        calls = StepBuilder(world.addresses, world.node.operator)
        tokens = token_ids(world.addresses.collateral, self._condition)
        payouts = await ask(world, *payout_reads(world, self._condition))
        amounts = await self._amounts(run, tokens)
        sets = [each for each, amount in zip(BOTH, amounts, strict=True) if amount]
        redeeming = calls.redeem("redeemTx", self._condition, sets)
        paid = worth(amounts, payouts)
        paying = calls.pay("returnTx", user, paid)
        try:
            run.undoing(*REFUNDS)
            pulls = [
                calls.pull_token(name, user, token, amount)
                for name, token, amount in zip(PULLS, tokens, amounts, strict=True)
                if amount
            ]
            if not paid:
                raise StepFailedError("there was nothing left to redeem")
            taken = {step.name: step for step in await run.must(*pulls, then=redeeming)}
            (redeem,) = await run.must(redeeming, then=paying)
        except StepFailedError:
            await give_back(run, calls, self._body, tokens, amounts)
            raise
        was_burnt(run, self._body.condition_id, [tokens[each - 1] for each in sets])
        (returned,) = await run.must_or_stick(paying)
        hashes = [hash_of(taken[name]) if name in taken else None for name in PULLS]
        return RedeemAnswer(
            message=f"{paid} wei of collateral were paid to {user}",
            yes_transfer_tx=hashes[0],
            no_transfer_tx=hashes[1],
            redeem_tx=hash_of(redeem),
            return_tx=hash_of(returned),
            amount=str(paid),
        )

    async def _amounts(self, run: Run, tokens: tuple[int, int]) -> tuple[int, int]:
        """Tell how much of each token is taken: as was written, or else all that the wallet has."""
        standing = run.world.outbox.current_steps(run.operation.number)
        if any(name in standing for name in PULLS):
            yes, no = (
                TOKEN_FROM.arguments(standing[name].data)[3] if name in standing else 0
                for name in PULLS
            )
            return yes, no
        reads = token_reads(run.world, self._body.user, self._body.condition_id, tokens)
        _, (yes, no), _ = await ask(run.world, *reads)
        return yes, no
