"""Amounts, prices and cursors as Polymarket's clients read and write them.

Its tokens and its collateral have 6 decimals; those of the engine have 18.
"""

from base64 import b64decode, b64encode
from typing import Final

from clob_server.api.faults import wrong

WEI: Final = 10**12
"""Wei in a unit of Polymarket, one millionth of a token."""
UNITS: Final = 10**6
"""Units in a token."""
TICK: Final = "0.01"
"""The tick size of every market: one cent."""
END: Final = "LTE="
"""The cursor after the last page: -1 in base64."""

_CURSOR_DIGITS: Final = 17


def decimal(wei: int) -> str:
    """Return an amount in tokens with up to 6 decimals, rounded down.

    >>> decimal(5_250_000 * WEI), decimal(WEI - 1)
    ('5.25', '0')
    """
    whole, parts = divmod(wei // WEI, UNITS)
    return f"{whole}.{parts:06}".rstrip("0").rstrip(".")


def price_text(cents: int) -> str:
    """Return a price as a fraction of the collateral.

    >>> price_text(52), price_text(50), price_text(7), price_text(100)
    ('0.52', '0.5', '0.07', '1')
    """
    return fraction(cents, 100)


def fraction(numerator: int, denominator: int) -> str:
    """Return a fraction with up to 4 decimals, rounded down.

    >>> fraction(105, 200), fraction(0, 100)
    ('0.525', '0')
    """
    whole, parts = divmod(numerator * 10_000 // denominator, 10_000)
    return f"{whole}.{parts:04}".rstrip("0").rstrip(".")


def cursor(position: int | None) -> str:
    """Return the cursor of the next page; None is the end.

    >>> cursor(0), cursor(None)
    ('MA==', 'LTE=')
    """
    return END if position is None else b64encode(b"%d" % position).decode()


def position_of(text: str | None) -> int | None:
    """Return the position that a cursor names, 0 for an absent one; None after the last page.

    Raises:
        ApiError: INVALID_FIELD.
    """
    if not text:
        return 0
    if text == END:
        return None
    try:
        digits = b64decode(text, validate=True)
    except ValueError:
        digits = b""
    if digits.isdigit() and len(digits) <= _CURSOR_DIGITS:
        return int(digits)
    raise wrong("next_cursor", "must be the next_cursor of the page before", text)
