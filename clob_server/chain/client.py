"""The server's side of the chain: it keeps the node and the worker running, asks and hears.

Nothing else of the chain runs in the process of the order loop. What is asked goes out as a line of
JSON, what comes of it comes back as one. Whoever dies is begun again, and what was asked of a
worker that died is asked of the next one, to which it is the same operation.
"""

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from clob_server.api.problems import ApiError
from clob_server.chain.config import (
    LOOPBACK,
    OUTBOX_FOLDER,
    Addresses,
    contracts_of,
    operator_key,
    operator_of,
    patient_port,
    shown,
    what_is_missing,
)
from clob_server.chain.events import News
from clob_server.chain.messages import (
    AnyAsked,
    AnyTold,
    Config,
    Contracts,
    Listed,
    NotKnown,
    OperationDone,
    OperationFailed,
    Ready,
    State,
    encode,
    read_told,
)
from clob_server.chain.subprocess import Child
from clob_server.chain.worker_client import Talk
from clob_server.log.files import make_folder
from clob_server.settings import EMBEDDED, NO_CHAIN, Settings

DEVCHAIN: Final = "clob_server.chain.devchain"
"""What the process of the embedded chain runs."""
WORKER: Final = "clob_server.chain.worker"
"""What the process of the worker runs."""
PORT_S: Final = 1.0
"""How long a port may be taken until another is."""
GAS_GIFT_WEI: Final = 10**18
"""What the faucet of the embedded chain gives for gas to a wallet that has none, in wei."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Stage(enum.Enum):
    """How the chain is, in a word."""

    NONE = "none"
    """There is to be none."""
    MISSING = "missing"
    """A package is not installed, without which there is none."""
    STARTING = "starting"
    """It comes up, for the first time or again."""
    UNREACHABLE = "unreachable"
    """The node does not answer as it should."""
    READY = "ready"
    """Operations can begin."""


class ChainClient:
    """The way to the chain, if there is one.

    Args:
        settings: which chain.
        folder: the data folder.
        risen: done each time a worker is ready, before operations can begin.
        ended: told of each end of an operation that nobody here waits for.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        risen: Callable[[], Awaitable[None]],
        ended: Callable[[OperationDone | OperationFailed], None],
    ) -> None:
        self.is_configured: Final[bool] = settings.chain_source != NO_CHAIN
        """If there is to be a chain."""
        self.operator: str | None = operator_of(settings)
        """The address of the operator; None while it is not known."""
        self.addresses: Addresses | None = contracts_of(settings)
        """The contracts; None while they are not known."""
        self.rpc_url: str = ""
        """The address of the embedded chain; empty where it is another, or none."""
        self.state: State | None = None
        """What the worker last said of node and outbox; None where there is no worker."""
        self.is_open: bool = False
        """If the worker is ready, and what was left over of the one before is seen to."""
        self.on_news: Callable[[News], None] = lambda news: None
        """Told of what the chain says by itself, once it is asked to."""
        self._settings = settings
        self._folder = folder
        self._risen = risen
        self.talk: Final = Talk(send=self._send, check=self._check_worker, ended=ended)
        """What is asked of the worker."""
        self._missing = what_is_missing(settings)
        self._trouble = ""
        self._told_url = ""
        self._has_place = asyncio.Event()
        self._is_lost = False
        self._rising: asyncio.Task[None] | None = None
        self._node: Final = Child(
            "devchain",
            command=self._node_command,
            begun=lambda: None,
            heard=self._hear_node,
            died=lambda why, pause_s: self._tell_death("the embedded chain", why, pause_s),
        )
        self._worker: Final = Child(
            "chain worker",
            command=self._worker_command,
            begun=self._configure,
            heard=self._hear_line,
            died=self._lose_worker,
        )

    # ----- from start to end -------------------------------------------------------------------

    def begin(self) -> None:
        """Begin node and worker; nothing is waited for."""
        if not self.is_configured:
            return
        if self._missing:
            _LOG.error("there is no chain", extra={"reason": self._missing})
            return
        if self._settings.chain_source == EMBEDDED:
            self._node.begin()
        else:
            self._has_place.set()
        self._worker.begin()

    async def placed(self) -> None:
        """Wait until it is known where the embedded chain listens: no time, if its port is free.

        There may be a chain on it that is about to end, because its server has died.
        """
        if self.is_configured and not self._missing:
            await self._has_place.wait()

    async def close(self, wait_s: float) -> None:
        """Have both end; what is under way goes on with the next worker.

        Args:
            wait_s: how long it may take, seconds.
        """
        self.is_open = False
        if self._rising is not None:
            self._rising.cancel()
        await self._worker.close(wait_s / 2)
        await self._node.close(wait_s / 2)
        self.talk.close()

    # ----- how it is -----------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        """How the chain is."""
        if not self.is_configured:
            return Stage.NONE
        if self._missing:
            return Stage.MISSING
        if self.state is None:
            return Stage.STARTING
        if self._is_lost:
            return Stage.UNREACHABLE
        return Stage.READY if self.is_open else Stage.STARTING

    @property
    def detail(self) -> str:
        """What is wrong, in a sentence; empty where nothing is."""
        if self._missing:
            return self._missing
        return (self.state.detail if self.state is not None else "") or self._trouble

    @property
    def num_deaths(self) -> int:
        """How often node or worker died."""
        return self._node.num_deaths + self._worker.num_deaths

    def check_configured(self) -> None:
        """Refuse what needs a chain where there is to be none.

        Raises:
            ApiError: CHAIN_NOT_CONFIGURED.
        """
        if not self.is_configured:
            raise ApiError(
                "CHAIN_NOT_CONFIGURED", "this server runs without a chain (--chain none)"
            )

    def check_open(self) -> None:
        """Refuse what has to begin now where nothing can.

        Raises:
            ApiError: CHAIN_NOT_CONFIGURED, CHAIN_UNAVAILABLE.
        """
        self.check_configured()
        if self.stage is not Stage.READY:
            self._refuse()

    def _refuse(self) -> NoReturn:
        """Refuse what needs the chain, and say how the chain is."""
        detail = self.detail
        told = f"the chain is {self.stage.value}{f': {detail}' if detail else ''}"
        raise ApiError("CHAIN_UNAVAILABLE", told)

    def _check_worker(self) -> None:
        """Refuse what needs a worker where there is none that was heard of."""
        self.check_configured()
        if self.state is None:
            self._refuse()

    def _send(self, message: AnyAsked) -> None:
        """Say something to the worker."""
        self._worker.send(encode(message))

    # ----- hearing -------------------------------------------------------------------------------

    def _hear_line(self, line: bytes) -> None:
        """Hear a line of the worker."""
        try:
            message = read_told(line)
        except msgspec.MsgspecError:
            _LOG.exception("the chain worker says what nobody knows")
            return
        self._hear(message)

    def _hear(self, message: AnyTold) -> None:
        """Hear what the worker says."""
        if isinstance(message, State):
            self._hear_state(message)
        elif isinstance(message, Ready):
            self._hear_ready(message)
        elif isinstance(message, Listed | NotKnown):
            self.talk.hear_answer(message)
        elif isinstance(message, News):
            self.on_news(message)
        else:
            self.talk.hear(message)

    def _hear_state(self, state: State) -> None:
        """Hear how node and outbox are."""
        before, self.state = self.state, state
        self.operator = state.operator
        if state.reachable:
            if self._is_lost:
                _LOG.info("the node can be reached again")
            self._is_lost = False
        elif before is not None and not self._is_lost:  # the first is of before it was asked
            _LOG.warning("the node cannot be reached", extra={"reason": state.detail})
            self._is_lost = True
        if state.num_foreign and (before is None or before.num_foreign < state.num_foreign):
            more = {"nonces": state.num_foreign, "operator": state.operator}
            _LOG.warning("somebody else sends with the operator's key", extra=more)

    def _hear_ready(self, ready: Ready) -> None:
        """Hear that operations can begin: see to what was left over, and open."""
        self.operator = ready.operator
        self.addresses = Addresses(**msgspec.structs.asdict(ready.addresses))
        self._worker.is_well()
        self._rising = asyncio.create_task(self._rise())

    async def _rise(self) -> None:
        """Do what has to be done once a worker is ready, and open."""
        try:
            await self._risen()
        except Exception:
            _LOG.exception("what was left over could not be seen to")
            self._worker.end()  # the next one has the same to do
            return
        self._trouble = ""
        self.is_open = True
        self.talk.say_again()
        _LOG.info("the chain is ready", extra={"operator": self.operator})

    # ----- node and worker -----------------------------------------------------------------------

    async def _node_command(self) -> list[str]:
        """Say how the embedded chain is begun: on the port it had, or else on another."""
        wanted = int(self.rpc_url.rpartition(":")[2]) if self.rpc_url else self._settings.chain_port
        port = await asyncio.to_thread(patient_port, wanted, PORT_S)
        self.rpc_url = f"http://{LOOPBACK}:{port}"
        self._has_place.set()
        if port != wanted != 0:
            more = {"wanted": wanted, "port": port}
            _LOG.warning("the port of the embedded chain is taken: it has another", extra=more)
        folder = await self._made("devchain")
        chain_id = str(self._settings.chain_id)
        return [DEVCHAIN, folder, "--port", str(port), "--chain-id", chain_id, "--with-parent"]

    def _hear_node(self, line: bytes) -> None:
        """Hear where the embedded chain listens, and tell the worker, which has begun meanwhile."""
        words = line.split()
        if words[:2] != [b"listening", b"on"]:
            return
        self._node.is_well()
        url, before = words[-1].decode(), self._told_url
        self.rpc_url = self._told_url = url
        if not before:
            self._configure()
        elif url != before:
            self._worker.end()  # the next one is told of this address

    async def _worker_command(self) -> list[str]:
        """Say how the worker is begun."""
        return [WORKER, await self._made(OUTBOX_FOLDER)]

    async def _made(self, name: str) -> str:
        """Give a folder within the data folder, made if it is not there."""
        folder = self._folder / name
        await asyncio.to_thread(make_folder, folder)
        return str(folder)

    def _configure(self) -> None:
        """Tell a worker which chain, and whose key; once that is known."""
        settings = self._settings
        embedded = settings.chain_source == EMBEDDED
        url = self._told_url if embedded else settings.chain_source
        if not url:
            return
        addresses = contracts_of(settings)
        self._send(
            Config(
                url=url,
                chain_id=settings.chain_id,
                operator_key=operator_key(settings),
                addresses=None
                if embedded or addresses is None
                else Contracts(**msgspec.structs.asdict(addresses)),
                exchange=settings.domain.verifying_contract or "",
                domain_name=settings.eip712_name,
                domain_version=settings.eip712_version,
                deploy=settings.is_test,
                from_block=settings.chain_from_block,
                confirmations=settings.chain_confirmations,
                gas_gift_wei=str(GAS_GIFT_WEI if embedded else 0),
                bump_after_s=settings.chain_bump_after_s,
            )
        )

    def _lose_worker(self, why: str, pause_s: float) -> None:
        """Hear that the worker died."""
        self.state, self.is_open = None, False
        if self._rising is not None:
            self._rising.cancel()
        self._tell_death("the chain worker", why, pause_s)
        self.talk.let_go("the chain worker died")

    def _tell_death(self, who: str, why: str, pause_s: float) -> None:
        """Say that one of the two died, and when it is begun again."""
        self._trouble = f"{who} died ({why}) and is begun again"
        _LOG.error("%s died", who, extra={"reason": why, "again_s": pause_s})

    @property
    def shown_url(self) -> str:
        """The address of the node, without what may be secret in it; empty where there is none."""
        if self.rpc_url or not self.is_configured or self._missing:
            return self.rpc_url
        return shown(self._settings.chain_source)
