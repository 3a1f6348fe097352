"""Deployment of collateral and exchange by the command line, through the server's outbox.

Each transaction is stored in the outbox before it is sent. Running the command again after an
interruption continues the deployment; after a success it returns the stored result.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from clob.signing import keccak256
from clob_server.chain.eth.rpc import NodeError, Rpc
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import (
    OperationContext,
    Run,
    StepFailedError,
    Work,
    run_to_end,
)
from clob_server.chain.operations.collateral import (
    DeployCollateral,
    DeployCollateralAnswer,
    DeployCollateralBody,
)
from clob_server.chain.operations.deploy import (
    DeployExchange,
    DeployExchangeAnswer,
    DeployExchangeBody,
    ExchangeRoles,
)
from clob_server.chain.tx.outbox import clock_ms
from clob_server.chain.worker.exchange_setup import ExchangeSetup
from clob_server.chain.worker.setup import (
    WorkerParts,
    WorkerSetup,
    build_parts,
    build_signer,
    first_of,
    open_outbox,
)

LOOK_S: Final = 1.0
"""Seconds between checks for a stuck transaction."""

AnyAnswer = TypeVar("AnyAnswer", DeployCollateralAnswer, DeployExchangeAnswer)

_LOG: Final = logging.getLogger("clob_server.chain")


class Deployed(NamedTuple):
    """Deployed contracts."""

    exchange: DeployExchangeAnswer
    collateral: str
    """Address of the collateral, EIP-55."""


async def deploy(
    config: Config,
    folder: Path,
    roles: ExchangeRoles,
    wrapper: DeployCollateralBody | None = None,
) -> Deployed:
    """Deploy the contracts, continue an interrupted deployment, or return the deployed ones.

    Args:
        config: node, operator key, domain and contracts.
        folder: folder of the outbox; no running server may use it.
        roles: addresses with a role in the exchange.
        wrapper: collateral to deploy, or to check and approve; None uses that of the config as it
            is.

    Returns:
        The addresses, after the settings of the exchange were compared with the config.

    Raises:
        ValueError: the key or the address of the node is invalid.
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox belongs to another chain or operator.
        NodeError: the node does not respond, or is on another chain.
        OperationRejectedError: a precondition failed; nothing was sent.
        StepFailedError: the transaction failed, or the contract differs from the config.
        SignerError: the signer cannot be used.
    """
    signer = build_signer(config)
    rpc = Rpc(config.url, config.rpc_timeout_s)
    try:
        outbox = open_outbox(folder, config, signer.address)
        try:
            parts = build_parts(
                config, outbox, signer, rpc, changed=lambda: None, on_gap=warn_of_gap
            )
            await signer.check()  # fail at once, as with a node that is down
            return await _deploy(config, parts, roles, wrapper)
        finally:
            outbox.close()
    finally:
        await rpc.close()
        await signer.close()


async def _deploy(
    config: Config,
    parts: WorkerParts,
    roles: ExchangeRoles,
    wrapper: DeployCollateralBody | None,
) -> Deployed:
    """Run the operations while the tracker runs, then check the exchange."""
    node, addresses = parts.context.node, config.addresses
    assert addresses is not None
    await node.refresh()  # fail at once instead of waiting for a node that is down
    setup = WorkerSetup(config, parts, _LOG.warning, lambda step: None)
    await setup.identify()
    setup.track_all()
    operations = asyncio.ensure_future(_run_operations(config, parts.context, roles, wrapper))
    await first_of(operations, parts.tracker.run(), _check_stuck(parts))
    deployed = operations.result()
    checked = msgspec.structs.replace(config, exchange=deployed.exchange.exchange, deploy=False)
    addresses = msgspec.structs.replace(addresses, collateral=deployed.collateral)
    setup_result = await ExchangeSetup(checked, node).find(addresses)
    if setup_result.problem:
        raise StepFailedError(setup_result.problem)
    return deployed


async def _run_operations(
    config: Config,
    context: OperationContext,
    roles: ExchangeRoles,
    wrapper: DeployCollateralBody | None,
) -> Deployed:
    """Deploy or check the collateral, then deploy the exchange over it."""
    assert config.addresses is not None
    collateral = config.addresses.collateral
    if wrapper is not None:
        work = DeployCollateral(wrapper)
        collateral = (await _run_operation(context, work, DeployCollateralAnswer)).collateral
    exchange = exchange_work(config, roles, context.node.operator, collateral)
    return Deployed(await _run_operation(context, exchange, DeployExchangeAnswer), collateral)


async def _run_operation(
    context: OperationContext, work: Work[Any], answer_type: type[AnyAnswer]
) -> AnyAnswer:
    """Run an operation, resume it, or return its stored answer."""
    outbox, name = context.outbox, operation_id(work)
    known = outbox.find(name)
    if known is not None and known.status == "done":
        return msgspec.json.decode(known.answer or b"", type=answer_type)
    if known is None or known.status == "failed":
        await work.check(context)
    if known is None:
        known = outbox.begin(name, work.kind, msgspec.json.encode(work.body), clock_ms())
    elif known.status != "pending":
        outbox.discard_failures(known.number)
        known = outbox.set_status(known.number, "pending")
    try:
        answer: AnyAnswer = await run_to_end(Run(context, known), work)
    finally:
        outbox.commit()
    return answer


def exchange_work(
    config: Config, roles: ExchangeRoles, operator: str, collateral: str
) -> DeployExchange:
    """Return the operation that deploys the exchange of a config over a collateral."""
    assert config.addresses is not None
    body = DeployExchangeBody(
        name=config.domain_name,
        version=config.domain_version,
        collateral=collateral,
        conditional_tokens=config.addresses.conditional_tokens,
        owner=roles.owner or operator,
        fee_wallet=roles.fee_wallet or operator,
        pauser=roles.pauser or operator,
    )
    return DeployExchange(body)


def operation_id(work: Work[Any]) -> str:
    """Return the id of a deployment in the outbox: equal parameters are one deployment."""
    return f"{work.kind}:{keccak256(msgspec.json.encode(work.body)).hex()}"


async def _check_stuck(parts: WorkerParts) -> None:
    """Check for stuck transactions, forever."""
    node = parts.context.node
    while True:
        await asyncio.sleep(LOOK_S)
        parts.context.outbox.commit()
        try:
            await node.refresh()
            await parts.stuck.check()
        except NodeError as error:
            node.set_health(str(error))


def warn_of_gap(nonce: int) -> None:
    """Log a missing nonce; a running server fills the gap instead."""
    _LOG.warning(
        "no known transaction uses nonce %d of the operator; later transactions wait for it", nonce
    )
