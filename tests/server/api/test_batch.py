"""Batches of orders: each has its own result, and a batch is one command."""

import pytest

from clob_server.api.problems import PROBLEMS
from tests.server.api.people import (
    BUY,
    ONE,
    SELL,
    Place,
    Shop,
    check_problem,
    delete,
    good,
    problem,
)

PATH = "/api/orders/batch"


@pytest.fixture
def place_all(shop):
    """Place orders in one request; return their results."""

    def ask(*bodies):
        told = shop.post(PATH, {"orders": list(bodies)})
        assert told.keys() == {"results"}
        assert len(told["results"]) == len(bodies)
        return told["results"]

    return ask


def cancel_all(http, *wishes, **options):
    return good(delete(http, PATH, {"orders": list(wishes)}, **options))["results"]


# ----- creating ------------------------------------------------------------------------------


def test_batch_places_orders_in_sequence(shop, place_all, place, alice, bob):
    one, two, three = place_all(
        alice.signed(place, SELL, 40),
        bob.signed(place, BUY, 45, 3 * ONE),
        alice.gasless(place, SELL, 45),
    )
    assert [each["status"] for each in (one, two, three)] == ["open", "partial", "filled"]
    assert [[trade["price"] for trade in each["trades"]] for each in (one, two, three)] == (
        [[], [40], [45]]
    )
    assert shop.order(two["orderId"])["remaining"] == str(ONE)


def test_delegate_signs_orders_of_a_batch(shop, place_all, alice, bob):
    shop.post("/api/orders/delegates", alice.delegate(bob, 1))
    bodies = []
    for maker, signer in ((alice, bob), (bob, alice), (alice, alice)):
        for place in (Place(), Place()):
            fields = {"maker": maker.address, "signer": signer.address}
            bodies.append(signer.signed(place, SELL, 40, **fields))
    told = place_all(*bodies)
    assert [each.get("code") for each in told] == [
        *[None] * 2, *["SIGNER_NOT_AUTHORISED"] * 2, *[None] * 2,
    ]  # fmt: skip


def test_batch_results_equal_those_of_single_requests(shop, place_all, alice, bob):
    places = Place(), Place()
    for place in places:
        shop.place(alice.signed(place, SELL, 40))
    (in_batch,) = place_all(bob.signed(places[0], BUY, 40, 2 * ONE))
    alone = shop.place(bob.signed(places[1], BUY, 40, 2 * ONE))
    assert in_batch.keys() == alone.keys()
    assert {k: in_batch[k] for k in ("success", "matched", "status")} == (
        {k: alone[k] for k in ("success", "matched", "status")}
    )
    trades = shop.http.get(f"/api/markets/{places[0].id}/trades").json()
    assert [trade["id"] for trade in trades] == [trade["id"] for trade in in_batch["trades"]]


def test_rejected_order_does_not_affect_the_rest_of_the_batch(shop, place_all, place, alice, bob):
    forged = alice.signed(place) | {"signature": bob.signed(place)["signature"]}
    results = place_all(
        alice.signed(place, SELL, 60),
        forged,
        5,
        {},
        alice.signed(place) | {"makerAmount": "x"},
        alice.signed(place, nonce=0, expiration_s=1_700_000_000),
        bob.signed(place, BUY, 60, also={"postOnly": True}),
        bob.gasless(place, price=0),
        alice.signed(place, token=place.no),
        alice.signed(place, token=place.no + 1),
        bob.signed(place, BUY, 60),
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


def test_batch_with_only_rejected_orders(shop, place_all, alice):
    place = Place()
    (told,) = place_all(alice.signed(place, expiration_s=1_700_000_000))
    assert told["code"] == "ORDER_EXPIRED"
    problem(shop.http.get(f"/api/markets/{place.id}/orderbook"), "UNKNOWN_MARKET")


def test_repeated_order_in_a_batch_is_one_order(place_all, shop, place, alice):
    body = alice.signed(place)
    first, second = place_all(body, body)
    assert second == first | {"duplicate": True}
    assert place_all(body) == [first | {"duplicate": True}]
    assert shop.place(body) == first | {"duplicate": True}
    assert len(shop.orders(maker=alice.address)) == 1


def test_batch_is_one_command(http, place_all, place, alice):
    place_all(alice.gasless(place))
    before = good(http.get("/health"))["commandSeq"]
    place_all(*(alice.gasless(place) for _ in range(20)))
    assert good(http.get("/health"))["commandSeq"] == before + 1


@pytest.mark.parametrize(
    "body", [{}, {"orders": None}, {"orders": {}}, {"orders": []}, {"orders": 5}]
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_batch_must_be_a_non_empty_list(http, method, body):
    problem(http.request(method, PATH, json=body), "INVALID_FIELD", "orders")


def test_gasless_orders_of_a_batch_need_a_key_of_the_maker(production, market, alice, bob, key_for):
    body = {"orders": [alice.signed(market), alice.gasless(market), bob.gasless(market)]}
    results = good(production.http.post(PATH, json=body))["results"]
    assert [each.get("code") for each in results] == [None, "API_KEY_REQUIRED", "API_KEY_REQUIRED"]
    results = good(production.http.post(PATH, json=body, headers=key_for(alice)))["results"]
    assert [each.get("code") for each in results] == [None, None, "MAKER_NOT_ALLOWED"]
    assert results[0]["duplicate"]


# ----- cancelling ----------------------------------------------------------------------------


def test_each_cancel_of_a_batch_has_its_own_result(http, shop, place, alice, bob):
    made = [shop.place(alice.signed(place, SELL, 60))["orderId"] for _ in range(2)]
    theirs = shop.place(bob.signed(place, SELL, 60))["orderId"]
    mine = {"maker": alice.address}
    results = cancel_all(
        http,
        {"orderId": made[0], **mine},
        {"orderId": made[0], **mine},
        {"orderId": theirs, **mine},
        {"orderId": "nope", **mine},
        {"orderId": made[1]},
        {**mine},
        "x",
    )
    assert results[0] == shop.order(made[0])
    assert results[0]["status"] == "cancelled"
    codes = [
        "ORDER_NOT_OPEN", "NOT_THE_MAKER", "UNKNOWN_ORDER", "INVALID_ADDRESS", "INVALID_FIELD",
        "INVALID_FIELD",
    ]  # fmt: skip
    for each, code in zip(results[1:], codes, strict=True):
        check_problem(each, code)
    assert results[1]["order"] == results[0]
    assert [shop.order(each)["status"] for each in (made[1], theirs)] == ["open", "open"]


def test_signed_cancels_in_production(production, market, alice, bob):
    shop = Shop(production.http)
    made = [shop.place(alice.signed(market))["orderId"] for _ in range(2)]
    now_ms = int(made[0].split("_")[1]) * 1000
    results = cancel_all(
        production.http,
        {"orderId": made[0], **alice.cancel(made[0], now_ms)},
        {**alice.cancel(made[0], now_ms), "orderId": made[1]},
        {"orderId": made[1], "maker": alice.address},
        {"orderId": made[1], **bob.cancel(made[1], now_ms)},
    )
    assert results[0]["status"] == "cancelled"
    codes = ["INVALID_SIGNATURE", "API_KEY_REQUIRED", "NOT_THE_MAKER"]
    for each, code in zip(results[1:], codes, strict=True):
        check_problem(each, code)


def test_every_result_code_is_documented(http, place, alice):
    results = cancel_all(http, *({"orderId": value} for value in (None, 5, "", [], "x" * 999)))
    assert {each["code"] for each in results} <= PROBLEMS.keys()
