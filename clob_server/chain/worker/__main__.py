"""The chain worker: a process that signs, sends and tracks the operator's transactions.

``python -m clob_server.chain.worker FOLDER``. The first line of input is a ``Config``; the others
are the messages of :mod:`clob_server.chain.messages`. The process exits when its input is closed,
that is, when the server exits; the next worker resumes pending operations.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from clob.wire.operations import Counts
from clob_server.chain import messages
from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.eth.quorum import Quorum
from clob_server.chain.eth.rpc import NodeClient, NodeError, Rpc, number, parsing
from clob_server.chain.events import StartWatching, WatchTokens, WatchWallets
from clob_server.chain.subprocess import BEAT, BEAT_S, NUMBER_BYTES
from clob_server.chain.tx.outbox import Outbox, OutboxError, StoreRecord
from clob_server.chain.tx.signer import Signer, SignerError
from clob_server.chain.tx.steps import Step
from clob_server.chain.watcher.watcher import Watcher
from clob_server.chain.worker.node_requests import NodeRequests
from clob_server.chain.worker.operations import OperationRunner
from clob_server.chain.worker.setup import (
    ForeignChainError,
    WorkerParts,
    WorkerSetup,
    build_oracle_signer,
    build_parts,
    build_signer,
    first_of,
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
NOT_STORED: Final = 3
"""Exit code if the log of a cluster does not store the records of the worker."""
RESTART: Final = 75
"""Exit code if the next worker will use a new outbox."""

_LOG: Final = logging.getLogger("clob_server.chain")


class ChainWorker:
    """A worker, created from its config; see :func:`build_parts` for the arguments."""

    def __init__(
        self,
        config: messages.Config,
        outbox: Outbox,
        signer: Signer,
        rpc: NodeClient,
        oracle: Signer | None = None,
    ) -> None:
        self._config = config
        self._rpc = rpc
        self._signers = [signer] if oracle is None else [signer, oracle]
        self._outbox = outbox
        self._changed = asyncio.Event()
        self._problem = "the chain worker is not ready yet"
        self._runner = OperationRunner(outbox, self._send, lambda: self._detail)
        self._parts = build_parts(
            config, outbox, signer, rpc, changed=self._changed.set, on_gap=self._runner.fill_gap
        )
        self._oracle = None if oracle is None else self._build_oracle(oracle)
        self._accounts = [self._parts] if self._oracle is None else [self._parts, self._oracle]
        self._node = self._parts.context.node
        self._requests = NodeRequests(self._node, config.chain_id, self._send)
        depths = config.confirmations, config.final_blocks
        self._watcher = Watcher(self._node, *depths, self._send, config.from_block)

    def _build_oracle(self, signer: Signer) -> WorkerParts:
        """Build the parts that send for the oracle."""
        return build_parts(
            self._config,
            self._outbox.of(signer.address),
            signer,
            self._rpc,
            changed=self._changed.set,
            on_gap=partial(self._runner.fill_gap, account=signer.address),
            role="the oracle",
        )

    async def run(self, lines: asyncio.StreamReader) -> None:
        """Work until the input is closed.

        Raises:
            ForeignChainError: the node is on another chain than the outbox.
        """
        try:
            await first_of(self._listen(lines), self._send_states(), self._work())
        finally:
            self._requests.close()
            await self._runner.close()

    async def _listen(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            message = messages.decode_server_message(line)
            if isinstance(message, StartWatching | WatchTokens | WatchWallets):
                self._watcher.handle(message)
            elif isinstance(message, messages.MoveClock):
                await self._move_clock(message)
            elif isinstance(message, messages.AskNode | messages.SendFrom):
                self._requests.handle(message)
            else:
                self._runner.handle(message)
            self._changed.set()

    async def _move_clock(self, message: messages.MoveClock) -> None:
        """Move the clock of a development chain; other nodes reject the methods."""
        problem = ""
        try:
            head = await self._rpc.ask("eth_getBlockByNumber", "latest", False)
            with parsing():
                is_behind = number(head["timestamp"]) < message.time_s
            if is_behind:
                await self._rpc.ask("evm_setNextBlockTimestamp", message.time_s)
                await self._rpc.ask("evm_mine")
        except NodeError as error:
            problem = str(error)
        self._send(messages.ClockMoved(request=message.request, problem=problem))

    def _send(self, message: messages.AnyWorkerMessage) -> None:
        """Send a message to the server."""
        send(message)
        self._changed.set()
        if isinstance(message, messages.OperationDone | messages.OperationFailed):
            self._watcher.poll()  # the operation has changed balances

    # ----- tasks -----------------------------------------------------------------------------

    async def _work(self) -> None:
        """Check the chain, then run the tracker, the node checks and the setup."""
        setup = WorkerSetup(
            self._config, self._parts, self._set_problem, self._on_step_end, self._oracle
        )
        await setup.identify()
        await first_of(
            *(account.tracker.run() for account in self._accounts),
            *map(self._check_signer, self._signers),
            self._check_node(setup),
            self._open(setup),
        )

    async def _open(self, setup: WorkerSetup) -> None:
        """Finish the setup, accept operations, then watch the chain."""
        addresses = await setup.find()
        oracle = None if self._oracle is None else self._oracle.context
        self._runner.start(self._parts.context._replace(addresses=addresses, oracle=oracle))
        self._set_problem(setup.problem)
        send(self._state())  # before WorkerReady, so that the server knows the state
        self._send(
            messages.WorkerReady(
                operator=self._node.operator,
                oracle="" if oracle is None else oracle.node.operator,
                addresses=addresses,
                chain_id=self._config.chain_id,
                has_escrow=setup.has_escrow,
            )
        )
        await self._watcher.run(addresses, setup.has_escrow)

    async def _check_node(self, setup: WorkerSetup) -> None:
        """Check the node and stuck transactions, forever."""
        while True:
            is_idle = all(account.tracker.is_idle for account in self._accounts)
            await asyncio.sleep(IDLE_S if is_idle else BUSY_S)
            self._outbox.commit()
            try:
                if not self._node.is_reachable:
                    await setup.identify()
                for account in self._accounts:
                    await self._check_account(account)
            except NodeError as error:
                self._node.set_health(str(error))

    async def _check_account(self, account: WorkerParts) -> None:
        """Check the transactions of an account.

        Raises:
            NodeError: the node does not respond.
        """
        highest = account.context.outbox.highest_included_nonce()
        await account.context.node.refresh()
        await account.stuck.check()
        if account.context.node.count <= highest:
            self._track_removed(account)

    async def _check_signer(self, signer: Signer) -> None:
        """Check a signer, forever; log when it begins or ceases to be usable."""
        problem = ""
        while True:
            with contextlib.suppress(SignerError):
                await signer.check()
            if signer.problem != problem:
                problem = signer.problem
                _LOG.warning(problem or "the signer can be used")
                self._changed.set()
            await asyncio.sleep(IDLE_S)

    def _track_removed(self, account: WorkerParts) -> None:
        """Track again the steps of an account that a reorganisation removed."""
        for step in account.context.outbox.from_nonce(account.context.node.count):
            if step.status not in ("confirmed", "reverted"):
                continue
            _LOG.warning("a reorganisation removed a transaction", extra={"nonce": step.nonce})
            self._outbox.reset_step(step.number)
            kind = self._outbox.operation(step.operation).kind
            again = account.tracker.track(self._outbox.step(step.number), kind)
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
        sent: messages.WorkerState | None = None
        while True:
            self._changed.clear()
            state = self._state()
            if state != sent:
                send(state)
                sent = state
            await asyncio.sleep(STATE_S)
            await self._changed.wait()

    @property
    def _detail(self) -> str:
        """The reason why operations cannot begin, or an empty text."""
        return self._node.detail or self._problem

    def _state(self) -> messages.WorkerState:
        node = self._node
        is_out_of_gas = node.balance is not None and node.balance < GAS * node.fees.max_fee
        problem = f"the operator {node.operator} is out of gas: it has {node.balance} wei"
        waiting = [each.context.sender.problem for each in self._accounts]
        waiting.append(problem if is_out_of_gas else "")
        waiting += [each.stuck.waiting for each in self._accounts]
        return messages.WorkerState(
            reachable=node.is_reachable,
            detail=self._detail or next(filter(None, waiting), ""),
            head=node.head,
            operator=node.operator,
            operator_balance_wei=None if node.balance is None else str(node.balance),
            out_of_gas=is_out_of_gas,
            counts=Counts(**self._outbox.counts),
            num_bumped=self._outbox.num_bumped,
            num_rebroadcast=sum(each.stuck.num_rebroadcast for each in self._accounts),
            num_foreign=self._outbox.num_foreign,
        )


def send(message: messages.AnyWorkerMessage) -> None:
    """Send a message to the server, if it is still running."""
    write(messages.encode(message))


def write(line: bytes) -> None:
    """Write a line to the server, if it is still running."""
    data = memoryview(line)
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except BrokenPipeError:
        _LOG.debug("the server has exited")


def store_through(replies: int) -> StoreRecord:
    """Return a function that lets the server store a record, and waits for it.

    Nothing else happens meanwhile, so that nothing is sent that the log lacks. The process ends if
    the server cannot store the record: another node may own the log.
    """

    def store(number: int, data: bytes) -> int:
        send(messages.StoreRecord(number=number, data=data))
        answer = b""
        while len(answer) < NUMBER_BYTES:
            part = os.read(replies, NUMBER_BYTES - len(answer))
            if not part:
                os._exit(NOT_STORED)  # no task may go on, not even to clean up
            answer += part
        return int.from_bytes(answer)

    return store


async def work(folder: Path, store: StoreRecord | None) -> int:
    """Read the config, run the worker and return the exit code."""
    lines = asyncio.StreamReader(limit=messages.LINE_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    beating = asyncio.create_task(beat())
    try:
        return await work_on(folder, lines, store)
    finally:
        beating.cancel()


async def beat() -> None:
    """Send signs of life."""
    while True:
        write(BEAT)
        await asyncio.sleep(BEAT_S)


def node_client(config: messages.Config) -> NodeClient:
    """Return a client of the node, or of all nodes.

    Raises:
        ValueError: a URL or the quorum is invalid.
    """
    nodes = [Rpc(url, config.rpc_timeout_s) for url in (config.url, *config.more_urls)]
    return nodes[0] if len(nodes) == 1 else Quorum(nodes, config.quorum)


async def work_on(folder: Path, lines: asyncio.StreamReader, store: StoreRecord | None) -> int:
    """Read the config from the input and work until its end; return the exit code."""
    first = await lines.readline()
    if not first:
        return 0
    try:
        config = messages.decode_server_message(first)
        if not isinstance(config, messages.Config):
            raise ValueError("the first message must be a config")
        rpc = node_client(config)
        signer, oracle = build_signer(config), build_oracle_signer(config)
        if oracle is not None and oracle.address == signer.address:
            oracle = None
        outbox = open_outbox(folder, config, signer.address, store if config.in_cluster else None)
    except (ValueError, OutboxError, ForeignChainError) as error:
        _LOG.critical("the chain worker cannot start: %s", error)
        return CANNOT_START
    try:
        await ChainWorker(config, outbox, signer, rpc, oracle).run(lines)
    except ForeignChainError as error:
        _LOG.error("%s", error)
        is_new = config.chain_id == DEVELOPMENT_CHAIN and not config.in_cluster
        code = RESTART if is_new else CANNOT_START
    else:
        code = 0
    finally:
        outbox.close()
        await rpc.close()
        await signer.close()
        if oracle is not None:
            await oracle.close()
    if code == RESTART:
        rename_outbox(outbox.path)
    return code


def main(arguments: Sequence[str]) -> int:
    """Run the worker and return the exit code.

    Args:
        arguments: the folder of its outbox, and in a cluster the file descriptor for the answers to
            :class:`~clob_server.chain.messages.StoreRecord`.
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the server handles it and closes the input
    logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
    folder, *replies = arguments
    store = store_through(int(replies[0])) if replies else None
    gc.collect()
    gc.freeze()  # the collector need not scan the libraries again
    try:
        import uvloop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return asyncio.run(work(Path(folder), store))
    return uvloop.run(work(Path(folder), store))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
