"""What the server says on a WebSocket: every message, and what is in it.

Those about a book have ``{type, channel, marketId, tokenId, seq, timestamp, data}`` (decision 37).
Amounts are wei in decimal digits, times Unix milliseconds, prices cents.
"""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from clob_server.api.schemas import LevelBody, OrderBody, TradeBody, Wire

POLICY: Final = 1008
"""The code that a WebSocket is closed with that broke a rule, or is too slow."""
RESTART: Final = 1012
"""The code that a WebSocket is closed with when the server ends."""

Id: TypeAlias = str | int
"""What a client calls a request of his."""


# ----- what is in them -----------------------------------------------------------------------


class LevelsData(Wire, frozen=True, kw_only=True, gc=False):
    """A book, as it stands after ``seq``."""

    bids: list[LevelBody]
    """Buy orders, the highest price first."""
    asks: list[LevelBody]
    """Sell orders, the lowest price first."""
    last_update: int
    """When the market last changed, Unix milliseconds; 0 where it never did."""


class AddedData(Wire, frozen=True, kw_only=True, gc=False):
    """An order that rests from now on, last in its queue."""

    order_id: str
    """The order."""
    side: int
    """0 buys, 1 sells."""
    price: int
    """Its limit, in cents."""
    size: str
    """What rests of it, after its trades, in wei."""


class RemovedData(Wire, frozen=True, kw_only=True, gc=False):
    """An order that no longer rests."""

    order_id: str
    """The order."""
    side: int
    """0 buys, 1 sells."""
    price: int
    """Its limit, in cents."""
    size: str
    """What was left of it, in wei; 0 where it was filled."""
    reason: str
    """``filled``, ``cancelled``, ``expired``, ``reduced``, ``self_trade``, ``nonce``, ``replaced``,
    ``settlement``, ``admin`` or ``market``."""


class ReducedData(Wire, frozen=True, kw_only=True, gc=False):
    """An order that became smaller without a trade, and kept its place."""

    order_id: str
    """The order."""
    side: int
    """0 buys, 1 sells."""
    price: int
    """Its limit, in cents."""
    size: str
    """What is left of it, in wei."""
    reduced_by: str
    """By how much it became smaller, in wei."""


class TradeData(TradeBody, frozen=True, kw_only=True, gc=False):
    """A trade, and what it left of its two orders."""

    resting_remaining: str
    """What is left of the order that rested, in wei; at 0 its removal follows."""
    incoming_remaining: str
    """What is left of the order that came in, in wei."""


class FillData(TradeBody, frozen=True, kw_only=True, gc=False):
    """A trade, as the maker of one of its orders sees it."""

    order_id: str
    """His order."""
    role: str
    """``resting`` or ``incoming``."""
    side: int
    """0 bought, 1 sold."""
    remaining: str
    """What is left of his order, in wei."""


class SettlementData(Wire, frozen=True, kw_only=True, gc=False):
    """How the settlement of a trade stands; the trade itself was told before."""

    trade_id: str
    """The trade."""
    match_type: str
    """``direct``, ``mint`` or ``merge``; of the last two each token has a trade of its own."""
    settlement: str
    """``pending``, ``submitted``, ``settled`` or ``failed``."""
    tx_hash: str | None
    """The transaction that settled it; null until then."""
    buyer: str
    """The maker of the buying order; empty where the tokens were merged, and nobody bought them."""
    seller: str
    """The maker of the selling order; empty where they were minted, and nobody sold them."""
    reason: str | UnsetType = UNSET
    """Why it could not be settled; only where it failed."""


# ----- about a book --------------------------------------------------------------------------


