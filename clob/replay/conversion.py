"""Columns of the tables of a backtest for other libraries: as stored, or readable.

Readable columns have amounts in tokens, times with a date, and names for sides and states. They are
for tables and plots; sums of money belong to the stored integers, since tokens are floats.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.order import Side
from clob.replay.io.recording import Records
from clob.replay.sim.orders import OrderState

Column: TypeAlias = npt.NDArray[Any]
Units: TypeAlias = Literal["stored", "tokens"]
"""``stored``: lots, ticks and wei as in the arrays. ``tokens``: sizes and money in tokens as
floats, prices in ticks, and names for sides and states."""

WEI_PER_TOKEN = 10**18
LOTS = ("size", "filled", "ahead", "bid_size", "ask_size")
"""Columns of integers in lots; -1 is no value. The same names with Python integers are in wei."""
TIMES = {"ts_ns": "time", "sent_ns": "sent", "arrived_ns": "arrived", "done_ns": "done"}
"""Names of columns with a time, and those of their timestamps."""
NAMES: Mapping[str, Column] = {
    "side": np.array([side.name for side in Side]),
    "state": np.array([state.name for state in OrderState]),
}
"""Names of the values of a column."""


def columns_of(rows: Records, lot_wei: int, units: Units, *, times: bool) -> dict[str, Column]:
    """Return the columns of a table.

    Args:
        rows: the table.
        lot_wei: wei in a lot.
        units: see :data:`Units`.
        times: whether times become timestamps, of nanoseconds since 1970. A recording that counts
            from midnight has the first of January 1970.

    Raises:
        ValueError: there are no such units.
    """
    if units not in ("stored", "tokens"):
        raise ValueError(f"units must be stored or tokens; got {units!r}")
    columns: dict[str, Column] = {name: rows[name] for name in rows.dtype.names or ()}
    if units == "tokens":
        columns = {name: readable(name, column, lot_wei) for name, column in columns.items()}
    if times:
        columns = {
            TIMES.get(name, name): timestamps(name, column) if name in TIMES else column
            for name, column in columns.items()
        }
    return columns


def readable(name: str, column: Column, lot_wei: int) -> Column:
    """Return a column with amounts in tokens and values by name."""
    if column.dtype.kind == "O":
        return np.array([amount / WEI_PER_TOKEN for amount in column.tolist()], np.float64)
    if name in LOTS:
        return np.where(column < 0, np.nan, column / (WEI_PER_TOKEN / lot_wei))
    return NAMES[name][column] if name in NAMES else column


def timestamps(name: str, column: Column) -> Column:
    """Return times as ``datetime64[ns]``; no time, -1 in an order, is NaT."""
    found = column.astype("datetime64[ns]")
    if name != "ts_ns":
        found[column == -1] = np.datetime64("NaT", "ns")
    return found
