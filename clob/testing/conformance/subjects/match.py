"""Matching: price-time priority, execution prices, partial fills, and states."""

from typing import Any

from clob.order import Side
from clob.testing.conformance.checks import (
    SPECIFICATION,
    check,
    expect,
    expect_cents,
    expect_match,
    expect_that,
    expect_wei,
)
from clob.testing.conformance.session import CheckSession
from clob.testing.conformance.wallet import ONE, MarketIds

CENT = 10**16
"""0.01 token, in wei: the smallest order of a market."""


def resting(
    session: CheckSession, market: MarketIds, side: Side, *offers: tuple[int, int]
) -> list[str]:
    """Place orders of new wallets by price and tokens, oldest first; return their ids."""
    return [
        session.place(session.wallet(), market, side, price, tokens * ONE)["orderId"]
        for price, tokens in offers
    ]


def incoming(
    session: CheckSession, market: MarketIds, side: Side, price: int, tokens: int
) -> dict[str, Any]:
    """Place an order that trades; return the response."""
    return session.place(session.wallet(), market, side, price, tokens * ONE)


def executed(body: dict[str, Any]) -> list[tuple[int, str]]:
    """Return price and size of each trade of a response."""
    return [(trade["price"], trade["size"]) for trade in body["trades"]]


@check(SPECIFICATION, "Best price matches first: highest bid, lowest ask.")
def lowest_ask_first(session: CheckSession) -> None:
    """A buy trades with the lowest ask, whenever it arrived."""
    market = session.market()
    resting(session, market, Side.SELL, (57, 1), (55, 1), (56, 1))
    body = incoming(session, market, Side.BUY, 60, 2)
    expect("trades of a buy of 2", executed(body), [(55, str(ONE)), (56, str(ONE))])


@check(SPECIFICATION, "Best price matches first: highest bid, lowest ask.")
def highest_bid_first(session: CheckSession) -> None:
    """A sell trades with the highest bid, whenever it arrived."""
    market = session.market()
    resting(session, market, Side.BUY, (43, 1), (45, 1), (44, 1))
    body = incoming(session, market, Side.SELL, 40, 2)
    expect("trades of a sell of 2", executed(body), [(45, str(ONE)), (44, str(ONE))])


@check(SPECIFICATION, "At the same price, the older order matches first.")
def older_order_first(session: CheckSession) -> None:
    """Of three orders at one price the oldest trades, then the next one."""
    market = session.market()
    ids = resting(session, market, Side.SELL, (55, 1), (55, 1), (55, 1))
    incoming(session, market, Side.BUY, 55, 1)
    states = [session.order(each)["status"] for each in ids]
    expect("states after a buy of 1, oldest first", states, ["filled", "open", "open"])
    incoming(session, market, Side.BUY, 55, 1)
    states = [session.order(each)["status"] for each in ids]
    expect("states after a buy of 2, oldest first", states, ["filled", "filled", "open"])


@check(SPECIFICATION, "At the same price, the older order matches first.")
def partial_fill_keeps_its_place(session: CheckSession) -> None:
    """An order that was filled in part trades on before a younger one."""
    market = session.market()
    ids = resting(session, market, Side.BUY, (45, 3), (45, 1))
    incoming(session, market, Side.SELL, 45, 1)
    incoming(session, market, Side.SELL, 45, 1)
    filled = [session.order(each)["filledAmount"] for each in ids]
    expect("filledAmount of the older and the younger order", filled, [str(2 * ONE), "0"])


@check(SPECIFICATION, "whenever a bid price is greater than or equal to an ask price")
def equal_prices_trade(session: CheckSession) -> None:
    """A bid at the price of an ask trades at once."""
    market = session.market()
    resting(session, market, Side.SELL, (50, 1))
    body = incoming(session, market, Side.BUY, 50, 1)
    expect("matched of a buy at the ask", body["matched"], True)
    expect("trades of a buy at the ask", executed(body), [(50, str(ONE))])


@check(SPECIFICATION, "whenever a bid price is greater than or equal to an ask price")
def apart_prices_rest(session: CheckSession) -> None:
    """A bid below the ask rests."""
    market = session.market()
    resting(session, market, Side.SELL, (51, 1))
    body = incoming(session, market, Side.BUY, 50, 1)
    expect("matched of a buy below the ask", body["matched"], False)
    expect("best bid", session.book(market)["bids"][0]["price"], 50)


@check("concepts/price-time-priority.md", "A trade happens at the price of the **resting** order.")
def resting_price_is_paid(session: CheckSession) -> None:
    """A trade has the price of the resting order."""
    market = session.market()
    resting(session, market, Side.SELL, (40, 1))
    body = incoming(session, market, Side.BUY, 70, 1)
    expect("price of a buy at 70 against an ask at 40", executed(body), [(40, str(ONE))])


