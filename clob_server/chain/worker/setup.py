"""Setup of the worker: checks chain and outbox, deploys missing contracts, finds the exchange."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from clob_server.chain.config import DEVELOPMENT_CHAIN, Addresses, deployed_by
from clob_server.chain.eth.rpc import (
    NodeClient,
    NodeInvalidResponseError,
    Reply,
    RpcRequest,
    result,
)
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import (
    Locks,
    OperationContext,
    OperationRejectedError,
    Run,
    StepFailedError,
    run_to_end,
)
from clob_server.chain.operations.collateral import check_wrapper, wrapper_reads
from clob_server.chain.operations.deploy import (
    ADDRESSES,
    DeployBody,
    approval_reads,
    code_requests,
    is_unlimited,
    without_code,
)
from clob_server.chain.operations.preconditions import read_until_valid
from clob_server.chain.operations.registry import decode_work
from clob_server.chain.operations.reserved import ReservedAmounts
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox, StoreRecord, clock_ms
from clob_server.chain.tx.remote_signer import RemoteSigner
from clob_server.chain.tx.sender import Sender
from clob_server.chain.tx.signer import LocalSigner, Signer
from clob_server.chain.tx.steps import Operation, Step
from clob_server.chain.tx.stuck import StuckTransactions
from clob_server.chain.tx.tracker import TransactionTracker
from clob_server.chain.worker.exchange_setup import ExchangeSetup

AGAIN_S: Final = 2.0
"""Pause between setup attempts, seconds."""

GENESIS: Final[RpcRequest] = ("eth_getBlockByNumber", ("0x0", False))
"""Request of the genesis block, for :func:`read_genesis`."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ForeignChainError(Exception):
    """The outbox belongs to another chain or operator."""


class WorkerParts(NamedTuple):
    """The parts of a worker that send and track transactions."""

    context: OperationContext
    """Context of the operations; its addresses are those of a fresh chain."""
    tracker: TransactionTracker
    stuck: StuckTransactions


def build_signer(config: Config) -> Signer:
    """Return the signer of a config: its key, or the signer at its URL.

    Raises:
        ValueError: the key or the URL is invalid.
    """
    return _signer(config, config.operator_key, config.signer_url, config.operator)


def build_oracle_signer(config: Config) -> Signer | None:
    """Return the signer of the oracle; None if the operator is the oracle.

    Raises:
        ValueError: the key or the URL is invalid.
    """
    if not config.oracle_key and not config.oracle_signer_url:
        return None
    return _signer(config, config.oracle_key, config.oracle_signer_url, config.oracle)


def _signer(config: Config, key: str, url: str, address: str) -> Signer:
    if not url:
        return LocalSigner(key, config.chain_id)
    return RemoteSigner(url, address, config.chain_id, config.rpc_timeout_s)


def build_parts(
    config: Config,
    outbox: Outbox,
    signer: Signer,
    rpc: NodeClient,
    *,
    changed: Callable[[], None],
    on_gap: Callable[[int], None],
    role: str = "the operator",
) -> WorkerParts:
    """Build the parts of a worker that send for one account.

    ``changed`` is called after a change of the node's state, ``on_gap`` with an unused nonce that
    later transactions wait for. ``role`` names the account in messages.
    """
    depth, bump_after_s = config.confirmations, config.bump_after_s
    fee_max, tip = int(config.fee_max_wei), int(config.tip_wei)
    node = Node(rpc, signer.address, config.chain_id, fee_max, changed, tip, role)
    tracker = TransactionTracker(node, outbox, depth)
    context = OperationContext(
        node=node,
        outbox=outbox,
        sender=Sender(node, outbox, signer, tracker),
        addresses=deployed_by(signer.address),
        reserved=ReservedAmounts(),
        locks=Locks(),
        gas_gift=int(config.gas_gift_wei),
    )
    stuck = StuckTransactions(node, outbox, signer, tracker, depth, bump_after_s, on_gap)
    return WorkerParts(context, tracker, stuck)


