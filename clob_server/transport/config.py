"""The limits of the transport, and the configuration that carries them to each connection."""

import ipaddress
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec
import uvicorn

from clob_server.api.problems import CONTENT_TYPE, ApiError, Problem, problem_of

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
"""Addresses that belong together."""

HEADERS_MIN: Final = 1024
"""The least that the headers of a request must be allowed to have."""


class TransportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection, one address and all of them may take.

    Raises:
        ValueError: a limit is not positive, or one of bytes is too small to serve anybody.
    """

    connections_max: int = 4_000
    """How many connections there may be, WebSockets included."""
    connections_per_address_max: int = 2_000
    """How many of them from one address; 0 is any number. Trusted proxies may have any number."""
    header_timeout_s: float = 10.0
    """How long a head may take, from its first byte, or from the connection if it is the first."""
    headers_max_bytes: int = 16_384
    """How large a head may be: the request line and the headers."""
    body_timeout_s: float = 10.0
    """How long a body may take, from the end of the head."""
    keep_alive_s: float = 75.0
    """How long a connection may be idle between two requests."""
    stall_timeout_s: float = 30.0
    """How long a client may take nothing of what waits for him."""
    linger_s: float = 2.0
    """How long a refused connection is listened to, so that the refusal is not lost."""
    message_max_bytes: int = 16_384
    """How large a message of a WebSocket client may be."""
    ping_interval_s: float = 20.0
    """How often a WebSocket client is asked if he is there."""
    ping_timeout_s: float = 20.0
    """How long he has to answer."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value, least = getattr(self, name), 0 if name.startswith("connections_per") else 1
            if name.endswith("_s") and not value > 0:
                raise ValueError(f"{name} must be above 0, not {value}")
            if not name.endswith("_s") and value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if self.headers_max_bytes < HEADERS_MIN:
            raise ValueError(
                f"headers_max_bytes must be at least {HEADERS_MIN}, not {self.headers_max_bytes}"
            )


class TransportConfig(uvicorn.Config):
    """What uvicorn hands to every connection, with what this package adds.

    Args:
        app: the ASGI application.
        limits: the limits.
        proxies: addresses and networks of proxies, whose ``X-Forwarded-For`` is believed.
        drain_s: how long the server goes on after it was told to end.
        grace_s: how long after that it may take to end.
        new_request_id: names a request that is refused before the application sees it.
        options: what uvicorn is told besides.

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
        # The number of workers is given, as uvicorn otherwise reads it from the environment.
        super().__init__(
            app, proxy_headers=bool(trusted), forwarded_allow_ips=trusted, workers=1, **options
        )

    def is_proxy(self, address: str) -> bool:
        """Tell if an address is a trusted proxy's."""
        if not self.proxies:
            return False
        there = ipaddress.ip_address(address)
        return any(there in network for network in self.proxies)


def refusal(code: str, detail: str, request_id: str) -> Problem:
    """Make a refusal of the transport.

    Args:
        code: one of :data:`~clob_server.api.problems.PROBLEMS`.
        detail: the rule, the value and the limit.
        request_id: the request.
    """
    made = problem_of(ApiError(code, detail), request_id)
    headers = (
        (b"content-type", CONTENT_TYPE),
        (b"content-length", str(len(made.body)).encode()),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
        *made.headers,
    )
    return made._replace(headers=headers)


def as_http(made: Problem, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write a refusal as an answer of HTTP/1.1.

    Args:
        made: the refusal.
        default_headers: what every answer has.
    """
    status = HTTPStatus(made.status)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [b"%b: %b" % header for header in (*default_headers, *made.headers)]
    return b"\r\n".join([*lines, b"", made.body])


# MERGED clob_server.transport.config: Refusals that are made before a request reaches the application, as bytes of HTTP.
#
# They have the body that all refusals have, and end the connection.
