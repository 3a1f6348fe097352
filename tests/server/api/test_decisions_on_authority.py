"""Decisions on cancels, lists, authority and limits, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import re

import pytest

from tests.server.api.makers import (
    BUY,
    ONE,
    SELL,
    ApiClient,
    MarketIds,
    assert_rejected,
    delete,
    good,
    hash_of,
    now_ms,
    problem,
)
from tests.signings import DOMAIN

# ----- cancels -------------------------------------------------------------------------------


def test_decision_26_test_environment_needs_no_signature(http, api, market, alice, bob):
    """Test: the `maker` in the body (or query) must own the order. 200 with the full Order; 404
    unknown; 403 not the maker; 409 already final, with the Order."""
    one, two = (api.place(alice.signed(market))["orderId"] for _ in range(2))
    path = f"/api/orders/{one}"
    problem(delete(http, path, {"maker": bob.address}), "NOT_THE_MAKER")
    problem(delete(http, "/api/orders/ord_1_zzzzzz", {"maker": bob.address}), "UNKNOWN_ORDER")
    assert good(delete(http, path, {"maker": alice.address})) == api.order(one)
    rejection = problem(delete(http, path, {"maker": alice.address}), "ORDER_NOT_OPEN")
    assert rejection["order"] == api.order(one)
    problem(delete(http, path, {"maker": bob.address}), "NOT_THE_MAKER")
    in_query = delete(http, f"/api/orders/{two}", params={"maker": alice.address})
    assert good(in_query)["status"] == "cancelled"


def test_decision_26_production_needs_a_signature_of_the_maker(
    production, production_market, alice, bob
):
    """an EIP-712 `Cancel(string orderId,address maker,uint256 timestamp)` signature, in the body as
    `{maker, timestamp, signature}`."""
    http, api = production.http, ApiClient(production.http)
    body = alice.signed(production_market)
    order_id = api.place(body)["orderId"]
    path = f"/api/orders/{order_id}"
    problem(delete(http, path, {"maker": alice.address}), "API_KEY_REQUIRED")
    forged = bob.cancel(order_id, now_ms()) | {"maker": alice.address}
    problem(delete(http, path, forged), "INVALID_SIGNATURE", "signature")
    other = alice.cancel("ord_1_other0", now_ms())
    problem(delete(http, path, other), "INVALID_FIELD", "orderId")
    del other["orderId"]
    problem(delete(http, path, other), "INVALID_SIGNATURE", "signature")
    problem(delete(http, path, bob.cancel(order_id, now_ms())), "NOT_THE_MAKER")
    order = good(delete(http, path, alice.cancel(order_id, now_ms())))
    assert (order["id"], order["status"]) == (order_id, "cancelled")
    rejection = problem(delete(http, path, alice.cancel(order_id, now_ms())), "ORDER_NOT_OPEN")
    assert rejection["order"]["id"] == order_id


def test_decision_26_signed_cancel_accepts_the_order_hash(production, production_market, alice):
    """The 0x order hash is accepted in paths too."""
    body = alice.signed(production_market)
    ApiClient(production.http).place(body)
    path, cancel = f"/api/orders/{hash_of(body)}", alice.cancel(hash_of(body), now_ms())
    assert good(delete(production.http, path, cancel))["status"] == "cancelled"


@pytest.mark.parametrize("apart_ms", [-90_000, 90_000])
def test_decision_26_signed_cancel_needs_a_current_timestamp(
    production, production_market, alice, apart_ms
):
    """timestamp in Unix ms within 60 s of the server's clock (else 422
    `TIMESTAMP_OUT_OF_WINDOW`)."""
    order_id = ApiClient(production.http).place(alice.signed(production_market))["orderId"]
    old = alice.cancel(order_id, now_ms() + apart_ms)
    answer = delete(production.http, f"/api/orders/{order_id}", old)
    problem(answer, "TIMESTAMP_OUT_OF_WINDOW", "timestamp")


def test_decision_26_production_accepts_a_key_of_the_maker(
    production, production_market, alice, bob, key_for
):
    """Production: an API key bound to that maker."""
    order_id = ApiClient(production.http).place(alice.signed(production_market))["orderId"]
    path, body = f"/api/orders/{order_id}", {"maker": alice.address}
    others = delete(production.http, path, body, headers=key_for(bob))
    problem(others, "MAKER_NOT_ALLOWED")
    readers = delete(production.http, path, body, headers=key_for(alice, scopes=["read"]))
    problem(readers, "SCOPE_MISSING")
    order = good(delete(production.http, path, body, headers=key_for(alice)))
    assert order["status"] == "cancelled"


def test_decision_27_gasless_orders_need_a_key_in_production(
    production, production_market, alice, bob, key_for
):
    """No signature exists; production needs an API key bound to the maker."""
    path, body = "/api/orders/gasless", alice.gasless(production_market)
    problem(production.http.post(path, json=body), "API_KEY_REQUIRED")
    problem(production.http.post(path, json=body, headers=key_for(bob)), "MAKER_NOT_ALLOWED")
    reply = good(production.http.post(path, json=body, headers=key_for(alice)))
    assert reply["status"] == "open"


def test_decision_28_list(http, api, alice):
    """Without filters: allowed, `limit` 1..500 (default 100), `cursor`; the body stays an array,
    the next cursor is in `Link` and `X-Next-Cursor`."""
    for market in (MarketIds(), MarketIds()):
        for _ in range(53):
            api.gasless(alice.gasless(market))
    answer = http.get("/api/orders")
    assert len(good(answer)) == 100
    assert answer.headers["x-next-cursor"]
    assert answer.headers["link"].endswith('>; rel="next"')
    for given in ("0", "501", "-1", "x", "1.0", "", "1" * 30):
        problem(http.get("/api/orders", params={"limit": given}), "INVALID_FIELD", "limit")
    for given in ("-1", "x", "", "1" * 30):
        problem(http.get("/api/orders", params={"cursor": given}), "INVALID_FIELD", "cursor")


def test_decision_31_invalid_signature_is_explained(http, market, alice):
    """422 `INVALID_SIGNATURE` that explains: expected digest, recovered address, domain, type, and
    which check failed."""
    body = alice.signed(market)
    rejection = assert_rejected(http, body | {"nonce": "1"}, "INVALID_SIGNATURE", "signature")
    assert rejection["expectedDigest"] == hash_of(body | {"nonce": "1"})
    assert rejection["check"] == "WRONG_SIGNER"
    assert re.fullmatch("0x[0-9a-fA-F]{40}", rejection["recoveredAddress"])
    for word in (str(DOMAIN.chain_id), DOMAIN.verifying_contract, "signatureType 1"):
        assert word in rejection["detail"]


# ----- self-trade, authority, limits ---------------------------------------------------------


def test_decision_39_self_trade(api, market, alice):
    """Allowed by default (silent in the specification); per-market and per-order prevention."""
    api.place(alice.signed(market, SELL))
    assert api.place(alice.signed(market, BUY))["matched"]
    resting = api.place(alice.signed(market, SELL))["orderId"]
    body = alice.signed(market, BUY, also={"selfTrade": "CANCEL_RESTING"})
    assert not api.place(body)["matched"]
    assert api.order(resting)["cancelReason"] == "self_trade"


def test_decision_39_remainder_after_self_trade_prevention(api, market, alice):
    """per-order prevention."""
    resting = api.place(alice.signed(market, SELL))["orderId"]
    both = {"selfTrade": "CANCEL_RESTING", "timeInForce": "IOC"}
    reply = api.place(alice.signed(market, BUY, also=both))
    assert (reply["matched"], reply["trades"], reply["status"]) == (False, [], "cancelled")
    assert api.order(reply["orderId"])["status"] == "cancelled"
    assert api.order(resting)["status"] == "cancelled"


def test_decision_41_tx_hash(api, market, alice, bob):
    """null until settled, in summaries too."""
    api.place(alice.signed(market, SELL))
    (trade,) = api.place(bob.signed(market, BUY))["trades"]
    assert trade["txHash"] is None


def test_decision_49_authority_of_orders_in_production(
    production, production_market, alice, key_for
):
    """GET /api/orders and /{id}: open in test, key in production. Signed create, signed
    validate, simulate: open in both. Faucet: open in test, 404 `NOT_ON_THIS_ENVIRONMENT` in
    production."""
    http = production.http
    order_id = ApiClient(http).place(alice.signed(production_market))["orderId"]
    for path in ("/api/orders", f"/api/orders/{order_id}"):
        problem(http.get(path), "API_KEY_REQUIRED")
        good(http.get(path, headers=key_for(alice, scopes=["read"])))
    for path in ("/api/orders/validate", "/api/orders/simulate"):
        assert good(http.post(path, json=alice.signed(production_market)))["valid"]
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
    reply = http.post("/api/gasless/merge", json=merge, headers=key_for(alice))
    problem(reply, "CHAIN_NOT_CONFIGURED")


def test_decision_49_invalid_key_is_401(http, market, alice):
    """A key that is sent and bad is 401 in both."""
    answer = http.post("/api/orders", json=alice.signed(market), headers={"X-API-Key": "x"})
    problem(answer, "INVALID_API_KEY")


def test_decision_50_deadline(http, api, market, alice):
    """`deadlineMs` (optional, Unix ms) rejects an order that arrives too late."""
    late = alice.signed(market, also={"deadlineMs": now_ms() - 1000})
    assert_rejected(http, late, "DEADLINE_PASSED")
    soon = alice.signed(market, also={"deadlineMs": now_ms() + 60_000})
    assert api.place(soon)["success"]


def test_decision_51_creating_an_order_returns_200(http, market, alice):
    """Created orders answer 200."""
    assert http.post("/api/orders", json=alice.signed(market)).status_code == 200


def test_decision_52_batches_of_at_most_20(http, market, alice):
    """20 orders a batch."""
    bodies = [alice.gasless(market) for _ in range(21)]
    for method in ("POST", "DELETE"):
        answer = http.request(method, "/api/orders/batch", json={"orders": bodies})
        problem(answer, "BATCH_TOO_LARGE")
    good(http.post("/api/orders/batch", json={"orders": bodies[:20]}))


def test_decision_52_500_resting_orders_per_maker_and_market(http, api, market, alice):
    """500 resting orders per maker and market."""
    for _ in range(25):
        orders = [alice.gasless(market, BUY, 10) for _ in range(20)]
        reply = api.post("/api/orders/batch", {"orders": orders})
        assert all(each["success"] for each in reply["results"])
    more = http.post("/api/orders/gasless", json=alice.gasless(market, BUY, 10))
    problem(more, "TOO_MANY_ORDERS")
    second = http.post("/api/orders/gasless", json=alice.gasless(market, token=market.no))
    problem(second, "TOO_MANY_ORDERS")
    problem(
        http.get(f"/api/markets/{market.id}/orderbook", params={"tokenId": market.no}),
        "TOKEN_NOT_IN_MARKET",
    )
    api.gasless(alice.gasless(MarketIds()))


@pytest.mark.parametrize("side", [BUY, SELL])
def test_decision_53_gasless_amounts(http, api, market, alice, side):
    """BUY makerAmount = size * price // 100, takerAmount = size; SELL the reverse; rejected when
    that is 0."""
    reply = api.gasless(alice.gasless(market, side, 33, ONE + 1))
    order = api.order(reply["orderId"])
    amounts = [str((ONE + 1) * 33 // 100), str(ONE + 1)]
    assert [order["makerAmount"], order["takerAmount"]] == (
        amounts if side is BUY else amounts[::-1]
    )
    nothing = http.post("/api/orders/gasless", json=alice.gasless(market, side, 33, 3))
    problem(nothing, "INVALID_AMOUNT", "size")
