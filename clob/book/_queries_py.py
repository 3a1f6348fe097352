"""What one may ask of the plain-Python Book without changing it."""

import functools
from collections.abc import Callable
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar

from clob import ladder
from clob.book import rejections, state, validation
from clob.book._matching_py import Queue, QueuedOrder, Queues
from clob.depth import Ahead, Depth, Level, Resting
from clob.errors import BookBusyError, InvariantError
from clob.order import Side
from clob.units import ORDER_ID_MAX

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B", bound="Views")


def alone(
    method: Callable[Concatenate[B, P], T],
) -> Callable[Concatenate[B, P], T]:
    """Let one call into the book at a time; any other is refused with ``BookBusyError``."""

    @functools.wraps(method)
    def guarded(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            # Taking the only token out of a list is one step, also between threads.
            self._door.pop()
        except IndexError:
            raise BookBusyError from None
        try:
            return method(self, *args, **kwargs)
        finally:
            self._door.append(True)

    return guarded


class Views(Queues):
    """The part of a Book that answers questions."""

    def __init__(
        self, lo: int, hi: int, token: str, lot_wei: int, capacity: int, market: str
    ) -> None:
        validation.check_book(lo, hi, token, lot_wei, capacity, market)
        super().__init__(token, market)
        self._lo, self._hi, self._lot_wei = lo, hi, lot_wei
        self._door = [True]
        self._departed: dict[int, str] = {}

    @property
    def lo(self) -> int:
        """The lowest price of the grid, in ticks."""
        return self._lo

    @property
    def hi(self) -> int:
        """The highest price of the grid, in ticks."""
        return self._hi

    @property
    def token(self) -> str:
        """The token of the book; empty for any."""
        return self._token

    @property
    def market(self) -> str:
        """What events and depth name as their market."""
        return self._market

    @property
    def lot_wei(self) -> int:
        """What every size is a multiple of, in wei."""
        return self._lot_wei

    @property
    @alone
    def seq(self) -> int:
        """The number of the last event; 0 before the first.

        It may be set, to an integer from 0 below 2**63, where several books share one sequence.
        """
        return self._seq

    @seq.setter
    @alone
    def seq(self, value: int) -> None:
        if type(value) is not int or not 0 <= value <= ORDER_ID_MAX:
            raise ValueError(f"seq must be an integer from 0 to {ORDER_ID_MAX}, not {value!r}")
        self._seq = value

    @property
    @alone
    def best_bid(self) -> int | None:
        """The highest price of a resting buy order, or None. O(1)."""
        return next(iter(self._sides[Side.BUY]), None)

    @property
    @alone
    def best_ask(self) -> int | None:
        """The lowest price of a resting sell order, or None. O(1)."""
        return next(iter(self._sides[Side.SELL]), None)

    @alone
    def __len__(self) -> int:
        """How many orders rest."""
        return len(self._orders)

    @alone
    def __contains__(self, order_id: object) -> bool:
        """Whether an order rests, asked by its id or its number."""
        # The exact types, for 1.0 and True would be found where 1 rests.
        return type(order_id) in (str, int) and (
            order_id in self._orders or order_id in self._named
        )

    @alone
    def depth(self, limit: int | None = None) -> Depth:
        """Take a picture of the book.

        Args:
            limit: how many levels of each side at most, best first; None is all.

        Returns:
            The levels and the ``seq`` they were taken at.

        Raises:
            ValueError: the limit is negative.

        O(levels).
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}")
        return self._depth(limit)

    @alone
    def order(self, order_id: str | int) -> Resting:
        """Look at one resting order.

        Args:
            order_id: its id, or its number.

        Returns:
            What it is and what is left of it.

        Raises:
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            UnknownOrderError: no such order rests.
        """
        return _picture(self._find(order_id))

    @alone
    def orders(self) -> list[Resting]:
        """List all resting orders: bids first, best price first, oldest first. O(orders)."""
        return [_picture(order) for order in self._queued()]

    @alone
    def behind(self, order_id: str | int) -> str | int | None:
        """Give the id of the order right behind one in its queue, or None. Here O(its queue).

        Args:
            order_id: its id, or its number.

        Raises:
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            UnknownOrderError: no such order rests.
        """
        order = self._find(order_id)
        names = list(self._sides[order.side][order.price])
        place = names.index(order.id) + 1
        return names[place] if place < len(names) else None

    @alone
    def ids(self) -> list[str | int]:
        """List the ids of all resting orders: bids first, best price first, oldest first."""
        return [order.id for order in self._queued()]

    @alone
    def ahead(self, order_id: str | int) -> Ahead:
        """Say what stands in front of an order at its price.

        Args:
            order_id: its id, or its number.

        Returns:
            How many orders and how much of them, in wei.

        Raises:
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            UnknownOrderError: no such order rests.

        O(orders in front).
        """
        order = self._find(order_id)
        num_orders = size = 0
        for other in self._sides[order.side][order.price].values():
            if other is order:
                break
            num_orders += 1
            size += other.remaining
        return Ahead(num_orders, size)

    @alone
    def number_of(self, order_id: str | int) -> int:
        """Give the number that stands for an order in records.

        Args:
            order_id: the id of a resting order, or any integer below 2**63.

        Returns:
            An integer id itself; for a text id its number, 2**63 or more.

        Raises:
            InvalidOrderIdError: the id is neither a text nor an integer from 0 below 2**64.
            UnknownOrderError: no order of that text id, or of that number, rests.
        """
        validation.check_id(order_id)
        if isinstance(order_id, int) and order_id <= ORDER_ID_MAX:
            return order_id
        return self._find(order_id).number

    @alone
    def id_of(self, number: int) -> str | int:
        """Give the id that a number in a record stands for.

        Args:
            number: a number from a fill or an event.

        Returns:
            The text id of an order that rests, or that left during the last :meth:`run`;
            an integer below 2**63 itself.

        Raises:
            InvalidOrderIdError: the number is not an integer from 0 below 2**64.
            UnknownOrderError: no such order rests or left during the last run.
        """
        validation.check_number(number)
        if number <= ORDER_ID_MAX:
            return number
        return self._departed.get(number) or self._find(number).id

    @alone
    def check(self) -> None:
        """Check all invariants of the book.

        Raises:
            InvariantError: one is broken, which is a bug of this package.

        O(orders).
        """
        bids, asks = self._sides
        if bids and asks and not bids.peekitem(0)[0] < asks.peekitem(0)[0]:
            raise InvariantError("the book is crossed")
        for side, levels in zip(Side, self._sides, strict=True):
            for price, queue in levels.items():
                self._check_queue(side, price, queue)
        if sum(len(queue) for side in self._sides for queue in side.values()) != len(self._orders):
            raise InvariantError("an order is indexed but not queued")
        named = {order.number for order in self._orders.values() if isinstance(order.id, str)}
        if named != self._named.keys() or any(n >= self._next_number for n in named):
            raise InvariantError("the numbers of text ids are not those of the resting orders")

    @alone
    def state_bytes(self) -> bytes:
        """Write the whole state in canonical bytes, queue order included. O(orders)."""
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
        """Hash the canonical bytes, BLAKE2b of 32 bytes; equal hashes mean equal futures."""
        return state.digest(self.state_bytes())

    @alone
    def __repr__(self) -> str:
        """Draw the ladder of the best ten prices a side."""
        return ladder.ladder(self._depth(None), len(self._orders))

    @alone
    def _repr_html_(self) -> str:
        """Draw the ladder for a notebook."""
        return ladder.ladder_html(self._depth(None), len(self._orders))

    # ----- helpers -------------------------------------------------------------------------

    def _depth(self, limit: int | None) -> Depth:
        """Take a picture of the book."""
        sides = (
            tuple(
                Level(price, sum(order.remaining for order in queue.values()), len(queue))
                for price, queue in islice(levels.items(), limit)
            )
            for levels in self._sides
        )
        return Depth(self._market, self._token, self._seq, *sides)

    def _find(self, order_id: str | int) -> QueuedOrder:
        """Find a resting order by its id or its number."""
        validation.check_id(order_id)
        order = self._orders.get(order_id)
        if order is None and isinstance(order_id, int):
            order = self._named.get(order_id)
        if order is None:
            raise rejections.unknown(order_id)
        return order

    def _check_queue(self, side: Side, price: int, queue: Queue) -> None:
        """Check one level."""
        if not queue or not self._lo <= price <= self._hi:
            raise InvariantError(f"level {price} is empty or off the grid")
        for order_id, order in queue.items():
            if (order.id, order.side, order.price) != (order_id, side, price):
                raise InvariantError(f"order {order_id!r} stands in the wrong queue")
            if self._orders.get(order_id) is not order:
                raise InvariantError(f"order {order_id!r} is queued but not indexed")
            if order.remaining <= 0 or order.remaining % self._lot_wei:
                raise InvariantError(f"order {order_id!r} has {order.remaining} wei left")


def _picture(order: QueuedOrder) -> Resting:
    """Show a queued order to the outside."""
    return Resting(
        order_id=order.id,
        side=order.side,
        price=order.price,
        remaining=order.remaining,
        maker=order.maker,
        expiration_s=order.expiration_s,
    )
