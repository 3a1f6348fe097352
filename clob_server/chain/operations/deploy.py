"""Deployment of the contracts with the operator's approvals, and of the exchange."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from clob.signing import ZERO_ADDRESS
from clob.units import UINT256_MAX
from clob_server.chain.config import Addresses
from clob_server.chain.contracts import artifact
from clob_server.chain.eth import abi
from clob_server.chain.eth.accounts import create_address
from clob_server.chain.eth.rpc import Reply, RpcRequest, content, result
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import ALLOWANCE
from clob_server.chain.operations.preconditions import Read, check_gas, read_until_valid
from clob_server.chain.tx.gas_limits import StepCall
from clob_server.chain.tx.steps import Step

WRAPPER_ARGUMENTS: Final = ("address", "uint8", "string", "string")
"""Types of the constructor arguments of the collateral: stablecoin, its decimals, name, symbol."""
ADDRESSES: Final = "addresses"
"""Outbox fact with the addresses of the contracts, as JSON."""
TEST_DECIMALS: Final = 6
"""Decimals of test dollars."""
TEST_DOLLAR: Final = abi.encode(["uint8"], [TEST_DECIMALS])
"""Constructor arguments of the test stablecoin."""
CONTRACT_GAS: Final = 8_000_000
"""Maximum gas of the deployment of one contract."""
EXCHANGE_STEP: Final = "exchangeTx"
"""Name of the step that deploys the exchange."""
EXCHANGE_GAS: Final = 6_000_000
"""Maximum gas of the deployment of the exchange, which takes 4.5 million."""
EXCHANGE_ARGUMENTS: Final = ("string", "string", *["address"] * 6)
"""Types of the constructor arguments of the exchange: name and version of the domain, collateral,
conditional tokens, owner, operator, fee wallet, pauser."""


# ----- conditional tokens, stablecoin and collateral -----------------------------------------


class DeployBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="deploy"):
    """Parameters of :class:`Deploy`, which the worker starts."""

    addresses: Addresses | None = None
    """Addresses of the contracts if they exist and only approvals are missing."""


class Deploy(Work[DeployBody]):
    """Deploys the contracts, and approves them for the operator's assets."""

    step_names: tuple[str, ...] = (
        "conditionalTokensTx",
        "stablecoinTx",
        "collateralTx",
        "approveStablecoinTx",
        "approveCollateralTx",
    )
    gas: int = 10_000_000

    async def run(self, run: Run) -> Addresses:
        """Deploy missing contracts, send missing approvals and return the addresses."""
        addresses = self.body.addresses or await self._deploy(run)
        await send_approvals(run, addresses)
        run.context.outbox.set_fact(ADDRESSES, msgspec.json.encode(addresses).decode())
        return addresses

    async def _deploy(self, run: Run) -> Addresses:
        """Deploy the contracts in fixed order, so that the nonces determine their addresses."""
        tokens, stablecoin = await run.confirm(
            deploy_step("conditionalTokensTx", "ConditionalTokens"),
            deploy_step("stablecoinTx", "TestDollar", TEST_DOLLAR),
        )
        dollar = created_address(run, stablecoin)
        (collateral,) = await run.confirm(
            deploy_step("collateralTx", "WrappedCollateral", wrapper_of(dollar))
        )
        return Addresses(
            stablecoin=dollar,
            collateral=created_address(run, collateral),
            conditional_tokens=created_address(run, tokens),
        )


async def send_approvals(run: Run, addresses: Addresses) -> None:
    """Approve the collateral contract for stablecoin, and the tokens for collateral."""
    operator, builder = run.context.node.operator, run.context.builder
    allowances = await read_until_valid(run.context, *approval_reads(operator, addresses))
    missing = [
        builder.approve(name, token, spender)
        for (name, token, spender), amount in zip(approvals(addresses), allowances, strict=True)
        if not is_unlimited(amount) or run.has_begun(name)
    ]
    if missing:
        await run.confirm(*missing)


def wrapper_of(stablecoin: str) -> bytes:
    """Return the constructor arguments of the collateral that wraps test dollars."""
    arguments = stablecoin, TEST_DECIMALS, "Wrapped Test Dollar", "wtUSD"
    return abi.encode(WRAPPER_ARGUMENTS, arguments)


def deploy_step(name: str, contract: str, arguments: bytes = b"") -> StepCall:
    """Return a step that deploys a contract, with encoded constructor arguments."""
    return StepCall(name, "", artifact(contract).creation + arguments, gas_max=CONTRACT_GAS)


