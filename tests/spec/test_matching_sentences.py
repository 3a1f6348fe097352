"""The specification's sentences on matching, tested on a matcher: one test for each sentence.

The docstring of a test quotes its sentence. ``test_what_the_service_does.py`` tests the sentences
on a single book.
"""

import pytest

from clob import Cancel, Market, OrderStatus, Replace, SetNonce, Side, Trade, format_tokens, tokens
from clob.errors import (
    InvalidAmountError,
    InvalidFeeRateError,
    InvalidMarketError,
    NonceTooLowError,
    OrderExpiredError,
    PriceOutOfRangeError,
    TokenNotInMarketError,
)
from clob.units import UINT256_MAX
from tests.books import event_lines
from tests.matchers import buy, market, opened, rejected, sell


@pytest.fixture
def matcher(matcher_class):
    """A matcher with a market called ``m``."""
    return opened(matcher_class)


def resting_ids(events):
    return [event.resting_order_id for event in events if isinstance(event, Trade)]


# ----- what the service does, 1 --------------------------------------------------------------


def test_each_market_has_two_outcome_tokens_yes_and_no(matcher):
    """Each market has two outcome tokens, YES and NO."""
    assert (matcher.market("m").yes, matcher.market("m").no) == ("m-yes", "m-no")
    matcher.apply(sell("yes", 50, 5, token="m-yes"))
    matcher.apply(sell("no", 50, 5, token="m-no"))
    with rejected(matcher, TokenNotInMarketError, "m-yes", "m-no", "m-maybe"):
        matcher.apply(sell("maybe", 50, 5, token="m-maybe"))
    # Each token has its own orders.
    assert resting_ids(matcher.apply(buy("b", 50, 9, token="m-no"))) == ["no"]
    assert [level.size for level in matcher.depth("m", "m-yes").asks] == [5]
    assert [level.size for level in matcher.depth("m", "m-no").bids] == [4]


def test_tokens_of_a_market_have_distinct_erc1155_token_ids(matcher):
    """They are ERC1155 tokens, each with its own token ID."""
    longest = [str(2**256 - 1), str(2**256 - 2)]
    assert len(longest[0]) == 78
    matcher.add_market(Market(id="chain", yes=longest[0], no=longest[1]))
    matcher.apply(buy("a", 50, 5, market="chain", token=longest[0]))
    with rejected(matcher, InvalidMarketError, "differ"):
        matcher.add_market(Market(id="same", yes="1", no="1"))
    with rejected(matcher, InvalidMarketError, "'m'"):
        matcher.add_market(Market(id="taken", yes="m-yes", no="1"))
    with rejected(matcher, TokenNotInMarketError):
        matcher.apply(buy("b", 50, 5, market="chain", token="m-yes"))


# ----- what the service does, 2 --------------------------------------------------------------


def test_orders_are_matched_with_price_time_priority(matcher):
    """Orders are matched with price-time priority."""
    prices = {"old 51": 51, "old 50": 50, "new 51": 51, "new 50": 50}
    for name, price in prices.items():
        matcher.apply(sell(name, price, 1, maker=name))
    ids = resting_ids(matcher.apply(buy("b", 51, 4)))
    assert ids == ["old 50", "new 50", "old 51", "new 51"]


def test_orders_of_one_millisecond_match_in_sequence(matcher):
    """timestamp: Creation time in Unix milliseconds. Used for time priority. -- Order"""
    for name in "cab":
        matcher.apply(sell(name, 50, 1, now_ms=1_000))
    assert {matcher.order(name).accepted_ms for name in "cab"} == {1_000}
    assert resting_ids(matcher.apply(buy("x", 50, 3, now_ms=1_000))) == ["c", "a", "b"]


def test_replaced_order_that_lost_priority_queues_last(matcher):
    """At the same price, the older order matches first."""
    for name in "abc":
        matcher.apply(sell(name, 50, 2))
    matcher.apply(Replace(order_id="a", price=50, size=3))  # larger: queues last
    matcher.apply(Replace(order_id="b", price=50, size=1))  # smaller: keeps its place
    assert resting_ids(matcher.apply(buy("x", 50, 6))) == ["b", "c", "a"]


def test_best_price_matches_first_highest_bid(matcher):
    """Best price matches first: highest bid, lowest ask."""
    for price in (30, 70, 50, 10, 90):
        matcher.apply(buy(price, price, 1))
    assert resting_ids(matcher.apply(sell("s", 1, 5))) == [90, 70, 50, 30, 10]


def test_best_price_matches_first_lowest_ask(matcher):
    """Best price matches first: highest bid, lowest ask."""
    for price in (30, 70, 50, 10, 90):
        matcher.apply(sell(price, price, 1))
    assert resting_ids(matcher.apply(buy("b", 99, 5))) == [10, 30, 50, 70, 90]


