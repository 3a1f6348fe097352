"""Found: the exchange contract deployed by the operator, for a server that is begun with it."""

from typing import Final

import msgspec

from clob_server.chain import abi
from clob_server.chain.accounts import create_address
from clob_server.chain.contracts import artifact
from clob_server.chain.estimates import Call
from clob_server.chain.operations.base import (
    RefusalError,
    Run,
    StepFailedError,
    Work,
    World,
    hash_of,
)
from clob_server.chain.operations.reading import NOBODY, check_gas
from clob_server.chain.rpc import content, result

STEP: Final = "exchangeTx"
"""What its only step is called."""
GAS: Final = 5_000_000
"""How much gas the exchange may take; it takes 3.3 million."""
CONSTRUCTOR: Final = ("string", "string", "address", "address", "address", "address")
"""The types of what its constructor is given: the name and the version of the domain, collateral,
tokens, owner, operator."""


class FoundBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="found"):
    """What is asked for."""

    name: str
    """The name in the domain that orders are signed for."""
    version: str
    """The version in it."""
    collateral: str
    """What trades are paid with."""
    conditional_tokens: str
    """The contract of the outcome tokens."""
    owner: str
    """Who may pause it, and name another operator."""


class FoundAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of it."""

    exchange: str
    """Where the exchange is."""
    exchange_tx: str
    """The transaction."""
    block: int
    """The number of its block."""


class Found(Work):
    """Deploys the exchange; whoever sends it is its operator.

    Args:
        body: what is asked for.
    """

    kind: str = "found"
    """What it does."""
    names: tuple[str, ...] = (STEP,)
    """Its steps."""
    gas: int = GAS
    """What it takes in gas, generously."""

    def __init__(self, body: FoundBody) -> None:
        self._body = body

    async def check(self, world: World) -> None:
        """Refuse what could not settle anything.

        Raises:
            RefusalError: nobody would own it, it would lie over contracts that are not there, or
                the operator cannot pay for it.
        """
        body = self._body
        if body.owner == NOBODY:
            raise RefusalError("INVALID_ADDRESS", "the zero address cannot own the exchange")
        places = body.collateral, body.conditional_tokens
        replies = await world.node.once([("eth_getCode", (place, "latest")) for place in places])
        missing = [
            place
            for place, reply in zip(places, replies, strict=True)
            if not content(result(reply))
        ]
        if missing:
            detail = f"there is no contract at {', '.join(missing)}"
            raise RefusalError("CHAIN_UNAVAILABLE", detail)
        check_gas(world, GAS)

    async def run(self, run: Run) -> FoundAnswer:
        """Deploy it.

        Raises:
            StepFailedError: it was not deployed.
        """
        body, operator = self._body, run.world.node.operator
        given = body.name, body.version, body.collateral, body.conditional_tokens, body.owner
        data = creation(*given, operator)
        (step,) = await run.must(Call(STEP, "", data, gas_max=GAS))
        if step.nonce is None or step.block is None:
            raise StepFailedError(f"{STEP} was not sent")
        place = create_address(operator, step.nonce)
        return FoundAnswer(exchange=place, exchange_tx=hash_of(step), block=step.block)


def creation(*given: str) -> bytes:
    """Give what a transaction holds that makes an exchange.

    Args:
        given: what its constructor is given, see :data:`CONSTRUCTOR`.
    """
    return artifact("Exchange").creation + abi.encode(CONSTRUCTOR, given)
