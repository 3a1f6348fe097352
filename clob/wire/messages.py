"""Messages that the server sends on a WebSocket.

Messages about a book have ``{type, channel, marketId, tokenId, seq, timestamp, data}`` (decision
37). Amounts are wei in decimal digits, times Unix milliseconds, prices cents. The docstrings of
classes and fields are published in ``asyncapi.json`` and in the reference.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from clob.wire import Wire
from clob.wire.accounts import AssetBalance
from clob.wire.markets import CandlesBody, LevelBody, StallBody, TickerBody, TradeBody
from clob.wire.orders import MakerFill, OrderBody

POLICY: Final = 1008
"""Close code for a client that breaks a rule or reads too slowly."""
RESTART: Final = 1012
"""Close code for a server that shuts down."""

Id: TypeAlias = str | int
"""Request id chosen by the client."""


# ----- data ----------------------------------------------------------------------------------


class LevelsData(Wire, frozen=True, kw_only=True, gc=False):
    """A book after the event ``seq``."""

    bids: list[LevelBody]
    """Buy levels, highest price first."""
    asks: list[LevelBody]
    """Sell levels, lowest price first."""
    last_update: int
    """Time of the market's last event, Unix milliseconds; 0 before the first."""
    checksum: int
    """CRC-32 of the book, as in ``GET /api/markets/{marketId}/orderbook``."""


class BookChecksum(Wire, frozen=True, kw_only=True, gc=False):
    """The checksum of a book."""

    token_id: str
    """Outcome token, decimal digits."""
    checksum: int
    """CRC-32 of the book, as in ``GET /api/markets/{marketId}/orderbook``."""


class OrderData(Wire, frozen=True, kw_only=True, gc=False):
    """Base of the data of an order in a book."""

    order_id: str
    """Order id."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """Limit price in cents."""


class AddedData(OrderData, frozen=True, kw_only=True, gc=False):
    """An order that was added at the end of its queue."""

    size: str
    """Resting size after immediate trades, in wei."""


class RemovedData(OrderData, frozen=True, kw_only=True, gc=False):
    """An order that was removed from the book."""

    size: str
    """Removed size in wei; 0 if the order was filled."""
    reason: str
    """``filled``, ``cancelled``, ``expired``, ``reduced``, ``self_trade``, ``nonce``, ``replaced``,
    ``settlement``, ``admin`` or ``market``."""


class ReducedData(OrderData, frozen=True, kw_only=True, gc=False):
    """An order that was reduced without a trade and kept its place in the queue."""

    size: str
    """Remaining size in wei."""
    reduced_by: str
    """Removed size in wei."""


class TradeData(TradeBody, frozen=True, kw_only=True, gc=False):
    """A trade and the remaining sizes of its two orders."""

    resting_remaining: str
    """Remaining size of the resting order, in wei; if 0, its removal follows."""
    incoming_remaining: str
    """Remaining size of the incoming order, in wei."""


class SettlementData(Wire, frozen=True, kw_only=True, gc=False):
    """Settlement status of a trade."""

    trade_id: str
    """Trade id."""
    match_type: str
    """``direct``, ``mint`` or ``merge``; a mint or merge has one trade per token."""
    settlement: str
    """``pending``, ``submitted``, ``settled`` or ``failed``."""
    tx_hash: str | None
    """Transaction that settled the trade; null before."""
    buyer: str
    """Maker of the buy order; empty in a merge, which burns the tokens."""
    seller: str
    """Maker of the sell order; empty in a mint, which creates the tokens."""
    reason: str | UnsetType = UNSET
    """Cause of a failure; only with ``failed``."""
    final: bool = False
    """Whether the result stays; before, a reorganisation of the chain may withdraw it."""
    revision: str | UnsetType = UNSET
    """Reason for which an earlier result was withdrawn; only if one was."""


class ModeData(Wire, frozen=True, kw_only=True, gc=False):
    """The mode of a market."""

    mode: str
    """``open``, ``cancelOnly``, ``halted`` or ``resolved``."""
    stalled: StallBody | None
    """Why the server stopped the matching of an escrow market; null while it did not."""


class Message(Wire, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Base of all server messages."""


