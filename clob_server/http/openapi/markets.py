"""The routes of markets, described."""

from typing import Final

from clob_server.api.schemas import MarketBody, OrderbookBody, TradeBody, TradesBody
from clob_server.http.openapi.common import TEXT, TOKEN_TEXT, Described, Field, refer

TAG: Final = "Markets"

DESCRIBED: Final = {
    "list_markets": Described(
        TAG,
        "All markets, in the sequence in which they were opened",
        list[MarketBody],
        "Where there are more, `Link` and `X-Next-Cursor` lead on.",
        query=(
            Field(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 500, "default": 100},
                "How many.",
            ),
            Field("cursor", TEXT, "Where to go on: the X-Next-Cursor of the answer before."),
        ),
        codes=("INVALID_FIELD",),
    ),
    "get_market": Described(
        TAG, "A market", MarketBody, "What it is and where it stands.", codes=("UNKNOWN_MARKET",)
    ),
    "get_orderbook": Described(
        TAG,
        "The book of a token",
        OrderbookBody,
        "The ETag is the number of the market's last event: with `If-None-Match` an unchanged "
        "book is a 304.",
        query=(Field("tokenId", TOKEN_TEXT, "The token; absent is the YES token."),),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET"),
        others={304: "It is still the book that the client has."},
    ),
    "get_trades": Described(
        TAG,
        "The trades of a market, newest first",
        {"anyOf": [{"type": "array", "items": refer(TradeBody)}, refer(TradesBody)]},
        "Where there are more, `Link` and `X-Next-Cursor` lead on.",
        query=(
            Field(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 100, "default": 50},
                "How many.",
            ),
            Field("tokenId", TOKEN_TEXT, "Only trades of this token."),
            Field(
                "wrapped",
                {"enum": ["true", "false"]},
                "`true` answers with an object that has the array as `trades`.",
            ),
            Field("cursor", TEXT, "Where to go on: the X-Next-Cursor of the answer before."),
        ),
        codes=("INVALID_FIELD", "UNKNOWN_MARKET", "TOKEN_NOT_IN_MARKET", "RECOVERING"),
        refers=(TradeBody, TradesBody),
    ),
}
"""What each route takes, answers and is refused for."""
