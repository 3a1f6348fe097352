"""The protocol between nodes: messages of a follower to the owner of the log, and its replies.

A connection carries frames: four bytes with the length, little-endian, and the MessagePack of a
list of messages, of as many as were ready at once. The listening node begins with a challenge; the
connecting one proves with the secret that all nodes share that it belongs to the cluster. It is not
encrypted: connect nodes over a private network.

Version 1. A node rejects another version in its first reply.
"""

import hashlib
import hmac
from typing import Final, TypeAlias

import msgspec

VERSION: Final = 1
"""Version of the protocol."""
FRAME_MAX: Final = 32 * 2**20
"""Largest frame, bytes."""
HEAD_BYTES: Final = 4
"""Bytes of the length in front of a frame."""
NOT_OWNER: Final = b'"code":"NOT_OWNER"'
"""Part of the body of an answer by a node that no longer owns the log."""


class PeerMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of all messages; the first field of each names its kind."""


class PeerChallenge(PeerMessage, frozen=True, tag="challenge"):
    """The first message of the listening node."""

    version: int
    nonce: bytes
    """Random bytes, new for each connection."""


class PeerHello(PeerMessage, frozen=True, tag="hello"):
    """The first message of the connecting node."""

    version: int
    node: str
    """Its name."""
    proof: bytes
    """See :func:`proof_of`."""


class PeerCall(PeerMessage, frozen=True, tag="call"):
    """A request of a client, which the owner handles like one of its own."""

    number: int
    """Number of the request on this connection."""
    route: str
    """Name of the route."""
    path: str
    query: bytes
    params: dict[str, str]
    """Parameters of the path."""
    headers: list[tuple[bytes, bytes]]
    body: bytes
    address: str
    """Address of the client."""
    scheme: str
    """``http`` or, behind a proxy, ``https``."""
    server: tuple[str, int]
    """Host and port at which the sender listens for clients."""


class PeerAnswer(PeerMessage, frozen=True, tag="answer"):
    """The reply to a :class:`PeerCall`."""

    number: int
    status: int
    lines: bytes
    """Header lines of HTTP/1.1."""
    body: bytes


class PeerPlace(PeerMessage, frozen=True, tag="place"):
    """An order that the sender has parsed and whose signature it has verified."""

    number: int
    submit: bytes
    """The command, as from ``clob.codec.encode``, with any id and time."""
    opener: bytes | None
    """See :class:`~clob_server.core.sequencer.NewOrder`."""
    payer: bytes | None
    """Its budget; None without rate limits."""


class PeerPlaced(PeerMessage, frozen=True, tag="placed"):
    """The result of a :class:`PeerPlace`, which the sender reads from its own copy of the log."""

    number: int
    seq: int
    """Number of the command; 0 if nothing was written."""
    code: str = ""
    """Why nothing was written."""
    text: str = ""


class PeerHold(PeerMessage, frozen=True, tag="hold"):
    """A WebSocket of the sender whose end cancels the orders of a maker.

    The end of the connection counts as the end of the WebSocket.
    """

    number: int
    maker: str


class PeerHeld(PeerMessage, frozen=True, tag="held"):
    """The reply to a :class:`PeerHold`, once the switch is armed durably."""

    number: int
    code: str = ""
    """Why it is not armed."""
    text: str = ""


class PeerAsk(PeerMessage, frozen=True, tag="ask"):
    """A request of the owner for the metrics of the other node."""

    number: int


class PeerMetrics(PeerMessage, frozen=True, tag="metrics"):
    """The reply to a :class:`PeerAsk`."""

    number: int
    node: str
    page: bytes
    """In the text format of Prometheus."""


class PeerDamage(PeerMessage, frozen=True, tag="damage"):
    """The sender has read a damaged page of the history file; it has no reply."""


class PeerRelease(PeerMessage, frozen=True, tag="release"):
    """The end of a hold; it has no reply."""

    number: int
    cancels: bool
    """Whether the orders are cancelled; False if the client withdrew its request."""


ToOwner: TypeAlias = (
    PeerHello | PeerCall | PeerPlace | PeerHold | PeerRelease | PeerMetrics | PeerDamage
)
"""A message of the connecting node."""
FromOwner: TypeAlias = PeerChallenge | PeerAnswer | PeerPlaced | PeerHeld | PeerAsk
"""A message of the listening node."""

encode: Final = msgspec.msgpack.Encoder().encode
TO_OWNER: Final = msgspec.msgpack.Decoder(list[ToOwner])
FROM_OWNER: Final = msgspec.msgpack.Decoder(list[FromOwner])


def framed(messages: "list[ToOwner] | list[FromOwner]") -> bytes:
    """Return the frame of some messages."""
    data = encode(messages)
    return len(data).to_bytes(HEAD_BYTES, "little") + data


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the content of the frames that are complete now.

        Raises:
            ValueError: a frame is too large.
        """
        buffer = self._buffer
        buffer += data
        frames = []
        at = 0
        while len(buffer) - at >= HEAD_BYTES:
            length = int.from_bytes(buffer[at : at + HEAD_BYTES], "little")
            if length > FRAME_MAX:
                raise ValueError(f"a frame may have {FRAME_MAX} bytes; got {length}")
            end = at + HEAD_BYTES + length
            if len(buffer) < end:
                break
            frames.append(bytes(buffer[at + HEAD_BYTES : end]))
            at = end
        del buffer[:at]
        return frames


def proof_of(key: bytes, nonce: bytes) -> bytes:
    """Return the proof of a node that it has the secret files of the cluster."""
    return hmac.new(key, b"clob node" + nonce, hashlib.sha256).digest()
