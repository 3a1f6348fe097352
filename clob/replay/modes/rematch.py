"""The ``rematch`` mode: executes a stream in books chunk by chunk, with own orders in between.

If the fills of a recorded command differ from the fills recorded after it, the book is corrected,
so that one difference does not cause others. This stops at the first trade of an own order: from
then on the book differs from history, and executes commands as they are.
"""

from collections.abc import Callable, Mapping

import numpy as np

from clob.book import Book
from clob.order import SelfTrade
from clob.records import BEST, EVENT, FILL, SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.chunk import (
    Difference,
    ReplayedChunk,
    align_to_commands,
    check_instrument,
    count_seeds,
    recorded_fills_after,
    split_runs,
)
from clob.replay.io.recording import Records, as_bytes
from clob.replay.io.repair import Filled, RecordedCommand, apply_recorded_fills, best_levels
from clob.replay.io.streams import CHUNK, OWN, OWN_ID, Stream
from clob.replay.modes.row_buffer import RowBuffer
from clob.replay.modes.rows import FillRow, last_rows, own_fills, tag_fills, write_event
from clob.replay.sim.driver import NEVER, Stop
from clob.replay.sim.orders import OwnFill

# Plain integers: operations on enum members are slower.
CLEAR, CANCEL = int(Kind.CLEAR), int(Kind.CANCEL)
STOP_AT_BOOK = Stop.BOOK

POLICY = int(Flag.SELF_TRADE)
CANCEL_RESTING = tuple(
    int(one) << SELF_TRADE_SHIFT for one in (SelfTrade.CANCEL_RESTING, SelfTrade.CANCEL_BOTH)
)
"""Flag bits of the policies that cancel a resting own order without a trade."""

EXTRA_ROWS = 4_096
"""Initial capacity for fills and best-price changes beyond the number of events."""


