"""Decisions on cancels, lists, authority and limits, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import re

import pytest

from tests.server.api.people import (
    BUY,
    ONE,
    SELL,
    Place,
    Shop,
    assert_rejected,
    delete,
    good,
    hash_of,
    now_ms,
    problem,
)
from tests.signings import DOMAIN

# ----- cancels -------------------------------------------------------------------------------


def test_decision_26_test_environment_needs_no_signature(http, shop, place, alice, bob):
    """Test: the `maker` in the body (or query) must own the order. 200 with the full Order; 404
    unknown; 403 not the maker; 409 already final, with the Order."""
    one, two = (shop.place(alice.signed(place))["orderId"] for _ in range(2))
    path = f"/api/orders/{one}"
    problem(delete(http, path, {"maker": bob.address}), "NOT_THE_MAKER")
    problem(delete(http, "/api/orders/ord_1_zzzzzz", {"maker": bob.address}), "UNKNOWN_ORDER")
    assert good(delete(http, path, {"maker": alice.address})) == shop.order(one)
    said = problem(delete(http, path, {"maker": alice.address}), "ORDER_NOT_OPEN")
    assert said["order"] == shop.order(one)
    problem(delete(http, path, {"maker": bob.address}), "NOT_THE_MAKER")
    in_query = delete(http, f"/api/orders/{two}", params={"maker": alice.address})
    assert good(in_query)["status"] == "cancelled"


def test_decision_26_production_needs_a_signature_of_the_maker(production, market, alice, bob):
    """an EIP-712 `Cancel(string orderId,address maker,uint256 timestamp)` signature, in the body as
    `{maker, timestamp, signature}`."""
    http, shop = production.http, Shop(production.http)
    body = alice.signed(market)
    made = shop.place(body)["orderId"]
    path = f"/api/orders/{made}"
    problem(delete(http, path, {"maker": alice.address}), "API_KEY_REQUIRED")
    forged = bob.cancel(made, now_ms()) | {"maker": alice.address}
    problem(delete(http, path, forged), "INVALID_SIGNATURE", "signature")
    problem(delete(http, path, alice.cancel("ord_1_other0", now_ms())), "INVALID_SIGNATURE")
    problem(delete(http, path, bob.cancel(made, now_ms())), "NOT_THE_MAKER")
    found = good(delete(http, path, alice.cancel(made, now_ms())))
    assert (found["id"], found["status"]) == (made, "cancelled")
    said = problem(delete(http, path, alice.cancel(made, now_ms())), "ORDER_NOT_OPEN")
    assert said["order"]["id"] == made


def test_decision_26_signed_cancel_accepts_the_order_hash(production, market, alice):
    """The 0x order hash is accepted in paths too."""
    body = alice.signed(market)
    Shop(production.http).place(body)
    path, wish = f"/api/orders/{hash_of(body)}", alice.cancel(hash_of(body), now_ms())
    assert good(delete(production.http, path, wish))["status"] == "cancelled"


@pytest.mark.parametrize("apart_ms", [-90_000, 90_000])
def test_decision_26_signed_cancel_needs_a_current_timestamp(production, market, alice, apart_ms):
    """timestamp in Unix ms within 60 s of the server's clock (else 422
    `TIMESTAMP_OUT_OF_WINDOW`)."""
    made = Shop(production.http).place(alice.signed(market))["orderId"]
    old = alice.cancel(made, now_ms() + apart_ms)
    answer = delete(production.http, f"/api/orders/{made}", old)
    problem(answer, "TIMESTAMP_OUT_OF_WINDOW", "timestamp")


def test_decision_26_production_accepts_a_key_of_the_maker(production, market, alice, bob, key_for):
    """Production: an API key bound to that maker."""
    made = Shop(production.http).place(alice.signed(market))["orderId"]
    path, body = f"/api/orders/{made}", {"maker": alice.address}
    others = delete(production.http, path, body, headers=key_for(bob))
    problem(others, "MAKER_NOT_ALLOWED")
    readers = delete(production.http, path, body, headers=key_for(alice, scopes=["read"]))
    problem(readers, "SCOPE_MISSING")
    found = good(delete(production.http, path, body, headers=key_for(alice)))
    assert found["status"] == "cancelled"


def test_decision_27_gasless_orders_need_a_key_in_production(
    production, market, alice, bob, key_for
):
    """No signature exists; production needs an API key bound to the maker."""
    path, body = "/api/orders/gasless", alice.gasless(market)
    problem(production.http.post(path, json=body), "API_KEY_REQUIRED")
    problem(production.http.post(path, json=body, headers=key_for(bob)), "MAKER_NOT_ALLOWED")
    told = good(production.http.post(path, json=body, headers=key_for(alice)))
    assert told["status"] == "open"


def test_decision_28_list(http, shop, alice):
    """Without filters: allowed, `limit` 1..500 (default 100), `cursor`; the body stays an array,
    the next cursor is in `Link` and `X-Next-Cursor`."""
    for place in (Place(), Place()):
        for _ in range(53):
            shop.gasless(alice.gasless(place))
    answer = http.get("/api/orders")
    assert len(good(answer)) == 100
    assert answer.headers["x-next-cursor"]
    assert answer.headers["link"].endswith('>; rel="next"')
    for given in ("0", "501", "-1", "x", "1.0", "", "1" * 30):
        problem(http.get("/api/orders", params={"limit": given}), "INVALID_FIELD", "limit")
    for given in ("-1", "x", "", "1" * 30):
        problem(http.get("/api/orders", params={"cursor": given}), "INVALID_FIELD", "cursor")


def test_decision_31_invalid_signature_is_explained(http, place, alice):
    """422 `INVALID_SIGNATURE` that explains: expected digest, recovered address, domain, type, and
    which check failed."""
    body = alice.signed(place)
    said = assert_rejected(http, body | {"nonce": "1"}, "INVALID_SIGNATURE", "signature")
    assert said["expectedDigest"] == hash_of(body | {"nonce": "1"})
    assert said["check"] == "WRONG_SIGNER"
    assert re.fullmatch("0x[0-9a-fA-F]{40}", said["recoveredAddress"])
    for word in (str(DOMAIN.chain_id), DOMAIN.verifying_contract, "signatureType 1"):
        assert word in said["detail"]


# ----- the rest ------------------------------------------------------------------------------


def test_decision_39_self_trade(shop, place, alice):
    """Allowed by default (silent in the specification); per-market and per-order prevention."""
    shop.place(alice.signed(place, SELL))
    assert shop.place(alice.signed(place, BUY))["matched"]
    resting = shop.place(alice.signed(place, SELL))["orderId"]
    body = alice.signed(place, BUY, also={"selfTrade": "CANCEL_RESTING"})
    assert not shop.place(body)["matched"]
    assert shop.order(resting)["cancelReason"] == "self_trade"


def test_decision_39_remainder_after_self_trade_prevention(shop, place, alice):
    """per-order prevention."""
    resting = shop.place(alice.signed(place, SELL))["orderId"]
    both = {"selfTrade": "CANCEL_RESTING", "timeInForce": "IOC"}
    made = shop.place(alice.signed(place, BUY, also=both))
    assert (made["matched"], made["trades"], made["status"]) == (False, [], "cancelled")
    assert shop.order(made["orderId"])["status"] == "cancelled"
    assert shop.order(resting)["status"] == "cancelled"


def test_decision_41_tx_hash(shop, place, alice, bob):
    """null until settled, in summaries too."""
    shop.place(alice.signed(place, SELL))
    (trade,) = shop.place(bob.signed(place, BUY))["trades"]
    assert trade["txHash"] is None


def test_decision_49_authority_of_orders_in_production(production, market, alice, key_for):
    """GET /api/orders and /{id}: open in test, key in production. Signed create, validate,
    simulate: open in both. Faucet: open in test, 404 `NOT_ON_THIS_ENVIRONMENT` in production."""
    http = production.http
    made = Shop(http).place(alice.signed(market))["orderId"]
    for path in ("/api/orders", f"/api/orders/{made}"):
        problem(http.get(path), "API_KEY_REQUIRED")
        good(http.get(path, headers=key_for(alice, scopes=["read"])))
    for path in ("/api/orders/validate", "/api/orders/simulate"):
        assert good(http.post(path, json=alice.signed(market)))["valid"]
    faucet = http.post("/api/gasless/faucet", json={"user": alice.address})
    problem(faucet, "NOT_ON_THIS_ENVIRONMENT")
    merge = {
        "user": alice.address,
        "amount": "1",
        "conditionId": "0x" + "0" * 64,
        "yesTokenId": "1",
        "noTokenId": "2",
    }
    problem(http.post("/api/gasless/merge", json=merge), "API_KEY_REQUIRED")
    told = http.post("/api/gasless/merge", json=merge, headers=key_for(alice))
    problem(told, "CHAIN_NOT_CONFIGURED")


def test_decision_49_invalid_key_is_401(http, place, alice):
    """A key that is sent and bad is 401 in both."""
    answer = http.post("/api/orders", json=alice.signed(place), headers={"X-API-Key": "x"})
    problem(answer, "INVALID_API_KEY")


def test_decision_50_deadline(http, shop, place, alice):
    """`deadlineMs` (optional, Unix ms) rejects an order that arrives too late."""
    late = alice.signed(place, also={"deadlineMs": now_ms() - 1000})
    assert_rejected(http, late, "DEADLINE_PASSED")
    soon = alice.signed(place, also={"deadlineMs": now_ms() + 60_000})
    assert shop.place(soon)["success"]


def test_decision_51_creating_an_order_returns_200(http, place, alice):
    """Created orders answer 200."""
    assert http.post("/api/orders", json=alice.signed(place)).status_code == 200


def test_decision_52_batches_of_at_most_20(http, place, alice):
    """20 orders a batch."""
    bodies = [alice.gasless(place) for _ in range(21)]
    for method in ("POST", "DELETE"):
        answer = http.request(method, "/api/orders/batch", json={"orders": bodies})
        problem(answer, "BATCH_TOO_LARGE")
    good(http.post("/api/orders/batch", json={"orders": bodies[:20]}))


def test_decision_52_500_resting_orders_per_maker_and_market(http, shop, place, alice):
    """500 resting orders per maker and market."""
    for _ in range(25):
        orders = [alice.gasless(place, BUY, 10) for _ in range(20)]
        told = shop.post("/api/orders/batch", {"orders": orders})
        assert all(each["success"] for each in told["results"])
    more = http.post("/api/orders/gasless", json=alice.gasless(place, BUY, 10))
    problem(more, "TOO_MANY_ORDERS")
    second = http.post("/api/orders/gasless", json=alice.gasless(place, token=place.no))
    problem(second, "TOO_MANY_ORDERS")
    problem(
        http.get(f"/api/markets/{place.id}/orderbook", params={"tokenId": place.no}),
        "TOKEN_NOT_IN_MARKET",
    )
    shop.gasless(alice.gasless(Place()))


@pytest.mark.parametrize("side", [BUY, SELL])
def test_decision_53_gasless_amounts(http, shop, place, alice, side):
    """BUY makerAmount = size * price // 100, takerAmount = size; SELL the reverse; rejected when
    that is 0."""
    made = shop.gasless(alice.gasless(place, side, 33, ONE + 1))
    found = shop.order(made["orderId"])
    amounts = [str((ONE + 1) * 33 // 100), str(ONE + 1)]
    assert [found["makerAmount"], found["takerAmount"]] == (
        amounts if side is BUY else amounts[::-1]
    )
    nothing = http.post("/api/orders/gasless", json=alice.gasless(place, side, 33, 3))
    problem(nothing, "INVALID_AMOUNT", "size")
