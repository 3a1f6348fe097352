"""Batches of orders: each has its own result, and a batch is one command."""

import pytest

from clob_server.api.problems import PROBLEMS
from tests.server.api.makers import (
    BUY,
    ONE,
    SELL,
    ApiClient,
    MarketIds,
    check_problem,
    delete,
    good,
    problem,
)

PATH = "/api/orders/batch"


@pytest.fixture
def place_all(api):
    """Place orders in one request; return their results."""

    def place(*bodies):
        reply = api.post(PATH, {"orders": list(bodies)})
        assert reply.keys() == {"results"}
        assert len(reply["results"]) == len(bodies)
        return reply["results"]

    return place


def cancel_all(http, *cancels, **options):
    return good(delete(http, PATH, {"orders": list(cancels)}, **options))["results"]


# ----- creating ------------------------------------------------------------------------------


def test_batch_places_orders_in_sequence(api, place_all, market, alice, bob):
    one, two, three = place_all(
        alice.signed(market, SELL, 40),
        bob.signed(market, BUY, 45, 3 * ONE),
        alice.gasless(market, SELL, 45),
    )
    assert [each["status"] for each in (one, two, three)] == ["open", "partial", "filled"]
    assert [[trade["price"] for trade in each["trades"]] for each in (one, two, three)] == (
        [[], [40], [45]]
    )
    assert api.order(two["orderId"])["remaining"] == str(ONE)


def test_delegate_signs_orders_of_a_batch(api, place_all, alice, bob):
    api.post("/api/orders/delegates", alice.delegate(bob, 1))
    bodies = []
    for maker, signer in ((alice, bob), (bob, alice), (alice, alice)):
        for market in (MarketIds(), MarketIds()):
            fields = {"maker": maker.address, "signer": signer.address}
            bodies.append(signer.signed(market, SELL, 40, **fields))
    results = place_all(*bodies)
    assert [each.get("code") for each in results] == [
        *[None] * 2, *["SIGNER_NOT_AUTHORISED"] * 2, *[None] * 2,
    ]  # fmt: skip


def test_batch_results_equal_those_of_single_requests(api, place_all, alice, bob):
    markets = MarketIds(), MarketIds()
    for market in markets:
        api.place(alice.signed(market, SELL, 40))
    (in_batch,) = place_all(bob.signed(markets[0], BUY, 40, 2 * ONE))
    alone = api.place(bob.signed(markets[1], BUY, 40, 2 * ONE))
    assert in_batch.keys() == alone.keys()
    assert {k: in_batch[k] for k in ("success", "matched", "status")} == (
        {k: alone[k] for k in ("success", "matched", "status")}
    )
    trades = api.http.get(f"/api/markets/{markets[0].id}/trades").json()
    assert [trade["id"] for trade in trades] == [trade["id"] for trade in in_batch["trades"]]


def test_rejected_order_does_not_affect_the_rest_of_the_batch(api, place_all, market, alice, bob):
    forged = alice.signed(market) | {"signature": bob.signed(market)["signature"]}
    results = place_all(
        alice.signed(market, SELL, 60),
        forged,
        5,
        {},
        alice.signed(market) | {"makerAmount": "x"},
        alice.signed(market, nonce=0, expiration_s=1_700_000_000),
        bob.signed(market, BUY, 60, also={"postOnly": True}),
        bob.gasless(market, price=0),
        alice.signed(market, token=market.no),
        alice.signed(market, token=market.no + 1),
        bob.signed(market, BUY, 60),
    )
    codes = [each.get("code", each.get("status")) for each in results]
    assert codes == [
        "open", "INVALID_SIGNATURE", "INVALID_FIELD", "INVALID_FIELD", "INVALID_AMOUNT",
        "ORDER_EXPIRED", "POST_ONLY_WOULD_CROSS", "PRICE_OUT_OF_RANGE", "open",
        "TOKEN_NOT_IN_MARKET", "filled",
    ]  # fmt: skip
    for each in results:
        if "code" in each:
            check_problem(each, each["code"])


