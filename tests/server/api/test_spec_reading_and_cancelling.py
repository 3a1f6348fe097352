"""Specification, "GET /api/orders/{orderId}", "GET /api/orders", "DELETE /api/orders/{orderId}".

A docstring quotes the sentence.
"""

import pytest

from tests.server.api.makers import BUY, ONE, SELL, Maker, delete, good, hash_of, problem

# ----- one order -----------------------------------------------------------------------------


def test_order_id_is_unique(http, api, market, alice):
    """Path parameter `orderId`: the order's unique ID. Returns one Order resource."""
    order_ids = [api.place(alice.signed(market))["orderId"] for _ in range(2)]
    assert [api.order(each)["id"] for each in order_ids] == order_ids


@pytest.mark.parametrize(
    "ref", ["ord_1_aaaaaa", "nope", "0x" + "0" * 64, "%F0%9F%98%80", "a" * 500]
)
def test_unknown_order_is_404(http, ref):
    """Path parameter `orderId`: the order's unique ID."""
    problem(http.get(f"/api/orders/{ref}"), "UNKNOWN_ORDER")


def test_order_is_found_by_its_hash(http, api, market, alice):
    """Decision 22: the 0x order hash is accepted in paths too."""
    body = alice.signed(market)
    order_id = api.place(body)["orderId"]
    order = api.order(hash_of(body))
    assert (order["id"], order["orderHash"]) == (order_id, hash_of(body))
    assert api.order(f"0x{hash_of(body)[2:].upper()}")["id"] == order_id
    assert (
        delete(http, f"/api/orders/{hash_of(body)}", {"maker": alice.address}).json()["id"]
        == order_id
    )


# ----- open orders ---------------------------------------------------------------------------


def test_orders_of_a_maker(http, api, market, alice, bob):
    """Filter by maker wallet address; must be a valid Ethereum address."""
    mine = [api.place(alice.signed(market))["orderId"] for _ in range(2)]
    api.place(bob.signed(market))
    assert [order["id"] for order in api.orders(maker=alice.address)] == mine
    assert [order["id"] for order in api.orders(maker=alice.address.lower())] == mine
    assert api.orders(maker=Maker().address) == []
    for given in ("0x12", "", "me", alice.address + "0"):
        problem(http.get("/api/orders", params={"maker": given}), "INVALID_ADDRESS", "maker")


def test_orders_of_a_market(http, api, market, alice, bob):
    """Filter by market identifier."""
    order_ids = [api.place(maker.signed(market))["orderId"] for maker in (alice, bob)]
    assert [order["id"] for order in api.orders(marketId=market.id)] == order_ids
    assert api.orders(marketId="unknown-market") == []
    problem(http.get("/api/orders", params={"marketId": "a b"}), "INVALID_FIELD", "marketId")


def test_orders_of_a_maker_in_a_market(api, market, alice, bob):
    """Query parameters: maker, marketId."""
    mine = api.place(alice.signed(market))["orderId"]
    api.place(bob.signed(market))
    orders = api.orders(maker=alice.address, marketId=market.id)
    assert [order["id"] for order in orders] == [mine]


def test_orders_with_status_open_or_partial_only(api, market, alice, bob):
    """Returns an array of Order resources with status `open` or `partial` only."""
    order_ids = [api.place(alice.signed(market, SELL, 60 + step))["orderId"] for step in range(4)]
    api.cancel(order_ids[3], alice)
    api.place(bob.signed(market, BUY, 61, ONE + ONE // 2))
    orders = api.orders(marketId=market.id)
    assert [(order["id"], order["status"]) for order in orders] == (
        [(order_ids[1], "partial"), (order_ids[2], "open")]
    )
    assert orders == [api.order(each) for each in order_ids[1:3]]


# ----- cancelling ----------------------------------------------------------------------------


def test_cancel_needs_the_maker(http, api, market, alice):
    """Body: `maker` (string, the wallet address of the order's maker)."""
    order_id = api.place(alice.signed(market))["orderId"]
    for body in ({}, {"maker": None}):
        problem(delete(http, f"/api/orders/{order_id}", body), "INVALID_FIELD", "maker")
    for body in ({"maker": "me"}, {"maker": 5}):
        problem(delete(http, f"/api/orders/{order_id}", body), "INVALID_ADDRESS", "maker")
    assert api.order(order_id)["status"] == "open"
    order = good(delete(http, f"/api/orders/{order_id}", {"maker": alice.address.lower()}))
    assert order == api.order(order_id)
    assert (order["status"], order["cancelReason"]) == ("cancelled", "cancelled")


def test_cancel_accepts_the_maker_in_the_query(http, api, market, alice):
    """Decision 26: the `maker` in the body (or query)."""
    order_id = api.place(alice.signed(market))["orderId"]
    answer = delete(http, f"/api/orders/{order_id}", {}, params={"maker": alice.address})
    assert good(answer)["status"] == "cancelled"


def test_cancel_removes_the_order_from_the_book(api, market, alice):
    """cancellation and full fills remove orders."""
    order_id = api.place(alice.signed(market))["orderId"]
    assert len(api.book(market)["bids"]) == 1
    api.cancel(order_id, alice)
    assert api.book(market)["bids"] == []


def test_cancel_body_must_be_json(http, market, alice):
    """All bodies are JSON (`Content-Type: application/json`)."""
    body = b"maker=" + alice.address.encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    for method, path in [
        ("POST", "/api/orders"), ("POST", "/api/orders/gasless"), ("DELETE", "/api/orders/x"),
        ("POST", "/api/gasless/merge"), ("POST", "/api/gasless/faucet"),
    ]:  # fmt: skip
        problem(http.request(method, path, content=body, headers=kind), "UNSUPPORTED_MEDIA_TYPE")
        problem(http.request(method, path, content=body), "UNSUPPORTED_MEDIA_TYPE")
        kind_json = {"content-type": "application/json; charset=utf-8"}
        problem(http.request(method, path, content=body, headers=kind_json), "INVALID_JSON")
