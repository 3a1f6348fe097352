"""``clob-server run``: builds a server from its settings and runs it to its exit code."""

import secrets
import socket
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from functools import partial
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec.structs import replace
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware

from clob import ClobError
from clob.program import OutputFailedError, discard_output, print_text
from clob_server.api.request import Receive, Scope, Send
from clob_server.app import App
from clob_server.auth.sites import sites_of, unreachable
from clob_server.chain.config import LOOPBACK
from clob_server.cli.exit_codes import FAILED, UNUSABLE, complain
from clob_server.cli.options import read_settings, unknown_variables
from clob_server.demo import Demo, keep_folder, reset_folder
from clob_server.dialects.polymarket.login import HEADERS
from clob_server.log import ClusterUnreachableError, LogDamagedError
from clob_server.service import Service
from clob_server.settings import POLYMARKET, Settings, SettingsError
from clob_server.telemetry import logging
from clob_server.transport.config import TransportConfig, TransportLimits
from clob_server.transport.server import HttpServer, config_for, shared_sockets

if TYPE_CHECKING:
    from starlette.types import ASGIApp

ALLOWED_HEADERS: Final = (
    "Content-Type", "X-API-Key", "X-Request-Id", "Authorization", "Idempotency-Key",
    "If-None-Match",
)  # fmt: skip
DIALECT_HEADERS: Final = {POLYMARKET: HEADERS}
"""Headers of dialects, allowed as well."""
EXPOSED_HEADERS: Final = (
    "X-Request-Id", "X-Applied-Seq", "X-Next-Cursor", "Link", "ETag", "Retry-After",
    "X-Operation-Id", "RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)  # fmt: skip
NODE_BYTES: Final = 4
"""Random bytes in the name of a node that has none in its settings."""
NEAR: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}
"""Address of this machine for a listener on all addresses."""
RECURSION_MAX: Final = 1_000
"""Recursion limit. eth-account raises it a hundredfold on import, beyond the stack of a thread, so
that a deeply nested body could crash the process."""

PORT_MAX: Final = 65_535
"""The highest port of TCP."""
_LOG: Final = getLogger("clob_server")


def run(given: Mapping[str, str | None], environ: Mapping[str, str]) -> int:
    """Run a server with settings from the command line, by name, until it is stopped.

    Returns:
        0 after a clean stop, 1 if the log is damaged, its servers are not reached or the server
        failed, 2 if settings or log are unusable.
    """
    try:
        settings = read_settings(given, environ)
        if settings.log and not settings.node:
            settings = replace(settings, node=secrets.token_hex(NODE_BYTES))
        check_address(settings.host, settings.port)
        service = Service(settings)
        demo = Demo(service) if settings.demo else None
        app = App(service, demo)
        config = config_of(app)
        if demo is not None:
            reset_folder(service.folder, settings)
    except (SettingsError, ClobError, OSError) as error:
        return report(error)
    logging.configure(settings.log_level, node=settings.node)
    sys.setrecursionlimit(RECURSION_MAX)
    for warning in unknown_variables(environ):
        _LOG.warning(warning)

    def announce(host: str, port: int) -> None:
        address, reach = address_of(host, port), reach_of(settings, host, port)
        service.listen(reach, port)
        if warning := unreachable(settings):
            _LOG.warning(warning)
        if demo is None:
            keep_folder(service.folder)
        else:
            demo.start(reach)
        print_address(f"listening on {address}\n{demo.welcome(reach) if demo else ''}")

    def drain() -> None:
        if demo is not None:
            demo.stop()
        service.drain()

    server = HttpServer(
        config,
        on_listening=announce,
        on_draining=drain,
        on_lag=service.metrics.loop_lag_seconds.observe,
    )
    service.on_failure = partial(log_failure, server)
    service.metrics.add_transport_rejections(server.server_state.rejected)
    is_shared = settings.workers > 1
    code = server.run(shared_sockets(settings.host, settings.port) if is_shared else None)
    if server.started:
        log_end(server, service, code)
    return code if app.failure is None else report(app.failure)


def print_address(text: str) -> None:
    """Write text to standard output; a server whose output cannot be written continues."""
    try:
        print_text(text, flush=True)
    except OutputFailedError as error:
        discard_output()
        _LOG.warning(f"the address cannot be printed: {error}")


def check_address(host: str, port: int) -> None:
    """Check, before the log is opened, that the server can listen on an address.

    Raises:
        SettingsError: another process listens there, or the address is not this machine's.
    """
    if problem := bind_problem(host, port):
        raise SettingsError(
            f"--host {host} and --port {port}: the server cannot listen there: {problem}"
        )