@pytest.mark.parametrize(("bid", "ask"), [(50, 50), (51, 50), (99, 1), (49, 50), (1, 99), (1, 2)])
def test_matching_is_immediate_whenever_a_bid_is_at_or_above_an_ask(matcher, bid, ask):
    """Matching is immediate whenever a bid price is greater than or equal to an ask price (a
    crossed market)."""
    for first, second in [
        (buy("b", bid, 1), sell("a", ask, 1)),
        (sell("c", ask, 1), buy("d", bid, 1)),
    ]:
        matcher.apply(first)
        assert bool(resting_ids(matcher.apply(second))) == (bid >= ask)
        for order in matcher.open_orders():
            matcher.cancel(order.order.id)


# ----- what the service does, 3 --------------------------------------------------------------


def test_a_limit_order_rests_until_matched_or_cancelled(matcher):
    """A limit order states an exact price and rests in the book until matched or cancelled."""
    matcher.apply(buy("a", 37, 5))
    matcher.apply(buy("b", 37, 5))
    assert event_lines(matcher.apply(sell("c", 38, 5, now_ms=10**12))) == ["added c 5"]
    assert matcher.order("a").status is OrderStatus.OPEN
    matcher.apply(sell("d", 37, 5, now_ms=10**12))
    matcher.apply(Cancel(order_id="b", maker="B", now_ms=10**12))
    assert matcher.order("a").status is OrderStatus.FILLED
    assert matcher.order("b").status is OrderStatus.CANCELLED
    assert matcher.depth("m").bids == ()


@pytest.mark.parametrize("price", [1, 2, 50, 98, 99])
def test_buy_at_price_99_matches_any_ask_and_sell_at_price_1_any_bid(matcher, price):
    """A market order is a limit order at an extreme price. Buy at price 99 matches any ask. Sell at
    price 1 matches any bid."""
    matcher.apply(sell("a", price, 5))
    matcher.apply(buy("m", 99, 7))
    assert matcher.order("a").status is OrderStatus.FILLED
    # The remainder rests at its price, like that of any limit order.
    assert [(level.price, level.size) for level in matcher.depth("m").bids] == [(99, 2)]
    matcher.cancel("m")
    matcher.apply(buy("b", price, 5))
    matcher.apply(sell("n", 1, 7))
    assert matcher.order("b").status is OrderStatus.FILLED
    assert [(level.price, level.size) for level in matcher.depth("m").asks] == [(1, 2)]


def test_orders_may_be_filled_partially(matcher):
    """Orders may be filled partially. Example: a SELL of 100 tokens at price 50 against 60 tokens
    of bids at 50 fills 60 and leaves 40 in the book."""
    matcher.apply(buy("a", 50, tokens(35), maker="x"))
    matcher.apply(buy("b", 50, tokens(25), maker="y"))
    events = matcher.apply(sell("s", 50, tokens(100)))
    assert sum(event.size for event in events if isinstance(event, Trade)) == tokens(60)
    record = matcher.order("s")
    assert (record.status, record.filled, record.remaining) == (
        OrderStatus.PARTIAL,
        tokens(60),
        tokens(40),
    )
    depth = matcher.depth("m")
    assert depth.bids == ()
    assert [(level.price, level.size) for level in depth.asks] == [(50, tokens(40))]


# ----- what the service does, 8 --------------------------------------------------------------


def test_prices_are_integers_in_cents_1_to_99_and_amounts_wei(matcher):
    """Prices are integers in cents, 1 to 99. Amounts are decimal strings in wei (18 decimals;
    1e18 = 1 token)."""
    for wrong in (0, 100, -1, 50.0, "50", True):
        with rejected(matcher, PriceOutOfRangeError, 1, 99):
            matcher.apply(buy("x", wrong, 1))
    for wrong in (0, -1, 0.5, "1", None):
        with rejected(matcher, InvalidAmountError):
            matcher.apply(buy("x", 50, wrong))
    matcher.apply(buy("x", 50, tokens("1.000000000000000001")))
    assert format_tokens(matcher.order("x").remaining) == "1.000000000000000001"


# ----- the fields of an order ----------------------------------------------------------------


def test_side_0_is_buy_and_1_is_sell():
    """side: 0 = BUY (maker pays collateral, receives tokens); 1 = SELL (maker gives tokens,
    receives collateral). -- Order"""
    assert (Side.BUY, Side.SELL) == (0, 1)


def test_filled_amount_is_the_portion_of_taker_amount_already_filled(matcher):
    """filledAmount: Portion of takerAmount already filled. Starts at '0'. When equal to takerAmount
    the order is fully filled. -- Order"""
    # BUY: takerAmount is the token amount; SELL: takerAmount is the collateral amount.
    matcher.apply(buy("b", 40, 100))
    matcher.apply(sell("s", 60, 100, collateral=60))
    assert [matcher.order(name).filled_amount for name in "bs"] == [0, 0]
    matcher.apply(sell("x", 40, 30))
    matcher.apply(buy("y", 60, 30))
    assert [matcher.order(name).filled_amount for name in "bs"] == [30, 18]
    matcher.apply(sell("x2", 40, 70))
    matcher.apply(buy("y2", 60, 70))
    assert [matcher.order(name).filled_amount for name in "bs"] == [100, 60]
    assert {matcher.order(name).status for name in "bs"} == {OrderStatus.FILLED}


