"""The chain worker: a process that signs, sends and tracks the operator's transactions.

``python -m clob_server.chain.worker FOLDER``. The first line of input is a ``Config``; the others
are the messages of :mod:`clob_server.chain.messages`. The process exits when its input is closed,
that is, when the server exits; the next worker resumes pending operations.
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

from clob_server.chain.config import DEVELOPMENT_CHAIN, deployed_by
from clob_server.chain.eth.rpc import NodeError, Rpc
from clob_server.chain.events import StartWatching, WatchTokens
from clob_server.chain.messages import (
    LINE_BYTES_MAX,
    AnyWorkerMessage,
    Config,
    Contracts,
    Counts,
    OperationDone,
    OperationFailed,
    WorkerReady,
    WorkerState,
    decode_server_message,
    encode,
)
from clob_server.chain.operations.base import OperationContext
from clob_server.chain.operations.reserved import ReservedAmounts
from clob_server.chain.tx.node import Node
from clob_server.chain.tx.outbox import Outbox, OutboxError
from clob_server.chain.tx.sender import Sender, Signer
from clob_server.chain.tx.steps import Step
from clob_server.chain.tx.stuck import StuckTransactions
from clob_server.chain.tx.tracker import TransactionTracker
from clob_server.chain.watcher.watcher import Watcher
from clob_server.chain.worker.operations import OperationRunner
from clob_server.chain.worker.setup import (
    ForeignChainError,
    WorkerSetup,
    open_outbox,
    rename_outbox,
)

STATE_S: Final = 1.0
"""Minimum interval between state messages, seconds."""
BUSY_S: Final = 1.0
"""Interval of node checks while steps are tracked, seconds."""
IDLE_S: Final = 2.0
"""Interval of node checks otherwise, seconds."""
GAS: Final = 900_000
"""Gas of one operation; an operator that cannot pay for it is out of gas."""
CANNOT_START: Final = 2
"""Exit code if the worker cannot start."""
RESTART: Final = 75
"""Exit code if the next worker will use a new outbox."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ChainWorker:
    """The parts of a worker, created from its config.

    Args:
        config: the first message of the server.
        outbox: storage of operations.
        signer: signs with the operator's key.
        rpc: the JSON-RPC client.
    """

    def __init__(self, config: Config, outbox: Outbox, signer: Signer, rpc: Rpc) -> None:
        self._config = config
        self._outbox = outbox
        self._changed = asyncio.Event()
        self._problem = "the chain worker is not ready yet"
        limit = int(config.fee_max_wei)
        self._node = Node(rpc, signer.address, config.chain_id, limit, self._changed.set)
        depth, bump_after_s = config.confirmations, config.bump_after_s
        self._tracker = TransactionTracker(self._node, outbox, depth)
        self._context = OperationContext(
            node=self._node,
            outbox=outbox,
            sender=Sender(self._node, outbox, signer, self._tracker),
            addresses=deployed_by(signer.address),
            reserved=ReservedAmounts(),
            gas_gift=int(config.gas_gift_wei),
        )
        self._runner = OperationRunner(
            outbox, self._send, lambda: self._node.detail or self._problem
        )
        self._stuck = StuckTransactions(
            self._node, outbox, signer, self._tracker, depth, bump_after_s, self._runner.fill_gap
        )
        self._watcher = Watcher(self._node, depth, self._send, config.from_block)

    async def run(self, lines: asyncio.StreamReader) -> None:
        """Work until the input is closed.

        Args:
            lines: the input.

        Raises:
            ForeignChainError: the node is on another chain than the outbox.
        """
        try:
            await first_of(self._listen(lines), self._send_states(), self._work())
        finally:
            await self._runner.close()

    async def _listen(self, lines: asyncio.StreamReader) -> None:
        """Handle the messages of the server until the input is closed."""
        async for line in lines:
            message = decode_server_message(line)
            if isinstance(message, StartWatching | WatchTokens):
                self._watcher.handle(message)
            else:
                self._runner.handle(message)
            self._changed.set()

    def _send(self, message: AnyWorkerMessage) -> None:
        """Send a message to the server."""
        send(message)
        self._changed.set()
        if isinstance(message, OperationDone | OperationFailed):
            self._watcher.poll()  # the operation has changed balances

    # ----- tasks -----------------------------------------------------------------------------

    async def _work(self) -> None:
        """Check the chain, then run the tracker, the node checks and the setup."""
        setup = WorkerSetup(
            self._config, self._context, self._tracker, self._set_problem, self._on_step_end
        )
        await setup.identify()
        await first_of(self._tracker.run(), self._check_node(setup), self._open(setup))

    async def _open(self, setup: WorkerSetup) -> None:
        """Finish the setup, accept operations, then watch the chain."""
        addresses = await setup.find()
        self._runner.start(self._context._replace(addresses=addresses))
        self._set_problem(setup.problem)
        send(self._state())  # before WorkerReady, so that the server knows the state
        contracts = Contracts(**msgspec.structs.asdict(addresses))
        operator, chain_id = self._node.operator, self._config.chain_id
        self._send(WorkerReady(operator=operator, addresses=contracts, chain_id=chain_id))
        await self._watcher.run(addresses)

    async def _check_node(self, setup: WorkerSetup) -> None:
        """Check the node and stuck transactions, forever."""
        while True:
            await asyncio.sleep(IDLE_S if self._tracker.is_idle else BUSY_S)
            self._outbox.commit()
            was_reachable = self._node.is_reachable
            highest = self._outbox.highest_included_nonce()
            try:
                if not was_reachable:
                    await setup.identify()
                await self._node.refresh()
                await self._stuck.check()
            except NodeError as error:
                self._node.set_health(str(error))
                continue
            if self._node.count <= highest:
                self._track_removed()

    def _track_removed(self) -> None:
        """Track again the steps that a reorganisation removed."""
        for step in self._outbox.from_nonce(self._node.count):
            if step.status not in ("confirmed", "reverted"):
                continue
            _LOG.warning("a reorganisation removed a transaction", extra={"nonce": step.nonce})
            self._outbox.reset_step(step.number)
            kind = self._outbox.operation(step.operation).kind
            again = self._tracker.track(self._outbox.step(step.number), kind)
            again.add_done_callback(self._on_step_end)
        self._outbox.commit()

    def _on_step_end(self, future: "asyncio.Future[Step]") -> None:
        """Handle the end of a step whose operation may have ended before."""
        if not future.cancelled():
            self._runner.after_reorganisation(future.result())

    # ----- state -----------------------------------------------------------------------------

    def _set_problem(self, problem: str) -> None:
        """Store a problem other than the node's."""
        self._problem = problem
        self._changed.set()

    async def _send_states(self) -> None:
        """Send the state at the start and on changes."""
        sent: WorkerState | None = None
        while True:
            self._changed.clear()
            state = self._state()
            if state != sent:
                send(state)
                sent = state
            await asyncio.sleep(STATE_S)
            await self._changed.wait()

    def _state(self) -> WorkerState:
        """Return the current state."""
        node = self._node
        is_out_of_gas = node.balance is not None and node.balance < GAS * node.fees.max_fee
        problem = f"the operator {node.operator} is out of gas: it has {node.balance} wei"
        return WorkerState(
            reachable=node.is_reachable,
            detail=node.detail or self._problem or (problem if is_out_of_gas else ""),
            head=node.head,
            operator=node.operator,
            operator_balance_wei=None if node.balance is None else str(node.balance),
            out_of_gas=is_out_of_gas,
            counts=Counts(**self._outbox.counts),
            num_bumped=self._outbox.num_bumped,
            num_rebroadcast=self._stuck.num_rebroadcast,
            num_foreign=self._outbox.num_foreign,
        )


