"""Depth snapshots of the books at equal times of a run, for the report."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.records import LOTS_MAX
from clob.replay.io.recording import Records, join
from clob.replay.sim.driver import Driver, Stop
from clob.replay.sim.orders import OwnFill

LEVEL_FIELDS = {"snapshot": "<u4", "instrument": "<u2", "side": "u1", "price": "<i4", "size": "<i8"}
"""The fields of a level: index of the snapshot, instrument, side, price in ticks, size in lots."""

LEVEL = np.dtype(list(LEVEL_FIELDS.items()))
"""The record of a level."""

LEVELS_MAX = 100
"""Levels per side of a snapshot at most, best first."""

SAMPLES = 256
"""Snapshots for a report. A run has at least so many if it is long enough, and fewer than twice as
many."""


@dataclasses.dataclass(frozen=True, eq=False)
class Depths:
    """Depth of the books at equal times."""

    times: npt.NDArray[np.int64]
    """Time of each snapshot, in ns: equal steps, and finally the end. A snapshot shows the book
    after all events of its time, own orders included."""
    levels: Records
    """Array of :data:`LEVEL_FIELDS`: by snapshot, then instrument, then side (bids first), best
    first."""


class Sampler:
    """A driver that stops another driver at equal times to record the depth of its books.

    The length of a run is not known in advance, so the first step is one nanosecond. When there are
    twice as many snapshots as requested, every second one is dropped and the step doubles. The
    snapshots do not depend on the chunk size.

    Args:
        driver: executes the flow; only the sampler may advance it.
        count: minimum number of snapshots in a run that is long enough; the result has fewer than
            twice as many, plus one at the end.

    Raises:
        ValueError: the count is not an integer of 1 or more.
    """

    def __init__(self, driver: Driver, count: int = SAMPLES) -> None:
        if type(count) is not int or count < 1:
            raise ValueError(f"sample must be None or an integer of 1 or more; got {count!r}")
        self._driver = driver
        self._num_max = 2 * count
        self._step_ns = 1
        self._next_ns = driver.start_ns + self._step_ns
        self._own_actions = 0
        self._cache: dict[int, tuple[tuple[int, int], Records]] = {}
        self._times: list[int] = []
        self._snapshots: list[list[Records]] = []
        self.books: Mapping[int, Book] = driver.books
        self.history: Mapping[int, Book] = driver.history
        self.lot_wei: int = driver.lot_wei
        self.start_ns: int = driver.start_ns
        self.last_ns: int = driver.last_ns
        self.ended: bool = driver.ended
        self.changed: int = -1

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events and take snapshots on the way; see :meth:`Driver.advance`."""
        driver = self._driver
        fills: list[OwnFill] = []
        while not driver.ended and self._next_ns < until_ns:
            fills += self._advance(self._next_ns, stop)
            if stop and (fills or driver.changed >= 0):
                break
            if not driver.ended:
                self._add_snapshot(self._next_ns)
        else:
            fills += self._advance(until_ns, stop)
        self.last_ns, self.ended, self.changed = driver.last_ns, driver.ended, driver.changed
        return fills

    def _advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events without a snapshot."""
        own = self._driver.advance(until_ns, stop)
        self._own_actions += len(own)
        return own

    def submit(self, *order: int) -> tuple[int, int, list[OwnFill]]:
        """Execute a new own order; see :meth:`Driver.submit`."""
        self._own_actions += 1
        return self._driver.submit(*order)

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Cancel an own order; see :meth:`Driver.cancel`."""
        self._own_actions += 1
        return self._driver.cancel(ts_ns, instrument, order_id)

    def last_price(self, instrument: int) -> int | None:
        """Return the price of the last trade in a book; see :meth:`Driver.last_price`."""
        return self._driver.last_price(instrument)

    def depths(self) -> Depths:
        """Take the final snapshot, and return all."""
        times, rows = [*self._times, self._driver.last_ns], [np.zeros(0, LEVEL)]
        for number, parts in enumerate([*self._snapshots, self._snapshot()]):
            for part in parts:
                # Snapshots of an unchanged book share one array, so number a copy.
                rows.append(part.copy())
                rows[-1]["snapshot"] = number
        return Depths(np.array(times, np.int64), join(rows))

    def _add_snapshot(self, ts_ns: int) -> None:
        """Take a snapshot, and drop every second one if there are too many."""
        self._times.append(ts_ns)
        self._snapshots.append(self._snapshot())
        if len(self._times) == self._num_max:
            # The first snapshot is one step after the start, so every second one is on the
            # doubled step.
            self._times, self._snapshots = self._times[1::2], self._snapshots[1::2]
            self._step_ns *= 2
        self._next_ns += self._step_ns

    def _snapshot(self) -> list[Records]:
        """Return the levels of all books; unchanged books return the same array again."""
        for instrument, book in self.books.items():
            # In shadow mode, own orders do not change the book's sequence number.
            state = (book.depth(0).seq, self._own_actions)
            if self._cache.get(instrument, (None, None))[0] != state:
                self._cache[instrument] = (state, self._levels(instrument, book))
        return [levels for _, levels in self._cache.values()]

    def _levels(self, instrument: int, book: Book) -> Records:
        depth = book.depth(LEVELS_MAX)
        rows = np.zeros(len(depth.bids) + len(depth.asks), LEVEL)
        rows["instrument"] = instrument
        rows["side"][len(depth.bids) :] = 1
        both = (*depth.bids, *depth.asks)
        rows["price"] = [level.price for level in both]
        rows["size"] = [min(level.size // self.lot_wei, LOTS_MAX) for level in both]
        return rows
