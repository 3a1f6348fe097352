"""Limits and configuration of the transport, and its own rejections as bytes of HTTP."""

import ipaddress
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import msgspec
import uvicorn

from clob_server.api.problems import CONTENT_TYPE, ApiError, Problem, problem_of

HEADERS_MIN: Final = 1024
"""The smallest limit for the headers of a request, in bytes."""


class TransportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection, of one address, and of all connections.

    Raises:
        ValueError: a limit is not positive, or ``headers_max_bytes`` is below ``HEADERS_MIN``.
    """

    connections_max: int = 4_000
    """Connections, WebSockets included."""
    connections_per_address_max: int = 2_000
    """Connections from one address; 0 is unlimited. Trusted proxies are not limited."""
    header_timeout_s: float = 10.0
    """Seconds for a head, from its first byte, or from the start of the connection."""
    headers_max_bytes: int = 16_384
    """Size of a head: the request line and the headers."""
    body_timeout_s: float = 10.0
    """Seconds for a body, from the end of the head."""
    keep_alive_s: float = 75.0
    """Seconds that a connection may be idle between two requests."""
    stall_timeout_s: float = 30.0
    """Seconds a client may leave its buffer unread."""
    linger_s: float = 2.0
    """Seconds that a rejected connection stays open for reading, so that its reply is not lost."""
    message_max_bytes: int = 16_384
    """Size of a message from a WebSocket client."""
    ping_interval_s: float = 20.0
    """Seconds between two pings of a WebSocket."""
    ping_timeout_s: float = 20.0
    """Seconds for the pong."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value, least = getattr(self, name), 0 if name.startswith("connections_per") else 1
            if name.endswith("_s") and not value > 0:
                raise ValueError(f"{name} must be above 0; got {value}")
            if not name.endswith("_s") and value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}")
        if self.headers_max_bytes < HEADERS_MIN:
            raise ValueError(
                f"headers_max_bytes must be at least {HEADERS_MIN}; got {self.headers_max_bytes}"
            )


class TransportConfig(uvicorn.Config):
    """The configuration of uvicorn, with the limits of this package.

    Args:
        proxies: addresses and networks of trusted proxies, whose ``X-Forwarded-For`` is used.
        drain_s: seconds that the server keeps serving after the signal to stop.
        grace_s: seconds after that until it exits in any case.
        new_request_id: names a request that is rejected before the application sees it.

    Raises:
        ValueError: a proxy is neither an address nor a network.
    """

    def __init__(
        self,
        app: Any,
        *,
        limits: TransportLimits,
        proxies: Iterable[str] = (),
        drain_s: float = 1.0,
        grace_s: float = 10.0,
        new_request_id: Callable[[], str] = lambda: uuid4().hex,
        **options: Any,
    ) -> None:
        trusted = list(proxies)
        self.limits: Final = limits
        self.proxies: Final = [ipaddress.ip_network(proxy, strict=False) for proxy in trusted]
        self.drain_s: Final = drain_s
        self.grace_s: Final = grace_s
        self.new_request_id: Final = new_request_id
        # Without a number of workers, uvicorn reads one from the environment.
        super().__init__(
            app, proxy_headers=bool(trusted), forwarded_allow_ips=trusted, workers=1, **options
        )

    def is_proxy(self, address: str) -> bool:
        """Return whether an address belongs to a trusted proxy."""
        if not self.proxies:
            return False
        parsed = ipaddress.ip_address(address)
        return any(parsed in network for network in self.proxies)


def rejection(code: str, detail: str, request_id: str) -> Problem:
    """Return a rejection by the transport, which closes the connection."""
    problem = problem_of(ApiError(code, detail), request_id)
    headers = (
        (b"content-type", CONTENT_TYPE),
        (b"content-length", str(len(problem.body)).encode()),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
        *problem.headers,
    )
    return problem._replace(headers=headers)


def as_http(problem: Problem, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode a rejection as a reply of HTTP/1.1, with the headers of every reply."""
    status = HTTPStatus(problem.status)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [b"%b: %b" % header for header in (*default_headers, *problem.headers)]
    return b"\r\n".join([*lines, b"", problem.body])
