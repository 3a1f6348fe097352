"""What a worker does before operations can begin: is this our chain, and is everything there?"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from clob_server.chain.config import Addresses, deployed_by
from clob_server.chain.eth.rpc import NodeNonsenseError, content, result
from clob_server.chain.messages import Config
from clob_server.chain.operations.base import Run, StepFailedError, World
from clob_server.chain.operations.deploy import (
    ADDRESSES,
    Deploy,
    DeployBody,
    approval_reads,
    is_enough,
)
from clob_server.chain.operations.preconditions import ask
from clob_server.chain.operations.registry import write_body
from clob_server.chain.tx.outbox import Outbox, clock_ms
from clob_server.chain.tx.steps import Operation, Step
from clob_server.chain.tx.tracker import Following
from clob_server.chain.worker.exchange_setup import DEVELOPMENT_CHAIN, Founding

AGAIN_S: Final = 2.0
"""How long until it is tried again to set up what is missing."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ForeignChainError(Exception):
    """The outbox is not of this chain, or not of this operator."""


class SettingUp:
    """Finds out what is missing, and deploys it.

    Args:
        config: what the server wants.
        world: what operations work with; its addresses count for nothing yet.
        following: brings what workers before this one signed onto the chain.
        say: told what is wrong, in a sentence.
        settled: told what became of what is on its way already.
    """

    def __init__(
        self,
        config: Config,
        world: World,
        following: Following,
        say: Callable[[str], None],
        settled: Callable[["asyncio.Future[Step]"], None],
    ) -> None:
        self._config = config
        self._world = world
        self._following = following
        self._outbox = world.outbox
        self._operator = world.node.operator
        self._say = say
        self._settled = settled
        self.problem: str = ""
        """What operations can do without and is missing, in a sentence; empty for nothing."""

    async def identify(self) -> None:
        """See that the node is of the chain that the outbox is of.

        Raises:
            ForeignChainError: it is of another one.
        """
        node = self._world.node
        state = node.state_questions()
        questions = [*state, ("eth_getBlockByNumber", ("0x0", False))]

        def read(replies: list[object]) -> str:
            """Give the hash of the first block."""
            node.take(replies[:-1])
            block = result(replies[-1])
            if not isinstance(block, dict) or not isinstance(block.get("hash"), str):
                raise NodeNonsenseError("the node does not give its first block")
            found: str = block["hash"]
            return found

        genesis = await node.patiently(questions, read)
        check_fact(self._outbox, "genesis", genesis)
        self._outbox.commit()

    async def find(self) -> Addresses:
        """Have everything there, and give where it is."""
        self.follow_all()
        while (addresses := await self._attempt()) is None:
            await asyncio.sleep(AGAIN_S)
        self._say("the exchange is being looked for")
        exchange, self.problem = await Founding(self._config, self._world.node).find(addresses)
        return msgspec.structs.replace(addresses, exchange=exchange)

    def follow_all(self) -> None:
        """Bring all that is signed onto the chain."""
        for step in self._outbox.from_nonce(0):
            if step.status == "signed":
                kind = self._outbox.operation(step.operation).kind
                self._following.follow(step, kind).add_done_callback(self._settled)

    async def _attempt(self) -> Addresses | None:
        """Look for what is missing, and deploy it; None where it is still missing."""
        pending = next((each for each in self._outbox.pending() if each.kind == "deploy"), None)
        if pending is not None:
            return await self._deploy(pending)
        expected = self._expected()
        missing = await self._missing(expected)
        if not missing:
            allowed = await ask(self._world, *approval_reads(self._operator, expected))
            if all(is_enough(amount) for amount in allowed):
                return expected
            return await self._begin(DeployBody(addresses=expected))
        is_given = self._config.addresses is not None
        if self._may_make(expected, missing) or (not is_given and self._config.deploy):
            return await self._begin(DeployBody())
        self._say(f"there is no contract at {', '.join(missing)}")
        return None

    def _expected(self) -> Addresses:
        """Say where the contracts should be: as given, as they were, or at the first nonces."""
        if self._config.addresses is not None:
            given = msgspec.structs.asdict(self._config.addresses)
            return Addresses(**{**given, "exchange": ""})
        known = self._outbox.fact(ADDRESSES)
        if known is not None:
            return msgspec.json.decode(known, type=Addresses)
        return deployed_by(self._operator)

    async def _missing(self, addresses: Addresses) -> list[str]:
        """Name those addresses where there is no contract."""
        places = addresses.needed
        codes = await self._world.node.patiently(
            [("eth_getCode", (place, "latest")) for place in places],
            lambda replies: [content(result(reply)) for reply in replies],
        )
        return [place for place, code in zip(places, codes, strict=True) if not code]

    def _may_make(self, addresses: Addresses, missing: list[str]) -> bool:
        """Say if the contracts come to lie where they are wanted when they are deployed now."""
        return (
            self._config.deploy
            and len(missing) == len(addresses.needed)
            and addresses == deployed_by(self._operator, self._world.node.count_pending)
        )

    async def _begin(self, body: DeployBody) -> Addresses | None:
        """Begin to deploy, or only to approve."""
        if not self._config.deploy:
            self._say("the operator has not approved the contracts, and is not to")
            return None
        name = f"deploy:{self._outbox.next_nonce()}:{clock_ms()}"
        operation = self._outbox.begin(name, "deploy", write_body(body), clock_ms())
        self._outbox.commit()
        return await self._deploy(operation)

    async def _deploy(self, operation: Operation) -> Addresses | None:
        """Deploy, and write what came of it."""
        work = Deploy(msgspec.json.decode(operation.body, type=DeployBody))
        self._say("the contracts are being deployed")
        try:
            addresses = await work.run(Run(self._world, operation))
        except StepFailedError as error:
            _LOG.error("deploying failed: %s", error)
            self._outbox.settle(operation.number, "failed", error=str(error))
            self._outbox.commit()
            self._say(f"the contracts could not be deployed: {error}")
            return None
        answer = msgspec.json.encode(addresses)
        self._outbox.settle(operation.number, "done", answer=answer)
        self._outbox.commit()
        return addresses


def check_fact(outbox: Outbox, name: str, value: str) -> None:
    """See that something is as it was, or keep it the first time.

    Raises:
        ForeignChainError: it was something else.
    """
    known = outbox.fact(name)
    if known is None:
        outbox.keep(name, value)
    elif known != value:
        raise ForeignChainError(f"the outbox {outbox.path} is of {name} {known}, not {value}")


def open_outbox(folder: Path, config: Config, operator: str) -> Outbox:
    """Open the outbox of an operator on a chain.

    Where it is of another one on a development chain, it is put aside, and a new one made.

    Raises:
        OutboxError: it cannot be opened.
        ForeignChainError: it is of another chain or operator.
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
        put_aside(outbox.path)
        return open_outbox(folder, config, operator)
    return outbox


def put_aside(path: Path) -> None:
    """Put an outbox that is closed under another name, so that a new one is made."""
    name = path.with_name(f"{path.name}.{clock_ms()}")
    _LOG.warning("the outbox is of another chain, and is put aside as %s", name.name)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.replace(path, name)
