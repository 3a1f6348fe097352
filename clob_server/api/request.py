"""One request and its answer: what every route of the HTTP interface is made of.

A handler takes a :class:`ApiRequest` and gives a :class:`Reply`, or raises. Where it has to wait it says
for what: for the engine, as an :class:`QueuedCommand`, or for anything else, as a coroutine.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from clob_server.api.problems import ApiError, Headers

if TYPE_CHECKING:
    from clob_server.core.sequencer import Committed, Make
    from clob_server.service import Service
    from clob_server.transport import Way

Scope: TypeAlias = MutableMapping[str, Any]
"""What ASGI tells of a request."""
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""How ASGI hands over a body."""
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""How ASGI takes an answer."""

JSON: Final = b"application/json"
"""What an answer is, unless it says otherwise."""
CLOSE: Final[Headers] = ((b"connection", b"close"),)
"""What ends the connection with an answer."""
REQUEST_ID_MAX: Final = 64
"""How long the id of a request may be that the client chose."""

_REQUEST_ID: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
)
_ENCODER: Final = msgspec.json.Encoder()


class Reply(msgspec.Struct, frozen=True):
    """An answer."""

    body: bytes = b""
    """What it says."""
    status: int = 200
    """How it went."""
    headers: Headers = ()
    """What it has besides type, length and request id."""
    content_type: bytes = JSON
    """What the body is."""


def reply(content: object, status: int = 200, headers: Headers = ()) -> Reply:
    """Answer in JSON."""
    return Reply(_ENCODER.encode(content), status, headers)


class ApiRequest:
    """One request, as a handler sees it.

    Args:
        service: what it is asked of.
        route: which route it took.
        scope: what ASGI tells of it.
    """

    __slots__ = (
        "begun_s",
        "body",
        "headers",
        "key",
        "params",
        "request_id",
        "route",
        "scope",
        "service",
        "way",
    )

    def __init__(self, service: "Service", route: "Route", scope: Scope) -> None:
        self.begun_s: float = time.perf_counter()
        """When it began, by a clock that measures."""
        self.service: Service = service
        self.route: Route = route
        self.scope: Scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        """The headers, names in small letters; of one that came twice the last."""
        self.params: dict[str, str] = scope.get("path_params") or {}
        """What the path names."""
        self.key: Any = None
        """The API key it came with, checked; None where it came without."""
        self.body: bytes = b""
        """The body."""
        self.request_id: str = service.request_id(self.headers.get(b"x-request-id"))
        """What the logs call it."""
        self.way: Way | None = None
        """Takes the answer at once; None where it goes as ASGI has it."""

    @property
    def address(self) -> str:
        """The address it came from, that of a trusted proxy's client included."""
        client = self.scope.get("client")
        return client[0] if client else ""

    def query(self) -> dict[str, str]:
        """Give the query; of a name that came twice the first value counts.

        Raises:
            ApiError: INVALID_FIELD, it is not percent-encoded UTF-8.
        """
        raw: bytes = self.scope["query_string"]
        return read_query(raw) if raw else {}

    def json(self) -> Any:
        """Read the body as JSON.

        Raises:
            ApiError: UNSUPPORTED_MEDIA_TYPE, INVALID_JSON.
        """
        kind = self.headers.get(b"content-type", JSON)
        if kind != JSON and kind.partition(b";")[0].strip().lower() != JSON:
            raise ApiError(
                "UNSUPPORTED_MEDIA_TYPE",
                f"Content-Type must be application/json, not {kind.decode('latin-1')!r:.99}",
            )
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ApiError("INVALID_JSON", f"the body is not JSON: {error}") from None

    def object(self) -> dict[str, Any]:
        """Read the body as a JSON object.

        Raises:
            ApiError: UNSUPPORTED_MEDIA_TYPE, INVALID_JSON, INVALID_FIELD.
        """
        content = self.json()
        if type(content) is not dict:
            raise ApiError("INVALID_FIELD", "the body must be a JSON object")
        return content


class QueuedCommand(msgspec.Struct, frozen=True):
    """What a handler gives that has to hear of the engine before it can answer."""

    make: "Make"
    """Gives the command."""
    then: "Callable[[Committed], Outcome]"
    """Makes the answer of what came of the command, which may be its refusal."""


Outcome: TypeAlias = Reply | QueuedCommand | Awaitable[Reply]
"""What a handler gives: the answer, or what it waits for."""

Handler: TypeAlias = Callable[[ApiRequest], Outcome]
"""What a route does."""


class Route(NamedTuple):
    """A way into the HTTP interface."""

    name: str
    """What the tables of authority and documentation call it."""
    method: str
    """The method."""
    path: str
    """The path, with ``{names}``."""
    handler: Handler
    """What it does."""
    reads_body: bool = False
    """If there is a body to be read."""


async def read_body(receive: Receive, call: ApiRequest) -> bytes:
    """Read a body, up to a size. The time it may take is for the transport to watch.

    Raises:
        ApiError: BODY_TOO_LARGE, BAD_REQUEST where the client went away.
    """
    limit = call.service.settings.body_max_bytes
    stated = call.headers.get(b"content-length", b"0")
    if stated.isdigit() and int(stated[:20]) > limit:
        raise too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > limit:
            raise too_large(limit)
        return body
    return await rest_of_body(receive, body, limit)


async def rest_of_body(receive: Receive, first: bytes, limit: int) -> bytes:
    """Read what is left of a body."""
    parts, length, more = [first], len(first), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError("BAD_REQUEST", "the connection ended within the body")
        part = message.get("body", b"")
        length += len(part)
        if length > limit:
            raise too_large(limit)
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def too_large(limit: int) -> ApiError:
    """Refuse a body that is too large, and the connection with it: its rest is not read."""
    return ApiError(
        "BODY_TOO_LARGE",
        f"the body must have at most {limit} bytes",
        headers=CLOSE,
    )


def read_query(raw: bytes) -> dict[str, str]:
    """Read a query; of a name that came twice the first value counts.

    Raises:
        ApiError: INVALID_FIELD, it is not percent-encoded UTF-8.
    """
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise ApiError("INVALID_FIELD", "the query must be percent-encoded UTF-8") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def is_request_id(given: bytes) -> bool:
    """Say whether a client may call his request so."""
    return 0 < len(given) <= REQUEST_ID_MAX and _REQUEST_ID.issuperset(given)
