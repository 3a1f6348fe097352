"""Bodies of tickers, over HTTP and on the WebSocket."""

from clob_server.api.schemas import Wire


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
    seq: int
    """Sequence number of the market's last event."""
    timestamp: int
    """Time at which the 24 hours end, Unix milliseconds."""
