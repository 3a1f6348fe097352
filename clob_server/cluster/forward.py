"""Sends changes on to the owner of the log.

A follower sends an order that it has parsed and verified as a command, and reads the result from
its own copy of the log; any other request goes to the owner whole. Nothing is sent twice unless the
owner said that nothing was done.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from clob import RejectedError
from clob.codec import encode
from clob_server.api.problems import PROBLEMS, ApiError
from clob_server.api.request import JSON, ApiRequest, Reply, Scope
from clob_server.cluster.followers import FROM_NODE
from clob_server.cluster.messages import (
    NOT_OWNER,
    FromOwner,
    PeerAnswer,
    PeerAsk,
    PeerCall,
    PeerDamage,
    PeerHeld,
    PeerHold,
    PeerMetrics,
    PeerPlace,
    PeerPlaced,
    PeerRelease,
)
from clob_server.cluster.node import Beat
from clob_server.cluster.peers import OwnerPeer
from clob_server.cluster.replica import ReplicaSequencer
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import (
    Callback,
    CommitUnknownError,
    NewOrder,
    QueueFullError,
)

WAIT_S: Final = 10.0
"""Seconds that a request waits for an owner."""
RETRY_S: Final = 0.02
"""Seconds until the owner is looked up again."""
LINK_S: Final = 0.1
"""Seconds between two looks at the connection to the owner."""
CONNECT_S: Final = 1.0
"""Seconds for a connection to the owner."""
PLACING: Final = frozenset({"create_order"})
"""Routes that a follower handles itself up to the command."""
REPLY_S: Final = 60.0
"""Seconds that the owner may take for a reply."""
UNANSWERED_MAX: Final = 10_000
"""Messages to the owner without a reply."""

_DROPPED: Final = frozenset({b"accept-encoding", b"connection", b"content-length", b"expect"})
_NOT_COPIED: Final = frozenset(
    {b"content-type", b"content-length", b"x-request-id", b"x-applied-seq"}
)


class NodeView(Protocol):
    """The node that sends, as far as this matters here."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def is_owner(self) -> bool:
        """Whether it owns the log."""

    @property
    def is_unsure(self) -> bool:
        """Whether it owned the log, and another one may have taken it over by now."""

    @property
    def owner(self) -> Beat | None:
        """The owner; None if it is silent."""


