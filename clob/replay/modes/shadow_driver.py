"""Executes recorded flow for the ``shadow`` mode, and stops at events that concern own orders.

The books contain recorded orders only. If the fills of a command differ from the fills recorded
after it, the recorded ones count: the book is corrected and they are reported. Most events do not
concern own orders and are executed in large steps, the others one by one. :func:`reach_of` finds
the events of a chunk that may trade at an own price or better, from limits and recorded fills.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.order import Side
from clob.records import Flag, Kind
from clob.replay.io.chunk import Difference
from clob.replay.io.recording import Records
from clob.replay.io.repair import RecordedCommand, apply_recorded_fills, best_levels
from clob.replay.io.streams import Stream
from clob.replay.modes.rematch import EXTRA_ROWS, StreamDriver
from clob.replay.modes.rows import last_rows
from clob.replay.modes.shadow_book import ShadowBook
from clob.replay.modes.shadow_rules import Incoming, own_matches, untraded_size
from clob.replay.sim.driver import NEVER, Stop
from clob.replay.sim.orders import OwnFill

LOW, HIGH = -(2**31), 2**31 - 1
"""Below and above every price."""
FOK = int(Flag.FOK)
INCOMING = (Kind.LIMIT, Kind.IOC, Kind.REPLACE)
"""Events that can trade with own orders."""


class Reach(NamedTuple):
    """The prices that the events of a chunk may reach, computed once own orders exist.

    Unknown values are overestimated, so that no event that reaches an own order is missed.
    """

    below: npt.NDArray[np.int64]
    """Each event may concern own buy orders at this price and above; ``HIGH`` if none."""
    above: npt.NDArray[np.int64]
    """Each event may concern own sell orders at this price and below; ``LOW`` if none."""
    lowest: npt.NDArray[np.int64]
    """Lowest price of a recorded fill of each event that may be of a buy order, or ``HIGH``."""
    highest: npt.NDArray[np.int64]
    """Highest price of a recorded fill of each event that may be of a sell order, or ``LOW``."""
    joined: npt.NDArray[np.int64]
    """Upper bound for the index in the stream of the event by which an order that each event filled
    joined its queue."""
    moves: list[int]
    """Places of the replacements."""
    move_prices: list[int]
    """Their prices."""
    joins: npt.NDArray[np.int64]
    """Places of the events by which an order may join a queue."""
    join_ids: npt.NDArray[np.uint64]
    """The orders of those events."""
    join_prices: npt.NDArray[np.int32]
    """The prices of those events."""


def reach_of(events: Records, base: int, *, verifies: bool) -> Reach:
    """Compute the prices that the events of a chunk may reach.

    ``base`` is the index of the first in the stream; ``verifies`` is whether fills were recorded.
    """
    kind, side = (np.ascontiguousarray(events[name]) for name in ("kind", "side"))
    price, size = events["price"].astype(np.int64), events["size"].astype(np.int64)
    replaces = kind == Kind.REPLACE
    limits = kind == Kind.LIMIT
    comes = limits | replaces | (kind == Kind.IOC)
    sells, buys = comes & (side == 1), comes & (side == 0)
    rests = limits & ((events["flags"] & np.uint16(FOK)) == 0)
    joins = np.flatnonzero(rests | replaces | (kind == Kind.SEED))
    join_ids = events["order_id"].take(joins)
    lowest, highest = np.full(len(kind), HIGH), np.full(len(kind), LOW)
    joined, filled = np.full(len(kind), LOW), np.zeros(len(kind), np.int64)
    fills = np.flatnonzero(kind == Kind.FILL) if verifies else joins[:0]
    if len(fills):
        causes = np.maximum.accumulate(np.where(kind == Kind.FILL, 0, np.arange(len(kind))))[fills]
        np.add.at(filled, causes, size[fills])
        np.minimum.at(lowest, causes, np.where(sells[causes], price[fills], HIGH))
        np.maximum.at(highest, causes, np.where(buys[causes], price[fills], LOW))
        last = last_joins(joins, join_ids, events["order_id"].take(fills))
        np.maximum.at(joined, causes, last + base)
    # Orders at better prices than a fill are reached regardless of time priority.
    untraded = size > filled
    below = np.minimum(np.where(sells & untraded, price, HIGH), lowest + 1)
    above = np.maximum(np.where(buys & untraded, price, LOW), highest - 1)
    moves = np.flatnonzero(replaces)
    return Reach(
        *(below, above, lowest, highest, joined, moves.tolist(), price[moves].tolist()),
        *(joins, join_ids, events["price"].take(joins)),
    )


def last_joins(
    joins: npt.NDArray[np.int64], join_ids: npt.NDArray[np.uint64], ids: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Return the place of the last event of a chunk by which each order joined its queue.

    It is -1 for an order that joined before the chunk. ``joins`` are the places of the events by
    which orders join, and ``join_ids`` those orders.
    """
    if not len(joins):
        return np.full(len(ids), -1)
    order = np.argsort(join_ids, kind="stable")
    ranks = np.maximum(np.searchsorted(join_ids[order], ids, side="right") - 1, 0)
    places = joins[order[ranks]]
    return np.where(join_ids[order[ranks]] == ids, places, -1)


