"""Reads of a wallet: its orders, trades and balances."""

import asyncio
import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from clob import PairedTrade, Side, Trade
from clob.errors import UnknownOrderError
from clob.events import MatchType
from clob.signing.fields import received
from clob.wire.orders import OrderBody
from clob_server.api.problems import ApiError
from clob_server.api.request import Reply, reply
from clob_server.core.serialize import order_body
from clob_server.dialects.polymarket.context import Polymarket
from clob_server.dialects.polymarket.credentials import Credentials
from clob_server.dialects.polymarket.login import authenticated
from clob_server.dialects.polymarket.markets import Token
from clob_server.dialects.polymarket.orders import resting
from clob_server.dialects.polymarket.reads import page
from clob_server.dialects.polymarket.units import decimal, position_of, price_text
from clob_server.dialects.polymarket.wallets import wallets_of
from clob_server.history.store import TradeRow
from clob_server.http.pagination import CURSOR_MAX, read_number
from clob_server.http.server import Request

PAGE: Final = 500
"""Orders or trades in a page."""
ROWS_MAX: Final = 10_000
"""Trades that are read before the event loop gets a turn."""
STATUSES: Final = {
    "open": "LIVE",
    "partial": "LIVE",
    "filled": "MATCHED",
    "cancelled": "CANCELED",
}
"""Statuses of orders."""
TYPES: Final = {"IOC": "FAK"}
"""Order types with another name than in the engine."""
UNLIMITED: Final = str(10**15)
"""Balance and allowance of every wallet, in millionths: markets without a chain check none."""


# ----- orders --------------------------------------------------------------------------------


async def get_order(polymarket: Polymarket, call: Request) -> Reply:
    """Return an order of the wallet, open or finished."""
    credentials, order_ref = authenticated(polymarket, call), call.params["orderId"]
    order = await polymarket.server.lookup.find(order_ref)
    if (
        order is None
        or order.maker not in wallets_of(credentials.address)
        or not polymarket.markets.sees(order.market_id)
    ):
        raise UnknownOrderError(f"this wallet has no order {received(order_ref[:99])}")
    return reply(order_json(polymarket, order, credentials.key))


def list_orders(polymarket: Polymarket, call: Request) -> Reply:
    """List the open orders of the wallet."""
    credentials, query = authenticated(polymarket, call), call.query()
    first, order_id = position_of(query.get("next_cursor")), query.get("id")
    found = resting(polymarket, credentials, query.get("market"), query.get("asset_id"))
    left = [] if first is None else [record for record in found if record.number > first]
    signature = polymarket.server.state.signature
    bodies = [
        order_json(polymarket, order_body(record, signature(record.order.id)), credentials.key)
        for record in left[:PAGE]
    ]
    more = left[PAGE - 1].number if len(left) > PAGE else None
    return page([body for body in bodies if order_id in (None, body["id"])], more, PAGE)


def order_json(polymarket: Polymarket, order: OrderBody, owner: str) -> dict[str, Any]:
    """Return an order as Polymarket's clients read it."""
    token = polymarket.markets.token(order.token_id)
    return {
        "id": order.order_hash or order.id,
        "status": STATUSES[order.status],
        "owner": owner,
        "maker_address": order.maker,
        "market": token.condition_id,
        "asset_id": token.token,
        "side": Side(order.side).name,
        "original_size": decimal(int(order.size)),
        "size_matched": decimal(int(order.filled_tokens)),
        "price": price_text(order.price),
        "associate_trades": [],
        "outcome": token.outcome,
        "created_at": order.timestamp // 1000,
        "expiration": str(order.expiration),
        "order_type": TYPES.get(order.time_in_force, order.time_in_force),
    }


# ----- trades --------------------------------------------------------------------------------


class TokenTrade:
    """A trade of two orders: in a mint or merge, in a token for each."""

    def __init__(self, row: TradeRow, other: Trade | None) -> None:
        event = row.event
        buys = event.incoming_side is Side.BUY
        self.row: Final = row
        self.event: Final = event
        """The trade in the token of the incoming order."""
        self.taker: Final = event.buyer if buys else event.seller
        self.resting: Final = other or event
        """The trade in the token of the resting order."""
        if other is None:
            self.maker: str = event.seller if buys else event.buyer
            self.maker_side = Side.SELL if buys else Side.BUY
        else:
            is_mint = other.match_type is MatchType.MINT
            self.maker = other.buyer if is_mint else other.seller
            self.maker_side = Side.BUY if is_mint else Side.SELL


def token_trades(rows: Iterator[TradeRow]) -> Iterator[TokenTrade]:
    """Yield the trades of a market, newest first, from its rows."""
    other: Trade | None = None
    for row in rows:
        if isinstance(row.event, PairedTrade) and not row.event.is_incoming:
            other = row.event
        else:
            yield TokenTrade(row, other)
            other = None


async def trades(polymarket: Polymarket, call: Request) -> Reply:
    """List the trades of the wallet, newest first, among those that are kept in memory."""
    credentials, query = authenticated(polymarket, call), call.query()
    before, wanted = (
        position_of(query.get("next_cursor")),
        TradeFilter(polymarket, credentials, query),
    )
    found: list[TokenTrade] = []
    if before is not None:
        history = polymarket.server.history
        tapes = [(await history.tape(name)).newest() for name in wanted.markets]
        merged = heapq.merge(*map(token_trades, tapes), key=lambda trade: -trade.row.number)
        for count, trade in enumerate(merged, 1):
            if (not before or trade.row.number < before) and wanted.has(trade):
                found.append(trade)
                if len(found) > PAGE:
                    break
            if not count % ROWS_MAX:
                await asyncio.sleep(0)
    more = found[PAGE - 1].row.number if len(found) > PAGE else None
    data = [await trade_json(polymarket, trade, credentials) for trade in found[:PAGE]]
    return page(data, more, PAGE)


