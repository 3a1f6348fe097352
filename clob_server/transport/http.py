"""HTTP/1.1 for clients one does not know: what they send is bounded in size and in time.

What cannot become a request is refused here, in the shape of all refusals, and only after what was
asked before on the same connection has been answered. Then the connection ends.
"""

import asyncio
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from clob_server.api.problems import Problem
from clob_server.transport.config import TransportConfig, as_http, refusal
from clob_server.transport.connections import NEVER, PIECE_BYTES, Connections, write_eof
from clob_server.transport.response import Answering, HeldFlow

USELESS_MAX: Final = 65_536
"""How many bytes a client may send with a request that are no body anybody takes."""
WAITING_MAX: Final = 65_536
"""How many bytes of a client may wait behind his requests before no more are read."""


class HttpProtocol(Answering):
    """A connection.

    Args:
        config: the configuration.
        server_state: what all connections share.
        app_state: what the lifespan of the application left for its requests.
    """

    flow: HeldFlow
    is_inside: bool
    deadline: float
    is_deaf: bool
    is_over: bool
    is_head_open: bool
    refusal: Problem | None

    def __init__(
        self,
        config: TransportConfig,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.piece_max: int = min(PIECE_BYTES, config.limits.headers_max_bytes)
        self.unparsed: bytes = b""
        self.num_head: int = 0
        self.num_useless: int = 0
        self.body_of: RequestResponseCycle | None = None

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
    def is_idle(self) -> bool:
        """If no request has begun to come, and none waits for its answer."""
        cycle = self.cycle
        is_done = cycle is None or (cycle.response_complete and not cycle.more_body)
        return is_done and not self.is_head_open

    @property
    def is_body_open(self) -> bool:
        """If the body of the last request is wanted and has not come whole."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        if self.is_deaf:
            return
        is_long = len(data) > self.piece_max
        if not self.is_idle:
            (self._parse_long if is_long or self.is_head_open or self.pipeline else self._parse)(
                data
            )
            return
        head = self.gate.heads.find(data)
        if head is not None and self.start_whole(head, data):
            return
        if is_long:
            before = self.cycle
            self._parse_long(data)
            if self.cycle is not before:
                self._get_to_know(data)
        else:
            self.unknown = data
            self._parse(data)
            self.unknown = None

    def _get_to_know(self, data: bytes) -> None:
        """Keep the head of a long request that came whole, so that the next is answered at once.

        This one is not, since it began to be answered before its body was there.
        """
        cycle = self.cycle
        is_alone = not (self.is_deaf or self.is_head_open or self.pipeline)
        if self.at_once and is_alone and cycle.keep_alive and not cycle.more_body:
            self.gate.heads.keep(data, len(cycle.body), cycle.scope)

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
            self.start(cast("RequestResponseCycle", self.running), self.starting)

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

    def parse_on(self) -> None:
        """Parse what waited, and read on."""
        self.flow.is_held = False
        self.flow.resume_reading()
        data, self.unparsed = self.unparsed, b""
        self.data_received(data)

    def refuse(self, code: str, detail: str) -> None:
        """Refuse what comes in, when everything before it is answered, and end.

        Args:
            code: one of :data:`~clob_server.api.problems.PROBLEMS`.
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
                self.say(self.refusal)
        elif not has_begun:
            self.pipeline.popleft()  # it has not begun, and never will
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
            else:
                self.say(self.refusal)

    # ----- refusals --------------------------------------------------------------------------

    def say(self, made: Problem) -> None:
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
