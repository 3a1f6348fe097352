"""Pictures of the books at equal times of a run, for the report: as many as asked for, no more."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.depth import Level
from clob.records import LOTS_MAX
from clob.replay.io.recording import Records, join
from clob.replay.sim.driver import Driver, OwnFill, Stop

LEVEL_FIELDS = {
    "picture": "<u4",
    "instrument": "<u2",
    "side": "u1",
    "price": "<i4",
    "size": "<i8",
}
"""The fields of a level of a picture: which picture, instrument, side, price in ticks, size in
lots."""

LEVEL = np.dtype(list(LEVEL_FIELDS.items()))
"""The record of a level of a picture."""

LEVELS_MAX = 100
"""How many levels of each side a picture has at most, the best ones."""

SAMPLES = 256
"""How many pictures are good for a report. There are less than twice as many, where the run is
long enough for so many."""


@dataclasses.dataclass(frozen=True, eq=False)
class Depths:
    """How the books looked at equal times."""

    times: npt.NDArray[np.int64]
    """When each picture was taken, in ns: equal steps, and at last the end. A picture shows what
    stood there after all that happened at its time, own orders included."""
    levels: Records
    """Array of :data:`LEVEL_FIELDS`: picture by picture, instrument by instrument, bids before
    asks, the best of each first."""


class Sampler:
    """A driver that stops another one at equal times and takes down the depth of its books.

    How long a run will be is not known before. So the first step is a nanosecond; as soon as
    there are twice as many pictures as asked for, every second one is dropped, and the steps
    become twice as long. The pictures do not depend on how the events are read.

    Args:
        driver: what executes the flow; it must not be advanced by anybody else.
        count: how many pictures there are at least, where the run is long enough; there are less
            than twice as many, and one more at the end.

    Raises:
        ValueError: the count is below 1.
    """

    def __init__(self, driver: Driver, count: int = SAMPLES) -> None:
        if type(count) is not int or count < 1:
            raise ValueError(f"sample must be None or an integer of 1 or more, not {count!r}")
        self._driver = driver
        self._most = 2 * count
        self._step_ns = 1
        self._next_ns = driver.start_ns + self._step_ns
        self._acted = 0
        self._taken: dict[int, tuple[tuple[int, int], Records]] = {}
        self._times: list[int] = []
        self._pictures: list[list[Records]] = []
        self.books: Mapping[int, Book] = driver.books
        """The books by their instrument."""
        self.lot_wei: int = driver.lot_wei
        """What a size of 1 stands for, in wei."""
        self.start_ns: int = driver.start_ns
        """The time of the first event that is no seed."""
        self.last_ns: int = driver.last_ns
        """The latest time of all events executed."""
        self.ended: bool = driver.ended
        """Whether no recorded event is left."""
        self.changed: int = -1
        """The instrument whose best prices made the last ``advance`` stop, or -1."""

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events, and take pictures on the way; see :meth:`Driver.advance`."""
        driver = self._driver
        found: list[OwnFill] = []
        while not driver.ended and self._next_ns < until_ns:
            found += self._play(self._next_ns, stop)
            if stop and (found or driver.changed >= 0):
                break
            if not driver.ended:
                self._take(self._next_ns)
        else:
            found += self._play(until_ns, stop)
        self.last_ns, self.ended, self.changed = driver.last_ns, driver.ended, driver.changed
        return found

    def _play(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events without a picture."""
        own = self._driver.advance(until_ns, stop)
        self._acted += len(own)
        return own

    def submit(
        self,
        ts_ns: int,
        instrument: int,
        order_id: int,
        kind: int,
        side: int,
        price: int,
        size: int,
        flags: int,
    ) -> tuple[int, int, list[OwnFill]]:
        """Let an own order come in; see :meth:`Driver.submit`."""
        self._acted += 1
        return self._driver.submit(ts_ns, instrument, order_id, kind, side, price, size, flags)

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Take an own order out; see :meth:`Driver.cancel`."""
        self._acted += 1
        return self._driver.cancel(ts_ns, instrument, order_id)

    def depths(self) -> Depths:
        """Take the last picture, of how it ended, and give all."""
        times, rows = [*self._times, self._driver.last_ns], [np.zeros(0, LEVEL)]
        for number, parts in enumerate([*self._pictures, self._picture()]):
            for part in parts:
                # The pictures of a quiet book are one array, so that a copy is numbered.
                rows.append(part.copy())
                rows[-1]["picture"] = number
        return Depths(np.array(times, np.int64), join(rows))

    def _take(self, ts_ns: int) -> None:
        """Take a picture, and drop every second one where there are too many."""
        self._times.append(ts_ns)
        self._pictures.append(self._picture())
        if len(self._times) == self._most:
            # The first picture is a step after the start, so that every second one is on the
            # wider grid.
            self._times, self._pictures = self._times[1::2], self._pictures[1::2]
            self._step_ns *= 2
        self._next_ns += self._step_ns

    def _picture(self) -> list[Records]:
        """Give the levels of all books; those of one that has not changed are given again."""
        for instrument, book in self.books.items():
            # What own orders do need not be numbered by the book, as in the shadow mode.
            state = (book.depth(0).seq, self._acted)
            if self._taken.get(instrument, (None, None))[0] != state:
                self._taken[instrument] = (state, self._levels(instrument, book))
        return [levels for _, levels in self._taken.values()]

    def _levels(self, instrument: int, book: Book) -> Records:
        """Take down the depth of a book."""
        depth = book.depth(LEVELS_MAX)
        rows = np.zeros(len(depth.bids) + len(depth.asks), LEVEL)
        rows["instrument"] = instrument
        rows["side"][len(depth.bids) :] = 1
        both = (*depth.bids, *depth.asks)
        rows["price"] = [level.price for level in both]
        rows["size"] = list(self._lots(both))
        return rows

    def _lots(self, levels: Iterable[Level]) -> Iterable[int]:
        """Give the sizes of levels in lots."""
        for level in levels:
            yield min(level.size // self.lot_wei, LOTS_MAX)
