"""Public reads: markets, books and prices."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from clob import Market
from clob.depth import Level
from clob_server.api.faults import wrong
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.core.state import ServerState
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.markets import (
    Token,
    best_prices,
    market_json,
    middle,
    simplified_json,
)
from clob_server.dialects.polymarket.units import (
    TICK,
    WEI,
    cursor,
    decimal,
    fraction,
    position_of,
    price_text,
)
from clob_server.http.server import Request

PAGE: Final = 500
"""Markets in a page."""
TOKENS_MAX: Final = 500
"""Tokens in one request."""
SIDES: Final = ("BUY", "SELL")
"""Sides of orders and prices."""
NO_PRICE: Final = {"price": "0.5", "side": ""}
"""The last price of a token without trades."""


# ----- markets -------------------------------------------------------------------------------


def time(polymarket: Polymarket, call: Request) -> Reply:
    """Return the time of the server, Unix seconds."""
    return reply(polymarket.server.clock_ms() // 1000)


def markets(polymarket: Polymarket, call: Request) -> Reply:
    """List the markets."""
    return markets_page(polymarket, call, market_json)


def simplified_markets(polymarket: Polymarket, call: Request) -> Reply:
    """List the markets in their short form."""
    return markets_page(polymarket, call, simplified_json)


def markets_page(
    polymarket: Polymarket, call: Request, body: Callable[..., dict[str, Any]]
) -> Reply:
    """Return a page of markets."""
    index, state = polymarket.markets, polymarket.server.state
    first = position_of(call.query().get("next_cursor"))
    found: list[Market] = [] if first is None else index.page(first, PAGE + 1)
    more = (first or 0) + PAGE if len(found) > PAGE else None
    return page([body(index, state, market) for market in found[:PAGE]], more, PAGE)


def page(data: Sequence[Any], more: int | None, limit: int) -> Reply:
    """Return a page of a list.

    Args:
        data: its items.
        more: the position of the next page; None after the last.
        limit: largest number of items.
    """
    return reply({"limit": limit, "count": len(data), "next_cursor": cursor(more), "data": data})


def market(polymarket: Polymarket, call: Request) -> Reply:
    """Return a market."""
    index, state = polymarket.markets, polymarket.server.state
    return reply(market_json(index, state, index.market(call.params["conditionId"])))


# ----- terms of a token ----------------------------------------------------------------------


def tick_size(polymarket: Polymarket, call: Request) -> Reply:
    """Return the tick size of a token."""
    queried_token(polymarket, call)
    return reply({"minimum_tick_size": float(TICK)})


def neg_risk(polymarket: Polymarket, call: Request) -> Reply:
    """Return that a token is of an ordinary market."""
    queried_token(polymarket, call)
    return reply({"neg_risk": False})


def fee_rate(polymarket: Polymarket, call: Request) -> Reply:
    """Return the fee rate that orders of a token have to allow, in basis points."""
    terms = polymarket.server.state.markets[queried_token(polymarket, call).market]
    return reply({"base_fee": max(terms.resting_fee_rate_bps, terms.incoming_fee_rate_bps)})


# ----- books and prices ----------------------------------------------------------------------


async def book(polymarket: Polymarket, call: Request) -> Reply:
    """Return the order book of a token."""
    return reply(await book_json(polymarket, queried_token(polymarket, call)))


async def books(polymarket: Polymarket, call: Request) -> Reply:
    """Return the order books of several tokens."""
    tokens = [token for token, _ in listed_tokens(polymarket, call)]
    return reply([await book_json(polymarket, token) for token in tokens])


async def book_json(polymarket: Polymarket, token: Token) -> dict[str, Any]:
    """Return an order book with its hash; the best levels come last."""
    last = (await last_trade(polymarket, token))["price"]
    return hashed_book(polymarket.server.state, token, last)


def hashed_book(state: ServerState, token: Token, last_price: str) -> dict[str, Any]:
    """Return an order book with its hash, which the clients compute in the same way."""
    depth = state.matcher.depth(token.market, token.token)
    content = {
        "market": token.condition_id,
        "asset_id": token.token,
        "timestamp": str(state.changed_ms.get(token.market, 0)),
        "hash": "",
        "bids": levels_json(depth.bids),
        "asks": levels_json(depth.asks),
        "min_order_size": decimal(state.markets[token.market].min_size),
        "tick_size": TICK,
        "neg_risk": False,
        "last_trade_price": last_price,
    }
    return hashed(content)


def hashed(content: dict[str, Any]) -> dict[str, Any]:
    """Return a book, whose ``hash`` is empty, with the SHA-1 of its JSON."""
    digest = hashlib.sha1(msgspec.json.encode(content), usedforsecurity=False)
    return {**content, "hash": digest.hexdigest()}


def levels_json(levels: Sequence[Level]) -> list[dict[str, str]]:
    """Return price levels, best last, without those of less than a millionth of a token."""
    return [
        {"price": price_text(level.price), "size": decimal(level.size)}
        for level in reversed(levels)
        if level.size >= WEI
    ]


async def last_trade(polymarket: Polymarket, token: Token) -> dict[str, str]:
    """Return the price and the side of the last trade of a token."""
    tape = await polymarket.server.history.tape(token.market)
    row = next(tape.newest(token=token.token), None)
    if row is None:
        return NO_PRICE
    return {"price": price_text(row.event.price), "side": row.event.incoming_side.name}


async def last_trade_price(polymarket: Polymarket, call: Request) -> Reply:
    """Return the last price of a token."""
    return reply(await last_trade(polymarket, queried_token(polymarket, call)))


async def last_trades_prices(polymarket: Polymarket, call: Request) -> Reply:
    """Return the last prices of several tokens."""
    tokens = [token for token, _ in listed_tokens(polymarket, call)]
    return reply(
        [{**await last_trade(polymarket, token), "token_id": token.token} for token in tokens]
    )


def price(polymarket: Polymarket, call: Request) -> Reply:
    """Return the best bid (``BUY``) or the best ask (``SELL``) of a token."""
    token, side = queried_token(polymarket, call), read_side(call.query().get("side"))
    return reply({"price": best(polymarket, token, side)})


def prices(polymarket: Polymarket, call: Request) -> Reply:
    """Return the best prices of several tokens."""
    found: dict[str, dict[str, str]] = {}
    for token, item in listed_tokens(polymarket, call):
        side = read_side(item.get("side"))
        found.setdefault(token.token, {})[side] = best(polymarket, token, side)
    return reply(found)


def best(polymarket: Polymarket, token: Token, side: str) -> str:
    """Return the best price of a side; 0 without a bid, 1 without an ask."""
    bid, ask = best_prices(polymarket.server.state, token)
    return price_text(bid if side == "BUY" else ask)


def midpoint(polymarket: Polymarket, call: Request) -> Reply:
    """Return the middle of the best prices of a token."""
    return reply({"mid": middle_text(polymarket, queried_token(polymarket, call))})


def midpoints(polymarket: Polymarket, call: Request) -> Reply:
    """Return the middles of several tokens."""
    tokens = [token for token, _ in listed_tokens(polymarket, call)]
    return reply({token.token: middle_text(polymarket, token) for token in tokens})


def middle_text(polymarket: Polymarket, token: Token) -> str:
    """Return the middle of the best prices."""
    return fraction(middle(polymarket.server.state, token), 200)


def spread(polymarket: Polymarket, call: Request) -> Reply:
    """Return the distance of the best prices of a token."""
    return reply({"spread": spread_text(polymarket, queried_token(polymarket, call))})


def spreads(polymarket: Polymarket, call: Request) -> Reply:
    """Return the distances of several tokens."""
    tokens = [token for token, _ in listed_tokens(polymarket, call)]
    return reply({token.token: spread_text(polymarket, token) for token in tokens})


def spread_text(polymarket: Polymarket, token: Token) -> str:
    """Return the distance of the best prices."""
    bid, ask = best_prices(polymarket.server.state, token)
    return price_text(ask - bid)


# ----- requests ------------------------------------------------------------------------------


def queried_token(polymarket: Polymarket, call: Request) -> Token:
    """Return the token that a query names.

    Raises:
        ApiError: INVALID_FIELD, ``token_id`` is missing.
        UnknownMarketError: it belongs to no visible market.
    """
    return polymarket.markets.token(read_token(call.query().get("token_id")))


def listed_tokens(polymarket: Polymarket, call: Request) -> list[tuple[Token, dict[str, Any]]]:
    """Return the tokens of a list in the body, each with its item.

    Raises:
        ApiError: INVALID_FIELD, the body is not an array of objects with ``token_id``, or it is
            too long.
        UnknownMarketError: no visible market has one of them.
    """
    items = call.json()
    if type(items) is not list or len(items) > TOKENS_MAX:
        rule = f"the body must be an array of at most {TOKENS_MAX} objects with token_id"
        raise ApiError("INVALID_FIELD", rule)
    found = []
    for item in items:
        value = item.get("token_id") if type(item) is dict else None
        found.append((polymarket.markets.token(read_token(value)), item))
    return found


def read_token(value: object) -> str:
    """Read a token id."""
    if type(value) is not str or not value:
        raise wrong("token_id", "must be a token id in decimal digits", value)
    return value


def read_side(value: object) -> str:
    """Read a side."""
    side = value.upper() if type(value) is str else value
    if side not in SIDES:
        raise wrong("side", f"must be {' or '.join(SIDES)}", value)
    return str(side)
