"""The Book in plain Python: the reference for the compiled Book, its types and documentation.

Written to be read, not to be fast; tests compare the compiled Book with it. It consists of
matching (:mod:`clob.book._matching_py`), queries (:mod:`clob.book._queries_py`), the batch
interface (:mod:`clob.book._batch_py`) and the single commands below.
"""

from collections.abc import Sequence
from typing import Any

from clob.book import state as state_py
from clob.book import validation
from clob.book._batch_py import BatchMethods
from clob.book._matching_py import QueuedOrder
from clob.book._queries_py import alone
from clob.errors import InvalidInstructionError
from clob.events import Event, RemovalReason, Trade
from clob.order import Order, SelfTrade, TimeInForce
from clob.units import TIME_MAX


class Book(BatchMethods):
    """The order book of one outcome token: price-time priority on a grid of integer prices.

    Commands return events. A rejected command raises a :class:`~clob.errors.RejectedError` and
    changes nothing, not even ``seq``. A command that breaks several rules raises the error that
    comes first in :mod:`clob.errors`.

    Args:
        lo: the lowest price, in ticks.
        hi: the highest price, in ticks; a book spans at most ``TICKS_MAX`` prices.
        token: token of the book; orders for another token are rejected. Empty accepts any.
        lot_wei: every size is a multiple of this; the unit of sizes in records.
        capacity: number of resting orders to allocate memory for. The compiled book does not
            pause to grow below it; it is not a limit.
        market: market named in events and depth.

    Raises:
        InvalidBookError: an argument has the wrong type or is out of range.

    >>> from clob import Side
    >>> book = Book(token="101")
    >>> ask = Order(id="a", token="101", maker="0xA11CE", side=Side.SELL, price=50, size=60)
    >>> [type(event).__name__ for event in book.submit(ask, now_ms=1_000)]
    ['OrderAdded']
    >>> bid = Order(id="b", token="101", maker="0xB0B", side=Side.BUY, price=55, size=100)
    >>> trade, removed, added = book.submit(bid, now_ms=2_000)
    >>> (trade.price, trade.size, trade.seller, trade.buyer, added.remaining)
    (50, 60, '0xA11CE', '0xB0B', 40)
    """

    # ----- commands ------------------------------------------------------------------------

    @alone
    def submit(self, order: Order, now_ms: int = 0, trades_max: int | None = None) -> list[Event]:
        """Match an order against the book and rest the remainder.

        Args:
            order: the order, ``price`` in ticks and ``size`` in wei.
            now_ms: time of the command, Unix milliseconds. Resting orders on its path that
                expired earlier are removed instead of traded.
            trades_max: maximum number of trades, 1 or more; None is no limit.

        Returns:
            The events, oldest first. A ``Trade`` for each resting order that it matches,
            followed by ``OrderRemoved`` if that order is filled; finally ``OrderAdded`` if a
            remainder rests.

        Raises:
            TypeError: ``order`` is not an ``Order``.
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidInstructionError: ``trades_max``, time in force, post-only, self-trade or
                expiration have the wrong type or contradict each other.
            InvalidSideError: the side is not a ``Side``.
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**63 - 1.
            InvalidOwnerError: the maker is not a ``str``.
            TokenNotInMarketError: the order is for another token.
            PriceOutOfRangeError: the price is not on the grid.
            InvalidAmountError: the size is not positive or not a multiple of the lot.
            AmountTooLargeError: the size is above ``SIZE_MAX``.
            OrderExpiredError: the second of ``now_ms`` is after ``order.expiration_s``.
            DuplicateOrderError: an order with this id rests. Orders that never rest (IOC, FOK)
                may repeat the id, since some recorded exchanges amend an order into a trade.
            PostOnlyWouldCrossError: the order is post-only and would trade.
            FokNotFillableError: the order is fill-or-kill and cannot trade its whole size.
            TooManyTradesError: the order would make more than ``trades_max`` trades.

        Source: specification, "What the service does", 2 and 3. O(orders matched + log levels).
        """
        validation.check_trades_max(trades_max)
        order = validation.plain_order(order)
        incoming = self._admit(order, now_ms)
        rests = order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD)
        if rests:
            self._reject_duplicate(order.id)
        now_s = now_ms // 1000
        policy = order.self_trade or SelfTrade.NONE
        if order.post_only:
            self._reject_post_only(incoming, now_s)
        if order.time_in_force is TimeInForce.FOK:
            self._reject_unfillable(incoming, policy, now_s)
        self._reject_too_many_trades(incoming, policy, now_s, trades_max)
        return self._execute(incoming, policy, now_s, rests=rests)

    @alone
    def rest(self, order: Order, now_ms: int = 0, before: str | int | None = None) -> list[Event]:
        """Rest an order without matching, for example to restore a snapshot.

        Args:
            order: as for :meth:`submit`; time in force and policies are checked but not used.
            now_ms: time of the command, Unix milliseconds.
            before: id or number of a resting order of the same side and price to insert in front
                of; None appends to the queue.

        Returns:
            One ``OrderAdded``.

        Raises:
            RejectedError: as :meth:`submit` up to ``DuplicateOrderError``; as :meth:`order` for
                ``before``; ``InvalidInstructionError`` if ``before`` is in another queue; then
                ``SeedWouldCrossError`` if a resting order of the other side could trade.
        """
        order = validation.plain_order(order)
        resting = self._admit(order, now_ms)
        if order.time_in_force in (TimeInForce.IOC, TimeInForce.FOK):
            raise InvalidInstructionError(
                f"rest needs time_in_force GTC or GTD; got {order.time_in_force!r}"
            )
        self._reject_duplicate(order.id)
        following = None if before is None else self._find(before)
        self._reject_other_queue(resting, following)
        self._reject_seed(resting)
        events: list[Event] = []
        self._add(resting, events)
        self._move(resting, following)
        return events

    def rest_all(self, ids: Sequence[str | int], rows: bytes, makers: Sequence[str]) -> None:
        """Rest several orders as :meth:`rest` does, without their events.

        Args:
            ids: their ids.
            rows: for each a ``clob.book.state.ROW``.
            makers: the makers that the rows refer to by index.

        Raises:
            RejectedError: as :meth:`rest`; the orders before the rejected one rest.
        """
        for order_id, row in zip(ids, state_py.ROW.iter_unpack(rows), strict=True):
            self.rest(state_py.order_of(order_id, row, self._token, makers))

    @alone
    def cancel(
        self, order_id: str | int, now_ms: int = 0, reason: RemovalReason = RemovalReason.CANCELLED
    ) -> list[Event]:
        """Remove an order from the book.

        Args:
            order_id: id or number of the order.
            now_ms: time of the command, Unix milliseconds.
            reason: reason for the event.

        Returns:
            One ``OrderRemoved``.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidInstructionError: the reason is not a ``RemovalReason``.
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            UnknownOrderError: no resting order has this id or number.

        O(log levels); the compiled book does it in constant time.
        """
        validation.check_time(now_ms)
        validation.check_reason(reason)
        events: list[Event] = []
        self._remove(self._find(order_id), reason, events)
        return events

    @alone
    def reduce(self, order_id: str | int, size: int, now_ms: int = 0) -> list[Event]:
        """Reduce the size of an order; it keeps its place in the queue.

        Args:
            order_id: id or number of the order.
            size: new remaining size, in wei.
            now_ms: time of the command, Unix milliseconds.

        Returns:
            One ``OrderReduced``.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            InvalidAmountError: the size is not positive or not a multiple of the lot.
            AmountTooLargeError: the size is above ``SIZE_MAX``.
            UnknownOrderError: no resting order has this id or number.
            SizeNotReducedError: the size is not below the remaining size.
        """
        validation.check_time(now_ms)
        validation.check_id(order_id)
        validation.check_size(size, self._lot_wei)
        return self._reduce(self._find(order_id), size)

    @alone
    def replace(
        self,
        order_id: str | int,
        price: int,
        size: int,
        now_ms: int = 0,
        post_only: bool = False,
        self_trade: SelfTrade | None = None,
        trades_max: int | None = None,
    ) -> list[Event]:
        """Change the price or size of an order.

        A smaller size at the same price keeps the place in the queue. Any other change removes
        the order and submits it again: it may trade, and it queues last.

        Args:
            order_id: id or number of the order; both stay the same.
            price: new limit, in ticks.
            size: new remaining size, in wei.
            now_ms: time of the command, Unix milliseconds.
            post_only: reject the change if the order would trade.
            self_trade: policy for resting orders of the same maker.
            trades_max: maximum number of trades, 1 or more; None is no limit.

        Returns:
            ``OrderReduced`` if the order keeps its place; else ``OrderRemoved`` with the reason
            ``REPLACED``, followed by the events of :meth:`submit`.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidInstructionError: ``post_only`` or ``self_trade`` has the wrong type.
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            PriceOutOfRangeError: the price is not on the grid.
            InvalidAmountError: the size is not positive or not a multiple of the lot.
            AmountTooLargeError: the size is above ``SIZE_MAX``.
            UnknownOrderError: no resting order has this id or number.
            OrderExpiredError: the expiration of the order has passed.
            PostOnlyWouldCrossError: ``post_only`` is set and the order would trade.
            TooManyTradesError: the order would make more than ``trades_max`` trades.
        """
        validation.check_time(now_ms)
        validation.check_policy(post_only, self_trade)
        validation.check_trades_max(trades_max)
        validation.check_id(order_id)
        validation.check_price(price, self._lo, self._hi)
        validation.check_size(size, self._lot_wei)
        return self._replace(
            self._find(order_id),
            price,
            size,
            now_ms // 1000,
            post_only=post_only,
            policy=self_trade or SelfTrade.NONE,
            trades_max=trades_max,
        )

    @alone
    def expire(self, now_ms: int) -> list[Event]:
        """Remove every order whose expiration has passed.

        Args:
            now_ms: time of the command, Unix milliseconds.

        Returns:
            One ``OrderRemoved`` per order: bids first, best price first, oldest first.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.

        O(resting orders) if any has an expiration.
        """
        validation.check_time(now_ms)
        due = [order for order in self._queued() if order.expired(now_ms // 1000)]
        return self._remove_all(due, RemovalReason.EXPIRED)

    @alone
    def clear(self, reason: RemovalReason = RemovalReason.CANCELLED) -> list[Event]:
        """Remove every order.

        Args:
            reason: reason for the events.

        Returns:
            One ``OrderRemoved`` per order: bids first, best price first, oldest first.

        Raises:
            InvalidInstructionError: the reason is not a ``RemovalReason``.
        """
        validation.check_reason(reason)
        return self._remove_all(list(self._queued()), reason)

    # ----- simulation and copies -----------------------------------------------------------

    @alone
    def simulate(self, order: Order, now_ms: int = 0, trades_max: int | None = None) -> list[Trade]:
        """Return the trades that an order would make, without changing the book.

        Args:
            order: as for :meth:`submit`.
            now_ms: as for :meth:`submit`.
            trades_max: as for :meth:`submit`.

        Returns:
            The trades that :meth:`submit` would return, ``seq`` included.

        Raises:
            RejectedError: as :meth:`submit`.

        O(orders matched); here O(resting orders), since it works on a copy.
        """
        events = self._copy().submit(order, now_ms, trades_max)
        return [event for event in events if isinstance(event, Trade)]

    @alone
    def fork(self) -> "Book":
        """Return an independent copy with the same state and hash. O(resting orders)."""
        return self._copy()

    __copy__ = fork

    def __deepcopy__(self, memo: object) -> "Book":
        """Return an independent copy; see :meth:`fork`."""
        return self.fork()

    @classmethod
    def restore(cls, state: bytes) -> "Book":
        """Return a book with the state of :meth:`state_bytes`. O(resting orders).

        Args:
            state: the canonical bytes.

        Raises:
            InvalidSnapshotError: the bytes are not those that :meth:`state_bytes` returns for the
                state.

        A pickled book is restored this way, as the ``Book`` of the process that loads it.
        """
        return state_py.restore(cls, state)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the state and the ids of departed orders, for pickle."""
        return state_py.unpickle, (self.state_bytes(), self._departed)

    # ----- helpers -------------------------------------------------------------------------

    def _admit(self, order: Order, now_ms: int) -> QueuedOrder:
        """Check a new order against all rules that ignore the resting orders."""
        validation.check_order(order, self, now_ms)
        expiration_s = min(order.expiration_s, TIME_MAX)
        return QueuedOrder(order.id, order.maker, order.side, order.price, order.size, expiration_s)

    def _copy(self) -> "Book":
        twin = Book(self._lo, self._hi, self._token, self._lot_wei, 0, self._market)
        for order in self._queued():
            twin._add(order.copy(), [])
        twin._seq, twin._next_number = self._seq, self._next_number
        twin._departed = self._departed.copy()
        return twin
