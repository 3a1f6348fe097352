"""The aggregated order book: shape, sort, sums."""

from clob.order import Side
from clob.testing.conformance.checks import (
    SPECIFICATION,
    check,
    expect,
    expect_cents,
    expect_milliseconds,
    expect_that,
    expect_wei,
)
from clob.testing.conformance.session import CheckSession
from clob.testing.conformance.wallet import ONE, MarketIds

PRICES = (31, 35, 33)
"""Prices of bids, in an order of arrival that is neither rising nor falling."""


def filled_market(session: CheckSession) -> MarketIds:
    """Return a market with three levels on each side."""
    market = session.market()
    for price in PRICES:
        session.place(session.wallet(), market, Side.BUY, price)
        session.place(session.wallet(), market, Side.SELL, 100 - price)
    return market


@check(SPECIFICATION, "Returns the Orderbook resource.")
def fields(session: CheckSession) -> None:
    """A book has its market, token, sides and time."""
    market = filled_market(session)
    book = session.book(market)
    expect("marketId of a book", book["marketId"], market.id)
    expect("tokenId of a book", book["tokenId"], str(market.yes))
    for side in ("bids", "asks"):
        expect_that(f"{side} of a book", isinstance(book[side], list), book[side], "an array")


@check(SPECIFICATION, "Buy orders sorted by price descending (highest bid first).")
def bids_descending(session: CheckSession) -> None:
    """Bids are sorted by price, the highest first."""
    prices = [level["price"] for level in session.book(filled_market(session))["bids"]]
    expect("prices of bids", prices, [35, 33, 31])


@check(SPECIFICATION, "Sell orders sorted by price ascending (lowest ask first).")
def asks_ascending(session: CheckSession) -> None:
    """Asks are sorted by price, the lowest first."""
    prices = [level["price"] for level in session.book(filled_market(session))["asks"]]
    expect("prices of asks", prices, [65, 67, 69])


@check(SPECIFICATION, "Level: `price` (integer, cents)")
def prices_are_integers(session: CheckSession) -> None:
    """Prices of levels are integers from 1 to 99."""
    book = session.book(filled_market(session))
    for level in [*book["bids"], *book["asks"]]:
        expect_cents("price of a level", level["price"])


@check(SPECIFICATION, "`size` (string, wei, total at that price)")
def sizes_are_strings(session: CheckSession) -> None:
    """Sizes of levels are strings of digits."""
    book = session.book(filled_market(session))
    for level in [*book["bids"], *book["asks"]]:
        expect_wei("size of a level", level["size"])
        expect("size of a level with one order", level["size"], str(ONE))


@check(SPECIFICATION, "`numOrders` (integer, count of orders at the level).")
def level_sums_its_orders(session: CheckSession) -> None:
    """A level has the sum of the sizes and the number of its orders."""
    market = session.market()
    for size in (ONE, 2 * ONE, 10**16):
        session.place(session.wallet(), market, Side.SELL, 61, size)
    (level,) = session.book(market)["asks"]
    expect("size of the level", level["size"], str(3 * ONE + 10**16))
    expect("numOrders of the level", level["numOrders"], 3)


@check(SPECIFICATION, "`tokenId` (string; hexadecimal 0x... or decimal form)")
def token_in_hexadecimal(session: CheckSession) -> None:
    """A token id in hexadecimal form names the same book."""
    market = filled_market(session)
    expect(
        "bids by a hexadecimal tokenId",
        session.book(market, hex(market.yes))["bids"],
        session.book(market)["bids"],
    )


@check(SPECIFICATION, "Each market has two tokens, YES and NO.")
def tokens_have_separate_books(session: CheckSession) -> None:
    """An order for YES is not in the book of NO."""
    market = filled_market(session)
    book = session.book(market, market.no)
    expect("tokenId of the NO book", book["tokenId"], str(market.no))
    expect("bids of the NO book", book["bids"], [])


@check(SPECIFICATION, "Unix milliseconds in the orderbook endpoint reference")
def last_update_is_in_milliseconds(session: CheckSession) -> None:
    """The time of the last update is in milliseconds."""
    book = session.book(filled_market(session))
    expect_milliseconds("lastUpdate of a book", book["lastUpdate"])


@check("concepts/feed.md", "has the number of the last event it includes")
def seq_rises_with_events(session: CheckSession) -> None:
    """The number of a book rises by one with an order that rests, and not with a rejection."""
    market, wallet = session.market(), session.wallet()
    before = session.book(market)["seq"]
    session.place(wallet, market, price=20)
    expect("seq after a resting order", session.book(market)["seq"], before + 1)
    session.create(wallet, wallet.order(market) | {"side": 7})
    expect("seq after a rejection", session.book(market)["seq"], before + 1)


@check(SPECIFICATION, "whenever a bid price is greater than or equal to an ask price")
def never_crossed(session: CheckSession) -> None:
    """The best bid stays below the best ask."""
    market = session.market()
    for side, price in ((Side.BUY, 40), (Side.SELL, 45), (Side.BUY, 47), (Side.SELL, 38)):
        session.place(session.wallet(), market, side, price, (price % 7 + 1) * ONE)
    book = session.book(market)
    if book["bids"] and book["asks"]:
        bid, ask = book["bids"][0]["price"], book["asks"][0]["price"]
        expect_that("best bid and ask", bid < ask, (bid, ask), "a bid below the ask")
