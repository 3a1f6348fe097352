"""HTTP/1.1 for clients one does not know: what they send is bounded in size and in time.

What cannot become a request is refused here, in the shape of all refusals, and only after what was
asked before on the same connection has been answered. Then the connection ends.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from clob_server.problems import Refusal
from clob_server.transport.answers import HeldFlow, Joined
from clob_server.transport.gate import NEVER, PIECE_BYTES, Gate, Watched, write_eof
from clob_server.transport.limits import TransportConfig
from clob_server.transport.refusals import as_http, refusal

REPLY: Final = "clob.reply"
"""Where an application finds :meth:`HttpProtocol.reply`, in ``scope["extensions"]``."""
Header: TypeAlias = tuple[bytes, bytes]
"""The name and the value of a header."""
USELESS_MAX: Final = 65_536
"""How many bytes a client may send with a request that are no body anybody takes."""
WAITING_MAX: Final = 65_536
"""How many bytes of a client may wait behind his requests before no more are read."""


class HttpProtocol(Watched, HttpToolsProtocol):
    """A connection.

    Args:
        config: the configuration.
        server_state: what all connections share.
        app_state: what the lifespan of the application left for its requests.
    """

    flow: HeldFlow
    is_inside: bool
    deadline: float
    # The last request that was begun; None before the first, which uvicorn's own type leaves out.
    cycle: Any

    def __init__(
        self,
        config: TransportConfig,
        server_state: Gate,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.keep_alive_s: float = config.limits.keep_alive_s
        self.piece_max: int = min(PIECE_BYTES, config.limits.headers_max_bytes)
        self.is_deaf: bool = False
        """If nothing more is parsed."""
        self.at_once: Callable[[Any, bytes], bool] | None = getattr(self.app, "at_once", None)
        """Answers a request that is there whole, if the application can."""
        self.running: RequestResponseCycle | None = None
        """The request that is being answered, or was last."""
        self.starting: ASGI3Application | None = None
        """What is to answer it, as soon as all that came with it is parsed."""
        self.is_over: bool = False
        """If the client has closed his side."""
        self.unparsed: bytes = b""
        self.is_head_open: bool = False
        self.num_head: int = 0
        self.num_useless: int = 0
        self.body_of: RequestResponseCycle | None = None
        self.refusal: Refusal | None = None
        """What is said when everything before it is answered."""

    # ----- the connection --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the connection in, or refuse it."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport)
        full = self.gate.enter(self.address)
        if full is None:
            self.is_inside = True
            self.deadline = self.loop.time() + self.limits.header_timeout_s
        elif self.gate.is_crowded:
            self.is_deaf = True
            transport.abort()
        else:
            self.refuse("TOO_MANY_CONNECTIONS", full)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection for the answers that are owed; else it is closed."""
        cut_off = self.is_body_open and self.cycle is self.running
        self.is_over = self.is_answering and not cut_off
        return self.is_over

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application, also where another request waits behind the one it works on."""
        running = self.running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        self.unparsed = b""
        super().connection_lost(exc)

    def overdue(self) -> None:
        """Refuse what took too long, or close what is idle."""
        if self.is_deaf:
            self.transport.abort()
        elif self.is_head_open:
            self.refuse(
                "REQUEST_TIMEOUT",
                f"the head of a request must arrive within {self.limits.header_timeout_s} s",
            )
        elif self.is_body_open:
            self.refuse(
                "REQUEST_TIMEOUT",
                f"the body of a request must arrive within {self.limits.body_timeout_s} s",
            )
        else:
            self.transport.close()

    # ----- what comes in ---------------------------------------------------------------------

    @property
    def is_answering(self) -> bool:
        """If a request is being answered."""
        return self.running is not None and not self.running.response_complete

    @property
    def is_body_open(self) -> bool:
        """If the body of the last request is wanted and has not come whole."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        if self.is_deaf:
            return
        if self.is_head_open or self.pipeline or len(data) > self.piece_max:
            self._parse_long(data)
        else:
            self._parse(data)

    def _parse_long(self, data: bytes) -> None:
        """Parse piece by piece; what comes behind a waiting request waits, too."""
        start, most = 0, self.limits.headers_max_bytes
        while start < len(data) and not self.is_deaf:
            if self.pipeline:
                self.unparsed += data[start:]
                self._hold()
                return
            room = most - self.num_head if self.is_head_open else self.piece_max
            piece = data[start : start + min(room, self.piece_max)]
            start += len(piece)
            self._parse(piece)

    def _parse(self, data: bytes) -> None:
        """Parse a piece, and answer the request that has begun with it."""
        self._take_in(data)
        if self.starting is not None:
            self._start(cast("RequestResponseCycle", self.running), self.starting)

    def _take_in(self, data: bytes) -> None:
        """Parse a piece, and see what the client owes after it."""
        before = self.cycle
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
            return
        except httptools.HttpParserError as error:
            self.refuse("BAD_REQUEST", f"this is not a request of HTTP/1.1: {error}")
            return
        cycle = self.cycle
        if self.pipeline:
            self._hold()
        elif cycle is None or cycle.scope is not self.scope:
            self._watch_head(len(data), before)
        elif cycle.more_body or cycle.response_complete:
            self._watch_body(len(data), cycle)
        else:
            self.is_head_open = False
            self.deadline = NEVER

    def _hold(self) -> None:
        """Read on while little waits behind a request, to hear if the client has gone."""
        self.deadline = NEVER
        self.flow.is_held = len(self.unparsed) > WAITING_MAX
        if self.flow.is_held:
            self.flow.pause_reading()
        else:
            self.flow.resume_reading()

    def _watch_head(self, num_bytes: int, before: RequestResponseCycle | None) -> None:
        """Count a head that has not come whole, and its time from its first byte on."""
        if self.is_head_open:
            self.num_head += num_bytes
        else:
            self.is_head_open = True
            # What else was in the first piece is not known where it had the end of a request.
            alone = self.cycle is before and (before is None or before.response_complete)
            self.num_head = num_bytes if alone else 0
            if self.cycle is not None:
                self.deadline = self.loop.time() + self.limits.header_timeout_s
        most = self.limits.headers_max_bytes
        if self.num_head >= most:
            self.refuse("HEADERS_TOO_LARGE", f"the head of a request may have {most} bytes")

    def _watch_body(self, num_bytes: int, cycle: RequestResponseCycle) -> None:
        """Count what is no body, or one that nobody wants; and the time of one that is wanted."""
        self.is_head_open = False
        if self.body_of is not cycle:
            self.body_of = cycle
            self.num_useless = 0
            if not cycle.response_complete:
                self.deadline = self.loop.time() + self.limits.body_timeout_s
        self.num_useless += num_bytes
        if self.num_useless <= USELESS_MAX:
            return
        if cycle.response_complete:
            self._finish()
        else:
            self.refuse("BAD_REQUEST", f"{USELESS_MAX} bytes of a body had nothing of it")

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, unless its request is answered already."""
        cycle = self.cycle
        if cycle.response_complete:
            return
        self.num_useless = 0
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def _upgrade(self) -> None:
        """Become a WebSocket; what else a client would like to become is not heard."""
        if not self._should_upgrade() or self.is_answering:
            self._hear_no_more()
        elif not self.url.isascii():
            self.refuse("BAD_REQUEST", "this is not a request of HTTP/1.1: the URL is not ASCII")
        else:
            self.handle_websocket_upgrade()

    def _hear_no_more(self) -> None:
        """Make the last request the last."""
        self.cycle.keep_alive = False
        self.is_deaf = True
        self.deadline = NEVER

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, which stays counted in."""
        self.is_deaf = True
        self.connections.discard(self)
        self.is_inside = False
        make: Any = self.ws_protocol_class
        protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.app_state
        )
        protocol.connection_made(self.transport)
        # Before the request is parsed again, so that its end is heard whatever comes of that.
        self.transport.set_protocol(protocol)
        lines = [b"%b %b HTTP/1.1" % (self.scope["method"].encode(), self.url)]
        lines += [b"%b: %b" % header for header in self.headers]
        protocol.begin(b"\r\n".join([*lines, b"", b""]))

    # ----- what goes out ---------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Have a request answered; its body may be in what is being parsed."""
        self.running, self.starting = cycle, app

    def _start(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Answer a request: at once if it came whole and alone, else as ASGI has it.

        Each of many in a row has a task, so that no client holds the loop with them.
        """
        self.running, self.starting = cycle, None
        cycle.transport = cast("asyncio.Transport", Joined(cycle, self.transport))
        scope = cast("dict[str, Any]", cycle.scope)
        if cycle.keep_alive and scope["method"] != "HEAD":
            scope["extensions"] = {REPLY: partial(self.reply, cycle)}
            is_alone = not (cycle.more_body or self.pipeline or self.flow.write_paused)
            if is_alone and self.at_once is not None and self.at_once(scope, bytes(cycle.body)):
                return
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def reply(
        self, cycle: RequestResponseCycle, status: int, headers: Iterable[Header], body: bytes
    ) -> bool:
        """Send an answer that is whole, in one go; a third of what two messages of ASGI cost.

        Args:
            cycle: the request that is answered.
            status: how it went.
            headers: without line breaks; the length among them, and no ``connection``.
            body: what it says.

        Returns:
            False where it has to be sent as ASGI has it, since the client is slow or has gone.
        """
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        parts = [STATUS_LINE[status]]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:  # the server has begun to end
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", body)
        cycle.response_started = cycle.response_complete = True
        self.transport.write(b"".join(parts))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.message_event.set()
        cycle.on_response()
        return True

    def on_response_complete(self) -> None:
        """Go on with what waits, or wait for the next request."""
        cast("Joined", self.running.transport).flush()  # type: ignore[union-attr]
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start(*self.pipeline.pop())
            if not self.pipeline:
                self._parse_on()
        elif self.refusal is not None:
            self._answer(self.refusal)
        elif self.is_over:
            self.transport.close()
        else:
            self.flow.resume_reading()
            if not self.is_head_open:
                self.deadline = self.loop.time() + self.keep_alive_s

    def _parse_on(self) -> None:
        """Parse what waited, and read on."""
        self.flow.is_held = False
        self.flow.resume_reading()
        data, self.unparsed = self.unparsed, b""
        self.data_received(data)

    def refuse(self, code: str, detail: str) -> None:
        """Refuse what comes in, when everything before it is answered, and end.

        Args:
            code: one of :data:`~clob_server.problems.PROBLEMS`.
            detail: the rule, the value and the limit.
        """
        self.gate.refused[code] += 1
        self.refusal = refusal(code, detail, self.new_request_id())
        self.is_deaf = True
        self.deadline = NEVER
        cycle = self.cycle
        has_begun: bool = cycle is self.running
        if not self.is_body_open:
            if not self.is_answering:
                self._answer(self.refusal)
        elif not has_begun:
            self.pipeline.popleft()  # it has not begun, and never will
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
            else:
                self._answer(self.refusal)

    def _answer(self, made: Refusal) -> None:
        """Send a refusal, and end."""
        self.transport.write(as_http(made, self.server_state.default_headers))
        self._finish()

    def _finish(self) -> None:
        """End the connection from this side.

        What the client still sends is thrown away for a while: closed with unread bytes, a
        connection is reset, and the answer may be lost on its way.
        """
        self.is_deaf = True
        self.flow.is_held = False
        self.flow.resume_reading()
        write_eof(self.transport)
        self.deadline = self.loop.time() + self.limits.linger_s
