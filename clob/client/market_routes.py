"""Methods of a client for the server and its markets: the routes that need no authority."""

from typing import Any

from clob.client.calls import FREE, Call, RequestSender, pages, route
from clob.wire.info import AdvancedClockBody, HealthBody, ReadyBody, RootBody, TimeBody
from clob.wire.markets import (
    CandlesBody,
    MarketBody,
    OrderbookBody,
    TickerBody,
    TradeBody,
)

_MARKET = "/api/markets/{marketId}"


class MarketRoutes(RequestSender):
    """Methods for the server and its markets."""

    # ----- server ------------------------------------------------------------------------------

    @route("root", "GET", "/")
    def info(self) -> Call[RootBody]:
        """Return the server's name, version, environment, signing domain and chain."""
        return Call(RootBody)

    @route("health", "GET", "/health", FREE)
    def health(self) -> Call[HealthBody]:
        """Return whether the process works, and the position of its log."""
        return Call(HealthBody)

    @route("ready", "GET", "/ready", FREE)
    def ready(self) -> Call[ReadyBody]:
        """Return whether orders are accepted; waits for that until the deadline of the call."""
        return Call(ReadyBody)

    @route("get_time", "GET", "/api/time")
    def server_time(self) -> Call[TimeBody]:
        """Return the server's time, by which orders expire."""
        return Call(TimeBody)

    @route("advance_clock", "POST", "/api/test/clock")
    def advance_clock(self, advance_ms: int) -> Call[AdvancedClockBody]:
        """Move the server's time forward; in the test environment only.

        Call ``sync_clock`` afterwards.
        """
        return Call(AdvancedClockBody, body={"advanceMs": advance_ms})

    @route("metrics", "GET", "/metrics", FREE)
    def metrics(self) -> Call[str]:
        """Return the metrics in the text format of Prometheus."""
        return Call(str, decode=bytes.decode)

    @route("openapi", "GET", "/openapi.json")
    def openapi(self) -> Call[dict[str, Any]]:
        """Return the OpenAPI document."""
        return Call(dict[str, Any])

    @route("asyncapi", "GET", "/asyncapi.json")
    def asyncapi(self) -> Call[dict[str, Any]]:
        """Return the AsyncAPI document of the WebSocket."""
        return Call(dict[str, Any])

    # ----- markets -----------------------------------------------------------------------------

    @pages("list_markets", "/api/markets")
    def markets(self, *, limit: int | None = None) -> Call[list[MarketBody]]:
        """Iterate over the markets.

        Args:
            limit: markets per request.
        """
        return Call(list[MarketBody], query={"limit": limit})

    @route("get_market", "GET", _MARKET)
    def market(self, market_id: str) -> Call[MarketBody]:
        """Return a market with its terms and best prices."""
        return Call(MarketBody, (market_id,))

    @route("get_orderbook", "GET", f"{_MARKET}/orderbook")
    def orderbook(
        self, market_id: str, *, token_id: int | str | None = None, depth: int | None = None
    ) -> Call[OrderbookBody]:
        """Return the order book of a token.

        Args:
            market_id: the market.
            token_id: the outcome token; None is YES.
            depth: levels per side, 1 to 99; None is all.
        """
        return Call(OrderbookBody, (market_id,), {"tokenId": token_id, "depth": depth})

    @pages("get_trades", f"{_MARKET}/trades")
    def trades(
        self,
        market_id: str,
        *,
        token_id: int | str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> Call[list[TradeBody]]:
        """Iterate over the trades of a market, the newest first.

        Args:
            market_id: the market.
            token_id: only trades of this token.
            after: only trades after this ``seq``, the oldest first; 0 for all.
            limit: trades per request.
        """
        order = None if after is None else "asc"
        query = {"tokenId": token_id, "order": order, "after": after, "limit": limit}
        return Call(list[TradeBody], (market_id,), query)

    @route("get_candles", "GET", f"{_MARKET}/candles")
    def candles(
        self,
        market_id: str,
        *,
        interval: str,
        token_id: int | str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int | None = None,
    ) -> Call[CandlesBody]:
        """Return the candles of a token.

        Args:
            market_id: the market.
            interval: ``1m``, ``5m``, ``1h`` or ``1d``.
            token_id: the outcome token; None is YES.
            from_ms: begin, Unix milliseconds.
            to_ms: end, Unix milliseconds.
            limit: largest number of candles.
        """
        query = {
            "interval": interval,
            "tokenId": token_id,
            "from": from_ms,
            "to": to_ms,
            "limit": limit,
        }
        return Call(CandlesBody, (market_id,), query)

    @pages("list_tickers", "/api/tickers")
    def tickers(self, *, limit: int | None = None) -> Call[list[TickerBody]]:
        """Iterate over the tickers of all markets.

        Args:
            limit: tickers per request.
        """
        return Call(list[TickerBody], query={"limit": limit})

    @route("get_ticker", "GET", f"{_MARKET}/ticker")
    def ticker(self, market_id: str, *, min_seq: int | None = None) -> Call[TickerBody]:
        """Return prices and volume of both tokens of a market."""
        return Call(TickerBody, (market_id,), {"minSeq": min_seq})
