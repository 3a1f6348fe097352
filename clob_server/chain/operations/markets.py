"""Preparing the condition of a market, and reporting its outcome."""

from typing import Final

from clob.wire.operations import PrepareAnswer, PrepareBody, ReportAnswer, ReportBody
from clob_server.chain.eth.token_ids import condition_id, token_ids
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import CONDITION_OF, SLOTS
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


class Prepare(Work[PrepareBody]):
    """Prepares the condition of a question and registers its tokens with the exchange."""

    step_names: tuple[str, ...] = ("prepareTx", "registerTx")
    gas: int = 400_000

    async def check(self, context: OperationContext) -> None:
        """Reject a missing condition of another oracle, and an operator out of gas."""
        slots, *registered = await read_once(context, *self._reads(context))
        if self.body.oracle and not self.body.prepares:
            check_condition(context, f"0x{condition_of(context, self.body).hex()}", slots)
        if not slots or NO_CONDITION in registered:
            check_gas(context, self.gas)

    def _reads(self, context: OperationContext) -> list[Read]:
        """Read the outcome count and, if there is an exchange, the registered condition."""
        addresses, condition = context.addresses, condition_of(context, self.body)
        reads = [Read(addresses.conditional_tokens, SLOTS, (condition,))]
        if addresses.exchange:
            yes, _ = token_ids(addresses.collateral, condition)
            reads.append(Read(addresses.exchange, CONDITION_OF, (yes,)))
        return reads

    async def run(self, run: Run) -> PrepareAnswer:
        """Prepare the condition and register its tokens, unless that is done."""
        context, condition = run.context, condition_of(run.context, self.body)
        slots, *registered = await read_until_valid(context, *self._reads(context))
        register = context.builder.register("registerTx", condition)
        is_missing = NO_CONDITION in registered
        prepare_tx, register_tx = None, None
        is_own = not self.body.oracle or self.body.prepares
        if is_own and (not slots or run.has_begun("prepareTx")):
            question, oracle = question_of(self.body), self.body.oracle
            prepare = context.builder.prepare("prepareTx", question, oracle)
            (step,) = await run.confirm(prepare, then=register if is_missing else None)
            prepare_tx = step_hash(step)
        if context.addresses.exchange and (is_missing or run.has_begun("registerTx")):
            (step,) = await run.confirm(register)
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


class Report(Work[ReportBody]):
    """Reports the outcome of a question."""

    step_names: tuple[str, ...] = ("reportTx",)
    gas: int = 200_000

    async def check(self, context: OperationContext) -> None:
        """Reject an unprepared condition, and one that is resolved with another outcome."""
        oracle = context.acting_as(self.body.oracle)
        slots, *payouts = await read_once(oracle, *self._reads(context))
        condition, outcome = f"0x{condition_of(context, self.body).hex()}", self.body.outcome
        check_condition(context, condition, slots)
        if payouts[0] and payouts[1:] != list(PAYOUTS[outcome]):
            raise OperationRejectedError(
                "CONDITION_RESOLVED",
                f"the condition {condition} is resolved with the payouts {payouts[1]}/{payouts[0]} "
                f"for YES and {payouts[2]}/{payouts[0]} for NO; it cannot be resolved as {outcome}",
            )
        if not payouts[0]:
            check_gas(oracle, self.gas)

    def _reads(self, context: OperationContext) -> list[Read]:
        """Read the outcome count and the payouts."""
        condition = condition_of(context, self.body)
        slots = Read(context.addresses.conditional_tokens, SLOTS, (condition,))
        return [slots, *payout_reads(context, condition)]

    async def run(self, run: Run) -> ReportAnswer:
        """Report the outcome, unless it is reported."""
        context, outcome, report_tx = run.context, self.body.outcome, None
        _, denominator, *_ = await read_until_valid(context, *self._reads(context))
        if not denominator or run.has_begun("reportTx"):
            question, payouts = question_of(self.body), PAYOUTS[outcome]
            run = Run(context.acting_as(self.body.oracle), run.operation)
            (step,) = await run.confirm(context.builder.report("reportTx", question, payouts))
            report_tx = step_hash(step)
        return ReportAnswer(
            message=f"the outcome {outcome} is reported",
            report_tx=report_tx,
            condition_id=f"0x{condition_of(context, self.body).hex()}",
        )


def question_of(body: PrepareBody | ReportBody) -> bytes:
    """Return the question id."""
    return bytes.fromhex(body.question_id[2:])


def condition_of(context: OperationContext, body: PrepareBody | ReportBody) -> bytes:
    """Return the id of the condition, whose oracle is the operator unless the body names one."""
    return condition_id(body.oracle or context.node.operator, question_of(body))