class Message(Wire, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Whatever the server says."""


class BookMessage(Message, frozen=True, kw_only=True, gc=False):
    """What all messages about a book have in common."""

    channel: Literal["orderbook"] = "orderbook"
    """The channel."""
    market_id: str
    """The market."""
    token_id: str
    """The outcome token, decimal digits."""
    seq: int
    """The number of the event; in a snapshot, of the last event it contains."""
    timestamp: int
    """When, Unix milliseconds."""


class Orderbook(BookMessage, frozen=True, kw_only=True, tag="orderbook", gc=False):
    """Full orderbook snapshot."""

    data: LevelsData
    """The book."""


class OrderAddedMessage(BookMessage, frozen=True, kw_only=True, tag="order_added", gc=False):
    """New order in the book."""

    data: AddedData
    """The order."""


class OrderRemovedMessage(BookMessage, frozen=True, kw_only=True, tag="order_removed", gc=False):
    """Order cancelled or filled."""

    data: RemovedData
    """The order."""


class OrderReducedMessage(BookMessage, frozen=True, kw_only=True, tag="order_reduced", gc=False):
    """Order made smaller; to extended subscribers alone."""

    data: ReducedData
    """The order."""


class TradeMessage(BookMessage, frozen=True, kw_only=True, tag="trade", gc=False):
    """TradeMessage executed."""

    data: TradeData
    """The trade."""


# ----- to one maker --------------------------------------------------------------------------


class UserMessage(Message, frozen=True, kw_only=True, gc=False):
    """What all messages to one maker have in common."""

    channel: Literal["user"] = "user"
    """The channel."""
    market_id: str
    """The market."""
    token_id: str
    """The outcome token, decimal digits."""
    seq: int
    """The number of the last event of the market that is contained."""
    timestamp: int
    """When, Unix milliseconds."""


class Orders(Message, frozen=True, kw_only=True, tag="orders", gc=False):
    """All open orders of a maker."""

    channel: Literal["user"] = "user"
    """The channel."""
    market_id: str | None
    """The market; null where it is all of them."""
    token_id: None = None
    """Null, as it is both."""
    seq: int | None
    """The number of the last event of the market; null where it is all of them."""
    timestamp: int
    """When, Unix milliseconds."""
    data: list[OrderBody]
    """The orders, the oldest first."""


class OrderChanged(UserMessage, frozen=True, kw_only=True, tag="order", gc=False):
    """An order of the maker, after it changed."""

    data: OrderBody
    """The order."""


class UserFill(UserMessage, frozen=True, kw_only=True, tag="fill", gc=False):
    """A trade of an order of the maker."""

    data: FillData
    """The trade."""


# ----- about settlement ----------------------------------------------------------------------


class SettlementMessage(Message, frozen=True, kw_only=True, tag="settlement", gc=False):
    """A trade, whose settlement stands differently from now on."""

    channel: Literal["settlement", "user"]
    """The channel; a maker hears of his own trades on ``user``, too."""
    market_id: str
    """The market."""
    token_id: str
    """The outcome token, decimal digits."""
    seq: int
    """The number of the event that the trade was; this is no event, and has none of its own."""
    timestamp: int
    """Since when, Unix milliseconds."""
    data: SettlementData
    """How it stands."""


# ----- about the conversation ----------------------------------------------------------------


class Subscribed(Message, frozen=True, kw_only=True, tag="subscribed", gc=False):
    """A subscription was made; to extended subscribers alone."""

    channel: str
    """The channel."""
    market_id: str | None
    """The market; null where it is all of them."""
    token_id: str | None
    """The token; null where it is both."""
    seq: int | None
    """The number of the last event of the market; null where it is all of them."""
    timestamp: int
    """When, Unix milliseconds."""
    resumed: bool
    """If the events after the number that was given follow, and no snapshot."""
    id: Id | UnsetType = UNSET
    """What the client called his request."""


class Unsubscribed(Message, frozen=True, kw_only=True, tag="unsubscribed", gc=False):
    """A subscription is over; to extended subscribers alone."""

    channel: str
    """The channel."""
    market_id: str | None
    """The market; null where it was all of them."""
    timestamp: int
    """When, Unix milliseconds."""
    id: Id | UnsetType = UNSET
    """What the client called his request."""


class Heartbeat(Message, frozen=True, kw_only=True, tag="heartbeat", gc=False):
    """Nothing has happened, and the connection works; to extended subscribers alone."""

    channel: str
    """The channel."""
    market_id: str | None
    """The market; null where it is all of them."""
    seq: int | None
    """The number of the last event of the market; null where it is all of them."""
    timestamp: int
    """When, Unix milliseconds."""


class Error(Message, frozen=True, kw_only=True, tag="error", gc=False):
    """A request was refused, and changed nothing; to extended subscribers alone."""

    code: str
    """The code, as in the refusals of the HTTP interface."""
    message: str
    """What was refused: the rule, the value and the limit."""
    id: Id | UnsetType = UNSET
    """What the client called his request."""


class Pong(Message, frozen=True, kw_only=True, tag="pong", gc=False):
    """The answer to a ping."""

    id: Id | UnsetType = UNSET
    """What the client called his request."""


PLAIN: Final[tuple[type[Message], ...]] = (
    Orderbook,
    OrderAddedMessage,
    OrderRemovedMessage,
    TradeMessage,
)
"""What a client gets who sends no more than the specification's subscribe."""
EVERY: Final[tuple[type[Message], ...]] = (
    *PLAIN,
    OrderReducedMessage,
    Orders,
    OrderChanged,
    UserFill,
    SettlementMessage,
    Subscribed,
    Unsubscribed,
    Heartbeat,
    Error,
    Pong,
)
"""Every message there is."""

encode: Final = msgspec.json.Encoder().encode
