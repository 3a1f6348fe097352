"""What the amounts of a signed order mean: so many tokens at so many cents, integers only.

The rule is decision 3. A signed order names two amounts and no price, and the programs that sign
round in several ways; the rule recovers the cent that was meant, and is never worse for the maker
than what was signed by more than rounding loses.
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
    """A limit as the engine has it."""

    price: int
    """Cents, 1 to 99."""
    size: int
    """Tokens, in wei."""


def price_and_size(
    side: int, maker_amount: int, taker_amount: int, *, strict: bool = False, settles: bool = False
) -> PriceSize:
    """Give the price and the size that two signed amounts mean (decision 3).

    A price counts as the whole cent it is next to where less than a wei of collateral on the whole
    order is between them, or a billionth of it. Else a buy takes the cent below and a sell the one
    above, which is never worse than what was signed.

    Args:
        side: buy or sell.
        maker_amount: wei. A buy: collateral. A sell: tokens.
        taker_amount: wei. A buy: tokens. A sell: collateral.
        strict: refuse what is not a whole cent exactly.
        settles: the trades settle on a chain, where the billionth is not forgiven.

    Raises:
        InvalidSideError: the side is neither buy nor sell.
        InvalidAmountError: an amount is no positive integer; or ``strict``, and the price is no
            whole cent. The nearest amounts that would do are named.
        AmountTooLargeError: the tokens are more than ``SIZE_MAX``.
        PriceOutOfRangeError: the price is below 1 cent or above 99.

    >>> price_and_size(Side.BUY, 30 * 10**18, 60 * 10**18)
    PriceSize(price=50, size=60000000000000000000)
    """
    buys = is_buy(side)
    if type(maker_amount) is not int or maker_amount <= 0:
        refuse_amount("makerAmount", maker_amount)
    if type(taker_amount) is not int or taker_amount <= 0:
        refuse_amount("takerAmount", taker_amount)
    collateral, size = (maker_amount, taker_amount) if buys else (taker_amount, maker_amount)
    if size > SIZE_MAX:
        refuse_size("takerAmount" if buys else "makerAmount", size)
    hundredfold = 100 * collateral
    cent = (2 * hundredfold + size) // (2 * size)
    apart = abs(hundredfold - cent * size)
    if strict and apart:
        refuse_inexact(side, collateral, size)
    if not (apart < 100 or (not settles and apart * 10**9 <= cent * size)):
        cent = hundredfold // size if buys else -(-hundredfold // size)
    if not PRICE_MIN <= cent <= PRICE_MAX:
        refuse_price(collateral, size, cent)
    return PriceSize(cent, size)


def amounts_of(side: int, price: int, size: int) -> tuple[int, int]:
    """Give the amounts to sign for a size at a price, ``(makerAmount, takerAmount)``.

    The collateral is ``size * price // 100`` (decision 53). :func:`price_and_size` gives price and
    size back from 198 wei on; of fewer, several cents come to the same wei of collateral.

    Args:
        side: buy or sell.
        price: cents, 1 to 99.
        size: tokens, in wei.

    Raises:
        InvalidSideError: the side is neither buy nor sell.
        PriceOutOfRangeError: the price is not an integer from 1 to 99.
        InvalidAmountError: the size is no positive integer, or so small that the collateral is 0.
        AmountTooLargeError: the size is more than ``SIZE_MAX``.

    >>> amounts_of(Side.SELL, 40, 10)
    (10, 4)
    """
    buys = is_buy(side)
    if type(price) is not int or not PRICE_MIN <= price <= PRICE_MAX:
        raise at("price", PriceOutOfRangeError(
            f"price must be an integer from {PRICE_MIN} to {PRICE_MAX}, not {show(price)}"
        ))  # fmt: skip
    if type(size) is not int or size <= 0:
        refuse_amount("size", size)
    if size > SIZE_MAX:
        refuse_size("size", size)
    collateral = collateral_of(size, price)
    if not collateral:
        raise at("size", InvalidAmountError(
            f"size must be at least {-(-100 // price)} wei at {price} cents, or it costs nothing, "
            f"not {size}"
        ))  # fmt: skip
    return (collateral, size) if buys else (size, collateral)


def is_buy(side: object) -> bool:
    """Say whether a side is that of a buyer; refuse what is no side."""
    if type(side) is not Side and (type(side) is not int or side not in (Side.BUY, Side.SELL)):
        raise at("side", InvalidSideError(f"side must be 0 (buy) or 1 (sell), not {show(side)}"))
    return side == Side.BUY


def refuse_amount(path: str, amount: object) -> NoReturn:
    """Refuse what is no positive integer."""
    raise at(path, InvalidAmountError(
        f"{path} must be a positive integer in wei, not {show(amount)}"
    ))  # fmt: skip


def refuse_size(path: str, size: int) -> NoReturn:
    """Refuse more tokens than the engine holds."""
    raise at(path, AmountTooLargeError(
        f"{path} must be at most {SIZE_MAX} wei of tokens, not {show(size)}"
    ))  # fmt: skip


def refuse_price(collateral: int, size: int, cent: int) -> NoReturn:
    """Refuse a price off the grid, naming the amounts that would be on it."""
    least, most = collateral_of(size, PRICE_MIN) or 1, collateral_of(size, PRICE_MAX)
    hint = f"; for these tokens it takes {least} to {most}" if least <= most else ""
    raise at("makerAmount", PriceOutOfRangeError(
        f"{show(collateral)} wei of collateral for {size} wei of tokens is a price of {show(cent)} "
        f"cents, not {PRICE_MIN} to {PRICE_MAX}{hint}"
    ))  # fmt: skip


def refuse_inexact(side: int, collateral: int, size: int) -> NoReturn:
    """Refuse a price that is no whole cent, naming the nearest amounts of one."""
    low = 100 * collateral // size
    near = [exact(side, cent, size) for cent in (low, low + 1) if PRICE_MIN <= cent <= PRICE_MAX]
    hint = f"; the nearest are {' and '.join(near)}" if near else ""
    raise at("makerAmount", InvalidAmountError(
        f"the amounts must be a whole number of cents: 100 * {show(collateral)} is no multiple of "
        f"{size}{hint}"
    ))  # fmt: skip


def exact(side: int, cent: int, size: int) -> str:
    """Write the amounts next to these tokens whose price is a cent exactly."""
    step = 100 // gcd(cent, 100)
    tokens = max(size - size % step, step)
    collateral = tokens * cent // 100
    maker, taker = (collateral, tokens) if side == Side.BUY else (tokens, collateral)
    return f"{maker} for {taker} ({cent} cents)"
