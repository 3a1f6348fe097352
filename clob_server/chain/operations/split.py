"""Split: collateral of a wallet becomes as much of both tokens, which it is given."""

import msgspec

from clob_server.chain.operation_bodies import Permit, SplitAnswer, SplitBody
from clob_server.chain.operations.base import (
    Lock,
    RefusalError,
    Run,
    StepFailedError,
    StuckError,
    Work,
    World,
    hash_of,
)
from clob_server.chain.operations.calls import ALLOWANCE, BALANCE, SLOTS, StepBuilder
from clob_server.chain.operations.preconditions import (
    Read,
    ask,
    check_condition,
    check_gas,
    check_promise,
    check_tokens,
    check_user,
    look_and_estimate,
    try_out,
)
from clob_server.chain.operations.refund import owed
from clob_server.chain.operations.reserved import Reservation
from clob_server.chain.tx.gas_limits import StepCall
from clob_server.chain.tx.steps import Step

UNDO = ("mergeBackTx", "refundTx")
"""The steps that undo it."""


class Split(Work):
    """Makes collateral into tokens.

    Args:
        body: what is asked for.
    """

    kind: str = "split"
    """What it does."""
    names: tuple[str, ...] = (
        "permitTx",
        "collateralTransferTx",
        "splitTx",
        "yesTransferTx",
        "noTransferTx",
    )
    """Its steps."""
    gas: int = 900_000
    """What it takes in gas, generously."""

    def __init__(self, body: SplitBody) -> None:
        self._body = body
        self._amount = int(body.amount)
        self._condition = bytes.fromhex(body.condition_id[2:])
        self.lock: Lock | None = Lock(body.condition_id.lower(), is_exclusive=False)
        """What it must have."""
        self.promised: tuple[Reservation, ...] = (
            Reservation(body.user, "collateral", self._amount),
        )
        """What it will take."""

    async def check(self, world: World) -> dict[str, int]:
        """Refuse what cannot be split.

        Returns:
            How much gas it takes to take the collateral.

        Raises:
            RefusalError: why.
        """
        body, operator = self._body, world.node.operator
        check_user(world, body.user)
        collateral = world.addresses.collateral
        reads = [
            Read(world.addresses.conditional_tokens, SLOTS, (self._condition,)),
            Read(collateral, BALANCE, (body.user,)),
            self._allowance(world),
        ]
        calls = [] if body.permit else [self._pull(StepBuilder(world.addresses, operator))]
        (slots, balance, allowance), gas = await look_and_estimate(world, reads, calls)
        check_condition(world, body.condition_id, slots)
        check_tokens(world, body.condition_id, body.yes_token_id, body.no_token_id)
        check_promise(world, f"the collateral {collateral}", balance, self.promised[0])
        taken = world.promises.total(body.user, "collateral")
        if allowance - taken < self._amount:
            await self._check_permit(world, max(0, allowance - taken))
        check_gas(world, self.gas)
        return gas

    def _allowance(self, world: World) -> Read:
        """Ask how much collateral the operator may take."""
        return Read(world.addresses.collateral, ALLOWANCE, (self._body.user, world.node.operator))

    def _pull(self, calls: StepBuilder) -> StepCall:
        """Take the collateral."""
        return calls.pull("collateralTransferTx", self._body.user, self._amount)

    async def _check_permit(self, world: World, approved: int) -> None:
        """Refuse a wallet that neither approved enough nor signed that it does.

        Raises:
            RefusalError: what it has to call.
        """
        permit, operator = self._body.permit, world.node.operator
        if permit is not None and int(permit.value) >= self._amount:
            calls = StepBuilder(world.addresses, operator)
            fault = await try_out(world, self._permit(calls, permit))
            if fault is None:
                return
            problem = f"the permit is not taken: {fault}"
        else:
            signed = "" if permit is None else f", and its permit is for {permit.value}"
            problem = f"{self._body.user} has approved {approved} wei of collateral{signed}"
        collateral = world.addresses.collateral
        raise RefusalError(
            "NOT_APPROVED",
            f"approve the operator: {self._body.user} must call "
            f"approve({operator}, {self._amount}) on {collateral}; {problem}",
            contract=collateral,
            call=f"approve({operator}, {self._amount})",
        )

    async def run(self, run: Run) -> msgspec.Struct:
        """Take the collateral, split it, and give both tokens.

        Raises:
            StepFailedError: the collateral that was taken is back.
            StuckError: something stays here.
        """
        body, amount = self._body, self._amount
        calls = StepBuilder(run.world.addresses, run.world.node.operator)
        yes, no = int(body.yes_token_id), int(body.no_token_id)
        splitting = calls.split("splitTx", self._condition, amount)
        giving = calls.pay_token("yesTransferTx", body.user, yes, amount)
        try:
            run.undoing(*UNDO)
            permit = await self._use_permit(run, calls)
            (taken,) = await run.must(self._pull(calls), then=splitting)
            run.world.promises.release(run.operation.id)
            (split,) = await run.must(splitting, then=giving)
            (gave,) = await run.must(giving)
        except StepFailedError:
            await self._undo(run, calls)
            raise
        last = await owed(run, calls, "noTransferTx", body, (yes, no), 1, amount)
        (gave_no,) = await run.must_or_stick(last)
        return SplitAnswer(
            message=f"{body.amount} wei of collateral became both tokens in {body.user}",
            permit_tx=permit,
            collateral_transfer_tx=hash_of(taken),
            split_tx=hash_of(split),
            yes_transfer_tx=hash_of(gave),
            no_transfer_tx=hash_of(gave_no),
            amount=body.amount,
        )

    async def _use_permit(self, run: Run, calls: StepBuilder) -> str | None:
        """Use the signed approval.

        Anybody may use it before us, and then it is refused and good all the same: if it was, the
        transfer that follows tells.
        """
        if self._body.permit is None:
            return None
        if not run.has_begun("permitTx"):
            (allowance,) = await ask(run.world, self._allowance(run.world))
            if allowance >= self._amount:
                return None
        (step,) = await run.send(self._permit(calls, self._body.permit))
        return None if step is None else confirmed(step)

    def _permit(self, calls: StepBuilder, permit: Permit) -> StepCall:
        """Make the step that uses the signed approval."""
        return calls.permit(
            "permitTx",
            self._body.user,
            int(permit.value),
            int(permit.deadline),
            permit.v,
            bytes.fromhex(permit.r[2:]),
            bytes.fromhex(permit.s[2:]),
        )

    async def _undo(self, run: Run, calls: StepBuilder) -> None:
        """Give the collateral back that was taken.

        Raises:
            StuckError: it cannot be given back.
        """
        if run.happened("yesTransferTx"):
            raise StuckError("one of the two tokens is with the wallet already")
        if run.happened("splitTx"):
            await run.must_or_stick(calls.merge("mergeBackTx", self._condition, self._amount))
        if run.happened("collateralTransferTx"):
            await run.must_or_stick(calls.pay("refundTx", self._body.user, self._amount))


def confirmed(step: Step) -> str | None:
    """Give the hash of a step that happened."""
    return hash_of(step) if step.status == "confirmed" else None