def test_batch_with_only_rejected_orders(api, place_all, alice):
    market = MarketIds()
    (result,) = place_all(alice.signed(market, expiration_s=1_700_000_000))
    assert result["code"] == "ORDER_EXPIRED"
    problem(api.http.get(f"/api/markets/{market.id}/orderbook"), "UNKNOWN_MARKET")


def test_repeated_order_in_a_batch_is_one_order(place_all, api, market, alice):
    body = alice.signed(market)
    first, second = place_all(body, body)
    assert second == first | {"duplicate": True}
    assert place_all(body) == [first | {"duplicate": True}]
    assert api.place(body) == first | {"duplicate": True}
    assert len(api.orders(maker=alice.address)) == 1


def test_batch_is_one_command(http, place_all, market, alice):
    place_all(alice.gasless(market))
    before = good(http.get("/health"))["commandSeq"]
    place_all(*(alice.gasless(market) for _ in range(20)))
    assert good(http.get("/health"))["commandSeq"] == before + 1


@pytest.mark.parametrize(
    "body", [{}, {"orders": None}, {"orders": {}}, {"orders": []}, {"orders": 5}]
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_batch_must_be_a_non_empty_list(http, method, body):
    problem(http.request(method, PATH, json=body), "INVALID_FIELD", "orders")


def test_gasless_orders_of_a_batch_need_a_key_of_the_maker(
    production, production_market, alice, bob, key_for
):
    body = {
        "orders": [
            alice.signed(production_market),
            alice.gasless(production_market),
            bob.gasless(production_market),
        ]
    }
    results = good(production.http.post(PATH, json=body))["results"]
    assert [each.get("code") for each in results] == [None, "API_KEY_REQUIRED", "API_KEY_REQUIRED"]
    results = good(production.http.post(PATH, json=body, headers=key_for(alice)))["results"]
    assert [each.get("code") for each in results] == [None, None, "MAKER_NOT_ALLOWED"]
    assert results[0]["duplicate"]


# ----- cancelling ----------------------------------------------------------------------------


def test_each_cancel_of_a_batch_has_its_own_result(http, api, market, alice, bob):
    order_ids = [api.place(alice.signed(market, SELL, 60))["orderId"] for _ in range(2)]
    theirs = api.place(bob.signed(market, SELL, 60))["orderId"]
    mine = {"maker": alice.address}
    results = cancel_all(
        http,
        {"orderId": order_ids[0], **mine},
        {"orderId": order_ids[0], **mine},
        {"orderId": theirs, **mine},
        {"orderId": "nope", **mine},
        {"orderId": order_ids[1]},
        {**mine},
        "x",
    )
    assert results[0] == api.order(order_ids[0])
    assert results[0]["status"] == "cancelled"
    codes = [
        "ORDER_NOT_OPEN", "NOT_THE_MAKER", "UNKNOWN_ORDER", "INVALID_FIELD", "INVALID_FIELD",
        "INVALID_FIELD",
    ]  # fmt: skip
    for each, code in zip(results[1:], codes, strict=True):
        check_problem(each, code)
    assert results[1]["order"] == results[0]
    assert [api.order(each)["status"] for each in (order_ids[1], theirs)] == ["open", "open"]


def test_signed_cancels_in_production(production, production_market, alice, bob):
    api = ApiClient(production.http)
    order_ids = [api.place(alice.signed(production_market))["orderId"] for _ in range(2)]
    now_ms = int(order_ids[0].split("_")[1]) * 1000
    results = cancel_all(
        production.http,
        {"orderId": order_ids[0], **alice.cancel(order_ids[0], now_ms)},
        {**alice.cancel(order_ids[0], now_ms), "orderId": order_ids[1]},
        {"orderId": order_ids[1], "maker": alice.address},
        {"orderId": order_ids[1], **bob.cancel(order_ids[1], now_ms)},
    )
    assert results[0]["status"] == "cancelled"
    codes = ["INVALID_SIGNATURE", "API_KEY_REQUIRED", "NOT_THE_MAKER"]
    for each, code in zip(results[1:], codes, strict=True):
        check_problem(each, code)


def test_every_result_code_is_documented(http, market, alice):
    results = cancel_all(http, *({"orderId": value} for value in (None, 5, "", [], "x" * 999)))
    assert {each["code"] for each in results} <= PROBLEMS.keys()
