"""The server process: starts, listens, drains and shuts down.

On SIGTERM it first reports that it is not ready, keeps serving for the drain time, then closes the
listener and all connections. It exits within the grace period even if clients do not cooperate.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn, cast

import uvicorn
from uvicorn.server import logger

from clob_server.transport.config import TransportConfig, TransportLimits
from clob_server.transport.connections import NEVER, Connections, TrackedConnection
from clob_server.transport.http import HttpProtocol
from clob_server.transport.websocket import FeedProtocol

FAILED: Final = 1
"""Exit code if the application could not start, failed, or did not shut down."""
CLOSE_S: Final = 0.5
"""Seconds a client has at shutdown to read the rest of its write buffer."""
EXIT_MARGIN_S: Final = 0.5
"""Seconds after the grace period at which a stuck process is killed."""
TICK_INTERVAL_S: Final = 0.1
"""Interval of uvicorn's ticks, seconds."""
TICK_S: Final = 0.05
"""Interval of checks for open connections at shutdown, seconds."""


def config_for(
    app: Any, *, limits: TransportLimits | None = None, **options: Any
) -> TransportConfig:
    """Return the configuration of a server.

    Args:
        app: the ASGI application.
        limits: the limits of connections.
        options: ``host``, ``port`` and ``loop`` of uvicorn, and the other options of
            :class:`~clob_server.transport.config.TransportConfig`.

    Raises:
        ValueError: a proxy is neither an address nor a network.
    """
    limits = limits or TransportLimits()
    return TransportConfig(
        app,
        limits=limits,
        http=HttpProtocol,
        ws=FeedProtocol,
        ws_ping_interval=limits.ping_interval_s,
        ws_ping_timeout=limits.ping_timeout_s,
        lifespan="on",
        interface="asgi3",
        backlog=2048,
        access_log=False,
        server_header=False,
        log_config=None,
        log_level="warning",
        **options,
    )


