"""Validate and simulate preview an order and change nothing."""

import pytest

from clob.signing import KNOWN_DOMAINS, Domain, SignedOrder, sign
from tests.server.api.makers import (
    BUY,
    ONE,
    SELL,
    ApiClient,
    MarketIds,
    check_problem,
    good,
    hash_of,
    problem,
)
from tests.signings import EXCHANGE

VALIDATE, SIMULATE = "/api/orders/validate", "/api/orders/simulate"


@pytest.fixture
def unchanged(http):
    """Assert that the test adds no command to the log."""
    before = good(http.get("/health"))["commandSeq"]
    yield
    assert good(http.get("/health"))["commandSeq"] == before


def test_valid_order_is_reported_valid(api, market, alice, bob):
    api.place(alice.signed(market, SELL, 40))
    body = bob.signed(market, BUY, 45, 3 * ONE)
    response = api.post(VALIDATE, body)
    assert response == {
        "valid": True,
        "orderHash": hash_of(body),
        "side": 0,
        "price": 45,
        "size": str(3 * ONE),
        "collateral": body["makerAmount"],
        "matched": True,
        "trades": [{"price": 40, "size": str(ONE), "fee": "0"}],
        "filledTokens": str(ONE),
        "filledCollateral": str(40 * ONE // 100),
        "averagePrice": "40",
        "remaining": str(2 * ONE),
        "accountChecked": True,
    }
    assert api.orders(maker=bob.address) == []
    reply = api.place(body)
    assert [(each["price"], each["size"]) for each in reply["trades"]] == [(40, str(ONE))]


def test_gasless_order_has_no_hash(api, market, alice):
    reply = api.post(VALIDATE, alice.gasless(market))
    assert (reply["valid"], reply["orderHash"], reply["matched"]) == (True, None, False)


def test_preview_opens_no_market_and_logs_nothing(api, http, alice, unchanged):
    market = MarketIds()
    for path in (VALIDATE, SIMULATE):
        for body in (alice.signed(market), alice.gasless(market)):
            assert api.post(path, body)["valid"]
    problem(http.get(f"/api/markets/{market.id}/orderbook"), "UNKNOWN_MARKET")


def invalid_orders(alice, bob, market):
    """Return invalid orders, each with its code."""
    valid = alice.signed(market)
    return {
        "INVALID_FIELD": valid | {"marketId": "a b"},
        "INVALID_ADDRESS": valid | {"maker": "me"},
        "INVALID_SIGNATURE": valid | {"signature": bob.signed(market)["signature"]},
        "SIGNER_NOT_AUTHORISED": bob.signed(market, maker=alice.address, signer=bob.address),
        "ORDER_EXPIRED": alice.signed(market, expiration_s=1_700_000_000),
        "DEADLINE_PASSED": alice.signed(market, also={"deadlineMs": 1}),
        "PRICE_OUT_OF_RANGE": alice.gasless(market, price=100),
        "TOKEN_NOT_IN_MARKET": alice.signed(market, token=5),
    }


def test_preview_reports_the_same_rejection_as_placing(api, http, market, alice, bob):
    for token in (market.yes, market.no):
        api.place(alice.signed(market, token=token))
    for code, body in invalid_orders(alice, bob, market).items():
        reply = good(http.post(VALIDATE, json=body))
        assert reply["valid"] is False
        check_problem(reply["refusal"], code)
        path = "/api/orders" if "signature" in body else "/api/orders/gasless"
        rejection = problem(http.post(path, json=body), code)
        assert {**reply["refusal"], "requestId": 0} == {**rejection, "requestId": 0} or code in (
            "ORDER_EXPIRED", "DEADLINE_PASSED",  # their text contains the current time
        )  # fmt: skip


def test_placed_order_is_not_valid_again(api, http, market, alice):
    body = alice.signed(market)
    order_id = api.place(body)["orderId"]
    reply = good(http.post(VALIDATE, json=body))
    assert (reply["valid"], reply["refusal"]["code"]) == (False, "ORDER_ALREADY_USED")
    assert reply["refusal"]["orderId"] == order_id
    assert api.post(SIMULATE, body)["valid"]


def test_signature_for_another_chain_is_explained(http, market, alice):
    order = SignedOrder.from_json(alice.signed(market))
    for domain, words in [
        (Domain("clob", "1", 4242, EXCHANGE), "matches none of the known mistakes"),
        (Domain("clob", "1", 1, EXCHANGE), "another chainId"),
        (next(iter(KNOWN_DOMAINS)), "expected domain"),
    ]:
        body = {**sign(order, domain, alice.key).to_json(), "marketId": market.id}
        reply = good(http.post(VALIDATE, json=body))
        assert reply["refusal"]["code"] == "INVALID_SIGNATURE"
        assert words in reply["explanation"]


def test_changed_signature_type_is_explained(http, market, alice):
    body = alice.signed(market) | {"signatureType": 0}
    reply = good(http.post(VALIDATE, json=body))
    assert "with signatureType 1" in reply["explanation"]


def test_body_that_is_not_an_object_is_rejected(http):
    for path in (VALIDATE, SIMULATE):
        problem(http.post(path, json=[]), "INVALID_FIELD")
        problem(http.post(path, content=b"{"), "UNSUPPORTED_MEDIA_TYPE")


def test_simulation_predicts_trades_and_rejections(api, http, market, alice, bob):
    for price in (40, 41):
        api.place(alice.signed(market, SELL, price))
    body = bob.signed(market, BUY, 41, 3 * ONE)
    del body["signature"]
    reply = api.post(SIMULATE, body)
    assert [each["price"] for each in reply["trades"]] == [40, 41]
    assert (reply["averagePrice"], reply["remaining"]) == ("40.5", str(ONE))
    crossing = bob.signed(market, BUY, 41, also={"postOnly": True})
    problem(http.post(SIMULATE, json=crossing), "POST_ONLY_WOULD_CROSS")
    killed = bob.gasless(market, BUY, 41, 3 * ONE, timeInForce="FOK")
    problem(http.post(SIMULATE, json=killed), "FOK_NOT_FILLABLE")
    assert api.orders(maker=bob.address) == []


def test_simulation_without_the_signature_leaves_the_account_unread(api, http, market, alice, bob):
    """A rejection would state the nonce of the maker, and self-trade prevention its orders."""
    api.place(alice.signed(market, SELL, 40, nonce=7))
    api.post("/api/orders/nonce", alice.nonce(7))
    signed = alice.signed(market, BUY, 45, nonce=3, also={"selfTrade": "CANCEL_INCOMING"})
    rejection = problem(http.post(SIMULATE, json=signed), "NONCE_TOO_LOW")
    assert "at least 7" in rejection["detail"]
    junk = bob.signed(market, BUY, 45)["signature"]
    for signature in (junk, f"0x{1:0130x}", None):
        reply = api.post(SIMULATE, signed | {"signature": signature})
        assert [trade["price"] for trade in reply["trades"]] == [40]
        assert reply["accountChecked"] is False
    rejection = good(http.post(VALIDATE, json=signed | {"signature": junk}))["refusal"]
    assert (rejection["code"], "at least 7" in rejection["detail"]) == ("INVALID_SIGNATURE", False)


def test_unsigned_preview_in_production_needs_a_bound_key(
    production, production_market, key_for, alice, bob
):
    """An unsigned order reveals the number of open orders, and an order by its client id."""
    api, body = ApiClient(production.http), alice.gasless(production_market, clientOrderId="mine")
    order_id = api.post("/api/orders/gasless", body, headers=key_for(alice))["orderId"]
    other = body | {"price": 51}
    for headers, code in [({}, "API_KEY_REQUIRED"), (key_for(bob), "MAKER_NOT_ALLOWED")]:
        reply = api.post(VALIDATE, other, headers=headers)
        check_problem(reply["refusal"], code)
        assert api.post(SIMULATE, other, headers=headers)["accountChecked"] is False
    reply = api.post(VALIDATE, other, headers=key_for(alice))
    assert reply["refusal"]["orderId"] == order_id
    assert api.post(SIMULATE, other, headers=key_for(alice))["accountChecked"] is True
