"""What happened: the facts a book announces, each with its number in one gapless sequence.

The depth of a book can be rebuilt from its events alone. Each event takes one ``seq``, nothing
else does.
"""

import enum
from typing import TypeAlias

import msgspec

from clob.order import Side


class RemovalReason(enum.StrEnum):
    """Why an order left the book."""

    FILLED = "filled"
    """All of it traded."""
    CANCELLED = "cancelled"
    """Its maker asked for it."""
    EXPIRED = "expired"
    """Its expiration passed."""
    SELF_TRADE = "self_trade"
    """It met its maker's own order, and the policy removed it."""
    REPLACED = "replaced"
    """It gave up its place in the queue; what became of it follows at once."""
    NONCE = "nonce"
    """Its maker raised the nonce above the order's."""
    SETTLEMENT = "settlement"
    """A trade of it could not be settled."""
    ADMIN = "admin"
    """The operator removed it."""
    MARKET = "market"
    """Its market closed."""

    def __repr__(self) -> str:
        """Write the member as the expression that names it."""
        return f"RemovalReason.{self.name}"


class MatchType(enum.StrEnum):
    """What two orders that met did with tokens."""

    DIRECT = "direct"
    """One bought what the other sold."""
    MINT = "mint"
    """One bought YES and one NO: a pair was made of the collateral of both."""
    MERGE = "merge"
    """One sold YES and one NO: the pair was given back for its collateral."""

    def __repr__(self) -> str:
        """Write the member as the expression that names it."""
        return f"MatchType.{self.name}"


class OrderAdded(msgspec.Struct, frozen=True, gc=False, tag=True):
    """An order, or what its trades left of it, rests in the book, last in its queue."""

    seq: int
    """Number of the event, one above the event before it."""
    market: str
    """The market of the book; empty where a book stands alone."""
    token: str
    """The token of the book."""
    order_id: str | int
    """The order, as its caller named it."""
    side: Side
    """Buy or sell."""
    price: int
    """Its limit, in ticks."""
    remaining: int
    """What rests of it, in wei."""


class Trade(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Two orders traded, at the resting order's price."""

    seq: int
    """Number of the event, one above the event before it."""
    market: str
    """The market of the book; empty where a book stands alone."""
    token: str
    """The token of the book."""
    resting_order_id: str | int
    """The order that was in the book."""
    incoming_order_id: str | int
    """The order that met it."""
    price: int
    """The resting order's price, in ticks."""
    size: int
    """Tokens that changed hands, in wei."""
    buyer: str
    """The maker of the buying order."""
    seller: str
    """The maker of the selling order."""
    resting_remaining: int
    """What is left of the resting order, in wei; at 0 its removal is the next event."""
    incoming_remaining: int
    """What is left of the incoming order, in wei."""
    incoming_side: Side
    """Which of the two came in."""
    buyer_fee: int = 0
    """What the buyer pays of the tokens received, in wei; never netted into ``size``."""
    seller_fee: int = 0
    """What the seller pays of the collateral received, in wei."""

    @property
    def match_type(self) -> MatchType:
        """What the two orders did; a trade that says nothing else is a direct one."""
        return MatchType.DIRECT


class PairedTrade(Trade, frozen=True, gc=False, tag=True, kw_only=True):
    """One of the two trades that a mint or a merge is, one per token, at prices that make 100.

    Both name both orders, and say the same size and the same remainders. The one for the token of
    the incoming order comes first, the one for the resting order's next; that has the following
    ``seq``. Each is told as it looks in the book of its token: nobody sells what is minted and
    nobody buys what is merged, so that the name of that party is the empty text, and its fee 0.
    """

    match_type: MatchType
    """Whether the tokens were minted or merged."""

    @property
    def is_incoming(self) -> bool:
        """Whether it is the trade of the order that came in, and not of the one that rested."""
        return (self.incoming_side is Side.BUY) == (self.match_type is MatchType.MINT)


class OrderReduced(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A resting order became smaller without a trade and kept its place in the queue."""

    seq: int
    """Number of the event, one above the event before it."""
    market: str
    """The market of the book; empty where a book stands alone."""
    token: str
    """The token of the book."""
    order_id: str | int
    """The order, as its caller named it."""
    remaining: int
    """What is left of it, in wei."""


class OrderRemoved(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A resting order left the book."""

    seq: int
    """Number of the event, one above the event before it."""
    market: str
    """The market of the book; empty where a book stands alone."""
    token: str
    """The token of the book."""
    order_id: str | int
    """The order, as its caller named it."""
    reason: RemovalReason
    """Why it left."""
    remaining: int
    """What was left of it, in wei; 0 where it was filled."""


Event: TypeAlias = OrderAdded | Trade | PairedTrade | OrderReduced | OrderRemoved
"""Anything a book or a market announces."""


class Rejected(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A command of a batch was refused; it takes no ``seq``, and the others went on."""

    index: int
    """Which command of the batch, counted from 0."""
    code: str
    """The code of the refusal."""
    message: str
    """What was refused, in words."""