class TokenMessage(Message, frozen=True, kw_only=True, gc=False):
    """Base of the messages about a token of a market."""

    channel: str
    """Channel."""
    market_id: str
    """Market id."""
    token_id: str
    """Outcome token, decimal digits."""
    seq: int
    """Number of the market's last event included."""
    timestamp: int
    """Time of the event, Unix milliseconds."""


# ----- about a book --------------------------------------------------------------------------


class BookMessage(TokenMessage, frozen=True, kw_only=True, gc=False):
    """Base of the messages about a book."""

    channel: Literal["orderbook"] = "orderbook"
    seq: int
    """Number of the event; in a snapshot, of the last event included."""


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
    """Order reduced; only for extended clients."""

    data: ReducedData
    """The order."""


class BookTradeMessage(BookMessage, frozen=True, kw_only=True, tag="trade", gc=False):
    """Trade executed."""

    data: TradeData
    """The trade."""


# ----- to one maker --------------------------------------------------------------------------


class UserMessage(TokenMessage, frozen=True, kw_only=True, gc=False):
    """Base of the messages to one maker."""

    channel: Literal["user"] = "user"


class Orders(Message, frozen=True, kw_only=True, tag="orders", gc=False):
    """All open orders of a maker."""

    channel: Literal["user"] = "user"
    """Channel."""
    market_id: str | None
    """Market id; null for all markets."""
    token_id: None = None
    """Null: both tokens."""
    seq: int | None
    """Number of the market's last event; null for all markets."""
    timestamp: int
    """Time of the message, Unix milliseconds."""
    cursor: str
    """Position to resume from: the orders are as after it."""
    maker: str | UnsetType = UNSET
    """The maker."""
    data: list[OrderBody]
    """The orders, oldest first."""


class OrderChanged(UserMessage, frozen=True, kw_only=True, tag="order", gc=False):
    """An order of the maker after a change."""

    data: OrderBody
    """The order."""


class UserFill(UserMessage, frozen=True, kw_only=True, tag="fill", gc=False):
    """A trade of one of the maker's orders."""

    data: MakerFill
    """The trade."""


class AccountChanged(Message, frozen=True, kw_only=True, tag="account", gc=False):
    """Accounts of the maker after a change; only for extended clients."""

    channel: Literal["user"] = "user"
    """Channel."""
    maker: str
    """The maker."""
    timestamp: int
    """Time of the change, Unix milliseconds."""
    data: list[AssetBalance]
    """The accounts that changed; at first all that are not empty."""


# ----- about settlement ----------------------------------------------------------------------


class SettlementMessage(TokenMessage, frozen=True, kw_only=True, tag="settlement", gc=False):
    """A trade with a new settlement status."""

    channel: Literal["settlement", "user"]
    """Channel; makers also receive their own trades on ``user``."""
    seq: int
    """Event number of the trade; a status change has no number of its own."""
    timestamp: int
    """Time of the status change, Unix milliseconds."""
    data: SettlementData
    """The status."""


class ModeChanged(Message, frozen=True, kw_only=True, tag="mode", gc=False):
    """The mode of a market that settles, after a change; only for extended clients."""

    channel: Literal["settlement"] = "settlement"
    """Channel."""
    market_id: str
    """Market id."""
    timestamp: int
    """Time of the change, Unix milliseconds."""
    data: ModeData
    """The mode."""


# ----- about prices ---------------------------------------------------------------------------


class TickerMessage(Message, frozen=True, kw_only=True, tag="ticker", gc=False):
    """The newest ticker of a market; only for extended clients."""

    channel: Literal["ticker"] = "ticker"
    """Channel."""
    market_id: str
    """Market id."""
    seq: int
    """Number of the market's last event."""
    timestamp: int
    """Time at which the 24 hours end, Unix milliseconds."""
    data: TickerBody
    """The ticker, as in ``GET /api/markets/{marketId}/ticker``."""


class CandlesMessage(TokenMessage, frozen=True, kw_only=True, tag="candles", gc=False):
    """The candles of a token that changed; only for extended clients."""

    channel: Literal["candles"] = "candles"
    """Channel."""
    timestamp: int
    """Time of the message, Unix milliseconds."""
    data: CandlesBody
    """The newest state of each candle that changed, as in ``GET /api/markets/{marketId}/candles``;
    in the first message the newest candle, or none."""


