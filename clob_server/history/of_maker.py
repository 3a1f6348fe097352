"""Queries of history by maker: fills, and finished orders.

A fill is a trade from the view of one of its makers. Its place stays the same when history is
rebuilt.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw

from clob import OrderStatus, PairedTrade, Side
from clob_server.core.ids import Cursor, fill_place
from clob_server.history.store import EXPIRED, Row, TradeRow, trade_from_row

FINISHED: Final = (OrderStatus.FILLED.value, OrderStatus.CANCELLED.value, EXPIRED)
"""Statuses of finished orders in history, where expired and cancelled ones differ."""
PLACE_MAX: Final = 2**62
"""Above every place of a fill and every number of an order."""

_COMMAND_SEQ: Final = 16
"""Index of the command in a row of a trade."""
# Without INDEXED BY, a query with a market reads all trades of the market.
_OF_PARTY: Final = (
    "SELECT * FROM trades INDEXED BY trades_{0}{1} WHERE {0}=?{2} AND number{3}? "
    "ORDER BY number {4} LIMIT ?"
)
_FINISHED: Final = (
    "SELECT rowid, CASE WHEN {} THEN body END FROM orders INDEXED BY orders_{} "
    "WHERE maker=? AND status=? AND rowid<?{} ORDER BY rowid DESC LIMIT ?"
)
_NEWEST_FINISHED: Final = (
    "SELECT rowid, command_seq, finished_ms, market, body FROM orders INDEXED BY orders_maker "
    "WHERE maker=? AND status=? ORDER BY rowid DESC"
)
_INDEXES: Final = {"client_id": "client", "market": "market"}
"""The index of finished orders for the first of these filters."""
EXAMINED_MAX: Final = 2_000
"""Finished orders of each status that one query reads at most; a later query goes on after them."""


class FillRow(NamedTuple):
    """A fill."""

    trade: TradeRow
    command_seq: int
    """Number of the command that made the trade."""
    side: Side
    """Side of the maker's order."""
    is_incoming: bool
    """Whether the maker's order is the incoming one."""

    @property
    def place(self) -> int:
        """The place among all fills, rising with time."""
        return fill_place(self.trade.number, is_incoming=self.is_incoming)

    @property
    def cursor(self) -> Cursor:
        """The position of the fill."""
        return Cursor(self.command_seq, self.place)

    @property
    def order_id(self) -> str | int:
        """Id of the maker's order."""
        event = self.trade.event
        return event.incoming_order_id if self.is_incoming else event.resting_order_id


class FillRange(NamedTuple):
    """A query of fills."""

    maker: str
    market: str | None
    """Only fills of this market; None for all."""
    after: int
    """Place that precedes the result in its order."""
    limit: int
    newest_first: bool


class FinishedRange(NamedTuple):
    """A query of finished orders, newest first."""

    maker: str
    statuses: Sequence[str]
    """Statuses of :data:`FINISHED`."""
    before: int
    """Exclusive upper bound of the order's number in history."""
    limit: int
    filters: tuple[tuple[str, object], ...]
    """Columns with the values that they must have: market, token, side, client_id."""


class FinishedPage(NamedTuple):
    """Finished orders, newest first."""

    orders: list[tuple[int, bytes]]
    """Number in history and JSON of each."""
    end: int | None = None
    """Number before which more may follow; None if no more do. The page may have fewer orders than
    its limit, or none, where the filters select few."""


class MissedRange(NamedTuple):
    """A query of the changes of a maker's orders between two positions."""

    maker: str
    market: str | None
    """Only changes in this market; None for all."""
    after: Cursor
    until: Cursor
    limit: int
    """Maximum number of fills, and of finished orders."""


class MissedRows(NamedTuple):
    """Changes of a maker's orders between two positions, oldest first."""

    fills: list[FillRow]
    finished: list[tuple[int, bytes]]
    """Time, Unix milliseconds, and JSON of each finished order. Those of the command at the begin
    are included, since its changes may be known in part."""


def read_missed(db: apsw.Connection, wanted: MissedRange) -> MissedRows | None:
    """Return the changes of a range; None if some were deleted, or the limit is exceeded."""
    after, until, limit = wanted.after, wanted.until, wanted.limit
    following = FillRange(wanted.maker, wanted.market, after.place, limit + 1, newest_first=False)
    with db:  # all in one read
        rows: list[Any] = db.execute("SELECT command_seq FROM pruned").fetchall()
        if after.command_seq <= rows[0][0]:
            return None
        fills = [each for each in read_fills(db, following) if each.place <= until.place]
        finished = finished_between(db, wanted)
    if max(len(fills), len(finished)) > limit:
        return None
    return MissedRows(fills, [(now_ms, body) for _, now_ms, body in sorted(finished)])


