"""The process around the application: it listens, tells where, and comes to a clean end.

Told to end, it first says so to whoever asks if it is ready, goes on for a while, then closes all
that is open, and is gone within its grace period whatever the clients do.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn

import uvicorn
from uvicorn.server import logger

from clob_server.transport import (
    NEVER,
    Connections,
    FeedProtocol,
    HttpProtocol,
    TransportConfig,
    TransportLimits,
)

FAILED: Final = 1
"""The exit code when the application could not start, has failed, or did not come to an end."""
CLOSE_S: Final = 0.5
"""How long a client may take to read the last of what was sent to him, at the end."""
LAST_S: Final = 0.5
"""How long beyond its time a process may live that is stuck."""
TICK_S: Final = 0.05
"""How often it is seen if all have gone, at the end."""


def config_for(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: TransportLimits | None = None,
    proxies: Iterable[str] = (),
    drain_s: float = 1.0,
    grace_s: float = 10.0,
    loop: str = "auto",
    **options: Any,
) -> TransportConfig:
    """Configure a server.

    Args:
        app: the ASGI application.
        host: where to listen.
        port: the port; 0 is any that is free.
        limits: what connections may take.
        proxies: addresses and networks of proxies, whose ``X-Forwarded-For`` is believed.
        drain_s: how long the server goes on after SIGTERM.
        grace_s: how long after that it may take to end.
        loop: ``uvloop``, ``asyncio``, or ``auto``: the first if it is there.
        options: what :class:`~clob_server.transport.TransportConfig` and uvicorn take besides.

    Raises:
        ValueError: a proxy is neither an address nor a network.
    """
    limits = limits or TransportLimits()
    return TransportConfig(
        app,
        limits=limits,
        proxies=proxies,
        drain_s=drain_s,
        grace_s=grace_s,
        host=host,
        port=port,
        loop=loop,
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


class HttpServer(uvicorn.Server):
    """A server, for as long as its process lives.

    Args:
        config: what :func:`config_for` made.
        on_listening: is told host and port, once connections are accepted.
        on_draining: is called when the server was told to end, before anything else is done.
    """

    config: TransportConfig
    server_state: Connections

    def __init__(
        self,
        config: TransportConfig,
        *,
        on_listening: Callable[[str, int], None] | None = None,
        on_draining: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self.server_state = Connections(config)
        self._on_listening = on_listening
        self._on_draining = on_draining
        self._has_failed = False
        self._is_signalled = False
        self._close_at = NEVER
        self._gone_by = NEVER
        self._loop: asyncio.AbstractEventLoop

    def run(self, sockets: Any = None) -> int:  # type: ignore[override]
        """Serve until told to end.

        Args:
            sockets: what to listen on, instead of host and port.

        Returns:
            The exit code: 0, or 1 if the application did not start or did not end as it should.
        """
        super().run(sockets)
        return FAILED if self._has_failed else 0

    def fail(self, error: BaseException) -> NoReturn:
        """End the process at once, because nothing that it says can be relied on any more.

        May be called in any thread. Nothing is sent, flushed or tidied up, and nothing that would
        come after the call is done.

        Args:
            error: what happened, for standard error.
        """
        leave(f"the server has failed: {error!r}")

    def end(self, drain_s: float = 0.0) -> None:
        """Begin to end, once; to be called in the thread of the loop.

        Args:
            drain_s: how long to go on before the listener and the connections are closed.
        """
        if self._close_at != NEVER:
            return
        grace_s = self.config.grace_s
        self._close_at = self._loop.time() + drain_s
        self._gone_by = self._close_at + grace_s
        # For what no task can see to: a loop that is held, a task that will not be cancelled.
        last = threading.Timer(
            drain_s + grace_s + LAST_S, leave, [f"the server did not end within {grace_s} s"]
        )
        last.daemon = True
        last.start()
        if self._on_draining is not None:
            self._on_draining()

    # ----- what uvicorn calls ----------------------------------------------------------------

    async def serve(self, sockets: Any = None) -> None:
        """Serve until told to end."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def startup(self, sockets: Any = None) -> None:
        """Start the application, listen, and tell where."""
        try:
            await super().startup(sockets)
        except SystemExit:  # uvicorn's way to say that it could not, and it has said why
            self._has_failed = self.should_exit = True
            return
        if self._on_listening is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_listening(host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Hear a signal: the first one ends the server cleanly, the second at once."""
        if self._is_signalled:
            leave("the server was ended by a second signal")
        self._is_signalled = True
        drain_s = self.config.drain_s if sig == signal.SIGTERM else 0.0
        self._loop.call_soon_threadsafe(self.end, drain_s)

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections, and tell if it is time to close them."""
        await super().on_tick(counter)
        now = self._loop.time()
        self.server_state.sweep(now)
        return now >= self._close_at

    async def shutdown(self, sockets: Any = None) -> None:
        """Close all that is open, and have the application end."""
        self.end()
        for server in self.servers:
            server.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._see_clients_off()
        await self._end_tasks()
        left = max(self._gone_by - self._loop.time(), TICK_S)
        try:
            await asyncio.wait_for(self.lifespan.shutdown(), left)
        except TimeoutError:
            self._has_failed = True
            logger.error("the application did not end within %s s", self.config.grace_s)
        self._has_failed = self._has_failed or self.lifespan.should_exit

    async def _see_clients_off(self) -> None:
        """Wait for requests to be answered and for clients to read; then break off the rest."""
        state, now = self.server_state, self._loop.time()
        close_by = now + CLOSE_S
        # A quarter of the time is the application's own.
        answered_by = self._gone_by - self.config.grace_s / 4
        while state.connections and now < answered_by:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            state.sweep(now)
            for connection in tuple(state.connections):
                if now >= close_by and connection.transport.is_closing():
                    connection.transport.abort()
        for connection in tuple(state.connections):
            connection.transport.abort()

    async def _end_tasks(self) -> None:
        """Wait for what the application does for clients who have gone, and cancel what stays."""
        tasks = set(self.server_state.tasks)
        patience_s = self.config.grace_s / 16
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=patience_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)


def leave(text: str) -> NoReturn:
    """End the process at once, and say why on standard error."""
    with suppress(OSError):
        os.write(2, f"clob-server: {text}\n".encode())
    os._exit(FAILED)
