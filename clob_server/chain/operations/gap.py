"""A transaction of the operator to itself, so that a nonce is used which others wait for."""

from typing import Final

import msgspec

from clob_server.chain.estimates import Call
from clob_server.chain.operations.base import Run, Work, World, hash_of

GAS: Final = 100_000
"""How much gas it may take; 21,000, and more where a chain asks for data to be paid."""
STEP: Final = "gapTx"
"""What its only step is called."""


class GapBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="gap"):
    """What the worker asks of itself."""

    nonce: int
    """The nonce that nobody used."""


class GapAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of it."""

    gap_tx: str
    """The transaction."""


class Gap(Work):
    """Uses a nonce, for nothing else.

    Args:
        body: what is asked for.
    """

    kind: str = "gap"
    """What it does."""
    names: tuple[str, ...] = (STEP,)
    """Its steps."""
    gas: int = GAS
    """What it takes in gas, generously."""

    def __init__(self, body: GapBody) -> None:
        self._body = body

    async def check(self, world: World) -> None:
        """Refuse nothing."""

    async def run(self, run: Run) -> msgspec.Struct:
        """Wait until it has happened.

        Raises:
            StepFailedError: it has not.
        """
        if not run.has_begun(STEP):
            call = to_itself(run.world)
            run.world.sender.sign_at(run.operation, call, self._body.nonce, GAS)
        (step,) = await run.must(to_itself(run.world))
        return GapAnswer(gap_tx=hash_of(step))


def to_itself(world: World) -> Call:
    """Send nothing from the operator to itself."""
    return Call(STEP, world.node.operator, b"")
