"""The half of a connection that answers: at once, or as ASGI has it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias, cast

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from clob_server.api.problems import Problem
from clob_server.transport.config import TransportConfig
from clob_server.transport.connections import NEVER, Connections, Watched
from clob_server.transport.head_cache import RequestHead, Whole


class HeldFlow(FlowControl):
    """A flow that stays paused while much waits behind a request that is being answered."""

    is_held = False

    def resume_reading(self) -> None:
        """Read on, unless much waits."""
        if self.read_paused and not self.is_held:
            super().resume_reading()


class Joined:
    """The transport of one answer, whose head goes out with the beginning of its body.

    uvicorn writes them one after the other, and each write is a call of the system and a packet.

    Args:
        cycle: the answer.
        transport: where it goes.
    """

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Hold the head back, which comes first; send the rest as it comes."""
        if self._head is None and self._cycle.response_started:
            self._head = data
        elif self._head is None:  # 100 Continue, before the answer
            self._transport.write(data)
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = b""

    def flush(self) -> None:
        """Send the head, if no body came."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what is left, and close the connection."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)


REPLY: Final = "clob.reply"
"""Where an application finds :meth:`Answering.reply`, in ``scope["extensions"]``."""
Way: TypeAlias = Callable[[int, bytes, bytes], bool]
"""Takes an answer: its status, the lines of its headers, its body; see :meth:`Answering.reply`.
"""
AtOnce: TypeAlias = Callable[[dict[str, Any], bytes, Way], bool]
"""Takes what ASGI tells of a request, its body and the way of its answer; says if it took it."""


class Answering(Watched, HttpToolsProtocol):
    """A connection, as far as it answers.

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
    # What ASGI tells of it; None where the parser has not seen it.
    scope: Any

    def __init__(
        self,
        config: TransportConfig,
        server_state: Connections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.keep_alive_s: float = config.limits.keep_alive_s
        self.at_once: AtOnce | None = getattr(self.app, "at_once", None)
        """Answers a request that is there whole, if the application can. What it takes once, it
        takes whenever method, path and the size of the body are the same."""
        self.running: RequestResponseCycle | Whole | None = None
        """The request that is being answered, or was last."""
        self.starting: ASGI3Application | None = None
        """What is to answer it, as soon as all that came with it is parsed."""
        self.unknown: bytes | None = None
        """What is being parsed, if it may be a request that comes whole and alone."""
        self.is_over: bool = False
        """If the client has closed his side."""
        self.is_deaf: bool = False
        """If nothing more is parsed."""
        self.is_head_open: bool = False
        """If the head of a request has begun, and has not come whole."""
        self.refusal: Problem | None = None
        """What is said when everything before it is answered."""

    @property
    def is_answering(self) -> bool:
        """If a request is being answered."""
        return self.running is not None and not self.running.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Have a request answered; its body may be in what is being parsed."""
        self.running, self.starting = cycle, app

    def start(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Answer a request: at once if it came whole and alone, else as ASGI has it.

        Each of many in a row has a task, so that no client holds the loop with them.
        """
        self.running, self.starting = cycle, None
        scope = cast("dict[str, Any]", cycle.scope)
        if cycle.keep_alive and scope["method"] != "HEAD":
            way = partial(self.reply, cycle)
            is_alone = not (cycle.more_body or self.pipeline or self.flow.write_paused)
            if is_alone and self.at_once is not None:
                body = bytes(cycle.body)
                if self.at_once(scope, body, way):
                    if self.unknown is not None:
                        self.gate.heads.keep(self.unknown, len(body), scope)
                    return
            scope["extensions"] = {REPLY: way}
        cycle.transport = cast("asyncio.Transport", Joined(cycle, self.transport))
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(partial(self._let_go, cycle))
        self.tasks.add(task)

    def _let_go(self, cycle: RequestResponseCycle, task: "asyncio.Task[None]") -> None:
        """Take a request apart that is done with.

        Its parts hold each other, and the collector would have to find them one by one.
        """
        self.tasks.discard(task)
        cycle.scope.pop("extensions", None)
        cycle.transport = self.transport

    def start_whole(self, head: RequestHead, data: bytes) -> bool:
        """Answer a request at once whose head is known; say if that could be done."""
        if self.at_once is None or self.flow.write_paused:
            return False
        before, cycle = (self.scope, self.cycle, self.running, self.deadline), Whole()
        self.scope, self.cycle, self.running, self.deadline = cycle.scope, cycle, cycle, NEVER
        scope = {
            **head.scope,
            "client": self.client,
            "server": self.server,
            "scheme": self.scheme,
        }
        if self.at_once(scope, data[head.num_head :], partial(self.reply, cycle)):
            return True
        self.scope, self.cycle, self.running, self.deadline = before
        return False

    def reply(
        self, cycle: RequestResponseCycle | Whole, status: int, lines: bytes, body: bytes
    ) -> bool:
        """Send an answer that is whole, in one go; a third of what two messages of ASGI cost.

        Args:
            cycle: the request that is answered.
            status: how it went.
            lines: the headers, each with the end of its line; the length among them, and no
                ``connection``.
            body: what it says.

        Returns:
            False where it has to be sent as ASGI has it, since the client is slow or has gone.
        """
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        last = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"  # it has begun to end
        cycle.response_started = cycle.response_complete = True
        self.transport.write(
            b"%b%b%b%b%b" % (STATUS_LINE[status], self.gate.default_lines, lines, last, body)
        )
        if not cycle.keep_alive:
            self.transport.close()
        cycle.message_event.set()
        self._go_on()
        return True

    def on_response_complete(self) -> None:
        """Send what is held back of an answer, and go on."""
        cast("Joined", cast("RequestResponseCycle", self.running).transport).flush()
        self._go_on()

    def _go_on(self) -> None:
        """Go on with what waits, or wait for the next request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self.start(*self.pipeline.pop())
            if not self.pipeline:
                self.parse_on()
        elif self.refusal is not None:
            self.say(self.refusal)
        elif self.is_over:
            self.transport.close()
        else:
            self.flow.resume_reading()
            if not self.is_head_open:
                self.deadline = self.loop.time() + self.keep_alive_s

    # ----- what the other half does ------------------------------------------------------------

    def parse_on(self) -> None:
        """Parse what waited, and read on."""
        raise NotImplementedError

    def say(self, made: Problem) -> None:
        """Send a refusal, and end."""
        raise NotImplementedError


# MERGED clob_server.transport.response: The way that answers take: in one packet, where that can be.
