"""Routes of markets, their order books and their trades."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from msgspec import structs

from clob import Market
from clob.errors import TokenNotInMarketError
from clob.units import PRICE_MAX
from clob.wire.markets import CandlesBody, MarketBody, TradesBody
from clob_server.api.faults import fault, one_of, wrong
from clob_server.api.options import check_milliseconds
from clob_server.api.problems import ApiError, Headers
from clob_server.api.request import JSON, Reply, reply
from clob_server.core.registry import MarketText
from clob_server.core.serialize import market_terms, trade_body
from clob_server.history.candles import INTERVALS_MS, CandleRange, candle_body
from clob_server.history.history import WAIT_S
from clob_server.http.compression import has_current, not_modified
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.http.server import Request, Route, Server

if TYPE_CHECKING:
    from clob_server.core.settlement_status import SettlementStatus
    from clob_server.history.store import TradeRow

TRADES: Final = 50
"""Default number of trades in a list."""
TRADES_MAX: Final = 100
CANDLES: Final = 500
"""Default number of candles in a list."""
CANDLES_MAX: Final = 1_000
PAGE: Final = 100
"""Default number of markets in a list."""
PAGE_MAX: Final = 500
PAGES_KEPT: Final = 8
"""First pages of a market's trades that are cached until the market changes."""

PAGED: Final = ("limit", "cursor")
"""The parameters of a list of markets."""
BOOK_QUERY: Final = ("tokenId", "depth", "minSeq")
CANDLES_QUERY: Final = ("tokenId", "interval", "from", "to", "limit", "cursor")
TRADES_QUERY: Final = ("limit", "tokenId", "wrapped", "order", "after", "cursor")
ASCENDING: Final = "asc"
"""Value of ``order``: oldest first."""
DESCENDING: Final = "desc"

_SWITCH: Final = {"true": True, "false": False}


# ----- books ---------------------------------------------------------------------------------


def orderbook(call: Request) -> Reply | Awaitable[Reply]:
    """Return an order book, or 304 if the client has the current one."""
    return _book_after(call) if b"minSeq=" in call.scope["query_string"] else _book(call)


async def _book_after(call: Request) -> Reply:
    """Return an order book that contains the command of ``minSeq``."""
    applied = await applied_seq(call)
    book = _book(call)
    return structs.replace(book, headers=(*book.headers, *applied))


def _book(call: Request) -> Reply:
    """Return the current order book."""
    server = call.server
    book = server.books.book(call.params["marketId"], token_of(call), depth_of(call))
    call.usage = None  # cached reads have no headers of rate limits
    if has_current(call.headers.get(b"if-none-match"), book.etag):
        return not_modified(((b"etag", book.etag),), JSON)
    return Reply(book.body, headers=book.headers)


def token_of(call: Request) -> str | None:
    """Read ``tokenId`` of the query, decimal or hexadecimal; None if absent."""
    if not call.scope["query_string"]:
        return None
    value = call.query().get("tokenId")
    return None if value is None else read_token(value)


def token_in(market: Market, token: str | None) -> str:
    """Return a token of a market, YES if it is None.

    Raises:
        TokenNotInMarketError: not a token of the market.
    """
    if token is None or token == market.yes:
        return market.yes
    if token == market.no:
        return token
    raise TokenNotInMarketError(f"tokenId must be a token of market {market.id}; got {token}")


def depth_of(call: Request) -> int | None:
    """Read ``depth`` of the query, a number of levels per side; None if absent."""
    if not call.scope["query_string"]:
        return None
    return read_number(call.query(), "depth", 0, 1, PRICE_MAX) or None


def read_token(value: str) -> str:
    """Read a token id, decimal or hexadecimal, and return its decimal digits.

    Raises:
        ApiError: INVALID_FIELD, not a number below 2**256.
    """
    hexadecimal = value[:2] == "0x"
    digits = value[2:] if hexadecimal else value
    if digits.isascii() and digits.isalnum() and len(digits) <= (64 if hexadecimal else 78):
        try:
            number = int(digits, 16 if hexadecimal else 10)
        except ValueError:
            number = 1 << 256
        if number < 1 << 256:
            return str(number)
    raise wrong("tokenId", "must be a token id, decimal or 0x and hexadecimal", value)


# ----- trades --------------------------------------------------------------------------------


