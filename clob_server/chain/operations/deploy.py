"""Deployment of the contracts with the operator's approvals, and of the exchange."""

from typing import Final

import msgspec

from clob_server.chain.config import Addresses
from clob_server.chain.contracts import artifact
from clob_server.chain.eth import abi
from clob_server.chain.eth.accounts import create_address
from clob_server.chain.eth.rpc import content, result
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import ALLOWANCE, UINT256_MAX, StepBuilder
from clob_server.chain.operations.preconditions import (
    ZERO_ADDRESS,
    Read,
    check_gas,
    read_until_valid,
)
from clob_server.chain.tx.gas_limits import StepCall
from clob_server.chain.tx.steps import Step

ADDRESSES: Final = "addresses"
"""Outbox fact with the addresses of the contracts, as JSON."""
CONTRACT_GAS: Final = 8_000_000
"""Maximum gas of the deployment of one contract."""
EXCHANGE_STEP: Final = "exchangeTx"
"""Name of the step that deploys the exchange."""
EXCHANGE_GAS: Final = 5_000_000
"""Maximum gas of the deployment of the exchange, which takes 3.3 million."""
EXCHANGE_ARGUMENTS: Final = ("string", "string", "address", "address", "address", "address")
"""Types of the constructor arguments of the exchange: name and version of the domain, collateral,
conditional tokens, owner, operator."""


# ----- conditional tokens, stablecoin and collateral -----------------------------------------


class DeployBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="deploy"):
    """Parameters of :class:`Deploy`, which the worker starts."""

    addresses: Addresses | None = None
    """Addresses of the contracts if they exist and only approvals are missing."""


class Deploy(Work):
    """Deploys the contracts, and approves them for the operator's assets.

    Args:
        body: the parameters.
    """

    kind: str = "deploy"
    step_names: tuple[str, ...] = (
        "conditionalTokensTx",
        "stablecoinTx",
        "collateralTx",
        "approveStablecoinTx",
        "approveCollateralTx",
    )
    gas: int = 10_000_000

    def __init__(self, body: DeployBody) -> None:
        self._body = body

    async def check(self, context: OperationContext) -> None:
        """Accept every deployment, as no other operation can run without the contracts."""

    async def run(self, run: Run) -> Addresses:
        """Deploy missing contracts, send missing approvals and return the addresses.

        Raises:
            StepFailedError: a deployment or an approval failed.
        """
        addresses = self._body.addresses or await self._contracts(run)
        await self._approvals(run, addresses)
        run.context.outbox.set_fact(ADDRESSES, msgspec.json.encode(addresses).decode())
        return addresses

    async def _contracts(self, run: Run) -> Addresses:
        """Deploy the contracts in fixed order, so that the nonces determine their addresses."""
        tokens, stablecoin = await run.confirm(
            deploy_step("conditionalTokensTx", "ConditionalTokens"),
            deploy_step("stablecoinTx", "TestDollar"),
        )
        dollar = created_address(run, stablecoin)
        (collateral,) = await run.confirm(
            deploy_step("collateralTx", "WrappedCollateral", abi.encode(["address"], [dollar]))
        )
        return Addresses(
            stablecoin=dollar,
            collateral=created_address(run, collateral),
            conditional_tokens=created_address(run, tokens),
        )

    async def _approvals(self, run: Run, addresses: Addresses) -> None:
        """Approve the collateral contract for test dollars, and the tokens for collateral."""
        operator = run.context.node.operator
        builder = StepBuilder(addresses, operator)
        pairs = {
            "approveStablecoinTx": (addresses.stablecoin, addresses.collateral),
            "approveCollateralTx": (addresses.collateral, addresses.conditional_tokens),
        }
        allowances = await read_until_valid(run.context, *approval_reads(operator, addresses))
        missing = [
            builder.approve(name, token, spender)
            for (name, (token, spender)), amount in zip(pairs.items(), allowances, strict=True)
            if not is_unlimited(amount) or run.has_begun(name)
        ]
        if missing:
            await run.confirm(*missing)


