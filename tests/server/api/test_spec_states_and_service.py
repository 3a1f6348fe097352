"""Specification, "What the service does" and "States and transitions", tested over HTTP.

A docstring quotes the sentence or the row.
"""

import time

import pytest

from tests.server.api.people import BUY, ONE, SELL, problem


def prices(told):
    return [trade["price"] for trade in told["trades"]]


# ----- what the service does -----------------------------------------------------------------


def test_each_token_of_a_market_has_its_own_book(shop, place, alice):
    """Each market has two outcome tokens, YES and NO."""
    shop.place(alice.signed(place, BUY, 40))
    shop.place(alice.signed(place, BUY, 60, token=place.no))
    for token, price in ((place.yes, 40), (place.no, 60)):
        book = shop.book(place, token)
        assert (book["tokenId"], [level["price"] for level in book["bids"]]) == (
            str(token),
            [price],
        )


def test_best_price_matches_first(shop, place, alice, bob):
    """Best price matches first: highest bid, lowest ask."""
    for price in (42, 40, 41):
        shop.place(alice.signed(place, SELL, price))
    assert prices(shop.place(bob.signed(place, BUY, 50, 3 * ONE))) == [40, 41, 42]
    for price in (38, 40, 39):
        shop.place(alice.signed(place, BUY, price))
    assert prices(shop.place(bob.signed(place, SELL, 30, 3 * ONE))) == [40, 39, 38]


def test_at_the_same_price_the_older_order_matches_first(shop, place, alice, bob):
    """At the same price, the older order matches first."""
    older, newer = (shop.place(alice.signed(place, SELL))["orderId"] for _ in range(2))
    shop.place(bob.signed(place, BUY))
    assert [shop.order(each)["status"] for each in (older, newer)] == ["filled", "open"]


@pytest.mark.parametrize(
    ("bid", "ask", "crossed"), [(50, 50, True), (51, 50, True), (49, 50, False)]
)
def test_matching_is_immediate_in_a_crossed_market(shop, place, alice, bob, bid, ask, crossed):
    """Matching is immediate whenever a bid price is greater than or equal to an ask price."""
    shop.place(alice.signed(place, SELL, ask))
    assert shop.place(bob.signed(place, BUY, bid))["matched"] is crossed


def test_a_limit_order_rests_until_matched_or_cancelled(shop, place, alice):
    """A limit order states an exact price and rests in the book until matched or cancelled."""
    made = shop.place(alice.signed(place, BUY, 37))["orderId"]
    assert (shop.order(made)["status"], shop.order(made)["price"]) == ("open", 37)
    assert shop.cancel(made, alice)["status"] == "cancelled"


def test_a_market_order_is_a_limit_order_at_an_extreme_price(shop, place, alice, bob):
    """Buy at price 99 matches any ask. Sell at price 1 matches any bid."""
    shop.place(alice.signed(place, SELL, 99))
    assert prices(shop.place(bob.signed(place, BUY, 99))) == [99]
    shop.place(alice.signed(place, BUY, 1))
    assert prices(shop.place(bob.signed(place, SELL, 1))) == [1]


def test_example_of_a_partial_fill(shop, place, alice, bob):
    """a SELL of 100 tokens at price 50 against 60 tokens of bids at 50 fills 60 and leaves 40 in
    the book."""
    shop.place(bob.signed(place, BUY, 50, 60 * ONE))
    made = shop.place(alice.signed(place, SELL, 50, 100 * ONE))
    assert [trade["size"] for trade in made["trades"]] == [str(60 * ONE)]
    found = shop.order(made["orderId"])
    assert (found["status"], found["remaining"]) == ("partial", str(40 * ONE))
    (level,) = shop.book(place)["asks"]
    assert (level["price"], level["size"]) == (50, str(40 * ONE))


# ----- states and transitions ----------------------------------------------------------------


def test_none_to_open_on_creation(shop, place, alice):
    """| (none) | order creation | accepted | `open` | filledAmount is '0' |"""
    made = shop.place(alice.signed(place))
    found = shop.order(made["orderId"])
    assert (made["status"], found["status"], found["filledAmount"]) == ("open", "open", "0")


def test_order_matches_immediately_if_prices_cross(shop, place, alice, bob):
    """the order is matched at once if prices cross."""
    shop.place(alice.signed(place, SELL))
    made = shop.place(bob.signed(place, BUY))
    assert (made["matched"], made["status"]) == (True, "filled")


def test_open_to_partial_on_matching(shop, place, alice, bob):
    """| `open` | matching | part of takerAmount filled | `partial` | filledAmount increases; the
    remainder stays in the book. |"""
    made = shop.place(alice.signed(place, BUY, 50, 3 * ONE))["orderId"]
    seen = []
    for _ in range(2):
        shop.place(bob.signed(place, SELL, 50))
        found = shop.order(made)
        seen.append((found["status"], found["filledAmount"], shop.book(place)["bids"][0]["size"]))
    assert seen == [("partial", str(ONE), str(2 * ONE)), ("partial", str(2 * ONE), str(ONE))]


@pytest.mark.parametrize("parts", [1, 2])
def test_open_or_partial_to_filled(shop, place, alice, bob, parts):
    """| `open` or `partial` | matching | filledAmount equals takerAmount | `filled` |"""
    made = shop.place(alice.signed(place, BUY, 50, 2 * ONE))["orderId"]
    for _ in range(parts):
        shop.place(bob.signed(place, SELL, 50, 2 * ONE // parts))
    found = shop.order(made)
    assert (found["status"], found["filledAmount"]) == ("filled", found["takerAmount"])
    assert shop.book(place)["bids"] == []


@pytest.mark.parametrize("partly", [False, True])
def test_open_or_partial_to_cancelled(shop, place, alice, bob, partly):
    """| `open` or `partial` | cancellation by the maker | `cancelled` |"""
    made = shop.place(alice.signed(place, BUY, 50, 2 * ONE))["orderId"]
    if partly:
        shop.place(bob.signed(place, SELL, 50))
    found = shop.cancel(made, alice)
    assert (found["status"], found["filledTokens"]) == ("cancelled", str(ONE if partly else 0))


def test_orders_past_their_expiration_are_rejected_from_matching(http, shop, place, alice, bob):
    """Orders past their expiration are rejected from matching."""
    long_ago = alice.signed(place, expiration_s=1_700_000_000)
    problem(http.post("/api/orders", json=long_ago), "ORDER_EXPIRED")
    now_s = int(time.time())  # noqa: TID251 - outside the engine
    made = shop.place(alice.signed(place, SELL, expiration_s=now_s + 1))["orderId"]
    for _ in range(300):
        found = shop.order(made)
        if found["status"] != "open":
            break
        time.sleep(0.02)
    assert (found["status"], found["cancelReason"]) == ("cancelled", "expired")
    assert not shop.place(bob.signed(place, BUY))["matched"]
