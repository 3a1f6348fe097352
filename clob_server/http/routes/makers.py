"""Routes that return the orders, the fills and the accounts of makers.

Every answer contains all commands that were acknowledged before the request, and says so in
``X-Applied-Seq``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from clob import Balance, Mode
from clob.errors import UnknownOrderError
from clob.signing import fields
from clob.signing.fields import received
from clob.status import OrderRecord
from clob.wire.accounts import AccountBalance, AccountBody, ChainBalance, MakerPosition
from clob.wire.orders import OrderBody, OrderWithFills
from clob_server.api.faults import one_of, wrong
from clob_server.api.options import CLIENT_ID_MAX, market_id
from clob_server.api.problems import Headers
from clob_server.api.request import Reply, reply
from clob_server.chain.events import is_escrow
from clob_server.core.ids import cursor_in
from clob_server.core.serialize import (
    ESCROW,
    WALLET,
    assets_of,
    average,
    balance_fields,
    custody_of,
    order_body,
    sorted_assets,
)
from clob_server.history.of_maker import FINISHED, PLACE_MAX, FillRange, FinishedRange
from clob_server.history.positions import TokenPosition
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.http.routes.markets import applied_seq, read_switch, token_of
from clob_server.http.server import Request, Route, Server
from clob_server.orders.lookup import CLIENT

LIMIT: Final = 100
"""Default number of orders or fills in a list."""
LIMIT_MAX: Final = 500
OPEN: Final = "open"
ALL: Final = "all"
STATUSES: Final[Mapping[str, Sequence[str]]] = {
    OPEN: (),
    **{status: (status,) for status in FINISHED},
    ALL: FINISHED,
}
"""Statuses of finished orders in a list, by the name in the query."""
SIDES: Final = {"0": 0, "BUY": 0, "1": 1, "SELL": 1}
LISTED: Final = (
    "maker", "marketId", "tokenId", "side", "status", "clientOrderId", "minSeq", "limit", "cursor",
)  # fmt: skip
"""The parameters of the list of orders."""
FILLS: Final = ("maker", "marketId", "order", "after", "minSeq", "limit", "cursor")
"""The parameters of the list of fills."""
POSITIONS_MAX: Final = 1_000
"""Positions in one answer."""
EMPTY: Final = Balance(0, 0, 0)
"""An account without any amount."""
FINISHED_CURSOR: Final = "f"
"""First character of a cursor that leads to finished orders."""


class OrderFilters(msgspec.Struct, frozen=True):
    """The filters of a list of orders; None for no filter."""

    maker: str | None
    market: str | None
    token: str | None
    side: int | None
    client_id: str | None
    status: str
    limit: int

    def accepts(self, record: OrderRecord) -> bool:
        """Return whether a resting order of the maker and the market is in the list."""
        order = record.order
        return (
            self.token in (None, order.token)
            and self.side in (None, order.side)
            and self.client_id in (None, record.client_id)
        )

    def columns(self) -> tuple[tuple[str, object], ...]:
        """Return the filters of finished orders, besides maker and status."""
        values = ("market", self.market), ("token", self.token), ("side", self.side)
        pairs: tuple[tuple[str, object], ...] = (*values, ("client_id", self.client_id))
        return tuple(pair for pair in pairs if pair[1] is not None)

    def query(self) -> dict[str, object]:
        """Return the query of the next page."""
        return {
            "maker": self.maker,
            "marketId": self.market,
            "tokenId": self.token,
            "side": self.side,
            "clientOrderId": self.client_id,
            "status": self.status,
            "limit": self.limit,
        }


# ----- orders --------------------------------------------------------------------------------


async def get_order(call: Request) -> Reply:
    """Return an order by a reference, with ``fills=true`` with its fills."""
    server, ref, maker = call.server, call.params["orderId"], call.query().get("maker")
    if maker is None and ref.startswith(CLIENT):
        raise wrong("maker", f"is required with {CLIENT} and a clientOrderId", None)
    if maker is None:
        order = await server.lookup.get(ref)
    else:
        order = await order_of(server, fields.address("maker", maker), ref)
    if not read_switch(call, "fills"):
        return reply(order)
    rows = await server.history.fills_of(order.id, LIMIT_MAX)
    fills = await server.history.fill_bodies(rows)
    return reply(OrderWithFills(**msgspec.structs.asdict(order), fills=fills))


async def order_of(server: Server, maker: str, ref: str) -> OrderBody:
    """Return an order of a maker; of several with its own name for it, the newest one.

    Raises:
        UnknownOrderError: the maker has no such order.
    """
    record = server.lookup.known_to(maker, ref)
    if record is not None:
        order: OrderBody | None = order_body(record, server.state.signature(record.order.id))
    elif ref.startswith(CLIENT):
        names = (("client_id", ref.removeprefix(CLIENT)),)
        wanted = FinishedRange(maker, FINISHED, PLACE_MAX, 1, names)
        found, _ = await server.history.finished(wanted)
        order = found[0][1] if found else None
    else:
        order = await server.lookup.find(ref)
    if order is None or order.maker != maker:
        raise UnknownOrderError(f"maker {maker} has no order {received(ref[:99])}")
    return order


async def list_orders(call: Request) -> Reply:
    """List open orders in order of acceptance, then finished ones from the newest."""
    server, query = call.server, call.query()
    wanted, cursor = read_filters(call), query.get("cursor", "")
    applied = await applied_seq(call)
    bodies: list[OrderBody] = []
    more: str | None = None
    if wanted.status in (OPEN, ALL) and not cursor.startswith(FINISHED_CURSOR):
        after = read_number(query, "cursor", 0, 0, CURSOR_MAX)
        bodies, more = open_orders(server, wanted, after)
    if more is None and (statuses := STATUSES[wanted.status]):
        before = read_place("cursor", cursor.removeprefix(FINISHED_CURSOR), PLACE_MAX)
        room = wanted.limit - len(bodies)
        assert wanted.maker is not None
        found, last = await server.history.finished(
            FinishedRange(wanted.maker, statuses, before, room + 1, wanted.columns())
        )
        bodies += [body for _, body in found[:room]]
        if len(found) > room:
            last = found[room - 1][0] if room else before
        if last is not None:
            more = f"{FINISHED_CURSOR}{last}"
    headers = () if more is None else next_page("/api/orders", wanted.query(), more)
    return reply(bodies, headers=(*headers, *applied))


def read_filters(call: Request) -> OrderFilters:
    """Read the filters of a list of orders.

    Raises:
        ApiError: INVALID_FIELD, a filter is invalid, or finished orders lack a maker.
        RejectedError: the address or the market id is invalid.
    """
    query = call.query()
    maker, market = maker_and_market(query)
    client_id, side = query.get("clientOrderId"), query.get("side")
    if client_id is not None and not 0 < len(client_id) <= CLIENT_ID_MAX:
        raise wrong("clientOrderId", f"must have 1 to {CLIENT_ID_MAX} characters", client_id)
    if side is not None and side not in SIDES:
        raise wrong("side", f"must be {one_of(SIDES)}", side)
    status = query.get("status", OPEN if client_id is None else ALL)
    if status not in STATUSES:
        raise wrong("status", f"must be {one_of(STATUSES)}", status)
    if maker is None and (status != OPEN or client_id is not None):
        rule = "is required for finished orders and for clientOrderId"
        raise wrong("maker", rule, None)
    limit = read_number(query, "limit", LIMIT, 1, LIMIT_MAX)
    number = None if side is None else SIDES[side]
    return OrderFilters(maker, market, token_of(call), number, client_id, status, limit)


def open_orders(
    server: Server, wanted: OrderFilters, after: int
) -> tuple[list[OrderBody], str | None]:
    """Return a page of open orders, and the cursor of the next one; None after the last."""
    accepts: Callable[[OrderRecord], bool] = wanted.accepts
    records = server.resting.page(wanted.maker, wanted.market, after, wanted.limit + 1, accepts)
    signature, page = server.state.signature, records[: wanted.limit]
    bodies = [order_body(record, signature(record.order.id)) for record in page]
    return bodies, str(page[-1].number) if len(records) > wanted.limit else None


# ----- fills ---------------------------------------------------------------------------------


async def list_fills(call: Request) -> Reply:
    """List the fills of a maker by time."""
    server, query = call.server, call.query()
    maker, market = maker_and_market(query)
    if maker is None:
        raise wrong("maker", "is required", None)
    order, limit = query.get("order", "desc"), read_number(query, "limit", LIMIT, 1, LIMIT_MAX)
    if order not in ("asc", "desc"):
        raise wrong("order", "must be asc or desc", order)
    newest = order == "desc"
    name = "cursor" if "cursor" in query else "after"
    after = read_place(name, query.get(name, ""), PLACE_MAX if newest else 0)
    applied = await applied_seq(call)
    rows = await server.history.fills(FillRange(maker, market, after, limit + 1, newest))
    bodies = await server.history.fill_bodies(rows[:limit])
    headers: Headers = ()
    if len(rows) > limit:
        filters = {"maker": maker, "marketId": market, "order": order, "limit": limit}
        headers = next_page("/api/fills", filters, bodies[-1].cursor)
    return reply(bodies, headers=(*headers, *applied))


# ----- accounts ------------------------------------------------------------------------------


async def get_account(call: Request) -> Reply:
    """Return balances and positions of a wallet."""
    server = call.server
    maker, market = fields.address("maker", call.params["maker"]), call.query().get("marketId")
    if market is not None:
        market = market_id(market)
    applied = await applied_seq(call)
    reading = server.settlement.wallets.ask_for((maker,))
    if reading is not None:
        await reading
    balances = account_balances(server, maker, market)
    rows = await server.history.positions(maker, market, POSITIONS_MAX + 1)
    if len(rows) > POSITIONS_MAX:
        raise wrong("marketId", f"is required with more than {POSITIONS_MAX} positions", None)
    positions = [position_body(server, each) for each in rows]
    return reply(AccountBody(maker=maker, balances=balances, positions=positions), headers=applied)


def account_balances(server: Server, maker: str, market: str | None) -> list[AccountBalance]:
    """Return the accounts of a wallet that are not empty, collaterals first."""
    matcher, bodies = server.state.matcher, []
    if market is None:
        own_assets = (asset for _, asset in matcher.balances(maker))
        reported = server.settlement.inbox.assets(maker)
        assets: Sequence[str] = sorted_assets(matcher, {*own_assets, *reported})
    else:
        terms = server.state.markets.get(market)
        assets = () if terms is None else assets_of(terms)
    for asset in assets:
        own, chain = matcher.balance(maker, asset), chain_balance(server, maker, asset)
        if own != EMPTY or chain is not None:
            amounts, custody = balance_fields(asset, own), asset_custody(server, asset)
            bodies.append(AccountBalance(**amounts, custody=custody, chain=chain))
    return bodies


def asset_custody(server: Server, asset: str) -> str | None:
    """Return where an asset is that orders of markets are covered by; None if none settles."""
    matcher, chain = server.state.matcher, server.chain.addresses
    market = matcher.market_of(asset)
    if market is not None:
        return custody_of(market)
    if is_escrow(asset):
        return ESCROW
    return WALLET if chain is not None and asset == chain.collateral else None


def chain_balance(server: Server, wallet: str, asset: str) -> ChainBalance | None:
    """Return the chain's report of an account, or None."""
    holding = server.settlement.inbox.holding(wallet, asset)
    if holding is None:
        return None
    return ChainBalance(
        balance=holding.balance or holding.amount,
        allowance=holding.approved,
        requested=holding.requested,
    )


