"""Specification, "GET /api/orders/{orderId}", "GET /api/orders", "DELETE /api/orders/{orderId}".

A docstring quotes the sentence.
"""

import pytest

from tests.server.api.people import BUY, ONE, SELL, Person, delete, good, hash_of, problem

# ----- one order -----------------------------------------------------------------------------


def test_order_id_is_unique(http, shop, place, alice):
    """Path parameter `orderId`: the order's unique ID. Returns one Order resource."""
    made = [shop.place(alice.signed(place))["orderId"] for _ in range(2)]
    assert [shop.order(each)["id"] for each in made] == made


@pytest.mark.parametrize(
    "ref", ["ord_1_aaaaaa", "nope", "0x" + "0" * 64, "%F0%9F%98%80", "a" * 500]
)
def test_unknown_order_is_404(http, ref):
    """Path parameter `orderId`: the order's unique ID."""
    problem(http.get(f"/api/orders/{ref}"), "UNKNOWN_ORDER")


def test_order_is_found_by_its_hash(http, shop, place, alice):
    """Decision 22: the 0x order hash is accepted in paths too."""
    body = alice.signed(place)
    made = shop.place(body)["orderId"]
    found = shop.order(hash_of(body))
    assert (found["id"], found["orderHash"]) == (made, hash_of(body))
    assert shop.order(f"0x{hash_of(body)[2:].upper()}")["id"] == made
    assert (
        delete(http, f"/api/orders/{hash_of(body)}", {"maker": alice.address}).json()["id"] == made
    )


# ----- open orders ---------------------------------------------------------------------------


def test_orders_of_a_maker(http, shop, place, alice, bob):
    """Filter by maker wallet address; must be a valid Ethereum address."""
    mine = [shop.place(alice.signed(place))["orderId"] for _ in range(2)]
    shop.place(bob.signed(place))
    assert [order["id"] for order in shop.orders(maker=alice.address)] == mine
    assert [order["id"] for order in shop.orders(maker=alice.address.lower())] == mine
    assert shop.orders(maker=Person().address) == []
    for given in ("0x12", "", "me", alice.address + "0"):
        problem(http.get("/api/orders", params={"maker": given}), "INVALID_ADDRESS", "maker")


def test_orders_of_a_market(http, shop, place, alice, bob):
    """Filter by market identifier."""
    made = [shop.place(who.signed(place))["orderId"] for who in (alice, bob)]
    assert [order["id"] for order in shop.orders(marketId=place.id)] == made
    assert shop.orders(marketId="nobody-opened-this") == []
    problem(http.get("/api/orders", params={"marketId": "a b"}), "INVALID_FIELD", "marketId")


def test_orders_of_a_maker_in_a_market(shop, place, alice, bob):
    """Query parameters: maker, marketId."""
    mine = shop.place(alice.signed(place))["orderId"]
    shop.place(bob.signed(place))
    found = shop.orders(maker=alice.address, marketId=place.id)
    assert [order["id"] for order in found] == [mine]


def test_orders_with_status_open_or_partial_only(shop, place, alice, bob):
    """Returns an array of Order resources with status `open` or `partial` only."""
    made = [shop.place(alice.signed(place, SELL, 60 + step))["orderId"] for step in range(4)]
    shop.cancel(made[3], alice)
    shop.place(bob.signed(place, BUY, 61, ONE + ONE // 2))
    found = shop.orders(marketId=place.id)
    assert [(order["id"], order["status"]) for order in found] == (
        [(made[1], "partial"), (made[2], "open")]
    )
    assert found == [shop.order(each) for each in made[1:3]]


# ----- cancelling ----------------------------------------------------------------------------


def test_cancel_needs_the_maker(http, shop, place, alice):
    """Body: `maker` (string, the wallet address of the order's maker)."""
    made = shop.place(alice.signed(place))["orderId"]
    for body in ({}, {"maker": None}, {"maker": "me"}, {"maker": 5}):
        problem(delete(http, f"/api/orders/{made}", body), "INVALID_ADDRESS", "maker")
    assert shop.order(made)["status"] == "open"
    found = good(delete(http, f"/api/orders/{made}", {"maker": alice.address.lower()}))
    assert found == shop.order(made)
    assert (found["status"], found["cancelReason"]) == ("cancelled", "cancelled")


def test_cancel_accepts_the_maker_in_the_query(http, shop, place, alice):
    """Decision 26: the `maker` in the body (or query)."""
    made = shop.place(alice.signed(place))["orderId"]
    answer = delete(http, f"/api/orders/{made}", {}, params={"maker": alice.address})
    assert good(answer)["status"] == "cancelled"


def test_cancel_removes_the_order_from_the_book(shop, place, alice):
    """cancellation and full fills remove orders."""
    made = shop.place(alice.signed(place))["orderId"]
    assert len(shop.book(place)["bids"]) == 1
    shop.cancel(made, alice)
    assert shop.book(place)["bids"] == []


def test_cancel_body_must_be_json(http, place, alice):
    """All bodies are JSON (`Content-Type: application/json`)."""
    body = b"maker=" + alice.address.encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    for method, path in [
        ("POST", "/api/orders"), ("POST", "/api/orders/gasless"), ("DELETE", "/api/orders/x"),
        ("POST", "/api/gasless/merge"), ("POST", "/api/gasless/faucet"),
    ]:  # fmt: skip
        problem(http.request(method, path, content=body, headers=kind), "UNSUPPORTED_MEDIA_TYPE")
        problem(http.request(method, path, content=body), "INVALID_JSON")
