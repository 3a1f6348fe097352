"""Executes a stream in books, chunk by chunk, and own orders in the midst of it: ``rematch``.

Where the fills of a recorded command are not those recorded behind it, the book is put right, so
that one difference does not bring on others. That ends with the first trade of an own order: from
then on the book is another one than history's, and is left to what comes of it.

Compiled as it stands, with the types of ``_driving_c.pxd``.
"""

from collections.abc import Callable, Mapping

import numpy as np

from clob.book import Book
from clob.order import SelfTrade
from clob.records import BEST, EVENT, FILL, SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.chunk import (
    Difference,
    Played,
    known,
    recorded_behind,
    runs_of,
    seeds_of,
    whole,
)
from clob.replay.io.recording import Records
from clob.replay.io.repair import Command, Filled, put_right, top_of
from clob.replay.io.streams import CHUNK, OWN, OWN_ID, Stream
from clob.replay.modes.row_buffer import Gathered
from clob.replay.modes.rows import FillRow, came_fills, last_rows, met_fills, write_event
from clob.replay.sim.driver import NEVER, Stop
from clob.replay.sim.orders import OwnFill

# What is done with a member of an enum takes longer than what is done with its number.
CLEAR, CANCEL = int(Kind.CLEAR), int(Kind.CANCEL)
TO_BOOK = Stop.BOOK

POLICY = int(Flag.SELF_TRADE)
REMOVING = tuple(
    int(one) << SELF_TRADE_SHIFT for one in (SelfTrade.CANCEL_RESTING, SelfTrade.CANCEL_BOTH)
)
"""The policies by which a resting own order leaves without a trade, as they stand in the flags."""

SPARE = 4_096
"""For how many more fills and changes of best prices than events there is room at first."""


