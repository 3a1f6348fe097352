"""Setup of the worker: checks chain and outbox, deploys missing contracts, finds the exchange."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from clob_server.chain.config import DEVELOPMENT_CHAIN, Addresses, deployed_by
from clob_server.chain.eth.rpc import NodeInvalidResponseError, content, result
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import OperationContext, Run, StepFailedError
from clob_server.chain.operations.deploy import (
    ADDRESSES,
    Deploy,
    DeployBody,
    approval_reads,
    is_unlimited,
)
from clob_server.chain.operations.preconditions import read_until_valid
from clob_server.chain.operations.registry import encode_body
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.steps import Operation, Step
from clob_server.chain.tx.tracker import TransactionTracker
from clob_server.chain.worker.exchange_setup import ExchangeSetup

AGAIN_S: Final = 2.0
"""Pause between setup attempts, seconds."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ForeignChainError(Exception):
    """The outbox belongs to another chain or operator."""


class WorkerSetup:
    """Finds the contracts, and deploys missing ones.

    Args:
        config: configuration of the server.
        context: context of the operations; its addresses are not used.
        tracker: sends and tracks transactions signed by earlier workers.
        set_problem: called with a description of the current problem.
        on_step_end: callback for the steps that are tracked from the start.
    """

    def __init__(
        self,
        config: Config,
        context: OperationContext,
        tracker: TransactionTracker,
        set_problem: Callable[[str], None],
        on_step_end: Callable[["asyncio.Future[Step]"], None],
    ) -> None:
        self._config = config
        self._context = context
        self._tracker = tracker
        self._outbox = context.outbox
        self._operator = context.node.operator
        self._set_problem = set_problem
        self._on_step_end = on_step_end
        self.problem: str = ""
        """Problem that does not prevent operations; empty if there is none."""

    async def identify(self) -> None:
        """Check that the node is on the chain of the outbox.

        Raises:
            ForeignChainError: it is on another chain.
        """
        node = self._context.node
        state = node.state_requests()
        requests = [*state, ("eth_getBlockByNumber", ("0x0", False))]

        def read(replies: list[object]) -> str:
            """Return the hash of the genesis block."""
            node.store_state(replies[:-1])
            block = result(replies[-1])
            if not isinstance(block, dict) or not isinstance(block.get("hash"), str):
                raise NodeInvalidResponseError("the node returned no genesis block")
            block_hash: str = block["hash"]
            return block_hash

        genesis = await node.request_until_valid(requests, read)
        check_fact(self._outbox, "genesis", genesis)
        self._outbox.commit()

    async def find(self) -> Addresses:
        """Return the addresses once all contracts exist; deploy missing ones."""
        self.track_all()
        while (addresses := await self._find_or_deploy()) is None:
            await asyncio.sleep(AGAIN_S)
        self._set_problem("looking for the exchange contract")
        exchange, self.problem = await ExchangeSetup(self._config, self._context.node).find(
            addresses
        )
        return msgspec.structs.replace(addresses, exchange=exchange)

    def track_all(self) -> None:
        """Track all signed steps."""
        for step in self._outbox.from_nonce(0):
            if step.status == "signed":
                kind = self._outbox.operation(step.operation).kind
                self._tracker.track(step, kind).add_done_callback(self._on_step_end)

    async def _find_or_deploy(self) -> Addresses | None:
        """Find the contracts or deploy them; None if some are still missing."""
        pending = next((each for each in self._outbox.pending() if each.kind == "deploy"), None)
        if pending is not None:
            return await self._deploy(pending)
        expected = self._expected()
        missing = await self._missing(expected)
        if not missing:
            allowed = await read_until_valid(
                self._context, *approval_reads(self._operator, expected)
            )
            if all(is_unlimited(amount) for amount in allowed):
                return expected
            return await self._begin(DeployBody(addresses=expected))
        is_configured = self._config.addresses is not None
        if self._can_deploy_at(expected, missing) or (not is_configured and self._config.deploy):
            return await self._begin(DeployBody())
        self._set_problem(f"no contract at {', '.join(missing)}")
        return None

    def _expected(self) -> Addresses:
        """Return the configured addresses, the stored ones, or those of the first nonces."""
        if self._config.addresses is not None:
            configured = msgspec.structs.asdict(self._config.addresses)
            return Addresses(**{**configured, "exchange": ""})
        known = self._outbox.get_fact(ADDRESSES)
        if known is not None:
            return msgspec.json.decode(known, type=Addresses)
        return deployed_by(self._operator)

    async def _missing(self, addresses: Addresses) -> list[str]:
        """Return the addresses without a contract."""
        contracts = addresses.required
        codes = await self._context.node.request_until_valid(
            [("eth_getCode", (address, "latest")) for address in contracts],
            lambda replies: [content(result(reply)) for reply in replies],
        )
        return [address for address, code in zip(contracts, codes, strict=True) if not code]

    def _can_deploy_at(self, addresses: Addresses, missing: list[str]) -> bool:
        """Return whether deploying now creates the contracts at the expected addresses."""
        return (
            self._config.deploy
            and len(missing) == len(addresses.required)
            and addresses == deployed_by(self._operator, self._context.node.count_pending)
        )

    async def _begin(self, body: DeployBody) -> Addresses | None:
        """Start a deployment, or only the approvals."""
        if not self._config.deploy:
            self._set_problem(
                "the operator has not approved the contracts, and deploying is disabled"
            )
            return None
        name = f"deploy:{self._outbox.next_nonce()}:{clock_ms()}"
        operation = self._outbox.begin(name, "deploy", encode_body(body), clock_ms())
        self._outbox.commit()
        return await self._deploy(operation)

    async def _deploy(self, operation: Operation) -> Addresses | None:
        """Run a deployment and store its result."""
        work = Deploy(msgspec.json.decode(operation.body, type=DeployBody))
        self._set_problem("deploying the contracts")
        try:
            addresses = await work.run(Run(self._context, operation))
        except StepFailedError as error:
            _LOG.error("the deployment failed: %s", error)
            self._outbox.set_status(operation.number, "failed", error=str(error))
            self._outbox.commit()
            self._set_problem(f"the deployment of the contracts failed: {error}")
            return None
        answer = msgspec.json.encode(addresses)
        self._outbox.set_status(operation.number, "done", answer=answer)
        self._outbox.commit()
        return addresses


def check_fact(outbox: Outbox, name: str, value: str) -> None:
    """Compare a fact with the stored one, or store it the first time.

    Raises:
        ForeignChainError: another value is stored.
    """
    known = outbox.get_fact(name)
    if known is None:
        outbox.set_fact(name, value)
    elif known != value:
        raise ForeignChainError(
            f"the outbox {outbox.path} belongs to {name} {known}; expected {value}"
        )


def open_outbox(folder: Path, config: Config, operator: str) -> Outbox:
    """Open the outbox of an operator on a chain.

    On a development chain, an outbox of another chain is renamed and a new one is created.

    Raises:
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox belongs to another chain or operator.
    """
    outbox = Outbox(folder)
    try:
        check_fact(outbox, "chain", str(config.chain_id))
        check_fact(outbox, "operator", operator)
        outbox.commit()
    except ForeignChainError:
        outbox.close()
        if config.chain_id != DEVELOPMENT_CHAIN:
            raise
        rename_outbox(outbox.path)
        return open_outbox(folder, config, operator)
    return outbox


def rename_outbox(path: Path) -> None:
    """Rename a closed outbox, so that a new one is created."""
    name = path.with_name(f"{path.name}.{clock_ms()}")
    _LOG.warning("the outbox belongs to another chain and is renamed to %s", name.name)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.replace(path, name)
