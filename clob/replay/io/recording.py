"""A recording: the order flow of one book as arrays, with its recorded fills if there are any."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clob.records import FILL, Kind

Records: TypeAlias = npt.NDArray[np.void]
"""An array of ``EVENT`` or of ``FILL``."""

FIRST_RECORD = 16
"""The lowest kind that is a record to compare with rather than a command."""

CENTS = 100
"""Ticks per token where a tick is a cent."""


OWN_ID = 2**62
"""The first id of the orders of a strategy; readers never assign ids from here on."""


def ticks_per_token(whole: int, tick: int) -> int:
    """Return ``whole / tick``, or ``CENTS`` if that is not an integer.

    ``whole`` is the price of a token that pays out, in the unit of the tick.
    """
    return CENTS if whole % tick else whole // tick


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """Order flow of one book, ready to be replayed. The constructor validates nothing."""

    events: Records
    """The events in order; array of ``EVENT``."""
    seed: Records
    """Orders that rest at the start, oldest first; array of ``EVENT``, all of ``Kind.SEED``."""
    fills: Records | None
    """The recorded fills, or None if they were not recorded; array of ``FILL``, whose ``event`` is
    an index into ``events``."""
    lo: int
    """The lowest price of the grid, in ticks."""
    hi: int
    """The highest price of the grid, in ticks."""
    lot_wei: int
    """The size of one lot, in wei."""
    name: str = ""
    """A title of one line."""
    note: str = ""
    """The source of the data."""
    scale: int = CENTS
    """Ticks per token."""
    market: str = ""
    """The name of the market."""
    outcome: str = "YES"
    """The name of the outcome."""
    inferred: bool = False
    """Whether a reader inferred the fills from levels and traded volumes."""
    labels: Sequence[str] = ()
    """The text of each price of the grid; empty where prices are ticks."""


def join(parts: Sequence[Records]) -> Records:
    """Concatenate one array of records or more, all of one dtype, to a new array.

    NumPy copies records field by field, which is thirty times slower than copying their bytes.
    The same holds for indexing by an array; use ``records.take(places)`` instead.
    """
    whole = np.empty(sum(map(len, parts)), parts[0].dtype)
    np.concatenate([as_bytes(part) for part in parts], out=as_bytes(whole))
    return whole


def as_bytes(rows: Records) -> npt.NDArray[np.uint8]:
    """View records as bytes, which NumPy copies in one piece."""
    return np.ascontiguousarray(rows).view(np.uint8)


def split_fills(events: Records) -> tuple[Records, Records]:
    """Separate ``FILL`` records from the events that they follow.

    Returns:
        The events without them, and an array of ``FILL`` whose ``event`` is an index into those
        events.

    Raises:
        ValueError: a fill precedes the first command.
    """
    kind = events["kind"]
    filled = kind == Kind.FILL
    others, records = (events.take(np.flatnonzero(some)) for some in (~filled, filled))
    # For each fill the index of the last command before it, among the events without fills.
    place = np.cumsum(~filled) - 1
    command = np.maximum.accumulate(np.where(kind < FIRST_RECORD, place, -1))[filled]
    if len(command) and command[0] < 0:
        raise ValueError("a fill must follow its command; got a fill before the first command")
    fills = np.zeros(len(records), FILL)
    fills["event"] = command
    fills["resting_id"] = records["order_id"]
    fills["incoming_id"] = others["order_id"].take(command)
    for field in ("size", "price", "ts_ns"):
        fills[field] = records[field]
    return others, fills
