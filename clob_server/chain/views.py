"""Operations as the operator of the server sees them."""

from typing import cast

import msgspec

from clob_server.chain.messages import OperationView, Status, StepView
from clob_server.chain.rows import Operation, Step


def operation_view(operation: Operation, steps: list[Step]) -> OperationView:
    """Show an operation.

    Args:
        operation: the operation.
        steps: its steps, in the order they were written.
    """
    return OperationView(
        number=operation.number,
        id=operation.id,
        kind=operation.kind,
        status=cast(Status, operation.status),
        body=msgspec.Raw(operation.body),
        error=operation.error,
        begun_ms=operation.begun_ms,
        changed_ms=operation.changed_ms,
        steps=[step_view(step) for step in steps],
    )


def step_view(step: Step) -> StepView:
    """Show a step."""
    return StepView(
        name=step.name,
        status=step.status,
        nonce=step.nonce,
        hashes=[offer.hash for offer in step.offers],
        num_bumps=max(0, len(step.offers) - 1),
        block=step.block,
        error=step.error,
        changed_ms=step.changed_ms,
    )
