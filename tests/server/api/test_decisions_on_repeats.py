"""Decisions on repeated orders and on opening markets, tested over HTTP.

A test name has the number of the decision; the docstring quotes it.
"""

import concurrent.futures
import time

import pytest

from clob.errors import OrderAlreadyUsedError
from clob_server.api.problems import PROBLEMS
from clob_server.core.state import ServerState
from clob_server.orders.lookup import OrderLookup
from clob_server.orders.place import first_reply
from tests.server.api.makers import (
    BUY,
    LONG_AGO,
    ONE,
    SELL,
    ApiClient,
    Maker,
    MarketIds,
    assert_rejected,
    delete,
    good,
    hash_of,
    operator_token,
    problem,
)
from tests.server.live import live_server

# ----- repeated orders -----------------------------------------------------------------------


def test_decision_23_the_same_signed_order_again(api, market, alice, bob):
    """The first result again with `duplicate: true`, no second order, also when it is finished."""
    api.place(alice.signed(market, SELL, 40))
    body = bob.signed(market, BUY, 40, 2 * ONE)
    first = api.place(body)
    assert "duplicate" not in first
    assert api.place(body) == first | {"duplicate": True}
    api.place(alice.signed(market, SELL, 40))
    repeated = api.place(body)
    assert repeated == first | {"duplicate": True, "status": "filled"}
    assert api.orders(maker=bob.address) == []


def test_decision_23_repeat_of_a_cancelled_or_expired_order(api, market, alice):
    """because anyone can read a signature and post it again."""
    body = alice.signed(market)
    first = api.place(body)
    api.cancel(first["orderId"], alice)
    late = body | {"deadlineMs": 1, "timeInForce": "IOC"}
    for sent in (body, late):
        assert api.place(sent) == first | {"duplicate": True, "status": "cancelled"}


def test_decision_23_concurrent_repeats_are_one_order(http, api, market, alice):
    """no second order."""
    body = alice.signed(market)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: api.place(body), range(24)))
    assert len({each["orderId"] for each in replies}) == 1
    assert sum("duplicate" not in each for each in replies) == 1
    assert len(api.orders(maker=alice.address)) == 1


def test_decision_23_concurrent_repeats_of_a_client_order_id(api, market, alice):
    """no second order."""
    body = alice.gasless(market, clientOrderId="mine")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: api.gasless(body), range(24)))
    assert len({each["orderId"] for each in replies}) == 1
    assert sum("duplicate" not in each for each in replies) == 1


def test_decision_23_repeat_of_an_order_the_engine_has_pruned(tmp_path, market, alice, bob):
    """The first result again, also when it is finished; its details are in history."""
    secret = "another secret for tests, of more than 32 bytes"
    with live_server(tmp_path / "data", rate_limits=False, jwt_secret=secret) as live:
        http, api = live.http, ApiClient(live.http)
        headers = {"Authorization": f"Bearer {operator_token(secret)}"}
        limits = good(http.get("/api/admin/limits", headers=headers))
        few = {"engine": {**limits["engine"], "finishedMax": 1}}
        good(http.put("/api/admin/limits", headers=headers, json=few))
        api.place(alice.signed(market, SELL, 40))
        body = bob.signed(market, BUY, 40)
        first = api.place(body)
        for _ in range(3):
            api.cancel(api.place(alice.signed(market))["orderId"], alice)
        for _ in range(500):
            if http.get(f"/api/orders/{first['orderId']}").status_code == 200:
                break
            time.sleep(0.01)
        assert api.place(body) == first | {"duplicate": True}
        assert api.order(hash_of(body))["status"] == "filled"
        mine = {"maker": bob.address}
        rejection = problem(delete(http, f"/api/orders/{first['orderId']}", mine), "ORDER_NOT_OPEN")
        assert rejection["order"] == api.order(first["orderId"])
        theirs = {"maker": alice.address}
        problem(delete(http, f"/api/orders/{first['orderId']}", theirs), "NOT_THE_MAKER")


async def test_decision_23_repeat_of_an_order_known_only_by_its_hash():
    """`ORDER_ALREADY_USED` (409) when its details have left the readable store."""

    class PrunedHistory:
        """A history without orders."""

        async def order(self, order_ref):
            return None

    lookup = OrderLookup(ServerState(), PrunedHistory())
    with pytest.raises(OrderAlreadyUsedError):
        await first_reply(lookup, f"0x{7:064x}")
    assert PROBLEMS["ORDER_ALREADY_USED"].status == 409


@pytest.mark.parametrize("kind", ["signed", "gasless"])
def test_decision_23_the_same_client_order_id(http, api, market, alice, bob, kind):
    """Same `clientOrderId`, another body: 409."""
    path = "/api/orders" if kind == "signed" else "/api/orders/gasless"

    def body(price=40, maker=alice):
        if kind == "signed":
            return maker.signed(market, price=price, also={"clientOrderId": "mine"})
        return maker.gasless(market, price=price, clientOrderId="mine")

    first = api.post(path, body())
    assert api.order(first["orderId"])["clientOrderId"] == "mine"
    repeated = api.post(path, body() | {"deadlineMs": 1})
    assert repeated == first | {"duplicate": True}
    rejection = problem(http.post(path, json=body(41)), "CLIENT_ID_CONFLICT")
    assert rejection["orderId"] == first["orderId"]
    assert api.post(path, body(maker=bob))["orderId"] != first["orderId"]
    assert len(api.orders(maker=alice.address)) == 1


