"""Collateral over an existing stablecoin: its checks, its deployment, the operator's approvals."""

from typing import Any, Final

import msgspec

from clob.units import WEI_PER_TOKEN
from clob_server.chain.config import Addresses
from clob_server.chain.eth import abi
from clob_server.chain.eth.abi import Function
from clob_server.chain.operations.base import (
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    Work,
    step_hash,
)
from clob_server.chain.operations.calls import DECIMALS, SCALE, STABLECOIN
from clob_server.chain.operations.deploy import (
    EXCHANGE_GAS,
    WRAPPER_ARGUMENTS,
    code_requests,
    created_address,
    deploy_step,
    send_approvals,
    without_code,
)
from clob_server.chain.operations.preconditions import (
    Read,
    check_gas,
    read_once,
    read_until_valid,
)
from clob_server.chain.tx.gas_limits import StepCall

COLLATERAL_STEP: Final = "collateralTx"
"""Name of the step that deploys the collateral."""
DECIMALS_MAX: Final = 18
"""Decimals of the collateral, which a stablecoin must not exceed."""
NAME: Final = Function("name()", returns="string")
SYMBOL: Final = Function("symbol()", returns="string")
UNDERLYING: Final = Function("underlying()", returns="address")
"""Function of the wrapped collateral of Polymarket's NegRisk adapter."""
ABSENT: Final = 256
"""Stands for the decimals of a contract without them."""


def wrapper_reads(collateral: str) -> list[Read]:
    """Return the reads for :func:`check_wrapper`."""
    return [
        Read(collateral, SCALE, (), if_reverted=0),
        Read(collateral, STABLECOIN, (), if_reverted=""),
        Read(collateral, UNDERLYING, (), if_reverted=""),
    ]


def check_wrapper(addresses: Addresses, scale: int, stablecoin: str, underlying: str) -> None:
    """Reject a collateral contract that does not wrap the stablecoin.

    Args:
        addresses: the contracts.
        scale: wei of collateral for the smallest unit of the stablecoin; 0 for no answer.
        stablecoin: the stablecoin that the contract names; empty for no answer.
        underlying: token of a NegRisk adapter's collateral; empty for any other contract.

    Raises:
        OperationRejectedError: NEG_RISK_NOT_SUPPORTED; WRONG_COLLATERAL.
    """
    collateral = addresses.collateral
    if not scale and underlying:
        raise OperationRejectedError(
            "NEG_RISK_NOT_SUPPORTED",
            f"the collateral contract {collateral} is the wrapped collateral of a NegRisk adapter, "
            "whose markets are not supported; expected a WrappedCollateral of this software",
        )
    if not scale:
        problem = "is not a WrappedCollateral of this software"
    elif stablecoin != addresses.stablecoin:
        problem = f"wraps {stablecoin}; expected the stablecoin {addresses.stablecoin}"
    else:
        return
    detail = f"the collateral contract {collateral} {problem}"
    raise OperationRejectedError("WRONG_COLLATERAL", detail)


class DeployCollateralBody(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="wrapper"
):
    """Parameters of :class:`DeployCollateral`, which the command line starts."""

    stablecoin: str
    decimals: int | None
    """Decimals that the stablecoin must have; None for any."""
    collateral: str = ""
    """Collateral that wraps the stablecoin; empty to deploy it."""
    name: str = ""
    symbol: str = ""
    """Name and symbol of the collateral to deploy; empty takes those of the stablecoin, with
    ``Wrapped`` and ``w`` before them."""
    conditional_tokens: str


class DeployCollateralAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer of :class:`DeployCollateral`."""

    collateral: str
    """Address of the collateral."""
    collateral_tx: str | None
    """Transaction that deployed it; null if it existed."""


class DeployCollateral(Work[DeployCollateralBody]):
    """Deploys the collateral of a stablecoin unless it exists, and sends missing approvals."""

    step_names: tuple[str, ...] = (COLLATERAL_STEP, "approveStablecoinTx", "approveCollateralTx")
    gas: int = 2_000_000

    def addresses(self, collateral: str = "") -> Addresses:
        """Return the contracts, with a collateral that was deployed."""
        body = self.body
        return Addresses(
            stablecoin=body.stablecoin,
            collateral=body.collateral or collateral,
            conditional_tokens=body.conditional_tokens,
        )

    async def check(self, context: OperationContext) -> None:
        """Reject missing contracts, other decimals, another wrapper, and an operator out of gas."""
        body = self.body
        contracts = [body.stablecoin, body.conditional_tokens]
        contracts += [body.collateral] if body.collateral else []
        replies = await context.node.request(code_requests(contracts))
        if missing := without_code(contracts, replies):
            detail = f"no contract at {', '.join(missing)}"
            raise OperationRejectedError("CHAIN_UNAVAILABLE", detail)
        reads = [Read(body.stablecoin, DECIMALS, (), if_reverted=ABSENT)]
        reads += wrapper_reads(body.collateral) if body.collateral else []
        decimals, *wrapper = await read_once(context, *reads)
        self._check_decimals(decimals)
        if wrapper:
            check_wrapper(self.addresses(), *wrapper)
            if wrapper[0] * 10**decimals != WEI_PER_TOKEN:
                raise OperationRejectedError(
                    "WRONG_COLLATERAL",
                    f"the collateral contract {body.collateral} counts {wrapper[0]} wei for the "
                    f"smallest unit of a stablecoin of {decimals} decimals; "
                    f"expected {WEI_PER_TOKEN // 10**decimals}",
                )
        check_gas(context, self.gas + EXCHANGE_GAS)

    def _check_decimals(self, decimals: int) -> None:
        """Reject a stablecoin without decimals, with other ones, or with too many."""
        token, expected = self.body.stablecoin, self.body.decimals
        if decimals == ABSENT:
            problem = "states no decimals; expected an ERC-20"
        elif expected is not None and decimals != expected:
            problem = f"has {decimals} decimals; expected {expected}"
        elif decimals > DECIMALS_MAX:
            problem = f"has {decimals} decimals; expected at most {DECIMALS_MAX}"
        else:
            return
        raise OperationRejectedError("WRONG_COLLATERAL", f"the stablecoin {token} {problem}")

    async def creation(self, context: OperationContext) -> StepCall:
        """Return the step that deploys the collateral."""
        body = self.body
        decimals, name, symbol = await read_until_valid(
            context,
            Read(body.stablecoin, DECIMALS, ()),
            Read(body.stablecoin, NAME, (), if_reverted="Stablecoin"),
            Read(body.stablecoin, SYMBOL, (), if_reverted="USD"),
        )
        names: tuple[Any, ...] = body.name or f"Wrapped {name}", body.symbol or f"w{symbol}"
        arguments = abi.encode(WRAPPER_ARGUMENTS, (body.stablecoin, decimals, *names))
        return deploy_step(COLLATERAL_STEP, "WrappedCollateral", arguments)

    async def run(self, run: Run) -> DeployCollateralAnswer:
        """Deploy the collateral unless it exists, and send missing approvals."""
        collateral, collateral_tx = "", None
        if not self.body.collateral:
            (step,) = await run.confirm(await self.creation(run.context))
            collateral, collateral_tx = created_address(run, step), step_hash(step)
        addresses = self.addresses(collateral)
        wrapper = await read_until_valid(run.context, *wrapper_reads(addresses.collateral))
        try:
            check_wrapper(addresses, *wrapper)
        except OperationRejectedError as error:
            raise StepFailedError(str(error)) from error
        await send_approvals(run, addresses)
        return DeployCollateralAnswer(collateral=addresses.collateral, collateral_tx=collateral_tx)
