"""The queries of the plain-Python Book: everything that reads it without changing it."""

import functools
from collections.abc import Callable
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar

from clob.book import rejections, state, validation
from clob.book._matching_py import Queue, QueuedOrder, Queues
from clob.depth import Ahead, Depth, Level, Resting
from clob.errors import BookBusyError, InvariantError
from clob.order import Side, maker_of
from clob.units import ORDER_ID_MAX, TICKS_MAX

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", bound="Views")


def alone(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Wrap a method so that a call during another one raises ``BookBusyError``."""

    @functools.wraps(method)
    def guarded(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            # Popping the only item of a list is atomic, also between threads.
            self._idle.pop()
        except IndexError:
            raise BookBusyError from None
        try:
            return method(self, *args, **kwargs)
        finally:
            self._idle.append(True)

    return guarded


class Views(Queues):
    """The methods of a Book that read it."""

    def __init__(
        self,
        lo: int = 1,
        hi: int = 99,
        token: str = "",
        lot_wei: int = 1,
        capacity: int = 0,
        market: str = "",
    ) -> None:
        validation.check_book(lo, hi, token, lot_wei, capacity, market)
        super().__init__(token, market)
        self._lo, self._hi, self._lot_wei = lo, hi, lot_wei
        self._idle = [True]
        self._departed: dict[int, str] = {}

    @property
    def lo(self) -> int:
        """Lowest price of the grid, in ticks."""
        return self._lo

    @property
    def hi(self) -> int:
        """Highest price of the grid, in ticks."""
        return self._hi

    @property
    def token(self) -> str:
        """Token of the book; empty accepts any."""
        return self._token

    @property
    def market(self) -> str:
        """Market named in events and depth."""
        return self._market

    @property
    def lot_wei(self) -> int:
        """Size of a lot in wei; every size is a multiple of it."""
        return self._lot_wei

    @property
    @alone
    def seq(self) -> int:
        """Number of the last event; 0 before the first.

        Several books can share one sequence by setting it, to an integer from 0 to 2**63 - 1.
        """
        return self._seq

    @seq.setter
    @alone
    def seq(self, value: int) -> None:
        if type(value) is not int or not 0 <= value <= ORDER_ID_MAX:
            raise ValueError(f"seq must be an integer from 0 to {ORDER_ID_MAX}; got {value!r}")
        self._seq = value

    @property
    @alone
    def best_bid(self) -> int | None:
        """Highest price of a resting buy order, or None. O(1)."""
        return next(iter(self._sides[Side.BUY]), None)

    @property
    @alone
    def best_ask(self) -> int | None:
        """Lowest price of a resting sell order, or None. O(1)."""
        return next(iter(self._sides[Side.SELL]), None)

    @alone
    def _best_of_others(self, owner: int, /) -> tuple[int | None, int | None]:
        """Return the best bid and the best ask of orders of other owners.

        O(orders of the owner at the best levels). The owner is the number in records.

        Raises:
            ValueError: the owner is out of range.
        """
        if type(owner) is not int or not 1 <= owner < 2**31:
            raise ValueError(f"owner must be an integer from 1 to {2**31 - 1}; got {owner!r}")
        maker = maker_of(owner)
        bid, ask = (
            next(
                (
                    price
                    for price, queue in self._sides[side].items()
                    if any(order.maker != maker for order in queue.values())
                ),
                None,
            )
            for side in (Side.BUY, Side.SELL)
        )
        return bid, ask

    @alone
    def __len__(self) -> int:
        """Return the number of resting orders."""
        return len(self._orders)

    @alone
    def __contains__(self, order_id: object) -> bool:
        """Return whether an order rests, by id or number."""
        # Exact types, since 1.0 and True equal 1.
        return type(order_id) in (str, int) and (
            order_id in self._orders or order_id in self._named
        )

    @alone
    def depth(self, limit: int | None = None) -> Depth:
        """Return the price levels of the book.

        Args:
            limit: maximum number of levels per side, best first; None is all.

        Returns:
            The levels, and the ``seq`` of the last event they include.

        Raises:
            ValueError: the limit is not None or an integer of 0 or more.

        O(levels).
        """
        validation.check_limit(limit)
        return self._depth(limit)

    @alone
    def order(self, order_id: str | int) -> Resting:
        """Return one resting order.

        Args:
            order_id: id or number of the order.

        Raises:
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            UnknownOrderError: no resting order has this id or number.
        """
        return _resting(self._find(order_id))

    @alone
    def orders(self) -> list[Resting]:
        """List all resting orders: bids first, best price first, oldest first. O(orders)."""
        return [_resting(order) for order in self._queued()]

    @alone
    def behind(self, order_id: str | int) -> str | int | None:
        """Return the id of the next order in the queue of an order, or None. Here O(queue length).

        Args:
            order_id: id or number of the order.

        Raises:
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            UnknownOrderError: no resting order has this id or number.
        """
        order = self._find(order_id)
        ids = list(self._sides[order.side][order.price])
        index = ids.index(order.id) + 1
        return ids[index] if index < len(ids) else None

    @alone
    def ids(self) -> list[str | int]:
        """List the ids of all resting orders: bids first, best price first, oldest first."""
        return [order.id for order in self._queued()]

    @alone
    def ahead(self, order_id: str | int) -> Ahead:
        """Return the number and size of the orders ahead of one in its queue.

        Args:
            order_id: id or number of the order.

        Returns:
            Number of orders, and their remaining size in wei.

        Raises:
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            UnknownOrderError: no resting order has this id or number.

        O(orders ahead).
        """
        order = self._find(order_id)
        num_orders = size = 0
        for other in self._sides[order.side][order.price].values():
            if other is order:
                break
            num_orders += 1
            size += other.remaining
        return Ahead(num_orders, size)

    def _lots_ahead(self, order_id: int, /) -> int:
        """Return the lots ahead of an order in its queue, by number; -1 if it does not rest."""
        return self.ahead(order_id).size // self.lot_wei if order_id in self else -1

    @alone
    def number_of(self, order_id: str | int) -> int:
        """Return the number of an order in records.

        Args:
            order_id: the id of a resting order, or any integer below 2**63.

        Returns:
            The integer id itself; for a text id its number, 2**63 or more.

        Raises:
            InvalidOrderIdError: the id is not a ``str`` or an integer from 0 to 2**64 - 1.
            UnknownOrderError: no resting order has this text id or number.
        """
        validation.check_id(order_id)
        if isinstance(order_id, int) and order_id <= ORDER_ID_MAX:
            return order_id
        return self._find(order_id).number

    @alone
    def id_of(self, number: int) -> str | int:
        """Return the order id of a number in a record.

        Args:
            number: a number from a fill or an event.

        Returns:
            The text id of an order that rests or left during the last :meth:`run`; a number
            below 2**63 is the id itself.

        Raises:
            InvalidOrderIdError: the number is not an integer from 0 to 2**64 - 1.
            UnknownOrderError: no order with this number rests or left during the last run.
        """
        validation.check_number(number)
        if number <= ORDER_ID_MAX:
            return number
        return self._departed.get(number) or self._find(number).id

    @alone
    def check(self) -> None:
        """Check all invariants of the book.

        Raises:
            InvariantError: an invariant is broken, which is a bug of this package.

        O(orders).
        """
        bids, asks = self._sides
        if bids and asks and not bids.peekitem(0)[0] < asks.peekitem(0)[0]:
            raise InvariantError("the book is crossed")
        for side, levels in zip(Side, self._sides, strict=True):
            for price, queue in levels.items():
                self._check_queue(side, price, queue)
        if sum(len(queue) for side in self._sides for queue in side.values()) != len(self._orders):
            raise InvariantError("an order is in the index but not in a queue")
        named = {order.number for order in self._orders.values() if isinstance(order.id, str)}
        if named != self._named.keys() or any(n >= self._next_number for n in named):
            raise InvariantError("the numbers of text ids do not match the resting orders")

    @alone
    def state_bytes(self) -> bytes:
        """Return the whole state as canonical bytes, queue order included. O(orders)."""
        head = state.encode_head(
            self._lo,
            self._hi,
            self._lot_wei,
            self._token,
            self._market,
            self._seq,
            self._next_number,
        )
        sides = [
            [(price, list(queue.values())) for price, queue in levels.items()]
            for levels in self._sides
        ]
        return b"".join([head, *(p for side in sides for p in state.encode_side(side))])

    def state_hash(self) -> bytes:
        """Return the 32-byte BLAKE2b hash of the canonical bytes.

        Books with equal hashes respond equally to all further commands.
        """
        return state.digest(self.state_bytes())

    @alone
    def __repr__(self) -> str:
        """Draw the ladder of the best ten prices per side."""
        from clob import ladder  # noqa: PLC0415 - `import clob` starts without it

        return ladder.ladder(self._depth(None), len(self._orders))

    @alone
    def _repr_html_(self) -> str:
        """Draw the ladder for a notebook."""
        from clob import ladder  # noqa: PLC0415 - as in __repr__

        return ladder.ladder_html(self._depth(None), len(self._orders))

    # ----- helpers -------------------------------------------------------------------------

    def _depth(self, limit: int | None) -> Depth:
        most = None if limit is None else min(limit, TICKS_MAX)
        sides = (
            tuple(
                Level(price, sum(order.remaining for order in queue.values()), len(queue))
                for price, queue in islice(levels.items(), most)
            )
            for levels in self._sides
        )
        return Depth(self._market, self._token, self._seq, *sides)

    def _find(self, order_id: str | int) -> QueuedOrder:
        validation.check_id(order_id)
        order = self._orders.get(order_id)
        if order is None and isinstance(order_id, int):
            order = self._named.get(order_id)
        if order is None:
            raise rejections.unknown(order_id)
        return order

    def _check_queue(self, side: Side, price: int, queue: Queue) -> None:
        if not queue or not self._lo <= price <= self._hi:
            raise InvariantError(f"level {price} is empty or off the grid")
        for order_id, order in queue.items():
            if (order.id, order.side, order.price) != (order_id, side, price):
                raise InvariantError(f"order {order_id!r} is in the wrong queue")
            if self._orders.get(order_id) is not order:
                raise InvariantError(f"order {order_id!r} is in a queue but not in the index")
            if order.remaining <= 0 or order.remaining % self._lot_wei:
                raise InvariantError(f"order {order_id!r} has {order.remaining} wei remaining")


def _resting(order: QueuedOrder) -> Resting:
    return Resting(
        order_id=order.id,
        side=order.side,
        price=order.price,
        remaining=order.remaining,
        maker=order.maker,
        expiration_s=order.expiration_s,
    )