def bind_problem(host: str, port: int) -> str:
    """Return the reason why nothing can listen on an address, or an empty text."""
    if port > PORT_MAX:  # getaddrinfo takes it modulo 65,536
        return f"a port is at most {PORT_MAX}"
    try:
        for family, kind, number, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def log_failure(server: HttpServer, error: BaseException) -> NoReturn:
    """Log why the process ends at once, and end it."""
    _LOG.critical(
        "ended at once: the log failed, so the outcome of the last commands is unknown",
        extra={"reason": repr(error)},
    )
    server.fail(error)


def log_end(server: HttpServer, service: Service, code: int) -> None:
    """Log why the server ended, and whether it left work behind."""
    left = server.num_unanswered or service.operations_left
    _LOG.info(
        "ended, and failed to stop" if code else "ended with unfinished work" if left else "ended",
        extra={
            "reason": server.reason,
            "unanswered_requests": server.num_unanswered,
            "unfinished_operations": service.operations_left,
            "command_seq": service.sequencer.seq,
            "exit_code": code,
        },
    )


def config_of(app: App) -> TransportConfig:
    """Configure the transport."""
    settings = app.service.settings
    try:
        return config_for(
            with_cors(app, settings.cors_origins),
            host=settings.host,
            port=settings.port,
            limits=limits_of(settings),
            proxies=settings.trusted_proxies,
            drain_s=settings.drain_s,
            grace_s=settings.grace_s,
            new_request_id=app.service.request_ids.next,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None


class Cors(CORSMiddleware):
    """Adds CORS headers for the allowed origins and answers their preflights.

    Requests without an origin or with another one, preflights included, go to the application,
    which accepts its own origin and rejects others with a problem that names the setting.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] == "http":
            origin = Headers(scope=scope).get("origin")
            if origin is None or not self.is_allowed_origin(origin):
                await self.app(scope, receive, send if self.allow_all_origins else varying(send))
                return
        await super().__call__(scope, receive, send)


def varying(send: Send) -> Send:
    """Add ``Vary: Origin`` to a response, so that no cache uses it for a page of another origin."""

    async def send_varying(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).add_vary_header("Origin")
        await send(message)

    return send_varying


def with_cors(app: App, origins: Sequence[str]) -> "ASGIApp":
    """Add CORS headers for the allowed origins; without origins return the app itself."""
    if not origins:
        return app

    async def plain_asgi(scope: Scope, receive: Receive, send: Send) -> None:
        """Respond through plain ASGI, so that the middleware can add headers."""
        if scope["type"] == "http":
            scope.pop("extensions", None)
        await app(scope, receive, send)

    return Cors(
        plain_asgi,
        allow_origins=[origin.lower().rstrip("/") for origin in origins],
        allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
        allow_headers=(*ALLOWED_HEADERS, *DIALECT_HEADERS.get(app.service.settings.dialect, ())),
        expose_headers=EXPOSED_HEADERS,
    )


def limits_of(settings: Settings) -> TransportLimits:
    """Return the limits of connections."""
    return TransportLimits(
        connections_max=settings.connections_max,
        connections_per_address_max=settings.connections_per_address_max,
        header_timeout_s=settings.header_timeout_s,
        headers_max_bytes=settings.headers_max_bytes,
        body_timeout_s=settings.body_timeout_s,
        keep_alive_s=settings.keep_alive_s,
        stall_timeout_s=settings.ws_stall_timeout_s,
        message_max_bytes=settings.ws_message_max_bytes,
    )


def address_of(host: str, port: int) -> str:
    """Return the base URL of the server."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reach_of(settings: Settings, host: str, port: int) -> str:
    """Return a base URL by which programs on this machine reach the server.

    Args:
        settings: the settings.
        host: numerical address that the server listens on.
        port: its port.
    """
    near = NEAR.get(host, host)
    name = f"[{near}]" if ":" in near else near
    is_allowed = sites_of(settings).allows_host(name.encode())
    return address_of(near if is_allowed else settings.host, port)


def report(error: Exception) -> int:
    """Print why the server could not start and return the exit code."""
    if isinstance(error, SettingsError):
        return complain(str(error), UNUSABLE)
    if not isinstance(error, ClobError | OSError | ValueError):
        raise error
    code = getattr(error, "code", "FILE_UNUSABLE")
    failed = isinstance(error, LogDamagedError | ClusterUnreachableError)
    return complain(f"{code}: {error}", FAILED if failed else UNUSABLE)
