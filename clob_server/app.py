"""The ASGI application: every route of the server, the hot ones found without a search."""

import gc
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.routing import Route as StarletteRoute

from clob_server import gauges
from clob_server.api.problems import ApiError
from clob_server.api.request import ApiRequest, Receive, Reply, Route, Scope, Send
from clob_server.http.endpoint import Endpoint
from clob_server.http.openapi import document
from clob_server.http.routes import admin, gasless, markets, meta, orders
from clob_server.service import Service
from clob_server.transport import Way

Guest: TypeAlias = AbstractAsyncContextManager[None]
"""What lives in a server that serves: entered before the first request, left after the last."""

THRESHOLDS: Final = (10_000, 20, 1_000)
"""How many objects more than before there may be until the collector looks at the young ones, how
often it does that before it looks at older ones, and those before it looks at all."""


class Lifespan:
    """Starts a service, and closes it.

    Args:
        service: the service.
        guest: what lives in it besides.
    """

    def __init__(self, service: Service, guest: Guest | None = None) -> None:
        self.failure: Exception | None = None
        """What the start has failed of."""
        self._service: Final = service
        self._guest: Final = guest
        self._stack: Final = AsyncExitStack()

    async def __call__(self, receive: Receive, send: Send) -> None:
        """Follow the life of the application from its start to its end."""
        await receive()
        try:
            await self._start()
        except Exception as error:
            self.failure = error
            await self._stack.aclose()
            # Who reads `failure` says it, in a line and not in a traceback.
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._stack.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        """Start the service, and let the guest in."""
        self._stack.push_async_callback(self._service.close)
        gc.disable()  # what is made now stays
        try:
            await self._service.start()
        finally:
            gc.enable()
        if self._guest is not None:
            await self._stack.enter_async_context(self._guest)
        leave_in_peace()


def leave_in_peace() -> None:
    """Have the collector look at what is there no more, and at everything but rarely.

    Whatever an order leaves behind is freed without the collector. It walked through all of a book
    again and again: of 32 clients at a time, one in a hundred waited 20 ms, and 10 ms without.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


ROUTES: Final[tuple[Route, ...]] = (
    *orders.ROUTES,
    *gasless.ROUTES,
    *markets.ROUTES,
    *meta.ROUTES,
    *admin.ROUTES,
)
"""Every route of the HTTP interface."""

MARKETS: Final = "/api/markets/"
ORDERBOOK: Final = "/orderbook"


class App:
    """The server as an ASGI application.

    Args:
        service: what is behind it.
        life: its life; None is that of the service alone.
    """

    def __init__(self, service: Service, life: Lifespan | None = None) -> None:
        self.service: Final = service
        self._life = life or Lifespan(service)
        gauges.show(service)
        service.description = document(ROUTES, service.settings.environment)
        ends = {route.name: Endpoint(service, route) for route in ROUTES}
        self._hot: dict[tuple[str, str], Endpoint] = {
            (route.method, route.path): ends[route.name]
            for route in ROUTES
            if "{" not in route.path
        }
        self._orderbook = ends["get_orderbook"]
        self._body_max = service.settings.body_max_bytes
        self._rest = Starlette(routes=self._routes(ends))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request to its route."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._life(receive, send)
            else:
                await self._rest(scope, receive, send)
            return
        hot = self._hot_end(scope)
        if hot is not None:
            await hot(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    def at_once(self, scope: Scope, body: bytes, way: Way) -> bool:
        """Answer a request that is there whole, without a task of its own.

        Args:
            scope: what ASGI tells of it.
            body: all of its body.
            way: takes the answer.

        Returns:
            False where it is to be answered as ASGI has it, and nothing was done.
        """
        hot = self._hot_end(scope)
        if hot is None or len(body) > self._body_max:
            return False
        hot.at_once(scope, body, way)
        return True

    def _hot_end(self, scope: Scope) -> Endpoint | None:
        """Find where a request goes, if that is known without a search."""
        path: str = scope["path"]
        hot = self._hot.get((scope["method"], path))
        if (
            hot is None
            and path.endswith(ORDERBOOK)
            and path.startswith(MARKETS)
            and scope["method"] == "GET"
            and "/" not in (market := path[len(MARKETS) : -len(ORDERBOOK)])
        ):
            scope["path_params"] = {"marketId": market}
            return self._orderbook
        return hot

    def _routes(self, ends: dict[str, Endpoint]) -> list[BaseRoute]:
        """Give the routes as Starlette has them: one for each path, with all its methods."""
        by_path: dict[str, dict[str, Endpoint]] = {}
        for route in ROUTES:
            by_path.setdefault(route.path, {})[route.method] = ends[route.name]
        made: list[BaseRoute] = [
            StarletteRoute(path, Methods(self.service, methods))
            for path, methods in by_path.items()
        ]
        made.append(WebSocketRoute("/ws", self.service.feed))
        made.append(StarletteRoute("/{path:path}", Methods(self.service, {})))
        return made


class Methods:
    """A path with the methods it knows, and the refusal of all others.

    Args:
        service: what is asked.
        ends: the endpoint of each method.
    """

    def __init__(self, service: Service, ends: dict[str, Endpoint]) -> None:
        self._ends = dict(ends)
        if "GET" in ends:
            self._ends["HEAD"] = ends["GET"]
        allowed = ", ".join(sorted(self._ends)).encode()

        async def refuse(call: ApiRequest) -> Reply:
            if not ends:
                raise ApiError("NOT_FOUND", f"there is nothing at {call.scope['path']!r:.99}")
            raise ApiError(
                "METHOD_NOT_ALLOWED",
                f"{call.scope['method']!r:.20} is not one of {allowed.decode()}",
                headers=((b"allow", allowed),),
            )

        self._refuse = Endpoint(service, Route("refused", "", "", refuse))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request to the endpoint of its method."""
        await self._ends.get(scope["method"], self._refuse)(scope, receive, send)


# MERGED clob_server.app: The life of the application, as ASGI tells of it: the service starts, serves and is closed.
