"""The end of a route: who asks, how much he may, the body, the handler, the shape of a refusal.

A request is answered as ASGI has it, or at once: without a task of its own, as far as that goes.
What that saves stands in ``benchmarks/README.md``.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Final

from clob import ClobError
from clob_server.api.problems import CONTENT_TYPE, ApiError, Headers, refusal_of
from clob_server.api.request import (
    CLOSE,
    ApiRequest,
    Outcome,
    QueuedCommand,
    Receive,
    Reply,
    Route,
    Scope,
    Send,
    read_body,
)
from clob_server.log import LogFailedError
from clob_server.transport import REPLY

if TYPE_CHECKING:
    from clob_server.core.sequencer import Committed
    from clob_server.service import Service
    from clob_server.transport import Way

_LOG: Final = logging.getLogger("clob_server.requests")


class Endpoint:
    """An ASGI application of one route.

    Args:
        service: what is asked.
        route: the route.
    """

    def __init__(self, service: "Service", route: Route) -> None:
        self._service = service
        self._route = route
        self._seconds = service.metrics.seconds(route.name)
        self._tasks: set[asyncio.Task[None]] = set()

    # ----- as ASGI has it ----------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, route = self._service, self._route
        call = ApiRequest(service, route, scope)
        try:
            service.guard.admit(call)
            if route.reads_body:
                call.body = await read_body(receive, call)
            answer = await self._outcome(route.handler(call))
        except Exception as error:
            answer = self._refuse(error, call)
        await send_reply(call, send, answer)
        self._finish(call, answer)

    async def _outcome(self, outcome: Outcome) -> Reply:
        """Wait for an answer."""
        while isinstance(outcome, QueuedCommand):
            outcome = outcome.then(await self._service.engine.wait(outcome.make))
        return outcome if isinstance(outcome, Reply) else await outcome

    # ----- at once -----------------------------------------------------------------------------

    def at_once(self, scope: Scope, body: bytes, way: "Way") -> None:
        """Answer one request, whose body is there.

        Args:
            scope: what ASGI tells of it.
            body: its body.
            way: takes the answer.
        """
        call = ApiRequest(self._service, self._route, scope)
        call.body, call.way = body, way
        try:
            self._service.guard.admit(call)
            outcome = self._route.handler(call)
            if isinstance(outcome, QueuedCommand):
                self._ask(call, outcome)
                return
        except Exception as error:
            outcome = self._refuse(error, call)
        self._answer(call, outcome)

    def _ask(self, call: ApiRequest, asked: QueuedCommand) -> None:
        """Ask the engine, and go on when it has answered."""
        self._service.engine.put(asked.make, partial(self._hear, call, asked))

    def _hear(self, call: ApiRequest, asked: QueuedCommand, came: "Committed | Exception") -> None:
        """Go on with what came of a command."""
        try:
            if isinstance(came, Exception):
                raise came
            outcome = asked.then(came)
            if isinstance(outcome, QueuedCommand):
                self._ask(call, outcome)
                return
        except Exception as error:
            outcome = self._refuse(error, call)
        self._answer(call, outcome)

    def _answer(self, call: ApiRequest, outcome: Reply | Awaitable[Reply]) -> None:
        """Answer, or see to it that it is done when something else has come."""
        if isinstance(outcome, Reply):
            self._send(call, outcome)
        else:
            task = asyncio.get_running_loop().create_task(self._wait(call, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, call: ApiRequest, awaited: Awaitable[Reply]) -> None:
        """Answer when something else has come."""
        try:
            answer = await awaited
        except Exception as error:
            answer = self._refuse(error, call)
        self._send(call, answer)

    def _send(self, call: ApiRequest, answer: Reply) -> None:
        """Send an answer in one go; where that fails, nobody is there to take it."""
        assert call.way is not None
        call.way(answer.status, lines_of(answer, call), answer.body)
        self._finish(call, answer)

    # ----- either way --------------------------------------------------------------------------

    def _refuse(self, error: Exception, call: ApiRequest) -> Reply:
        """Make the answer to a request that is refused, and count it."""
        if isinstance(error, LogFailedError):  # the process ends, and the next one knows
            told = "the log has failed, and nobody knows whether this was done; the server ends"
            error = ApiError("OUTCOME_UNKNOWN", told)
        elif not isinstance(error, ClobError):
            _LOG.error("unforeseen", exc_info=error, extra={"request_id": call.request_id})
            error = ApiError("INTERNAL", "this is our mistake")
        refusal = refusal_of(error, call.request_id)
        self._service.metrics.refused(error.code)
        return Reply(refusal.body, refusal.status, refusal.headers, CONTENT_TYPE)

    def _finish(self, call: ApiRequest, answer: Reply) -> None:
        """Count a request that was answered."""
        taken_s = time.perf_counter() - call.begun_s
        self._seconds.observe(taken_s)
        if self._service.settings.access_log:
            log_access(call, answer.status, taken_s)


async def send_reply(call: ApiRequest, send: Send, answer: Reply) -> None:
    """Send an answer, in one go where the transport takes it so."""
    status, body = answer.status, answer.body
    way = call.scope["extensions"].get(REPLY) if "extensions" in call.scope else None
    if way is None or answer.headers == CLOSE or not way(status, lines_of(answer, call), body):
        headers = headers_of(answer, call)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def headers_of(answer: Reply, call: ApiRequest) -> Headers:
    """Give all headers of an answer."""
    return (
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", call.request_id.encode()),
        *answer.headers,
    )


def lines_of(answer: Reply, call: ApiRequest) -> bytes:
    """Write all headers of an answer, each with the end of its line."""
    headers = answer.headers
    more = b"".join([b"%b: %b\r\n" % header for header in headers]) if headers else b""
    return b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b" % (
        answer.content_type,
        len(answer.body),
        call.request_id.encode(),
        more,
    )


def log_access(call: ApiRequest, status: int, taken_s: float) -> None:
    """Write a line about a request; nothing that came with it but method and path."""
    _LOG.info(
        "request",
        extra={
            "request_id": call.request_id,
            "method": call.scope["method"],
            "path": call.scope["path"][:200],
            "status": status,
            "taken_ms": int(taken_s * 1000),
        },
    )
