"""All order routes: shape of rejections, budgets, draining and concurrent clients."""

import concurrent.futures
import signal
import time

import httpx
import pytest

from clob import Side
from clob_server.http.routes import gasless, makers, orders
from tests.server.api.makers import ONE, ApiClient, Maker, MarketIds, delete, good, problem
from tests.server.live import live_server

ROUTES = (*orders.ROUTES, *makers.ROUTES, *gasless.ROUTES)


# ----- shape of a rejection ------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_rejects_with_the_same_shape(http, route):
    path = route.path.replace("{orderId}", "ord_1_unknown")
    if route.reads_body:
        options = {"content": b"{", "headers": {"content-type": "application/json"}}
        problem(http.request(route.method, path, **options), "INVALID_JSON")
        problem(http.request(route.method, path, json=[]), "INVALID_FIELD")
        huge = {"content": b"x" * 70_000}
        problem(http.request(route.method, path, **huge), "BODY_TOO_LARGE")
        for kind in ({}, {"content-type": "text/plain"}, {"content-type": "text/xml"}):
            answer = http.request(route.method, path, content=b"{}", headers=kind)
            problem(answer, "UNSUPPORTED_MEDIA_TYPE")
    elif "{operationId}" in path:
        problem(http.request(route.method, path), "CHAIN_NOT_CONFIGURED")
    elif "{maker}" in path:
        problem(http.request(route.method, path), "INVALID_ADDRESS", "maker")
    elif "{" in path or "unknown" in path:
        problem(http.request(route.method, path), "UNKNOWN_ORDER")
    else:
        params = {"maker": "0x" + "1" * 40, "limit": "x"}
        problem(http.request(route.method, path, params=params), "INVALID_FIELD", "limit")
    problem(http.request(route.method, path, headers={"X-API-Key": "no"}), "INVALID_API_KEY")


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_every_path_rejects_other_methods(http, path):
    allowed = {route.method for route in ROUTES if route.path == path}
    if "GET" in allowed:
        allowed |= {"HEAD"}
    answer = http.request("PUT", path.replace("{orderId}", "x"))
    problem(answer, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["allow"].split(", ")) == allowed


def test_order_budget_counts_each_order_of_a_batch(tmp_path, alice):
    """Decision 32: 30 order creations a minute per key or address (a batch counts each order)."""
    market = MarketIds()
    with live_server(tmp_path / "data") as live:
        api, batch = ApiClient(live.http), {"orders": [alice.gasless(market) for _ in range(20)]}
        api.post("/api/orders/batch", batch)
        response = live.http.post("/api/orders/batch", json=batch)
        rejection = problem(response, "RATE_LIMITED")
        assert 1 <= int(response.headers["retry-after"]) <= 60
        for _ in range(8):
            api.place(alice.signed(market))
        api.gasless(alice.gasless(market))
        api.post("/api/orders/validate", alice.signed(market))
        for path in ("/api/orders", "/api/orders/gasless", "/api/orders/validate"):
            problem(live.http.post(path, json=alice.gasless(market)), "RATE_LIMITED")
        assert good(live.http.post("/api/orders/simulate", json=alice.gasless(market)))["valid"]
        assert rejection["retryable"]


# ----- draining ------------------------------------------------------------------------------


def test_draining_server_accepts_cancels_and_rejects_orders(tmp_path, alice):
    """After SIGTERM creates are rejected with Retry-After, and cancels are still accepted."""
    market = MarketIds()
    with live_server(tmp_path / "data", drain_s=20, rate_limits=False) as live:
        api = ApiClient(live.http)
        order_ids = [api.place(alice.signed(market))["orderId"] for _ in range(2)]
        live.process.send_signal(signal.SIGTERM)
        for _ in range(500):
            if live.http.get("/ready").status_code == 503:
                break
            time.sleep(0.01)
        for path, body in [
            ("/api/orders", alice.signed(market)),
            ("/api/orders/gasless", alice.gasless(market)),
            ("/api/orders/batch", {"orders": [alice.gasless(market)]}),
        ]:
            problem(live.http.post(path, json=body), "DRAINING")
        assert api.cancel(order_ids[0], alice)["status"] == "cancelled"
        assert api.post("/api/orders/nonce", alice.nonce(1))["numCancelled"] == 1
        assert api.order(order_ids[1])["cancelReason"] == "nonce"


# ----- real clients --------------------------------------------------------------------------


def test_order_signed_by_py_order_utils_is_accepted(api, market):
    """The client sends numbers as strings and the side as a word; its domain has our name."""
    builders = pytest.importorskip("py_order_utils.builders")
    from py_order_utils.model import OrderData  # noqa: PLC0415 - after importorskip
    from py_order_utils.signer import Signer  # noqa: PLC0415

    from tests.clients.test_python import NamedBuilder  # noqa: PLC0415

    assert issubclass(NamedBuilder, builders.OrderBuilder)
    maker = Maker()
    built = NamedBuilder(
        "0x5FbDB2315678afecb367f032d93F642f64180aa3", 31337, Signer(maker.key)
    ).build_signed_order(
        OrderData(
            maker=maker.address,
            tokenId=str(market.yes),
            makerAmount=str(40 * ONE),
            takerAmount=str(100 * ONE),
            side=Side.BUY,
            feeRateBps="0",
            signatureType=0,
        )
    )
    posted = built.dict()
    reply = api.place({**posted, "marketId": market.id})
    order = api.order(reply["orderId"])
    assert (order["price"], order["size"], order["salt"]) == (
        40,
        str(100 * ONE),
        str(posted["salt"]),
    )
    assert order["maker"] == maker.address


def test_concurrent_clients_get_their_own_responses(live, market):
    """All acknowledged orders rest, each listed for its own maker."""
    makers = [Maker() for _ in range(8)]

    def trade(maker):
        with httpx.Client(base_url=live.url, timeout=60) as client:
            api = ApiClient(client)
            order_ids = [api.place(maker.signed(market))["orderId"] for _ in range(10)]
            good(delete(client, f"/api/orders/{order_ids[0]}", {"maker": maker.address}))
            return order_ids[1:]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        resting = list(pool.map(trade, makers))
    api = ApiClient(live.http)
    for maker, order_ids in zip(makers, resting, strict=True):
        assert [order["id"] for order in api.orders(maker=maker.address)] == order_ids
    assert api.book(market)["bids"][0]["numOrders"] == 72
