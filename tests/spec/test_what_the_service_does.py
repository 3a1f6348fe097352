"""The specification's "What the service does", points 2, 3 and 8, tested on a book.

The docstring of a test quotes its sentence. Signatures are not tested here: a book receives
verified orders.
"""

import pytest

from clob import Level, OrderAdded, Trade, format_tokens, tokens
from clob.errors import InvalidAmountError, PriceOutOfRangeError, UnknownOrderError
from tests.books import buy, event_lines, fill_book, rejected, sell

CENTS = range(1, 100)


def resting_ids(events):
    return [event.resting_order_id for event in events if isinstance(event, Trade)]


# ----- 2 -------------------------------------------------------------------------------------


def test_orders_are_matched_with_price_time_priority(book_class):
    """Orders are matched with price-time priority."""
    orders = [("old 51", 51), ("old 50", 50), ("new 51", 51), ("new 50", 50)]
    book = fill_book(book_class(), *(sell(name, price, 1) for name, price in orders))
    events = book.submit(buy("b", 51, 4))
    assert resting_ids(events) == ["old 50", "new 50", "old 51", "new 51"]


def test_best_price_matches_first_highest_bid(book_class):
    """Best price matches first: highest bid, lowest ask."""
    book = fill_book(book_class(), *(buy(price, price, 1) for price in (30, 70, 50, 10, 90)))
    assert resting_ids(book.submit(sell("s", 1, 5))) == [90, 70, 50, 30, 10]


def test_best_price_matches_first_lowest_ask(book_class):
    """Best price matches first: highest bid, lowest ask."""
    book = fill_book(book_class(), *(sell(price, price, 1) for price in (30, 70, 50, 10, 90)))
    assert resting_ids(book.submit(buy("b", 99, 5))) == [10, 30, 50, 70, 90]


def test_at_the_same_price_the_older_order_matches_first(book_class):
    """At the same price, the older order matches first."""
    sizes = {"c": 1, "a": 9, "b": 5, "z": 2}
    book = fill_book(book_class(), *(buy(name, 50, size) for name, size in sizes.items()))
    assert resting_ids(book.submit(sell("s", 50, 17))) == ["c", "a", "b", "z"]


@pytest.mark.parametrize("ask", [1, 2, 50, 98, 99])
def test_matching_is_immediate_whenever_a_bid_is_at_or_above_an_ask(book_class, ask):
    """Matching is immediate whenever a bid price is greater than or equal to an ask price (a
    crossed market)."""
    for bid in CENTS:
        for resting, incoming in [
            (sell("r", ask, 1), buy("i", bid, 1)),
            (buy("r", bid, 1), sell("i", ask, 1)),
        ]:
            book = fill_book(book_class(), resting)
            assert bool(resting_ids(book.submit(incoming))) == (bid >= ask)
            assert (len(book) == 0) == (bid >= ask)


# ----- 3 -------------------------------------------------------------------------------------


def test_a_limit_order_states_an_exact_price_and_rests_until_matched(book_class):
    """A limit order states an exact price and rests in the book until matched or cancelled."""
    book = book_class()
    (added,) = book.submit(buy("a", 37, 5))
    assert (type(added), added.price, added.remaining) == (OrderAdded, 37, 5)
    assert event_lines(book.submit(sell("b", 38, 5))) == ["added b 5"]
    assert "a" in book
    book.submit(sell("c", 37, 5))
    assert "a" not in book


def test_a_limit_order_states_an_exact_price_and_rests_until_cancelled(book_class):
    """A limit order states an exact price and rests in the book until matched or cancelled."""
    book = fill_book(book_class(), buy("a", 37, 5))
    assert event_lines(book.cancel("a")) == ["removed a cancelled 5"]
    assert event_lines(book.submit(sell("c", 37, 5))) == ["added c 5"]
    with rejected(book, UnknownOrderError):
        book.cancel("a")


def test_a_market_order_is_a_limit_order_at_an_extreme_price(book_class):
    """A market order is a limit order at an extreme price."""
    book = fill_book(book_class(), sell("a", 40, 5), sell("b", 60, 5))
    assert event_lines(book.submit(buy("m", 99, 12))) == [
        "trade a m 5 @ 40",
        "removed a filled",
        "trade b m 5 @ 60",
        "removed b filled",
        "added m 2",
    ]
    assert book.depth().bids == (Level(99, 2, 1),)


@pytest.mark.parametrize("ask", CENTS)
def test_buy_at_price_99_matches_any_ask(book_class, ask):
    """Buy at price 99 matches any ask."""
    book = fill_book(book_class(), sell("a", ask, 5))
    assert event_lines(book.submit(buy("m", 99, 5))) == [f"trade a m 5 @ {ask}", "removed a filled"]


@pytest.mark.parametrize("bid", CENTS)
def test_sell_at_price_1_matches_any_bid(book_class, bid):
    """Sell at price 1 matches any bid."""
    book = fill_book(book_class(), buy("a", bid, 5))
    assert event_lines(book.submit(sell("m", 1, 5))) == [f"trade a m 5 @ {bid}", "removed a filled"]


def test_orders_may_be_filled_partially(book_class):
    """Orders may be filled partially."""
    book = fill_book(book_class(), sell("a", 50, 10))
    for left in range(9, -1, -1):
        trade = book.submit(buy("b", 50, 1))[0]
        assert (trade.size, trade.resting_remaining) == (1, left)
    assert len(book) == 0


def test_example_a_sell_of_100_against_60_of_bids_fills_60_and_leaves_40(book_class):
    """Example: a SELL of 100 tokens at price 50 against 60 tokens of bids at 50 fills 60 and leaves
    40 in the book."""
    book = fill_book(book_class(), buy("a", 50, tokens(35)), buy("b", 50, tokens(25)))
    events = book.submit(sell("s", 50, tokens(100)))
    assert sum(event.size for event in events if isinstance(event, Trade)) == tokens(60)
    depth = book.depth()
    assert (depth.bids, depth.asks) == ((), (Level(50, tokens(40), 1),))


# ----- 8 -------------------------------------------------------------------------------------


def test_prices_are_integers_in_cents_1_to_99(book_class):
    """Prices are integers in cents, 1 to 99."""
    book = fill_book(book_class(), *(buy(price, price, 1) for price in CENTS))
    assert (len(book), book.lo, book.hi) == (99, 1, 99)
    for wrong in (0, 100, -1, 50.0, 0.5, "50"):
        with rejected(book, PriceOutOfRangeError, 1, 99):
            book.submit(buy("x", wrong, 1))


@pytest.mark.parametrize(
    ("amount", "wei"),
    [
        ("1", "1000000000000000000"),
        ("0.000000000000000001", "1"),
        ("60.5", "60500000000000000000"),
        ("79228162514.264337593543950335", "79228162514264337593543950335"),
    ],
)
def test_amounts_are_decimal_strings_in_wei_of_18_decimals(book_class, amount, wei):
    """Amounts are decimal strings in wei (18 decimals; 1e18 = 1 token)."""
    assert tokens(amount) == int(wei)
    assert format_tokens(int(wei)) == amount
    book = fill_book(book_class(), buy("a", 50, int(wei)))
    assert str(book.order("a").remaining) == wei
    with rejected(book, InvalidAmountError):
        book.submit(buy("b", 50, wei))


def test_1e18_is_1_token():
    """Amounts are decimal strings in wei (18 decimals; 1e18 = 1 token)."""
    assert tokens(1) == tokens("1") == 10**18