def finished_between(db: apsw.Connection, wanted: MissedRange) -> list[tuple[int, int, bytes]]:
    """Return number, time and JSON of finished orders of a range, up to one beyond its limit."""
    found: list[tuple[int, int, bytes]] = []
    first, last = wanted.after.command_seq, wanted.until.command_seq
    for status in FINISHED:
        rows: Iterator[Any] = db.execute(_NEWEST_FINISHED, (wanted.maker, status))
        for number, command_seq, now_ms, market, body in rows:
            if command_seq < first or len(found) > wanted.limit:
                break
            if command_seq <= last and wanted.market in (None, market):
                found.append((number, now_ms, body))
    return found


def read_fills(db: apsw.Connection, wanted: FillRange) -> list[FillRow]:
    """Return fills of a maker by place, at most ``limit``."""
    newest = wanted.newest_first
    index, market, names = (
        ("", "", ()) if wanted.market is None else ("_market", " AND market=?", (wanted.market,))
    )
    found: list[FillRow] = []
    for party, side in (("buyer", Side.BUY), ("seller", Side.SELL)):
        query = _OF_PARTY.format(
            party, index, market, *(("<=", "DESC") if newest else (">=", "ASC"))
        )
        # The other fill of the trade at the bound may be before it: one more is read.
        arguments = (wanted.maker, *names, wanted.after // 2, wanted.limit + 1)
        rows: list[Any] = db.execute(query, arguments).fetchall()
        found.extend(fill_from_row(row, side) for row in rows)
    found.sort(key=lambda fill: fill.place, reverse=newest)
    after = wanted.after
    inside = [each for each in found if (each.place < after if newest else each.place > after)]
    return inside[: wanted.limit]


def read_fills_of(db: apsw.Connection, order_id: str, limit: int) -> list[FillRow]:
    """Return the fills of an order, oldest first, at most ``limit``."""
    found: list[FillRow] = []
    for role in ("resting", "incoming"):
        query = (
            f"SELECT * FROM trades INDEXED BY trades_{role} WHERE {role}_order_id=? "
            "ORDER BY number LIMIT ?"
        )
        rows: list[Any] = db.execute(query, (order_id, 2 * limit)).fetchall()
        found.extend(fill for row in rows for fill in fills_in(row) if fill.order_id == order_id)
    unique = {each.place: each for each in found}
    return [unique[place] for place in sorted(unique)[:limit]]


def read_finished(db: apsw.Connection, wanted: FinishedRange) -> FinishedPage:
    """Return finished orders of a maker, newest first, from ``EXAMINED_MAX`` per status."""
    columns = dict(wanted.filters)
    indexed = next((column for column in _INDEXES if column in columns), None)
    within = () if indexed is None else (columns.pop(indexed),)
    query = _FINISHED.format(
        " AND ".join(f"{column}=?" for column in columns) or "1",
        "maker" if indexed is None else _INDEXES[indexed],
        "" if indexed is None else f" AND {indexed}=?",
    )
    found: list[tuple[int, bytes]] = []
    end = 0
    for status in wanted.statuses:
        names = (*columns.values(), wanted.maker, status, wanted.before, *within, EXAMINED_MAX)
        selected, examined = examine(db.execute(query, names), wanted.limit)
        found += selected
        end = max(end, examined)
    found = sorted((each for each in found if each[0] >= end), reverse=True)
    if len(found) > wanted.limit:
        found = found[: wanted.limit]
        end = found[-1][0]
    return FinishedPage(found, end or None)


def examine(rows: Iterable[Any], limit: int) -> tuple[list[tuple[int, bytes]], int]:
    """Return up to ``limit`` rows with a body, and the number of the last row; 0 at the end."""
    selected: list[tuple[int, bytes]] = []
    for count, (number, body) in enumerate(rows, 1):
        if body is not None:
            selected.append((number, body))
        if count == EXAMINED_MAX or len(selected) == limit:
            return selected, number
    return selected, 0


def fill_from_row(row: Row, side: Side) -> FillRow:
    """Return the fill of the party on one side of a trade."""
    trade = trade_from_row(row)
    event = trade.event
    is_incoming = (
        event.is_incoming if isinstance(event, PairedTrade) else (event.incoming_side is side)
    )
    return FillRow(trade, row[_COMMAND_SEQ], side, is_incoming)


def fills_in(row: Row) -> Iterator[FillRow]:
    """Yield the fills of a trade: of its buyer, and of its seller."""
    for side in Side:
        fill = fill_from_row(row, side)
        event = fill.trade.event
        if event.buyer if side is Side.BUY else event.seller:
            yield fill
