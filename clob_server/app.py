"""The ASGI application: every route of the server, the hot ones found without a search."""

from typing import Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.routing import Route as StarletteRoute

from clob_server import gauges
from clob_server.calls import Call, Receive, Reply, Route, Scope, Send
from clob_server.endpoints import Endpoint
from clob_server.lifespan import Lifespan
from clob_server.openapi import document
from clob_server.problems import ApiError
from clob_server.routes import admin, gasless, markets, meta, orders
from clob_server.service import Service
from clob_server.transport import Way

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

        async def refuse(call: Call) -> Reply:
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
