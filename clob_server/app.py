"""The ASGI application: starts and stops the service, and routes requests."""

import gc
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, TypeAlias

from clob_server.api.request import Receive, Scope, Send, SendReply
from clob_server.core.lifecycle import Phase
from clob_server.dialects import polymarket
from clob_server.http.endpoint import Router
from clob_server.http.openapi import document
from clob_server.http.routes import admin, dev_wallets, gasless, makers, markets, meta, orders
from clob_server.http.server import Route
from clob_server.http.socket_operations import SocketOperations
from clob_server.service import Service
from clob_server.settings import POLYMARKET

Guest: TypeAlias = AbstractAsyncContextManager[None]
"""Runs inside a started service, such as the demo: entered before the first request and left after
the last."""

ROUTES: Final[tuple[Route, ...]] = (
    *orders.ROUTES,
    *makers.ROUTES,
    *gasless.ROUTES,
    *markets.ROUTES,
    *meta.ROUTES,
    *dev_wallets.ROUTES,
    *admin.ROUTES,
)
"""Every route of the HTTP interface."""

DIALECTS: Final = {POLYMARKET: polymarket.ROUTES}
"""The additional routes of each dialect, which the OpenAPI document leaves out."""

GC_THRESHOLDS: Final = (10_000, 20, 1_000)
"""The thresholds of the garbage collector while the server runs."""


class App:
    """The server as an ASGI application."""

    def __init__(self, service: Service, guest: Guest | None = None) -> None:
        self.service: Final = service
        self.failure: Exception | None = None
        """The error that prevented the start."""
        self._guest: Final = guest
        self._stack: Final = AsyncExitStack()
        self._router: Router | None = None
        self._routes: Final = (*ROUTES, *DIALECTS.get(service.settings.dialect, ()))
        self.waits_for_body: frozenset[tuple[str, str]] = frozenset()
        """See :attr:`Router.waits_for_body`; set when the service has started."""
        service.openapi = document(ROUTES, service.settings.environment)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self.router(scope, receive, send)

    def at_once(self, scope: Scope, body: bytes, send_reply: SendReply) -> bool:
        """Handle a request that has arrived whole; see :meth:`Router.at_once`."""
        return self.router.at_once(scope, body, send_reply)

    @property
    def router(self) -> Router:
        """The routes, once the service has started."""
        if self._router is None:
            assert self.service.lifecycle.phase is not Phase.RECOVERING, "the server is starting"
            self._router = Router(self.service, self._routes)
            self.service.feed.operations = SocketOperations(
                self._router.endpoints, self.service.settings.body_max_bytes
            )
            if (followers := self.service.followers) is not None:
                followers.start_call = self._router.start
            self.at_once = self._router.at_once  # type: ignore[method-assign]
            self.waits_for_body = self._router.waits_for_body
        return self._router

    # ----- from start to end -------------------------------------------------------------------

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start the service, wait for the end of the application, and close the service."""
        await receive()
        try:
            await self._start()
        except Exception as error:
            self.failure = error  # reported in one line by the caller, not as a traceback
            await self._stack.aclose()
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._stack.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        """Start the service and its guest."""
        self._stack.push_async_callback(self.service.close)
        gc.disable()  # the objects made here stay
        try:
            await self.service.start()
        finally:
            gc.enable()
        if self._guest is not None:
            await self._stack.enter_async_context(self._guest)
        _ = self.router
        relax_garbage_collection()


def relax_garbage_collection() -> None:
    """Exempt the existing objects from the garbage collector, and run it rarely.

    Orders leave no cycles behind. The collector walked through the whole book again and again: of
    32 clients, one in a hundred waited 20 ms, and 10 ms without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
