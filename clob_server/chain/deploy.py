"""Deployment of the exchange contract by the command line, through the server's outbox.

The transaction is stored in the outbox before it is sent. Running the command again after an
interruption continues the deployment; after a success it returns the stored result.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from clob.signing import keccak256
from clob_server.chain.config import Addresses
from clob_server.chain.eth.rpc import NodeError, Rpc
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import OperationContext, Run, StepFailedError, encode_json
from clob_server.chain.operations.deploy import (
    DeployExchange,
    DeployExchangeAnswer,
    DeployExchangeBody,
)
from clob_server.chain.operations.registry import encode_body
from clob_server.chain.operations.reserved import ReservedAmounts
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.sender import Sender, Signer
from clob_server.chain.tx.stuck import StuckTransactions
from clob_server.chain.tx.tracker import TransactionTracker
from clob_server.chain.worker.exchange_setup import ExchangeSetup
from clob_server.chain.worker.setup import WorkerSetup, open_outbox

LOOK_S: Final = 1.0
"""Seconds between checks for a stuck transaction."""

_LOG: Final = logging.getLogger("clob_server.chain")


async def deploy(config: Config, folder: Path, owner: str) -> DeployExchangeAnswer:
    """Deploy the exchange, continue an interrupted deployment, or return the deployed one.

    Args:
        config: node, operator key, domain and contracts.
        folder: folder of the outbox; no running server may use it.
        owner: address that may pause the exchange and change its operator; empty for the operator.

    Returns:
        The address of the exchange, after its settings were compared with the config.

    Raises:
        ValueError: the key or the address of the node is invalid.
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox belongs to another chain or operator.
        NodeError: the node does not respond, or is on another chain.
        OperationRejectedError: a precondition failed; nothing was sent.
        StepFailedError: the transaction failed, or the contract differs from the config.
    """
    signer = Signer(config.operator_key, config.chain_id)
    rpc = Rpc(config.url, config.rpc_timeout_s)
    try:
        outbox = open_outbox(folder, config, signer.address)
        try:
            return await _Deployment(config, outbox, signer, rpc).run(owner or signer.address)
        finally:
            outbox.close()
    finally:
        await rpc.close()


class _Deployment:
    """Deployment of one exchange."""

    def __init__(self, config: Config, outbox: Outbox, signer: Signer, rpc: Rpc) -> None:
        assert config.addresses is not None
        addresses = msgspec.structs.asdict(config.addresses)
        self._config = config
        self._outbox = outbox
        self._addresses = Addresses(**addresses)
        limit, depth = int(config.fee_max_wei), config.confirmations
        self._node = Node(rpc, signer.address, config.chain_id, limit, lambda: None)
        self._tracker = TransactionTracker(self._node, outbox, depth)
        self._context = OperationContext(
            node=self._node,
            outbox=outbox,
            sender=Sender(self._node, outbox, signer, self._tracker),
            addresses=self._addresses,
            reserved=ReservedAmounts(),
            gas_gift=0,
        )
        self._stuck = StuckTransactions(
            self._node, outbox, signer, self._tracker, depth, config.bump_after_s, warn_of_gap
        )

    async def run(self, owner: str) -> DeployExchangeAnswer:
        config, addresses = self._config, self._addresses
        body = DeployExchangeBody(
            name=config.domain_name,
            version=config.domain_version,
            collateral=addresses.collateral,
            conditional_tokens=addresses.conditional_tokens,
            owner=owner,
        )
        await self._node.refresh()  # fail at once instead of waiting for a node that is down
        setup = WorkerSetup(config, self._context, self._tracker, _LOG.warning, lambda step: None)
        await setup.identify()
        setup.track_all()
        operation = asyncio.ensure_future(
            self._run_operation(DeployExchange(body), encode_body(body))
        )
        background = [
            asyncio.ensure_future(each) for each in (self._tracker.run(), self._check_stuck())
        ]
        try:
            # The other two end only by an unexpected error, which is raised here.
            await asyncio.wait([operation, *background], return_when=asyncio.FIRST_COMPLETED)
            for each in background:
                if each.done():
                    each.result()
        finally:
            for task in (operation, *background):
                task.cancel()
            await asyncio.gather(operation, *background, return_exceptions=True)
        answer = operation.result()
        checked = msgspec.structs.replace(config, exchange=answer.exchange, deploy=False)
        setup_result = await ExchangeSetup(checked, self._node).find(addresses)
        if setup_result.problem:
            raise StepFailedError(setup_result.problem)
        return answer

    async def _run_operation(self, work: DeployExchange, body: bytes) -> DeployExchangeAnswer:
        """Run the operation, resume it, or return its stored answer."""
        name = f"{work.kind}:{keccak256(body).hex()}"
        known = self._outbox.find(name)
        if known is not None and known.status == "done":
            return msgspec.json.decode(known.answer or b"", type=DeployExchangeAnswer)
        if known is None or known.status == "failed":
            await work.check(self._context)
        if known is None:
            known = self._outbox.begin(name, work.kind, body, clock_ms())
        elif known.status != "pending":
            self._outbox.discard_failures(known.number)
            known = self._outbox.set_status(known.number, "pending")
        try:
            answer = await work.run(Run(self._context, known))
        except StepFailedError as error:
            self._outbox.set_status(known.number, "failed", error=str(error))
            self._outbox.commit()
            raise
        self._outbox.set_status(known.number, "done", answer=encode_json(answer))
        self._outbox.commit()
        return answer

    async def _check_stuck(self) -> None:
        """Check for stuck transactions, forever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._outbox.commit()
            try:
                await self._node.refresh()
                await self._stuck.check()
            except NodeError as error:
                self._node.set_health(str(error))


def warn_of_gap(nonce: int) -> None:
    """Log a missing nonce; a running server fills the gap instead."""
    _LOG.warning(
        "no known transaction uses nonce %d of the operator; later transactions wait for it", nonce
    )