# ----- about the connection ------------------------------------------------------------------


class Subscribed(Message, frozen=True, kw_only=True, tag="subscribed", gc=False):
    """Subscription started; only for extended clients."""

    channel: str
    """Channel."""
    market_id: str | None
    """Market id; null for all markets."""
    token_id: str | None
    """Outcome token; null for both."""
    seq: int | None
    """Number of the market's last event; null for all markets."""
    timestamp: int
    """Time of the message, Unix milliseconds."""
    resumed: bool
    """True if the events after the requested number follow instead of a snapshot; on ``user``, if
    the missed fills and finished orders follow before ``orders``."""
    epoch: int
    """Numbering that ``seq`` and ``cursor`` belong to; differs between exchanges, and rises when
    one is restored from a backup."""
    cursor: str | UnsetType = UNSET
    """Position of the ``orders`` that follow; only on ``user``."""
    interval: str | UnsetType = UNSET
    """Length of the candles; only on ``candles``."""
    id: Id | UnsetType = UNSET
    """Id of the request."""


class Unsubscribed(Message, frozen=True, kw_only=True, tag="unsubscribed", gc=False):
    """Subscription ended; only for extended clients."""

    channel: str
    """Channel."""
    market_id: str | None
    """Market id; null for all markets."""
    timestamp: int
    """Time of the message, Unix milliseconds."""
    id: Id | UnsetType = UNSET
    """Id of the request."""
    reason: str | UnsetType = UNSET
    """``market_removed`` if the server ended it; absent after a request."""
    interval: str | UnsetType = UNSET
    """Length of the candles; only on ``candles``."""
    token_id: str | UnsetType | None = UNSET
    """Outcome token; null for both. Only on ``candles``."""


class Heartbeat(Message, frozen=True, kw_only=True, tag="heartbeat", gc=False):
    """Sent while there are no events; only for extended clients."""

    channel: str
    """Channel."""
    market_id: str | None
    """Market id; null for all markets."""
    seq: int | None
    """Number of the market's last event; null for all markets."""
    timestamp: int
    """Time of the message, Unix milliseconds."""
    checksums: list[BookChecksum] | UnsetType = UNSET
    """Checksums of the books after the event ``seq``; only on ``orderbook``."""
    cursor: str | UnsetType = UNSET
    """Position to resume from: all changes until then were sent; only on ``user``."""
    maker: str | UnsetType = UNSET
    """The maker; only on ``user``."""


class Error(Message, frozen=True, kw_only=True, tag="error", gc=False):
    """Request rejected without effect; only for extended clients."""

    code: str
    """Error code, as in HTTP responses."""
    message: str
    """The violated rule, the received value and the limit."""
    id: Id | UnsetType = UNSET
    """Id of the request."""


class SocketResponse(Message, frozen=True, kw_only=True, tag="response", gc=False):
    """Answer to a ``request``."""

    id: Id
    """Id of the request."""
    status: int
    """Status of the HTTP response."""
    headers: dict[str, str]
    """Headers of the HTTP response without content type and length, by lower-case name."""
    body: Any
    """Body of the HTTP response."""


class Pong(Message, frozen=True, kw_only=True, tag="pong", gc=False):
    """Response to a ping."""

    id: Id | UnsetType = UNSET
    """Id of the request."""


PLAIN: Final[tuple[type[Message], ...]] = (
    Orderbook,
    OrderAddedMessage,
    OrderRemovedMessage,
    BookTradeMessage,
)
"""Messages to a plain client on the book channel: the four of the specification."""
EVERY: Final[tuple[type[Message], ...]] = (
    *PLAIN,
    OrderReducedMessage,
    Orders,
    OrderChanged,
    UserFill,
    AccountChanged,
    SettlementMessage,
    ModeChanged,
    TickerMessage,
    CandlesMessage,
    Subscribed,
    Unsubscribed,
    Heartbeat,
    Error,
    Pong,
    SocketResponse,
)
"""All server messages."""

encode: Final = msgspec.json.Encoder().encode
