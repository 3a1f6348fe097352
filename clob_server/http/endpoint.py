"""Authenticates, rate-limits and dispatches requests, and sends their replies.

A request that has arrived with its body is answered without a task of its own; others are answered
through ASGI. ``benchmarks/README.md`` has the savings.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router as StarletteRouter

from clob import ClobError
from clob.signing.fields import received
from clob_server.api.faults import check_names
from clob_server.api.problems import CONTENT_TYPE, ApiError, Headers, problem_of
from clob_server.api.request import CLOSE, REPLY, Receive, Reply, Scope, Send, SendReply
from clob_server.auth.policy import NO_ROUTE
from clob_server.core.sequencer import Committed, QueuedCommand
from clob_server.http.compression import COMPRESS_MIN, compressed
from clob_server.http.server import Request, Response, Route, Server
from clob_server.log import LogFailedError
from clob_server.telemetry.metrics import Durations

APPLIED_SEQ: Final = b"x-applied-seq"
"""Header with the last command that a reply contains."""

_MARKETS: Final = "/api/markets/"
_ORDERBOOK: Final = "/orderbook"
_LOG: Final = logging.getLogger("clob_server.requests")


class Router:
    """The ASGI application behind the lifespan: finds the endpoint of each request."""

    def __init__(self, server: Server, routes: Sequence[Route]) -> None:
        by_path: dict[str, dict[str, Endpoint]] = {}
        self.endpoints: Final = {route: Endpoint(server, route) for route in routes}
        """The endpoint of each route."""
        self._by_name = {route.name: route for route in routes}
        for route, endpoint in self.endpoints.items():
            by_path.setdefault(route.path, {})[route.method] = endpoint
        self._hot: dict[tuple[str, str], Endpoint] = {
            (method, path): endpoint
            for path, endpoints in by_path.items()
            for method, endpoint in endpoints.items()
            if "{" not in path
        }
        self.waits_for_body: Final = frozenset(
            (route.method, route.path)
            for route in routes
            if route.reads_body and "{" not in route.path
        )
        """The methods and paths of requests that are handed on with their whole body."""
        self._orderbook = by_path["/api/markets/{marketId}/orderbook"]["GET"]
        self._body_max = server.settings.body_max_bytes
        others: list[BaseRoute] = [
            StarletteRoute(path, _Methods(server, endpoints)) for path, endpoints in by_path.items()
        ]
        others += [WebSocketRoute(path, app) for path, app in server.sockets.items()]
        self._unknown = _Methods(server, {})
        self._reject_socket = server.feed.reject_path
        self._others = StarletteRouter(others, redirect_slashes=False, default=self._reject_path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or a WebSocket through ASGI."""
        endpoint = self._find(scope) if scope["type"] == "http" else None
        # The expressions of Starlette ignore a line break at the end of a path.
        others = self._reject_path if scope["path"].endswith("\n") else self._others
        await (endpoint or others)(scope, receive, send)

    async def _reject_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request or a WebSocket at a path that no route has."""
        is_http = scope["type"] == "http"
        await (self._unknown if is_http else self._reject_socket)(scope, receive, send)

    def at_once(self, scope: Scope, body: bytes, send_reply: SendReply) -> bool:
        """Handle a request that has arrived whole, without a task of its own.

        Returns False if the request has to be handled through ASGI; then nothing was done.
        """
        endpoint = self._hot.get((scope["method"], scope["path"])) or self._find(scope)
        if endpoint is None or len(body) > self._body_max:
            return False
        endpoint.at_once(scope, body, send_reply)
        return True

    def start(self, name: str, scope: Scope, body: bytes, send_reply: SendReply) -> None:
        """Handle a request that another node has sent, by the name of its route."""
        route = self._by_name[name]
        scope["method"] = route.method
        self.endpoints[route].at_once(scope, body, send_reply)

    def _find(self, scope: Scope) -> "Endpoint | None":
        """Return the endpoint of a request if it is known without a search."""
        path: str = scope["path"]
        endpoint = self._hot.get((scope["method"], path))
        if (
            endpoint is None
            and path.endswith(_ORDERBOOK)
            and path.startswith(_MARKETS)
            and scope["method"] == "GET"
            and "/" not in (market := path[len(_MARKETS) : -len(_ORDERBOOK)])
        ):
            scope["path_params"] = {"marketId": market}
            return self._orderbook
        return endpoint


class _Methods:
    """A path: dispatches by method, and rejects the methods that it lacks."""

    def __init__(self, server: Server, endpoints: "dict[str, Endpoint]") -> None:
        self._endpoints = dict(endpoints)
        if "GET" in endpoints:
            self._endpoints["HEAD"] = endpoints["GET"]
        allowed = ", ".join(sorted(self._endpoints)).encode()

        async def reject(call: Request) -> Reply:
            if not endpoints:
                raise ApiError(
                    "NOT_FOUND", f"there is nothing at {received(call.scope['path'][:99])}"
                )
            raise ApiError(
                "METHOD_NOT_ALLOWED",
                f"method must be one of {allowed.decode()}; got {call.scope['method'][:20]}",
                headers=((b"allow", allowed),),
            )

        self._reject = Endpoint(server, Route(NO_ROUTE, "", "", reject))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a request."""
        await self._endpoints.get(scope["method"], self._reject)(scope, receive, send)


