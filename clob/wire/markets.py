"""Markets, order books, trades, candles and tickers."""

import msgspec

from clob.wire import Wire


class LevelBody(Wire, frozen=True, kw_only=True):
    """A price level (specification, "Orderbook")."""

    price: int
    """Cents."""
    size: str
    """Total resting size, in wei."""
    num_orders: int
    """Number of resting orders."""
    orders: int
    """Same as ``numOrders``."""


class OrderbookBody(Wire, frozen=True, kw_only=True):
    """An order book (specification, "Orderbook")."""

    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    bids: list[LevelBody]
    """Buy levels, highest price first."""
    asks: list[LevelBody]
    """Sell levels, lowest price first."""
    last_update: int
    """Time of the market's last event, Unix milliseconds; 0 before the first."""
    seq: int
    """Sequence number of the market's last event."""
    checksum: int
    """CRC-32 of the levels shown."""


class TradeBody(Wire, frozen=True, kw_only=True):
    """A trade (specification, "Trade") with additional fields."""

    id: str
    """``trade_{unix milliseconds}_{6 characters}``."""
    market_id: str
    """Market id."""
    token_id: str
    """The traded token, decimal digits."""
    price: int
    """Limit price of the resting order, in cents."""
    size: str
    """Tokens, in wei."""
    buyer: str
    """Maker of the buy order; empty in a merge, which has no buyer."""
    seller: str
    """Maker of the sell order; empty in a mint, which has no seller."""
    match_type: str
    """``direct``, ``mint`` or ``merge``."""
    timestamp: int
    """Time of the trade, Unix milliseconds."""
    tx_hash: str | None
    """Hash of the settlement transaction; null until settled."""
    settlement: str
    """``none``, ``pending``, ``submitted``, ``settled`` or ``failed``."""
    final: bool
    """Whether ``settlement`` stays; a reorganisation of the chain may change a result before."""
    seq: int
    """Sequence number of the event."""
    resting_order_id: str
    """Id of the resting order."""
    incoming_order_id: str
    """Id of the incoming order."""
    incoming_side: int
    """Side of the incoming order: 0 buys, 1 sells."""
    buyer_fee: str
    """Fee of the buyer in tokens, in wei."""
    seller_fee: str
    """Fee of the seller in collateral, in wei."""
    settlement_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Reason of the failure; only if ``settlement`` is ``failed``."""


class CandleBody(Wire, frozen=True, kw_only=True):
    """The trades of a token in an interval."""

    timestamp: int
    """Begin of the interval, Unix milliseconds."""
    open: int
    """Price of the first trade, in cents."""
    high: int
    """Highest price, in cents."""
    low: int
    """Lowest price, in cents."""
    close: int
    """Price of the last trade, in cents."""
    volume: str
    """Tokens traded, in wei."""
    num_trades: int
    """Number of trades."""


class CandlesBody(Wire, frozen=True, kw_only=True):
    """Candles of a token, without the intervals that have no trade."""

    market_id: str
    """Market id."""
    token_id: str
    """The outcome token, decimal digits."""
    interval: str
    """``1m``, ``5m``, ``1h`` or ``1d``."""
    candles: list[CandleBody]
    """Candles, oldest first."""


class TradesBody(Wire, frozen=True, kw_only=True):
    """Trades wrapped in an object, on request (decision 10)."""

    trades: list[TradeBody]
    """Trades, newest first."""


class StallBody(Wire, frozen=True, kw_only=True):
    """Why an escrow market accepts cancels only, until it opens again by itself."""

    since: int
    """When it stopped, Unix milliseconds."""
    reason: str
    """The rule that stopped it."""


class MarketTerms(Wire, frozen=True, kw_only=True):
    """A market and its terms, for public and operator routes."""

    market_id: str
    """Market id."""
    yes_token_id: str
    """The token worth one unit of collateral if the outcome is yes, decimal digits."""
    no_token_id: str | None
    """The other token; null until known."""
    mode: str
    """``open``, ``cancelOnly``, ``halted`` or ``resolved``."""
    question: str
    """The question of the market."""
    description: str
    """Additional information."""
    outcome: str | None
    """``yes``, ``no``, or ``split`` if both tokens of an adopted condition pay, in the ratio of its
    payouts on the chain; null until resolved."""
    min_size: str
    """Minimum order size, in wei."""
    resting_fee_rate_bps: int
    """Maximum fee rate of the resting order, in basis points."""
    incoming_fee_rate_bps: int
    """Maximum fee rate of the incoming order, in basis points."""
    complementary: bool
    """Whether YES and NO orders also match: two buys mint a pair, two sells merge one."""
    lot_wei: str
    """Every size is a multiple of this, in wei."""
    condition_id: str | None
    """Condition on the chain, 32 bytes in hex; null without one."""
    question_id: str | None
    """Keccak-256 of market id, line feed and first question, or that of an adopted condition; null
    without a condition."""
    oracle: str | None
    """Address that resolves the condition: the operator, or that of an adopted condition; null
    without a condition."""
    collateral: str | None
    """The ERC-20 token that backs its tokens; null without a condition."""
    chain: str | None
    """``waiting``, ``preparing``, ``prepared``, ``closing``, ``reporting``, ``reported`` or
    ``stuck``; null without a condition or a chain."""
    settlement: str
    """``none``: trades are not settled (decision 45). ``chain``: each trade moves tokens and
    collateral on the chain, and orders must be covered there."""
    custody: str | None
    """``wallet``: orders are covered by the wallets and their approvals. ``escrow``: by deposits in
    the exchange contract. Null where trades are not settled."""
    stalled: StallBody | None
    """Why the server stopped the matching; null while it did not."""


class MarketBody(MarketTerms, frozen=True, kw_only=True):
    """A market with its best prices."""

    best_bid: int | None
    """Highest bid for the YES token, in cents; null without bids."""
    best_ask: int | None
    """Lowest ask for the YES token, in cents; null without asks."""
    last_update: int
    """Time of the last event, Unix milliseconds; 0 before the first."""
    seq: int
    """Sequence number of its last event."""


class BestPrice(Wire, frozen=True, kw_only=True):
    """The best price of a side of a book."""

    price: int
    """Cents."""
    size: str
    """Total resting size at this price, in wei."""


class TokenTicker(Wire, frozen=True, kw_only=True):
    """Prices and volume of a token."""

    token_id: str
    """The outcome token, decimal digits."""
    best_bid: BestPrice | None
    """Highest price of a buy; null without buys."""
    best_ask: BestPrice | None
    """Lowest price of a sell; null without sells."""
    middle: str | None
    """Half of the sum of both prices, in cents, such as ``"50.5"``; null if a side is empty."""
    spread: int | None
    """Best ask less best bid, in cents; null if a side is empty."""
    last_price: int | None
    """Price of the last trade, in cents; null before the first one."""
    volume24h: str
    """Tokens traded in the last 24 hours, in wei."""
    high24h: int | None
    """Highest price in the last 24 hours, in cents; null without a trade."""
    low24h: int | None
    """Lowest price in the last 24 hours, in cents; null without a trade."""


class TickerBody(Wire, frozen=True, kw_only=True):
    """Prices and volume of both tokens of a market."""

    market_id: str
    """Market id."""
    yes: TokenTicker
    """The YES token."""
    no: TokenTicker | None
    """The NO token; null while it has no id."""
    open_interest: str
    """Tokens that makers are ahead of their counterparts, from the trades, in wei."""
    seq: int
    """Sequence number of the market's last event."""
    timestamp: int
    """Time at which the 24 hours end, Unix milliseconds."""
