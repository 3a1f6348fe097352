"""The end of a route: who asks, how much he may, the body, the handler, the shape of a refusal.

A request is answered as ASGI has it, or at once: without a task of its own, as far as that goes.
What that saves stands in ``benchmarks/README.md``.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from clob import ClobError
from clob_server.calls import (
    CLOSE,
    Ask,
    Call,
    Outcome,
    Receive,
    Reply,
    Route,
    Scope,
    Send,
    read_body,
)
from clob_server.log import LogFailedError
from clob_server.problems import CONTENT_TYPE, ApiError, Headers, refusal_of
from clob_server.transport import REPLY

if TYPE_CHECKING:
    from clob_server.engine import Done
    from clob_server.service import Service

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
        call = Call(service, route, scope)
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
        while isinstance(outcome, Ask):
            outcome = outcome.then(await self._service.engine.wait(outcome.make))
        return outcome if isinstance(outcome, Reply) else await outcome

    # ----- at once -----------------------------------------------------------------------------

    def at_once(self, scope: Scope, body: bytes) -> None:
        """Answer one request, whose body is there, through ``clob.reply`` alone."""
        call = Call(self._service, self._route, scope)
        call.body = body
        self._go_on(call, partial(self._begin, call))

    def _begin(self, call: Call) -> Outcome:
        """Let a request in, and have it handled."""
        self._service.guard.admit(call)
        return self._route.handler(call)

    def _go_on(self, call: Call, work: Callable[[], Outcome]) -> None:
        """Do what can be done by now, and answer, or see to it that it goes on later."""
        try:
            outcome = work()
            if isinstance(outcome, Ask):
                self._service.engine.put(outcome.make, partial(self._hear, call, outcome))
                return
        except Exception as error:
            outcome = self._refuse(error, call)
        if isinstance(outcome, Reply):
            self._send(call, outcome)
        else:
            task = asyncio.get_running_loop().create_task(self._wait(call, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _hear(self, call: Call, asked: Ask, came: "Done | Exception") -> None:
        """Go on with what came of a command."""
        if isinstance(came, Exception):
            self._send(call, self._refuse(came, call))
        else:
            self._go_on(call, partial(asked.then, came))

    async def _wait(self, call: Call, awaited: Awaitable[Reply]) -> None:
        """Answer when something else has come."""
        try:
            answer = await awaited
        except Exception as error:
            answer = self._refuse(error, call)
        self._send(call, answer)

    def _send(self, call: Call, answer: Reply) -> None:
        """Send an answer in one go; where that fails, nobody is there to take it."""
        call.scope["extensions"][REPLY](answer.status, headers_of(answer, call), answer.body)
        self._finish(call, answer)

    # ----- either way --------------------------------------------------------------------------

    def _refuse(self, error: Exception, call: Call) -> Reply:
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

    def _finish(self, call: Call, answer: Reply) -> None:
        """Count a request that was answered."""
        taken_s = time.perf_counter() - call.begun_s
        self._seconds.observe(taken_s)
        if self._service.settings.access_log:
            log_access(call, answer.status, taken_s)


async def send_reply(call: Call, send: Send, answer: Reply) -> None:
    """Send an answer, in one go where the transport takes it so."""
    status, body, headers = answer.status, answer.body, headers_of(answer, call)
    whole = call.scope["extensions"].get(REPLY) if "extensions" in call.scope else None
    if whole is None or answer.headers == CLOSE or not whole(status, headers, body):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def headers_of(answer: Reply, call: Call) -> Headers:
    """Give all headers of an answer."""
    return (
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", call.request_id.encode()),
        *answer.headers,
    )


def log_access(call: Call, status: int, taken_s: float) -> None:
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
