"""A request as handlers see it, and the reply that they return."""

import os
import time
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from clob.signing.fields import received
from clob_server.api.faults import check_names, fault
from clob_server.api.problems import ApiError, Headers

Scope: TypeAlias = MutableMapping[str, Any]
"""The ASGI scope of a request."""
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""Receives an ASGI message, such as a part of the body."""
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""Sends an ASGI message."""
SendReply: TypeAlias = Callable[[int, bytes, bytes], bool]
"""Writes a whole reply: status, header lines and body. Returns False if the connection is paused or
closed and nothing was written."""

REPLY: Final = "clob.reply"
"""The key in ``scope["extensions"]`` of the :data:`SendReply` of a request."""
JSON: Final = b"application/json"
CLOSE: Final[Headers] = ((b"connection", b"close"),)
"""The header that closes the connection after the reply."""
REQUEST_ID_MAX: Final = 64
"""The longest request id that a client may choose, in bytes."""
QUERY_MAX: Final = 200
"""Longest query whose parameters are cached, in bytes."""
QUERIES_KEPT: Final = 500
"""Queries whose parameters are cached."""

_REQUEST_ID: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
)
_ENCODER: Final = msgspec.json.Encoder()


class Reply(msgspec.Struct, frozen=True):
    """A reply."""

    body: bytes = b""
    status: int = 200
    headers: Headers = ()
    """Headers besides content type, content length and request id."""
    content_type: bytes = JSON


def reply(content: object, status: int = 200, headers: Headers = ()) -> Reply:
    """Return a reply with a JSON body."""
    return Reply(_ENCODER.encode(content), status, headers)


class RequestIds:
    """Names requests: a random prefix per process, and a counter."""

    def __init__(self) -> None:
        self._process = os.urandom(4).hex()
        self._count = 0

    def next(self) -> str:
        """Return a new request id."""
        self._count += 1
        return f"{self._process}-{self._count:x}"

    def of(self, sent: bytes | None) -> str:
        """Return the id that a client has sent, or a new one unless it may be used."""
        return self.next() if sent is None or not is_request_id(sent) else sent.decode()


class ApiRequest:
    """One HTTP request; without a valid ``X-Request-Id`` it gets a new id."""

    __slots__ = (
        "address", "applied_seq", "body", "headers", "key", "operator", "pairs", "params",
        "request_id", "route", "scope", "send_reply", "started_s", "usage",
    )  # fmt: skip

    def __init__(self, route: str, scope: Scope, request_ids: RequestIds) -> None:
        self.started_s: float = time.perf_counter()
        """When it started, by ``time.perf_counter``."""
        self.route: str = route
        self.scope: Scope = scope
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        """The address of the client, behind a trusted proxy the one that the proxy reports."""
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        """The headers by lower-case name; the last one wins where a name is repeated."""
        self.params: dict[str, str] = scope.get("path_params") or {}
        self.pairs: Mapping[str, str] | None = None
        """The query, once it was parsed."""
        self.key: Any = None
        """The API key that was sent, after it was checked; None without one."""
        self.operator: str = ""
        """The operator that the token names, after it was checked; empty without one."""
        self.usage: Any = None
        """The usage of its rate limits, which the reply shows; None for a reply without them."""
        self.body: bytes = b""
        self.applied_seq: int = 0
        """Number of the last command that the reply to a change contains; 0 for none."""
        self.request_id: str = request_ids.of(self.headers.get(b"x-request-id"))
        """The id that logs and problems show."""
        self.send_reply: SendReply | None = None
        """Writes the whole reply at once; None where it is sent through ASGI."""

    @property
    def payer(self) -> bytes | None:
        """The budget that its orders were charged to; None if they were not charged."""
        usage = self.usage
        return None if usage is None or usage.orders is None else usage.payer

    def query(self) -> Mapping[str, str]:
        """Return the query.

        Raises:
            ApiError: INVALID_FIELD, it is not percent-encoded UTF-8, or repeats a parameter.
        """
        if self.pairs is None:
            raw: bytes = self.scope["query_string"]
            self.pairs = (parse_query if len(raw) > QUERY_MAX else parse_short_query)(raw)
        return self.pairs

    def json(self) -> Any:
        """Decode the body as JSON.

        Without the check of its type, a web page of any site could send it.

        Raises:
            ApiError: UNSUPPORTED_MEDIA_TYPE, INVALID_JSON.
        """
        content_type = self.headers.get(b"content-type")
        if content_type != JSON:
            check_type(content_type, self.body)
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            check_encoding(self.headers.get(b"content-encoding"))
            raise not_json("the body", self.body, error) from None

    def object(self, known: AbstractSet[str] | None = None) -> dict[str, Any]:
        """Decode the body as a JSON object.

        Args:
            known: the known fields; None if the caller checks them.

        Raises:
            ApiError: UNSUPPORTED_MEDIA_TYPE, INVALID_JSON, INVALID_FIELD.
        """
        content = self.json()
        if type(content) is not dict:
            text = f"the body must be a JSON object; got {kind_of(content)}"
            raise ApiError("INVALID_FIELD", text)
        if known is not None:
            check_names(content, known)
        return content


