"""What must be there before anything else: the contracts, and the operator's own approvals."""

from typing import Final

import msgspec

from clob_server.chain.config import Addresses
from clob_server.chain.contracts import artifact
from clob_server.chain.eth import abi
from clob_server.chain.eth.accounts import create_address
from clob_server.chain.eth.rpc import content, result
from clob_server.chain.operations.base import (
    RefusalError,
    Run,
    StepFailedError,
    Work,
    World,
    hash_of,
)
from clob_server.chain.operations.calls import ALLOWANCE, MAX, StepBuilder
from clob_server.chain.operations.preconditions import NOBODY, Read, ask, check_gas
from clob_server.chain.tx.gas_limits import GasEstimateCall
from clob_server.chain.tx.steps import Step

ADDRESSES: Final = "addresses"
"""The fact of the outbox that says where the contracts are, as JSON."""
GAS_DEPLOY: Final = 8_000_000
"""How much gas a contract may take."""


class DeployBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="deploy"):
    """What the worker asks of itself."""

    addresses: Addresses | None = None
    """Where the contracts are, if they are there already."""


class Deploy(Work):
    """Deploys the contracts, and approves what they take from the operator.

    Args:
        body: what is asked for.
    """

    kind: str = "deploy"
    """What it does."""
    names: tuple[str, ...] = (
        "conditionalTokensTx",
        "stablecoinTx",
        "collateralTx",
        "approveStablecoinTx",
        "approveCollateralTx",
    )
    """Its steps."""
    gas: int = 10_000_000
    """What it takes in gas, generously."""

    def __init__(self, body: DeployBody) -> None:
        self._body = body

    async def check(self, world: World) -> None:
        """Refuse nothing: without this, there is nothing else."""

    async def run(self, run: Run) -> Addresses:
        """Deploy what is missing, and give where it is.

        Raises:
            StepFailedError: something is still missing.
        """
        addresses = self._body.addresses or await self._contracts(run)
        await self._approvals(run, addresses)
        run.world.outbox.keep(ADDRESSES, msgspec.json.encode(addresses).decode())
        return addresses

    async def _contracts(self, run: Run) -> Addresses:
        """Deploy the contracts, in the order that makes their addresses known beforehand."""
        tokens, stablecoin = await run.must(
            deploys("conditionalTokensTx", "ConditionalTokens"),
            deploys("stablecoinTx", "TestDollar"),
        )
        dollar = made_by(run, stablecoin)
        (collateral,) = await run.must(
            deploys("collateralTx", "WrappedCollateral", abi.encode(["address"], [dollar]))
        )
        return Addresses(
            stablecoin=dollar,
            collateral=made_by(run, collateral),
            conditional_tokens=made_by(run, tokens),
        )

    async def _approvals(self, run: Run, addresses: Addresses) -> None:
        """Let the collateral take test dollars of the operator, and the tokens collateral."""
        operator = run.world.node.operator
        calls = StepBuilder(addresses, operator)
        pairs = {
            "approveStablecoinTx": (addresses.stablecoin, addresses.collateral),
            "approveCollateralTx": (addresses.collateral, addresses.conditional_tokens),
        }
        allowed = await ask(run.world, *approval_reads(operator, addresses))
        missing = [
            calls.approve(name, token, spender)
            for (name, (token, spender)), amount in zip(pairs.items(), allowed, strict=True)
            if not is_enough(amount) or run.has_begun(name)
        ]
        if missing:
            await run.must(*missing)


def deploys(name: str, contract: str, arguments: bytes = b"") -> GasEstimateCall:
    """Make a contract.

    Args:
        name: what the step is called.
        contract: which.
        arguments: what its constructor is given, encoded.
    """
    return GasEstimateCall(name, "", artifact(contract).creation + arguments, gas_max=GAS_DEPLOY)


def made_by(run: Run, step: Step) -> str:
    """Say where a contract is that a step made."""
    if step.nonce is None:
        raise StepFailedError(f"{step.name} was not sent")
    return create_address(run.world.node.operator, step.nonce)


def approval_reads(operator: str, addresses: Addresses) -> list[Read]:
    """Ask what the collateral may take of the operator, and the tokens."""
    return [
        Read(addresses.stablecoin, ALLOWANCE, (operator, addresses.collateral)),
        Read(addresses.collateral, ALLOWANCE, (operator, addresses.conditional_tokens)),
    ]


def is_enough(allowance: int) -> bool:
    """Say if an approval lasts for ever, as far as anybody can tell."""
    return allowance > MAX // 2


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


class FindExchange(Work):
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
        (step,) = await run.must(GasEstimateCall(STEP, "", data, gas_max=GAS))
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


# MERGED clob_server.chain.operations.deploy: Found: the exchange contract deployed by the operator, for a server that is begun with it.
