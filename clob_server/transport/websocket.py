"""WebSockets that a feed writes to without waiting for any client.

An application finds the :class:`Push` of a connection under :data:`PUSH` in the extensions of its
scope. The feed bounds the unread bytes of a client: it reads their number, and aborts.
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
from websockets.frames import Frame, apply_mask  # type: ignore[attr-defined]
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from clob_server.transport.config import TransportConfig, as_http, rejection
from clob_server.transport.connections import PIECE_BYTES, Connections, TrackedConnection

PUSH: Final = "clob.push"
"""The key in ``scope["extensions"]`` of the :class:`Push` of a connection."""
HIGH_BYTES: Final = 65_536
"""Unread bytes beyond which a client counts as slow, until :attr:`Push.drained` is called."""
LOW_BYTES: Final = 16_384
"""Unread bytes below which :attr:`Push.drained` is called."""
KERNEL_BYTES: Final = 65_536
"""Unsent bytes that the kernel may keep for a client; otherwise it hides megabytes."""
FRAGMENTS_MAX: Final = 1_024
"""Maximum number of fragments of a client's message."""

TEXT: Final = 0x81
"""The first byte of a frame: a text message without further fragments."""
FIN: Final = 0x80
"""The bit of a frame without further fragments in its first byte, of a mask in the second."""
MASKED_LONG: Final = FIN | 126
"""The second byte of a frame with a mask and a length of 2 bytes."""
NOTSENT_LOWAT: Final[int | None] = getattr(socket, "TCP_NOTSENT_LOWAT", None)
"""The socket option that limits unsent bytes in the kernel; None if the system has none."""
HANDSHAKE_CODES: Final = {
    400: "BAD_REQUEST",
    405: "METHOD_NOT_ALLOWED",
    414: "HEADERS_TOO_LARGE",
    426: "BAD_REQUEST",
    431: "HEADERS_TOO_LARGE",
    500: "INTERNAL",
}
"""The code of a rejected handshake, by its status."""


