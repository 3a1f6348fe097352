"""Requests of the HTTP interface on a WebSocket: their order, their number and their answers.

Requests start in the order in which they arrive. A request that places one order only queues a
command, so the next one starts at once. Another request that writes runs alone: it starts when all
earlier ones were answered, and the next starts after its answer. While a request waits, the server
reads no further message of the connection, and the client's writes wait in turn.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from clob import ClobError
from clob.wire.messages import Id
from clob_server.api.problems import problem_of
from clob_server.api.request import Scope, SendReply
from clob_server.feed.subscriber import Subscriber
from clob_server.transport.websocket import text_frame

REQUESTS_MAX: Final = 256
"""Unanswered requests of a connection; it is not read while it has more."""


class SocketRequest(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    tag_field="type",
    tag="request",
    forbid_unknown_fields=True,
):
    """Send a request of the HTTP interface; the answer is a ``response``."""

    id: Id
    """Request id, repeated in the response."""
    operation: str
    """Name of the operation: its ``operationId`` in ``/openapi.json``."""
    params: dict[str, Any] = {}
    """Parameters of path and query: texts, integers, ``true`` or ``false``."""
    body: Any = None
    """Body of the HTTP request; absent for none."""
    api_key: str | None = None
    """API key of this request; absent means that of the handshake."""


class _RawRequest(SocketRequest, frozen=True, kw_only=True, tag="request"):
    """A request whose body is not decoded yet."""

    body: msgspec.Raw = msgspec.Raw()


_decode: Final = msgspec.json.Decoder(_RawRequest).decode
_encode: Final = msgspec.json.Encoder().encode


class RouteOperation(Protocol):
    """A route of the HTTP interface that a WebSocket may use."""

    @property
    def runs_alone(self) -> bool:
        """Whether it must not overlap with other requests of its connection."""

    def start(
        self, request: SocketRequest, body: bytes, client: Scope, send_reply: SendReply
    ) -> None:
        """Start a request; it is answered by ``send_reply``, perhaps before this returns.

        Raises:
            ApiError: INVALID_FIELD, a parameter is missing; BODY_TOO_LARGE. Nothing was started.
        """


class RouteOperations(Protocol):
    """The operations by name."""

    def find(self, name: str) -> RouteOperation:
        """Return an operation, or raise INVALID_FIELD with the known names."""

    def client(self, handshake: Scope) -> Scope:
        """Return the part of the scope of requests that all requests of a connection share."""


def read_request(text: str) -> SocketRequest | None:
    """Read a request without decoding its body; None if the message is another one or invalid."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


class Answers:
    """Answers of one iteration of the event loop: those of a connection are sent in one write."""

    def __init__(self) -> None:
        self._frames: dict[Subscriber, list[bytes]] = {}

    def add(self, subscriber: Subscriber, frame: bytes) -> None:
        """Send an answer soon."""
        frames = self._frames
        if not frames:
            asyncio.get_running_loop().call_soon(self._send)
        if (waiting := frames.get(subscriber)) is None:
            frames[subscriber] = [frame]
        else:
            waiting.append(frame)

    def _send(self) -> None:
        """Send all answers; a client that does not read is closed."""
        by_subscriber, self._frames = self._frames, {}
        for subscriber, frames in by_subscriber.items():
            subscriber.send_frames(b"".join(frames))


class SocketRequests:
    """The requests of one connection. They continue when it closes; their answers are dropped."""

    def __init__(
        self,
        subscriber: Subscriber,
        operations: RouteOperations,
        handshake: Scope,
        answers: Answers,
    ) -> None:
        self._subscriber = subscriber
        self._operations = operations
        self._answers = answers
        self._client = operations.client(handshake)
        self._num_open = 0
        self._is_alone = False
        self._wait_for = 0
        self._waiter: asyncio.Future[None] | None = None

    def start_at_once(self, request: SocketRequest) -> bool:
        """Start a request unless it has to wait for earlier ones; return whether it has started.

        Raises:
            ApiError: as :meth:`RouteOperations.find` and :meth:`RouteOperation.start`.
        """
        operation, num_open = self._operations.find(request.operation), self._num_open
        if num_open and (self._is_alone or operation.runs_alone or num_open >= REQUESTS_MAX):
            return False
        self._start(operation, request)
        return True

    def start(self, request: SocketRequest) -> Awaitable[None] | None:
        """Start a request; if it has to wait for earlier ones, return an awaitable that does so.

        Raises:
            ApiError: as :meth:`start_at_once`.
        """
        if self.start_at_once(request):
            return None
        operation = self._operations.find(request.operation)
        needs_none = self._is_alone or operation.runs_alone
        return self._start_later(operation, request, 0 if needs_none else REQUESTS_MAX - 1)

    async def _start_later(
        self, operation: RouteOperation, request: SocketRequest, wait_for: int
    ) -> None:
        """Start a request when at most ``wait_for`` earlier ones are unanswered."""
        self._waiter = asyncio.get_running_loop().create_future()
        self._wait_for = wait_for
        await self._waiter
        try:
            self._start(operation, request)
        except ClobError as error:
            self.reject(error, request.id)

    def _start(self, operation: RouteOperation, request: SocketRequest) -> None:
        body = request.body
        content = bytes(body) if type(body) is msgspec.Raw else _encode(body)
        self._num_open += 1
        self._is_alone = operation.runs_alone
        try:
            operation.start(request, content, self._client, partial(self._answer, request.id))
        except ClobError:
            self._close_one()
            raise

    def _answer(self, request_id: Id, status: int, lines: bytes, body: bytes) -> bool:
        """Send the response to a request."""
        if status < 400:
            self._subscriber.set_used()
        self._send(request_id, status, lines.split(b"\r\n", 2)[2], body)
        self._close_one()
        return True

    def _close_one(self) -> None:
        """Count a request that was answered, and continue with a waiting one."""
        self._num_open -= 1
        self._is_alone = False
        waiter = self._waiter
        if waiter is not None and self._num_open <= self._wait_for:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def reject(self, error: ClobError, request_id: Id) -> None:
        """Send the response to a request that reached no route."""
        problem = problem_of(error)
        lines = b"".join([b"%b: %b\r\n" % header for header in problem.headers])
        self._send(request_id, problem.status, lines, problem.body)

    def _send(self, request_id: Id, status: int, lines: bytes, body: bytes) -> None:
        """Send a response."""
        message = b'{"type":"response","id":%b,"status":%d,"headers":{%b},"body":%b}' % (
            _encode(request_id),
            status,
            members(lines),
            body or b"null",
        )
        self._answers.add(self._subscriber, text_frame(message))


def members(lines: bytes) -> bytes:
    """Return header lines as the members of a JSON object."""
    if not lines:
        return b""
    text = lines[:-2].replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'"%b"' % text.replace(b": ", b'":"').replace(b"\r\n", b'","')
