"""The routes that a WebSocket may use, by name: a request on it reaches the endpoint of its route.

The endpoint authenticates, charges and handles it like an HTTP request with the same body. The
headers are those of the handshake that identify the client.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from clob.signing.fields import received
from clob_server.api.faults import fault, missing
from clob_server.api.problems import ApiError
from clob_server.api.request import JSON, Scope, SendReply, kind_of
from clob_server.auth.api_keys import HEADER
from clob_server.feed.requests import RouteOperation, SocketRequest
from clob_server.http.endpoint import Endpoint
from clob_server.http.server import Route

PREFIXES: Final = ("/api/orders", "/api/fills", "/api/accounts", "/api/time")
"""Paths of the routes that a WebSocket may use, with those below them."""
KEPT: Final = frozenset({b"host", b"origin", HEADER})
"""Headers of the handshake that are headers of its requests."""
ALLOWS_OVERLAP: Final = frozenset({"create_order", "create_gasless_order"})
"""Routes that write and only queue a command, so that requests start in order in any case."""


class SocketOperation:
    """A route that a WebSocket may use."""

    def __init__(self, route: Route, endpoint: Endpoint, body_max: int) -> None:
        self._runs_alone = route.method != "GET" and route.name not in ALLOWS_OVERLAP
        self._route = route
        self._endpoint = endpoint
        self._body_max = body_max
        parts = route.path.split("/")
        self._in_path = tuple(part[1:-1] for part in parts if part.startswith("{"))

    @property
    def runs_alone(self) -> bool:
        """Whether it must not overlap with other requests of its connection."""
        return self._runs_alone

    def start(
        self, request: SocketRequest, body: bytes, client: Scope, send_reply: SendReply
    ) -> None:
        """Start a request.

        Raises:
            ApiError: INVALID_FIELD, a parameter of the path is missing; BODY_TOO_LARGE.
        """
        if len(body) > self._body_max:
            raise ApiError("BODY_TOO_LARGE", f"the body may have {self._body_max} bytes")
        route = self._route
        scope = {**client, "method": route.method, "path": route.path}
        if request.params or self._in_path:
            self._set_params(scope, request.params)
        if request.api_key is not None:
            others = [header for header in client["headers"] if header[0] != HEADER]
            scope["headers"] = [*others, (HEADER, request.api_key.encode())]
        self._endpoint.at_once(scope, body, send_reply)

    def _set_params(self, scope: Scope, params: Mapping[str, Any]) -> None:
        """Set the parameters of path and query."""
        texts = {name: text_of(name, value) for name, value in params.items()}
        in_path = {}
        for name in self._in_path:
            if not texts.get(name):
                raise missing(name, f"is required in params of {self._route.name}")
            in_path[name] = texts.pop(name)
            scope["path"] = scope["path"].replace(f"{{{name}}}", quote(in_path[name], safe=""))
        scope["path_params"] = in_path
        scope["query_string"] = urlencode(texts).encode()


def text_of(name: str, value: object) -> str:
    """Return a parameter in the format of a query.

    Raises:
        ApiError: INVALID_FIELD, it is neither a text nor an integer, ``true`` or ``false``.
    """
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) not in (str, int):
        name = f"params.{name:.99}"
        raise fault(
            name, f"{name} must be a string, an integer, true or false; got {kind_of(value)}"
        )
    return str(value)


class SocketOperations:
    """The routes that a WebSocket may use.

    Args:
        endpoints: the endpoint of each route of the server.
        body_max: largest body, in bytes.
    """

    def __init__(self, endpoints: Mapping[Route, Endpoint], body_max: int) -> None:
        self._by_name = {
            route.name: SocketOperation(route, endpoint, body_max)
            for route, endpoint in endpoints.items()
            if f"{route.path}/".startswith(tuple(f"{prefix}/" for prefix in PREFIXES))
        }

    def find(self, name: str) -> RouteOperation:
        """Return an operation.

        Raises:
            ApiError: INVALID_FIELD, no operation has this name.
        """
        operation = self._by_name.get(name)
        if operation is None:
            known = ", ".join(self._by_name)
            rule = f"operation must be one of {known}; got {received(name[:99])}"
            raise fault("operation", rule)
        return operation

    def client(self, handshake: Scope) -> Scope:
        """Return the part of the scope that all requests of a connection share."""
        headers = [header for header in handshake["headers"] if header[0] in KEPT]
        return {
            "type": "http",
            "client": handshake.get("client"),
            "headers": [*headers, (b"content-type", JSON)],
            "query_string": b"",
        }
