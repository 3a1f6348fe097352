"""The routes of the dialect. Unknown parameters of a query are ignored, as Polymarket does."""

from collections.abc import Callable
from typing import Final

from clob_server.api.problems import ApiError
from clob_server.api.request import Reply
from clob_server.dialects.polymarket import account, login, orders, reads
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.http.server import Request, Response, Route

PART: Final = "polymarket"
"""The attribute of the service with the parts of the dialect."""
ABSENT: Final = {
    "rfq": "/rfq/{path:path}",
    "rewards": "/rewards/{path:path}",
    "builder": "/builder/{path:path}",
    "builder key": "/auth/builder-api-key",
    "readonly key": "/auth/readonly-api-key",
    "readonly key list": "/auth/readonly-api-keys",
    "readonly key check": "/auth/validate-readonly-api-key",
    "price history": "/prices-history",
    "live activity": "/live-activity/{path:path}",
}
"""Parts of Polymarket's interface that the dialect does not have, each with its path."""
METHODS: Final = ("GET", "POST", "PUT", "DELETE")
"""Methods of the paths of those parts."""


def absent(_: Polymarket, call: Request) -> Reply:
    """Reject a request for a part that the dialect does not have."""
    path = call.scope["path"][:99]
    *parts, last = ABSENT
    rule = f"the polymarket dialect has no {', '.join(parts)} and {last} routes"
    raise ApiError("NOT_FOUND", f"{path} is not served: {rule}")


def route(
    method: str,
    path: str,
    handler: Callable[..., Response],
    name: str = "",
    *,
    mends_clock: bool = False,
) -> Route:
    """Return a route; its name is that of its handler unless another one is given."""
    reads_body = method != "GET"
    made = f"{PART}_{name or handler.__name__}"
    return Route(
        made, method, path, handler, reads_body=reads_body, part=PART, mends_clock=mends_clock
    )


READS: Final = (
    route("GET", "/time", reads.time),
    route("GET", "/markets", reads.markets),
    route("GET", "/sampling-markets", reads.markets, "sampling_markets"),
    route("GET", "/simplified-markets", reads.simplified_markets),
    route(
        "GET",
        "/sampling-simplified-markets",
        reads.simplified_markets,
        "sampling_simplified_markets",
    ),
    route("GET", "/markets/{conditionId}", reads.market),
    route("GET", "/tick-size", reads.tick_size),
    route("GET", "/neg-risk", reads.neg_risk),
    route("GET", "/fee-rate", reads.fee_rate),
    route("GET", "/book", reads.book),
    route("POST", "/books", reads.books),
    route("GET", "/price", reads.price),
    route("POST", "/prices", reads.prices),
    route("GET", "/midpoint", reads.midpoint),
    route("POST", "/midpoints", reads.midpoints),
    route("GET", "/spread", reads.spread),
    route("POST", "/spreads", reads.spreads),
    route("GET", "/last-trade-price", reads.last_trade_price),
    route("POST", "/last-trades-prices", reads.last_trades_prices),
)
"""Routes that anyone may read."""

LOGIN: Final = (
    route("POST", "/auth/api-key", login.api_key, "create_api_key"),
    route("GET", "/auth/derive-api-key", login.api_key, "derive_api_key"),
    route("GET", "/auth/api-keys", login.api_keys),
    route("DELETE", "/auth/api-key", login.delete_api_key),
    route("GET", "/auth/ban-status/closed-only", login.closed_only),
)
"""Routes of credentials."""

ORDERS: Final = (
    route("POST", "/order", orders.create_order),
    route("DELETE", "/order", orders.cancel_order),
    route("POST", "/orders", orders.create_orders),
    route("DELETE", "/orders", orders.cancel_orders),
    route("DELETE", "/cancel-all", orders.cancel_all),
    route("DELETE", "/cancel-market-orders", orders.cancel_market_orders),
    route("POST", "/v1/heartbeats", orders.heartbeat, mends_clock=True),
)
"""Routes that place, keep and cancel orders."""

ACCOUNT: Final = (
    route("GET", "/data/order/{orderId}", account.get_order),
    route("GET", "/data/orders", account.list_orders),
    route("GET", "/data/trades", account.trades),
    route("GET", "/balance-allowance", account.balance_allowance),
    route(
        "GET", "/balance-allowance/update", account.balance_allowance, "update_balance_allowance"
    ),
    route("GET", "/order-scoring", account.order_scoring),
    route("POST", "/orders-scoring", account.orders_scoring),
    route("GET", "/notifications", account.notifications),
    route("DELETE", "/notifications", account.drop_notifications),
)
"""Routes that read a wallet's orders and trades."""

ROUTES: Final[tuple[Route, ...]] = (
    *READS,
    *LOGIN,
    *ORDERS,
    *ACCOUNT,
    *(
        route(method, path, absent, f"{part.replace(' ', '_')}_{method.lower()}")
        for part, path in ABSENT.items()
        for method in METHODS
    ),
)
"""All routes of the dialect."""
