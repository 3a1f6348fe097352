"""The chain worker: a process that signs, sends and follows the operator's transactions.

``python -m clob_server.chain.worker FOLDER``. The first line it reads is a ``Config``; after that
it does what it is asked, see :mod:`clob_server.chain.messages`. It ends when its input ends, which
is the end of the server, however that came; what is under way goes on with the next worker.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from clob_server.chain.config import deployed_by
from clob_server.chain.eth.rpc import NodeError, Rpc
from clob_server.chain.events import StartWatching, WatchTokens
from clob_server.chain.messages import (
    LINE_BYTES_MAX,
    AnyTold,
    Config,
    Contracts,
    Counts,
    OperationDone,
    OperationFailed,
    Ready,
    State,
    encode,
    read_asked,
)
from clob_server.chain.operations.base import World
from clob_server.chain.operations.reserved import ReservedAmounts
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox, OutboxError
from clob_server.chain.tx.sender import Sender, Signer
from clob_server.chain.tx.steps import Step
from clob_server.chain.tx.stuck import StuckTransactions
from clob_server.chain.tx.tracker import Following
from clob_server.chain.watcher.watcher import Watching
from clob_server.chain.worker.exchange_setup import DEVELOPMENT_CHAIN
from clob_server.chain.worker.operations import OperationRunner
from clob_server.chain.worker.setup import ForeignChainError, SettingUp, open_outbox, put_aside

STATE_S: Final = 1.0
"""How often the state is told at most."""
BUSY_S: Final = 1.0
"""How often the node is asked how it does, while something is on its way."""
IDLE_S: Final = 2.0
"""How often otherwise."""
GAS: Final = 900_000
"""What an operation may take in gas; who cannot pay for that is out of gas."""
WRONG: Final = 2
"""The exit code where it cannot begin."""
AGAIN: Final = 75
"""The exit code where the next worker will find a fresh outbox."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ChainWorker:
    """All that a worker does, from its config on.

    Args:
        config: what the server says first.
        outbox: what workers before this one have written.
        signer: the operator's key.
        rpc: the way to the node.
    """

    def __init__(self, config: Config, outbox: Outbox, signer: Signer, rpc: Rpc) -> None:
        self._config = config
        self._outbox = outbox
        self._changed = asyncio.Event()
        self._problem = "the chain worker is not ready yet"
        limit = int(config.fee_max_wei)
        self._node = Node(rpc, signer.address, config.chain_id, limit, self._changed.set)
        depth, bump_after_s = config.confirmations, config.bump_after_s
        self._following = Following(self._node, outbox, depth)
        self._world = World(
            node=self._node,
            outbox=outbox,
            sender=Sender(self._node, outbox, signer, self._following),
            addresses=deployed_by(signer.address),
            promises=ReservedAmounts(),
            gas_gift=int(config.gas_gift_wei),
        )
        self._desk = OperationRunner(outbox, self._tell, lambda: self._node.detail or self._problem)
        self._late = StuckTransactions(
            self._node, outbox, signer, self._following, depth, bump_after_s, self._desk.fill
        )
        self._watching = Watching(self._node, depth, self._tell, config.from_block)

    async def run(self, lines: asyncio.StreamReader) -> None:
        """Work until the server says nothing any more.

        Args:
            lines: what the server says.

        Raises:
            ForeignChainError: the node is of another chain than the outbox.
        """
        try:
            await first_of(self._listen(lines), self._tell_states(), self._work())
        finally:
            await self._desk.close()

    async def _listen(self, lines: asyncio.StreamReader) -> None:
        """Do what the server says, until it says nothing any more."""
        async for line in lines:
            asked = read_asked(line)
            if isinstance(asked, StartWatching | WatchTokens):
                self._watching.hear(asked)
            else:
                self._desk.hear(asked)
            self._changed.set()

    def _tell(self, message: AnyTold) -> None:
        """Say something to the server."""
        tell(message)
        self._changed.set()
        if isinstance(message, OperationDone | OperationFailed):
            self._watching.wake()  # it moved what somebody holds

    # ----- the work --------------------------------------------------------------------------

    async def _work(self) -> None:
        """Set everything up, and from then on bring onto the chain what is signed."""
        setting_up = SettingUp(self._config, self._world, self._following, self._say, self._settled)
        await setting_up.identify()
        await first_of(self._following.run(), self._watch(setting_up), self._open(setting_up))

    async def _open(self, setting_up: SettingUp) -> None:
        """Have everything there, and let operations begin."""
        addresses = await setting_up.find()
        self._desk.open(self._world._replace(addresses=addresses))
        self._say(setting_up.problem)
        tell(self._state())  # before the rest, which lets the server say how things are
        contracts = Contracts(**msgspec.structs.asdict(addresses))
        operator, chain_id = self._node.operator, self._config.chain_id
        self._tell(Ready(operator=operator, addresses=contracts, chain_id=chain_id))
        await self._watching.run(addresses)

    async def _watch(self, setting_up: SettingUp) -> None:
        """See how the node does, and what takes long, for ever."""
        while True:
            await asyncio.sleep(IDLE_S if self._following.is_idle else BUSY_S)
            self._outbox.commit()
            was_reachable = self._node.is_reachable
            settled = self._outbox.highest_settled()
            try:
                if not was_reachable:
                    await setting_up.identify()
                await self._node.refresh()
                await self._late.look_after()
            except NodeError as error:
                self._node.set_health(str(error))
                continue
            if self._node.count <= settled:
                self._take_back()

    def _take_back(self) -> None:
        """Bring onto the chain again what a reorganisation took from it."""
        for step in self._outbox.from_nonce(self._node.count):
            if step.status not in ("confirmed", "reverted"):
                continue
            _LOG.warning("a transaction is in no block any more", extra={"nonce": step.nonce})
            self._outbox.take_back(step.number)
            kind = self._outbox.operation(step.operation).kind
            again = self._following.follow(self._outbox.step(step.number), kind)
            again.add_done_callback(self._settled)
        self._outbox.commit()

    def _settled(self, found: "asyncio.Future[Step]") -> None:
        """Take what became of a step whose operation may have come to its end before."""
        if not found.cancelled():
            self._desk.after_reorganisation(found.result())

    # ----- how things are --------------------------------------------------------------------

    def _say(self, problem: str) -> None:
        """Keep what is wrong besides the node."""
        self._problem = problem
        self._changed.set()

    async def _tell_states(self) -> None:
        """Tell how things are when that changes, and at first."""
        told: State | None = None
        while True:
            self._changed.clear()
            state = self._state()
            if state != told:
                tell(state)
                told = state
            await asyncio.sleep(STATE_S)
            await self._changed.wait()

    def _state(self) -> State:
        """Say how things are."""
        node = self._node
        is_poor = node.balance is not None and node.balance < GAS * node.offer.max_fee
        purse = f"the operator {node.operator} is out of gas: it has {node.balance} wei"
        return State(
            reachable=node.is_reachable,
            detail=node.detail or self._problem or (purse if is_poor else ""),
            head=node.head,
            operator=node.operator,
            operator_balance_wei=None if node.balance is None else str(node.balance),
            out_of_gas=is_poor,
            counts=Counts(**self._outbox.counts),
            num_bumped=self._outbox.num_bumped,
            num_rebroadcast=self._late.num_rebroadcast,
            num_foreign=self._outbox.num_foreign,
        )


