"""Executes a stream as history had it, own orders at their places beside it: ``shadow``.

Own orders change nothing in history. They wait behind what rested before them, get what recorded
orders gave to those behind them or at worse prices, and take from recorded orders what no own
order has taken yet. :mod:`clob.replay.modes.shadow_rules` has the rules.
"""

from collections.abc import Callable, Mapping
from typing import cast

from clob.book import Book
from clob.errors import RejectedError
from clob.order import Side
from clob.records import Kind
from clob.replay.io.chunk import Difference, Played
from clob.replay.io.streams import CHUNK, Stream
from clob.replay.modes.row_buffer import Gathered
from clob.replay.modes.shadow_book import OwnResting, ShadowBook
from clob.replay.modes.shadow_driver import ShadowFlow
from clob.replay.modes.shadow_rules import FOK, Taking, offers, taking
from clob.replay.sim.driver import OwnFill, Stop


class ShadowDriver:
    """Executes a stream as it says; own orders have their places in its queues.

    This is the :class:`~clob.replay.sim.driver.Driver` of the ``shadow`` mode. Events of one time
    come before what is done at that time from outside. What stops it are best prices of history.

    Args:
        stream: what to execute; its leading ``SEED`` events are executed at once.
        chunk: how many events are read at a time. The results do not depend on it.
        sink: told of each chunk that is done, and at last of what came after the end. Its fills
            and best prices are history's alone.
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
        self._flow = flow = ShadowFlow(
            stream,
            chunk=chunk,
            sink=sink,
            on_difference=on_difference,
            bests=bests,
            rooms=rooms,
            book_class=book_class,
        )
        self.history: Mapping[int, Book] = flow.books
        """The books of history, without own orders, by their instrument."""
        # They are looked at only, and have all that one looks at a book by.
        self.books: Mapping[int, Book] = cast("Mapping[int, Book]", flow.markets)
        """The books with own orders in them, by their instrument: each a
        :class:`~clob.replay.modes.shadow_book.ShadowBook`."""
        self.lot_wei: int = flow.lot_wei
        """What a size of 1 stands for, in wei."""
        self.start_ns: int = flow.start_ns
        """The time of the first event that is no seed."""
        self.last_ns: int = flow.last_ns
        """The latest time of any event executed; ``start_ns`` before the first."""
        self.ended: bool = flow.ended
        """Whether no event is left."""
        self.changed: int = -1
        """The instrument whose best prices made the last ``advance`` stop, or -1."""

    @property
    def events(self) -> int:
        """How many events were executed, references among them."""
        return self._flow.events

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events; see :meth:`clob.replay.sim.driver.Driver.advance`."""
        flow = self._flow
        own = flow.advance(until_ns, stop)
        self.last_ns, self.ended, self.changed = flow.last_ns, flow.ended, flow.changed
        return own

    def close(self) -> None:
        """Hand over what came after the last event; call it once, at the very end."""
        self._flow.close()

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
        book = self._flow.markets[instrument]
        try:
            what = taking(offers(book, Side(side), price, size), size, flags)
        except RejectedError as refusal:
            return refusal.number, 0, []
        if what.refusal:
            return what.refusal, 0, []
        own = self._trade(book, ts_ns, instrument, order_id, what)
        gone = {order.order_id for order in what.cancels}
        for order in [one for one in book.own.values() if one.order_id in gone]:
            book.leave(order)
            own.append(OwnFill(ts_ns, instrument, order.order_id, 0, 0, True, 0))
        rests = 0 if kind == Kind.IOC or flags & FOK else what.left
        if rests:
            book.rest(OwnResting(order_id, Side(side), price, rests, self._flow.here))
        self._flow.disturb()
        return 0, rests, own

    def _trade(
        self, book: ShadowBook, ts_ns: int, instrument: int, order_id: int, what: Taking
    ) -> list[OwnFill]:
        """Let an own order have what it gets.

        Returns:
            The fills; those of an own order it met are told of first.
        """
        own: list[OwnFill] = []
        taken: list[int] = []
        for offer, size in what.trades:
            if offer.own is None:
                book.take(
                    offer.order_id, book.history.order(offer.order_id).side, offer.price, size
                )
                taken.append(offer.order_id)
            else:
                offer.own.left -= size
                if not offer.own.left:
                    book.leave(offer.own)
                own.append(
                    OwnFill(ts_ns, instrument, offer.order_id, size, offer.price, True, order_id)
                )
            own.append(
                OwnFill(ts_ns, instrument, order_id, size, offer.price, False, offer.order_id)
            )
        if taken:
            self._flow.watch(taken)
        return own

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Take an own order out; see :meth:`clob.replay.sim.driver.Driver.cancel`."""
        book = self._flow.markets[instrument]
        if order_id not in book.own:
            return False
        book.leave(book.own[order_id])
        self._flow.disturb()
        return True
