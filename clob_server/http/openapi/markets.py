"""Descriptions of the routes of markets, and of the server itself."""

from typing import Any, Final

from clob.wire.info import (
    AdvancedClockBody,
    AdvanceRequest,
    HealthBody,
    ReadyBody,
    RootBody,
    TimeBody,
)
from clob.wire.markets import (
    CandlesBody,
    MarketBody,
    OrderbookBody,
    TickerBody,
    TradeBody,
    TradesBody,
)
from clob_server.history.candles import INTERVALS_MS
from clob_server.http.openapi.common import (
    COMMAND,
    CURSOR,
    MILLISECONDS,
    MIN_SEQ,
    PAGED,
    SWITCH,
    TOKEN_TEXT,
    FieldDoc,
    RouteDoc,
    page_size,
    refer,
)

TAG: Final = "Markets"

DESCRIBED: Final = {
    "list_markets": RouteDoc(
        TAG,
        "List markets, oldest first",
        list[MarketBody],
        PAGED,
        query=(page_size(maximum=500, default=100), CURSOR),
        codes=("INVALID_FIELD",),
    ),
    "get_market": RouteDoc(
        TAG, "Get a market", MarketBody, "Description and current state.", codes=("UNKNOWN_MARKET",)
    ),
    "get_orderbook": RouteDoc(
        TAG,
        "Get the order book of a token",
        OrderbookBody,
        "The ETag ends in the sequence number of the market's last event; with `If-None-Match` an "
        "unchanged book is answered with 304. `checksum` is the CRC-32 of the text "
        "`price:size,...|price:size,...`: bids, then asks, as shown.",
        query=(
            FieldDoc("tokenId", TOKEN_TEXT, "The token; default: YES."),
            FieldDoc(
                "depth",
                {"type": "integer", "minimum": 1, "maximum": 99},
                "Maximum number of levels per side; default: all.",
            ),
            MIN_SEQ,
        ),
        headers_sent=("x-applied-seq",),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET", "RECOVERING"),
        others={304: "The book is unchanged."},
    ),
    "get_trades": RouteDoc(
        TAG,
        "List trades of a market, newest first or from a number on",
        {"anyOf": [{"type": "array", "items": refer(TradeBody)}, refer(TradesBody)]},
        PAGED,
        query=(
            page_size(maximum=100, default=50),
            FieldDoc("tokenId", TOKEN_TEXT, "Only trades of this token."),
            FieldDoc(
                "wrapped",
                SWITCH,
                "With `true` the response is an object with the array as `trades`.",
            ),
            FieldDoc("order", {"enum": ["desc", "asc"]}, "`asc`: oldest first; default: `desc`."),
            FieldDoc(
                "after",
                {"type": "integer", "minimum": 0},
                "Only trades with a higher `seq`; requires `order=asc`.",
            ),
            CURSOR,
        ),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET", "RECOVERING"),
        refers=(TradeBody, TradesBody),
    ),
    "get_ticker": RouteDoc(
        TAG,
        "Get the ticker of a market",
        TickerBody,
        "Best prices of the books, last prices, open interest, and volume, high and low of the "
        "last 24 hours, 1,440 minutes up to the current one, all at `seq`.",
        query=(MIN_SEQ,),
        headers_sent=("x-applied-seq",),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "RECOVERING"),
    ),
    "list_tickers": RouteDoc(
        TAG,
        "List the tickers of all markets, oldest market first",
        list[TickerBody],
        "Each is that of `GET /api/markets/{marketId}/ticker`, at its own `seq`. " + PAGED,
        query=(MIN_SEQ, page_size(maximum=500, default=100), CURSOR),
        headers_sent=("x-applied-seq",),
        codes=("INVALID_FIELD", "RECOVERING"),
    ),
    "get_candles": RouteDoc(
        TAG,
        "List candles of a token, oldest first",
        CandlesBody,
        "A candle contains the trades from its begin until before the next one. Without `from` the "
        f"newest candles are returned; otherwise {PAGED[0].lower()}{PAGED[1:]}",
        query=(
            FieldDoc("tokenId", TOKEN_TEXT, "The token; default: YES."),
            FieldDoc("interval", {"enum": [*INTERVALS_MS]}, "Length of a candle; default: `1m`."),
            FieldDoc("from", MILLISECONDS, "Lower bound of the begin of a candle."),
            FieldDoc("to", MILLISECONDS, "Exclusive upper bound of the begin of a candle."),
            page_size(maximum=1000, default=500),
            CURSOR,
        ),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET", "RECOVERING"),
    ),
}

SERVER_TAG: Final = "Server"
UNCHANGED: Final = {304: "Unchanged."}

SERVER_DESCRIBED: Final = {
    "root": RouteDoc(
        SERVER_TAG,
        "Get version, environment and endpoints",
        RootBody,
        "A client whose `Accept` lists `text/html` is redirected to the page at `/ui`.",
        others={302: "The client accepts HTML; `Location` is `/ui`."},
    ),
    "health": RouteDoc(SERVER_TAG, "Check liveness", HealthBody),
    "ready": RouteDoc(
        SERVER_TAG,
        "Check readiness for orders",
        ReadyBody,
        others={503: "The server is stopping; the body is the same."},
    ),
    "get_time": RouteDoc(
        SERVER_TAG,
        "Get the server's time",
        TimeBody,
        "Orders expire by this time, and signed cancels are checked against it.",
    ),
    "advance_clock": RouteDoc(
        SERVER_TAG,
        "Move the server's time forward",
        AdvancedClockBody,
        "In the test environment only. The time never goes back. Orders whose last second has "
        "passed are expired before the answer; a development chain gets a block with the new time.",
        body=AdvanceRequest,
        codes=("NOT_ON_THIS_ENVIRONMENT", *COMMAND),
        example={"advanceMs": 3_600_000},
    ),
    "metrics": RouteDoc(SERVER_TAG, "Get metrics for Prometheus", "text/plain"),
    "openapi": RouteDoc(SERVER_TAG, "Get this document", dict[str, Any], others=UNCHANGED),
    "asyncapi": RouteDoc(
        SERVER_TAG,
        "Get the AsyncAPI 3.0 document of the WebSocket",
        dict[str, Any],
        others=UNCHANGED,
    ),
    "docs": RouteDoc(SERVER_TAG, "Show this document as a page", "text/html", others=UNCHANGED),
    "trading_page": RouteDoc(SERVER_TAG, "Show the trading page", "text/html", others=UNCHANGED),
    "admin_page": RouteDoc(SERVER_TAG, "Show the dashboard", "text/html", others=UNCHANGED),
    "web_file": RouteDoc(
        SERVER_TAG, "Get a file of the pages", "text/*", codes=("NOT_FOUND",), others=UNCHANGED
    ),
}
