"""Deploys the exchange from a shell: once, through the outbox of the server that will use it.

What was signed is in the outbox before it is sent. So whoever is interrupted asks for the same
again, and it goes on; asked once more when it is there, it is found and not deployed anew.
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
from clob_server.chain.operations.base import Run, StepFailedError, World, encoded
from clob_server.chain.operations.deploy import FindExchange, FoundAnswer, FoundBody
from clob_server.chain.operations.registry import write_body
from clob_server.chain.operations.reserved import ReservedAmounts
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.sender import Sender, Signer
from clob_server.chain.tx.stuck import StuckTransactions
from clob_server.chain.tx.tracker import Following
from clob_server.chain.worker.exchange_setup import Founding
from clob_server.chain.worker.setup import SettingUp, open_outbox

LOOK_S: Final = 1.0
"""How often it is looked whether the transaction takes too long."""

_LOG: Final = logging.getLogger("clob_server.chain")


async def deploy(config: Config, folder: Path, owner: str) -> FoundAnswer:
    """Deploy the exchange, or go on with it, or find it.

    Args:
        config: the node, the operator's key, the domain and the contracts.
        folder: the folder of the outbox; no server may have it.
        owner: who may pause the exchange, and name another operator; empty is the operator.

    Returns:
        Where it is. It was looked at, and is the one that was asked for.

    Raises:
        ValueError: the key or the address of the node cannot be used.
        OutboxError: the outbox cannot be opened.
        ForeignChainError: the outbox is of another chain or operator.
        NodeError: the node does not answer, or is of another chain.
        RefusalError: nothing was sent, and why.
        StepFailedError: it was sent, and is not there.
    """
    signer = Signer(config.operator_key, config.chain_id)
    rpc = Rpc(config.url, config.rpc_timeout_s)
    try:
        outbox = open_outbox(folder, config, signer.address)
        try:
            return await _Deploying(config, outbox, signer, rpc).run(owner or signer.address)
        finally:
            outbox.close()
    finally:
        await rpc.close()


class _Deploying:
    """One exchange on its way."""

    def __init__(self, config: Config, outbox: Outbox, signer: Signer, rpc: Rpc) -> None:
        assert config.addresses is not None
        named = msgspec.structs.asdict(config.addresses)
        self._config = config
        self._outbox = outbox
        self._addresses = Addresses(**named)
        limit, depth = int(config.fee_max_wei), config.confirmations
        self._node = Node(rpc, signer.address, config.chain_id, limit, lambda: None)
        self._following = Following(self._node, outbox, depth)
        self._world = World(
            node=self._node,
            outbox=outbox,
            sender=Sender(self._node, outbox, signer, self._following),
            addresses=self._addresses,
            promises=ReservedAmounts(),
            gas_gift=0,
        )
        self._late = StuckTransactions(
            self._node, outbox, signer, self._following, depth, config.bump_after_s, tell_of_gap
        )

    async def run(self, owner: str) -> FoundAnswer:
        """Do it."""
        config, addresses = self._config, self._addresses
        body = FoundBody(
            name=config.domain_name,
            version=config.domain_version,
            collateral=addresses.collateral,
            conditional_tokens=addresses.conditional_tokens,
            owner=owner,
        )
        await self._node.refresh()  # one that does not answer is told of, not waited for
        setting_up = SettingUp(
            config, self._world, self._following, _LOG.warning, lambda step: None
        )
        await setting_up.identify()
        setting_up.follow_all()
        finding = asyncio.ensure_future(self._found(FindExchange(body), write_body(body)))
        besides = [asyncio.ensure_future(each) for each in (self._following.run(), self._look())]
        try:
            # The other two end only by a mistake of ours, which must not be waited out.
            await asyncio.wait([finding, *besides], return_when=asyncio.FIRST_COMPLETED)
            for each in besides:
                if each.done():
                    each.result()
        finally:
            for task in (finding, *besides):
                task.cancel()
            await asyncio.gather(finding, *besides, return_exceptions=True)
        answer = finding.result()
        place = msgspec.structs.replace(config, exchange=answer.exchange, deploy=False)
        found = await Founding(place, self._node).find(addresses)
        if found.problem:
            raise StepFailedError(found.problem)
        return answer

    async def _found(self, work: FindExchange, body: bytes) -> FoundAnswer:
        """Begin, go on, or give what came of it before."""
        name = f"{work.kind}:{keccak256(body).hex()}"
        known = self._outbox.find(name)
        if known is not None and known.status == "done":
            return msgspec.json.decode(known.answer or b"", type=FoundAnswer)
        if known is None or known.status == "failed":
            await work.check(self._world)
        if known is None:
            known = self._outbox.begin(name, work.kind, body, clock_ms())
        elif known.status != "pending":
            self._outbox.forget_failures(known.number)
            known = self._outbox.settle(known.number, "pending")
        try:
            answer = await work.run(Run(self._world, known))
        except StepFailedError as error:
            self._outbox.settle(known.number, "failed", error=str(error))
            self._outbox.commit()
            raise
        self._outbox.settle(known.number, "done", answer=encoded(answer))
        self._outbox.commit()
        return answer

    async def _look(self) -> None:
        """See what takes long, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._outbox.commit()
            try:
                await self._node.refresh()
                await self._late.look_after()
            except NodeError as error:
                self._node.set_health(str(error))


def tell_of_gap(nonce: int) -> None:
    """Say that a nonce is missing; a server that runs uses it up."""
    _LOG.warning(
        "the nonce %d is used by nothing that the node knows, and others wait for it", nonce
    )
