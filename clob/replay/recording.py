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
    np.concatenate([_plain(part) for part in parts], out=_plain(whole))
    return whole


ROOM = 2**18
"""For how many records there is room at first. Memory that is not written to takes none, and from
4 MB on NumPy asks for large pages, which take a tenth of the time to be written to first."""

LARGE_PAGE, SMALL_PAGES = 2**21, 2**16
"""Large pages begin at multiples of the one; before them, a room has so many bytes of small pages,
so that a few records do not cost a large one."""

SMALL = 2**21
"""From how many bytes on records stay in the room that was made for them."""


class Gathered:
    """Records that come a few at a time, in one array that grows.

    They may be written where they stay: into what :meth:`room` gives, before :meth:`take`.

    Args:
        dtype: of the records.
    """

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._rows = _empty(ROOM, dtype)
        self._count = 0

    def __len__(self) -> int:
        """Count the records."""
        return self._count

    def room(self, count: int) -> Records:
        """Give the room behind the records taken, for so many or more.

        Until they are taken, what is written there is nobody's, and the next room is the same one.

        Args:
            count: how many records are to find room.
        """
        if self._count + count > len(self._rows):
            whole = _empty(max(self._count + count, 2 * len(self._rows)), self._rows.dtype)
            _plain(whole[: self._count])[:] = _plain(self._rows[: self._count])
            self._rows = whole
        return self._rows[self._count :]

    def take(self, rows: Records) -> None:
        """Put some records to the end; those at the head of the room are there already.

        Args:
            rows: the records.
        """
        end = self.room(len(rows))[: len(rows)]
        # As bytes these are one piece; as records each is copied for itself.
        if len(rows) and rows.ctypes.data != end.ctypes.data:
            _plain(end)[:] = _plain(rows)
        self._count += len(rows)

    def rows(self) -> Records:
        """Give them all: a view of what there is by now, or a copy where that is little."""
        rows = self._rows[: self._count]
        return join([rows]) if rows.nbytes < SMALL and 2 * len(rows) < len(self._rows) else rows


def _empty(count: int, dtype: np.dtype[np.void]) -> Records:
    """Make room for some records, nearly all of it in large pages where the system has them."""
    size = count * dtype.itemsize
    memory = np.empty(size + LARGE_PAGE, np.uint8)
    first = (-memory.ctypes.data - SMALL_PAGES) % LARGE_PAGE
    return memory[first : first + size].view(dtype)


def _plain(rows: Records) -> npt.NDArray[np.uint8]:
    """Give records as mere bytes."""
    return np.ascontiguousarray(rows).view(np.uint8)
