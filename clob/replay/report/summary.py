"""The figures of a report, counted exactly: money, own orders, queues, and tables by book."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.io.numerals import Mask
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
    """The value of the tokens minus their cost."""
    fees: int
    fee_tokens: int
    """The fees paid in tokens, in wei, summed over all tokens."""
    drawdown: int
    """The largest fall of the wealth below an earlier peak, 0 or more."""
    drawdown_ns: int

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
    """Return the distance of each wealth from its peak so far, 0 or less."""
    falls: npt.NDArray[Any] = wealth - np.maximum.accumulate(wealth)
    return falls


class OwnOrders(NamedTuple):
    """The results of own orders; arrays with an entry per order, in order of sending."""

    rows: Records
    filled: npt.NDArray[np.int64]
    """The filled size of each order, in lots, including fills not yet reported."""
    resting_ns: npt.NDArray[np.int64]
    """The time of the first fill as a resting order; -1 if it has none."""

    def fates(self) -> dict[str, Mask]:
        """Return a mask of the orders with each result; each order has exactly one."""
        rows, whole, some = self.rows, self.whole, self.filled > 0
        rejected: Mask = rows["state"] == int(OrderState.REJECTED)
        gone = (rows["done_ns"] >= 0) & ~rejected
        return {
            "completely filled": whole,
            "partially filled, then cancelled": some & ~whole & gone,
            "cancelled with nothing filled": ~some & gone,
            "rejected": rejected,
            "in the book at the end": (rows["arrived_ns"] >= 0) & ~whole & ~gone & ~rejected,
            "in transit at the end": rows["arrived_ns"] < 0,
        }

    @property
    def whole(self) -> Mask:
        """A mask of completely filled orders."""
        full: Mask = (self.filled == self.rows["size"]) & (self.filled > 0)
        return full

    @property
    def rested(self) -> Mask:
        """A mask of orders that rested."""
        mask: Mask = self.rows["ahead"] >= 0
        return mask


def own_orders(result: ReportedRun) -> OwnOrders:
    """Compute the results of own orders from their fills."""
    rows, fills = result.orders, result.own_fills
    filled = np.zeros(len(rows), np.int64)
    resting = np.full(len(rows), -1, np.int64)
    places = (fills["order_id"] - np.uint64(OWN_ID)).astype(np.int64)
    np.add.at(filled, places, fills["size"])
    # Backwards, so that the first fill of an order is written last and stays.
    rests = np.flatnonzero(fills["resting"])[::-1]
    resting[places[rests]] = fills["ts_ns"][rests]
    return OwnOrders(rows, filled, resting)


class Rank(NamedTuple):
    """The own orders with a similar size ahead of them; sizes in lots."""

    low: int
    """The smallest size ahead."""
    high: int
    """The largest size ahead."""
    orders: int
    whole: int
    """The number of completely filled orders."""
    partly: int
    """The number of partially filled orders."""
    size: int
    filled: int
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


def waits_of(orders: OwnOrders, which: Mask) -> list[int]:
    """Return the times from resting to the first fill, in ns, sorted."""
    mine = which & (orders.resting_ns >= 0)
    waits = orders.resting_ns[mine] - orders.rows["arrived_ns"][mine]
    return sorted(waits.tolist())


def groups(values: Iterable[int]) -> list[tuple[int, int]]:
    """Return the range of each group of numbers from 0 on: 0, and powers of ten.

    With few groups, the limits 2 and 5 are used as well. Empty groups at both ends are dropped.

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


class Flow(NamedTuple):
    """The tables of one book."""

    instrument: Instrument
    name: str
    """The title."""
    trades: Records
    """Its rows of ``fills``."""
    bests: Records
    own_fills: Records
    buys: Mask
    """For each own fill, whether the own order bought."""
    positions: Records

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
    trades = result.fills["instrument"]
    own, positions = result.own_fills, result.positions
    buys = own["side"] == 0
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
    """Return the title of a book; ``alone`` if there is no other."""
    if alone and not instrument.market:
        return instrument.outcome
    market = instrument.market or f"market {instrument.number // 2}"
    return f"{market} {instrument.outcome}"


def _rows(rows: Records, which: Mask) -> Records:
    return rows if which.all() else rows.take(np.flatnonzero(which))
