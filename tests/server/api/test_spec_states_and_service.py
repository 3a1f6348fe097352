"""Specification, "What the service does" and "States and transitions", tested over HTTP.

A docstring quotes the sentence or the row.
"""

import time

import pytest

from tests.server.api.makers import BUY, ONE, SELL, problem


def prices(reply):
    return [trade["price"] for trade in reply["trades"]]


# ----- what the service does -----------------------------------------------------------------


def test_each_token_of_a_market_has_its_own_book(api, market, alice):
    """Each market has two outcome tokens, YES and NO."""
    api.place(alice.signed(market, BUY, 40))
    api.place(alice.signed(market, BUY, 60, token=market.no))
    for token, price in ((market.yes, 40), (market.no, 60)):
        book = api.book(market, token)
        assert (book["tokenId"], [level["price"] for level in book["bids"]]) == (
            str(token),
            [price],
        )


def test_best_price_matches_first(api, market, alice, bob):
    """Best price matches first: highest bid, lowest ask."""
    for price in (42, 40, 41):
        api.place(alice.signed(market, SELL, price))
    assert prices(api.place(bob.signed(market, BUY, 50, 3 * ONE))) == [40, 41, 42]
    for price in (38, 40, 39):
        api.place(alice.signed(market, BUY, price))
    assert prices(api.place(bob.signed(market, SELL, 30, 3 * ONE))) == [40, 39, 38]


def test_at_the_same_price_the_older_order_matches_first(api, market, alice, bob):
    """At the same price, the older order matches first."""
    older, newer = (api.place(alice.signed(market, SELL))["orderId"] for _ in range(2))
    api.place(bob.signed(market, BUY))
    assert [api.order(each)["status"] for each in (older, newer)] == ["filled", "open"]


@pytest.mark.parametrize(
    ("bid", "ask", "crossed"), [(50, 50, True), (51, 50, True), (49, 50, False)]
)
def test_matching_is_immediate_in_a_crossed_market(api, market, alice, bob, bid, ask, crossed):
    """Matching is immediate whenever a bid price is greater than or equal to an ask price."""
    api.place(alice.signed(market, SELL, ask))
    assert api.place(bob.signed(market, BUY, bid))["matched"] is crossed


def test_a_limit_order_rests_until_matched_or_cancelled(api, market, alice):
    """A limit order states an exact price and rests in the book until matched or cancelled."""
    order_id = api.place(alice.signed(market, BUY, 37))["orderId"]
    assert (api.order(order_id)["status"], api.order(order_id)["price"]) == ("open", 37)
    assert api.cancel(order_id, alice)["status"] == "cancelled"


def test_a_market_order_is_a_limit_order_at_an_extreme_price(api, market, alice, bob):
    """Buy at price 99 matches any ask. Sell at price 1 matches any bid."""
    api.place(alice.signed(market, SELL, 99))
    assert prices(api.place(bob.signed(market, BUY, 99))) == [99]
    api.place(alice.signed(market, BUY, 1))
    assert prices(api.place(bob.signed(market, SELL, 1))) == [1]


def test_example_of_a_partial_fill(api, market, alice, bob):
    """a SELL of 100 tokens at price 50 against 60 tokens of bids at 50 fills 60 and leaves 40 in
    the book."""
    api.place(bob.signed(market, BUY, 50, 60 * ONE))
    reply = api.place(alice.signed(market, SELL, 50, 100 * ONE))
    assert [trade["size"] for trade in reply["trades"]] == [str(60 * ONE)]
    order = api.order(reply["orderId"])
    assert (order["status"], order["remaining"]) == ("partial", str(40 * ONE))
    (level,) = api.book(market)["asks"]
    assert (level["price"], level["size"]) == (50, str(40 * ONE))


# ----- states and transitions ----------------------------------------------------------------


def test_none_to_open_on_creation(api, market, alice):
    """| (none) | order creation | accepted | `open` | filledAmount is '0' |"""
    reply = api.place(alice.signed(market))
    order = api.order(reply["orderId"])
    assert (reply["status"], order["status"], order["filledAmount"]) == ("open", "open", "0")


def test_order_matches_immediately_if_prices_cross(api, market, alice, bob):
    """the order is matched at once if prices cross."""
    api.place(alice.signed(market, SELL))
    reply = api.place(bob.signed(market, BUY))
    assert (reply["matched"], reply["status"]) == (True, "filled")


def test_open_to_partial_on_matching(api, market, alice, bob):
    """| `open` | matching | part of takerAmount filled | `partial` | filledAmount increases; the
    remainder stays in the book. |"""
    order_id = api.place(alice.signed(market, BUY, 50, 3 * ONE))["orderId"]
    seen = []
    for _ in range(2):
        api.place(bob.signed(market, SELL, 50))
        order = api.order(order_id)
        seen.append((order["status"], order["filledAmount"], api.book(market)["bids"][0]["size"]))
    assert seen == [("partial", str(ONE), str(2 * ONE)), ("partial", str(2 * ONE), str(ONE))]


@pytest.mark.parametrize("parts", [1, 2])
def test_open_or_partial_to_filled(api, market, alice, bob, parts):
    """| `open` or `partial` | matching | filledAmount equals takerAmount | `filled` |"""
    order_id = api.place(alice.signed(market, BUY, 50, 2 * ONE))["orderId"]
    for _ in range(parts):
        api.place(bob.signed(market, SELL, 50, 2 * ONE // parts))
    order = api.order(order_id)
    assert (order["status"], order["filledAmount"]) == ("filled", order["takerAmount"])
    assert api.book(market)["bids"] == []


@pytest.mark.parametrize("partly", [False, True])
def test_open_or_partial_to_cancelled(api, market, alice, bob, partly):
    """| `open` or `partial` | cancellation by the maker | `cancelled` |"""
    order_id = api.place(alice.signed(market, BUY, 50, 2 * ONE))["orderId"]
    if partly:
        api.place(bob.signed(market, SELL, 50))
    result = api.cancel(order_id, alice)
    assert (result["status"], result["filledTokens"]) == ("cancelled", str(ONE if partly else 0))


def test_orders_past_their_expiration_are_rejected_from_matching(http, api, market, alice, bob):
    """Orders past their expiration are rejected from matching."""
    long_ago = alice.signed(market, expiration_s=1_700_000_000)
    problem(http.post("/api/orders", json=long_ago), "ORDER_EXPIRED")
    now_s = int(time.time())  # noqa: TID251 - outside the engine
    order_id = api.place(alice.signed(market, SELL, expiration_s=now_s + 1))["orderId"]
    for _ in range(300):
        order = api.order(order_id)
        if order["status"] != "open":
            break
        time.sleep(0.02)
    assert (order["status"], order["cancelReason"]) == ("cancelled", "expired")
    assert not api.place(bob.signed(market, BUY))["matched"]
