"""Converts the amounts of a signed order to price and size, and back, in integers (decision 3).

A signed order has two amounts and no price, and clients round them in different ways. The rule
recovers the intended cent; it is never worse for the maker than the signed amounts, except by a
rounding error.
"""

from math import gcd
from typing import NamedTuple, NoReturn

from clob.book.validation import show
from clob.errors import (
    AmountTooLargeError,
    InvalidAmountError,
    InvalidSideError,
    PriceOutOfRangeError,
)
from clob.order import Side
from clob.signing.fields import at
from clob.units import PRICE_MAX, PRICE_MIN, SIZE_MAX, collateral_of


class PriceSize(NamedTuple):
    """Price and size of an order in the engine."""

    price: int
    """Cents, 1 to 99."""
    size: int
    """Tokens, in wei."""


def price_and_size(
    side: int, maker_amount: int, taker_amount: int, *, strict: bool = False, settles: bool = False
) -> PriceSize:
    """Return the price and size of two signed amounts (decision 3).

    The price is the nearest cent if the collateral of the whole order differs from it by less than
    1 wei or by at most one billionth. Otherwise a buy rounds down and a sell rounds up, which is
    never worse than the signed amounts.

    Args:
        side: buy or sell.
        maker_amount: wei. A buy: collateral. A sell: tokens.
        taker_amount: wei. A buy: tokens. A sell: collateral.
        strict: reject a price that is not exactly a whole cent.
        settles: the trades settle on a chain, which does not tolerate the billionth.

    Raises:
        InvalidSideError: the side is neither buy nor sell.
        InvalidAmountError: an amount is not a positive integer; or ``strict`` is set and the price
            is not a whole cent. The message names the nearest valid amounts.
        AmountTooLargeError: the tokens exceed ``SIZE_MAX``.
        PriceOutOfRangeError: the price is below 1 cent or above 99.

    >>> price_and_size(Side.BUY, 30 * 10**18, 60 * 10**18)
    PriceSize(price=50, size=60000000000000000000)
    """
    buys = is_buy(side)
    if type(maker_amount) is not int or maker_amount <= 0:
        reject_amount("makerAmount", maker_amount)
    if type(taker_amount) is not int or taker_amount <= 0:
        reject_amount("takerAmount", taker_amount)
    collateral, size = (maker_amount, taker_amount) if buys else (taker_amount, maker_amount)
    if size > SIZE_MAX:
        reject_size("takerAmount" if buys else "makerAmount", size)
    hundredfold = 100 * collateral
    cent = (2 * hundredfold + size) // (2 * size)
    apart = abs(hundredfold - cent * size)
    if strict and apart:
        reject_inexact(side, collateral, size)
    if not (apart < 100 or (not settles and apart * 10**9 <= cent * size)):
        cent = hundredfold // size if buys else -(-hundredfold // size)
    if not PRICE_MIN <= cent <= PRICE_MAX:
        reject_price(collateral, size, cent)
    return PriceSize(cent, size)


def amounts_of(side: int, price: int, size: int) -> tuple[int, int]:
    """Return the amounts to sign for a size at a price, ``(makerAmount, takerAmount)``.

    The collateral is ``size * price // 100`` (decision 53). :func:`price_and_size` inverts this
    for sizes of 198 wei or more; below, several prices have the same collateral.

    Args:
        side: buy or sell.
        price: cents, 1 to 99.
        size: tokens, in wei.

    Raises:
        InvalidSideError: the side is neither buy nor sell.
        PriceOutOfRangeError: the price is not an integer from 1 to 99.
        InvalidAmountError: the size is not a positive integer, or its collateral is 0.
        AmountTooLargeError: the size exceeds ``SIZE_MAX``.

    >>> amounts_of(Side.SELL, 40, 10)
    (10, 4)
    """
    buys = is_buy(side)
    if type(price) is not int or not PRICE_MIN <= price <= PRICE_MAX:
        raise at("price", PriceOutOfRangeError(
            f"price must be an integer from {PRICE_MIN} to {PRICE_MAX} (cents); got {show(price)}"
        ))  # fmt: skip
    if type(size) is not int or size <= 0:
        reject_amount("size", size)
    if size > SIZE_MAX:
        reject_size("size", size)
    collateral = collateral_of(size, price)
    if not collateral:
        raise at("size", InvalidAmountError(
            f"size must be at least {-(-100 // price)} wei at {price} cents (its collateral is 0 "
            f"below); got {size}"
        ))  # fmt: skip
    return (collateral, size) if buys else (size, collateral)


def is_buy(side: object) -> bool:
    """Return whether a side is buy; reject any other value than the two sides."""
    if type(side) is not Side and (type(side) is not int or side not in (Side.BUY, Side.SELL)):
        raise at("side", InvalidSideError(f"side must be 0 (buy) or 1 (sell); got {show(side)}"))
    return side == Side.BUY


def reject_amount(path: str, amount: object) -> NoReturn:
    """Raise for an amount that is not a positive integer."""
    raise at(path, InvalidAmountError(
        f"{path} must be a positive integer in wei; got {show(amount)}"
    ))  # fmt: skip


def reject_size(path: str, size: int) -> NoReturn:
    """Raise for a size above ``SIZE_MAX``."""
    raise at(path, AmountTooLargeError(
        f"{path} must be at most {SIZE_MAX} wei of tokens; got {show(size)}"
    ))  # fmt: skip


def reject_price(collateral: int, size: int, cent: int) -> NoReturn:
    """Raise for a price outside 1 to 99 cents; the message names the valid collateral."""
    least, most = collateral_of(size, PRICE_MIN) or 1, collateral_of(size, PRICE_MAX)
    hint = f"; these tokens need {least} to {most} wei of collateral" if least <= most else ""
    raise at("makerAmount", PriceOutOfRangeError(
        f"price must be from {PRICE_MIN} to {PRICE_MAX} cents; got {show(cent)}: "
        f"{show(collateral)} wei of collateral for {size} wei of tokens{hint}"
    ))  # fmt: skip


def reject_inexact(side: int, collateral: int, size: int) -> NoReturn:
    """Raise for a price that is not a whole cent; the message names the nearest amounts."""
    low = 100 * collateral // size
    near = [exact(side, cent, size) for cent in (low, low + 1) if PRICE_MIN <= cent <= PRICE_MAX]
    hint = f"; the nearest are {' and '.join(near)}" if near else ""
    raise at("makerAmount", InvalidAmountError(
        f"price must be a whole number of cents: 100 * {show(collateral)} is not a multiple of "
        f"{size}{hint}"
    ))  # fmt: skip


def exact(side: int, cent: int, size: int) -> str:
    """Format the amounts closest to this size whose price is exactly a cent."""
    step = 100 // gcd(cent, 100)
    tokens = max(size - size % step, step)
    collateral = tokens * cent // 100
    maker, taker = (collateral, tokens) if side == Side.BUY else (tokens, collateral)
    return f"{maker} for {taker} ({cent} cents)"