class TradeFilter:
    """The parameters that select trades of a wallet."""

    def __init__(
        self, polymarket: Polymarket, credentials: Credentials, query: Mapping[str, str]
    ) -> None:
        index, market, token = polymarket.markets, query.get("market"), query.get("asset_id")
        if market is not None:
            names = [index.market(market).id]
        elif token is not None:
            names = [index.token(token).market]
        else:
            names = [each.id for each in index.page(0, CURSOR_MAX)]
        self.markets: Final[list[str]] = names
        """The markets that have them."""
        self._ids: Final = polymarket.server.ids
        self._id: Final = query.get("id")
        self._first_ms: Final = 1000 * read_number(query, "after", 0, 0, CURSOR_MAX)
        self._end_ms: Final = 1000 * read_number(query, "before", CURSOR_MAX, 0, CURSOR_MAX)
        self._makers: Final = wallets_of(credentials.address)
        self._maker: Final = query.get("maker_address")
        self._token: Final = token

    def has(self, trade: TokenTrade) -> bool:
        """Return whether a trade is selected."""
        row, parties = trade.row, (trade.taker, trade.maker)
        return (
            any(maker in self._makers for maker in parties)
            and self._maker in (None, *parties)
            and self._token in (None, trade.event.token, trade.resting.token)
            and self._first_ms <= row.now_ms < self._end_ms
            and self._id in (None, self._ids.trade(row.now_ms, row.number))
        )


async def trade_json(
    polymarket: Polymarket, trade: TokenTrade, credentials: Credentials
) -> dict[str, Any]:
    """Return a trade as Polymarket's clients read it: its incoming order, and the resting one."""
    event, row, makers = trade.event, trade.row, wallets_of(credentials.address)
    token = polymarket.markets.token(event.token)
    taker_id = await public_order_id(polymarket, event.incoming_order_id)
    maker_id = await public_order_id(polymarket, event.resting_order_id)
    return trade_body(
        trade,
        token,
        polymarket.markets.token(trade.resting.token),
        trade_id=polymarket.server.ids.trade(row.now_ms, row.number),
        order_ids=(taker_id, maker_id),
        owners=[credentials.key if each in makers else "" for each in (trade.taker, trade.maker)],
    )


def trade_body(
    trade: TokenTrade,
    token: Token,
    maker_token: Token,
    *,
    trade_id: str,
    order_ids: tuple[str, str],
    owners: Sequence[str],
) -> dict[str, Any]:
    """Return the JSON of a trade.

    Args:
        trade: the trade.
        token: the token of the incoming order.
        maker_token: the token of the resting order.
        trade_id: the id of the trade.
        order_ids: the ids of the incoming and of the resting order.
        owners: the keys of their owners; empty for other wallets than that of the request.
    """
    event, seconds = trade.event, str(trade.row.now_ms // 1000)
    return {
        "id": trade_id,
        "taker_order_id": order_ids[0],
        "market": token.condition_id,
        "asset_id": token.token,
        "side": event.incoming_side.name,
        "size": decimal(event.size),
        "fee_rate_bps": "0",
        "price": price_text(event.price),
        "status": "CONFIRMED",
        "match_time": seconds,
        "last_update": seconds,
        "outcome": token.outcome,
        "bucket_index": 0,
        "owner": owners[0],
        "maker_address": trade.taker,
        "maker_orders": [
            {
                "order_id": order_ids[1],
                "owner": owners[1],
                "maker_address": trade.maker,
                "matched_amount": decimal(event.size),
                "price": price_text(trade.resting.price),
                "fee_rate_bps": "0",
                "asset_id": maker_token.token,
                "outcome": maker_token.outcome,
                "side": trade.maker_side.name,
            }
        ],
        "transaction_hash": "",
        "trader_side": "TAKER" if owners[0] else "MAKER",
    }


async def public_order_id(polymarket: Polymarket, order_id: str | int) -> str:
    """Return the hash of an order, or its id if it has none or is no longer stored."""
    order = await polymarket.server.lookup.find(str(order_id))
    return str(order_id) if order is None else order.order_hash or order.id


# ----- balances and other answers ------------------------------------------------------------


def balance_allowance(polymarket: Polymarket, call: Request) -> Reply:
    """Return the balance of the wallet; markets without a chain check none."""
    authenticated(polymarket, call)
    exchange = polymarket.server.domain.verifying_contract
    return reply(
        {"balance": UNLIMITED, "allowance": UNLIMITED, "allowances": {exchange: UNLIMITED}}
    )


def order_scoring(polymarket: Polymarket, call: Request) -> Reply:
    """Return that an order earns no rewards."""
    authenticated(polymarket, call)
    return reply({"scoring": False})


def orders_scoring(polymarket: Polymarket, call: Request) -> Reply:
    """Return that several orders earn no rewards."""
    authenticated(polymarket, call)
    ids = call.json()
    if type(ids) is not list or not all(type(each) is str for each in ids):
        raise ApiError("INVALID_FIELD", "the body must be an array of order ids")
    return reply(dict.fromkeys(ids, False))


def notifications(polymarket: Polymarket, call: Request) -> Reply:
    """Return that there are no notifications; the user channel has the news."""
    authenticated(polymarket, call)
    return reply([])


def drop_notifications(polymarket: Polymarket, call: Request) -> Reply:
    """Accept that notifications were read."""
    authenticated(polymarket, call)
    return reply("OK")
