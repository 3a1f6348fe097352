"""Descriptions of the routes that list the orders and the fills of makers."""

from typing import Final

from clob.wire.accounts import AccountBody
from clob.wire.orders import MakerFill, OrderBody, OrderWithFills
from clob_server.api.options import CLIENT_ID_MAX
from clob_server.http.openapi.common import (
    ADDRESS,
    CURSOR,
    MARKET_ID,
    MIN_SEQ,
    PAGED,
    SWITCH,
    TEXT,
    TOKEN_TEXT,
    FieldDoc,
    RouteDoc,
    page_size,
)
from clob_server.http.openapi.orders import TAG
from clob_server.http.routes.makers import LIMIT, LIMIT_MAX, SIDES, STATUSES

FILTER_MARKET: Final = FieldDoc("marketId", MARKET_ID, "Only the assets and positions of it.")
CODES: Final = ("INVALID_FIELD", "INVALID_ADDRESS", "UNKNOWN_MARKET", "RECOVERING")

DESCRIBED: Final = {
    "get_order": RouteDoc(
        TAG,
        "Get an order",
        OrderWithFills,
        "By id or by signed hash; with `maker` also by `client:` and its `clientOrderId`.",
        query=(
            FieldDoc("maker", ADDRESS, "The maker that the order must have."),
            FieldDoc("fills", SWITCH, f"`true` adds its fills, oldest first, up to {LIMIT_MAX}."),
        ),
        codes=(
            "UNKNOWN_ORDER",
            "INVALID_ORDER_ID",
            "INVALID_FIELD",
            "INVALID_ADDRESS",
            "RECOVERING",
        ),
    ),
    "list_orders": RouteDoc(
        TAG,
        "List orders",
        list[OrderBody],
        "Open orders are listed in order of acceptance, finished ones from the newest; with "
        "`status=all` the open ones come first, and an order that finishes between two pages may "
        "be listed twice. History keeps finished orders for `--history-days`. A request reads a "
        "bounded number of finished orders: a page of few selected ones may be short or empty, and "
        "`Link` leads on. " + PAGED,
        query=(
            FieldDoc("maker", ADDRESS, "Only orders of this wallet; required for finished ones."),
            FieldDoc("marketId", MARKET_ID, "Only orders of this market."),
            FieldDoc("tokenId", TOKEN_TEXT, "Only orders of this outcome token."),
            FieldDoc("side", {"type": "string", "enum": list(SIDES)}, "Only this side."),
            FieldDoc(
                "status",
                {"type": "string", "enum": list(STATUSES)},
                "Default `open`, with `clientOrderId` `all`.",
            ),
            FieldDoc(
                "clientOrderId",
                {"type": "string", "minLength": 1, "maxLength": CLIENT_ID_MAX},
                "Only the order with the maker's own name for it.",
            ),
            MIN_SEQ,
            page_size(maximum=LIMIT_MAX, default=LIMIT),
            CURSOR,
        ),
        headers_sent=("x-applied-seq",),
        codes=CODES,
    ),
    "list_fills": RouteDoc(
        TAG,
        "List the fills of a maker",
        list[MakerFill],
        "A fill is a trade from the view of one of its makers; a trade between two orders of one "
        "maker is two fills. To read new fills, repeat the request with `order=asc` and the "
        "`cursor` of the last fill as `after`. " + PAGED,
        query=(
            FieldDoc("maker", ADDRESS, "The wallet.", True),
            FieldDoc("marketId", MARKET_ID, "Only fills of this market."),
            FieldDoc(
                "order",
                {"type": "string", "enum": ["asc", "desc"]},
                "`desc` (default): newest first; `asc`: oldest first.",
            ),
            FieldDoc("after", TEXT, "`cursor` of the fill that precedes the first one."),
            MIN_SEQ,
            page_size(maximum=LIMIT_MAX, default=LIMIT),
            CURSOR,
        ),
        headers_sent=("x-applied-seq",),
        codes=CODES,
    ),
    "get_account": RouteDoc(
        TAG,
        "Get balances and positions of a wallet",
        AccountBody,
        "Balances are those that orders are checked against, in markets with accounts. Positions "
        "follow from the trades in all markets: tokens from splits, merges and transfers are not "
        "in them, and trades whose settlement failed do not count.",
        query=(FILTER_MARKET, MIN_SEQ),
        headers_sent=("x-applied-seq",),
        codes=CODES,
    ),
}
"""Descriptions by route name."""