class StreamDriver:
    """Executes a stream as it says, own orders in the same queues.

    This is the :class:`~clob.replay.sim.driver.Driver` of the ``rematch`` mode. Events of one time
    come before what is done at that time from outside.

    Args:
        stream: what to execute; its leading ``SEED`` events are executed at once.
        chunk: how many events are read at a time. The results do not depend on it.
        sink: told of each chunk that is done, and at last of what came after the end.
        on_difference: told of each recorded command whose fills are not those recorded.
        bests: whether best prices are taken down.
        rooms: where ``fills`` and ``bests`` are written; what the sink does not take is lost.
            None makes them.
        book_class: what to make the books of.

    Raises:
        ReplayFormatError: an event is of an instrument that the stream does not name.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        chunk: int = CHUNK,
        sink: Callable[[Played], None] | None = None,
        on_difference: Callable[[Difference], None] | None = None,
        bests: bool = True,
        rooms: Mapping[str, Gathered] | None = None,
        book_class: type[Book] = Book,
    ) -> None:
        self.lot_wei: int = stream.lot_wei
        """What a size of 1 stands for, in wei."""
        self.books: Mapping[int, Book] = {
            one.number: book_class(lo=stream.lo, hi=stream.hi, lot_wei=stream.lot_wei)
            for one in stream.instruments
        }
        """The books by their instrument."""
        self.ended: bool = False
        """Whether no event is left."""
        self.changed: int = -1
        """The instrument whose best prices made the last ``advance`` stop, or -1."""
        self.events: int = 0
        """How many events were executed, references among them."""
        self._sink = sink
        self._on_difference = on_difference
        self._book_class = book_class
        self._tells = bests
        self._verifies = stream.has_fills
        self._chunks = whole(stream.borrowed(chunk))
        self._touched: dict[int, int] = {}
        self._resting: dict[int, int] = {}
        self._one = np.zeros(1, EVENT)
        self._one_words: memoryview = self._one.view(np.int64).data
        self._mark = np.zeros(1, np.uint8)
        self._mark_byte: memoryview = self._mark.data
        self._base = self._filled = self._told = 0
        self.last_ns: int = -NEVER
        """The latest time of any event executed; ``start_ns`` before the first."""
        rooms = rooms or {"fills": Gathered(FILL), "bests": Gathered(BEST)}
        self._fill_room, self._best_room = rooms["fills"], rooms["bests"]
        self._fills: Records = np.zeros(0, FILL)
        self._bests: Records = np.zeros(0, BEST)
        self._load()
        self._seed()
        self.start_ns: int = self._next_ns()
        """The time of the first event that is no seed."""
        self.last_ns = self.start_ns

    @property
    def here(self) -> int:
        """Index in the stream of the next event."""
        return self._base + self._place

    # ----- chunks ------------------------------------------------------------------------------

    def _make_room(self, fills: int, bests: int) -> None:
        """Have room for so many rows or more, keeping what the chunk has brought by now."""
        fill_buffer, best_buffer = self._fill_room.room(fills), self._best_room.room(bests)
        if self._filled:
            fill_buffer[: self._filled] = self._fills[: self._filled]
        if self._told:
            best_buffer[: self._told] = self._bests[: self._told]
        self._fills, self._bests = fill_buffer, best_buffer
        self._fill_bytes: memoryview = fill_buffer.view(np.uint8).data
        self._fill_words: memoryview = fill_buffer.view(np.int64).data
        marks = {"status": self._status, "kinds": self._kinds, "differs": self._marks}
        lend = self._book_class.lend
        self._lent = lend(self._events, fill_buffer, bests=best_buffer, **marks)
        self._one_lent = lend(self._one, fill_buffer, status=self._mark, bests=best_buffer)

    def _load(self) -> None:
        """Take up the next chunk; behind the last one, an empty one."""
        events = next(self._chunks, None)
        if events is None:
            self.ended = True
            events = np.zeros(0, EVENT)
        # As a view, since arrays put together from others have an equal dtype but not the same.
        self._events: Records = events.view(EVENT)
        self._times: memoryview = self._events["ts_ns"].data
        self._status = np.zeros(len(events), np.uint8)
        self._marks = np.zeros(len(events), np.uint8)
        self._place = 0
        self._cut()
        self._make_room(len(events) + SPARE, len(events) + SPARE)

    def _cut(self) -> None:
        """Part the chunk into runs of one instrument; with a single book it is one run.

        Then neither kinds nor instruments are looked at before the book has them at hand.
        """
        if len(self.books) != 1:
            self._cut_by_book()
            return
        self._kinds = np.zeros(len(self._events), np.uint8)
        self._runs = [(len(self._events), next(iter(self.books)))]
        self._run = 0

    def _cut_by_book(self) -> None:
        """Part the chunk into runs of one instrument; what clears a book ends one, too."""
        self._kinds, self._runs = runs_of(self._events, self.books)
        self._run = 0

    def _finish(self) -> None:
        """Hand over what came of a chunk, and begin the next one."""
        self.close()
        self._base += len(self._events)
        self._load()

    def close(self) -> None:
        """Tell the sink what came of the chunk; call it once more at the very end."""
        if self._sink is not None:
            fills, bests = self._fills[: self._filled], self._bests[: self._told]
            what = self._base, self._events, self._status, fills, bests, self._kinds
            self._sink(Played(*what, self._touched.copy(), self._marks))
        self._filled = self._told = 0

    def _seed(self) -> None:
        """Execute the seeds in front of everything else."""
        while not self.ended:
            events = self._events
            stop = seeds_of(events)
            while self._events is events and self._place < stop:
                self._step(NEVER, Stop.NO, stop)
            if stop < len(events):
                return

    def _next_ns(self) -> int:
        """Give the time of the next event, 0 where there is none."""
        return 0 if self.ended else int(self._times[self._place])

    # ----- recorded events ---------------------------------------------------------------------

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events; see :meth:`clob.replay.sim.driver.Driver.advance`."""
        self.changed = -1
        found: list[OwnFill] = []
        while not self.ended and self._times[self._place] <= until_ns:
            own = self._step(until_ns, stop)
            found += own
            if stop and (own or self.changed >= 0):
                break
        return found

    def _step(self, until_ns: int, stop: Stop, limit: int = NEVER) -> list[OwnFill]:
        """Execute one stretch of a run, whose first event is not too late.

        Returns:
            The own fills that came of it.
        """
        start, filled_before, told_before = self._place, self._filled, self._told
        run_stop, instrument = self._runs[self._run]
        touched, tells = instrument in self._touched, self._tells
        watch = OWN if self._resting else 0
        most = None if tells else 0
        if stop == TO_BOOK:
            most = 1
        place, filled, told, met = self.books[instrument].proceed(
            self._lent,
            filled_before,
            told_before,
            most,
            self._base,
            instrument,
            watch,
            touched and not stop,
            self._verifies and not touched,
            start,
            min(run_stop, limit),
            None if until_ns == NEVER else until_ns,
        )
        if place == start:
            known(int(self._events["instrument"][start]), self.books)
            self._make_room(2 * len(self._fills) + SPARE, 2 * len(self._bests) + SPARE)
            return []
        self._place = place
        self._filled = filled
        self.events += place - start
        self.last_ns = max(self.last_ns, self._times[place - 1])
        if told > told_before:
            if stop == TO_BOOK:
                self.changed = instrument
            if tells:
                self._told = told
        own: list[OwnFill] = []
        if met:
            if watch:
                own = self._met(instrument, filled_before)
            if not touched and instrument not in self._touched:
                rows = last_rows(self._fill_bytes, filled_before, filled, self.here - 1)
                if self._differs(instrument, rows):
                    self._tell_anew(instrument, told > told_before)
            if self._kinds[place - 1] == CLEAR:
                own += self._prevented(self.last_ns, instrument)
        if place == run_stop:
            self._end_run(own)
        return own

    def _end_run(self, own: list[OwnFill]) -> None:
        """Go on to the next run, or to the next chunk."""
        self._run += 1
        if self._run == len(self._runs):
            self._finish()

    def _met(self, instrument: int, first: int) -> list[OwnFill]:
        """Find the fills of resting own orders in the stretch that was executed."""
        own = met_fills(self._fill_words, first, self._filled, instrument, OWN_ID)
        if own:
            self._forget(instrument, own, self._base + self._place - 1)
            for fill in own:
                self.last_ns = max(self.last_ns, fill.ts_ns)
        return own

    def _forget(self, instrument: int, own: list[OwnFill], event: int) -> None:
        """Hear of fills of own orders: who rests no more, and that history's book is left."""
        self._touched.setdefault(instrument, event)
        book = self.books[instrument]
        for fill in own:
            if fill.order_id not in book:
                self._resting.pop(fill.order_id, None)

    def _differs(self, instrument: int, rows: list[FillRow]) -> bool:
        """Compare the fills of the last event executed with those recorded behind it.

        Returns:
            Whether they differed; then the book was put right.
        """
        place = self._place - 1
        produced: list[Filled] = [(row[1], row[3], row[4]) for row in rows]
        recorded = recorded_behind(self._events, place)
        if not self._verifies or produced == recorded:
            return False
        book, command = self.books[instrument], Command(*self._events[place].item())
        filled = frozenset(one for one, _, _ in produced if one not in book)
        where, status = self._base + place, int(self._status[place])
        self._correct(book, Difference(where, command, status, produced, recorded, filled))
        return True

    def _correct(self, book: Book, difference: Difference) -> None:
        """Tell of a difference, and put the book right."""
        if self._on_difference:
            self._on_difference(difference)
        _, command, status, produced, recorded, _ = difference
        put_right(book, command, produced, recorded, done=not status)

    def _tell_anew(self, instrument: int, told: bool) -> None:
        """Take down the best prices behind the last event, in place of what it changed itself.

        Args:
            instrument: the book.
            told: whether the stretch that the event ended has changed any.
        """
        if not self._tells:
            return
        book, ts_ns = self.books[instrument], int(self._times[self._place - 1])
        where = self.here - 1
        if told and self._bests["event"][self._told - 1] == where:
            self._told -= 1
        if self._told == len(self._bests):
            self._make_room(len(self._fills), 2 * len(self._bests) + SPARE)
        self._bests[self._told] = (where, ts_ns, *top_of(book), instrument)
        self._told += 1

    def _prevented(self, ts_ns: int, instrument: int) -> list[OwnFill]:
        """Find the own orders that left a book without a trade, and forget them."""
        book = self.books[instrument]
        gone = [
            order_id
            for order_id, where in self._resting.items()
            if where == instrument and order_id not in book
        ]
        for order_id in gone:
            del self._resting[order_id]
        return [OwnFill(ts_ns, instrument, one, 0, 0, True, 0) for one in gone]

    # ----- own orders --------------------------------------------------------------------------

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
        """Let an own order come in; see :meth:`clob.replay.sim.driver.Driver.submit`."""
        book = self.books[instrument]
        write_event(self._one_words, ts_ns, instrument, order_id, kind, side, price, size, flags)
        first = self._filled
        refusal = self._act(book)
        if refusal:
            return refusal, 0, []
        own: list[OwnFill] = []
        if self._filled > first:
            own = came_fills(self._fill_words, first, self._filled, instrument, OWN_ID)
            self._forget(instrument, own, self._base + self._place)
        if flags & POLICY in REMOVING:
            own += self._prevented(ts_ns, instrument)
        if order_id not in book:
            return 0, 0, own
        self._resting[order_id] = instrument
        # What it lost it traded: no policy of a backtest takes some of an order away.
        for fill in own:
            if not fill.resting:
                size -= fill.size
        return 0, size, own

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Take an own order out; see :meth:`clob.replay.sim.driver.Driver.cancel`."""
        if self._resting.pop(order_id, None) is None:
            return False
        write_event(self._one_words, ts_ns, instrument, order_id, CANCEL, 0, 0, 0, 0)
        return self._act(self.books[instrument]) == 0

    def _act(self, book: Book) -> int:
        """Execute the own event that was written down; give the number of what refused it."""
        most, at = None if self._tells else 0, self._base + self._place
        while True:
            own, filled, told = self._one_lent, self._filled, self._told
            done, filled, told, _ = book.proceed(
                own, filled, told, most, at, None, 0, False, False, 0, 1, None
            )
            if done:
                break
            self._make_room(2 * len(self._fills) + SPARE, 2 * len(self._bests) + SPARE)
        self._filled, self._told = filled, told
        return self._mark_byte[0]


# MERGED clob.replay.modes.rematch: Chooses what executes a stream and writes down what came of it: compiled, or plain Python.
