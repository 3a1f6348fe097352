"""Values in another unit are rejected with the unit that was probably meant."""

import pytest

from clob.units import tokens
from clob_server.api.options import MIN_SIZE_WEI
from tests.server.api.makers import FAR, ONE, SELL, ZERO, good, problem

GASLESS = "/api/orders/gasless"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (FAR * 10**3, f"probably milliseconds: {FAR} in seconds"),
        (FAR * 10**6 + 7, f"probably microseconds: {FAR} in seconds"),
        (FAR * 10**9, f"probably nanoseconds: {FAR} in seconds"),
        (10**11, "probably milliseconds: 100000000 in seconds"),
        (2**256 - 1, "0 or absent is no expiration"),
    ],
)
def test_expiration_in_another_unit_is_rejected_with_its_seconds(http, market, alice, given, words):
    for path, body in {
        "/api/orders": alice.signed(market, expiration_s=given),
        GASLESS: alice.gasless(market, expiration=str(given)),
    }.items():
        rejection = problem(http.post(path, json=body), "INVALID_FIELD", "expiration")
        assert rejection["detail"].startswith("expiration must be Unix seconds, below 100000000000")
        assert words in rejection["detail"]


def test_last_accepted_expiration(api, market, alice):
    order = api.order(api.place(alice.signed(market, expiration_s=10**11 - 1))["orderId"])
    assert order["expiration"] == 10**11 - 1


def test_deadline_in_seconds_is_rejected_with_its_milliseconds(http, market, alice):
    answer = http.post(GASLESS, json=alice.gasless(market, deadlineMs=FAR))
    rejection = problem(answer, "INVALID_FIELD", "deadlineMs")
    assert f"in milliseconds it is {FAR}000" in rejection["detail"]


@pytest.mark.parametrize("name", ["from", "to"])
def test_candles_from_a_time_in_seconds_are_rejected_with_its_milliseconds(
    http, api, market, alice, name
):
    api.place(alice.signed(market))
    answer = http.get(f"/api/markets/{market.id}/candles", params={name: FAR})
    rejection = problem(answer, "INVALID_FIELD", name)
    assert f"in milliseconds it is {FAR}000" in rejection["detail"]


SIZES = {
    "1": f"1 tokens are {ONE}",
    "100": f"100 tokens are {100 * ONE}",
    "5000000": f"5 with six are {5 * ONE}",
    str(MIN_SIZE_WEI - 1): f"size must be at least {MIN_SIZE_WEI} wei",
    "1.5": f"1.5 tokens are {tokens('1.5')}",
    "1.5e18": f"write it out: {tokens('1.5')}",
}


@pytest.mark.parametrize(("size", "words"), SIZES.items())
def test_size_that_is_not_in_wei_is_rejected_with_the_wei(http, market, alice, size, words):
    code = "AMOUNT_TOO_SMALL" if size.isdecimal() and size != "1" else "INVALID_AMOUNT"
    body = alice.gasless(market, SELL) | {"size": size}
    assert words in problem(http.post(GASLESS, json=body), code, "size")["detail"]
    problem(http.get(f"/api/markets/{market.id}"), "UNKNOWN_MARKET")
    good(http.post(GASLESS, json=alice.gasless(market, size=MIN_SIZE_WEI)))
    assert good(http.get(f"/api/markets/{market.id}"))["minSize"] == str(MIN_SIZE_WEI)
    assert words in problem(http.post(GASLESS, json=body), code, "size")["detail"]


def test_small_size_of_a_signed_order_is_rejected(http, market, alice):
    answer = http.post("/api/orders", json=alice.signed(market, size=100))
    assert f"100 tokens are {100 * ONE}" in problem(answer, "AMOUNT_TOO_SMALL")["detail"]


@pytest.mark.parametrize(("price", "words"), [(0.5, "50 cents"), (0.07, "7 cents")])
def test_price_that_is_a_fraction_is_rejected_with_the_cents(http, market, alice, price, words):
    body = alice.gasless(market) | {"price": price}
    assert words in problem(http.post(GASLESS, json=body), "PRICE_OUT_OF_RANGE", "price")["detail"]


def test_zero_address_is_no_maker(http, market, alice):
    problem(http.post(GASLESS, json=alice.gasless(market, maker=ZERO)), "INVALID_ADDRESS", "maker")
    body = alice.signed(market) | {"maker": ZERO, "signer": ZERO}
    problem(http.post("/api/orders", json=body), "INVALID_ADDRESS", "maker")
    problem(http.post("/api/gasless/faucet", json={"user": ZERO}), "INVALID_ADDRESS", "user")


def test_market_of_the_operator_has_the_same_smallest_size(production):
    body = {"marketId": "smallest", "yesTokenId": "8801"}
    made = good(production.operator.post("/api/admin/markets", json=body))
    assert made["minSize"] == str(MIN_SIZE_WEI)
    body = {"marketId": "wei", "yesTokenId": "8802", "minSize": "1"}
    assert good(production.operator.post("/api/admin/markets", json=body))["minSize"] == "1"
