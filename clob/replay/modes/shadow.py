"""The ``shadow`` mode: executes a stream as recorded, with own orders that do not affect it.

Own orders queue behind the orders that rested before them. They receive the volume that history
gave to orders behind them or at worse prices, and take the volume of recorded orders that no own
order has taken yet. The rules are in :mod:`clob.replay.modes.shadow_rules`.
"""

from clob.errors import RejectedError
from clob.order import Side
from clob.records import Kind
from clob.replay.modes.shadow_book import OwnResting, ShadowBook
from clob.replay.modes.shadow_driver import ShadowFlow
from clob.replay.modes.shadow_rules import FOK, Execution, execute, matchable_orders
from clob.replay.sim.orders import OwnFill


class ShadowDriver(ShadowFlow):
    """Executes a stream as recorded; own orders have positions in its queues.

    This is the :class:`~clob.replay.sim.driver.Driver` of the ``shadow`` mode. Events come before
    own orders and cancels of the same time. ``Stop.BOOK`` refers to the best prices of history,
    and so do the fills and best prices of finished chunks. ``books`` have own orders; each is a
    :class:`~clob.replay.modes.shadow_book.ShadowBook`.
    """

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
        book = self.markets[instrument]
        try:
            execution = execute(matchable_orders(book, Side(side), price, size), size, flags)
        except RejectedError as error:
            return error.number, -1, []
        if execution.rejection:
            return execution.rejection, -1, []
        own = self._trade(book, ts_ns, instrument, order_id, execution)
        gone = {order.order_id for order in execution.cancels}
        for order in [one for one in book.own.values() if one.order_id in gone]:
            book.remove(order)
            own.append(OwnFill(ts_ns, instrument, order.order_id, 0, 0, True, 0))
        ahead = -1
        if execution.left and kind != Kind.IOC and not flags & FOK:
            order = OwnResting(order_id, Side(side), price, execution.left, self.next_index)
            book.rest(order)
            ahead = book.ahead(order_id).size // book.lot_wei
        self.reset_search()
        return 0, ahead, own

    def _trade(
        self, book: ShadowBook, ts_ns: int, instrument: int, order_id: int, execution: Execution
    ) -> list[OwnFill]:
        """Execute the trades of an own order; return their fills, a resting own order's first."""
        own: list[OwnFill] = []
        taken: list[int] = []
        for offer, size in execution.trades:
            other, price = offer.order_id, offer.price
            if offer.own is None:
                book.take(other, book.history.order(other).side, price, size)
                taken.append(other)
            else:
                offer.own.left -= size
                if not offer.own.left:
                    book.remove(offer.own)
                own.append(OwnFill(ts_ns, instrument, other, size, price, True, order_id))
            own.append(OwnFill(ts_ns, instrument, order_id, size, price, False, other))
        if taken:
            self.watch(taken)
        return own

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Cancel an own order; see :meth:`clob.replay.sim.driver.Driver.cancel`."""
        book = self.markets[instrument]
        if order_id not in book.own:
            return False
        book.remove(book.own[order_id])
        self.reset_search()
        return True