async def first_of(*jobs: Awaitable[Any]) -> None:
    """Run jobs until the first of them ends, cancel the others, and raise its exception."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


class WorkerSetup:
    """Finds the contracts, and deploys missing ones.

    Args:
        config: the first message of the server.
        parts: the parts of the worker that send for the operator.
        set_problem: called with a description of the current problem.
        on_step_end: callback for the steps that are tracked from the start.
        oracle: the parts that send for the oracle; None if the operator is the oracle.
    """

    def __init__(
        self,
        config: Config,
        parts: WorkerParts,
        set_problem: Callable[[str], None],
        on_step_end: Callable[["asyncio.Future[Step]"], None],
        oracle: WorkerParts | None = None,
    ) -> None:
        self._config = config
        self._context = parts.context
        self._accounts = (parts,) if oracle is None else (parts, oracle)
        self._outbox = parts.context.outbox
        self._operator = parts.context.node.operator
        self._set_problem = set_problem
        self._on_step_end = on_step_end
        self.problem: str = ""
        """Problem that does not prevent operations, or an empty text."""
        self.has_escrow: bool = False
        """Whether the exchange keeps escrow."""

    async def identify(self) -> None:
        """Check that the node is on the chain of the outbox.

        Raises:
            ForeignChainError: it is on another chain.
        """
        node = self._context.node
        state = node.state_requests()
        requests = [*state, GENESIS]

        def read(replies: list[Reply]) -> str:
            node.store_state(replies[:-1])
            return read_genesis(replies[-1])

        genesis = await node.request_until_valid(requests, read)
        check_fact(self._outbox, "genesis", genesis)
        self._outbox.commit()
        for parts in self._accounts[1:]:  # their nonces have to be known before they send
            account = parts.context.node
            await account.request_until_valid(account.state_requests(), account.store_state)

    async def find(self) -> Addresses:
        """Return the addresses once all contracts exist; deploy missing ones."""
        self.track_all()
        while (addresses := await self._find_or_deploy()) is None:
            await asyncio.sleep(AGAIN_S)
        self._set_problem("looking for the exchange contract")
        setup = ExchangeSetup(self._config, self._context.node)
        exchange, self.problem, self.has_escrow = await setup.find(addresses)
        return msgspec.structs.replace(addresses, exchange=exchange)

    def track_all(self) -> None:
        """Track all signed steps."""
        for parts in self._accounts:
            for step in parts.context.outbox.from_nonce(0):
                if step.status == "signed":
                    kind = self._outbox.operation(step.operation).kind
                    parts.tracker.track(step, kind).add_done_callback(self._on_step_end)

    async def _find_or_deploy(self) -> Addresses | None:
        """Find the contracts or deploy them; None if some are still missing."""
        pending = next((each for each in self._outbox.pending() if each.kind == "deploy"), None)
        if pending is not None:
            return await self._deploy(pending)
        expected = self._expected()
        missing = await self._missing(expected)
        if not missing:
            if not await self._wraps_stablecoin(expected):
                return None
            reads = approval_reads(self._operator, expected)
            allowed = await read_until_valid(self._context, *reads)
            if all(is_unlimited(amount) for amount in allowed):
                return expected
            return await self._begin(DeployBody(addresses=expected))
        is_configured = self._config.addresses is not None
        if self._can_deploy_at(expected, missing) or (not is_configured and self._config.deploy):
            return await self._begin(DeployBody())
        self._set_problem(f"no contract at {', '.join(missing)}")
        return None

    async def _wraps_stablecoin(self, addresses: Addresses) -> bool:
        """Return whether the collateral wraps the stablecoin; before, nothing may be approved."""
        reads = wrapper_reads(addresses.collateral)
        try:
            check_wrapper(addresses, *await read_until_valid(self._context, *reads))
        except OperationRejectedError as error:
            self._set_problem(str(error))
            return False
        return True

    def _expected(self) -> Addresses:
        """Return the configured addresses, the stored ones, or those of the first nonces."""
        if self._config.addresses is not None:
            return msgspec.structs.replace(self._config.addresses, exchange="")
        known = self._outbox.get_fact(ADDRESSES)
        if known is not None:
            return msgspec.json.decode(known, type=Addresses)
        return deployed_by(self._operator)

    async def _missing(self, addresses: Addresses) -> list[str]:
        """Return the addresses without a contract."""
        contracts = addresses.required
        return await self._context.node.request_until_valid(
            code_requests(contracts), lambda replies: without_code(contracts, replies)
        )

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
        operation = self._outbox.begin(name, "deploy", msgspec.json.encode(body), clock_ms())
        self._outbox.commit()
        return await self._deploy(operation)

    async def _deploy(self, operation: Operation) -> Addresses | None:
        """Run a deployment and store its result."""
        self._set_problem("deploying the contracts")
        run, work = Run(self._context, operation), decode_work(operation.body)
        try:
            addresses: Addresses = await run_to_end(run, work)
        except StepFailedError as error:
            _LOG.error("the deployment failed: %s", error)
            self._set_problem(f"the deployment of the contracts failed: {error}")
            return None
        finally:
            self._outbox.commit()
        return addresses


def check_fact(outbox: Outbox, name: str, value: str) -> None:
    """Compare a fact with the stored one, or store it the first time.

    Raises:
        ForeignChainError: another value is stored.
    """
    if not is_known(outbox, name, value):
        outbox.set_fact(name, value)


def is_known(outbox: Outbox, name: str, value: str) -> bool:
    """Return whether a fact is stored.

    Raises:
        ForeignChainError: another value is stored.
    """
    known = outbox.get_fact(name)
    if known not in (None, value):
        raise ForeignChainError(
            f"the outbox {outbox.path} belongs to {name} {known}; expected {value}"
        )
    return known is not None


def read_genesis(reply: Reply) -> str:
    """Return the hash of the genesis block, which identifies the chain.

    Raises:
        NodeError: the reply is invalid.
    """
    block = result(reply)
    if not isinstance(block, dict) or not isinstance(block.get("hash"), str):
        raise NodeInvalidResponseError("the node returned no genesis block")
    block_hash: str = block["hash"]
    return block_hash


def open_outbox(
    folder: Path, config: Config, operator: str, store: StoreRecord | None = None
) -> Outbox:
    """Open the outbox of an operator on a chain.

    On a development chain, an outbox of another chain is renamed and a new one is created; not in a
    cluster, whose log has the content of the old one. ``store`` stores commits in that log.

    Raises:
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox belongs to another chain or operator.
    """
    outbox = Outbox(folder, store, floor=config.outbox_floor)
    try:
        check_fact(outbox, "chain", str(config.chain_id))
        check_fact(outbox, "operator", operator)
        outbox.commit()
    except ForeignChainError:
        outbox.close()
        if config.chain_id != DEVELOPMENT_CHAIN or store is not None:
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
