"""Events of a book or market, numbered without gaps.

Each event has the next ``seq``; nothing else uses numbers. The depth of a book can be rebuilt from
its events alone.
"""

import enum
from typing import TypeAlias

import msgspec

from clob.order import Side


class RemovalReason(enum.StrEnum):
    """Why an order left the book."""

    FILLED = "filled"
    """It traded completely."""
    CANCELLED = "cancelled"
    """Its maker cancelled it."""
    EXPIRED = "expired"
    """Its expiration passed."""
    SELF_TRADE = "self_trade"
    """It matched its maker's own order, and the self-trade policy removed it."""
    REPLACED = "replaced"
    """It was replaced and lost its place in the queue; the next events show the result."""
    NONCE = "nonce"
    """Its maker raised the nonce above the order's."""
    SETTLEMENT = "settlement"
    """A trade could not be settled, or its wallet no longer covers it."""
    ADMIN = "admin"
    """The operator removed it."""
    MARKET = "market"
    """Its market was resolved."""

    def __repr__(self) -> str:
        """Return the expression of the member."""
        return f"RemovalReason.{self.name}"


class MatchType(enum.StrEnum):
    """How a trade moves, creates or burns tokens."""

    DIRECT = "direct"
    """A buyer and a seller of the same token."""
    MINT = "mint"
    """Buyers of YES and of NO: both pay collateral for a new pair of tokens."""
    MERGE = "merge"
    """Sellers of YES and of NO: the pair is burned and both receive collateral."""

    def __repr__(self) -> str:
        """Return the expression of the member."""
        return f"MatchType.{self.name}"


class OrderAdded(msgspec.Struct, frozen=True, gc=False, tag=True):
    """An order, or its remainder after trades, now rests last in its queue."""

    seq: int
    """Number of the event, one above the previous event's."""
    market: str
    """Market of the book; empty for a book without a matcher."""
    token: str
    """Token of the book."""
    order_id: str | int
    """Id of the order."""
    side: Side
    """Buy or sell."""
    price: int
    """Limit price, in ticks."""
    remaining: int
    """Resting size, in wei."""


class Trade(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Two orders traded, at the resting order's price."""

    seq: int
    """Number of the event, one above the previous event's."""
    market: str
    """Market of the book; empty for a book without a matcher."""
    token: str
    """Token of the book."""
    resting_order_id: str | int
    """Id of the order that was in the book."""
    incoming_order_id: str | int
    """Id of the order that matched it."""
    price: int
    """The resting order's price, in ticks."""
    size: int
    """Traded tokens, in wei."""
    buyer: str
    """Maker of the buy order; empty in the merge of a complementary market."""
    seller: str
    """Maker of the sell order; empty in the mint of a complementary market."""
    resting_remaining: int
    """Remaining size of the resting order, in wei; at 0 the next event removes it."""
    incoming_remaining: int
    """Remaining size of the incoming order, in wei."""
    incoming_side: Side
    """Side of the incoming order."""
    buyer_fee: int = 0
    """Fee of the buyer in wei of tokens; not deducted from ``size``."""
    seller_fee: int = 0
    """Fee of the seller, in wei of collateral."""

    @property
    def match_type(self) -> MatchType:
        """How the trade moves tokens; ``DIRECT`` unless it is a ``PairedTrade``."""
        return MatchType.DIRECT


class PairedTrade(Trade, frozen=True, gc=False, tag=True, kw_only=True):
    """One of the two trades of a mint or merge: one per token, at prices that add up to 100.

    Both have the same orders, size and remaining sizes. The trade of the incoming order's token
    comes first, that of the resting order's token has the next ``seq``. A mint has no seller and a
    merge no buyer: the name of that party is empty and its fee 0.
    """

    match_type: MatchType
    """Whether the tokens were minted or merged."""

    @property
    def is_incoming(self) -> bool:
        """Whether it is the trade of the incoming order's token."""
        return (self.incoming_side is Side.BUY) == (self.match_type is MatchType.MINT)


class OrderReduced(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A resting order was reduced without a trade and kept its place in the queue."""

    seq: int
    """Number of the event, one above the previous event's."""
    market: str
    """Market of the book; empty for a book without a matcher."""
    token: str
    """Token of the book."""
    order_id: str | int
    """Id of the order."""
    remaining: int
    """New remaining size, in wei."""


class OrderRemoved(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A resting order left the book."""

    seq: int
    """Number of the event, one above the previous event's."""
    market: str
    """Market of the book; empty for a book without a matcher."""
    token: str
    """Token of the book."""
    order_id: str | int
    """Id of the order."""
    reason: RemovalReason
    """Why it left."""
    remaining: int
    """Untraded size, in wei; 0 if it was filled."""


Event: TypeAlias = OrderAdded | Trade | PairedTrade | OrderReduced | OrderRemoved
"""Any event of a book or market."""


class Rejected(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A command of a batch was rejected; it has no ``seq``, and the others were executed."""

    index: int
    """Index of the command in the batch, from 0."""
    code: str
    """Code of the error."""
    message: str
    """Message of the error."""
