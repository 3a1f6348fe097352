"""An HTTP/1.1 connection of an untrusted client: its input is bounded in size and in time.

A request that arrives whole is handed to the application at once, without a task. The application
names the routes for which a body that arrives after its head is waited for as well. Input that is
not a request is rejected here, after the requests before it on the connection were answered. Then
the connection closes.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from clob_server.api.problems import Problem
from clob_server.api.request import REPLY, SendReply
from clob_server.transport.config import TransportConfig, as_http, rejection
from clob_server.transport.connections import NEVER, PIECE_BYTES, Connections, TrackedConnection
from clob_server.transport.plain_head import END, HEAD_MAX, read_head

OVERHEAD_MAX: Final = 65_536
"""Bytes that a client may send with a request without adding to its body."""
WAITING_MAX: Final = 65_536
"""Bytes that may wait behind the requests of a connection before reading pauses."""
BODY_WAIT_MAX: Final = HIGH_WATER_LIMIT
"""The largest body that is waited for before its request is handed on, in bytes."""

SINGLE: Final = frozenset(
    (
        b"host", b"content-length", b"transfer-encoding", b"content-type", b"origin",
        b"authorization", b"x-api-key",
    )
)  # fmt: skip
"""Headers that a request may have once. Two readers of a repeated one, such as a proxy and the
server, may use different ones; see RFC 9112, sections 3.2 and 6.3."""

AtOnce: TypeAlias = Callable[[dict[str, Any], bytes, SendReply], bool]
"""Takes the scope and body of a request and the function that writes the reply; returns whether it
handles the request."""


class HeldFlow(FlowControl):
    """Flow control that stays paused while many bytes wait behind a running request."""

    is_held = False

    def resume_reading(self) -> None:
        """Continue reading unless the flow is held."""
        if self.read_paused and not self.is_held:
            super().resume_reading()


class _JoinedTransport:
    """The transport of one reply; sends the head together with the start of the body.

    uvicorn writes them one after the other, and each write is a system call and a packet.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Hold the head back, which is written first, and send the rest at once."""
        if self._head is None and self._cycle.response_started:
            self._head = data
        elif self._head is None:  # 100 Continue, before the reply
            self._transport.write(data)
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = b""

    def flush(self) -> None:
        """Send a head without a body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Flush the head, and close the connection."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _NoEvent:
    """An event without waiters, since the body of the request is complete."""

    def set(self) -> None:
        """Do nothing."""


class _PlainRequest:
    """A request with a plain head: the attributes that a connection reads of uvicorn's cycle."""

    more_body: bool = False
    keep_alive: bool = True
    disconnected: bool = False
    response_started: bool = False
    response_complete: bool = False
    scope: Any = None
    message_event: _NoEvent = _NoEvent()


