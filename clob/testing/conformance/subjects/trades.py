"""The list of trades of a market."""

import re

from clob.order import Side
from clob.testing.conformance.checks import (
    SPECIFICATION,
    check,
    expect,
    expect_cents,
    expect_match,
    expect_milliseconds,
    expect_that,
    expect_wei,
)
from clob.testing.conformance.session import CheckSession
from clob.testing.conformance.wallet import ONE, MarketIds


def traded(session: CheckSession, *prices: int) -> tuple[MarketIds, str, str]:
    """Make a trade at each price; return the market, and buyer and seller of the last one."""
    market, buyer, seller = session.market(), session.wallet(), session.wallet()
    for price in prices:
        session.place(seller, market, Side.SELL, price)
        session.place(buyer, market, Side.BUY, price)
    return market, buyer.address, seller.address


@check(SPECIFICATION, "The response is an array of Trade resources")
def fields(session: CheckSession) -> None:
    """A trade has every field of the resource, with its type."""
    market, *_ = traded(session, 52)
    trade = session.trades(market)[0]
    expect("marketId of a trade", trade["marketId"], market.id)
    expect("tokenId of a trade", trade["tokenId"], str(market.yes))
    expect_cents("price of a trade", trade["price"])
    expect_milliseconds("timestamp of a trade", trade["timestamp"])
    expect_match("id of a trade", trade["id"], r"trade_\d+_\w+", "trade_{time}_{characters}")


@check(SPECIFICATION, "Wei (18 decimals), amount of tokens exchanged.")
def sizes_are_strings(session: CheckSession) -> None:
    """Sizes of trades are strings of digits."""
    market, *_ = traded(session, 52)
    trade = session.trades(market)[0]
    expect_wei("size of a trade", trade["size"])
    expect("size of a trade of one token", trade["size"], str(ONE))


@check(SPECIFICATION, "Wallet address that placed the BUY order.")
def buyer_and_seller(session: CheckSession) -> None:
    """A trade names the makers of the buy and of the sell order."""
    market, buyer, seller = traded(session, 52)
    trade = session.trades(market)[0]
    expect("buyer of a trade", trade["buyer"], buyer)
    expect("seller of a trade", trade["seller"], seller)


@check(SPECIFICATION, "null for pending trades.")
def tx_hash_is_null_or_a_hash(session: CheckSession) -> None:
    """The transaction of a trade is null or a hash."""
    market, *_ = traded(session, 52)
    tx_hash = session.trades(market)[0]["txHash"]
    is_hash = tx_hash is None or re.fullmatch("0x[0-9a-fA-F]{64}", str(tx_hash)) is not None
    expect_that("txHash of a trade", is_hash, tx_hash, "null or 0x and 64 hex digits")


@check("reference/http.md", "`GET /api/markets/{marketId}/trades` returns the newest first")
def newest_first(session: CheckSession) -> None:
    """Trades are listed with the newest first."""
    market, *_ = traded(session, 52, 48, 55)
    prices = [trade["price"] for trade in session.trades(market)[:3]]
    expect("prices of trades at 52, 48, 55", prices, [55, 48, 52])


@check(SPECIFICATION, "`limit` (integer, 1 to 100, default 50)")
def limit(session: CheckSession) -> None:
    """``limit`` is the longest list."""
    market, *_ = traded(session, 52, 48, 55)
    expect("trades with limit=2", len(session.trades(market, limit=2)), 2)


@check(SPECIFICATION, "Trades `limit` parameter | 1 to 100, default 50")
def limit_out_of_range(session: CheckSession) -> None:
    """A limit of 0 or 101 is rejected."""
    market = session.market()
    for value in (0, 101):
        reply = session.request("GET", f"/api/markets/{market.id}/trades", params={"limit": value})
        is_rejected = 400 <= reply.status < 500
        expect_that(f"status of limit={value}", is_rejected, reply.status, "a rejection")


@check(SPECIFICATION, "`tokenId` (string, optional filter shown in one description)")
def token_filter(session: CheckSession) -> None:
    """``tokenId`` selects the trades of a token."""
    market, *_ = traded(session, 52)
    of_yes = session.trades(market, tokenId=str(market.yes))
    of_no = session.trades(market, tokenId=str(market.no))
    expect("tokens of the filtered trades", {t["tokenId"] for t in of_yes}, {str(market.yes)})
    expect_that(
        "tokens of the trades of NO",
        all(trade["tokenId"] == str(market.no) for trade in of_no),
        of_no,
        "trades of NO only",
    )


@check(SPECIFICATION, "`id` (string), `price` (integer, cents), `size` (string, wei)")
def same_as_in_the_response(session: CheckSession) -> None:
    """A trade has the same id in the response of the order and in the list."""
    market = session.market()
    session.place(session.wallet(), market, Side.SELL, 64, 2 * ONE)
    body = session.place(session.wallet(), market, Side.BUY, 64, ONE)
    expect("id of the newest trade", session.trades(market)[0]["id"], body["trades"][0]["id"])
