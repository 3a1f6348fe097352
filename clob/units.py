"""Units of the engine (wei, cents, lots) and their limits."""

WEI_PER_TOKEN = 10**18
"""One outcome token in wei, the smallest unit of a size."""

PRICE_MIN = 1
"""Lowest price of the default grid, in cents."""

PRICE_MAX = 99
"""Highest price of the default grid, in cents."""

TICKS_MAX = 2**18
"""Maximum number of prices of a book: three tiers of 64-bit words in the compiled book."""

TICK_LIMIT = 2**31 - 1
"""Largest price of a record's signed 32-bit field; its negative is the smallest."""

SIZE_MAX = 2**96 - 1
"""Largest size of an order in wei; the total of 2**32 such orders fits in 128 bits."""

ORDER_ID_MAX = 2**63 - 1
"""Largest integer order id; the compiled book uses larger numbers for str ids."""

OWNER_MAX = 2**31 - 1
"""Largest owner number; the compiled book uses larger numbers for named makers."""

TIME_MAX = 2**63 - 1
"""Latest time of a command; an order with a later expiration never expires."""

FEE_RATE_MAX_BPS = 1000
"""Highest fee rate of orders and markets, in basis points: 10 %."""

UINT256_MAX = 2**256 - 1
"""Largest nonce, amount of collateral or balance: an EVM word."""

TEXT_MAX = 256
"""Longest id, wallet or name, in characters."""


def collateral_of(size: int, price: int) -> int:
    """Return the cost of a trade in wei of collateral, rounded down.

    Matcher, portfolio and contract use the same formula (decision 4 on amounts).

    Args:
        size: tokens, in wei.
        price: cents, 1 to 99.

    >>> collateral_of(3, 50)
    1
    """
    return size * price // 100


def tokens(amount: int | str) -> int:
    """Convert an amount of tokens to wei, exactly.

    Args:
        amount: whole tokens as an int, or a decimal str with at most 18 decimals (``"0.5"``). A
            float is rejected, since it cannot represent most decimal amounts.

    Returns:
        The amount in wei.

    Raises:
        TypeError: the amount is neither an int nor a str.
        ValueError: the str is not a plain decimal number, or has more than 18 decimals.

    >>> tokens(60)
    60000000000000000000
    >>> tokens("0.5")
    500000000000000000
    """
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        raise TypeError(
            f"amount must be an int or a decimal str; got {type(amount).__name__} {amount!r}"
        )
    if isinstance(amount, int):
        return amount * WEI_PER_TOKEN
    whole, point, decimals = amount.partition(".")
    digits = whole + decimals
    if not (whole and digits.isascii() and digits.isdecimal()) or bool(point) != bool(decimals):
        raise ValueError(f'amount must be a decimal number like "0.5"; got {amount!r}')
    if len(decimals) > 18:
        raise ValueError(f"amount must have at most 18 decimals; got {len(decimals)}")
    return int(digits.ljust(len(whole) + 18, "0"))


def format_tokens(size: int) -> str:
    """Format a size in wei as tokens, exactly and without trailing zeros.

    Args:
        size: wei; negative for a loss, for example.

    Returns:
        The tokens as a decimal str, which :func:`tokens` accepts unless it is negative.

    >>> format_tokens(60_500000000000000000), format_tokens(-5)
    ('60.5', '-0.000000000000000005')
    """
    whole, rest = divmod(abs(size), WEI_PER_TOKEN)
    text = f"{whole}.{rest:018d}".rstrip("0") if rest else str(whole)
    return f"-{text}" if size < 0 else text


def seller_fee(rate_bps: int, price: int, size: int) -> int:
    """Return the seller's fee in wei of collateral, rounded down (decision 20)."""
    return rate_bps * min(price, 100 - price) * size // 1_000_000


def buyer_fee(rate_bps: int, price: int, size: int) -> int:
    """Return the buyer's fee in wei of tokens, rounded down (decision 20)."""
    return rate_bps * min(price, 100 - price) * size // (10_000 * price)