@check(
    SPECIFICATION,
    "a SELL of 100 tokens at price 50 against 60 tokens of bids at 50 fills 60 and leaves 40 in "
    "the book.",
)
def partial_fill(session: CheckSession) -> None:
    """A sell of 100 against bids of 60 fills 60, and 40 rest."""
    market = session.market()
    resting(session, market, Side.BUY, (50, 25), (50, 35))
    body = incoming(session, market, Side.SELL, 50, 100)
    sizes = [int(size) for _, size in executed(body)]
    expect("traded size", sum(sizes), 60 * ONE)
    book = session.book(market)
    expect("bids after the trade", book["bids"], [])
    expect("size of the ask after the trade", book["asks"][0]["size"], str(40 * ONE))


@check(SPECIFICATION, "filledAmount increases; the remainder stays in the book.")
def partial_status(session: CheckSession) -> None:
    """An order that was filled in part is partial, with the filled part of takerAmount."""
    market = session.market()
    (order_id,) = resting(session, market, Side.BUY, (50, 10))
    incoming(session, market, Side.SELL, 50, 4)
    order = session.order(order_id)
    expect("status after a fill of 4 of 10", order["status"], "partial")
    expect("filledAmount after a fill of 4 of 10", order["filledAmount"], str(4 * ONE))


@check(SPECIFICATION, "When equal to takerAmount the order is fully filled.")
def filled_status(session: CheckSession) -> None:
    """Both orders of a complete trade are filled, with a filledAmount of takerAmount."""
    market = session.market()
    (sold,) = resting(session, market, Side.SELL, (47, 3))
    bought = incoming(session, market, Side.BUY, 47, 3)["orderId"]
    for order_id in (sold, bought):
        order = session.order(order_id)
        expect("status of a filled order", order["status"], "filled")
        expect("filledAmount of a filled order", order["filledAmount"], order["takerAmount"])


@check(SPECIFICATION, "Buy at price 99 matches any ask.")
def market_buy(session: CheckSession) -> None:
    """A buy at 99 trades with asks at any price, the lowest first."""
    market = session.market()
    resting(session, market, Side.SELL, (99, 1), (2, 1))
    body = incoming(session, market, Side.BUY, 99, 2)
    expect("trades of a buy at 99", executed(body), [(2, str(ONE)), (99, str(ONE))])


@check(SPECIFICATION, "Sell at price 1 matches any bid.")
def market_sell(session: CheckSession) -> None:
    """A sell at 1 trades with bids at any price, the highest first."""
    market = session.market()
    resting(session, market, Side.BUY, (1, 1), (98, 1))
    body = incoming(session, market, Side.SELL, 1, 2)
    expect("trades of a sell at 1", executed(body), [(98, str(ONE)), (1, str(ONE))])


@check(SPECIFICATION, "Orders may be filled partially.")
def fills_are_exact(session: CheckSession) -> None:
    """No wei is lost or made: sizes of trades, fills and the remainder add up."""
    market = session.market()
    sizes = (ONE + 7, 3 * CENT, 2 * ONE + 1)
    for price, size in zip((60, 61, 60), sizes, strict=True):
        session.place(session.wallet(), market, Side.SELL, price, size)
    total = sum(sizes) + 5 * CENT + 3
    body = session.place(session.wallet(), market, Side.BUY, 61, total)
    expected = [(60, str(sizes[0])), (60, str(sizes[2])), (61, str(sizes[1]))]
    expect("trades of a sweep", executed(body), expected)
    order = session.order(body["orderId"])
    expect("filledAmount after a sweep", order["filledAmount"], str(sum(sizes)))
    bid = session.book(market)["bids"][0]
    expect("size of the remainder", bid["size"], str(5 * CENT + 3))


@check(SPECIFICATION, "`id` (string), `price` (integer, cents), `size` (string, wei)")
def trade_summaries(session: CheckSession) -> None:
    """Trades of a response have id, price, size and txHash."""
    market = session.market()
    resting(session, market, Side.SELL, (52, 1))
    (trade,) = incoming(session, market, Side.BUY, 52, 1)["trades"]
    expect_match("id of a trade", trade["id"], r"trade_\d+_\w+", "trade_{time}_{characters}")
    expect_cents("price of a trade", trade["price"])
    expect_wei("size of a trade", trade["size"])
    tx_hash = trade["txHash"]
    is_hash = tx_hash is None or isinstance(tx_hash, str)
    expect_that("txHash of a trade", is_hash, tx_hash, "a hash or null")