class StreamDriver:
    """Executes a stream, with own orders in the same queues.

    This is the :class:`~clob.replay.sim.driver.Driver` of the ``rematch`` mode. Events come before
    own orders and cancels of the same time.

    Args:
        stream: the stream; its leading ``SEED`` events are executed at once.
        chunk: events read at a time. It does not affect the results.
        sink: called with each finished chunk, and once more at the end.
        on_difference: called with each recorded command whose fills differ from the recorded ones.
        buffers: buffers for ``fills`` and ``bests``; rows that the sink does not append are
            overwritten. None makes new ones.
        book_class: class of the books.

    Raises:
        ReplayFormatError: an event has an instrument that the stream does not name.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        chunk: int = CHUNK,
        sink: Callable[[ReplayedChunk], None] | None = None,
        on_difference: Callable[[Difference], None] | None = None,
        buffers: Mapping[str, RowBuffer] | None = None,
        book_class: type[Book] = Book,
    ) -> None:
        self.lot_wei: int = stream.lot_wei
        self.history: Mapping[int, Book] = {
            one.number: book_class(lo=stream.lo, hi=stream.hi, lot_wei=stream.lot_wei)
            for one in stream.instruments
        }
        """The books in which the stream is executed, by instrument."""
        self.books: Mapping[int, Book] = self.history
        self.ended: bool = False
        self.changed: int = -1
        self.events: int = 0
        """Executed events, reference records included."""
        self._sink = sink
        self._on_difference = on_difference
        self._book_class = book_class
        self._has_fills = stream.has_fills
        self._chunks = align_to_commands(stream.borrowed(chunk))
        self._touched: dict[int, int] = {}
        self._resting: dict[int, int] = {}
        self._last_prices: dict[int, int] = {}
        self._num_tagged = 0
        self._own_event = np.zeros(1, EVENT)
        self._own_words: memoryview = self._own_event.view(np.int64).data
        self._own_status = np.zeros(1, np.uint8)
        self._own_status_byte: memoryview = self._own_status.data
        self._base = self._num_fills = self._num_bests = 0
        self.last_ns: int = -NEVER
        buffers = buffers or {"fills": RowBuffer(FILL), "bests": RowBuffer(BEST)}
        self._fill_buffer, self._best_buffer = buffers["fills"], buffers["bests"]
        self._fills: Records = np.zeros(0, FILL)
        self._bests: Records = np.zeros(0, BEST)
        self._load_chunk()
        self._seed()
        self.start_ns: int = 0 if self.ended else int(self._times[self._place])
        self.last_ns = self.start_ns

    @property
    def next_index(self) -> int:
        """Index in the stream of the next event."""
        return self._base + self._place

    # ----- chunks ------------------------------------------------------------------------------

    def _reserve_rows(self, fills: int, bests: int) -> None:
        """Reserve space for rows, and copy the rows of the current chunk into it."""
        fill_buffer = self._fill_buffer.reserve(fills)
        best_buffer = self._best_buffer.reserve(bests)
        if self._num_fills:
            # Bytes, because a copy of fields would leave out the instruments.
            as_bytes(fill_buffer[: self._num_fills])[:] = as_bytes(self._fills[: self._num_fills])
        if self._num_bests:
            best_buffer[: self._num_bests] = self._bests[: self._num_bests]
        self._fills, self._bests = fill_buffer, best_buffer
        self._fill_bytes: memoryview = fill_buffer.view(np.uint8).data
        self._fill_words: memoryview = fill_buffer.view(np.int64).data
        marks = {"status": self._status, "kinds": self._kinds, "differs": self._differing}
        lend = self._book_class._lend
        self._arrays = lend(self._events, fill_buffer, bests=best_buffer, **marks)
        self._own_arrays = lend(
            self._own_event, fill_buffer, status=self._own_status, bests=best_buffer
        )

    def _load_chunk(self) -> None:
        """Load the next chunk; after the last one, an empty chunk."""
        events = next(self._chunks, None)
        if events is None:
            self.ended = True
            events = np.zeros(0, EVENT)
        # A view, because concatenated arrays have an equal dtype but not the same object.
        self._events: Records = events.view(EVENT)
        self._times: memoryview = self._events["ts_ns"].data
        self._status = np.zeros(len(events), np.uint8)
        self._differing = np.zeros(len(events), np.uint8)
        self._place = 0
        self._split_runs()
        self._reserve_rows(len(events) + EXTRA_ROWS, len(events) + EXTRA_ROWS)

    def _split_runs(self) -> None:
        """Split the chunk into runs of one instrument; with a single book it is one run.

        With one book, the kinds and instruments need not be read before the book reads them.
        """
        if len(self.history) != 1:
            self._split_by_book()
            return
        self._kinds = np.zeros(len(self._events), np.uint8)
        self._kind_bytes: memoryview = self._kinds.data
        self._runs = [(len(self._events), next(iter(self.history)))]
        self._run = 0

    def _split_by_book(self) -> None:
        """Split the chunk into runs of one instrument; a ``CLEAR`` event ends a run, too."""
        self._kinds, self._runs = split_runs(self._events, self.history)
        self._kind_bytes = self._kinds.data
        self._run = 0

    def _finish_chunk(self) -> None:
        """Pass the finished chunk to the sink, and load the next one."""
        self.close()
        self._base += len(self._events)
        self._load_chunk()

    def close(self) -> None:
        """Pass the rows of the current chunk to the sink; call it once at the end."""
        self._tag_run()
        if self._sink is not None:
            fills, bests = self._fills[: self._num_fills], self._bests[: self._num_bests]
            rows = (self._base, self._events, self._status, fills, bests, self._kinds)
            self._sink(ReplayedChunk(*rows, self._touched.copy(), self._differing))
        self._num_fills = self._num_bests = self._num_tagged = 0

    def _seed(self) -> None:
        """Execute the leading seeds."""
        while not self.ended:
            events = self._events
            stop = count_seeds(events)
            while self._events is events and self._place < stop:
                self._step(NEVER, Stop.NO, stop)
            if stop < len(events):
                return

    # ----- recorded events ---------------------------------------------------------------------

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events; see :meth:`clob.replay.sim.driver.Driver.advance`."""
        self.changed = -1
        fills: list[OwnFill] = []
        while not self.ended and self._times[self._place] <= until_ns:
            own = self._step(until_ns, stop)
            fills += own
            if stop and (own or self.changed >= 0):
                break
        return fills

    def _step(self, until_ns: int, stop: Stop, limit: int = NEVER) -> list[OwnFill]:
        """Execute a part of a run, whose first event is due; return the resulting own fills."""
        start, fills_before, bests_before = self._place, self._num_fills, self._num_bests
        run_stop, instrument = self._runs[self._run]
        touched = instrument in self._touched
        watch = OWN if self._resting else 0
        place, num_fills, num_bests, met = self.history[instrument]._proceed(
            self._arrays,
            fills_before,
            bests_before,
            1 if stop == STOP_AT_BOOK else None,
            self._base,
            instrument,
            watch,
            touched and not stop,
            self._has_fills and not touched,
            start,
            min(run_stop, limit),
            None if until_ns == NEVER else until_ns,
        )
        if place == start:
            check_instrument(int(self._events["instrument"][start]), self.history)
            self._reserve_rows(2 * len(self._fills) + EXTRA_ROWS, 2 * len(self._bests) + EXTRA_ROWS)
            return []
        self._place = place
        self._num_fills = num_fills
        self.events += place - start
        self.last_ns = max(self.last_ns, self._times[place - 1])
        if num_bests > bests_before:
            self._num_bests = num_bests
            if stop == STOP_AT_BOOK:
                self.changed = instrument
        own: list[OwnFill] = []
        if met:
            if watch:
                own = self._resting_fills(instrument, fills_before)
            if not touched and instrument not in self._touched:
                rows = last_rows(self._fill_bytes, fills_before, num_fills, self.next_index - 1)
                if self._check_fills(instrument, rows):
                    self._rewrite_best(instrument, num_bests > bests_before)
            if self._kind_bytes[place - 1] == CLEAR:
                own += self._cancelled_own(self.last_ns, instrument)
        if place == run_stop:
            self._end_run(own)
        return own

    def _tag_fills(self, instrument: int) -> None:
        """Write the instrument into the fills since the last call, and keep their last price."""
        if self._num_fills > self._num_tagged:
            words, first = self._fill_words, self._num_tagged
            self._last_prices[instrument] = tag_fills(words, first, self._num_fills, instrument)
            self._num_tagged = self._num_fills

    def _tag_run(self) -> None:
        """Write the instrument of the current run into its fills so far."""
        if self._num_fills > self._num_tagged:
            self._tag_fills(self._runs[self._run][1])

    def last_price(self, instrument: int) -> int | None:
        """Return the last price of a book; see :meth:`clob.replay.sim.driver.Driver.last_price`."""
        self._tag_run()
        return self._last_prices.get(instrument)

    def _end_run(self, own: list[OwnFill]) -> None:
        """Go to the next run, or to the next chunk."""
        self._tag_run()
        self._run += 1
        if self._run == len(self._runs):
            self._finish_chunk()

    def _resting_fills(self, instrument: int, first: int) -> list[OwnFill]:
        """Return the fills of resting own orders in the executed part."""
        own = own_fills(self._fill_words, first, self._num_fills, instrument, OWN_ID, False)
        if own:
            self._handle_own_fills(instrument, own, self._base + self._place - 1)
            for fill in own:
                self.last_ns = max(self.last_ns, fill.ts_ns)
        return own

    def _handle_own_fills(self, instrument: int, own: list[OwnFill], event: int) -> None:
        """Drop own orders that no longer rest, and mark the book as different from history."""
        self._touched.setdefault(instrument, event)
        book = self.history[instrument]
        for fill in own:
            if fill.order_id not in book:
                self._resting.pop(fill.order_id, None)

    def _check_fills(self, instrument: int, rows: list[FillRow]) -> bool:
        """Compare the fills of the last event with the fills recorded after it.

        Returns:
            Whether they differed; then the book was corrected.
        """
        place = self._place - 1
        produced: list[Filled] = [(row[1], row[3], row[4]) for row in rows]
        recorded = recorded_fills_after(self._events, place)
        if not self._has_fills or produced == recorded:
            return False
        book, command = self.history[instrument], RecordedCommand(*self._events[place].item())
        filled = frozenset(one for one, _, _ in produced if one not in book)
        where, status = self._base + place, int(self._status[place])
        self._correct_book(book, Difference(where, command, status, produced, recorded, filled))
        return True

    def _correct_book(self, book: Book, difference: Difference) -> None:
        """Correct the book, and report the difference."""
        _, command, status, produced, recorded, *_ = difference
        corrected = apply_recorded_fills(book, command, produced, recorded, done=not status)
        if self._on_difference:
            self._on_difference(difference._replace(ghosts=corrected.ghosts))

    def _rewrite_best(self, instrument: int, changed: bool) -> None:
        """Record the best prices after the corrected event, instead of those it produced itself.

        ``changed`` is whether the executed part has changed any.
        """
        book, ts_ns = self.history[instrument], int(self._times[self._place - 1])
        where = self.next_index - 1
        if changed and self._bests["event"][self._num_bests - 1] == where:
            self._num_bests -= 1
        if self._num_bests == len(self._bests):
            self._reserve_rows(len(self._fills), 2 * len(self._bests) + EXTRA_ROWS)
        self._bests[self._num_bests] = (where, ts_ns, *best_levels(book), instrument)
        self._num_bests += 1

    def _cancelled_own(self, ts_ns: int, instrument: int) -> list[OwnFill]:
        """Return the own orders that left a book without a trade, and drop them."""
        book, resting = self.history[instrument], self._resting.items()
        gone = [one for one, where in resting if where == instrument and one not in book]
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
        """Execute a new own order; see :meth:`clob.replay.sim.driver.Driver.submit`."""
        book = self.history[instrument]
        write_event(self._own_words, ts_ns, instrument, order_id, kind, side, price, size, flags)
        self._tag_run()
        first = self._num_fills
        rejection = self._execute_own(book)
        if rejection:
            return rejection, -1, []
        own: list[OwnFill] = []
        if self._num_fills > first:
            own = own_fills(self._fill_words, first, self._num_fills, instrument, OWN_ID, True)
            self._handle_own_fills(instrument, own, self._base + self._place)
            self._tag_fills(instrument)
        if flags & POLICY in CANCEL_RESTING:
            own += self._cancelled_own(ts_ns, instrument)
        ahead = book._lots_ahead(order_id)
        if ahead >= 0:
            self._resting[order_id] = instrument
        return 0, ahead, own

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Cancel an own order; see :meth:`clob.replay.sim.driver.Driver.cancel`."""
        if self._resting.pop(order_id, None) is None:
            return False
        write_event(self._own_words, ts_ns, instrument, order_id, CANCEL, 0, 0, 0, 0)
        return self._execute_own(self.history[instrument]) == 0

    def _execute_own(self, book: Book) -> int:
        """Execute the own event that was written; return the number of the rejection or 0."""
        event = self._base + self._place
        while True:
            arrays, num_fills, num_bests = self._own_arrays, self._num_fills, self._num_bests
            done, num_fills, num_bests, _ = book._proceed(
                arrays, num_fills, num_bests, None, event, None, 0, False, False, 0, 1, None
            )
            if done:
                break
            self._reserve_rows(2 * len(self._fills) + EXTRA_ROWS, 2 * len(self._bests) + EXTRA_ROWS)
        self._num_fills, self._num_bests = num_fills, num_bests
        return self._own_status_byte[0]
