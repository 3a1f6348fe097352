"""Records that come a few at a time, in memory that the next run finds already written to.

The system gives memory a page at a time, and clears it first: for the tables of a short replay that
is a sixth of its time. So what nobody looks at any more is kept, little of it, for whoever is next.
"""

import weakref

import numpy as np
import numpy.typing as npt

from clob.replay.io.recording import Records, join, plain

ROOM = 2**18
"""For how many records there is room at first. Memory that is not written to takes none, and from
4 MB on NumPy asks for large pages, which take a tenth of the time to be written to first."""

LARGE_PAGE, SMALL_PAGES = 2**21, 2**16
"""Large pages begin at multiples of the one; before them, a room has so many bytes of small pages,
so that a few records do not cost a large one."""

SPARES, SPARE_MAX = 2, 2**24
"""How many pieces of memory are kept for later, and of how many bytes one may be: the first rooms
of the two tables of a run."""

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
            plain(whole[: self._count])[:] = plain(self._rows[: self._count])
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
            plain(end)[:] = plain(rows)
        self._count += len(rows)

    def rows(self) -> Records:
        """Give them all: a view of what there is by now, or a copy where that is little."""
        rows = self._rows[: self._count]
        return join([rows]) if rows.nbytes < SMALL and 2 * len(rows) < len(self._rows) else rows


def _empty(count: int, dtype: np.dtype[np.void]) -> Records:
    """Make room for some records, nearly all of it in large pages where the system has them."""
    size = count * dtype.itemsize
    memory = _memory(size + LARGE_PAGE)
    first = (-memory.ctypes.data - SMALL_PAGES) % LARGE_PAGE
    return memory[first : first + size].view(dtype)


_spares: list[memoryview] = []


def _memory(size: int) -> npt.NDArray[np.uint8]:
    """Give so many bytes, whatever they are; not too many are kept when their last view is gone."""
    if size > SPARE_MAX:
        return np.empty(size, np.uint8)
    try:
        # One of another size is let go: as a rule all first rooms have the same.
        spare = _spares.pop()
    except IndexError:
        spare = memoryview(b"")
    if len(spare) != size:
        spare = np.empty(size, np.uint8).data
    # What is cut out of an array refers to the whole one, unless its memory is no array's own.
    memory = np.frombuffer(spare, np.uint8)
    weakref.finalize(memory, _keep, spare).atexit = False
    return memory


def _keep(spare: memoryview) -> None:
    """Hear that nobody looks at some memory any more."""
    if len(_spares) < SPARES:
        _spares.append(spare)
