"""Preparing the condition of a market, and reporting its outcome."""

from typing import Final

import msgspec

from clob_server.chain.eth.token_ids import condition_id, token_ids
from clob_server.chain.operation_bodies import PrepareAnswer, PrepareBody, ReportAnswer, ReportBody
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import CONDITION_OF, SLOTS, StepBuilder
from clob_server.chain.operations.preconditions import (
    Read,
    check_condition,
    check_gas,
    payout_reads,
    read_once,
    read_until_valid,
)

NO_CONDITION: Final = bytes(32)
"""Condition that the exchange returns for an unregistered token."""
PAYOUTS = {"yes": (1, 0), "no": (0, 1)}
"""Payouts of YES and NO by outcome."""


class Prepare(Work):
    """Prepares the condition of a question and registers its tokens with the exchange.

    Args:
        body: the parameters.
    """

    kind: str = "prepare"
    step_names: tuple[str, ...] = ("prepareTx", "registerTx")
    gas: int = 400_000

    def __init__(self, body: PrepareBody) -> None:
        self._question = bytes.fromhex(body.question_id[2:])

    async def check(self, context: OperationContext) -> None:
        """Reject if a transaction is needed and the operator has too little ether.

        Raises:
            OperationRejectedError: see above, or the node does not respond.
        """
        slots, *registered = await read_once(context, *self._reads(context))
        if not slots or NO_CONDITION in registered:
            check_gas(context, self.gas)

    def _condition(self, context: OperationContext) -> bytes:
        return condition_id(context.node.operator, self._question)

    def _reads(self, context: OperationContext) -> list[Read]:
        """Read the outcome count and, if there is an exchange, the registered condition."""
        addresses, condition = context.addresses, self._condition(context)
        reads = [Read(addresses.conditional_tokens, SLOTS, (condition,))]
        if addresses.exchange:
            yes, _ = token_ids(addresses.collateral, condition)
            reads.append(Read(addresses.exchange, CONDITION_OF, (yes,)))
        return reads

    async def run(self, run: Run) -> msgspec.Struct:
        """Prepare the condition and register its tokens, unless that is done.

        Raises:
            StepFailedError: a step failed.
        """
        context, condition = run.context, self._condition(run.context)
        builder = StepBuilder(context.addresses, context.node.operator)
        slots, *registered = await read_until_valid(context, *self._reads(context))
        register = None
        if NO_CONDITION in registered:
            register = builder.register("registerTx", condition)
        prepare_tx, register_tx = None, None
        if not slots or run.has_begun("prepareTx"):
            prepare = builder.prepare("prepareTx", self._question)
            (step,) = await run.confirm(prepare, then=register)
            prepare_tx = step_hash(step)
        if context.addresses.exchange and (register is not None or run.has_begun("registerTx")):
            (step,) = await run.confirm(builder.register("registerTx", condition))
            register_tx = step_hash(step)
        yes, no = token_ids(context.addresses.collateral, condition)
        return PrepareAnswer(
            message=f"the condition 0x{condition.hex()} is prepared",
            prepare_tx=prepare_tx,
            register_tx=register_tx,
            exchange=context.addresses.exchange,
            condition_id=f"0x{condition.hex()}",
            yes_token_id=str(yes),
            no_token_id=str(no),
        )


class Report(Work):
    """Reports the outcome of a question.

    Args:
        body: the parameters.
    """

    kind: str = "report"
    step_names: tuple[str, ...] = ("reportTx",)
    gas: int = 200_000

    def __init__(self, body: ReportBody) -> None:
        self._question = bytes.fromhex(body.question_id[2:])
        self._outcome = body.outcome

    async def check(self, context: OperationContext) -> None:
        """Reject an unprepared condition, and one that is resolved with another outcome.

        Raises:
            OperationRejectedError: see above, or the operator has too little ether.
        """
        slots, *payouts = await read_once(context, *self._reads(context))
        condition = f"0x{self._condition(context).hex()}"
        check_condition(context, condition, slots)
        if payouts[0] and payouts[1:] != list(PAYOUTS[self._outcome]):
            raise OperationRejectedError(
                "CONDITION_RESOLVED",
                f"the condition {condition} is resolved with the payouts {payouts[1]}/{payouts[0]} "
                f"for YES and {payouts[2]}/{payouts[0]} for NO; it cannot be resolved as "
                f"{self._outcome}",
            )
        if not payouts[0]:
            check_gas(context, self.gas)

    def _condition(self, context: OperationContext) -> bytes:
        return condition_id(context.node.operator, self._question)

    def _reads(self, context: OperationContext) -> list[Read]:
        """Read the outcome count and the payouts."""
        condition = self._condition(context)
        slots = Read(context.addresses.conditional_tokens, SLOTS, (condition,))
        return [slots, *payout_reads(context, condition)]

    async def run(self, run: Run) -> msgspec.Struct:
        """Report the outcome, unless it is reported.

        Raises:
            StepFailedError: the step failed.
        """
        context, report_tx = run.context, None
        _, denominator, *_ = await read_until_valid(context, *self._reads(context))
        if not denominator or run.has_begun("reportTx"):
            builder = StepBuilder(context.addresses, context.node.operator)
            payouts = PAYOUTS[self._outcome]
            (step,) = await run.confirm(builder.report("reportTx", self._question, payouts))
            report_tx = step_hash(step)
        return ReportAnswer(
            message=f"the outcome {self._outcome} is reported",
            report_tx=report_tx,
            condition_id=f"0x{self._condition(context).hex()}",
        )
