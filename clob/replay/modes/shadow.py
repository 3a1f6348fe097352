"""The ``shadow`` mode: executes a stream as recorded, with own orders that do not affect it.

Own orders queue behind the orders that rested before them. They receive the volume that history
gave to orders behind them or at worse prices, and take the volume of recorded orders that no own
order has taken yet. The rules are in :mod:`clob.replay.modes.shadow_rules`.
"""

from collections.abc import Callable, Mapping
from typing import cast

from clob.book import Book
from clob.errors import RejectedError
from clob.order import Side
from clob.records import Kind
from clob.replay.io.chunk import Difference, ReplayedChunk
from clob.replay.io.streams import CHUNK, Stream
from clob.replay.modes.row_buffer import RowBuffer
from clob.replay.modes.shadow_book import OwnResting, ShadowBook
from clob.replay.modes.shadow_driver import ShadowFlow
from clob.replay.modes.shadow_rules import FOK, Execution, execute, matchable_orders
from clob.replay.sim.driver import Stop
from clob.replay.sim.orders import OwnFill


class ShadowDriver:
    """Executes a stream as recorded; own orders have positions in its queues.

    This is the :class:`~clob.replay.sim.driver.Driver` of the ``shadow`` mode. Events come before
    own orders and cancels of the same time. ``Stop.BOOK`` refers to the best prices of history.

    Args:
        stream: the stream; its leading ``SEED`` events are executed at once.
        chunk: events read at a time. It does not affect the results.
        sink: called with each finished chunk, and once more at the end. Its fills and best prices
            are those of history.
        on_difference: called with each recorded command whose fills could not be applied.
        bests: whether best-price changes are recorded.
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
        bests: bool = True,
        buffers: Mapping[str, RowBuffer] | None = None,
        book_class: type[Book] = Book,
    ) -> None:
        self._flow = flow = ShadowFlow(
            stream,
            chunk=chunk,
            sink=sink,
            on_difference=on_difference,
            bests=bests,
            buffers=buffers,
            book_class=book_class,
        )
        self.history: Mapping[int, Book] = flow.books
        """The books without own orders, by instrument."""
        # They are only read, and have every method of a Book that reads.
        self.books: Mapping[int, Book] = cast("Mapping[int, Book]", flow.markets)
        """The books with own orders, by instrument: each a
        :class:`~clob.replay.modes.shadow_book.ShadowBook`."""
        self.lot_wei: int = flow.lot_wei
        """Wei in one lot."""
        self.start_ns: int = flow.start_ns
        """Time of the first event that is not a seed."""
        self.last_ns: int = flow.last_ns
        """Latest time of the executed events; ``start_ns`` before the first."""
        self.ended: bool = flow.ended
        """Whether all events were executed."""
        self.changed: int = -1
        """The instrument whose best prices stopped the last ``advance``, or -1."""

    @property
    def events(self) -> int:
        """Executed events, reference records included."""
        return self._flow.events

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events; see :meth:`clob.replay.sim.driver.Driver.advance`."""
        flow = self._flow
        own = flow.advance(until_ns, stop)
        self.last_ns, self.ended, self.changed = flow.last_ns, flow.ended, flow.changed
        return own

    def close(self) -> None:
        """Pass the rows of the last chunk to the sink; call it once at the end."""
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
        """Execute a new own order; see :meth:`clob.replay.sim.driver.Driver.submit`."""
        book = self._flow.markets[instrument]
        try:
            execution = execute(matchable_orders(book, Side(side), price, size), size, flags)
        except RejectedError as error:
            return error.number, 0, []
        if execution.rejection:
            return execution.rejection, 0, []
        own = self._trade(book, ts_ns, instrument, order_id, execution)
        gone = {order.order_id for order in execution.cancels}
        for order in [one for one in book.own.values() if one.order_id in gone]:
            book.remove(order)
            own.append(OwnFill(ts_ns, instrument, order.order_id, 0, 0, True, 0))
        rests = 0 if kind == Kind.IOC or flags & FOK else execution.left
        if rests:
            book.rest(OwnResting(order_id, Side(side), price, rests, self._flow.next_index))
        self._flow.reset_search()
        return 0, rests, own

    def _trade(
        self, book: ShadowBook, ts_ns: int, instrument: int, order_id: int, execution: Execution
    ) -> list[OwnFill]:
        """Execute the trades of an own order.

        Returns:
            The fills; those of a resting own order come first.
        """
        own: list[OwnFill] = []
        taken: list[int] = []
        for offer, size in execution.trades:
            if offer.own is None:
                book.take(
                    offer.order_id, book.history.order(offer.order_id).side, offer.price, size
                )
                taken.append(offer.order_id)
            else:
                offer.own.left -= size
                if not offer.own.left:
                    book.remove(offer.own)
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
        """Cancel an own order; see :meth:`clob.replay.sim.driver.Driver.cancel`."""
        book = self._flow.markets[instrument]
        if order_id not in book.own:
            return False
        book.remove(book.own[order_id])
        self._flow.reset_search()
        return True