WON: Final = ("yes", "no")
"""Outcomes in which one token is worth a unit of collateral; in others, the chain knows."""


def position_body(server: Server, row: TokenPosition) -> MakerPosition:
    """Return the JSON of a position."""
    position, market = row.position, server.state.markets.get(row.market)
    words = server.state.registry.words.get(row.market)
    value = None
    if market is not None and market.mode is Mode.RESOLVED and words and words.outcome in WON:
        wins = row.token == (market.yes if words.outcome == "yes" else market.no)
        value = str(position.size if wins else 0)
    return MakerPosition(
        market_id=row.market,
        token_id=row.token,
        net_size=str(position.size),
        cost=str(position.cost),
        average_price=average(abs(position.cost), abs(position.size)),
        realised=str(position.realised),
        fees=str(position.fees),
        token_fees=str(position.token_fees),
        redemption_value=value,
    )


# ----- queries -------------------------------------------------------------------------------


def maker_and_market(query: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Read maker and market; None where they are absent."""
    maker, market = query.get("maker"), query.get("marketId")
    return (
        None if maker is None else fields.address("maker", maker),
        None if market is None else market_id(market),
    )


def read_place(name: str, cursor: str, default: int) -> int:
    """Read the place in a cursor, which may follow the number of a command; empty for none."""
    if not cursor:
        return default
    position = cursor_in(cursor if "-" in cursor else f"0-{cursor}")
    if position is None:
        raise wrong(name, "must be the cursor of an answer", cursor)
    return position.place


ROUTES = (
    Route("get_order", "GET", "/api/orders/{orderId}", get_order, query=("maker", "fills")),
    Route("list_orders", "GET", "/api/orders", list_orders, query=LISTED),
    Route("list_fills", "GET", "/api/fills", list_fills, query=FILLS),
    Route("get_account", "GET", "/api/accounts/{maker}", get_account, query=("marketId", "minSeq")),
)
"""The routes of the orders and fills of makers; fixed names of orders precede ids."""