class Endpoint:
    """An ASGI application of one route."""

    def __init__(self, server: Server, route: Route) -> None:
        self._server = server
        self._route = route
        self._handle: Callable[[Request], Response] = (
            partial(route.handler, getattr(server, route.part)) if route.part else route.handler
        )
        self._admit = server.guard.admit
        self._clock = server.clock
        self._needs_time = route.needs_time
        self._writes = route.method not in ("GET", "")
        self._sequencer = server.sequencer
        self._forwarding = forwarding = server.forwarding
        may_forward = forwarding and (self._writes or route.name in forwarding.reads)
        self._forward_to = forwarding if may_forward else None
        self._enqueue = server.sequencer.enqueue
        self._durations = Durations()
        server.metrics.add_durations(route.name, self._durations)
        self._logs_access = server.settings.access_log
        self._query = frozenset(route.query)
        self._checks_query = route.path.startswith("/api/")
        self._tasks: set[asyncio.Task[None]] = set()

    # ----- through ASGI ------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        call = Request(self._route.name, scope, self._server.request_ids)
        call.server = self._server
        try:
            if (forwarding := self._forward_to) is not None and forwarding.takes(call):
                if self._route.reads_body:
                    call.body = await read_body(receive, call)
                answer = await forwarding.send(call)
            else:
                answer = await self._answer(call, receive)
        except Exception as error:
            answer = self._reject(self._checked(error), call)
        if self._writes:
            call.applied_seq = max(call.applied_seq, self._sequencer.seq)
        await send_reply(call, send, answer)
        self._finish(call, answer)

    async def _answer(self, call: Request, receive: Receive) -> Reply:
        """Admit and handle a request."""
        if self._needs_time and self._clock.reason:
            raise self._clock.error()
        self._admit(call)
        if call.scope["query_string"] and self._checks_query:
            check_names(call.query(), self._query, kind="query parameter")
        if self._route.reads_body:
            call.body = await read_body(receive, call)
        response = self._handle(call)
        while isinstance(response, QueuedCommand):
            response = response.then(await self._sequencer.try_submit(response.work))
        return response if isinstance(response, Reply) else await response

    # ----- at once -----------------------------------------------------------------------------

    def at_once(self, scope: Scope, body: bytes, send_reply: SendReply) -> None:
        """Handle one request that has arrived whole."""
        call = Request(self._route.name, scope, self._server.request_ids)
        call.server, call.body, call.send_reply = self._server, body, send_reply
        try:
            if (forwarding := self._forward_to) is not None and forwarding.takes(call):
                self._send(call, forwarding.send(call))
                return
            if self._needs_time and self._clock.reason:
                raise self._clock.error()
            self._admit(call)
            if scope["query_string"] and self._checks_query:
                check_names(call.query(), self._query, kind="query parameter")
            response = self._handle(call)
            if isinstance(response, QueuedCommand):
                self._enqueue(response.work, partial(self._on_committed, call, response))
                return
        except Exception as error:
            response = self._reject_queued(error, call)
        self._send(call, response)

    def _on_committed(
        self, call: Request, queued: QueuedCommand, result: Committed | Exception
    ) -> None:
        """Reply once a command was committed."""
        try:
            if isinstance(result, Exception):
                raise result
            response = queued.then(result)
            if isinstance(response, QueuedCommand):
                self._enqueue(response.work, partial(self._on_committed, call, response))
                return
        except Exception as error:
            response = self._reject_queued(error, call)
        self._send(call, response)

    def _reject_queued(self, error: Exception, call: Request) -> Reply | Awaitable[Reply]:
        """Return the reply to a request whose command was rejected, or that of the next owner."""
        forwarding, error = self._forwarding, self._checked(error)
        if forwarding is not None and self._writes and forwarding.takes_back(call, error):
            return forwarding.send(call)
        return self._reject(error, call)

    def _checked(self, error: Exception) -> Exception:
        """Return the error of a request, as a node that may have lost the log has to state it."""
        forwarding = self._forwarding
        return forwarding.checked(error) if forwarding is not None and self._writes else error

    def _send(self, call: Request, response: Reply | Awaitable[Reply]) -> None:
        """Send a reply, or start the task that waits for it; a client that left gets nothing."""
        if isinstance(response, Reply):
            assert call.send_reply is not None
            if self._writes:
                call.applied_seq = max(call.applied_seq, self._sequencer.seq)
            if len(response.body) > COMPRESS_MIN:
                response = compressed(response, call)
            call.send_reply(response.status, header_lines(response, call), response.body)
            self._finish(call, response)
        else:
            task = asyncio.get_running_loop().create_task(self._wait(call, response))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, call: Request, awaitable: Awaitable[Reply]) -> None:
        try:
            answer = await awaitable
        except Exception as error:
            answer = self._reject(error, call)
        self._send(call, answer)

    # ----- either way --------------------------------------------------------------------------

    def _reject(self, error: Exception, call: Request) -> Reply:
        """Return the reply to a request that was rejected, and count it."""
        if isinstance(error, LogFailedError):  # the process ends; the next one reads the outcome
            rule = "the log failed, so it is unknown whether this was done; the server stops"
            error = ApiError("OUTCOME_UNKNOWN", rule)
        elif not isinstance(error, ClobError):
            _LOG.error("internal error", exc_info=error, extra={"request_id": call.request_id})
            error = ApiError("INTERNAL", "internal error; the server's log has the details")
        if error.code == "RATE_LIMITED":
            call.usage = None  # the rejection has the headers
        problem = problem_of(error, call.request_id)
        self._server.metrics.rejected(error.code)
        return Reply(problem.body, problem.status, problem.headers, CONTENT_TYPE)

    def _finish(self, call: Request, answer: Reply) -> None:
        """Count a request that was answered."""
        taken_s = time.perf_counter() - call.started_s
        self._durations.add(taken_s)
        if self._logs_access:
            log_access(call, answer.status, taken_s)


