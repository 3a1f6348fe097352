"""WebSockets, with a door by which a feed writes to each without waiting for any.

An application finds its :class:`Push` under :data:`PUSH` in the extensions of the scope. What waits
for a client who does not read is the feed's to bound: it asks, and breaks off.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from clob_server.transport.config import TransportConfig, as_http, rejection
from clob_server.transport.connections import PIECE_BYTES, Connections, Watched

PUSH: Final = "clob.push"
"""Where an application finds its :class:`Push`, in ``scope["extensions"]``."""
HIGH_BYTES: Final = 65_536
"""When so much waits for a client, his :attr:`Push.drained` is called once little does."""
LOW_BYTES: Final = 16_384
"""What is little."""
KERNEL_BYTES: Final = 65_536
"""What the kernel may keep unsent for a client: else it hides megabytes from who asks."""
FRAGMENTS_MAX: Final = 1_024
"""In how many parts a client may send a message."""

TEXT: Final = 0x81
"""The first byte of a frame: text, and nothing to follow."""
NOTSENT_LOWAT: Final[int | None] = getattr(socket, "TCP_NOTSENT_LOWAT", None)
"""The option of a socket that bounds what the kernel keeps, where there is one."""
REFUSALS: Final = {
    400: "BAD_REQUEST",
    414: "HEADERS_TOO_LARGE",
    426: "BAD_REQUEST",
    431: "HEADERS_TOO_LARGE",
    500: "INTERNAL",
}
"""The code that stands for a status by which a handshake is refused."""


def text_frame(payload: bytes) -> bytes:
    """Make the frame of a text message, as a server sends it: whole, unmasked, not compressed.

    Args:
        payload: the text, in UTF-8.
    """
    size = len(payload)
    if size < 126:
        head = bytes((TEXT, size))
    elif size < 65_536:
        head = bytes((TEXT, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((TEXT, 127)) + size.to_bytes(8, "big")
    return head + payload


class Push:
    """The door to one WebSocket.

    Args:
        protocol: the connection.
    """

    __slots__ = ("_protocol", "_transport", "buffered", "drained", "write_unchecked")

    def __init__(self, protocol: "FeedProtocol") -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self.buffered: Final[Callable[[], int]] = self._transport.get_write_buffer_size
        """Tells how many bytes wait for the client, beside what the kernel keeps."""
        self.write_unchecked: Final[Callable[[bytes], object]] = self._transport.write
        """Sends frames to a client for whom nothing waits, and does not look if he is there.

        It is for many in a row, of whom each look costs as much as his frame. It is right between
        the handshake and the server's close; whoever has gone takes nothing, or raises
        RuntimeError.
        """
        self.drained: Callable[[], None] | None = None
        """Is called when little waits, after more than :data:`HIGH_BYTES` did. It must not raise.
        """

    def write(self, frame: bytes) -> bool:
        """Send a frame, or several joined, without waiting.

        Args:
            frame: what :func:`text_frame` made.

        Returns:
            If it was taken: not before the handshake, nor once either side has closed.
        """
        protocol, transport = self._protocol, self._transport
        if protocol.close_sent or not protocol.handshake_complete or transport.is_closing():
            return False
        transport.write(frame)
        return True

    def abort(self) -> None:
        """Break the connection off, and let go of what waits."""
        self._transport.abort()


class Handshake(ServerProtocol):
    """The protocol, whose refusals of a handshake are shaped as all others are.

    Args:
        new_request_id: names a request that is refused.
        options: what the protocol takes.
    """

    def __init__(self, new_request_id: Callable[[], str], **options: Any) -> None:
        self._new_request_id = new_request_id
        super().__init__(**options)

    def reject(self, status: Any, text: str) -> Response:
        """Refuse a handshake; what the application refuses without a word stays without one."""
        code = REFUSALS.get(status)
        if code is None:
            return super().reject(status, text)
        made = refusal(code, text.strip(), self._new_request_id())
        headers = Headers([("Date", formatdate(usegmt=True))])
        headers.update((name.decode(), value.decode()) for name, value in made.headers)
        return Response(made.status, HTTPStatus(made.status).phrase, headers, made.body)


class FeedProtocol(Watched, WebSocketsSansIOProtocol):
    """A WebSocket; a connection becomes one when :class:`HttpProtocol` hands it over.

    Args:
        config: the configuration.
        server_state: what all connections share.
        app_state: what the lifespan of the application left for its requests.
    """

    push: Push
    read_paused: bool

    def __init__(
        self,
        config: TransportConfig,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn: Handshake = Handshake(
            config.new_request_id, max_size=config.limits.message_max_bytes, logger=self.logger
        )
        self.unparsed: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over a connection that is counted already."""
        super().connection_made(transport)
        self.is_inside = True
        self.transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)
        self.push = Push(self)
        if NOTSENT_LOWAT is not None:
            with suppress(OSError):  # he has gone
                tcp = transport.get_extra_info("socket")
                tcp.setsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT, KERNEL_BYTES)

    def resume_writing(self) -> None:
        """Hear that little waits for the client, and pass it on."""
        super().resume_writing()
        if self.push.drained is not None:
            self.push.drained()

    def shutdown(self) -> None:
        """Close with 1012, unless it is being closed."""
        if not self.transport.is_closing():
            super().shutdown()

    # ----- the handshake ---------------------------------------------------------------------

    def begin(self, head: bytes) -> None:
        """Take the request that asked for the WebSocket."""
        super().data_received(head)
        if self.handshake_initiated:
            return
        # It was no request to this parser, which says so itself or says nothing.
        told = b"".join(self.conn.data_to_send())
        if not told:
            made = refusal(
                "BAD_REQUEST", "this is no request for a WebSocket", self.new_request_id()
            )
            told = as_http(made, self.default_headers)
        self.transport.write(told)
        self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """Give the application its door, if there is anything behind it."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[PUSH] = self.push

    # ----- what comes in ---------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what came; what is long waits and is parsed piece by piece."""
        if self.handshake_complete and not self.unparsed and len(data) <= PIECE_BYTES:
            super().data_received(data)
            return
        self.unparsed += data
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        self.loop.call_soon(self._parse_on)

    def _parse_on(self) -> None:
        """Parse a piece of what waits, when the application has taken what was parsed before."""
        if self.transport.is_closing():
            self.unparsed = b""
        is_wanted = self.close_sent or self.queue.empty()
        if not (self.unparsed and self.handshake_complete and is_wanted):
            return
        piece, self.unparsed = self.unparsed[:PIECE_BYTES], self.unparsed[PIECE_BYTES:]
        super().data_received(piece)
        if self.unparsed:
            self.loop.call_soon(self._parse_on)
        else:
            self._read_on()

    def _read_on(self) -> None:
        """Read on, if the application has taken everything."""
        if self.read_paused and self.queue.empty() and not self.unparsed:
            self.read_paused = False
            self.transport.resume_reading()

    async def receive(self) -> ASGIReceiveEvent:
        """Hand a message to the application, and read on when it has taken all."""
        if self.unparsed:
            self.loop.call_soon(self._parse_on)
        message = await self.queue.get()
        self._read_on()
        return message

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read what he gets."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """Take a part of a message, which may not have any number of them."""
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, f"a message may have {FRAGMENTS_MAX} parts")
            self.handle_parser_exception()