def text_frame(payload: bytes) -> bytes:
    """Return the frame of a text in UTF-8 from a server: one fragment, unmasked, uncompressed."""
    size = len(payload)
    if size < 126:
        head = bytes((TEXT, size))
    elif size < 65_536:
        head = bytes((TEXT, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((TEXT, 127)) + size.to_bytes(8, "big")
    return head + payload


def frame_end(data: bytes, start: int, limit: int) -> int | None:
    """Return where the frame of a client ends that begins at ``start``.

    It is beyond the data if the frame has not arrived whole. None is a frame for websockets: a
    fragment, one with more than ``limit`` bytes of content, or one without a mask.
    """
    num_bytes = len(data) - start
    if data[start] & 0xF0 != FIN:
        return None
    if num_bytes < 2:
        return start + 2
    code = data[start + 1]
    if not FIN <= code <= MASKED_LONG:
        return None
    if code < MASKED_LONG:
        size, num_head = code - FIN, 6
    elif num_bytes < 4:
        return start + 8
    else:
        size, num_head = int.from_bytes(data[start + 2 : start + 4], "big"), 8
    return None if size > limit else start + num_head + size


class Push:
    """Writes to one WebSocket."""

    __slots__ = ("_protocol", "_transport", "at_once", "buffered", "drained", "write_unchecked")

    def __init__(self, protocol: "FeedProtocol") -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self.buffered: Final[Callable[[], int]] = self._transport.get_write_buffer_size
        """Returns the unread bytes of the client, without those in the kernel."""
        self.write_unchecked: Final[Callable[[bytes], object]] = self._transport.write
        """Writes frames without checking the connection, for many idle clients in a row.

        Valid between the handshake and the server's close. A client that has left gets nothing, or
        the call raises RuntimeError.
        """
        self.drained: Callable[[], None] | None = None
        """Called when the unread bytes fall below :data:`LOW_BYTES` after exceeding
        :data:`HIGH_BYTES`. Must not raise."""
        self.at_once: Callable[[str], bool] | None = None
        """Handles a text that arrived whole while the application waits for a message.

        Returns False if the application has to receive it; then nothing was done.
        Must not raise."""

    def write(self, frame: bytes) -> bool:
        """Write one or more results of :func:`text_frame`, joined, without waiting.

        Returns False before the handshake, and once either side has closed.
        """
        protocol, transport = self._protocol, self._transport
        if protocol.close_sent or not protocol.handshake_complete or transport.is_closing():
            return False
        transport.write(frame)
        return True

    def abort(self) -> None:
        """Abort the connection and discard its unread bytes."""
        self._transport.abort()


class Handshake(ServerProtocol):
    """The WebSocket protocol, with rejections of a handshake in the format of all others."""

    def __init__(self, new_request_id: Callable[[], str], **options: Any) -> None:
        self._new_request_id = new_request_id
        super().__init__(**options)

    def reject(self, status: Any, text: str) -> Response:
        """Reject a handshake; a status without a code is left to the base class."""
        code = HANDSHAKE_CODES.get(status)
        if code is None:
            return super().reject(status, text)
        problem = rejection(code, text.strip(), self._new_request_id())
        headers = Headers([("Date", formatdate(usegmt=True))])
        headers.update((name.decode(), value.decode()) for name, value in problem.headers)
        return Response(problem.status, HTTPStatus(problem.status).phrase, headers, problem.body)

    def is_between_messages(self) -> bool:
        """Return whether the next byte of input is the first one of a message."""
        if self.state is not State.OPEN or self.current_size is not None:
            return False
        waiting: Any = self.parser
        while waiting.gi_yieldfrom is not None:
            waiting = waiting.gi_yieldfrom
        return waiting is self.parser or waiting.__name__ == "at_eof"


class FeedProtocol(TrackedConnection, WebSocketsSansIOProtocol):
    """A WebSocket, after an :class:`~clob_server.transport.http.HttpProtocol` handed it over."""

    push: Push
    read_paused: bool

    def __init__(self, config: TransportConfig, server_state: Connections, **options: Any) -> None:
        super().__init__(config, server_state, **options)
        self.conn: Handshake = Handshake(
            config.new_request_id, max_size=config.limits.message_max_bytes, logger=self.logger
        )
        self.unparsed: bytes = b""
        self.partial: bytes = b""
        """The start of a frame whose rest has not arrived."""
        self.is_receiving: bool = False
        """Whether the application waits for a message."""
        self.is_between: bool = False
        """Whether the input that websockets has parsed ends with a message."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over a connection that is counted already."""
        super().connection_made(transport)
        self.is_counted = True
        self.transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)
        self.push = Push(self)
        if NOTSENT_LOWAT is not None:
            with suppress(OSError):  # the client has left
                tcp = transport.get_extra_info("socket")
                tcp.setsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT, KERNEL_BYTES)

    def resume_writing(self) -> None:
        """Note that the client has read most of the buffer, and report it."""
        super().resume_writing()
        if self.push.drained is not None:
            self.push.drained()

    def shutdown(self) -> None:
        """Close with 1012, unless it is being closed."""
        if not self.transport.is_closing():
            super().shutdown()

    # ----- the handshake ---------------------------------------------------------------------

    def start_handshake(self, head: bytes) -> None:
        """Handle the request for the WebSocket."""
        super().data_received(head)
        if self.handshake_initiated:
            return
        # The parser of websockets rejected the request, with or without a reply.
        response = b"".join(self.conn.data_to_send())
        if not response:
            problem = rejection(
                "BAD_REQUEST", "this is not a request for a WebSocket", self.new_request_id()
            )
            response = as_http(problem, self.default_headers)
        self.transport.write(response)
        self.transport.close()

    def handle_connect(self, event: Request) -> None:
        """Pass the :class:`Push` to the application."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[PUSH] = self.push

    # ----- input -----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse input; long input waits and is parsed piece by piece."""
        if self.partial:
            data, self.partial = self.partial + data, b""
        if self.handshake_complete and not self.unparsed and len(data) <= PIECE_BYTES:
            data = self._parse(data)
            if not data:
                return
        self.unparsed += data
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        self.loop.call_soon(self._parse_waiting)

    def _parse_waiting(self) -> None:
        """Parse a piece of the waiting input once the application has handled the one before."""
        if self.transport.is_closing():
            self.unparsed = b""
        is_wanted = self.close_sent or self.queue.empty()
        if not (self.unparsed and self.handshake_complete and is_wanted):
            return
        self.unparsed = self._parse(self.unparsed)
        if self.unparsed:
            self.loop.call_soon(self._parse_waiting)
        else:
            self._resume_reading()

    def _parse(self, data: bytes) -> bytes:
        """Parse a piece of input; return the rest.

        Texts that arrived whole are handled at once while the application waits for a message;
        websockets parses the rest.
        """
        if self.push.at_once is None:
            super().data_received(data[:PIECE_BYTES])
            return data[PIECE_BYTES:]
        start, num_bytes = 0, len(data)
        while start < min(num_bytes, PIECE_BYTES):
            if start and not (self.close_sent or self.queue.empty()):
                break
            self.is_between = self.is_between or self.conn.is_between_messages()
            end = frame_end(data, start, self.limits.message_max_bytes) if self.is_between else None
            if end is not None and end > num_bytes:
                self.partial = data[start:]
                return b""
            if end is None or not self._is_done_at_once(data, start, end):
                end = min(start + PIECE_BYTES, num_bytes) if end is None else end
                self.is_between = False
                super().data_received(data[start:end])
            start = end
        return data[start:]

    def _is_done_at_once(self, data: bytes, start: int, end: int) -> bool:
        """Hand a whole frame to the application; return whether that is possible and was done."""
        at_once = self.push.at_once
        if at_once is None or data[start] != TEXT or not self.is_receiving:
            return False
        if self.close_sent or not self.queue.empty():
            return False
        start += 8 if data[start + 1] == MASKED_LONG else 6
        try:
            text = apply_mask(data[start:end], data[start - 4 : start]).decode()
        except UnicodeDecodeError:
            return False
        return at_once(text)

    def _resume_reading(self) -> None:
        """Continue reading if the application has handled everything."""
        if self.read_paused and self.queue.empty() and not self.unparsed:
            self.read_paused = False
            self.transport.resume_reading()

    async def receive(self) -> ASGIReceiveEvent:
        """Return a message to the application, and continue reading after the last one."""
        if self.unparsed:
            self.loop.call_soon(self._parse_waiting)
        self.is_receiving = True
        message = await self.queue.get()
        self.is_receiving = False
        self._resume_reading()
        return message

    async def send(self, message: Any) -> None:
        """Send an ASGI message; the reply to a rejected handshake completes it.

        The base class logs an error of the server otherwise.
        """
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def send_receive_event_to_app(self) -> None:
        """Pass a whole message on; a text that is not UTF-8 ends the connection with 1007.

        Unlike the base class, it writes no traceback of a client's mistake to the log.
        """
        if self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        content = b"".join(self.frames)
        self.frames.clear()
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            self.conn.fail(1007, f"{error.reason} at position {error.start}")
            self.handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_cont(self, event: Frame) -> None:
        """Handle a fragment of a message, and reject too many of them."""
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, f"a message may have {FRAGMENTS_MAX} fragments")
            self.handle_parser_exception()
