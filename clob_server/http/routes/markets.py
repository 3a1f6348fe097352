"""Markets: what there is, their books, their trades."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from clob import Market
from clob.errors import TokenNotInMarketError
from clob_server.api.options import wrong
from clob_server.api.problems import Headers
from clob_server.api.request import Reply, reply
from clob_server.api.schemas import MarketBody, TradesBody
from clob_server.core.registry import MarketText
from clob_server.core.serialize import market_terms, trade_body
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.http.server import Request, Route, Server

if TYPE_CHECKING:
    from clob_server.core.settlement_status import SettlementStatus
    from clob_server.history.store import TradeRow

TRADES: Final = 50
"""How many trades a list has, unless it is asked for another number."""
TRADES_MAX: Final = 100
"""How many it may be asked for."""
PAGE: Final = 100
"""How many markets a list has, unless it is asked for another number."""
PAGE_MAX: Final = 500
"""How many it may be asked for."""
PAGES_KEPT: Final = 8
"""How many first pages of a market are kept until it changes."""

_SWITCH: Final = {"true": True, "false": False}


# ----- books ---------------------------------------------------------------------------------


def orderbook(call: Request) -> Reply:
    """Give a book, or say that it is still the one the client has."""
    server = call.server
    book = server.books.book(call.params["marketId"], token_of(call))
    etag = b'"%d"' % book.seq
    if call.headers.get(b"if-none-match") == etag:
        return Reply(status=304, headers=((b"etag", etag),))
    return Reply(book.body, headers=((b"etag", etag), (b"cache-control", b"no-cache")))


def token_of(call: Request) -> str | None:
    """Read the token in the query, decimal or hexadecimal; None where there is none.

    Raises:
        ApiError: INVALID_FIELD, it is neither.
    """
    if not call.scope["query_string"]:
        return None
    given = call.query().get("tokenId")
    return None if given is None else read_token(given)


def read_token(given: str) -> str:
    """Read a token, decimal or hexadecimal, and give its decimal digits.

    Raises:
        ApiError: INVALID_FIELD, it is neither, or 2**256 or more.
    """
    hexadecimal = given[:2] == "0x"
    digits = given[2:] if hexadecimal else given
    if digits.isascii() and digits.isalnum() and len(digits) <= (64 if hexadecimal else 78):
        try:
            number = int(digits, 16 if hexadecimal else 10)
        except ValueError:
            number = 1 << 256
        if number < 1 << 256:
            return str(number)
    raise wrong("tokenId", "must be a token id, decimal or 0x and hexadecimal", given)


# ----- trades --------------------------------------------------------------------------------


async def trades(call: Request) -> Reply:
    """List trades of a market, the newest first (decision 10); what no trade changed is kept."""
    server, market = call.server, call.server.state.matcher.market(call.params["marketId"])
    token, limit, wrapped, before = token_of(call), TRADES, False, None
    if call.scope["query_string"]:
        query = call.query()
        limit = read_number(query, "limit", TRADES, 1, TRADES_MAX)
        wrapped = read_switch(call, "wrapped")
        before = read_number(query, "cursor", 0, 1, CURSOR_MAX) or None
    if token is not None and token not in (market.yes, market.no):
        raise TokenNotInMarketError(f"market {market.id!r} has no token {token}")
    tape = await server.history.tape(market.id)
    asked = (token, limit, wrapped)
    page = tape.pages.get(asked) if before is None else None
    if page is None:
        version = tape.version
        found = await server.history.trades(market.id, limit + 1, before, token)
        fates = await server.history.statuses(market.id, found[:limit])
        page = trades_page(server, market.id, found, fates, asked)
        # Something may have changed while history was read: then this page is one of the past.
        if before is None and len(tape.pages) < PAGES_KEPT and tape.version == version:
            tape.pages[asked] = page
    return page


def trades_page(
    server: Server,
    market: str,
    found: "Sequence[TradeRow]",
    fates: "Sequence[SettlementStatus]",
    asked: tuple[str | None, int, bool],
) -> Reply:
    """Write a page of trades, with where to go on if there is one trade more than fits."""
    token, limit, wrapped = asked
    ids = server.ids
    bodies = [
        trade_body(event, ids.trade(now_ms, number), now_ms, fate)
        for (event, now_ms, number), fate in zip(found[:limit], fates, strict=True)
    ]
    headers: Headers = ()
    if len(found) > limit:
        query = {
            "limit": limit,
            "wrapped": "true" if wrapped else "false",
            "tokenId": token,
        }
        path = f"/api/markets/{quote(market, safe='')}/trades"
        headers = next_page(path, query, found[limit - 1].event.seq)
    return reply(TradesBody(trades=bodies) if wrapped else bodies, headers=headers)


# ----- markets -------------------------------------------------------------------------------


async def list_markets(call: Request) -> Reply:
    """List the markets in the sequence in which they were opened."""
    query = call.query()
    limit = read_number(query, "limit", PAGE, 1, PAGE_MAX)
    begin = read_number(query, "cursor", 0, 0, CURSOR_MAX)
    markets = call.server.state.matcher.markets
    end = begin + limit
    more = len(markets) > end
    headers = next_page("/api/markets", {"limit": limit}, end) if more else ()
    found = [market_body(call.server, market) for market in markets[begin:end]]
    return reply(found, headers=headers)


async def get_market(call: Request) -> Reply:
    """Give a market."""
    server = call.server
    return reply(market_body(server, server.state.matcher.market(call.params["marketId"])))


def market_body(server: Server, market: Market) -> MarketBody:
    """Describe a market, with the best prices of its YES token."""
    state = server.state
    words = state.registry.words.get(market.id, MarketText())
    best = state.matcher.depth(market.id, limit=1)
    return MarketBody(
        **market_terms(market, words),
        **server.conditions.describe(market.id),
        best_bid=best.bids[0].price if best.bids else None,
        best_ask=best.asks[0].price if best.asks else None,
        last_update=state.changed_ms.get(market.id, 0),
        seq=best.seq,
    )


# ----- queries -------------------------------------------------------------------------------


def read_switch(call: Request, name: str) -> bool:
    """Read ``true`` or ``false`` in the query; absent is ``false``.

    Raises:
        ApiError: INVALID_FIELD, it is neither.
    """
    given = call.query().get(name, "false")
    if given not in _SWITCH:
        raise wrong(name, "must be true or false", given)
    return _SWITCH[given]


ROUTES = (
    Route("list_markets", "GET", "/api/markets", list_markets),
    Route("get_market", "GET", "/api/markets/{marketId}", get_market),
    Route("get_orderbook", "GET", "/api/markets/{marketId}/orderbook", orderbook),
    Route("get_trades", "GET", "/api/markets/{marketId}/trades", trades),
)
"""The routes of markets."""
