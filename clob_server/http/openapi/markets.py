"""Descriptions of the market routes."""

from typing import Final

from clob_server.api.schemas import MarketBody, OrderbookBody, TradeBody, TradesBody
from clob_server.http.openapi.common import TEXT, TOKEN_TEXT, FieldDoc, RouteDoc, refer

TAG: Final = "Markets"

DESCRIBED: Final = {
    "list_markets": RouteDoc(
        TAG,
        "List markets, oldest first",
        list[MarketBody],
        "`Link` and `X-Next-Cursor` lead to the next page.",
        query=(
            FieldDoc(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 500, "default": 100},
                "Page size.",
            ),
            FieldDoc("cursor", TEXT, "`X-Next-Cursor` of the previous page."),
        ),
        codes=("INVALID_FIELD",),
    ),
    "get_market": RouteDoc(
        TAG, "Get a market", MarketBody, "Description and current state.", codes=("UNKNOWN_MARKET",)
    ),
    "get_orderbook": RouteDoc(
        TAG,
        "Get the order book of a token",
        OrderbookBody,
        "The ETag is the sequence number of the market's last event; with `If-None-Match` an "
        "unchanged book is answered with 304.",
        query=(FieldDoc("tokenId", TOKEN_TEXT, "The token; default: YES."),),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET"),
        others={304: "The book is unchanged."},
    ),
    "get_trades": RouteDoc(
        TAG,
        "List trades of a market, newest first",
        {"anyOf": [{"type": "array", "items": refer(TradeBody)}, refer(TradesBody)]},
        "`Link` and `X-Next-Cursor` lead to the next page.",
        query=(
            FieldDoc(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 100, "default": 50},
                "Page size.",
            ),
            FieldDoc("tokenId", TOKEN_TEXT, "Only trades of this token."),
            FieldDoc(
                "wrapped",
                {"enum": ["true", "false"]},
                "With `true` the response is an object with the array as `trades`.",
            ),
            FieldDoc("cursor", TEXT, "`X-Next-Cursor` of the previous page."),
        ),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET", "RECOVERING"),
        refers=(TradeBody, TradesBody),
    ),
}
"""Descriptions by route name."""