class TradesQuery(NamedTuple):
    """A query of trades."""

    token: str | None
    """Outcome token; None for both."""
    limit: int = TRADES
    wrapped: bool = False
    """Whether the response is an object."""
    is_ascending: bool = False
    """Whether the oldest trade comes first."""
    bound: int | None = None
    """``seq`` that all trades are before or, in ascending order, after; None without a bound."""

    def next_page(self, market: str, last: int) -> Headers:
        """Return the link to the page after a ``seq``."""
        query = {
            "limit": self.limit,
            "wrapped": "true" if self.wrapped else "false",
            "tokenId": self.token,
            "order": ASCENDING if self.is_ascending else None,
        }
        return next_page(f"/api/markets/{quote(market, safe='')}/trades", query, last)


async def trades(call: Request) -> Reply:
    """List trades of a market, newest first (decision 10). First pages are cached."""
    server, market = call.server, call.server.state.matcher.market(call.params["marketId"])
    wanted = trades_query(call)
    if wanted.token is not None:
        token_in(market, wanted.token)
    tape = await server.history.tape(market.id)
    page = tape.pages.get(wanted)
    if page is None:
        version = tape.version
        find = server.history.trades_after if wanted.is_ascending else server.history.trades
        rows = await find(market.id, wanted.limit + 1, wanted.bound, wanted.token)
        statuses = await server.history.statuses(market.id, rows[: wanted.limit])
        page = trades_page(server, market.id, rows, statuses, wanted)
        # If the market changed while history was read, this page is out of date.
        if wanted.bound is None and len(tape.pages) < PAGES_KEPT and tape.version == version:
            tape.pages[wanted] = page
    call.usage = None
    return page


def trades_query(call: Request) -> TradesQuery:
    """Read the query of a list of trades.

    Raises:
        ApiError: INVALID_FIELD.
    """
    token = token_of(call)
    if not call.scope["query_string"]:
        return TradesQuery(token)
    query = call.query()
    order = query.get("order", DESCENDING)
    if order not in (ASCENDING, DESCENDING):
        raise wrong("order", f"must be {one_of((ASCENDING, DESCENDING))}", order)
    if "after" in query and order != ASCENDING:
        raise fault("after", f"after requires order={ASCENDING}")
    after = read_number(query, "after", 0, 0, CURSOR_MAX)
    return TradesQuery(
        token,
        read_number(query, "limit", TRADES, 1, TRADES_MAX),
        read_switch(call, "wrapped"),
        order == ASCENDING,
        read_number(query, "cursor", after, 1, CURSOR_MAX) or None,
    )


def trades_page(
    server: Server,
    market: str,
    rows: "Sequence[TradeRow]",
    statuses: "Sequence[SettlementStatus]",
    wanted: TradesQuery,
) -> Reply:
    """Return a page of trades, with a link to the next one if there are more."""
    ids, limit = server.ids, wanted.limit
    bodies = [
        trade_body(event, ids.trade(now_ms, number), now_ms, status)
        for (event, now_ms, number), status in zip(rows[:limit], statuses, strict=True)
    ]
    headers: Headers = ()
    if len(rows) > limit:
        headers = wanted.next_page(market, rows[limit - 1].event.seq)
    return reply(TradesBody(trades=bodies) if wanted.wrapped else bodies, headers=headers)


# ----- candles -------------------------------------------------------------------------------


async def candles(call: Request) -> Reply:
    """List candles of a token, oldest first."""
    server, query = call.server, call.query()
    market = server.state.matcher.market(call.params["marketId"])
    token, interval = token_in(market, token_of(call)), query.get("interval", "1m")
    if interval not in INTERVALS_MS:
        raise wrong("interval", f"must be {one_of(INTERVALS_MS)}", interval)
    limit = read_number(query, "limit", CANDLES, 1, CANDLES_MAX)
    to_ms = read_number(query, "to", CURSOR_MAX, 0, CURSOR_MAX)
    from_ms = read_number(query, "from", 0, 0, CURSOR_MAX)
    check_milliseconds("from", from_ms)
    check_milliseconds("to", to_ms)
    begin_ms = read_number(query, "cursor", from_ms, 0, CURSOR_MAX)
    newest = "from" not in query and "cursor" not in query
    wanted = CandleRange(
        market.id, token, INTERVALS_MS[interval], begin_ms, to_ms, limit + (not newest), newest
    )
    (found,) = await server.history.market_data.candles([wanted])
    body = CandlesBody(
        market_id=market.id,
        token_id=token,
        interval=interval,
        candles=[candle_body(each) for each in found[:limit]],
    )
    headers: Headers = ()
    if len(found) > limit:
        parameters = {"tokenId": token, "interval": interval, "limit": limit, "to": to_ms}
        path = f"/api/markets/{quote(market.id, safe='')}/candles"
        headers = next_page(path, parameters, found[limit].start_ms)
    return reply(body, headers=headers)


