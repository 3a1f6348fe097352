"""The figures of a report: money, own orders and their queues, counted from the tables, exactly."""

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.io.recording import Records
from clob.replay.io.streams import OWN_ID, Instrument
from clob.replay.sim.orders import OrderState

if TYPE_CHECKING:
    from clob.replay.results import Backtest


FEW = 4
"""Fewer groups than this are made finer."""


class Money(NamedTuple):
    """What became of the money, in wei of collateral."""

    initial: int
    """The collateral it began with."""
    collateral: int
    """The collateral there is in the end."""
    wealth: int
    """Collateral and the value of all tokens in the end."""
    realised: int
    """The profit realised, fees taken off."""
    unrealised: int
    """The profit there is on paper: what the tokens are worth less what they cost."""
    fees: int
    """The fees paid in collateral."""
    fee_tokens: int
    """The fees paid in tokens, in wei of whichever tokens they were."""
    drawdown: int
    """The largest fall below an earlier peak of the wealth, 0 or more."""
    drawdown_ns: int
    """When that was reached."""

    @property
    def profit(self) -> int:
        """Give what was won or lost in all."""
        return self.wealth - self.initial


def money_of(result: "Backtest") -> Money | None:
    """Sum up the money of a run; None where nothing was owned."""
    portfolio, equity = result.portfolio, result.equity
    if portfolio is None or not len(equity):
        return None
    wealth = int(equity["wealth"][-1])
    falls = drawdowns(equity["wealth"])
    deepest = int(np.argmin(falls))
    return Money(
        initial=portfolio.initial,
        collateral=portfolio.collateral,
        wealth=wealth,
        realised=portfolio.realised,
        unrealised=wealth - portfolio.initial - portfolio.realised,
        fees=portfolio.fees_paid,
        fee_tokens=sum(result.own_fills["fee_tokens"].tolist()),
        drawdown=-int(falls[deepest]),
        drawdown_ns=int(equity["ts_ns"][deepest]),
    )


