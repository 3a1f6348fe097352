"""The middle of others at own fills and some time after them, for adverse selection.

A run records it only where horizons are asked for, since the driver stops once more for each
fill and horizon.
"""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.replay.io.streams import OWN
from clob.replay.sim.driver import NEVER
from clob.replay.sim.orders import OwnFill

NO_MID = -(2**63)
"""The entry for a book with an empty side, or a horizon after the end of the run."""


class Markouts:
    """Records the middle of others at each own fill and at each horizon after it.

    Args:
        books: the books by instrument.
        horizons_ns: the times after a fill, in ns.

    Raises:
        ValueError: a horizon is not an integer of 1 or more.
    """

    def __init__(self, books: Mapping[int, Book], horizons_ns: Sequence[int]) -> None:
        for one in horizons_ns:
            if type(one) is not int or one < 1:
                raise ValueError(f"horizons_ns must be integers of 1 or more; got {one!r}")
        self.due_ns: int = NEVER
        """When the next middle is due; ``NEVER`` without one."""
        self._books = books
        self._horizons_ns = tuple(horizons_ns)
        self._rows: list[list[int]] = []
        self._pending: list[deque[tuple[int, int, int]]] = [deque() for _ in horizons_ns]

    def add(self, now_ns: int, fills: Sequence[OwnFill]) -> None:
        """Record the middle at fills, and expect the later ones.

        Args:
            now_ns: the time of the fills.
            fills: own fills; those without a size are not trades.
        """
        for fill in fills:
            if not fill.size:
                continue
            for horizon_ns, pending in zip(self._horizons_ns, self._pending, strict=True):
                pending.append((now_ns + horizon_ns, len(self._rows), fill.instrument))
            self._rows.append([self._mid(fill.instrument), *(NO_MID for _ in self._horizons_ns)])
        self._update_due()

    def record(self, now_ns: int) -> None:
        """Record the middles that are due.

        Args:
            now_ns: the time, up to which all recorded events were executed.
        """
        for place, pending in enumerate(self._pending, 1):
            while pending and pending[0][0] <= now_ns:
                _, row, instrument = pending.popleft()
                self._rows[row][place] = self._mid(instrument)
        self._update_due()

    def table(self) -> npt.NDArray[np.int64]:
        """Return the middles in half ticks: a row per fill, first that at the fill."""
        return np.array(self._rows, np.int64).reshape(-1, 1 + len(self._horizons_ns))

    def _update_due(self) -> None:
        self.due_ns = min((pending[0][0] for pending in self._pending if pending), default=NEVER)

    def _mid(self, instrument: int) -> int:
        bid, ask = self._books[instrument]._best_of_others(OWN)
        return NO_MID if bid is None or ask is None else bid + ask
