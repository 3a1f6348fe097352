"""Order, side, time in force and self-trade policy."""

import enum
from typing import Final, TypedDict, Unpack

import msgspec

from clob.units import OWNER_MAX


class Word(enum.IntEnum):
    """Base of enumerations whose members print as their expression, ``Side.BUY``."""

    def __repr__(self) -> str:
        """Return the expression of the member."""
        return f"{type(self).__name__}.{self.name}"


class Side(Word):
    """Direction of an order, with the numbers of the signed order."""

    BUY = 0
    """Pays collateral, receives tokens."""
    SELL = 1
    """Pays tokens, receives collateral."""


class TimeInForce(Word):
    """Treatment of the part of an order that does not trade immediately."""

    GTC = 0
    """Good till cancelled: it rests."""
    GTD = 1
    """Good till date: it rests; ``expiration_s`` must be set."""
    IOC = 2
    """Immediate or cancel: it is cancelled."""
    FOK = 3
    """Fill or kill: the order is rejected unless all of it trades immediately."""


class SelfTrade(Word):
    """Treatment of an incoming order that matches a resting order of the same maker."""

    NONE = 0
    """They trade."""
    CANCEL_RESTING = 1
    """The resting order is removed; the incoming one continues."""
    CANCEL_INCOMING = 2
    """The remainder of the incoming order is cancelled; the resting one stays."""
    CANCEL_BOTH = 3
    """The resting order is removed and the remainder of the incoming one cancelled."""
    DECREMENT = 4
    """Both are reduced by the smaller size without a trade; the larger one continues."""


class Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A limit order. Fields are checked when it is submitted, not when it is built.

    >>> Order(id="a", token="101", maker="0xA11CE", side=Side.SELL, price=50, size=60).price
    50
    """

    id: str | int
    """Id, unique among resting orders: a str or an integer from 0 to 2**63 - 1."""
    token: str
    """Outcome token."""
    maker: str
    """Wallet that owns the order; an empty maker never counts as a self-trade."""
    side: Side
    """Buy or sell."""
    price: int
    """Limit price, in ticks of the grid (cents on the default grid)."""
    size: int
    """Tokens in wei, 1 to ``SIZE_MAX`` and a multiple of the book's lot."""
    time_in_force: TimeInForce = TimeInForce.GTC
    """Treatment of the part that does not trade immediately."""
    expiration_s: int = 0
    """Last Unix second in which it may trade; 0 means no expiration."""
    post_only: bool = False
    """Reject the order if it would trade immediately."""
    self_trade: SelfTrade | None = None
    """Policy for matches with the maker's own orders; None uses the market's."""
    nonce: int = 0
    """The maker's nonce when it was signed, below 2**256; ignored by the book."""
    collateral: int | None = None
    """Signed amount of collateral in wei; None means ``size * price // 100``."""
    fee_rate_bps: int | None = None
    """Maximum fee rate, 0 to 1000 basis points; None means no cap."""
    smart_wallet: str = ""
    """Wallet that pays and receives the collateral; empty means the maker's."""

    @classmethod
    def buy(
        cls,
        price: int,
        size: int,
        *,
        id: str | int,
        token: str = "",
        maker: str = "",
        **fields: Unpack["OrderFields"],
    ) -> "Order":
        """Return a buy order.

        >>> Order.buy(55, 100, id="b", maker="0xB0B", post_only=True).side
        Side.BUY

        Args:
            price: limit price, in ticks.
            size: tokens in wei.
            id: unique among resting orders.
            token: outcome token; empty for a book without one.
            maker: wallet that owns the order.
            fields: other fields by name.

        Raises:
            TypeError: a field is unknown.
        """
        return cls(id=id, token=token, maker=maker, side=Side.BUY, price=price, size=size, **fields)

    @classmethod
    def sell(
        cls,
        price: int,
        size: int,
        *,
        id: str | int,
        token: str = "",
        maker: str = "",
        **fields: Unpack["OrderFields"],
    ) -> "Order":
        """Return a sell order; the arguments are those of :meth:`buy`."""
        return cls(
            id=id, token=token, maker=maker, side=Side.SELL, price=price, size=size, **fields
        )


class OrderFields(TypedDict, total=False):
    """Fields of an order that :meth:`Order.buy` and :meth:`Order.sell` take by name."""

    time_in_force: TimeInForce
    expiration_s: int
    post_only: bool
    self_trade: SelfTrade | None
    nonce: int
    collateral: int | None
    fee_rate_bps: int | None
    smart_wallet: str


OWNER_PREFIX: Final = "owner:"
"""Prefix of maker names that represent an owner number of a record."""


def owner_number(maker: str) -> int | None:
    """Return the owner number of a maker's name.

    0 for the empty name, N for ``owner:N`` with N in plain decimal from 1 to ``OWNER_MAX``, else
    None.
    """
    if not maker:
        return 0
    digits = maker.removeprefix(OWNER_PREFIX)
    if digits == maker or not (digits.isascii() and digits.isdecimal()) or len(digits) > 10:
        return None
    number = int(digits)
    return number if 0 < number <= OWNER_MAX and digits[0] != "0" else None


def maker_of(owner: int) -> str:
    """Return the maker's name of an owner number in events: empty for 0, else ``owner:N``."""
    return f"{OWNER_PREFIX}{owner}" if owner else ""
