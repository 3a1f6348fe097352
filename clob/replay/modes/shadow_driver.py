"""Executes recorded flow as history says, and stops where it concerns own orders: ``shadow``.

Only history's orders are in the books. Where the fills of a command are not those recorded behind
it, the recorded ones count: the book is put right, and they are what is told. Most events do not
concern own orders and are executed in stretches; the others one by one.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.order import Side
from clob.records import Flag, Kind
from clob.replay.io.chunk import Difference, Played
from clob.replay.io.recording import Records
from clob.replay.io.repair import Command, put_right, top_of
from clob.replay.io.streams import CHUNK, Stream
from clob.replay.modes.rematch import SPARE, StreamDriver
from clob.replay.modes.row_buffer import Gathered
from clob.replay.modes.rows import last_rows
from clob.replay.modes.shadow_book import ShadowBook
from clob.replay.modes.shadow_rules import Incoming, met_by, spare_of
from clob.replay.sim.driver import NEVER, OwnFill, Stop

LOW, HIGH = -(2**31), 2**31 - 1
FOK = int(Flag.FOK)


class Reach(NamedTuple):
    """What the events of a chunk may reach, worked out when there are own orders.

    What is unknown counts as more than it is, so that nothing that reaches an own order is missed.
    """

    below: npt.NDArray[np.int64]
    """Each event may concern own buy orders at this price and above; ``HIGH`` if none."""
    above: npt.NDArray[np.int64]
    """Each event may concern own sell orders at this price and below; ``LOW`` if none."""
    lowest: npt.NDArray[np.int64]
    """The lowest price of a recorded fill of each, if that may be of a buy order; or ``HIGH``."""
    highest: npt.NDArray[np.int64]
    """The highest price of a recorded fill of each, if that may be of a sell order; or ``LOW``."""
    joined: npt.NDArray[np.int64]
    """Index in the stream of the event by which any of those that each filled joined its queue
    last, at most."""
    moves: list[int]
    """The places of replacements."""
    move_prices: list[int]
    """Their prices."""
    joins: npt.NDArray[np.int64]
    """The places of the events by which an order may join a queue."""
    join_ids: npt.NDArray[np.uint64]
    """The orders of those."""
    join_prices: npt.NDArray[np.int32]
    """Their prices."""


def reach_of(events: Records, base: int, *, verifies: bool) -> Reach:
    """Work out what the events of a chunk may reach.

    Args:
        events: array of ``EVENT``.
        base: index in the stream of the first.
        verifies: whether what came of them was recorded.
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
    # Orders at better prices than a fill are reached whoever came first.
    spare = size > filled
    below = np.minimum(np.where(sells & spare, price, HIGH), lowest + 1)
    above = np.maximum(np.where(buys & spare, price, LOW), highest - 1)
    moves = np.flatnonzero(replaces)
    return Reach(
        *(below, above, lowest, highest, joined, moves.tolist(), price[moves].tolist()),
        *(joins, join_ids, events["price"].take(joins)),
    )


def last_joins(
    joins: npt.NDArray[np.int64],
    join_ids: npt.NDArray[np.uint64],
    ids: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int64]:
    """Find where orders joined their queues last, if they did in a chunk.

    Args:
        joins: the places of the events by which orders join.
        join_ids: the orders of those.
        ids: the orders sought.

    Returns:
        A place each; -1 for those who came before the chunk.
    """
    if not len(joins):
        return np.full(len(ids), -1)
    order = np.argsort(join_ids, kind="stable")
    found = np.maximum(np.searchsorted(join_ids[order], ids, side="right") - 1, 0)
    places = joins[order[found]]
    return np.where(join_ids[order[found]] == ids, places, -1)


WINDOW = 128
"""How many events are searched at first for the next one that reaches an own order."""

FEW = 64
"""How many orders NumPy is not worth calling for."""

NOBODY: frozenset[int] = frozenset()

Queues: TypeAlias = dict[int, dict[int, int]]
"""By price, which orders joined that queue, and when."""


class Meeting(NamedTuple):
    """An event that will be executed and may concern own orders."""

    book: ShadowBook
    """Its book."""
    place: int
    """Where it is in the chunk."""
    filled: int
    """A number of fills of the chunk that came before it."""
    side: Side | None
    """Which way an order goes that is replaced; else None."""
    stays: bool
    """Whether it is to make an order smaller where it stands, and nothing else."""


