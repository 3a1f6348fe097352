"""What a market needs of the chain: its condition prepared, and in the end its outcome reported."""

from typing import Final

import msgspec

from clob_server.chain.eth.token_ids import condition_id, token_ids
from clob_server.chain.operation_bodies import PrepareAnswer, PrepareBody, ReportAnswer, ReportBody
from clob_server.chain.operations.base import RefusalError, Run, Work, World, hash_of
from clob_server.chain.operations.calls import CONDITION_OF, SLOTS, StepBuilder
from clob_server.chain.operations.preconditions import (
    Read,
    ask,
    check_condition,
    check_gas,
    look,
    payout_reads,
)

NO_CONDITION: Final = bytes(32)
"""What the exchange answers for tokens that it does not know."""
PAYOUTS = {"yes": (1, 0), "no": (0, 1)}
"""What both tokens pay, by outcome."""


class Prepare(Work):
    """Prepares the condition of a question, and has the exchange learn its tokens.

    Args:
        body: what is asked for.
    """

    kind: str = "prepare"
    """What it does."""
    names: tuple[str, ...] = ("prepareTx", "registerTx")
    """Its steps."""
    gas: int = 400_000
    """What it takes in gas, generously."""

    def __init__(self, body: PrepareBody) -> None:
        self._question = bytes.fromhex(body.question_id[2:])

    async def check(self, world: World) -> None:
        """Refuse what the operator cannot pay for.

        Raises:
            RefusalError: that, or a node that does not answer.
        """
        slots, *known = await look(world, *self._reads(world))
        if not slots or NO_CONDITION in known:
            check_gas(world, self.gas)

    def _condition(self, world: World) -> bytes:
        """Name the condition."""
        return condition_id(world.node.operator, self._question)

    def _reads(self, world: World) -> list[Read]:
        """Ask if it is prepared, and if the exchange knows it, where there is one."""
        addresses, condition = world.addresses, self._condition(world)
        reads = [Read(addresses.conditional_tokens, SLOTS, (condition,))]
        if addresses.exchange:
            yes, _ = token_ids(addresses.collateral, condition)
            reads.append(Read(addresses.exchange, CONDITION_OF, (yes,)))
        return reads

    async def run(self, run: Run) -> msgspec.Struct:
        """Prepare it, and have it learnt, if that was not done.

        Raises:
            StepFailedError: it is not prepared, or not learnt.
        """
        world, condition = run.world, self._condition(run.world)
        calls = StepBuilder(world.addresses, world.node.operator)
        slots, *known = await ask(world, *self._reads(world))
        learn = calls.register("registerTx", condition) if NO_CONDITION in known else None
        prepared, registered = None, None
        if not slots or run.has_begun("prepareTx"):
            (step,) = await run.must(calls.prepare("prepareTx", self._question), then=learn)
            prepared = hash_of(step)
        if world.addresses.exchange and (learn is not None or run.has_begun("registerTx")):
            (step,) = await run.must(calls.register("registerTx", condition))
            registered = hash_of(step)
        yes, no = token_ids(world.addresses.collateral, condition)
        return PrepareAnswer(
            message=f"the condition 0x{condition.hex()} is prepared",
            prepare_tx=prepared,
            register_tx=registered,
            exchange=world.addresses.exchange,
            condition_id=f"0x{condition.hex()}",
            yes_token_id=str(yes),
            no_token_id=str(no),
        )


class Report(Work):
    """Reports the outcome of a question.

    Args:
        body: what is asked for.
    """

    kind: str = "report"
    """What it does."""
    names: tuple[str, ...] = ("reportTx",)
    """Its steps."""
    gas: int = 200_000
    """What it takes in gas, generously."""

    def __init__(self, body: ReportBody) -> None:
        self._question = bytes.fromhex(body.question_id[2:])
        self._outcome = body.outcome

    async def check(self, world: World) -> None:
        """Refuse a question that is not prepared, or was answered otherwise.

        Raises:
            RefusalError: why.
        """
        slots, *payouts = await look(world, *self._reads(world))
        condition = f"0x{self._condition(world).hex()}"
        check_condition(world, condition, slots)
        if payouts[0] and payouts[1:] != list(PAYOUTS[self._outcome]):
            raise RefusalError(
                "CONDITION_RESOLVED",
                f"the condition {condition} pays {payouts[1]}/{payouts[0]} for YES and "
                f"{payouts[2]}/{payouts[0]} for NO already, which is not {self._outcome}",
            )
        if not payouts[0]:
            check_gas(world, self.gas)

    def _condition(self, world: World) -> bytes:
        """Name the condition."""
        return condition_id(world.node.operator, self._question)

    def _reads(self, world: World) -> list[Read]:
        """Ask for the outcomes, and what they pay."""
        condition = self._condition(world)
        slots = Read(world.addresses.conditional_tokens, SLOTS, (condition,))
        return [slots, *payout_reads(world, condition)]

    async def run(self, run: Run) -> msgspec.Struct:
        """Report it, if it is not.

        Raises:
            StepFailedError: it is not reported.
        """
        world, found = run.world, None
        _, denominator, *_ = await ask(world, *self._reads(world))
        if not denominator or run.has_begun("reportTx"):
            calls = StepBuilder(world.addresses, world.node.operator)
            payouts = PAYOUTS[self._outcome]
            (step,) = await run.must(calls.report("reportTx", self._question, payouts))
            found = hash_of(step)
        return ReportAnswer(
            message=f"the outcome {self._outcome} is on the chain",
            report_tx=found,
            condition_id=f"0x{self._condition(world).hex()}",
        )
