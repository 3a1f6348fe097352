"""Connections between nodes: messages in frames, sent together once the event loop is free."""

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable
from typing import Final, Protocol, cast

import msgspec

from clob_server.cluster.messages import (
    FROM_OWNER,
    TO_OWNER,
    VERSION,
    FrameReader,
    FromOwner,
    PeerAnswer,
    PeerCall,
    PeerChallenge,
    PeerDamage,
    PeerHello,
    PeerHold,
    PeerMetrics,
    PeerPlace,
    PeerPlaced,
    PeerRelease,
    ToOwner,
    framed,
    proof_of,
)

NONCE_BYTES: Final = 16
"""Random bytes of a challenge."""

_LOG: Final = logging.getLogger("clob_server.cluster")


class Peer(asyncio.Protocol):
    """One end of a connection between two nodes."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._unsent: list[ToOwner | FromOwner] = []
        self._loop = asyncio.get_running_loop()
        self.is_open: bool = False
        """Whether both ends know that they belong to the same cluster."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.is_open = False

    def send(self, message: "ToOwner | FromOwner") -> None:
        """Send a message with all that are sent in the same turn of the event loop."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        messages, self._unsent = self._unsent, []
        if not self.transport.is_closing():
            self.transport.write(framed(cast("list[ToOwner]", messages)))

    def data_received(self, data: bytes) -> None:
        """Handle the messages that are complete."""
        try:
            for frame in self._reader.feed(data):
                self.receive(frame)
        except (ValueError, msgspec.MsgspecError) as error:
            _LOG.warning("a node sent an invalid message", extra={"reason": str(error)})
            self.transport.abort()

    def receive(self, frame: bytes) -> None:
        """Handle the messages of a frame."""
        raise NotImplementedError


class FollowerHandler(Protocol):
    """Handles the messages of followers at the owner."""

    on_damage: Callable[[], object]
    """Called when another process has read a damaged page of the history file."""

    def call(self, call: PeerCall, reply: Callable[[PeerAnswer], None]) -> None:
        """Handle a request of a client."""

    def place(self, place: PeerPlace, reply: Callable[[PeerPlaced], None]) -> None:
        """Place an order."""

    def hold(self, hold: PeerHold, peer: "FollowerPeer") -> None:
        """Keep the orders of a maker until a WebSocket ends."""

    def release(self, release: PeerRelease, peer: "FollowerPeer") -> None:
        """End a hold."""

    def page(self, answer: PeerMetrics) -> None:
        """Receive the metrics of another node."""

    def lost(self, peer: "FollowerPeer") -> None:
        """End everything that a connection held."""


class FollowerPeer(Peer):
    """The end of a connection at the listening node.

    Args:
        key: the secret that all nodes share.
        handler: handles the messages.
        peers: all connections, which this one adds itself to.
    """

    def __init__(self, key: bytes, handler: FollowerHandler, peers: "set[FollowerPeer]") -> None:
        super().__init__()
        self._key, self._handler, self._peers = key, handler, peers
        self._nonce = secrets.token_bytes(NONCE_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge."""
        super().connection_made(transport)
        self._peers.add(self)
        self.send(PeerChallenge(VERSION, self._nonce))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; replies to it are dropped."""
        super().connection_lost(exc)
        self._peers.discard(self)
        self._handler.lost(self)

    def receive(self, frame: bytes) -> None:
        """Handle the messages of a follower, after its proof."""
        for message in TO_OWNER.decode(frame):
            if type(message) is PeerHello:
                self._check(message)
            elif not self.is_open:
                raise ValueError("the first message is not a hello")
            elif type(message) is PeerPlace:
                self._handler.place(message, self.send)
            elif type(message) is PeerCall:
                self._handler.call(message, self.send)
            elif type(message) is PeerHold:
                self._handler.hold(message, self)
            elif type(message) is PeerRelease:
                self._handler.release(message, self)
            elif type(message) is PeerMetrics:
                self._handler.page(message)
            elif type(message) is PeerDamage:
                self._handler.on_damage()

    def _check(self, hello: PeerHello) -> None:
        if hello.version != VERSION:
            raise ValueError(f"the protocol has version {VERSION}; {hello.node} has another one")
        if not hmac.compare_digest(hello.proof, proof_of(self._key, self._nonce)):
            raise ValueError(f"node {hello.node} has other secret files")
        self.is_open = True


class OwnerPeer(Peer):
    """The end of a connection at the node that sends requests to the owner.

    Args:
        key: the secret that all nodes share.
        name: name of this node.
        on_open: called once the owner accepts messages.
        on_message: called with each message of the owner.
        on_end: called when the connection has ended.
    """

    def __init__(
        self,
        key: bytes,
        name: str,
        on_open: Callable[[], object],
        on_message: Callable[[FromOwner], object],
        on_end: Callable[[], object],
    ) -> None:
        super().__init__()
        self._key, self._name = key, name
        self._on_open, self._on_message, self._on_end = on_open, on_message, on_end

    def receive(self, frame: bytes) -> None:
        """Handle the messages of the owner."""
        for message in FROM_OWNER.decode(frame):
            if type(message) is not PeerChallenge:
                self._on_message(message)
            elif message.version != VERSION:
                raise ValueError(
                    f"the protocol of the owner has version {message.version}, not {VERSION}"
                )
            else:
                self.send(PeerHello(VERSION, self._name, proof_of(self._key, message.nonce)))
                self.is_open = True
                self._on_open()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end."""
        super().connection_lost(exc)
        self._on_end()
