"""A book of the ``shadow`` mode: the recorded orders with own orders between them.

Own orders are not in the book of history, which stays as recorded. They have positions in its
queues: behind the orders that rested at their price when they arrived, before later ones. Sizes
are lots and prices ticks, unless wei is stated.
"""

import dataclasses
from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from clob.book import Book
from clob.depth import Ahead, Depth, Level, Resting
from clob.errors import InvariantError
from clob.order import Side, maker_of
from clob.records import LOTS_MAX
from clob.replay.io.streams import OWN

FIRST_LEVELS = 8
"""Levels to read first when searching for one."""

PRUNE_AT = 8
"""Number of orders with taken volume at which orders that left the book are pruned."""


@dataclasses.dataclass(slots=True)
class OwnResting:
    """A resting own order."""

    order_id: int
    side: Side
    price: int
    left: int
    """Its unfilled size."""
    since: int
    """Index in the stream of the first event after its arrival."""


class Taken(NamedTuple):
    """Volume that own orders took from a recorded order that still rests unchanged."""

    side: Side
    price: int
    size: int
    """The volume taken by own orders. Trades of history come on top."""


class ShadowBook:
    """A strategy's view of one book in shadow mode, and the own orders that rest there.

    It has the reading methods of a :class:`~clob.Book`. Recorded orders are shown without the
    volume that own orders took from them, and own orders are included.

    Args:
        history: the book of history, which the driver advances.
    """

    def __init__(self, history: Book) -> None:
        self.history: Book = history
        """The book of history, without own orders."""
        self.own: dict[int, OwnResting] = {}
        """Resting own orders by id, in order of arrival."""
        self.sides: tuple[list[OwnResting], list[OwnResting]] = ([], [])
        """Own buy orders and own sell orders, best price first, oldest first."""
        self.taken: dict[int, Taken] = {}
        """Volume that own orders took from recorded orders, by id."""
        self.queue_joins: dict[int, dict[int, int]] = {}
        """For each price with own orders: the recorded orders that joined its queue since the first
        own order arrived there, with the index in the stream of the event by which each joined
        last."""
        self.update_joins: Callable[[], None] = _do_nothing
        """Updates ``queue_joins`` to the last event."""
        self.lot_wei: int = history.lot_wei
        self.lo: int = history.lo
        self.hi: int = history.hi
        self._prune_at: int = PRUNE_AT

    # ----- own orders --------------------------------------------------------------------------

    def rest(self, order: OwnResting) -> None:
        """Rest an own order, behind all orders at its price. O(log own orders)."""
        self.update_joins()
        self.own[order.order_id] = order
        insort(self.sides[order.side], order, key=_rank)
        self.queue_joins.setdefault(order.price, {})

    def remove(self, order: OwnResting) -> None:
        """Remove an own order. O(own orders)."""
        del self.own[order.order_id]
        self.sides[order.side].remove(order)
        if all(one.price != order.price for one in self.own.values()):
            del self.queue_joins[order.price]

    def clear(self) -> list[OwnResting]:
        """Remove all own orders, and reset the volume they took.

        Returns:
            The orders, in order of arrival.
        """
        gone = list(self.own.values())
        self.own.clear()
        for some in self.sides:
            some.clear()
        self.queue_joins.clear()
        self.taken.clear()
        return gone

    def precedes(self, order_id: int, order: OwnResting) -> bool:
        """Return whether a recorded order is in front of an own order in its queue.

        The recorded order rests at the price of the own order, or did until this event.
        """
        self.update_joins()
        return self.queue_joins[order.price].get(order_id, -1) < order.since

    # ----- taken volume ------------------------------------------------------------------------

    def take(self, order_id: int, side: Side, price: int, size: int) -> None:
        """Record that own orders took volume from a recorded order."""
        if order_id in self.taken:
            size += self.taken[order_id].size
        self.taken[order_id] = Taken(side, price, size)
        if len(self.taken) > self._prune_at:
            self._prune_taken()
            self._prune_at = max(2 * len(self.taken), PRUNE_AT)

    def available(self, order_id: int, remaining: int) -> int:
        """Return the volume of a recorded order's remaining size that is left for own orders."""
        if order_id not in self.taken:
            return remaining
        return max(remaining - self.taken[order_id].size, 0)

    def prune(self) -> None:
        """Drop the data of orders that have left the book, so that a reused id starts fresh."""
        history = self.history
        self._prune_taken()
        for queue in self.queue_joins.values():
            for order_id in [one for one in queue if one not in history]:
                del queue[order_id]

    def _prune_taken(self) -> None:
        history = self.history
        for order_id in [one for one in self.taken if one not in history]:
            del self.taken[order_id]

    # ----- queries -----------------------------------------------------------------------------

    @property
    def best_bid(self) -> int | None:
        """Highest price of a buy order, including own orders, or None."""
        return self._best(Side.BUY)

    @property
    def best_ask(self) -> int | None:
        """Lowest price of a sell order, including own orders, or None."""
        return self._best(Side.SELL)

    def _best_of_others(self, owner: int, /) -> tuple[int | None, int | None]:
        """Return the best bid and the best ask without own orders and the volume they took."""
        del owner
        return self._best_left(Side.BUY), self._best_left(Side.SELL)

    def _best_left(self, side: Side) -> int | None:
        """Return the best price of history at which own orders left some volume, or None."""
        history = self.history
        best = history.best_bid if side is Side.BUY else history.best_ask
        for taken in self.taken.values():
            if taken.price == best and taken.side is side:
                depth = history.depth(len(self.taken) + 1)
                left = self._merged(side, depth.bids if side is Side.BUY else depth.asks, ())
                return left[0].price if left else None
        return best

    def _best(self, side: Side) -> int | None:
        """Return the best price of a side, own orders included."""
        price, own = self._best_left(side), self.sides[side]
        if not own or price is None:
            return own[0].price if own else price
        return max(price, own[0].price) if side is Side.BUY else min(price, own[0].price)

    def depth(self, limit: int | None = None) -> Depth:
        """Return the levels like :meth:`clob.Book.depth`, with the ``seq`` of history's book.

        Own orders are added, and the volume they took is subtracted.
        """
        # As many levels may be empty as there are orders with taken volume.
        depth = self.history.depth(None if limit is None else limit + len(self.taken))
        bids, asks = (
            self._merged(side, levels, self.sides[side])
            for side, levels in ((Side.BUY, depth.bids), (Side.SELL, depth.asks))
        )
        return Depth(depth.market, depth.token, depth.seq, bids[:limit], asks[:limit])

    def _merged(
        self, side: Side, levels: tuple[Level, ...], own: Sequence[OwnResting]
    ) -> tuple[Level, ...]:
        """Return the best levels of a side, with own orders and without the volume they took."""
        history, lot_wei = self.history, self.lot_wei
        taken_here = [(one, taken) for one, taken in self.taken.items() if taken.side is side]
        if not taken_here and not own:
            return levels
        changes: dict[int, tuple[int, int]] = {}
        for order_id, taken in taken_here:
            if order_id in history:
                remaining = history.order(order_id).remaining
                used = min(remaining, taken.size * lot_wei)
                size, count = changes.get(taken.price, (0, 0))
                changes[taken.price] = (size - used, count - (used == remaining))
        for order in own:
            size, count = changes.get(order.price, (0, 0))
            changes[order.price] = (size + order.left * lot_wei, count + 1)
        return tuple(_changed(levels, changes, side))

    def __contains__(self, order_id: object) -> bool:
        """Whether an own or a recorded order rests."""
        return order_id in self.own or order_id in self.history

    def __len__(self) -> int:
        """Number of resting orders, own orders included."""
        return len(self.history) + len(self.own)

    def order(self, order_id: str | int) -> Resting:
        """Return a resting order like :meth:`clob.Book.order`; a recorded order as in history."""
        order = self.own.get(order_id) if isinstance(order_id, int) else None
        if order is None:
            return self.history.order(order_id)
        remaining = order.left * self.lot_wei
        return Resting(order.order_id, order.side, order.price, remaining, maker_of(OWN), 0)

    def ahead(self, order_id: str | int) -> Ahead:
        """Return the orders in front of an order at its price like :meth:`clob.Book.ahead`.

        For a recorded order, only recorded orders count; for an own order, own orders as well.
        """
        order = self.own.get(order_id) if isinstance(order_id, int) else None
        if order is None:
            return self.history.ahead(order_id)
        self.update_joins()
        level = self._history_level(order.side, order.price)
        size, count = (level.size, level.num_orders) if level else (0, 0)
        for other, since in self.queue_joins[order.price].items():
            if since < order.since or other not in self.history:
                continue
            later = self.history.order(other)
            if (later.side, later.price) == (order.side, order.price):
                size, count = size - later.remaining, count - 1
        for one in self.sides[order.side]:
            if one is order:
                break
            if one.price == order.price:
                size, count = size + one.left * self.lot_wei, count + 1
        return Ahead(count, size)

    def _history_level(self, side: Side, price: int) -> Level | None:
        """Return the level of history's book at a price, or None."""
        limit: int | None = FIRST_LEVELS
        while True:
            depth = self.history.depth(limit)
            levels = depth.bids if side is Side.BUY else depth.asks
            for level in levels:
                if level.price == price:
                    return level
            if limit is None or len(levels) < limit:
                return None
            limit = None if limit > FIRST_LEVELS else limit * FIRST_LEVELS

    def check(self) -> None:
        """Check the invariants of history's book and of the own orders. O(orders).

        Raises:
            InvariantError: an invariant is broken, which is a bug in this package.
        """
        self.history.check()
        ranked = [order for side in self.sides for order in side]
        if {id(order) for order in ranked} != {id(order) for order in self.own.values()}:
            raise InvariantError("an own order rests that is in no queue, or the other way round")
        if any(order.left < 1 or order.left > LOTS_MAX for order in ranked):
            raise InvariantError("an own order rests of which nothing is left")
        if any(side != sorted(side, key=_rank) for side in self.sides):
            raise InvariantError("own orders are not in order of price and time")
        if {order.price for order in ranked} != self.queue_joins.keys():
            raise InvariantError("the queues looked at are not those of the own orders")


def _changed(
    levels: tuple[Level, ...], changes: dict[int, tuple[int, int]], side: Side
) -> list[Level]:
    """Return the levels of a side with changed sizes, in order, without empty levels.

    A change at a price after the last level is that of the orders there, or larger.
    """
    merged = []
    for level in levels:
        if level.price in changes:
            size, count = changes.pop(level.price)
            if level.size + size:
                merged.append(Level(level.price, level.size + size, level.num_orders + count))
        else:
            merged.append(level)
    more = [Level(price, *change) for price, change in changes.items() if change[0] > 0]
    if more:
        merged += more
        merged.sort(key=lambda level: level.price, reverse=side is Side.BUY)
    return merged


def _rank(order: OwnResting) -> int:
    """Return the sort key of own orders on one side."""
    return -order.price if order.side is Side.BUY else order.price


def _do_nothing() -> None:
    """Do nothing."""
