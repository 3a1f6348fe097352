"""A complementary market over HTTP: opening, trading and reading."""

import pytest

from tests.server.auth.guard_harness import MAKER, OTHER
from tests.server.auth.servers import operated_server

TOKENS = {"yesTokenId": "71", "noTokenId": "72"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with operated_server(tmp_path_factory.mktemp("pairs"), "test", rate_limits=False) as made:
        terms = {"marketId": "pairs", **TOKENS, "complementary": True}
        terms["minSize"] = "100"
        opened = made.http.post("/api/admin/markets", json=terms, headers=made.operator)
        assert (opened.json()["complementary"], opened.json()["lotWei"]) == (True, "100")
        yield made


def order(server, token, side, price, size, maker=MAKER, **more):
    """Place an order; return the response body."""
    body = {"maker": maker, "tokenId": token, "side": side, "price": price, "size": str(size)}
    return server.http.post("/api/orders/gasless", json=body | {"marketId": "pairs"} | more).json()


def book(server, token):
    """Return price, size and number of orders of each level, by side."""
    body = server.http.get("/api/markets/pairs/orderbook", params={"tokenId": token}).json()
    return tuple(
        [(level["price"], level["size"], level["numOrders"]) for level in body[side]]
        for side in ("bids", "asks")
    )


def trades(server, **query):
    """Return the trades, newest first."""
    return server.http.get("/api/markets/pairs/trades", params=query).json()


def test_mint_and_merge_make_two_trades_and_each_order_reports_its_own(server):
    first = order(server, "71", 0, 60, 3_000)
    assert (book(server, "71"), book(server, "72")) == (
        ([(60, "3000", 1)], []),
        ([], [(40, "3000", 1)]),
    )
    market = server.http.get("/api/markets/pairs").json()
    assert (market["complementary"], market["bestBid"]) == (True, 60)
    made = order(server, "72", 0, 45, 2_000, maker=OTHER)
    ((summary),) = made["trades"]
    assert (summary["price"], summary["size"]) == (40, "2000")
    yes, no = trades(server)
    assert (yes["tokenId"], yes["price"], yes["buyer"], yes["seller"]) == ("71", 60, MAKER, "")
    assert (no["tokenId"], no["price"], no["buyer"], no["seller"]) == ("72", 40, OTHER, "")
    assert (yes["matchType"], no["matchType"], no["id"]) == ("mint", "mint", summary["id"])
    assert yes["id"] != no["id"]
    assert [trade["id"] for trade in trades(server, tokenId="72")] == [no["id"]]
    order(server, "71", 1, 70, 500)
    sold = order(server, "72", 1, 30, 500, maker=OTHER)
    assert [trade["price"] for trade in sold["trades"]] == [30]
    yes, no = trades(server, limit=2)
    assert (yes["matchType"], yes["buyer"], yes["seller"], yes["price"]) == ("merge", "", MAKER, 70)
    assert (no["seller"], no["price"]) == (OTHER, 30)
    resting = server.http.get(f"/api/orders/{first['orderId']}").json()
    assert (resting["status"], resting["filledTokens"], resting["remaining"]) == (
        "partial",
        "2000",
        "1000",
    )


def test_direct_trade_has_a_buyer_and_a_seller(server):
    order(server, "72", 1, 35, 700)
    made = order(server, "72", 0, 35, 700, maker=OTHER)
    (trade,) = trades(server, limit=1)
    assert (trade["matchType"], trade["buyer"], trade["seller"]) == ("direct", OTHER, MAKER)
    assert made["trades"][0]["id"] == trade["id"]


def test_size_off_the_lot_is_rejected_with_the_nearest_sizes(server):
    rejected = order(server, "72", 0, 45, 150)
    assert rejected["code"] == "INVALID_AMOUNT"
    assert "nearest: 100 or 200" in rejected["detail"]


def test_complementary_market_without_a_second_token_is_rejected(server):
    terms = {"marketId": "half", "yesTokenId": "81", "complementary": True}
    answer = server.http.post("/api/admin/markets", json=terms, headers=server.operator)
    assert answer.json()["code"] == "INVALID_MARKET"
    assert "in a complementary market" in answer.json()["detail"]