class Forwarding:
    """The connection of this node to the owner.

    Args:
        key: the secret that all nodes share.
        node: the role of this node.
        replica: its sequencer.
        reads: routes whose reads the owner answers.
    """

    def __init__(
        self,
        key: bytes,
        node: NodeView,
        replica: ReplicaSequencer,
        reads: frozenset[str] = frozenset(),
    ) -> None:
        self.on_link: Callable[[], object] = lambda: None
        """Called when there is a connection to an owner."""
        self.page: Callable[[], bytes] = bytes
        """Returns the metrics of this process, for the owner."""
        self.reads: Final = reads
        """Routes whose reads the owner answers."""
        self._key, self._node, self._replica = key, node, replica
        self._numbers = count(1)
        self._peer: OwnerPeer | None = None
        self._owner_address = ""
        self._connecting = asyncio.Lock()
        self._calls: dict[int, asyncio.Future[PeerAnswer]] = {}
        self._places: dict[int, Callback] = {}
        self._holds: dict[int, Callable[[Exception | None], None]] = {}
        replica.place_elsewhere = self._place

    # ----- to the owner ------------------------------------------------------------------------

    def takes(self, call: ApiRequest) -> bool:
        """Return whether a change is handled by the owner, not here.

        A follower handles orders itself as far as it can: it parses and verifies them.
        """
        if FROM_NODE in call.scope or self._node.is_owner:
            return False
        return call.route not in PLACING or not self._has_link

    def checked(self, error: Exception) -> Exception:
        """Return the error of a change; of a node that may not own the log, that it does not.

        Its state may lack changes of the next owner, so it must not reject anything by it. An
        append needs no such check: the log rejects it.
        """
        if (
            isinstance(error, ApiError | RejectedError)
            and error.code != "OUTCOME_UNKNOWN"
            and self._node.is_unsure
        ):
            return NotOwnerError("this node may no longer own the log; send the request again")
        return error

    def takes_back(self, call: ApiRequest, error: Exception) -> bool:
        """Return whether a request goes to the next owner, since nothing was done."""
        return isinstance(error, NotOwnerError) and FROM_NODE not in call.scope

    async def send(self, call: ApiRequest) -> Reply:
        """Send a request to the owner; return its reply once this node has applied the change.

        Raises:
            ApiError: NO_OWNER, nothing was done; OUTCOME_UNKNOWN, the owner ended meanwhile, or
                this node cannot follow it, so that its next reads would lack the change.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT_S
        while loop.time() < end:
            peer = None if self._node.is_unsure else await self._link()
            answer = None if peer is None else await self._ask(peer, call)
            if answer is None or (answer.status == 503 and NOT_OWNER in answer.body):
                await asyncio.sleep(RETRY_S)
                continue
            reply, call.applied_seq = reply_of(answer)
            if not await self._replica.wait_for(call.applied_seq):
                raise unknown("this node is cut off from the log and cannot show the result")
            return reply
        raise ApiError("NO_OWNER", f"no node owned the log within {WAIT_S:g} s; nothing was done")

    async def _ask(self, peer: OwnerPeer, call: ApiRequest) -> PeerAnswer:
        """Send a request, and wait for its answer."""
        self._check_room()
        number, scope = next(self._numbers), call.scope
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        headers = [header for header in call.headers.items() if header[0] not in _DROPPED]
        headers.append((b"x-request-id", call.request_id.encode()))
        message = PeerCall(
            number, call.route, scope["path"], scope["query_string"], call.params, headers,
            call.body, call.address, *address_of(scope),
        )  # fmt: skip
        peer.send(message)
        try:
            return await asyncio.wait_for(future, REPLY_S)
        except TimeoutError:
            raise unknown("the owner did not answer in time") from None
        finally:
            self._calls.pop(number, None)

    def _place(self, new: NewOrder, callback: Callback) -> None:
        """Send an order to the owner; ``callback`` receives the result once it is applied here.

        Raises:
            NotOwnerError: there is no connection to an owner.
            QueueFullError: too many messages wait for a reply.
        """
        if not self._has_link:
            raise NotOwnerError("this node has no connection to the owner of the log")
        assert self._peer is not None
        self._check_room()
        number = next(self._numbers)
        self._places[number] = callback
        self._peer.send(PeerPlace(number, encode(new.submit), new.opener, new.payer))

    def hold(self, maker: str, callback: Callable[[Exception | None], None]) -> int:
        """Ask the owner to cancel the orders of a maker when a WebSocket here ends.

        Args:
            maker: the maker.
            callback: called once the owner has armed the switch, or with the reason why not.

        Returns:
            The number for :meth:`release`.

        Raises:
            NotOwnerError: there is no connection to an owner.
        """
        if not self._has_link:
            raise NotOwnerError("this node has no connection to the owner of the log")
        assert self._peer is not None
        number = next(self._numbers)
        self._holds[number] = callback
        self._peer.send(PeerHold(number, maker))
        return number

    def release(self, number: int, *, cancels: bool) -> None:
        """End a hold; ``cancels`` is whether the orders are cancelled if it was the last."""
        self._holds.pop(number, None)
        if number and self._peer is not None:
            self._peer.send(PeerRelease(number, cancels))

    def report_damage(self) -> None:
        """Report a damaged history file to the owner, which rebuilds it."""
        if self._peer is not None:
            self._peer.send(PeerDamage())

    def _check_room(self) -> None:
        if len(self._calls) + len(self._places) >= UNANSWERED_MAX:
            raise QueueFullError(f"{UNANSWERED_MAX:,} requests wait for the owner; retry later")

    def _on_message(self, message: FromOwner) -> None:
        """Hand the reply of the owner to its request."""
        if type(message) is PeerHeld:
            held = self._holds.pop(message.number, None)
            if held is not None:
                held(ApiError(message.code, message.text) if message.code else None)
            return
        if type(message) is PeerAsk:
            if self._peer is not None:
                self._peer.send(PeerMetrics(message.number, self._node.name, self.page()))
            return
        if type(message) is PeerAnswer:
            future = self._calls.get(message.number)
            if future is not None and not future.done():
                future.set_result(message)
            return
        assert type(message) is PeerPlaced
        callback = self._places.pop(message.number, None)
        if callback is None:
            return
        if message.seq:
            self._replica.when_applied(message.seq, callback)
        elif message.code == NotOwnerError.code:
            callback(NotOwnerError(message.text))
        else:
            known = message.code in PROBLEMS
            callback(ApiError(message.code, message.text) if known else unknown(message.text))

    # ----- the connection to the owner ---------------------------------------------------------

    @property
    def _has_link(self) -> bool:
        owner = self._node.owner
        return (
            owner is not None
            and self._peer is not None
            and self._peer.is_open
            and owner.address == self._owner_address
        )

    async def connect(self) -> None:
        """Wait until there is a connection to an owner."""
        while await self._link() is None:
            await asyncio.sleep(RETRY_S)

    async def run(self) -> None:
        """Keep a connection to the owner while this node follows one, until cancelled."""
        while True:
            if not self._node.is_owner:
                await self._link()
            await asyncio.sleep(LINK_S)

    async def _link(self) -> OwnerPeer | None:
        """Return the connection to the owner, or None."""
        async with self._connecting:
            if self._has_link:
                return self._peer
            owner = self._node.owner
            if owner is None:
                return None
            self._unlink("another node became the owner")
            opened = asyncio.get_running_loop().create_future()
            host, _, port = owner.address.rpartition(":")
            peer: OwnerPeer | None = None
            try:
                async with asyncio.timeout(CONNECT_S):
                    _, peer = await asyncio.get_running_loop().create_connection(
                        lambda: self._new_peer(opened), host.strip("[]"), int(port)
                    )
                    await opened
            except OSError:  # or it is not reached in time
                if peer is not None:
                    peer.transport.close()
                return None
            self._peer, self._owner_address = peer, owner.address
            self.on_link()
            return peer

    def _new_peer(self, opened: "asyncio.Future[None]") -> OwnerPeer:
        peer: OwnerPeer

        def on_open() -> None:
            if not opened.done():
                opened.set_result(None)

        def on_end() -> None:
            if not opened.done():
                opened.set_exception(ConnectionError())
            if self._peer is peer:
                self._unlink("the owner of the log ended")

        peer = OwnerPeer(self._key, self._node.name, on_open, self._on_message, on_end)
        return peer

    def _unlink(self, reason: str) -> None:
        """Close the connection to the owner; the outcome of unanswered requests is unknown."""
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.transport.close()
        calls, self._calls = self._calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(unknown(reason))
        self._holds.clear()
        places, self._places = self._places, {}
        for callback in places.values():
            callback(CommitUnknownError(f"{reason}, so it is unknown whether this was done"))

    def close(self) -> None:
        """Close the connection."""
        self._unlink("this node stops")


def address_of(scope: Scope) -> tuple[str, tuple[str, int]]:
    """Return scheme, host and port by which a client reached this process.

    A request within a WebSocket has none of them.
    """
    return scope.get("scheme") or "http", scope.get("server") or ("", 0)


def unknown(reason: str) -> ApiError:
    """Return the error of a request whose outcome is unknown."""
    return ApiError("OUTCOME_UNKNOWN", f"{reason}, so it is unknown whether this was done")


def reply_of(answer: PeerAnswer) -> tuple[Reply, int]:
    """Return the reply of the owner as that of this node, and the last command it contains."""
    headers, content_type, seq = [], JSON, 0
    for line in answer.lines.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name == b"content-type":
            content_type = value
        elif name == b"x-applied-seq":
            seq = int(value)
        elif name and name not in _NOT_COPIED:
            headers.append((name, value))
    return Reply(answer.body, answer.status, tuple(headers), content_type), seq
