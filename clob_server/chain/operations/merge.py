"""Merge: as much of both tokens is taken from a wallet, becomes collateral, and that is given back.

Both tokens must be here, confirmed, before they are merged: what other people's operations have
here would make up for one that is missing.
"""

import msgspec

from clob_server.chain.operation_bodies import MergeAnswer, MergeBody
from clob_server.chain.operations.base import (
    Lock,
    Run,
    StepFailedError,
    Work,
    World,
    hash_of,
)
from clob_server.chain.operations.calls import StepBuilder
from clob_server.chain.operations.preconditions import (
    check_approved,
    check_condition,
    check_gas,
    check_promise,
    check_tokens,
    check_user,
    look_and_estimate,
    token_reads,
)
from clob_server.chain.operations.refund import PULLS, REFUNDS, give_back
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall


class Merge(Work):
    """Makes tokens into collateral.

    Args:
        body: what is asked for.
    """

    kind: str = "merge"
    """What it does."""
    names: tuple[str, ...] = (*PULLS, "mergeTx", "returnTx")
    """Its steps."""
    gas: int = 700_000
    """What it takes in gas, generously."""

    def __init__(self, body: MergeBody) -> None:
        self._body = body
        self._amount = int(body.amount)
        self._tokens = int(body.yes_token_id), int(body.no_token_id)
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=False)
        """What it must have."""
        self.promised: tuple[Reservation, ...] = tuple(
            Reservation(body.user, str(token), self._amount) for token in self._tokens
        )
        """What it will take."""

    async def check(self, world: World) -> dict[str, int]:
        """Refuse what cannot be merged.

        Returns:
            How much gas it takes to take the tokens.

        Raises:
            RefusalError: why.
        """
        body = self._body
        check_user(world, body.user)
        reads = token_reads(world, body.user, body.condition_id, self._tokens)
        pulls = self._pulls(StepBuilder(world.addresses, world.node.operator))
        (slots, balances, is_approved), gas = await look_and_estimate(world, reads, pulls)
        check_condition(world, body.condition_id, slots)
        check_tokens(world, body.condition_id, body.yes_token_id, body.no_token_id)
        for name, balance, promise in zip(("YES", "NO"), balances, self.promised, strict=True):
            check_promise(world, f"{name} ({promise.asset})", balance, promise)
        check_approved(world, body.user, is_approved)
        check_gas(world, self.gas)
        return gas

    def _pulls(self, calls: StepBuilder) -> list[StepCall]:
        """Take both tokens."""
        return [
            calls.pull_token(name, self._body.user, token, self._amount)
            for name, token in zip(PULLS, self._tokens, strict=True)
        ]

    async def run(self, run: Run) -> msgspec.Struct:
        """Take both, merge them, and pay.

        Raises:
            StepFailedError: the tokens that were taken are back.
            StuckError: something stays here.
        """
        body = self._body
        calls = StepBuilder(run.world.addresses, run.world.node.operator)
        merging = calls.merge("mergeTx", bytes.fromhex(body.condition_id[2:]), self._amount)
        paying = calls.pay("returnTx", body.user, self._amount)
        try:
            run.undoing(*REFUNDS)
            yes, no = await run.must(*self._pulls(calls), then=merging)
            run.world.promises.release(run.operation.id)
            (merge,) = await run.must(merging, then=paying)
        except StepFailedError:
            await give_back(run, calls, body, self._tokens, (self._amount, self._amount))
            raise
        (paid,) = await run.must_or_stick(paying)
        return MergeAnswer(
            message=f"{body.amount} wei of both tokens became collateral in {body.user}",
            yes_transfer_tx=hash_of(yes),
            no_transfer_tx=hash_of(no),
            merge_tx=hash_of(merge),
            return_tx=hash_of(paid),
            amount=body.amount,
        )