def send(message: AnyWorkerMessage) -> None:
    """Send a message to the server, if it is still running."""
    data = memoryview(encode(message))
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except BrokenPipeError:
        _LOG.debug("the server has exited")


async def work(folder: Path) -> int:
    """Read the config, run the worker and return the exit code."""
    lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    first = await lines.readline()
    if not first:
        return 0
    try:
        config = decode_server_message(first)
        if not isinstance(config, Config):
            raise ValueError("the first message must be a config")
        rpc = Rpc(config.url, config.rpc_timeout_s)
        signer = Signer(config.operator_key, config.chain_id)
        outbox = open_outbox(folder, config, signer.address)
    except (ValueError, OutboxError, ForeignChainError) as error:
        _LOG.critical("the chain worker cannot start: %s", error)
        return CANNOT_START
    try:
        await ChainWorker(config, outbox, signer, rpc).run(lines)
    except ForeignChainError as error:
        _LOG.error("%s", error)
        is_foreign = True
    else:
        is_foreign = False
    finally:
        outbox.close()
        await rpc.close()
    if not is_foreign:
        return 0
    if config.chain_id != DEVELOPMENT_CHAIN:
        return CANNOT_START
    rename_outbox(outbox.path)
    return RESTART


async def first_of(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until the first of them ends; raise its exception."""
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
    """Run the worker.

    Args:
        arguments: the folder of the outbox.

    Returns:
        0 after the end of the input, 2 if the worker cannot start, 75 to be restarted.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server handles it and closes the input
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
    (folder,) = arguments
    gc.collect()
    gc.freeze()  # the collector need not scan the libraries again
    return run(work(Path(folder)))


def run(job: Coroutine[Any, Any, int]) -> int:
    """Run the coroutine with uvloop if it is available."""
    try:
        import uvloop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return asyncio.run(job)
    return uvloop.run(job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
