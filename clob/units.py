"""The number systems of the engine and their limits; nothing else here knows wei, cents or lots."""

WEI_PER_TOKEN = 10**18
"""One outcome token in wei, the smallest unit of a size."""

PRICE_MIN = 1
"""The lowest price of the default grid, in cents."""

PRICE_MAX = 99
"""The highest price of the default grid, in cents."""

TICKS_MAX = 2**18
"""How many prices one book may span, three tiers of 64-bit words in the compiled book."""

TICK_LIMIT = 2**31 - 1
"""The largest price a record's signed 32-bit field holds, and the smallest once negated."""

SIZE_MAX = 2**96 - 1
"""The largest size of an order in wei; the total of 2**32 such orders fits 128 bits."""

ORDER_ID_MAX = 2**63 - 1
"""The largest numeric order id of a caller; numbers above it stand for string ids."""

OWNER_MAX = 2**31 - 1
"""The largest owner number of a caller; numbers above it stand for makers given by name."""

TIME_MAX = 2**63 - 1
"""The latest time a command may state; an expiration at or beyond it never comes."""


FEE_RATE_MAX_BPS = 1000
"""The highest fee rate an order may name and a market may charge, in basis points: 10 %."""

UINT256_MAX = 2**256 - 1
"""The largest nonce, amount of collateral or balance: what a word of the chain holds."""

TEXT_MAX = 256
"""The longest id, wallet or name a matcher takes, in characters."""


def collateral_of(size: int, price: int) -> int:
    """Give what a trade costs, in wei of collateral, rounded down.

    The one formula of matcher, portfolio and contract (decision 4 on amounts).

    Args:
        size: tokens, in wei.
        price: cents, 1 to 99.

    >>> collateral_of(3, 50)
    1
    """
    return size * price // 100


def tokens(amount: int | str) -> int:
    """Turn an amount of tokens into wei, exactly.

    Args:
        amount: whole tokens as an integer, or a decimal text with at most 18 decimals
            (``"0.5"``). A float is refused, since it cannot hold most decimal amounts.

    Returns:
        The amount in wei.

    Raises:
        TypeError: the amount is neither an integer nor a text.
        ValueError: the text is no plain decimal number, or has more than 18 decimals.

    >>> tokens(60)
    60000000000000000000
    >>> tokens("0.5")
    500000000000000000
    """
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        raise TypeError(
            f"tokens takes an integer or a decimal text, not {type(amount).__name__} {amount!r}"
        )
    if isinstance(amount, int):
        return amount * WEI_PER_TOKEN
    whole, point, decimals = amount.partition(".")
    digits = whole + decimals
    if not (whole and digits.isascii() and digits.isdecimal()) or bool(point) != bool(decimals):
        raise ValueError(f"not a decimal amount of tokens: {amount!r}")
    if len(decimals) > 18:
        raise ValueError(f"an amount of tokens has at most 18 decimals, not {len(decimals)}")
    return int(digits.ljust(len(whole) + 18, "0"))


def format_tokens(size: int) -> str:
    """Write a size in wei as tokens, exactly and without trailing zeros.

    Args:
        size: wei, zero or more.

    Returns:
        The tokens as a decimal text that :func:`tokens` reads back.

    >>> format_tokens(60_500000000000000000)
    '60.5'
    """
    whole, rest = divmod(size, WEI_PER_TOKEN)
    return f"{whole}.{rest:018d}".rstrip("0") if rest else str(whole)