WINDOW = 128
"""Events searched at first for the next one that reaches an own order."""

SMALL = 64
"""Up to this many orders, a Python loop is faster than NumPy."""

NO_ORDERS: frozenset[int] = frozenset()

Queues: TypeAlias = dict[int, dict[int, int]]
"""Orders that joined the queue of each price, and when."""


class PendingEvent(NamedTuple):
    """The next event, which may concern own orders."""

    book: ShadowBook
    place: int
    """Its place in the chunk."""
    filled: int
    """A number of fills of the chunk that precede it."""
    side: Side | None
    """The side of an order that it replaces, else None."""
    keeps_place: bool
    """Whether it only reduces an order in place."""


class ShadowFlow(StreamDriver):
    """Executes a stream as recorded, and computes the fills of own orders.

    The own orders in ``markets`` are added and removed by the subclass. The arguments are those of
    :class:`~clob.replay.modes.rematch.StreamDriver`; ``on_difference`` is called only with recorded
    commands whose fills could not be applied.
    """

    def __init__(self, stream: Stream, **options: Any) -> None:
        self.markets: dict[int, ShadowBook] = {}
        """The books with own orders, by instrument."""
        self._pending: PendingEvent | None = None
        self._corrected = False
        self._misplaced = NO_ORDERS
        self._reach_cache: Reach | None = None
        self._joins_end = 0
        self._kept_in_place: list[int] = []
        self._stops: list[int] = []
        self._search_end, self._search_hit, self._window = -1, False, WINDOW
        super().__init__(stream, **options)
        for number, book in self.history.items():
            self.markets[number] = ShadowBook(book)
            self.markets[number].update_joins = self.update_joins
        # They are only read, and have every method of a Book that reads.
        self.books: Mapping[int, Book] = cast("Mapping[int, Book]", self.markets)

    # ----- chunks ------------------------------------------------------------------------------

    def _split_runs(self) -> None:
        """Split the chunk into runs; their ends must be known before they are reached."""
        self._split_by_book()

    def _finish_chunk(self) -> None:
        """Record the queue joins of the chunk, and load the next one."""
        self.update_joins()
        for book in self.markets.values():
            book.prune()
        super()._finish_chunk()

    def _load_chunk(self) -> None:
        super()._load_chunk()
        self._reach_cache = None
        self._joins_end = self._place
        self._kept_in_place.clear()
        self._stops.clear()
        self.reset_search()
        if any(book.taken for book in self.markets.values()):
            taken = {order_id for book in self.markets.values() for order_id in book.taken}
            ids = np.fromiter(taken, np.uint64, len(taken))
            reach = self._get_reach()
            self._stops = reach.joins[np.isin(reach.join_ids, ids)].tolist()

    def _get_reach(self) -> Reach:
        """Return the reach of the events of this chunk, computed at first use."""
        if self._reach_cache is None:
            self._reach_cache = reach_of(self._events, self._base, verifies=self._has_fills)
        return self._reach_cache

    def update_joins(self) -> None:
        """Record which orders joined the queues with own orders, up to the next event."""
        start, end = self._joins_end, self._place
        if start == end:
            return
        self._joins_end = end
        books = self.markets.items()
        queues = {number: book.queue_joins for number, book in books if book.queue_joins}
        if queues:
            self._record_joins(start, end, queues)
        self._kept_in_place.clear()

    def _record_joins(self, start: int, end: int, queues: dict[int, Queues]) -> None:
        """Record which orders joined the queues of each instrument, by events from start to end."""
        reach = self._get_reach()
        first, last = reach.joins.searchsorted((start, end)).tolist()
        prices = reach.join_prices[first:last]
        looked_at = {price for some in queues.values() for price in some}
        if last - first > SMALL:
            hits = np.flatnonzero(np.isin(prices, list(looked_at))).tolist()
        else:
            hits = [hit for hit, price in enumerate(prices.tolist()) if price in looked_at]
        for hit in hits:
            place = int(reach.joins[first + hit])
            queue = queues.get(int(self._events["instrument"][place]), {}).get(int(prices[hit]))
            if queue is not None and not self._status[place] and place not in self._kept_in_place:
                queue[int(reach.join_ids[first + hit])] = self._base + place

    # ----- search for relevant events ----------------------------------------------------------

    def reset_search(self) -> None:
        """Search again for the next relevant event, because own orders were added or removed."""
        self._search_end, self._search_hit = -1, False

    def watch(self, order_ids: Iterable[int]) -> None:
        """Stop at events that add recorded orders again from which own orders took volume."""
        reach = self._get_reach()
        first = int(np.searchsorted(reach.joins, self._place))
        for order_id in order_ids:
            hits = np.flatnonzero(reach.join_ids[first:] == np.uint64(order_id))
            for place in reach.joins[first:][hits].tolist():
                insort(self._stops, place)

    def _next_stop(self, book: ShadowBook, end: int) -> tuple[int, bool]:
        """Return the place of the next event that may concern own orders, or an earlier place.

        The flag is whether the event of that place may concern them.
        """
        stop_at, concerns = end, False
        if self._stops:
            index = bisect_left(self._stops, self._place)
            if index < len(self._stops) and self._stops[index] < end:
                stop_at, concerns = self._stops[index], True
        if book.own and stop_at > self._place:
            if self._search_end < self._place or (
                self._search_end == self._place and not self._search_hit
            ):
                self._search(book, end)
            if self._search_end < stop_at:
                stop_at, concerns = self._search_end, self._search_hit
        return stop_at, concerns

    def _search(self, book: ShadowBook, end: int) -> None:
        """Search the run for the next event that reaches an own order."""
        reach = self._get_reach()
        start = self._place
        window = stop = min(end, start + self._window)
        bids, asks = book.sides
        if bids:
            price, since = bids[0].price, bids[0].since
            stop = _first(reach.below[start:stop] <= price, start, stop)
            equal = reach.lowest[start:stop] == price
            stop = _first(equal & (reach.joined[start:stop] >= since), start, stop)
        if asks:
            price, since = asks[0].price, asks[0].since
            stop = _first(reach.above[start:stop] >= price, start, stop)
            equal = reach.highest[start:stop] == price
            stop = _first(equal & (reach.joined[start:stop] >= since), start, stop)
        # A replacement at an own price must be examined before it is executed.
        for index in range(bisect_left(reach.moves, start), len(reach.moves)):
            if reach.moves[index] >= stop:
                break
            if reach.move_prices[index] in book.queue_joins:
                stop = reach.moves[index]
                break
        self._search_hit, self._search_end = stop < window, stop
        self._window = WINDOW if self._search_hit else 2 * self._window

    # ----- recorded events ---------------------------------------------------------------------

    def _step(self, until_ns: int, stop: Stop, limit: int = NEVER) -> list[OwnFill]:
        """Execute a part of a run that does not concern own orders, or one event that may."""
        end, instrument = self._runs[self._run]
        book = self.markets.get(instrument)
        if book is None or not (book.own or book.taken):
            return self._execute(instrument, until_ns, stop, limit)
        stop_at, concerns = self._next_stop(book, end)
        # The order that a replacement changes must be read immediately before it.
        if concerns and (stop_at == self._place or self._events["kind"][stop_at] != Kind.REPLACE):
            self._pending = self._prepare(book, stop_at)
            stop_at += 1
        own = self._execute(instrument, until_ns, stop, min(limit, stop_at))
        if self._pending is not None:
            own += self._match_pending()
            self._pending = None
        return own

    def _execute(self, instrument: int, until_ns: int, stop: Stop, limit: int) -> list[OwnFill]:
        """Execute a part of a run; after a correction, compare the best prices before and after."""
        if stop is not Stop.BOOK or not self._has_fills:
            return super()._step(until_ns, stop, limit)
        book = self.history[instrument]
        self._corrected, before = False, best_levels(book)
        own = super()._step(until_ns, stop, limit)
        if self._corrected:
            changed = best_levels(book) != before
            self.changed: int = instrument if changed else -1
        return own

    def _end_run(self, own: list[OwnFill]) -> None:
        """Finish the pending event of a run; a ``CLEAR`` event removes own orders, too."""
        own += self._match_pending()
        self._pending = None
        _, instrument = self._runs[self._run]
        book = self.markets.get(instrument)
        if book is not None and self._events["kind"][self._place - 1] == Kind.CLEAR:
            gone, ts_ns = book.clear(), self.last_ns
            own += [OwnFill(ts_ns, instrument, one.order_id, 0, 0, True, 0) for one in gone]
            self.reset_search()
        super()._end_run(own)

    def _prepare(self, book: ShadowBook, place: int) -> PendingEvent:
        """Read an event before it is executed."""
        side, keeps_place = None, False
        if self._events["kind"][place] == Kind.REPLACE:
            command = RecordedCommand(*self._events[place].item())
            if command.order_id in book.history:
                order = book.history.order(command.order_id)
                side = order.side
                smaller = command.size * self.lot_wei < order.remaining
                keeps_place = smaller and command.price == order.price
        self._corrected, self._misplaced = False, NO_ORDERS
        return PendingEvent(book, place, self._num_fills, side, keeps_place)

    def _match_pending(self) -> list[OwnFill]:
        """Match own orders against the pending event, if it was executed just now."""
        if self._pending is None or self._pending.place != self._place - 1:
            return []
        book, place, filled, side, keeps_place = self._pending
        command = RecordedCommand(*self._events[place].item())
        # A replaced order may be unknown, because it rested before the recording began.
        if side is None and command.kind in INCOMING and command.side in (Side.BUY, Side.SELL):
            side = Side(command.side)
        status = int(self._status[place])
        rows = last_rows(self._fill_bytes, filled, self._num_fills, self._base + place)
        if keeps_place and not status and not self._corrected:
            self._kept_in_place.append(place)
            return []
        rests = 0
        if command.kind != Kind.IOC and not status:
            if not command.flags & FOK:
                book.taken.pop(command.order_id, None)
            if command.rests and command.order_id in book.history:
                rests = book.history.order(command.order_id).remaining // self.lot_wei
        if side is None or not book.own:
            return []
        fills = [(row[1], row[3], row[4]) for row in rows]
        untraded = untraded_size(command, status, sum(row[3] for row in rows), rests)
        met = own_matches(book, Incoming(side, command.price, fills, untraded, self._misplaced))
        allocated = sum(size for _, size in met)
        # A post-only order has no volume for own orders on arrival.
        if taken := min(allocated, rests, untraded):
            book.take(command.order_id, side, command.price, taken)
            self.watch([command.order_id])
        own = []
        for order, size in met:
            order.left -= size
            if not order.left:
                book.remove(order)
                self.reset_search()
            head = (command.ts_ns, command.instrument, order.order_id)
            own.append(OwnFill(*head, size, order.price, True, command.order_id))
        return own

    def _correct_book(self, book: Book, difference: Difference) -> None:
        """Correct a book, and report the recorded fills instead of its own."""
        _, command, status, produced, recorded, *_ = difference
        stood = {(order_id, price) for order_id, _, price in produced}
        self._misplaced = frozenset(
            order_id
            for order_id, _, price in recorded
            if (order_id, price) not in stood
            and (order_id not in book or book.order(order_id).price != price)
        )
        corrected = apply_recorded_fills(book, command, produced, recorded, done=not status)
        if (corrected.ghosts or not corrected.complete) and self._on_difference:
            self._on_difference(difference._replace(ghosts=corrected.ghosts))
        self._corrected = True
        self._num_fills -= len(produced)
        if self._num_fills + len(recorded) > len(self._fills):
            self._reserve_rows(2 * len(self._fills) + len(recorded) + EXTRA_ROWS, len(self._bests))
        where, incoming_id, ts_ns = self.next_index - 1, command.order_id, command.ts_ns
        for order_id, size, price in recorded:
            self._fills[self._num_fills] = (where, order_id, incoming_id, size, price, ts_ns)
            self._num_fills += 1


def _first(hits: npt.NDArray[np.bool_], start: int, stop: int) -> int:
    """Return the place of the first hit from ``start`` on, or ``stop``."""
    if start >= stop:
        return stop
    first = int(hits.argmax())
    return start + first if hits[first] else stop