def test_incrementing_the_nonce_cancels_all_orders_with_lower_nonces(matcher):
    """nonce: For on-chain batch cancellation: incrementing the nonce cancels all orders with lower
    nonces. -- Order"""
    for nonce in (0, 1, 2, 3):
        matcher.apply(buy(nonce, 50, 1, nonce=nonce))
        matcher.apply(buy(10 + nonce, 50, 1, nonce=nonce, maker="other"))
    lines = event_lines(matcher.apply(SetNonce(maker="B", nonce=2)))
    assert lines == ["removed 0 nonce 1", "removed 1 nonce 1"]
    assert [record.order.id for record in matcher.open_orders("B")] == [2, 3]
    assert len(matcher.open_orders("other")) == 4
    assert (matcher.nonce("B"), matcher.nonce("other")) == (2, 0)
    with rejected(matcher, NonceTooLowError, 2, 1):
        matcher.apply(buy("late", 50, 1, nonce=1))
    matcher.apply(buy("right", 50, 1, nonce=2))
    matcher.apply(SetNonce(maker="B", nonce=UINT256_MAX))
    assert matcher.open_orders("B") == []


def test_orders_past_their_expiration_are_rejected_from_matching(matcher):
    """expiration: Unix time in seconds. Orders past it are rejected from matching. -- Order"""
    matcher.apply(sell("a", 50, 1, expiration_s=10))
    matcher.apply(sell("b", 50, 1, expiration_s=10))
    lines = event_lines(matcher.apply(buy("in time", 50, 1, now_ms=10_999)))
    assert lines == ["trade a in time 1 @ 50", "removed a filled"]
    lines = event_lines(matcher.apply(buy("late", 50, 1, now_ms=11_000)))
    assert lines == ["removed b expired 1", "added late 1"]
    with rejected(matcher, OrderExpiredError, 10, 11):
        matcher.apply(sell("c", 50, 1, expiration_s=10, now_ms=11_000))


@pytest.mark.parametrize("rate", [-1, 1001, 10_000, 1.0, "0", True])
def test_fee_rates_outside_0_to_1000_are_rejected(matcher, rate):
    """feeRateBps: Default 0. Range 0 to 1000. -- POST /api/orders"""
    with rejected(matcher, InvalidFeeRateError, 0, 1000):
        matcher.apply(buy("a", 50, 1, fee_rate_bps=rate))
    for right in (0, 1000):
        matcher.apply(buy(right, 50, 1, fee_rate_bps=right))


def test_depth_is_sorted_and_counts_orders(matcher):
    """bids: Buy orders sorted by price descending (highest bid first). asks: Sell orders sorted by
    price ascending (lowest ask first). Level: price, size (total at that price), numOrders (count
    of orders at the level). -- Orderbook"""
    for number, price in enumerate((30, 50, 40, 50)):
        matcher.apply(buy(f"b{number}", price, 2))
        matcher.apply(sell(f"a{number}", 100 - price + 1, 3))
    depth = matcher.depth("m")
    assert [(v.price, v.size, v.num_orders) for v in depth.bids] == [
        (50, 4, 2),
        (40, 2, 1),
        (30, 2, 1),
    ]
    assert [(v.price, v.size, v.num_orders) for v in depth.asks] == [
        (51, 6, 2),
        (61, 3, 1),
        (71, 3, 1),
    ]
    assert matcher.depth("m", "m-no").bids == ()


def test_open_orders_have_status_open_or_partial_only(matcher):
    """Returns an array of Order resources with status open or partial only. -- GET /api/orders"""
    matcher.add_market(market("n"))
    matcher.apply(buy("open", 40, 2))
    matcher.apply(buy("elsewhere", 40, 2, market="n", token="n-no"))
    for name in ("cancelled", "filled", "partial"):
        matcher.apply(buy(name, 50, 2, maker=name))
    matcher.cancel("cancelled")
    matcher.apply(sell("s", 50, 3))
    statuses = {record.order.id: record.status for record in matcher.open_orders()}
    assert statuses == {
        "open": OrderStatus.OPEN,
        "elsewhere": OrderStatus.OPEN,
        "partial": OrderStatus.PARTIAL,
    }
    assert [record.order.id for record in matcher.open_orders("B", "n")] == ["elsewhere"]
    assert [record.order.id for record in matcher.open_orders(market="m")] == ["open", "partial"]
    assert matcher.open_orders("unknown") == []
