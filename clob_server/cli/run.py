"""A server as a process: from its settings to its exit code."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from starlette.middleware.cors import CORSMiddleware

from clob import ClobError
from clob_server.api.request import Receive, Scope, Send
from clob_server.app import App, Lifespan
from clob_server.cli.exit_codes import FAILED, UNUSABLE, complain
from clob_server.cli.options import read_settings
from clob_server.demo import Demo, make_anew
from clob_server.log import LogDamagedError
from clob_server.service import Service
from clob_server.settings import Settings, SettingsError
from clob_server.telemetry import logging
from clob_server.transport import TransportConfig, TransportLimits
from clob_server.transport.server import HttpServer, config_for

if TYPE_CHECKING:
    from starlette.types import ASGIApp

RECURSION_MAX: Final = 1_000
"""How deep a call may go. A package that signs raises it a hundredfold when it is imported, beyond
what the stack of a thread holds, so that a deep enough body could end the process."""


def run(given: Mapping[str, str | None], environ: Mapping[str, str]) -> int:
    """Serve until told to stop.

    Args:
        given: the settings of the command line, by name.
        environ: the environment.

    Returns:
        The exit code: 0 after a clean end, 1 where the log is damaged or the server had to end, 2
        where the settings are unfit or the log could not be used.
    """
    try:
        settings = read_settings(given, environ)
        service = Service(settings)
        demo = Demo(service) if settings.demo else None
        life = Lifespan(service, demo)
        config = config_of(service, life)
        if demo is not None:
            make_anew(service.folder)
    except (SettingsError, ClobError, OSError) as error:
        return why(error)
    logging.begin(settings.log_level)
    sys.setrecursionlimit(RECURSION_MAX)

    def announce(host: str, port: int) -> None:
        address = address_of(host, port)
        sys.stdout.write(f"listening on {address}\n{demo.welcome(address) if demo else ''}")
        sys.stdout.flush()

    server = HttpServer(config, on_listening=announce, on_draining=service.drain)
    service.on_failure = server.fail
    service.metrics.count_also(server.server_state.refused)
    code = server.run()
    return code if life.failure is None else why(life.failure)


def config_of(service: Service, life: Lifespan) -> TransportConfig:
    """Configure the transport.

    Raises:
        SettingsError: a limit leaves nothing to serve with, or a proxy is no address.
    """
    settings = service.settings
    try:
        return config_for(
            with_cors(App(service, life), settings.cors_origins),
            host=settings.host,
            port=settings.port,
            limits=limits_of(settings),
            proxies=settings.trusted_proxies,
            drain_s=settings.drain_s,
            grace_s=settings.grace_s,
            new_request_id=lambda: service.request_id(None),
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None


def with_cors(app: App, origins: Sequence[str]) -> "ASGIApp":
    """Let pages of some origins call the server; without one there is nothing in between."""
    if not origins:
        return app

    async def in_parts(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as ASGI has it, so that what stands in between can add its headers."""
        if scope["type"] == "http":
            scope.pop("extensions", None)
        await app(scope, receive, send)

    return CORSMiddleware(
        in_parts,
        allow_origins=origins,
        allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
        allow_headers=(
            "Content-Type",
            "X-API-Key",
            "X-Request-Id",
            "Authorization",
            "Idempotency-Key",
        ),
        expose_headers=(
            "X-Request-Id",
            "X-Next-Cursor",
            "Link",
            "ETag",
            "Retry-After",
            "X-Operation-Id",
        ),
    )


def limits_of(settings: Settings) -> TransportLimits:
    """Give what connections may take.

    Raises:
        ValueError: a limit leaves nothing to serve anybody with.
    """
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
    """Write where the server listens as the beginning of an address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def why(error: Exception) -> int:
    """Say why the server could not start, and give the exit code."""
    if isinstance(error, SettingsError):
        return complain(str(error), UNUSABLE)
    if not isinstance(error, ClobError | OSError | ValueError):
        raise error
    code = getattr(error, "code", "FILE_UNUSABLE")
    return complain(f"{code}: {error}", FAILED if isinstance(error, LogDamagedError) else UNUSABLE)