def parse_query(raw: bytes) -> Mapping[str, str]:
    """Parse a query.

    Raises:
        ApiError: INVALID_FIELD, it is not percent-encoded UTF-8, or repeats a parameter.
    """
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise ApiError("INVALID_FIELD", "the query must be percent-encoded UTF-8") from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise fault(name[:99], f"query parameter {received(name[:99])} must be given once")
        values[name] = value
    return values


parse_short_query: Final = lru_cache(QUERIES_KEPT)(parse_query)
"""Parses queries of up to ``QUERY_MAX`` bytes; clients poll with the same ones."""


def check_type(content_type: bytes | None, body: bytes) -> None:
    """Reject a body that is not JSON by its type, or that has no type.

    Raises:
        ApiError: UNSUPPORTED_MEDIA_TYPE.
    """
    if content_type is None:
        if body:
            rule = "Content-Type must be application/json; the request has none"
            raise ApiError("UNSUPPORTED_MEDIA_TYPE", rule)
    elif content_type.partition(b";")[0].strip().lower() != JSON:
        given = received(content_type.decode("latin-1")[:99])
        rule = f"Content-Type must be application/json; got {given}"
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", rule)


def check_encoding(encoding: bytes | None) -> None:
    """Reject a compressed body.

    Raises:
        ApiError: UNSUPPORTED_MEDIA_TYPE.
    """
    if encoding and encoding.lower() != b"identity":
        given = received(encoding.decode("latin-1")[:99])
        rule = f"a body must not be compressed; got Content-Encoding {given}"
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", rule)


def not_json(subject: str, content: bytes | str | None, error: Exception) -> ApiError:
    """Return the error of a text that is not JSON.

    Args:
        subject: the text, as a noun.
        content: the text; None for a binary message.
        error: the error of the decoder.
    """
    reason = str(error)
    if not content:
        reason = "it is binary, not text" if content is None else "it is empty"
    elif content[:1] == "\ufeff" or content[:3] == BOM_UTF8:
        reason = "it begins with a byte order mark"
    elif isinstance(error, RecursionError):
        reason = "nested too deeply"
    elif not is_utf8(content):
        reason = "not UTF-8"
    return ApiError("INVALID_JSON", f"{subject} is not JSON: {reason}")


def is_utf8(content: bytes | str) -> bool:
    """Return whether a text is UTF-8, which versions of the decoder report differently."""
    try:
        content.encode() if isinstance(content, str) else content.decode()
    except UnicodeError:
        return False
    return True


def kind_of(content: object) -> str:
    """Return the kind of a JSON value that is not an object."""
    return "an array" if type(content) is list else received(content)


def is_request_id(text: bytes) -> bool:
    """Return whether a client may use this as a request id."""
    return 0 < len(text) <= REQUEST_ID_MAX and _REQUEST_ID.issuperset(text)
