"""Prices of signed amounts."""

from clob.order import Side
from clob.testing.conformance.checks import SPECIFICATION, check, expect
from clob.testing.conformance.session import CheckSession, expect_rejected, good
from clob.testing.conformance.wallet import ONE

WHOLE = (1, 2, 33, 50, 67, 98, 99)
"""Prices that are tried on each side."""


def price_of(session: CheckSession, side: Side, maker_amount: int, taker_amount: int) -> object:
    """Place an order of two amounts; return its price in the book, and cancel it."""
    wallet, market = session.wallet(), session.market()
    body = wallet.amounts(market, side, maker_amount, taker_amount)
    order_id = good(session.create(wallet, body))["orderId"]
    levels = session.book(market)["asks" if side else "bids"]
    session.cancel(wallet, order_id)
    return levels[0]["price"]


@check(SPECIFICATION, "Prices are integers in cents, 1 to 99.")
def buys_at_whole_cents(session: CheckSession) -> None:
    """Buys at prices from 1 to 99 rest at their price."""
    for price in WHOLE:
        received = price_of(session, Side.BUY, price * ONE, 100 * ONE)
        expect(f"price of a buy at {price}", received, price)


@check(SPECIFICATION, "Prices are integers in cents, 1 to 99.")
def sells_at_whole_cents(session: CheckSession) -> None:
    """Sells at prices from 1 to 99 rest at their price."""
    for price in WHOLE:
        received = price_of(session, Side.SELL, 100 * ONE, price * ONE)
        expect(f"price of a sell at {price}", received, price)


@check(SPECIFICATION, "Prices are integers in cents, 1 to 99.")
def price_of_100_is_rejected(session: CheckSession) -> None:
    """Amounts of 100 cents a token are rejected."""
    wallet, market = session.wallet(), session.market()
    reply = session.create(wallet, wallet.amounts(market, Side.BUY, ONE, ONE))
    expect_rejected(reply, "PRICE_OUT_OF_RANGE")


@check(SPECIFICATION, "Prices are integers in cents, 1 to 99.")
def price_of_0_is_rejected(session: CheckSession) -> None:
    """Amounts below 1 cent a token are rejected."""
    wallet, market = session.wallet(), session.market()
    reply = session.create(wallet, wallet.amounts(market, Side.BUY, ONE, 1_000 * ONE))
    expect_rejected(reply, "PRICE_OUT_OF_RANGE")


@check("concepts/amounts-and-rounding.md", "Otherwise a buy is rounded **down**")
def buy_is_rounded_down(session: CheckSession) -> None:
    """A buy of 28.9 cents rests at 28."""
    received = price_of(session, Side.BUY, 289 * ONE // 1_000, ONE)
    expect("price of a buy at 28.9", received, 28)


@check("concepts/amounts-and-rounding.md", "a sell **up** to a whole cent")
def sell_is_rounded_up(session: CheckSession) -> None:
    """A sell of 28.9 cents rests at 29."""
    received = price_of(session, Side.SELL, ONE, 289 * ONE // 1_000)
    expect("price of a sell at 28.9", received, 29)


@check(
    "concepts/amounts-and-rounding.md",
    "if the difference is less than one wei of collateral on the whole order",
)
def wei_of_rounding_keeps_the_cent(session: CheckSession) -> None:
    """Collateral rounded down by less than a wei keeps the intended cent."""
    size = ONE + 1
    received = price_of(session, Side.BUY, 33 * size // 100, size)
    expect("price of a buy of 10**18 + 1 wei at 33", received, 33)