class HttpProtocol(TrackedConnection, HttpToolsProtocol):
    """A connection; its arguments are those of uvicorn."""

    flow: HeldFlow
    # The last request that was started; None before the first, unlike in uvicorn's type.
    cycle: Any
    # Its ASGI scope; None if the parser has not seen it.
    scope: Any

    def __init__(self, config: TransportConfig, server_state: Connections, **options: Any) -> None:
        super().__init__(config, server_state, **options)
        self.keep_alive_s: float = config.limits.keep_alive_s
        self.piece_max: int = min(PIECE_BYTES, config.limits.headers_max_bytes)
        self.plain_max: int = min(HEAD_MAX, config.limits.headers_max_bytes)
        self.at_once: AtOnce | None = getattr(self.app, "at_once", None)
        """Handles a request that has arrived whole, or returns False and has done nothing."""
        self.waits_for_body: frozenset[tuple[str, str]] = getattr(
            self.app, "waits_for_body", frozenset()
        )
        """The methods and paths of requests that are handed on with their whole body."""
        self.running: RequestResponseCycle | _PlainRequest | None = None
        """The request that is being answered, or was answered last."""
        self.starting: ASGI3Application | None = None
        """The application for a request that was parsed and not handed on yet."""
        self.unparsed: bytes = b""
        """Data behind the requests that are waiting."""
        self.is_half_closed: bool = False
        """Whether the client has closed its side."""
        self.ignores_input: bool = False
        """Whether input is ignored from now on."""
        self.is_head_open: bool = False
        """Whether a head has started and not ended."""
        self.problem: Problem | None = None
        """The rejection to send once everything before it is answered."""
        self.num_head: int = 0
        self.num_overhead: int = 0
        self.body_of: RequestResponseCycle | None = None
        self.skips_upgrade: bool = False
        """Whether the head that was parsed asks for an upgrade that is ignored."""
        self.repeated: bytes | None = None
        """The header for whose repetition the input was rejected."""

    # ----- the connection --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or reject it."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport)
        reason = self.shared.enter(self.address)
        if reason is None:
            self.is_counted = True
            self.deadline = self.loop.time() + self.limits.header_timeout_s
        elif self.shared.is_crowded:
            self.ignores_input = True
            transport.abort()
        else:
            self.reject("TOO_MANY_CONNECTIONS", reason)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open while requests are being answered."""
        is_cut_off = self.is_body_open and self.cycle is self.running
        self.is_half_closed = self.is_answering and not is_cut_off
        return self.is_half_closed

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application, also where another request waits behind the running one."""
        running = self.running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        self.unparsed = b""
        super().connection_lost(exc)

    def on_deadline(self) -> None:
        """Reject a request that took too long, or close an idle connection."""
        if self.ignores_input:
            self.transport.abort()
        elif self.is_head_open:
            self._reject_late("head", self.limits.header_timeout_s)
        elif self.is_body_open:
            self._reject_late("body", self.limits.body_timeout_s)
        else:
            self.transport.close()

    def _reject_late(self, part: str, timeout_s: float) -> None:
        rule = f"the {part} of a request must arrive within {timeout_s} s"
        self.reject("REQUEST_TIMEOUT", rule)

    # ----- input -----------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no request has started to arrive or waits for its reply."""
        cycle = self.cycle
        is_done = cycle is None or (cycle.response_complete and not cycle.more_body)
        return is_done and not self.is_head_open

    @property
    def is_answering(self) -> bool:
        """Whether a request waits for its reply."""
        return self.running is not None and not self.running.response_complete

    @property
    def is_body_open(self) -> bool:
        """Whether the body of the last request is needed and incomplete."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse input."""
        if self.ignores_input:
            return
        is_long = len(data) > self.piece_max
        if not self.is_idle:
            is_piecewise = is_long or self.is_head_open or self.pipeline
            (self._parse_long if is_piecewise else self._parse)(data)
            return
        if self.at_once is None or not self._start_plain(self.at_once, data):
            (self._parse_long if is_long else self._parse)(data)

    def _parse_long(self, data: bytes) -> None:
        """Parse piece by piece; data behind a waiting request waits as well."""
        start, limit = 0, self.limits.headers_max_bytes
        while start < len(data) and not self.ignores_input:
            if self.pipeline:
                self.unparsed += data[start:]
                self._pause_if_full()
                return
            room = limit - self.num_head if self.is_head_open else self.piece_max
            piece = data[start : start + min(room, self.piece_max)]
            start += len(piece)
            self._parse(piece)

    def _parse(self, data: bytes) -> None:
        """Parse a piece, and hand on the request that it has started or completed."""
        self._feed_parser(data)
        if self.starting is not None:
            cycle = cast("RequestResponseCycle", self.running)
            if cycle.more_body and cycle is self.cycle and self._waits(cycle):
                if self.ignores_input:  # it was rejected meanwhile
                    self.starting = None
                return
            self._start(cycle, self.starting)

    def _waits(self, cycle: RequestResponseCycle) -> bool:
        """Return whether to wait for the body of a request, which must be short."""
        scope = cycle.scope
        is_named = (scope["method"], scope["path"]) in self.waits_for_body
        if not is_named or cycle.waiting_for_100_continue:
            return False
        for name, value in scope["headers"]:
            if name == b"content-length":
                return len(value) < 9 and int(value) <= BODY_WAIT_MAX
        return False

    def _feed_parser(self, data: bytes) -> None:
        """Parse a piece; check the size of an incomplete request and set its deadline."""
        before = self.cycle
        try:
            if self._parse_up_to_websocket(data):
                self._upgrade()
                return
        except httptools.HttpParserError as error:
            reason = str(error)
            if isinstance(error, httptools.HttpParserCallbackError):
                reason = "its target must be a path, or a URL with one"
            if self.repeated is not None:
                reason = f"it has several {self.repeated.decode()} headers"
            self.reject("BAD_REQUEST", f"invalid HTTP/1.1 request: {reason}")
            return
        cycle = self.cycle
        if self.pipeline:
            self._pause_if_full()
        elif cycle is None or cycle.scope is not self.scope:
            self._watch_head(len(data), before)
        elif cycle.more_body or cycle.response_complete:
            self._watch_body(len(data), cycle)
        else:
            self.is_head_open = False
            self.deadline = NEVER

    def _parse_up_to_websocket(self, data: bytes) -> bool:
        """Parse a piece; return whether it ends with the request for a WebSocket.

        Requests with other upgrades, which Java's client sends by default for HTTP/2, are parsed
        again without the upgrade: the parser takes their bodies for the other protocol.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if not self.skips_upgrade:
                    return True
                self.skips_upgrade = False
                version = self.parser.get_http_version().encode()
                lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
                lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
                data = b"\r\n".join([*lines, b"", data[upgrade.args[0] :]])
                self.parser: httptools.HttpRequestParser = httptools.HttpRequestParser(self)
            else:
                return False

    def _pause_if_full(self) -> None:
        """Pause reading if too much waits; otherwise read on to notice a disconnect."""
        self.deadline = NEVER
        self.flow.is_held = len(self.unparsed) > WAITING_MAX
        if self.flow.is_held:
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def _watch_head(self, num_bytes: int, before: RequestResponseCycle | None) -> None:
        """Check the size of an incomplete head, and set its deadline with its first byte."""
        if self.is_head_open:
            self.num_head += num_bytes
        else:
            self.is_head_open = True
            # If the piece also ended another request, the size of this head in it is unknown.
            alone = self.cycle is before and (before is None or before.response_complete)
            self.num_head = num_bytes if alone else 0
            if self.cycle is not None:
                self.deadline = self.loop.time() + self.limits.header_timeout_s
        limit = self.limits.headers_max_bytes
        if self.num_head >= limit:
            self.reject("HEADERS_TOO_LARGE", f"a request head may have at most {limit} bytes")

    def _watch_body(self, num_bytes: int, cycle: RequestResponseCycle) -> None:
        """Check the size of input that adds nothing to a body, and set the deadline of a body."""
        self.is_head_open = False
        if self.body_of is not cycle:
            self.body_of = cycle
            self.num_overhead = 0
            if not cycle.response_complete:
                self.deadline = self.loop.time() + self.limits.body_timeout_s
        self.num_overhead += num_bytes
        if self.num_overhead <= OVERHEAD_MAX:
            return
        if cycle.response_complete:
            self._finish()
        else:
            self.reject("BAD_REQUEST", f"{OVERHEAD_MAX} bytes of a body added nothing to it")

    def on_body(self, body: bytes) -> None:
        """Store a part of a body, unless its request was answered already."""
        cycle = self.cycle
        if cycle.response_complete:
            return
        self.num_overhead = 0
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    # ----- requests --------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Start a request, unless its head repeats a header that may appear once."""
        single = [name for name, _ in self.headers if name in SINGLE]
        if len(single) > len(set(single)):
            self.repeated = next(name for name in single if single.count(name) > 1)
            raise ValueError(f"{self.repeated!r} is repeated")  # ends the parsing
        if self.parser.should_upgrade() and not self._should_upgrade():
            self.skips_upgrade = any(name == b"upgrade" for name, _ in self.headers)
        if not self.skips_upgrade:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note the end of a request, unless it is parsed again."""
        if not self.skips_upgrade:
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Note a request to hand on; its body may be in the data being parsed."""
        self.running, self.starting = cycle, app

    def _start(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Hand a request on: at once if it has arrived whole and alone, else through ASGI.

        Pipelined requests each get a task, so that no client blocks the event loop with them.
        """
        self.running, self.starting = cycle, None
        scope = cast("dict[str, Any]", cycle.scope)
        if cycle.keep_alive and scope["method"] != "HEAD":
            send_reply = partial(self.reply, cycle)
            is_alone = not (cycle.more_body or self.pipeline or self.flow.write_paused)
            if is_alone and self.at_once and self.at_once(scope, bytes(cycle.body), send_reply):
                return
            scope["extensions"] = {REPLY: send_reply}
        cycle.transport = cast("asyncio.Transport", _JoinedTransport(cycle, self.transport))
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(partial(self._release, cycle))
        self.tasks.add(task)

    def _release(self, cycle: RequestResponseCycle, task: "asyncio.Task[None]") -> None:
        """Break the reference cycle of a finished request, so that it is freed at once."""
        self.tasks.discard(task)
        cycle.scope.pop("extensions", None)
        cycle.transport = self.transport

    def _start_plain(self, at_once: AtOnce, data: bytes) -> bool:
        """Hand on a whole request with a plain head; return whether that was possible."""
        head = read_head(data[: data.find(END, 0, self.plain_max) + len(END)])
        if head is None or len(data) != head.num_request or self.flow.write_paused:
            return False
        before, cycle = (self.scope, self.cycle, self.running, self.deadline), _PlainRequest()
        self.scope, self.cycle, self.running, self.deadline = cycle.scope, cycle, cycle, NEVER
        scope = {
            **head.scope,
            "client": self.client,
            "server": self.server,
            "scheme": self.scheme,
        }
        if at_once(scope, data[head.num_bytes :], partial(self.reply, cycle)):
            return True
        self.scope, self.cycle, self.running, self.deadline = before
        return False

    def reply(
        self, cycle: RequestResponseCycle | _PlainRequest, status: int, lines: bytes, body: bytes
    ) -> bool:
        """Write a whole reply, for a third of the cost of two ASGI messages.

        Args:
            cycle: the request.
            status: the status of the reply.
            lines: the header lines, with the content length and without ``connection``.
            body: the body.

        Returns False if nothing was written, since the client is slow or has left.
        """
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        last = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        cycle.response_started = cycle.response_complete = True
        shared = self.shared
        headers, default_lines = shared.written_headers
        if headers is not shared.default_headers:  # replaced every second
            default_lines = b"".join([b"%b: %b\r\n" % each for each in shared.default_headers])
            shared.written_headers = shared.default_headers, default_lines
        self.transport.write(
            b"%b%b%b%b%b" % (STATUS_LINE[status], default_lines, lines, last, body)
        )
        if not cycle.keep_alive:
            self.transport.close()
        cycle.message_event.set()
        self._next_request()
        return True

    def on_response_complete(self) -> None:
        """Send the head if it was held back, and continue."""
        running = cast("RequestResponseCycle", self.running)
        cast("_JoinedTransport", running.transport).flush()
        self._next_request()

    def _next_request(self) -> None:
        """Continue with a waiting request, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start(*self.pipeline.pop())
            if not self.pipeline:
                self._parse_waiting()
        elif self.problem is not None:
            self._send_problem(self.problem)
        elif self.is_half_closed:
            self.transport.close()
        else:
            self.flow.resume_reading()
            if not self.is_head_open:
                self.deadline = self.loop.time() + self.keep_alive_s

    def _parse_waiting(self) -> None:
        """Parse the data that waited, and continue reading."""
        self.flow.is_held = False
        self.flow.resume_reading()
        data, self.unparsed = self.unparsed, b""
        self.data_received(data)

    # ----- WebSockets ------------------------------------------------------------------------

    def _upgrade(self) -> None:
        """Become a WebSocket, unless a request waits for its reply."""
        if self.is_answering:
            self.cycle.keep_alive = False
            self.ignores_input = True
            self.deadline = NEVER
        elif not self.url.isascii():
            self.reject("BAD_REQUEST", "invalid HTTP/1.1 request: the URL is not ASCII")
        else:
            self.handle_websocket_upgrade()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol; it stays counted."""
        self.ignores_input = True
        self.connections.discard(self)
        self.is_counted: bool = False
        make: Any = self.ws_protocol_class
        protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.app_state
        )
        protocol.connection_made(self.transport)
        # Set before the request is parsed again, so that the end of the connection is noticed.
        self.transport.set_protocol(protocol)
        lines = [b"%b %b HTTP/1.1" % (self.scope["method"].encode(), self.url)]
        lines += [b"%b: %b" % header for header in self.headers]
        protocol.start_handshake(b"\r\n".join([*lines, b"", b""]))

    # ----- rejections ------------------------------------------------------------------------

    def reject(self, code: str, detail: str) -> None:
        """Reject the input once everything before it is answered, and close the connection."""
        self.shared.rejected[code] += 1
        self.problem = rejection(code, detail, self.new_request_id())
        self.ignores_input = True
        self.deadline = NEVER
        cycle = self.cycle
        has_started: bool = cycle is self.running
        if not self.is_body_open:
            if not self.is_answering:
                self._send_problem(self.problem)
        elif not has_started:
            self.pipeline.popleft()
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
            else:
                self._send_problem(self.problem)

    def _send_problem(self, problem: Problem) -> None:
        self.transport.write(as_http(problem, self.server_state.default_headers))
        self._finish()

    def _finish(self) -> None:
        """Close the writing side, and discard further input for a while.

        A connection that is closed with unread input is reset, and its last reply may be lost.
        """
        self.ignores_input = True
        self.flow.is_held = False
        self.flow.resume_reading()
        with suppress(OSError):  # the client has disconnected
            self.transport.write_eof()
        self.deadline: float = self.loop.time() + self.limits.linger_s
