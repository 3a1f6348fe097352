"""Parts the tables of a run by instrument: trades, best prices, own fills, positions."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clob.replay.recording import Records
from clob.replay.streams import OWN_ID, Instrument

if TYPE_CHECKING:
    from clob.replay.results import Backtest

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