def created_address(run: Run, step: Step) -> str:
    """Return the address of the contract that a step created."""
    if step.nonce is None:
        raise StepFailedError(f"{step.name} was not sent")
    return create_address(run.context.node.operator, step.nonce)


def approvals(addresses: Addresses) -> list[tuple[str, str, str]]:
    """Return the step, the token and the spender of each approval of the operator."""
    return [
        ("approveStablecoinTx", addresses.stablecoin, addresses.collateral),
        ("approveCollateralTx", addresses.collateral, addresses.conditional_tokens),
    ]


def approval_reads(operator: str, addresses: Addresses) -> list[Read]:
    """Return the reads of the operator's approvals."""
    return [Read(token, ALLOWANCE, (operator, to)) for _, token, to in approvals(addresses)]


def is_unlimited(allowance: int) -> bool:
    """Return whether an approval is practically unlimited; transfers may reduce it."""
    return allowance > UINT256_MAX // 2


def code_requests(addresses: Sequence[str]) -> list[RpcRequest]:
    """Return the requests for :func:`without_code`."""
    return [("eth_getCode", (address, "latest")) for address in addresses]


def without_code(addresses: Sequence[str], replies: list[Reply]) -> list[str]:
    """Return the addresses without a contract."""
    codes = (content(result(reply)) for reply in replies)
    return [address for address, code in zip(addresses, codes, strict=True) if not code]


# ----- exchange ------------------------------------------------------------------------------


class ExchangeRoles(NamedTuple):
    """Addresses with a role in the exchange; empty for the operator."""

    owner: str = ""
    """May pause and resume settlement, and change the other roles."""
    fee_wallet: str = ""
    """Gets the fees."""
    pauser: str = ""
    """May pause settlement as well."""


class DeployExchangeBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="found"):
    """Parameters of :class:`DeployExchange`, which the command line starts."""

    name: str
    version: str
    """Name and version in the domain for which orders are signed."""
    collateral: str
    conditional_tokens: str
    owner: str
    """Address that may pause the exchange and change its operator."""
    # Operations of before have no such parameters, and are not deployed again.
    fee_wallet: str = ""
    """Address that gets the fees."""
    pauser: str = ""
    """Address that may pause the exchange as well."""


class DeployExchangeAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer of :class:`DeployExchange`."""

    exchange: str
    """Address of the exchange."""
    exchange_tx: str
    """Transaction hash."""
    block: int
    """Block number."""


class DeployExchange(Work[DeployExchangeBody]):
    """Deploys the exchange, with the sender as its operator."""

    step_names: tuple[str, ...] = (EXCHANGE_STEP,)
    gas: int = EXCHANGE_GAS

    async def check(self, context: OperationContext) -> None:
        """Reject the zero address in a role, missing contracts, and an operator out of gas."""
        body = self.body
        for role, address in (("owner", body.owner), ("fee wallet", body.fee_wallet)):
            if address == ZERO_ADDRESS:
                raise OperationRejectedError(
                    "INVALID_ADDRESS", f"the {role} of the exchange must not be the zero address"
                )
        contracts = body.collateral, body.conditional_tokens
        replies = await context.node.request(code_requests(contracts))
        if missing := without_code(contracts, replies):
            detail = f"no contract at {', '.join(missing)}"
            raise OperationRejectedError("CHAIN_UNAVAILABLE", detail)
        check_gas(context, self.gas)

    async def run(self, run: Run) -> DeployExchangeAnswer:
        """Deploy the exchange and return its address."""
        (step,) = await run.confirm(self.call(run.context.node.operator))
        address = created_address(run, step)
        assert step.block is not None
        return DeployExchangeAnswer(exchange=address, exchange_tx=step_hash(step), block=step.block)

    def call(self, operator: str) -> StepCall:
        """Return the step that deploys the exchange."""
        body = self.body
        contracts = body.collateral, body.conditional_tokens
        roles = body.owner, operator, body.fee_wallet or operator, body.pauser or operator
        data = exchange_creation(body.name, body.version, *contracts, *roles)
        return StepCall(EXCHANGE_STEP, "", data, gas_max=EXCHANGE_GAS)


def exchange_creation(*arguments: str) -> bytes:
    """Return the calldata of a transaction that deploys the exchange.

    Args:
        arguments: constructor arguments, see :data:`EXCHANGE_ARGUMENTS`.
    """
    return artifact("Exchange").creation + abi.encode(EXCHANGE_ARGUMENTS, arguments)
