"""Decisions on repeated orders and on opening markets, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import asyncio
import concurrent.futures
import time

import pytest

from clob.errors import OrderAlreadyUsedError
from clob_server.api.problems import PROBLEMS
from clob_server.core.state import ServerState
from clob_server.orders.lookup import OrderLookup
from clob_server.orders.place import first_reply
from tests.server.api.people import (
    BUY,
    LONG_AGO,
    ONE,
    SELL,
    Person,
    Place,
    Shop,
    assert_rejected,
    delete,
    good,
    hash_of,
    operators_token,
    problem,
)
from tests.server.live import live_server

# ----- the same again ------------------------------------------------------------------------


def test_decision_23_the_same_signed_order_again(shop, place, alice, bob):
    """The first result again with `duplicate: true`, no second order, also when it is finished."""
    shop.place(alice.signed(place, SELL, 40))
    body = bob.signed(place, BUY, 40, 2 * ONE)
    first = shop.place(body)
    assert "duplicate" not in first
    assert shop.place(body) == first | {"duplicate": True}
    shop.place(alice.signed(place, SELL, 40))
    again = shop.place(body)
    assert again == first | {"duplicate": True, "status": "filled"}
    assert shop.orders(maker=bob.address) == []


def test_decision_23_repeat_of_a_cancelled_or_expired_order(shop, place, alice):
    """because anyone can read a signature and post it again."""
    body = alice.signed(place)
    first = shop.place(body)
    shop.cancel(first["orderId"], alice)
    late = body | {"deadlineMs": 1, "timeInForce": "IOC"}
    for sent in (body, late):
        assert shop.place(sent) == first | {"duplicate": True, "status": "cancelled"}


def test_decision_23_concurrent_repeats_are_one_order(http, shop, place, alice):
    """no second order."""
    body = alice.signed(place)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: shop.place(body), range(24)))
    assert len({each["orderId"] for each in told}) == 1
    assert sum("duplicate" not in each for each in told) == 1
    assert len(shop.orders(maker=alice.address)) == 1


def test_decision_23_concurrent_repeats_of_a_client_order_id(shop, place, alice):
    """no second order."""
    body = alice.gasless(place, clientOrderId="mine")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: shop.gasless(body), range(24)))
    assert len({each["orderId"] for each in told}) == 1
    assert sum("duplicate" not in each for each in told) == 1


def test_decision_23_repeat_of_an_order_the_engine_has_pruned(tmp_path, place, alice, bob):
    """The first result again, also when it is finished; its details are in history."""
    secret = "another secret for tests, of more than 32 bytes"
    with live_server(tmp_path / "data", rate_limits=False, jwt_secret=secret) as live:
        http, shop = live.http, Shop(live.http)
        headers = {"Authorization": f"Bearer {operators_token(secret)}"}
        limits = good(http.get("/api/admin/limits", headers=headers))
        few = {"engine": {**limits["engine"], "finishedMax": 1}}
        good(http.put("/api/admin/limits", headers=headers, json=few))
        shop.place(alice.signed(place, SELL, 40))
        body = bob.signed(place, BUY, 40)
        first = shop.place(body)
        for _ in range(3):
            shop.cancel(shop.place(alice.signed(place))["orderId"], alice)
        for _ in range(500):
            if http.get(f"/api/orders/{first['orderId']}").status_code == 200:
                break
            time.sleep(0.01)
        assert shop.place(body) == first | {"duplicate": True}
        assert shop.order(hash_of(body))["status"] == "filled"
        mine = {"maker": bob.address}
        said = problem(delete(http, f"/api/orders/{first['orderId']}", mine), "ORDER_NOT_OPEN")
        assert said["order"] == shop.order(first["orderId"])
        theirs = {"maker": alice.address}
        problem(delete(http, f"/api/orders/{first['orderId']}", theirs), "NOT_THE_MAKER")


def test_decision_23_repeat_of_an_order_known_only_by_its_hash():
    """`ORDER_ALREADY_USED` (409) when its details have left the readable store."""

    class PrunedHistory:
        """A history without orders."""

        async def order(self, order_ref):
            return None

    lookup = OrderLookup(ServerState(), PrunedHistory())
    with pytest.raises(OrderAlreadyUsedError):
        asyncio.run(first_reply(lookup, f"0x{7:064x}"))
    assert PROBLEMS["ORDER_ALREADY_USED"].status == 409


@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_decision_23_the_same_client_order_id(http, shop, place, alice, bob, kind):
    """Same `clientOrderId`, another body: 409."""
    path = "/api/orders" if kind == "signed" else "/api/orders/gasless"

    def body(price=40, person=alice):
        if kind == "signed":
            return person.signed(place, price=price, also={"clientOrderId": "mine"})
        return person.gasless(place, price=price, clientOrderId="mine")

    first = shop.post(path, body())
    assert shop.order(first["orderId"])["clientOrderId"] == "mine"
    again = shop.post(path, body() | {"deadlineMs": 1})
    assert again == first | {"duplicate": True}
    said = problem(http.post(path, json=body(41)), "CLIENT_ID_CONFLICT")
    assert said["orderId"] == first["orderId"]
    assert shop.post(path, body(person=bob))["orderId"] != first["orderId"]
    assert len(shop.orders(maker=alice.address)) == 1


# ----- where it goes -------------------------------------------------------------------------


def test_decision_24_market_id_is_not_signed(http, shop, alice):
    """The token must belong to the market: 422 `TOKEN_NOT_IN_MARKET`."""
    here, there = Place(), Place()
    for place in (here, there):
        shop.place(alice.signed(place))
        shop.place(alice.signed(place, token=place.no))
    body = alice.signed(here) | {"marketId": there.id}
    assert_rejected(http, body, "TOKEN_NOT_IN_MARKET")


def test_decision_25_first_order_opens_a_market(http, shop, alice):
    """Test environment: created on the first order (two tokens at most). Reads never create."""
    place = Place()
    for path in ("orderbook", "trades"):
        problem(http.get(f"/api/markets/{place.id}/{path}"), "UNKNOWN_MARKET")
    shop.place(alice.signed(place))
    assert shop.book(place)["tokenId"] == str(place.yes)
    problem(
        http.get(f"/api/markets/{place.id}/orderbook", params={"tokenId": place.no}),
        "TOKEN_NOT_IN_MARKET",
    )
    shop.place(alice.signed(place, token=place.no))
    assert shop.book(place, place.no)["tokenId"] == str(place.no)
    assert_rejected(http, alice.signed(place, token=place.no + 1), "TOKEN_NOT_IN_MARKET")


def test_decision_25_token_belongs_to_one_market(http, shop, alice):
    """the token must belong to the market."""
    place, other = Place(), Place()
    shop.place(alice.signed(place))
    assert_rejected(http, alice.signed(other, token=place.yes), "TOKEN_NOT_IN_MARKET")
    problem(http.get(f"/api/markets/{other.id}/orderbook"), "UNKNOWN_MARKET")
    shop.place(alice.signed(other))
    assert_rejected(http, alice.signed(other, token=place.yes), "TOKEN_NOT_IN_MARKET")


@pytest.mark.parametrize("opening", ["the market", "the second token"])
def test_decision_25_rejected_order_opens_no_market(http, shop, place, alice, opening):
    """A rejection changes nothing."""
    token = place.yes
    if opening == "the second token":
        shop.place(alice.signed(place, also={"clientOrderId": "first"}))
        token = place.no
    else:
        shop.place(alice.signed(Place(), also={"clientOrderId": "first"}))
    shop.post("/api/orders/nonce", alice.nonce(3))
    for body, code in [
        (alice.signed(place, token=token, nonce=2), "NONCE_TOO_LOW"),
        (alice.signed(place, token=token, nonce=3, expiration_s=LONG_AGO), "ORDER_EXPIRED"),
        (alice.signed(place, token=token, nonce=3, also={"deadlineMs": 1}), "DEADLINE_PASSED"),
        (alice.signed(place, token=token, nonce=3, also={"timeInForce": "FOK"}),
         "FOK_NOT_FILLABLE"),
        (alice.signed(place, token=token, nonce=3, also={"timeInForce": "GTD"}),
         "INVALID_INSTRUCTION"),
        (alice.signed(place, token=token, nonce=3, also={"clientOrderId": "first"}),
         "CLIENT_ID_CONFLICT"),
    ]:  # fmt: skip
        assert_rejected(http, body, code)
        answer = http.get(f"/api/markets/{place.id}/orderbook", params={"tokenId": str(token)})
        assert answer.status_code in (404, 422)
    assert shop.place(alice.signed(place, token=token, nonce=3))["success"]


def test_decision_25_concurrent_orders_open_one_market(shop, alice):
    """created on the first order (two tokens at most)."""
    place = Place()
    people = [Person() for _ in range(12)]
    bodies = [
        who.signed(place, token=place.yes if index % 2 else place.no)
        for index, who in enumerate(people)
    ]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        told = list(pool.map(shop.place, bodies))
    assert all(each["success"] for each in told)
    assert len(shop.orders(marketId=place.id)) == 12


def test_decision_25_limit_of_open_markets(tmp_path, alice):
    """at most 1,000 markets."""
    with live_server(tmp_path / "data", markets_max=2) as live:
        shop = Shop(live.http)
        places = [Place() for _ in range(3)]
        for place in places[:2]:
            shop.place(alice.signed(place))
        assert_rejected(live.http, alice.signed(places[2]), "TOO_MANY_MARKETS")
        shop.place(alice.signed(places[0], token=places[0].no))


def test_decision_25_production(production, market, alice):
    """Production: created by the admin, else 404 `UNKNOWN_MARKET`."""
    assert_rejected(production.http, alice.signed(Place()), "UNKNOWN_MARKET")
    shop = Shop(production.http)
    assert shop.place(alice.signed(market))["success"]
    assert shop.place(alice.signed(market, token=market.no))["success"]
    other = alice.signed(market, token=market.no + 1)
    assert_rejected(production.http, other, "TOKEN_NOT_IN_MARKET")