def tell(message: AnyTold) -> None:
    """Say something to the server; one that is gone does not hear it."""
    data = memoryview(encode(message))
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except BrokenPipeError:
        _LOG.debug("the server is gone")


async def work(folder: Path) -> int:
    """Read the config, and work; give the exit code."""
    lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    first = await lines.readline()
    if not first:
        return 0
    try:
        config = read_asked(first)
        if not isinstance(config, Config):
            raise ValueError("the first message is no config")
        rpc = Rpc(config.url, config.rpc_timeout_s)
        signer = Signer(config.operator_key, config.chain_id)
        outbox = open_outbox(folder, config, signer.address)
    except (ValueError, OutboxError, ForeignChainError) as error:
        _LOG.critical("the chain worker cannot begin: %s", error)
        return WRONG
    try:
        await ChainWorker(config, outbox, signer, rpc).run(lines)
    except ForeignChainError as error:
        _LOG.error("%s", error)
        is_wrong = True
    else:
        is_wrong = False
    finally:
        outbox.close()
        await rpc.close()
    if not is_wrong:
        return 0
    if config.chain_id != DEVELOPMENT_CHAIN:
        return WRONG
    put_aside(outbox.path)
    return AGAIN


async def first_of(*jobs: Coroutine[Any, Any, None]) -> None:
    """Do several things until one of them ends; what it raises is raised here."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def main(arguments: Sequence[str]) -> int:
    """Work for a server.

    Args:
        arguments: the folder of the outbox.

    Returns:
        0 after the end of the input, 2 where it cannot begin, 75 where it is to be started again.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server is told, and the input ends with it
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
    (folder,) = arguments
    gc.collect()
    gc.freeze()  # the libraries stay: the collector need not look at them again and again
    return run(work(Path(folder)))


def run(job: Coroutine[Any, Any, int]) -> int:
    """Have it done in the fastest loop there is."""
    try:
        import uvloop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return asyncio.run(job)
    return uvloop.run(job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