# ----- markets of orders ---------------------------------------------------------------------


def test_decision_24_market_id_is_not_signed(http, api, alice):
    """The token must belong to the market: 422 `TOKEN_NOT_IN_MARKET`."""
    first, second = MarketIds(), MarketIds()
    for market in (first, second):
        api.place(alice.signed(market))
        api.place(alice.signed(market, token=market.no))
    body = alice.signed(first) | {"marketId": second.id}
    assert_rejected(http, body, "TOKEN_NOT_IN_MARKET")


def test_decision_25_first_order_opens_a_market(http, api, alice):
    """Test environment: created on the first order (two tokens at most). Reads never create."""
    market = MarketIds()
    for path in ("orderbook", "trades"):
        problem(http.get(f"/api/markets/{market.id}/{path}"), "UNKNOWN_MARKET")
    api.place(alice.signed(market))
    assert api.book(market)["tokenId"] == str(market.yes)
    problem(
        http.get(f"/api/markets/{market.id}/orderbook", params={"tokenId": market.no}),
        "TOKEN_NOT_IN_MARKET",
    )
    api.place(alice.signed(market, token=market.no))
    assert api.book(market, market.no)["tokenId"] == str(market.no)
    assert_rejected(http, alice.signed(market, token=market.no + 1), "TOKEN_NOT_IN_MARKET")


def test_decision_25_token_belongs_to_one_market(http, api, alice):
    """the token must belong to the market."""
    market, other = MarketIds(), MarketIds()
    api.place(alice.signed(market))
    assert_rejected(http, alice.signed(other, token=market.yes), "TOKEN_NOT_IN_MARKET")
    problem(http.get(f"/api/markets/{other.id}/orderbook"), "UNKNOWN_MARKET")
    api.place(alice.signed(other))
    assert_rejected(http, alice.signed(other, token=market.yes), "TOKEN_NOT_IN_MARKET")


@pytest.mark.parametrize("opening", ["the market", "the second token"])
def test_decision_25_rejected_order_opens_no_market(http, api, market, alice, opening):
    """A rejection changes nothing."""
    token = market.yes
    if opening == "the second token":
        api.place(alice.signed(market, also={"clientOrderId": "first"}))
        token = market.no
    else:
        api.place(alice.signed(MarketIds(), also={"clientOrderId": "first"}))
    api.post("/api/orders/nonce", alice.nonce(3))
    for body, code in [
        (alice.signed(market, token=token, nonce=2), "NONCE_TOO_LOW"),
        (alice.signed(market, token=token, nonce=3, expiration_s=LONG_AGO), "ORDER_EXPIRED"),
        (alice.signed(market, token=token, nonce=3, also={"deadlineMs": 1}), "DEADLINE_PASSED"),
        (alice.signed(market, token=token, nonce=3, also={"timeInForce": "FOK"}),
         "FOK_NOT_FILLABLE"),
        (alice.signed(market, token=token, nonce=3, also={"timeInForce": "GTD"}),
         "INVALID_INSTRUCTION"),
        (alice.signed(market, token=token, nonce=3, also={"clientOrderId": "first"}),
         "CLIENT_ID_CONFLICT"),
    ]:  # fmt: skip
        assert_rejected(http, body, code)
        answer = http.get(f"/api/markets/{market.id}/orderbook", params={"tokenId": str(token)})
        assert answer.status_code in (404, 422)
    assert api.place(alice.signed(market, token=token, nonce=3))["success"]


def test_decision_25_concurrent_orders_open_one_market(api, alice):
    """created on the first order (two tokens at most)."""
    market = MarketIds()
    makers = [Maker() for _ in range(12)]
    bodies = [
        maker.signed(market, token=market.yes if index % 2 else market.no)
        for index, maker in enumerate(makers)
    ]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(api.place, bodies))
    assert all(each["success"] for each in replies)
    assert len(api.orders(marketId=market.id)) == 12


def test_decision_25_limit_of_open_markets(tmp_path, alice):
    """at most 1,000 markets."""
    with live_server(tmp_path / "data", markets_max=2) as live:
        api = ApiClient(live.http)
        markets = [MarketIds() for _ in range(3)]
        for market in markets[:2]:
            api.place(alice.signed(market))
        assert_rejected(live.http, alice.signed(markets[2]), "TOO_MANY_MARKETS")
        api.place(alice.signed(markets[0], token=markets[0].no))


def test_decision_25_production(production, production_market, alice):
    """Production: created by the admin, else 404 `UNKNOWN_MARKET`."""
    assert_rejected(production.http, alice.signed(MarketIds()), "UNKNOWN_MARKET")
    api = ApiClient(production.http)
    assert api.place(alice.signed(production_market))["success"]
    assert api.place(alice.signed(production_market, token=production_market.no))["success"]
    other = alice.signed(production_market, token=production_market.no + 1)
    assert_rejected(production.http, other, "TOKEN_NOT_IN_MARKET")