class ShadowFlow(StreamDriver):
    """Executes a stream as history had it, and finds what own orders get of it.

    Own orders stand in ``markets`` and are somebody else's to bring in and take out.

    Args:
        stream: what to execute; its leading ``SEED`` events are executed at once.
        chunk: how many events are read at a time. The results do not depend on it.
        sink: told of each chunk that is done, and at last of what came after the end.
        on_difference: told of each recorded command whose fills could not be taken off the book.
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
        self.markets: dict[int, ShadowBook] = {}
        """The books as far as own orders go, by instrument."""
        self._meeting: Meeting | None = None
        self._corrected = False
        self._strangers = NOBODY
        self._reach: Reach | None = None
        self._caught_up = 0
        self._staying: list[int] = []
        self._stops: list[int] = []
        self._seen, self._found, self._window = -1, False, WINDOW
        super().__init__(
            stream,
            chunk=chunk,
            sink=sink,
            on_difference=on_difference,
            bests=bests,
            rooms=rooms,
            book_class=book_class,
        )
        for number, book in self.books.items():
            self.markets[number] = ShadowBook(book)
            self.markets[number].catch_up = self.catch_up

    # ----- chunks ------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Part the chunk into runs, whose ends must be known before they are reached."""
        self._cut_by_book()

    def _finish(self) -> None:
        """Note who joined which queue in a chunk, and begin the next one."""
        self.catch_up()
        for book in self.markets.values():
            book.forget_gone()
        super()._finish()

    def _load(self) -> None:
        """Take up the next chunk."""
        super()._load()
        self._reach = None
        self._caught_up = self._place
        self._staying.clear()
        self._stops.clear()
        self.disturb()
        if any(book.taken for book in self.markets.values()):
            taken = {order_id for book in self.markets.values() for order_id in book.taken}
            ids = np.fromiter(taken, np.uint64, len(taken))
            reach = self._reached()
            self._stops = reach.joins[np.isin(reach.join_ids, ids)].tolist()

    def _reached(self) -> Reach:
        """Work out what the events of this chunk may reach."""
        if self._reach is not None:
            return self._reach
        self._reach = reach_of(self._events, self._base, verifies=self._verifies)
        return self._reach

    def catch_up(self) -> None:
        """Note who joined the queues in which own orders stand, up to the next event."""
        start, end = self._caught_up, self._place
        if start == end:
            return
        self._caught_up = end
        queues = {number: book.came for number, book in self.markets.items() if book.came}
        if queues:
            self._note_joins(start, end, queues)
        self._staying.clear()

    def _note_joins(self, start: int, end: int, queues: dict[int, Queues]) -> None:
        """Note who joined which queue.

        Args:
            start: the place of the first event to look at.
            end: the place behind the last.
            queues: the queues of each instrument, by price.
        """
        reach = self._reached()
        first, last = reach.joins.searchsorted((start, end)).tolist()
        prices = reach.join_prices[first:last]
        looked_at = {price for some in queues.values() for price in some}
        if last - first > FEW:
            hits = np.flatnonzero(np.isin(prices, list(looked_at))).tolist()
        else:
            hits = [hit for hit, price in enumerate(prices.tolist()) if price in looked_at]
        for hit in hits:
            place = int(reach.joins[first + hit])
            queue = queues.get(int(self._events["instrument"][place]), {}).get(int(prices[hit]))
            if queue is not None and not self._status[place] and place not in self._staying:
                queue[int(reach.join_ids[first + hit])] = self._base + place

    # ----- what concerns own orders ------------------------------------------------------------

    def disturb(self) -> None:
        """Hear that own orders have come or gone: other events may reach them now."""
        self._seen, self._found = -1, False

    def watch(self, order_ids: Iterable[int]) -> None:
        """Hear that own orders took some of recorded ones: when those come in anew matters now.

        Args:
            order_ids: the recorded orders.
        """
        reach = self._reached()
        first = int(np.searchsorted(reach.joins, self._place))
        for order_id in order_ids:
            hits = np.flatnonzero(reach.join_ids[first:] == np.uint64(order_id))
            for place in reach.joins[first:][hits].tolist():
                insort(self._stops, place)

    def _halt(self, book: ShadowBook, end: int) -> tuple[int, bool]:
        """Give the place of the next event that may concern own orders, or one before it.

        Args:
            book: the book of the run.
            end: where the run ends.

        Returns:
            The place, and whether it is of such an event.
        """
        halt, concerns = end, False
        if self._stops:
            index = bisect_left(self._stops, self._place)
            if index < len(self._stops) and self._stops[index] < end:
                halt, concerns = self._stops[index], True
        if book.own and halt > self._place:
            if self._seen < self._place or (self._seen == self._place and not self._found):
                self._search(book, end)
            if self._seen < halt:
                halt, concerns = self._seen, self._found
        return halt, concerns

    def _search(self, book: ShadowBook, end: int) -> None:
        """Look for the next event of a run that reaches an own order."""
        reach = self._reached()
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
        # Whether a replacement at an own price keeps its place must be seen before.
        for index in range(bisect_left(reach.moves, start), len(reach.moves)):
            if reach.moves[index] >= stop:
                break
            if reach.move_prices[index] in book.came:
                stop = reach.moves[index]
                break
        self._found, self._seen = stop < window, stop
        self._window = WINDOW if self._found else 2 * self._window

    # ----- recorded events ---------------------------------------------------------------------

    def _step(self, until_ns: int, stop: Stop, limit: int = NEVER) -> list[OwnFill]:
        """Execute a stretch that does not concern own orders, or one event that may."""
        end, instrument = self._runs[self._run]
        book = self.markets.get(instrument)
        if book is None or not (book.own or book.taken):
            return self._execute(instrument, until_ns, stop, limit)
        halt, concerns = self._halt(book, end)
        # How a replacement finds its order must be seen right before.
        if concerns and (halt == self._place or self._events["kind"][halt] != Kind.REPLACE):
            self._meeting = self._prepare(book, halt)
            halt += 1
        own = self._execute(instrument, until_ns, stop, min(limit, halt))
        if self._meeting is not None:
            own += self._settle()
            self._meeting = None
        return own

    def _execute(self, instrument: int, until_ns: int, stop: Stop, limit: int) -> list[OwnFill]:
        """Execute a stretch; whether it changed best prices, says the book that was put right."""
        if stop is not Stop.BOOK or not self._verifies:
            return super()._step(until_ns, stop, limit)
        book = self.books[instrument]
        self._corrected, before = False, top_of(book)
        own = super()._step(until_ns, stop, limit)
        if self._corrected:
            self.changed: int = instrument if top_of(book) != before else -1
            """The instrument whose best prices made the last ``advance`` stop, or -1."""
        return own

    def _end_run(self, own: list[OwnFill]) -> None:
        """Settle the event that ended a run; what clears a book clears own orders, too."""
        own += self._settle()
        self._meeting = None
        _, instrument = self._runs[self._run]
        book = self.markets.get(instrument)
        if book is not None and self._events["kind"][self._place - 1] == Kind.CLEAR:
            own += [
                OwnFill(self.last_ns, instrument, one.order_id, 0, 0, True, 0)
                for one in book.clear()
            ]
            self.disturb()
        super()._end_run(own)

    def _prepare(self, book: ShadowBook, place: int) -> Meeting:
        """Look at an event before it is executed."""
        side, stays = None, False
        if self._events["kind"][place] == Kind.REPLACE:
            command = Command(*self._events[place].item())
            if command.order_id in book.history:
                order = book.history.order(command.order_id)
                side = order.side
                smaller = command.size * self.lot_wei < order.remaining
                stays = smaller and command.price == order.price
        self._corrected, self._strangers = False, NOBODY
        return Meeting(book, place, self._filled, side, stays)

    def _settle(self) -> list[OwnFill]:
        """Find what own orders get of the event they wait for, if it was executed just now.

        Returns:
            Their fills.
        """
        if self._meeting is None or self._meeting.place != self._place - 1:
            return []
        book, place, filled, side, stays = self._meeting
        command = Command(*self._events[place].item())
        if command.kind in (Kind.LIMIT, Kind.IOC) and command.side in (Side.BUY, Side.SELL):
            side = Side(command.side)
        status = int(self._status[place])
        rows = last_rows(self._fill_bytes, filled, self._filled, self._base + place)
        if stays and not status and not self._corrected:
            self._staying.append(place)
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
        spare = spare_of(command, status, sum(row[3] for row in rows), rests)
        met = met_by(book, Incoming(side, command.price, fills, spare, self._strangers))
        given = sum(size for _, size in met)
        # Of what rests an order that must not trade when it comes has nothing to give.
        if taken := min(given, rests, spare):
            book.take(command.order_id, side, command.price, taken)
            self.watch([command.order_id])
        own = []
        for order, size in met:
            order.left -= size
            if not order.left:
                book.leave(order)
                self.disturb()
            own.append(
                OwnFill(
                    *(command.ts_ns, command.instrument, order.order_id, size, order.price),
                    resting=True,
                    other_id=command.order_id,
                )
            )
        return own

    def _correct(self, book: Book, difference: Difference) -> None:
        """Put a book right, and tell the recorded fills in place of those that came."""
        _, command, status, produced, recorded, _ = difference
        stood = {(order_id, price) for order_id, _, price in produced}
        self._strangers = frozenset(
            order_id
            for order_id, _, price in recorded
            if (order_id, price) not in stood
            and (order_id not in book or book.order(order_id).price != price)
        )
        whole = put_right(book, command, produced, recorded, done=not status)
        if not whole and self._on_difference:
            self._on_difference(difference)
        self._corrected = True
        self._filled -= len(produced)
        if self._filled + len(recorded) > len(self._fills):
            self._make_room(2 * len(self._fills) + len(recorded) + SPARE, len(self._bests))
        where = self.here - 1
        for order_id, size, price in recorded:
            self._fills[self._filled] = (
                *(where, order_id, command.order_id, size, price),
                command.ts_ns,
            )
            self._filled += 1


def _first(hits: npt.NDArray[np.bool_], start: int, stop: int) -> int:
    """Give the place of the first hit of those from a place on; ``stop`` if there is none."""
    if start >= stop:
        return stop
    first = int(hits.argmax())
    return start + first if hits[first] else stop


# MERGED clob.replay.modes.shadow_driver: What the events of a chunk may reach: worked out at once, so that few of them are looked at.
#
# An own order is concerned by the events that trade at its price or beyond, as far as the recorded
# fills and the limits show before they are executed.
