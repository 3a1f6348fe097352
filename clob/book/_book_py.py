"""The Book in plain Python: the specification of the compiled one, its types and its oracle.

Readable before fast. What the compiled Book does is right when it does the same as this one,
which stands on the queues and their matching (:mod:`clob.book._matching_py`), on the questions one may
ask (:mod:`clob.book._queries_py`) and on the door for batches (:mod:`clob.book._batch_py`).
"""

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

    Commands go in, events come out. A refused command raises a
    :class:`~clob.errors.RejectedError` and changes nothing, not even ``seq``. Where several rules
    refuse, the error is the first of them in :mod:`clob.errors`.

    Args:
        lo: the lowest price, in ticks.
        hi: the highest price, in ticks; a book spans at most ``TICKS_MAX`` prices.
        token: the token of the book; orders for another are refused. Empty takes any.
        lot_wei: every size is a multiple of this; the unit of sizes in records.
        capacity: how many resting orders to make room for beforehand. The compiled book then
            does not pause to grow; more orders than that are welcome.
        market: what events and depth name as their market.

    Raises:
        InvalidBookError: any of them is of the wrong type or out of range.

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

    def __init__(
        self,
        lo: int = 1,
        hi: int = 99,
        token: str = "",
        lot_wei: int = 1,
        capacity: int = 0,
        market: str = "",
    ) -> None:
        super().__init__(lo, hi, token, lot_wei, capacity, market)

    # ----- commands ------------------------------------------------------------------------

    @alone
    def submit(self, order: Order, now_ms: int = 0, trades_max: int | None = None) -> list[Event]:
        """Match an order against the book; rest what is left of it.

        Args:
            order: its ``price`` in ticks, its ``size`` in wei.
            now_ms: the time of the command, Unix milliseconds. Resting orders it meets whose
                expiration lies before it are removed instead of traded with.
            trades_max: how many trades it may make at most, 1 or more; None is any number.

        Returns:
            The events, oldest first. For each order met a ``Trade`` and, where that empties the
            resting order, its ``OrderRemoved``; in the end ``OrderAdded`` if something rests.

        Raises:
            TypeError: it is no ``Order``.
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidInstructionError: ``trades_max``, time in force, post-only, self-trade or
                expiration are of the wrong type or contradict each other.
            InvalidSideError: the side is no ``Side``.
            InvalidOrderIdError: the id is no text and no integer from 0 below 2**63.
            InvalidOwnerError: the maker is no text.
            TokenNotInMarketError: the order is for another token.
            PriceOutOfRangeError: the price is not on the grid.
            InvalidAmountError: the size is not positive or no multiple of the lot.
            AmountTooLargeError: the size is above ``SIZE_MAX``.
            OrderExpiredError: the second of ``now_ms`` is after ``order.expiration_s``.
            DuplicateOrderError: it may rest, and an order of its id rests already. An order that
                never rests may bear the id of one that does, as where a recorded exchange lets an
                order be amended into a trade.
            PostOnlyWouldCrossError: it is post-only and would trade.
            FokNotFillableError: it is fill-or-kill and cannot trade whole.
            TooManyTradesError: it would make more than ``trades_max`` trades.

        Source: specification, "What the service does", 2 and 3. O(orders met + log levels).
        """
        validation.check_trades_max(trades_max)
        order = validation.plain_order(order)
        incoming = self._admit(order, now_ms)
        rests = order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD)
        if rests:
            self._refuse_duplicate(order.id)
        now_s = now_ms // 1000
        policy = order.self_trade or SelfTrade.NONE
        if order.post_only:
            self._refuse_post_only(incoming, now_s)
        if order.time_in_force is TimeInForce.FOK:
            self._refuse_unfillable(incoming, policy, now_s)
        self._refuse_too_many(incoming, policy, now_s, trades_max)
        return self._execute(incoming, policy, now_s, rests=rests)

    @alone
    def rest(self, order: Order, now_ms: int = 0, before: str | int | None = None) -> list[Event]:
        """Rest an order without matching, as when a book is restored from a snapshot.

        Args:
            order: as for :meth:`submit`; its time in force and policies are checked but unused.
            now_ms: the time of the command, Unix milliseconds.
            before: a resting order of the same side and price to stand in front of, by id or
                number; None is last in its queue.

        Returns:
            Its ``OrderAdded``, alone in a list.

        Raises:
            RejectedError: as :meth:`submit` up to ``DuplicateOrderError``; as :meth:`order` for
                ``before``; ``InvalidInstructionError`` where that stands in another queue; then
                ``SeedWouldCrossError`` where a resting order of the other side could trade.
        """
        order = validation.plain_order(order)
        resting = self._admit(order, now_ms)
        if order.time_in_force in (TimeInForce.IOC, TimeInForce.FOK):
            raise InvalidInstructionError(f"an order to rest cannot be {order.time_in_force!r}")
        self._refuse_duplicate(order.id)
        following = None if before is None else self._find(before)
        self._refuse_elsewhere(resting, following)
        self._refuse_seed(resting)
        events: list[Event] = []
        self._add(resting, events)
        self._move(resting, following)
        return events

    @alone
    def cancel(
        self,
        order_id: str | int,
        now_ms: int = 0,
        reason: RemovalReason = RemovalReason.CANCELLED,
    ) -> list[Event]:
        """Take an order out of the book.

        Args:
            order_id: its id, or its number.
            now_ms: the time of the command, Unix milliseconds.
            reason: what the event is to say.

        Returns:
            Its ``OrderRemoved``, alone in a list.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidInstructionError: the reason is no ``RemovalReason``.
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            UnknownOrderError: no such order rests.

        O(log levels); the compiled book does it in constant time.
        """
        validation.check_time(now_ms)
        validation.check_reason(reason)
        events: list[Event] = []
        self._remove(self._find(order_id), reason, events)
        return events

    @alone
    def reduce(self, order_id: str | int, size: int, now_ms: int = 0) -> list[Event]:
        """Make an order smaller; it keeps its place in the queue.

        Args:
            order_id: its id, or its number.
            size: what is to remain of it, in wei.
            now_ms: the time of the command, Unix milliseconds.

        Returns:
            Its ``OrderReduced``, alone in a list.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            InvalidAmountError: the size is not positive or no multiple of the lot.
            AmountTooLargeError: the size is above ``SIZE_MAX``.
            UnknownOrderError: no such order rests.
            SizeNotReducedError: the size is not below what remains.
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
        """Give an order another price or size.

        A smaller size at the same price keeps its place in the queue. Anything else takes the
        order out and brings it in again as if it were new: it may trade, and it queues last.

        Args:
            order_id: its id, or its number; it stays the same.
            price: its new limit, in ticks.
            size: what is to remain of it, in wei.
            now_ms: the time of the command, Unix milliseconds.
            post_only: refuse if it would trade.
            self_trade: what happens where it meets its maker's own orders.
            trades_max: how many trades it may make at most, 1 or more; None is any number.

        Returns:
            ``OrderReduced`` where it keeps its place; else ``OrderRemoved`` with the reason
            ``REPLACED`` and then what :meth:`submit` returns.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.
            InvalidInstructionError: ``post_only`` or ``self_trade`` is of the wrong type.
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            PriceOutOfRangeError: the price is not on the grid.
            InvalidAmountError: the size is not positive or no multiple of the lot.
            AmountTooLargeError: the size is above ``SIZE_MAX``.
            UnknownOrderError: no such order rests.
            OrderExpiredError: its expiration has passed.
            PostOnlyWouldCrossError: ``post_only`` is set, and it would trade.
            TooManyTradesError: it would make more than ``trades_max`` trades.
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
            now_ms: the time of the command, Unix milliseconds.

        Returns:
            An ``OrderRemoved`` each, bids first, best price first, oldest first.

        Raises:
            InvalidTimeError: ``now_ms`` is not an integer from 0 to ``TIME_MAX``.

        O(resting orders) if any of them can expire.
        """
        validation.check_time(now_ms)
        due = [order for order in self._queued() if order.expired(now_ms // 1000)]
        return self._remove_all(due, RemovalReason.EXPIRED)

    @alone
    def clear(self, reason: RemovalReason = RemovalReason.CANCELLED) -> list[Event]:
        """Remove every order.

        Args:
            reason: what the events are to say.

        Returns:
            An ``OrderRemoved`` each, bids first, best price first, oldest first.

        Raises:
            InvalidInstructionError: the reason is no ``RemovalReason``.
        """
        validation.check_reason(reason)
        return self._remove_all(list(self._queued()), reason)

    # ----- what would be -------------------------------------------------------------------

    @alone
    def simulate(self, order: Order, now_ms: int = 0, trades_max: int | None = None) -> list[Trade]:
        """Say which trades an order would get; nothing changes.

        Args:
            order: as for :meth:`submit`.
            now_ms: as for :meth:`submit`.
            trades_max: as for :meth:`submit`.

        Returns:
            The trades that :meth:`submit` would return, ``seq`` included.

        Raises:
            RejectedError: what :meth:`submit` would raise.

        O(orders met); here O(resting orders), for it tries on a copy.
        """
        events = self._copy().submit(order, now_ms, trades_max)
        return [event for event in events if isinstance(event, Trade)]

    @alone
    def fork(self) -> "Book":
        """Make an independent copy, with the same state and hash. O(resting orders)."""
        return self._copy()

    __copy__ = fork

    # ----- helpers -------------------------------------------------------------------------

    def _admit(self, order: Order, now_ms: int) -> QueuedOrder:
        """Check all that holds for any new order, and take it in."""
        validation.check_order(order, self, now_ms)
        expiration_s = min(order.expiration_s, TIME_MAX)
        return QueuedOrder(order.id, order.maker, order.side, order.price, order.size, expiration_s)

    def _copy(self) -> "Book":
        """Make an independent copy."""
        twin = Book(self._lo, self._hi, self._token, self._lot_wei, 0, self._market)
        for order in self._queued():
            twin._add(order.copy(), [])
        twin._seq, twin._next_number = self._seq, self._next_number
        twin._departed = self._departed.copy()
        return twin
