"""Chain client of the server: runs the node and worker processes and dispatches their messages.

Messages are lines of JSON. A process that exits is restarted. Operations in progress are sent again
to the next worker, which recognises them by id.
"""

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, Protocol

import msgspec

from clob import ClobError
from clob_server.api.problems import ApiError
from clob_server.chain import messages
from clob_server.chain.config import (
    LOOPBACK,
    OUTBOX_FOLDER,
    Addresses,
    contracts_of,
    embedded_node,
    final_blocks,
    missing_package,
    operator_access,
    operator_of,
    oracle_access,
    oracle_of,
    quorum,
    redacted_url,
    wait_for_port,
    wei_of,
)
from clob_server.chain.events import ChainUpdate, Watched
from clob_server.chain.subprocess import ManagedProcess
from clob_server.chain.tx.outbox import OutboxError
from clob_server.chain.worker_client import WorkerClient
from clob_server.log.files import make_folder
from clob_server.settings import ANVIL, EMBEDDED, NO_CHAIN, Settings

DEVCHAIN: Final = "clob_server.chain.devchain"
"""Module that the process of the embedded chain runs, if it is py-evm."""
ANVIL_CHAIN: Final = "clob_server.chain.anvil"
"""The same if it is anvil."""
WORKER: Final = "clob_server.chain.worker"
"""Module that the process of the worker runs."""
PORT_S: Final = 1.0
"""Seconds to wait for a used port before another one is chosen."""
GAS_GIFT_WEI: Final = 10**16
"""Wei that the faucet of the embedded chain sends for gas to a wallet with less than that."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Stage(enum.Enum):
    """State of the chain connection."""

    NONE = "none"
    """No chain is configured."""
    MISSING = "missing"
    """A required package is not installed."""
    STARTING = "starting"
    """Node or worker is starting or restarting."""
    FROZEN = "frozen"
    """Node or worker sends no sign of life; it is restarted if that lasts."""
    UNREACHABLE = "unreachable"
    """The node returns no valid responses."""
    READY = "ready"
    """Operations can begin."""
    ELSEWHERE = "elsewhere"
    """Another node of the cluster owns the log and has the connection."""


class SharedOutbox(Protocol):
    """The outbox of a cluster: the records of a worker are in the log first."""

    @property
    def floor(self) -> int:
        """Records need higher numbers."""

    async def store(self, number: int, data: bytes) -> int:
        """Store a record in the log and return the number of its command."""

    def release(self) -> None:
        """Bring the file up to date and close it, for a worker that starts."""


class ChainClient:
    """Connection to the chain; usable without one, see :attr:`stage`.

    Args:
        settings: settings of the server.
        folder: the data folder.
        on_ready: awaited each time a worker is ready, before operations can begin.
        on_end: called with the end of an operation that no task here waits for.
        outbox: the outbox of a cluster; None outside of one.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        on_ready: Callable[[], Awaitable[None]],
        on_end: Callable[[messages.OperationDone | messages.OperationFailed], None],
        outbox: SharedOutbox | None = None,
    ) -> None:
        self.is_configured: Final[bool] = settings.chain_source != NO_CHAIN
        """Whether a chain is configured."""
        self.operator: str | None = operator_of(settings)
        """Address of the operator; None until it is known."""
        self.oracle: str | None = oracle_of(settings)
        """Address that reports outcomes; None until it is known."""
        self.addresses: Addresses | None = contracts_of(settings)
        """Addresses of the contracts; None until they are known."""
        self.rpc_url: str = ""
        """URL of the embedded chain; empty for any other chain or none."""
        self.state: messages.WorkerState | None = None
        """Last state that the worker reported; None without a worker."""
        self.is_open: bool = False
        """Whether the worker is ready and ``on_ready`` has completed."""
        self.on_update: Callable[[ChainUpdate | Watched], None] = lambda update: None
        """Called with each message of the watcher after ``worker.start_watching``."""
        self.has_escrow: bool | None = None
        """Whether the exchange contract keeps escrow; None until it is known."""
        self._settings = settings
        self._folder = folder
        self._on_ready = on_ready
        self.worker: Final = WorkerClient(send=self._send, check=self._check_worker, on_end=on_end)
        """Requests to the worker."""
        self._outbox = outbox
        self._storing: set[asyncio.Task[None]] = set()
        self._is_started = False
        self._missing = missing_package(settings)
        self._problem = ""
        self._sent_url = ""
        self._has_url = asyncio.Event()
        self._is_unreachable = False
        self._opening: asyncio.Task[None] | None = None
        self._node_process: Final = ManagedProcess(
            "devchain",
            command=self._node_command,
            on_start=lambda: None,
            on_line=self._on_node_line,
            on_exit=partial(self._note_exit, "embedded chain"),
        )
        self._worker_process: Final = ManagedProcess(
            "chain worker",
            command=self._worker_command,
            on_start=self._configure,
            on_line=self._on_worker_line,
            on_exit=self._on_worker_exit,
            has_replies=outbox is not None,
        )

    # ----- start and end -----------------------------------------------------------------------

    def start(self) -> None:
        """Start node and worker without waiting for them."""
        if not self.is_configured:
            return
        self._is_started = True
        if self._missing:
            _LOG.error("the chain is unavailable", extra={"reason": self._missing})
            return
        if self._settings.chain_source == EMBEDDED:
            self._node_process.start()
        else:
            self._has_url.set()
        self._worker_process.start()

    async def wait_for_url(self) -> None:
        """Wait until the port of the embedded chain is chosen; at once if the wanted one is free.

        The node of a server that has just crashed may still use the port.
        """
        if self.is_configured and not self._missing:
            await self._has_url.wait()

    async def close(self, wait_s: float) -> None:
        """Stop both processes within ``wait_s``; the next worker continues pending operations."""
        self.is_open = False
        if self._opening is not None:
            self._opening.cancel()
        await self._worker_process.close(wait_s / 2)
        await self._node_process.close(wait_s / 2)
        self.worker.close()
        self._is_started, self.state = False, None

    # ----- state ---------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        """State of the chain connection."""
        if not self.is_configured:
            return Stage.NONE
        if self._missing:
            return Stage.MISSING
        if not self._is_started and self._outbox is not None:
            return Stage.ELSEWHERE
        if self.is_frozen:
            return Stage.FROZEN
        if self.state is None:
            return Stage.STARTING
        if self._is_unreachable:
            return Stage.UNREACHABLE
        return Stage.READY if self.is_open else Stage.STARTING

    @property
    def detail(self) -> str:
        """Description of the problem, or an empty text."""
        if self._missing:
            return self._missing
        for process in (self._node_process, self._worker_process):
            if process.is_frozen:
                return f"the {process.name} gives no sign of life and is restarted if that lasts"
        reported = "" if self.state is None else self.state.detail
        return reported or self._problem

    @property
    def shown_url(self) -> str:
        """URL of the node without credentials, path and query; empty without a chain."""
        if self.rpc_url or not self.is_configured or self._missing:
            return self.rpc_url
        return redacted_url(self._settings.chain_source)

    @property
    def is_frozen(self) -> bool:
        """Whether node or worker sends no sign of life."""
        return self._node_process.is_frozen or self._worker_process.is_frozen

    @property
    def num_deaths(self) -> int:
        """How often node or worker exited unexpectedly."""
        return self._node_process.num_deaths + self._worker_process.num_deaths

    def check_configured(self) -> None:
        """Reject a request that needs a chain, without one, with CHAIN_NOT_CONFIGURED."""
        if not self.is_configured:
            raise ApiError(
                "CHAIN_NOT_CONFIGURED", "this server runs without a chain (--chain none)"
            )

    def check_ready(self) -> None:
        """Reject a request that starts an operation unless the chain is ready.

        Raises:
            ApiError: CHAIN_NOT_CONFIGURED, CHAIN_UNAVAILABLE.
        """
        self.check_configured()
        if self.stage is not Stage.READY:
            self._raise_unavailable()

    def check_escrow(self) -> None:
        """Reject a request that needs escrow unless the exchange contract keeps it.

        Raises:
            ApiError: CHAIN_UNAVAILABLE, the contract is not known yet; ESCROW_NOT_SUPPORTED.
        """
        if self.has_escrow is None:
            self._raise_unavailable()
        if not self.has_escrow:
            raise ApiError(
                "ESCROW_NOT_SUPPORTED",
                "this server has no exchange contract that keeps escrow: one of an earlier version "
                "settles from wallets only",
            )

    def _raise_unavailable(self) -> NoReturn:
        detail = self.detail
        message = f"the chain is {self.stage.value}{f': {detail}' if detail else ''}"
        raise ApiError("CHAIN_UNAVAILABLE", message)

    def _check_worker(self) -> None:
        """Reject a request that needs a worker until it has reported its state."""
        self.check_configured()
        if self.state is None:
            self._raise_unavailable()

    def _send(self, message: messages.AnyServerMessage) -> None:
        self._worker_process.send(messages.encode(message))

    async def move_clock(self, time_s: int) -> bool:
        """Move the clock of a development chain to a time, Unix seconds.

        Returns:
            Whether the chain has reached it; the log has the reason of a failure.
        """
        try:
            problem = await self.worker.move_clock(time_s)
        except ApiError as error:
            problem = str(error)
        if problem:
            _LOG.warning("the chain keeps its time", extra={"reason": problem})
        return not problem

    # ----- messages of the worker ----------------------------------------------------------------

    def _on_worker_line(self, line: bytes) -> None:
        try:
            message = messages.decode_worker_message(line)
        except msgspec.MsgspecError:
            _LOG.exception("invalid message from the chain worker")
            return
        match message:
            case messages.WorkerState():
                self._on_state(message)
            case messages.WorkerReady():
                self._on_worker_ready(message)
            case (
                messages.OperationList()
                | messages.MissingOperations()
                | messages.ClockMoved()
                | messages.NodeAnswer()
            ):
                self.worker.on_answer(message)
            case messages.StoreRecord():
                task = asyncio.create_task(self._store(message))
                self._storing.add(task)
                task.add_done_callback(self._storing.discard)
            case ChainUpdate() | Watched():
                self.on_update(message)
            case _:
                self.worker.on_operation(message)

    async def _store(self, record: messages.StoreRecord) -> None:
        """Store a record of the worker in the log; end the worker if that fails."""
        replies = self._worker_process.replies
        assert self._outbox is not None
        assert replies is not None
        try:
            replies.send(await self._outbox.store(record.number, record.data))
        except ClobError as error:
            _LOG.warning("the chain worker cannot store its steps", extra={"reason": str(error)})
            replies.close()

    def _on_state(self, state: messages.WorkerState) -> None:
        """Store the state and log changes of reachability and foreign transactions."""
        before, self.state = self.state, state
        self.operator = state.operator
        if state.reachable:
            if self._is_unreachable:
                _LOG.info("the node is reachable again")
            self._is_unreachable = False
        elif before is not None and not self._is_unreachable:  # the first precedes any request
            _LOG.warning("the node is unreachable", extra={"reason": state.detail})
            self._is_unreachable = True
        if state.num_foreign and (before is None or before.num_foreign < state.num_foreign):
            more = {"nonces": state.num_foreign, "operator": state.operator}
            _LOG.warning("another sender uses the operator's key", extra=more)

    def _on_worker_ready(self, ready: messages.WorkerReady) -> None:
        """Store the addresses, then run ``on_ready`` and open."""
        self.operator = ready.operator
        self.oracle = ready.oracle or ready.operator
        self.addresses = ready.addresses
        self.has_escrow = ready.has_escrow
        self._worker_process.reset_pause()
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        """Run ``on_ready``, then allow operations and send the pending ones again."""
        try:
            await self._on_ready()
        except Exception:
            _LOG.exception("the chain worker was started but not opened; restarting it")
            self._worker_process.end()  # the next worker runs on_ready again
            return
        self._problem = ""
        self.is_open = True
        self.worker.resend()
        _LOG.info("the chain is ready", extra={"operator": self.operator})

    # ----- node and worker -----------------------------------------------------------------------

    async def _node_command(self) -> list[str]:
        """Return the arguments of the embedded chain: its previous port if free, or another."""
        wanted = int(self.rpc_url.rpartition(":")[2]) if self.rpc_url else self._settings.chain_port
        port = await asyncio.to_thread(wait_for_port, wanted, PORT_S)
        self.rpc_url = f"http://{LOOPBACK}:{port}"
        self._has_url.set()
        if port != wanted != 0:
            more = {"wanted": wanted, "port": port}
            _LOG.warning("the port of the embedded chain is in use; another is used", extra=more)
        node = embedded_node(self._settings)
        folder = await self._make_folder(node.folder.name)
        options = [folder, "--port", str(port), "--chain-id", str(self._settings.chain_id)]
        if node.kind == ANVIL:
            return [ANVIL_CHAIN, *options, "--anvil", node.path]
        return [DEVCHAIN, *options, "--with-parent"]

    def _on_node_line(self, line: bytes) -> None:
        """Read the address of the embedded chain and configure the worker with it."""
        words = line.split()
        if words[:2] != [b"listening", b"on"]:
            return
        self._node_process.reset_pause()
        url, before = words[-1].decode(), self._sent_url
        self.rpc_url = self._sent_url = url
        if not before:
            self._configure()
        elif url != before:
            self._worker_process.end()  # the next worker gets the new address

    async def _worker_command(self) -> list[str]:
        folder = await self._make_folder(OUTBOX_FOLDER)
        if self._outbox is not None:
            try:
                self._outbox.release()
            except OutboxError as error:  # tried again, as a process that cannot be created
                raise OSError(str(error)) from error
        return [WORKER, folder]

    async def _make_folder(self, name: str) -> str:
        folder = self._folder / name
        await asyncio.to_thread(make_folder, folder)
        return str(folder)

    def _configure(self) -> None:
        """Send the config to the worker if the address of the node is known."""
        settings = self._settings
        embedded = settings.chain_source == EMBEDDED
        url = self._sent_url if embedded else settings.chain_source
        if not url:
            return
        access, oracle = operator_access(settings), oracle_access(settings)
        config = messages.Config(
            url=url,
            more_urls=list(settings.chain_nodes),
            quorum=quorum(settings),
            chain_id=settings.chain_id,
            operator_key=access.key,
            signer_url=access.signer_url,
            operator=access.address,
            oracle_key=oracle.key,
            oracle_signer_url=oracle.signer_url,
            oracle=oracle.address,
            addresses=None if embedded else contracts_of(settings),
            exchange=settings.domain.verifying_contract or "",
            domain_name=settings.eip712_name,
            domain_version=settings.eip712_version,
            deploy=settings.is_test,
            from_block=settings.chain_from_block,
            confirmations=settings.chain_confirmations,
            final_blocks=final_blocks(settings),
            gas_gift_wei=str(GAS_GIFT_WEI if embedded else 0),
            bump_after_s=settings.chain_bump_after_s,
            fee_max_wei=wei_of(settings.chain_fee_max_gwei),
            tip_wei=wei_of(settings.chain_tip_gwei),
            in_cluster=self._outbox is not None,
            outbox_floor=0 if self._outbox is None else self._outbox.floor,
        )
        self._send(config)

    def _on_worker_exit(self, reason: str, pause_s: float) -> None:
        """Close the chain until the next worker is ready."""
        self.state, self.is_open = None, False
        if self._opening is not None:
            self._opening.cancel()
        self._note_exit("chain worker", reason, pause_s)
        self.worker.fail_queries("the chain worker exited")

    def _note_exit(self, name: str, reason: str, pause_s: float) -> None:
        self._problem = f"the {name} exited ({reason}) and is being restarted"
        _LOG.error("the %s exited", name, extra={"reason": reason, "again_s": pause_s})
