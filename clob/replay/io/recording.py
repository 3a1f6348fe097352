"""A recording: order flow as arrays, and the fills that came of it where it was recorded."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clob.records import FILL, Kind

Records: TypeAlias = npt.NDArray[np.void]
"""An array of ``EVENT`` or of ``FILL``."""

FIRST_RECORD = 16
"""The lowest kind that is a record to compare with and no command."""

CENTS = 100
"""How many ticks one token is worth at most, or a whole of collateral, where a tick is a cent."""


def ticks_of(whole: int, tick: int) -> int:
    """Tell how many ticks a whole of collateral is.

    Args:
        whole: the whole, in a unit of the file.
        tick: a tick, in the same unit.

    Returns:
        That; ``CENTS`` where a whole is no number of ticks, so that nobody can say.
    """
    return CENTS if whole % tick else whole // tick


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """Order flow of one book, ready to be replayed. Building one checks nothing."""

    events: Records
    """What happened, in order; array of ``EVENT``."""
    seed: Records
    """Orders that rested beforehand, oldest first; array of ``EVENT``, all of ``Kind.SEED``."""
    fills: Records | None
    """What was recorded to have come of it; array of ``FILL``, ``event`` counting from the first
    of ``events``. None where nobody took it down."""
    lo: int
    """The lowest price of the grid, in ticks."""
    hi: int
    """The highest price of the grid, in ticks."""
    lot_wei: int
    """What a size of 1 stands for, in wei."""
    name: str = ""
    """What to call it, on one line."""
    note: str = ""
    """Where it comes from."""


def join(parts: Sequence[Records]) -> Records:
    """Put arrays of records behind one another.

    NumPy copies records field by field, which takes thirty times as long as their bytes;
    so does indexing by an array, for which ``records.take(places)`` is the quick way.

    Args:
        parts: one array or more, all of one dtype.

    Returns:
        A new array.
    """
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    np.concatenate([plain(part) for part in parts], out=plain(whole))
    return whole


def plain(rows: Records) -> npt.NDArray[np.uint8]:
    """Give records as mere bytes, which NumPy copies in one piece."""
    return np.ascontiguousarray(rows).view(np.uint8)


def split_fills(events: Records) -> tuple[Records, Records]:
    """Part ``FILL`` records from the events they stand behind.

    Args:
        events: array of ``EVENT``.

    Returns:
        The events without them, and an array of ``FILL`` whose ``event`` counts from the first of
        those events.

    Raises:
        ValueError: a fill stands before any command.
    """
    kind = events["kind"]
    filled = kind == Kind.FILL
    others, records = (events.take(np.flatnonzero(some)) for some in (~filled, filled))
    # Of each fill: the place of the last command before it, among the events that are no fills.
    place = np.cumsum(~filled) - 1
    command = np.maximum.accumulate(np.where(kind < FIRST_RECORD, place, -1))[filled]
    if len(command) and command[0] < 0:
        raise ValueError("a fill stands before any command")
    fills = np.zeros(len(records), FILL)
    fills["event"] = command
    fills["resting_id"] = records["order_id"]
    fills["incoming_id"] = others["order_id"].take(command)
    for field in ("size", "price", "ts_ns"):
        fills[field] = records[field]
    return others, fills