# ----- tickers -------------------------------------------------------------------------------


async def get_ticker(call: Request) -> Reply:
    """Return best prices, last prices and the trades of the last 24 hours of a market."""
    server = call.server
    applied = await applied_seq(call)
    body = await server.history.market_data.ticker(call.params["marketId"], server.clock_ms)
    return reply(body, headers=applied)


async def list_tickers(call: Request) -> Reply:
    """List the tickers of all markets, in the order in which these were created."""
    server = call.server
    applied = await applied_seq(call)
    markets, link = page_of_markets(call, "/api/tickers")
    names = [each.id for each in markets]
    bodies = await server.history.market_data.tickers(names, server.clock_ms)
    return reply(bodies, headers=(*link, *applied))


# ----- markets -------------------------------------------------------------------------------


async def list_markets(call: Request) -> Reply:
    """List the markets in the order in which they were created."""
    return markets_page(call, "/api/markets", market_body)


def markets_page(call: Request, path: str, body: Callable[[Server, Market], object]) -> Reply:
    """Return a page of markets, with a link to the next one if there are more."""
    markets, headers = page_of_markets(call, path)
    return reply([body(call.server, each) for each in markets], headers=headers)


def page_of_markets(call: Request, path: str) -> tuple[list[Market], Headers]:
    """Return the markets of a page, and the link to the next one if there are more."""
    query = call.query()
    limit = read_number(query, "limit", PAGE, 1, PAGE_MAX)
    begin = read_number(query, "cursor", 0, 0, CURSOR_MAX)
    markets, end = call.server.state.markets, begin + limit
    headers = next_page(path, {"limit": limit}, end) if len(markets) > end else ()
    return list(islice(markets.values(), begin, end)), headers


async def get_market(call: Request) -> Reply:
    """Return a market."""
    server = call.server
    return reply(market_body(server, server.state.matcher.market(call.params["marketId"])))


def market_body(server: Server, market: Market) -> MarketBody:
    """Return the JSON of a market, with the best prices of its YES token."""
    best = server.state.matcher.depth(market.id, limit=1)
    return MarketBody(
        **terms_of(server, market),
        best_bid=best.bids[0].price if best.bids else None,
        best_ask=best.asks[0].price if best.asks else None,
        last_update=server.state.changed_ms.get(market.id, 0),
        seq=best.seq,
    )


def terms_of(server: Server, market: Market) -> dict[str, Any]:
    """Return the fields of :class:`~clob.wire.markets.MarketTerms`."""
    registry = server.state.registry
    words = registry.words.get(market.id, MarketText())
    terms = market_terms(market, words, registry.stalls.get(market.id))
    return {**terms, **server.conditions.describe(market.id)}


# ----- queries -------------------------------------------------------------------------------


def read_switch(call: Request, name: str) -> bool:
    """Read ``true`` or ``false`` in the query; absent is ``false``."""
    value = call.query().get(name, "false")
    if value not in _SWITCH:
        raise wrong(name, "must be true or false", value)
    return _SWITCH[value]


async def applied_seq(call: Request) -> Headers:
    """Wait for the command of ``minSeq``; return the header with the last applied command.

    Raises:
        ApiError: INVALID_FIELD; RECOVERING, the command was not applied within seconds.
    """
    server = call.server
    wanted = read_number(call.query(), "minSeq", 0, 0, CURSOR_MAX)
    if wanted > server.sequencer.seq:
        try:
            await server.history.wait_for(wanted)
        except ApiError:
            if wanted <= (seq := server.sequencer.seq):
                raise
            waited = f"was not executed within {WAIT_S:g} seconds; the last one is {seq}"
            raise ApiError("RECOVERING", f"command {wanted} of minSeq {waited}") from None
    return ((b"x-applied-seq", b"%d" % server.sequencer.seq),)


ROUTES = (
    Route("list_markets", "GET", "/api/markets", list_markets, query=PAGED),
    Route("get_market", "GET", "/api/markets/{marketId}", get_market),
    Route("get_orderbook", "GET", "/api/markets/{marketId}/orderbook", orderbook, query=BOOK_QUERY),
    Route("get_trades", "GET", "/api/markets/{marketId}/trades", trades, query=TRADES_QUERY),
    Route("get_candles", "GET", "/api/markets/{marketId}/candles", candles, query=CANDLES_QUERY),
    Route("get_ticker", "GET", "/api/markets/{marketId}/ticker", get_ticker, query=("minSeq",)),
    Route("list_tickers", "GET", "/api/tickers", list_tickers, query=("minSeq", *PAGED)),
)
