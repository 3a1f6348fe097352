"""The figures of a report, counted exactly: money, own orders, queues, and tables by book."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.io.recording import Records
from clob.replay.io.streams import OWN_ID, Instrument
from clob.replay.report.run import ReportedRun
from clob.replay.sim.orders import OrderState

FEW = 4
"""With fewer groups than this, finer groups are used."""


class Money(NamedTuple):
    """The money of a run, in wei of collateral."""

    initial: int
    """The collateral at the start."""
    collateral: int
    """The collateral at the end."""
    wealth: int
    """Collateral plus the value of all tokens at the end."""
    realised: int
    """Realised profit after fees."""
    unrealised: int
    """Unrealised profit: the value of the tokens minus their cost."""
    fees: int
    """The fees paid in collateral."""
    fee_tokens: int
    """The fees paid in tokens, in wei, summed over all tokens."""
    drawdown: int
    """The largest fall of the wealth below an earlier peak, 0 or more."""
    drawdown_ns: int
    """The time of the largest drawdown."""

    @property
    def profit(self) -> int:
        """The total profit or loss."""
        return self.wealth - self.initial


def money_of(result: ReportedRun) -> Money | None:
    """Sum up the money of a run; None without a portfolio."""
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
    """Return the distance of each wealth from its peak so far, 0 or less.

    Args:
        wealth: Python integers as objects.
    """
    falls: npt.NDArray[Any] = wealth - np.maximum.accumulate(wealth)
    return falls


class OwnOrders(NamedTuple):
    """The results of own orders; arrays with an entry per order, in order of sending."""

    rows: npt.NDArray[np.void]
    """The table of orders."""
    filled: npt.NDArray[np.int64]
    """The filled size of each order, in lots, including fills not yet reported."""
    first_ns: npt.NDArray[np.int64]
    """The time of the first fill of each order; -1 if it has none."""
    resting_ns: npt.NDArray[np.int64]
    """The time of the first fill as a resting order; -1 if it has none."""

    def which(self, fate: str) -> npt.NDArray[np.bool_]:
        """Return a mask of the orders with a result of :data:`FATES`."""
        rows, filled = self.rows, self.filled
        whole, some, rejected = self.whole, filled > 0, self.rejected
        gone = (rows["done_ns"] >= 0) & ~rejected
        return {
            "completely filled": whole,
            "partially filled, then cancelled": some & ~whole & gone,
            "cancelled with nothing filled": ~some & gone,
            "rejected": rejected,
            "in the book at the end": (rows["arrived_ns"] >= 0) & ~whole & ~gone & ~rejected,
            "in transit at the end": rows["arrived_ns"] < 0,
        }[fate]

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """A mask of completely filled orders."""
        full: npt.NDArray[np.bool_] = (self.filled == self.rows["size"]) & (self.filled > 0)
        return full

    @property
    def rejected(self) -> npt.NDArray[np.bool_]:
        """A mask of rejected orders, as reported to the strategy."""
        mask: npt.NDArray[np.bool_] = self.rows["state"] == int(OrderState.REJECTED)
        return mask

    @property
    def rested(self) -> npt.NDArray[np.bool_]:
        """A mask of orders that rested."""
        mask: npt.NDArray[np.bool_] = self.rows["ahead"] >= 0
        return mask


FATES = (
    "completely filled",
    "partially filled, then cancelled",
    "cancelled with nothing filled",
    "rejected",
    "in the book at the end",
    "in transit at the end",
)
"""The results of own orders; each order has exactly one."""


def own_orders(result: ReportedRun) -> OwnOrders:
    """Compute the results of own orders from their fills."""
    rows, fills = result.orders, result.own_fills
    filled = np.zeros(len(rows), np.int64)
    first, resting = (np.full(len(rows), -1, np.int64) for _ in range(2))
    places = (fills["order_id"] - np.uint64(OWN_ID)).astype(np.int64)
    np.add.at(filled, places, fills["size"])
    # Backwards, so that the first fill of an order is written last and stays.
    first[places[::-1]] = fills["ts_ns"][::-1]
    rests = np.flatnonzero(fills["resting"])[::-1]
    resting[places[rests]] = fills["ts_ns"][rests]
    return OwnOrders(rows, filled, first, resting)


class Rank(NamedTuple):
    """The own orders with a similar size ahead of them."""

    low: int
    """The smallest size ahead, in lots."""
    high: int
    """The largest size ahead, in lots."""
    orders: int
    """The number of orders."""
    whole: int
    """The number of completely filled orders."""
    partly: int
    """The number of partially filled orders."""
    size: int
    """The total size of the orders, in lots."""
    filled: int
    """The filled size, in lots."""
    wait_ns: int | None
    """The median time to the first fill, of the orders that had one."""


def ranks(orders: OwnOrders) -> list[Rank]:
    """Group the orders that rested by the size ahead of them."""
    ahead, ranked = orders.rows["ahead"], []
    rested = ahead[orders.rested]
    for low, high in groups(rested.tolist()):
        mine = (ahead >= low) & (ahead <= high)
        waits = waits_of(orders, mine)
        ranked.append(
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
    return ranked


def waits_of(orders: OwnOrders, which: npt.NDArray[np.bool_]) -> list[int]:
    """Return the times from resting to the first fill, in ns, sorted."""
    mine = which & (orders.resting_ns >= 0)
    waits = orders.resting_ns[mine] - orders.rows["arrived_ns"][mine]
    return sorted(waits.tolist())


def groups(values: Iterable[int]) -> list[tuple[int, int]]:
    """Divide numbers from 0 on into groups: 0, and powers of ten.

    With few groups, the limits 2 and 5 are used as well. Empty groups at both ends are dropped.

    Args:
        values: the numbers.

    Returns:
        The lowest and the highest number of each group.

    >>> groups([0, 7, 12])
    [(0, 0), (5, 9), (10, 19)]
    """
    known = sorted(set(values))
    tens = _groups(known, (1,))
    return tens if len(tens) >= FEW else _groups(known, (1, 2, 5))


def _groups(known: list[int], units: tuple[int, ...]) -> list[tuple[int, int]]:
    """Divide sorted numbers into groups that start with these digits."""
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
    result = [(0, 0)] if known[0] == 0 else []
    if rest:
        result += [one for one in pairs if one[1] >= rest[0] and 0 < one[0] <= rest[-1]]
    return result


UNKNOWN = -1
"""The instrument of a trade whose book is not known."""


class Flow(NamedTuple):
    """The tables of one book."""

    instrument: Instrument
    """The book."""
    name: str
    """The title."""
    trades: Records
    """Its rows of ``fills``."""
    bests: Records
    """Its rows of ``bests``."""
    own_fills: Records
    """The fills of own orders in it."""
    buys: npt.NDArray[np.bool_]
    """For each own fill, whether the own order bought."""
    positions: Records
    """Its rows of ``positions``."""

    @property
    def volume(self) -> int:
        """The traded size, in lots."""
        return sum(self.trades["size"].tolist())

    @property
    def own_volume(self) -> int:
        """The size traded by own orders, in lots."""
        return sum(self.own_fills["size"].tolist())


def flows(result: ReportedRun) -> list[Flow]:
    """Split the tables of a run by instrument."""
    trades = instruments_of_fills(result)
    own, positions = result.own_fills, result.positions
    places = (own["order_id"] - np.uint64(OWN_ID)).astype(np.int64)
    buys = result.orders["side"][places] == 0
    books = []
    for one in sorted(result.setting.instruments):
        mine = own["instrument"] == one.number
        books.append(
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
    return books


def name_of(instrument: Instrument, *, alone: bool = False) -> str:
    """Return the title of a book.

    Args:
        instrument: the book.
        alone: whether it is the only one.
    """
    if alone and not instrument.market:
        return instrument.outcome
    market = instrument.market or f"market {instrument.number // 2}"
    return f"{market} {instrument.outcome}"


def _rows(rows: Records, which: npt.NDArray[np.bool_]) -> Records:
    """Select rows of a table."""
    return rows if which.all() else rows.take(np.flatnonzero(which))


def instruments_of_fills(result: ReportedRun) -> npt.NDArray[np.int64]:
    """Find the book of each trade, which its record does not contain.

    A trade changes a best price or its size, so the ``bests`` rows of its event name the book. The
    book of an own order is known.

    Returns:
        The instrument numbers; -1 if best prices were not kept and the book is unknown.
    """
    fills, bests = result.fills, result.bests
    if len(result.setting.instruments) == 1:
        return np.full(len(fills), result.setting.instruments[0].number, np.int64)
    numbers = np.full(len(fills), UNKNOWN, np.int64)
    if len(bests):
        # Changes by own orders before an event have its number, too, and come first.
        last = np.searchsorted(bests["event"], fills["event"], side="right") - 1
        known = (last >= 0) & (bests["event"][last] == fills["event"])
        numbers[known] = bests["instrument"][last[known]]
    for side in ("resting_id", "incoming_id"):
        mine = np.flatnonzero(fills[side] >= np.uint64(OWN_ID))
        places = (fills[side][mine] - np.uint64(OWN_ID)).astype(np.int64)
        numbers[mine] = result.orders["instrument"][places]
    return numbers


def top(rows: Records, side: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the best price of each row of ``bests``, and whether the side had orders.

    Args:
        rows: array of ``BEST``.
        side: ``"bid"`` or ``"ask"``.
    """
    return rows[side], rows[f"{side}_size"] > 0