async def send_reply(call: Request, send: Send, answer: Reply) -> None:
    """Send a reply through ASGI, or in one write where the transport offers that."""
    if len(answer.body) > COMPRESS_MIN:
        answer = compressed(answer, call)
    status, body, scope = answer.status, answer.body, call.scope
    write = scope["extensions"].get(REPLY) if "extensions" in scope else None
    lines = header_lines(answer, call)
    if write is None or answer.headers == CLOSE or not write(status, lines, body):
        headers = all_headers(answer, call)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def all_headers(answer: Reply, call: Request) -> Headers:
    """Return all headers of a reply."""
    lines = usage_lines(call).split(b"\r\n")[:-1]
    applied: Headers = ((APPLIED_SEQ, b"%d" % call.applied_seq),) if call.applied_seq else ()
    return (
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-request-id", call.request_id.encode()),
        *applied,
        *answer.headers,
        *[(name, value) for name, _, value in (line.partition(b": ") for line in lines)],
    )


def header_lines(answer: Reply, call: Request) -> bytes:
    """Return all headers of a reply as lines of HTTP/1.1."""
    headers = answer.headers
    more = b"".join([b"%b: %b\r\n" % header for header in headers]) if headers else b""
    if call.applied_seq:
        more = b"%bx-applied-seq: %d\r\n" % (more, call.applied_seq)
    return b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b%b" % (
        answer.content_type,
        len(answer.body),
        call.request_id.encode(),
        more,
        usage_lines(call),
    )


def usage_lines(call: Request) -> bytes:
    """Return the rate-limit headers of a reply as lines of HTTP/1.1; none for a cached read."""
    return b"" if call.usage is None else call.server.guard.limiter.header_lines(call.usage)


async def read_body(receive: Receive, call: Request) -> bytes:
    """Read a body. The transport limits the time it may take.

    Raises:
        ApiError: BODY_TOO_LARGE; BAD_REQUEST, the client closed the connection.
    """
    limit = call.server.settings.body_max_bytes
    stated = call.headers.get(b"content-length", b"0")
    if stated.isdigit() and int(stated[:20]) > limit:
        raise too_large(limit)
    body, more = b"", True
    while more:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError("BAD_REQUEST", "the connection ended within the body")
        body = body + message.get("body", b"") if body else message.get("body", b"")
        if len(body) > limit:
            raise too_large(limit)
        more = message.get("more_body", False)
    return body


def too_large(limit: int) -> ApiError:
    """Return the rejection of a body; the connection closes, since the rest is not read."""
    return ApiError("BODY_TOO_LARGE", f"the body may have {limit} bytes", headers=CLOSE)


def log_access(call: Request, status: int, taken_s: float) -> None:
    """Log a request: the client's address, and of the content only method and path."""
    _LOG.info(
        "request",
        extra={
            "request_id": call.request_id,
            "client": call.address,
            "method": call.scope["method"],
            "path": call.scope["path"][:200],
            "status": status,
            "taken_ms": int(taken_s * 1000),
        },
    )