def drawdowns(wealth: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Give how far below its peak so far each wealth is, 0 or less.

    Args:
        wealth: Python integers as objects.
    """
    falls: npt.NDArray[Any] = wealth - np.maximum.accumulate(wealth)
    return falls


class OwnOrders(NamedTuple):
    """What became of own orders; arrays with an entry for each, in order of sending."""

    rows: npt.NDArray[np.void]
    """The table of orders."""
    filled: npt.NDArray[np.int64]
    """How much of each was filled, in lots, heard of or not."""
    first_ns: npt.NDArray[np.int64]
    """When each was first filled; -1 if never."""
    resting_ns: npt.NDArray[np.int64]
    """When each was first filled while it rested; -1 if never."""

    def which(self, fate: str) -> npt.NDArray[np.bool_]:
        """Tell which orders met a fate of :data:`FATES`."""
        rows, filled = self.rows, self.filled
        whole, some, refused = self.whole, filled > 0, self.refused
        gone = (rows["done_ns"] >= 0) & ~refused
        return {
            "filled whole": whole,
            "filled in part, then cancelled": some & ~whole & gone,
            "cancelled with nothing filled": ~some & gone,
            "refused": refused,
            "in the book at the end": (rows["arrived_ns"] >= 0) & ~whole & ~gone & ~refused,
            "under way at the end": rows["arrived_ns"] < 0,
        }[fate]

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """Tell which were filled whole."""
        full: npt.NDArray[np.bool_] = (self.filled == self.rows["size"]) & (self.filled > 0)
        return full

    @property
    def refused(self) -> npt.NDArray[np.bool_]:
        """Tell which were refused, as far as the strategy has heard."""
        told: npt.NDArray[np.bool_] = self.rows["state"] == int(OrderState.REFUSED)
        return told

    @property
    def rested(self) -> npt.NDArray[np.bool_]:
        """Tell which came to rest."""
        told: npt.NDArray[np.bool_] = self.rows["ahead"] >= 0
        return told


FATES = (
    "filled whole",
    "filled in part, then cancelled",
    "cancelled with nothing filled",
    "refused",
    "in the book at the end",
    "under way at the end",
)
"""What may become of an own order; of each, exactly one."""


def own_orders(result: "Backtest") -> OwnOrders:
    """Find what became of the own orders, from the fills themselves."""
    rows, fills = result.orders, result.own_fills
    filled = np.zeros(len(rows), np.int64)
    first, resting = (np.full(len(rows), -1, np.int64) for _ in range(2))
    places = (fills["order_id"] - np.uint64(OWN_ID)).astype(np.int64)
    np.add.at(filled, places, fills["size"])
    # Backwards, so that the first fill of an order is written last.
    first[places[::-1]] = fills["ts_ns"][::-1]
    rests = np.flatnonzero(fills["resting"])[::-1]
    resting[places[rests]] = fills["ts_ns"][rests]
    return OwnOrders(rows, filled, first, resting)


class Rank(NamedTuple):
    """The own orders that found so much in front of them."""

    low: int
    """The least that was ahead, in lots."""
    high: int
    """The most, in lots."""
    orders: int
    """How many they are."""
    whole: int
    """How many were filled whole."""
    partly: int
    """How many in part."""
    size: int
    """What they were for, in lots."""
    filled: int
    """How much of that was filled, in lots."""
    wait_ns: int | None
    """The median of the time to the first fill of those that had one."""


def ranks(orders: OwnOrders) -> list[Rank]:
    """Group the orders that rested by what was in front of them."""
    ahead, found = orders.rows["ahead"], []
    rested = ahead[orders.rested]
    for low, high in groups(rested.tolist()):
        mine = (ahead >= low) & (ahead <= high)
        waits = waits_of(orders, mine)
        found.append(
            Rank(
                low,
                high,
                int(np.count_nonzero(mine)),
                int(np.count_nonzero(mine & orders.whole)),
                int(np.count_nonzero(mine & ~orders.whole & (orders.filled > 0))),
                sum(orders.rows["size"][mine].tolist()),
                sum(orders.filled[mine].tolist()),
                waits[(len(waits) - 1) // 2] if waits else None,
            )
        )
    return found


def waits_of(orders: OwnOrders, which: npt.NDArray[np.bool_]) -> list[int]:
    """List how long orders rested until their first fill, in ns, the shortest first."""
    mine = which & (orders.resting_ns >= 0)
    waits = orders.resting_ns[mine] - orders.rows["arrived_ns"][mine]
    return sorted(waits.tolist())


def groups(values: Iterable[int]) -> list[tuple[int, int]]:
    """Part numbers from 0 on into groups: 0, and tens, hundreds and so on.

    Where those are few, they are parted at 2 and 5 as well. Groups without any are left out at
    both ends.

    Args:
        values: the numbers.

    Returns:
        The lowest and the highest number that belongs to each group.

    >>> groups([0, 7, 12])
    [(0, 0), (5, 9), (10, 19)]
    """
    known = sorted(set(values))
    found = _groups(known, (1,))
    return found if len(found) >= FEW else _groups(known, (1, 2, 5))


def _groups(known: list[int], units: tuple[int, ...]) -> list[tuple[int, int]]:
    """Part sorted numbers into groups that begin with these digits."""
    if not known:
        return []
    begins = [0]
    power = 1
    while power <= known[-1]:
        begins += [power * unit for unit in units]
        power *= 10
    begins.append(power)
    pairs = [(low, high - 1) for low, high in itertools.pairwise(begins)]
    rest = known[1:] if known[0] == 0 else known
    found = [(0, 0)] if known[0] == 0 else []
    if rest:
        found += [one for one in pairs if one[1] >= rest[0] and 0 < one[0] <= rest[-1]]
    return found


NOBODY = -1
"""Stands for an instrument that is not known."""


class Flow(NamedTuple):
    """What happened in one book."""

    instrument: Instrument
    """The book."""
    name: str
    """What to call it."""
    trades: Records
    """Its rows of ``fills``."""
    bests: Records
    """Its rows of ``bests``."""
    own_fills: Records
    """The fills of own orders in it."""
    buys: npt.NDArray[np.bool_]
    """Of each of those, whether the own order bought."""
    positions: Records
    """Its rows of ``positions``."""

    @property
    def volume(self) -> int:
        """Give how much traded, in lots."""
        return sum(self.trades["size"].tolist())

    @property
    def own_volume(self) -> int:
        """Give how much own orders traded, in lots."""
        return sum(self.own_fills["size"].tolist())


def flows(result: "Backtest") -> list[Flow]:
    """Part a run by instrument, by number."""
    trades = instruments_of_fills(result)
    own, positions = result.own_fills, result.positions
    places = (own["order_id"] - np.uint64(OWN_ID)).astype(np.int64)
    buys = result.orders["side"][places] == 0
    found = []
    for one in sorted(result.setting.instruments):
        mine = own["instrument"] == one.number
        found.append(
            Flow(
                one,
                name_of(one, alone=len(result.setting.instruments) == 1),
                _rows(result.fills, trades == one.number),
                _rows(result.bests, result.bests["instrument"] == one.number),
                own[mine],
                buys[mine],
                positions[positions["instrument"] == one.number],
            )
        )
    return found


def name_of(instrument: Instrument, *, alone: bool = False) -> str:
    """Say what to call a book.

    Args:
        instrument: which.
        alone: whether there is no other.
    """
    if alone and not instrument.market:
        return instrument.outcome
    market = instrument.market or f"market {instrument.number // 2}"
    return f"{market} {instrument.outcome}"


def _rows(rows: Records, which: npt.NDArray[np.bool_]) -> Records:
    """Take some rows of a table of numbers."""
    return rows if which.all() else rows.take(np.flatnonzero(which))


def instruments_of_fills(result: "Backtest") -> npt.NDArray[np.int64]:
    """Find the book of each trade, which its record does not say.

    A trade changes a best price or its size, so that the best prices of its event say where it
    was; of an own order that is known anyway.

    Returns:
        The numbers; -1 where best prices were not kept and it is not known.
    """
    fills, bests = result.fills, result.bests
    if len(result.setting.instruments) == 1:
        return np.full(len(fills), result.setting.instruments[0].number, np.int64)
    found = np.full(len(fills), NOBODY, np.int64)
    if len(bests):
        # What own orders change before an event bears its number too, and stands before it.
        last = np.searchsorted(bests["event"], fills["event"], side="right") - 1
        known = (last >= 0) & (bests["event"][last] == fills["event"])
        found[known] = bests["instrument"][last[known]]
    for side in ("resting_id", "incoming_id"):
        mine = np.flatnonzero(fills[side] >= np.uint64(OWN_ID))
        places = (fills[side][mine] - np.uint64(OWN_ID)).astype(np.int64)
        found[mine] = result.orders["instrument"][places]
    return found


def top(rows: Records, side: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Give the best price of each row of ``bests``, and whether there was one.

    Args:
        rows: array of ``BEST``.
        side: ``"bid"`` or ``"ask"``.
    """
    return rows[side], rows[f"{side}_size"] > 0


# MERGED clob.replay.report.summary: Parts the tables of a run by instrument: trades, best prices, own fills, positions.
