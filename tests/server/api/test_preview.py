"""Validate and simulate: they preview an order and change nothing."""

import pytest

from clob.signing import KNOWN_DOMAINS, Domain, SignedOrder, sign
from tests.server.api.people import (
    BUY,
    ONE,
    SELL,
    Place,
    check_problem,
    good,
    hash_of,
    problem,
)
from tests.signings import EXCHANGE

VALIDATE, SIMULATE = "/api/orders/validate", "/api/orders/simulate"


@pytest.fixture
def unchanged(http):
    """The log has nothing more after the test than before."""
    before = good(http.get("/health"))["commandSeq"]
    yield
    assert good(http.get("/health"))["commandSeq"] == before


def test_valid_order_is_reported_valid(shop, place, alice, bob):
    shop.place(alice.signed(place, SELL, 40))
    body = bob.signed(place, BUY, 45, 3 * ONE)
    told = shop.post(VALIDATE, body)
    assert told == {
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
    }
    assert shop.orders(maker=bob.address) == []
    made = shop.place(body)
    assert [(each["price"], each["size"]) for each in made["trades"]] == [(40, str(ONE))]


def test_gasless_order_has_no_hash(shop, place, alice):
    told = shop.post(VALIDATE, alice.gasless(place))
    assert (told["valid"], told["orderHash"], told["matched"]) == (True, None, False)


def test_preview_opens_no_market_and_logs_nothing(shop, http, alice, unchanged):
    place = Place()
    for path in (VALIDATE, SIMULATE):
        for body in (alice.signed(place), alice.gasless(place)):
            assert shop.post(path, body)["valid"]
    problem(http.get(f"/api/markets/{place.id}/orderbook"), "UNKNOWN_MARKET")


def flawed(alice, bob, place):
    """Return invalid orders, each with its code."""
    good_one = alice.signed(place)
    return {
        "INVALID_FIELD": good_one | {"marketId": "a b"},
        "INVALID_ADDRESS": good_one | {"maker": "me"},
        "INVALID_SIGNATURE": good_one | {"signature": bob.signed(place)["signature"]},
        "SIGNER_NOT_AUTHORISED": bob.signed(place, maker=alice.address, signer=bob.address),
        "ORDER_EXPIRED": alice.signed(place, expiration_s=1_700_000_000),
        "DEADLINE_PASSED": alice.signed(place, also={"deadlineMs": 1}),
        "PRICE_OUT_OF_RANGE": alice.gasless(place, price=100),
        "TOKEN_NOT_IN_MARKET": alice.signed(place, token=5),
    }


def test_preview_reports_the_same_rejection_as_placing(shop, http, place, alice, bob):
    for token in (place.yes, place.no):
        shop.place(alice.signed(place, token=token))
    for code, body in flawed(alice, bob, place).items():
        told = good(http.post(VALIDATE, json=body))
        assert told["valid"] is False
        check_problem(told["refusal"], code)
        path = "/api/orders" if "signature" in body else "/api/orders/gasless"
        said = problem(http.post(path, json=body), code)
        assert {**told["refusal"], "requestId": 0} == {**said, "requestId": 0} or code in (
            "ORDER_EXPIRED", "DEADLINE_PASSED",  # they tell the time
        )  # fmt: skip


def test_placed_order_is_not_valid_again(shop, http, place, alice):
    body = alice.signed(place)
    made = shop.place(body)["orderId"]
    told = good(http.post(VALIDATE, json=body))
    assert (told["valid"], told["refusal"]["code"]) == (False, "ORDER_ALREADY_USED")
    assert told["refusal"]["orderId"] == made
    assert shop.post(SIMULATE, body)["valid"]


def test_signature_for_another_chain_is_explained(http, place, alice):
    order = SignedOrder.from_json(alice.signed(place))
    for domain, words in [
        (Domain("clob", "1", 1, EXCHANGE), "matches none of the known mistakes"),
        (next(iter(KNOWN_DOMAINS)), "expected domain"),
    ]:
        body = {**sign(order, domain, alice.key).to_json(), "marketId": place.id}
        told = good(http.post(VALIDATE, json=body))
        assert told["refusal"]["code"] == "INVALID_SIGNATURE"
        assert words in told["explanation"]


def test_changed_signature_type_is_explained(http, place, alice):
    body = alice.signed(place) | {"signatureType": 0}
    told = good(http.post(VALIDATE, json=body))
    assert "with signatureType 1" in told["explanation"]


def test_body_that_is_not_an_object_is_rejected(http):
    for path in (VALIDATE, SIMULATE):
        problem(http.post(path, json=[]), "INVALID_FIELD")
        problem(http.post(path, content=b"{"), "INVALID_JSON")


def test_simulation_predicts_trades_and_rejections(shop, http, place, alice, bob):
    for price in (40, 41):
        shop.place(alice.signed(place, SELL, price))
    body = bob.signed(place, BUY, 41, 3 * ONE)
    del body["signature"]
    told = shop.post(SIMULATE, body)
    assert [each["price"] for each in told["trades"]] == [40, 41]
    assert (told["averagePrice"], told["remaining"]) == ("40.5", str(ONE))
    crossing = bob.signed(place, BUY, 41, also={"postOnly": True})
    problem(http.post(SIMULATE, json=crossing), "POST_ONLY_WOULD_CROSS")
    killed = bob.gasless(place, BUY, 41, 3 * ONE, timeInForce="FOK")
    problem(http.post(SIMULATE, json=killed), "FOK_NOT_FILLABLE")
    assert shop.orders(maker=bob.address) == []