def deploy_step(name: str, contract: str, arguments: bytes = b"") -> StepCall:
    """Return a step that deploys a contract.

    Args:
        name: name of the step.
        contract: name of the contract.
        arguments: encoded constructor arguments.
    """
    return StepCall(name, "", artifact(contract).creation + arguments, gas_max=CONTRACT_GAS)


def created_address(run: Run, step: Step) -> str:
    """Return the address of the contract that a step created."""
    if step.nonce is None:
        raise StepFailedError(f"{step.name} was not sent")
    return create_address(run.context.node.operator, step.nonce)


def approval_reads(operator: str, addresses: Addresses) -> list[Read]:
    """Return the reads of the operator's approvals for the collateral and the tokens contract."""
    return [
        Read(addresses.stablecoin, ALLOWANCE, (operator, addresses.collateral)),
        Read(addresses.collateral, ALLOWANCE, (operator, addresses.conditional_tokens)),
    ]


def is_unlimited(allowance: int) -> bool:
    """Return whether an approval is practically unlimited; transfers may reduce it."""
    return allowance > UINT256_MAX // 2


# ----- exchange ------------------------------------------------------------------------------


class DeployExchangeBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="found"):
    """Parameters of :class:`DeployExchange`, which the command line starts."""

    name: str
    """Name in the domain for which orders are signed."""
    version: str
    """Version in that domain."""
    collateral: str
    """Address of the collateral."""
    conditional_tokens: str
    """Address of the outcome tokens."""
    owner: str
    """Address that may pause the exchange and change its operator."""


class DeployExchangeAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer of :class:`DeployExchange`."""

    exchange: str
    """Address of the exchange."""
    exchange_tx: str
    """Transaction hash."""
    block: int
    """Block number."""


class DeployExchange(Work):
    """Deploys the exchange, with the sender as its operator.

    Args:
        body: the parameters.
    """

    kind: str = "found"
    step_names: tuple[str, ...] = (EXCHANGE_STEP,)
    gas: int = EXCHANGE_GAS

    def __init__(self, body: DeployExchangeBody) -> None:
        self._body = body

    async def check(self, context: OperationContext) -> None:
        """Reject an exchange without owner or contracts.

        Raises:
            OperationRejectedError: the owner is the zero address, the collateral or tokens contract
                does not exist, or the operator has too little ether.
        """
        body = self._body
        if body.owner == ZERO_ADDRESS:
            raise OperationRejectedError(
                "INVALID_ADDRESS", "the owner of the exchange must not be the zero address"
            )
        contracts = body.collateral, body.conditional_tokens
        replies = await context.node.request(
            [("eth_getCode", (address, "latest")) for address in contracts]
        )
        missing = [
            address
            for address, reply in zip(contracts, replies, strict=True)
            if not content(result(reply))
        ]
        if missing:
            detail = f"no contract at {', '.join(missing)}"
            raise OperationRejectedError("CHAIN_UNAVAILABLE", detail)
        check_gas(context, EXCHANGE_GAS)

    async def run(self, run: Run) -> DeployExchangeAnswer:
        """Deploy the exchange and return its address.

        Raises:
            StepFailedError: the deployment failed.
        """
        body, operator = self._body, run.context.node.operator
        contracts = body.collateral, body.conditional_tokens
        data = exchange_creation(body.name, body.version, *contracts, body.owner, operator)
        (step,) = await run.confirm(StepCall(EXCHANGE_STEP, "", data, gas_max=EXCHANGE_GAS))
        if step.nonce is None or step.block is None:
            raise StepFailedError(f"{EXCHANGE_STEP} was not sent")
        address = create_address(operator, step.nonce)
        return DeployExchangeAnswer(exchange=address, exchange_tx=step_hash(step), block=step.block)


def exchange_creation(*arguments: str) -> bytes:
    """Return the calldata of a transaction that deploys the exchange.

    Args:
        arguments: constructor arguments, see :data:`EXCHANGE_ARGUMENTS`.
    """
    return artifact("Exchange").creation + abi.encode(EXCHANGE_ARGUMENTS, arguments)
