"""The order and its words: side, time in force, self-trade policy."""

import enum
from typing import Final

import msgspec

from clob.units import OWNER_MAX


class Word(enum.IntEnum):
    """An enumeration whose members print as one writes them, ``Side.BUY``."""

    def __repr__(self) -> str:
        """Write the member as the expression that names it."""
        return f"{type(self).__name__}.{self.name}"


class Side(Word):
    """Which way an order trades. The numbers are those of the signed order."""

    BUY = 0
    """Gives collateral, receives tokens."""
    SELL = 1
    """Gives tokens, receives collateral."""


class TimeInForce(Word):
    """What becomes of the part of an order that does not trade at once."""

    GTC = 0
    """Good till cancelled. It rests."""
    GTD = 1
    """Good till date. It rests, and ``expiration_s`` must be set."""
    IOC = 2
    """Immediate or cancel. It vanishes."""
    FOK = 3
    """Fill or kill. The order is refused unless all of it trades at once."""


class SelfTrade(Word):
    """What happens where an incoming order meets a resting order of the same maker."""

    NONE = 0
    """They trade like any two orders."""
    CANCEL_RESTING = 1
    """The resting order is removed and the incoming one goes on."""
    CANCEL_INCOMING = 2
    """What is left of the incoming order vanishes; the resting one stays."""
    CANCEL_BOTH = 3
    """The resting order is removed and what is left of the incoming one vanishes."""
    DECREMENT = 4
    """Both lose the smaller of their sizes without a trade, and the larger one goes on."""


class Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A limit order, as one submits it. Building one checks nothing; the book does.

    >>> Order(id="a", token="101", maker="0xA11CE", side=Side.SELL, price=50, size=60).price
    50
    """

    id: str | int
    """What names the order while it rests, a text or an integer from 0 below 2**63."""
    token: str
    """The outcome token it trades."""
    maker: str
    """The wallet that owns it; the empty text is nobody, who never trades with himself."""
    side: Side
    """Buy or sell."""
    price: int
    """The limit, in ticks of the grid (cents on the default one)."""
    size: int
    """Tokens, in wei, 1 to ``SIZE_MAX`` and a multiple of the book's lot."""
    time_in_force: TimeInForce = TimeInForce.GTC
    """What becomes of the part that does not trade at once."""
    expiration_s: int = 0
    """The last Unix second in which it may trade; 0 is never to expire."""
    post_only: bool = False
    """Refused if it would trade at once."""
    self_trade: SelfTrade | None = None
    """What happens where it meets its maker's own orders; None leaves it to the market."""
    nonce: int = 0
    """The maker's nonce it was signed with, below 2**256; the book does not look at it."""
    collateral: int | None = None
    """The signed amount of collateral in wei; None is ``size * price // 100``."""
    fee_rate_bps: int | None = None
    """The most it may be charged, 0 to 1000 basis points; None is whatever the market charges."""
    smart_wallet: str = ""
    """The wallet that pays and receives the collateral; empty is the maker's own."""


OWNER_PREFIX: Final = "owner:"
"""What a maker's name begins with that stands for the number of an owner in a record."""


def owner_number(maker: str) -> int | None:
    """Tell which owner number of a record a maker's name stands for.

    Args:
        maker: a maker's name.

    Returns:
        0 for the empty name (nobody), N for ``owner:N`` in plain decimal from 1 to ``OWNER_MAX``,
        else None, which is a name like any other.
    """
    if not maker:
        return 0
    digits = maker.removeprefix(OWNER_PREFIX)
    if digits == maker or not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
        return None
    number = int(digits)
    return number if 0 < number <= OWNER_MAX and digits[0] != "0" else None


def maker_of(owner: int) -> str:
    """Name the maker that an owner number of a record stands for, as events do.

    Args:
        owner: 0 to ``OWNER_MAX``.

    Returns:
        The empty text for 0, ``owner:N`` for the others.
    """
    return f"{OWNER_PREFIX}{owner}" if owner else ""