def shared_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to an address that other processes of this user may listen at as well.

    The system distributes connections among them.

    Args:
        host: name or address.
        port: the port; 0 for a free one, the same for all addresses of the host.
    """
    sockets = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, number, _, address in found:
        made = socket.socket(family, kind, number)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address[0], port, *address[2:]))
        port = made.getsockname()[1]
        sockets.append(made)
    return sockets


class HttpServer(uvicorn.Server):
    """The server of a process.

    Args:
        config: from :func:`config_for`.
        on_listening: called with host and port once connections are accepted.
        on_draining: called first when the shutdown begins.
        on_lag: called ten times a second with the delay of the event loop in seconds.
    """

    config: TransportConfig
    server_state: Connections

    def __init__(
        self,
        config: TransportConfig,
        *,
        on_listening: Callable[[str, int], None] | None = None,
        on_draining: Callable[[], None] | None = None,
        on_lag: Callable[[float], object] | None = None,
    ) -> None:
        super().__init__(config)
        self.server_state = Connections(config)
        self._on_listening = on_listening
        self._on_draining = on_draining
        self._on_lag = on_lag
        self._ticked_at = 0.0
        self.reason: str = "the server failed"
        """The reason of the end: a signal, or a failure."""
        self.num_unanswered: int = 0
        """Requests that were cut off at the end."""
        self._has_failed = False
        self._is_signalled = False
        self._close_at = NEVER
        self._exit_by = NEVER
        self._loop: asyncio.AbstractEventLoop

    def run(self, sockets: Any = None) -> int:  # type: ignore[override]
        """Serve until shutdown, and return the exit code.

        It is 0, or 1 if the application could not start or did not shut down.
        """
        super().run(sockets)
        return FAILED if self._has_failed else 0

    def fail(self, error: BaseException) -> NoReturn:
        """Exit the process at once, after an error that makes its state unreliable.

        May be called from any thread. Nothing is sent, flushed or cleaned up, and the call does
        not return.
        """
        exit_process(f"the server has failed: {error!r}")

    def end(self, drain_s: float = 0.0) -> None:
        """Begin the shutdown, once, in the thread of the event loop.

        The listener and the connections close after ``drain_s`` seconds.
        """
        if self._close_at != NEVER:
            return
        grace_s = self.config.grace_s
        self._close_at = self._loop.time() + drain_s
        self._exit_by = self._close_at + grace_s
        # Covers a blocked event loop and tasks that ignore cancellation.
        text = f"the server did not end within {grace_s} s"
        timer = threading.Timer(drain_s + grace_s + EXIT_MARGIN_S, exit_process, [text])
        timer.daemon = True
        timer.start()
        if self._on_draining is not None:
            self._on_draining()

    # ----- called by uvicorn -----------------------------------------------------------------

    async def serve(self, sockets: Any = None) -> None:
        """Serve until shutdown."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def startup(self, sockets: Any = None) -> None:
        """Start the application, listen, and report the address."""
        try:
            await super().startup(sockets)
        except SystemExit:  # uvicorn could not start, and has logged the reason
            self._has_failed = self.should_exit = True
            return
        if self._on_listening is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_listening(host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: the first begins the shutdown, the second exits at once."""
        if self._is_signalled:
            exit_process("the server was ended by a second signal")
        self._is_signalled = True
        self.reason = signal.Signals(sig).name
        drain_s = self.config.drain_s if sig == signal.SIGTERM else 0.0
        self._loop.call_soon_threadsafe(self.end, drain_s)

    async def on_tick(self, counter: int) -> bool:
        """Check the deadlines of connections; return whether it is time to close them."""
        await super().on_tick(counter)
        now = self._loop.time()
        lag_s = max(0.0, now - self._ticked_at - TICK_INTERVAL_S) if counter else 0.0
        if counter and self._on_lag is not None:
            self._on_lag(lag_s)
        # While the loop was late it read nothing: what has arrived meanwhile must not be too late.
        self._sweep(now - lag_s)
        self._ticked_at = self._loop.time()
        return now >= self._close_at

    def _sweep(self, now: float) -> None:
        """Check the connections that may be slow or have passed their deadlines."""
        connections = cast("set[TrackedConnection]", self.server_state.connections)
        for connection in tuple(connections):
            is_slow = connection.stalled_at != NEVER or connection.transport.is_closing()
            if is_slow or now >= connection.deadline:
                connection.check(now)

    async def shutdown(self, sockets: Any = None) -> None:
        """Close the listener and all connections, and shut down the application."""
        self.end()
        for server in self.servers:
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._close_connections()
        await self._end_tasks()
        left_s = max(self._exit_by - self._loop.time(), TICK_S)
        try:
            await asyncio.wait_for(self.lifespan.shutdown(), left_s)
        except TimeoutError:
            self._has_failed = True
            logger.error("the application did not end within %s s", self.config.grace_s)
        self._has_failed = self._has_failed or self.lifespan.should_exit

    async def _close_connections(self) -> None:
        """Wait until requests are answered and clients have read, then abort the rest."""
        state, now = self.server_state, self._loop.time()
        close_by = now + CLOSE_S
        # A quarter of the grace period is reserved for the application.
        answered_by = self._exit_by - self.config.grace_s / 4
        while state.connections and now < answered_by:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            self._sweep(now)
            for connection in tuple(state.connections):
                if now >= close_by and connection.transport.is_closing():
                    connection.transport.abort()
        for connection in tuple(state.connections):
            self.num_unanswered += bool(getattr(connection, "is_answering", False))
            connection.transport.abort()

    async def _end_tasks(self) -> None:
        """Wait for tasks of disconnected clients, and cancel the remaining ones."""
        tasks = set(self.server_state.tasks)
        timeout_s = self.config.grace_s / 16
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=timeout_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)


def exit_process(text: str) -> NoReturn:
    """Exit the process at once, with the reason on standard error."""
    with suppress(OSError):
        os.write(2, f"clob-server: {text}\n".encode())
    os._exit(FAILED)
