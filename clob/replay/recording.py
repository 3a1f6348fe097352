"""A recording: order flow as arrays, and the fills that came of it where it was recorded."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Records: TypeAlias = npt.NDArray[np.void]
"""An array of ``EVENT`` or of ``FILL``."""


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
