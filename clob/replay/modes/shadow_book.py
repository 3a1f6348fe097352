"""One book of the shadow mode: the book of history, and own orders at their places beside it.

Own orders are not in the book of history, which therefore is what it would be without them. They
have a place in its queues all the same: behind the orders that rested at their price when they
came, before those that came later. Sizes are lots, prices ticks, unless wei is said.
"""

import dataclasses
from bisect import insort
from collections.abc import Callable
from typing import NamedTuple

from clob.book import Book
from clob.depth import Ahead, Depth, Level, Resting
from clob.errors import InvariantError
from clob.order import Side, maker_of
from clob.records import LOTS_MAX
from clob.replay.io.streams import OWN

FIRST_LEVELS = 8
"""How many levels are looked at first where one of them is sought."""

TIDY = 8
"""Of so many orders it is remembered what was taken, before those that left are looked for."""


@dataclasses.dataclass(slots=True)
class OwnResting:
    """An own order that rests."""

    order_id: int
    """The order."""
    side: Side
    """Buy or sell."""
    price: int
    """Its limit."""
    left: int
    """What is left of it."""
    since: int
    """Index in the stream of the first event that came after it."""


class Taken(NamedTuple):
    """How much own orders have taken of a recorded order that still stands where it stood."""

    side: Side
    """Its side."""
    price: int
    """Its limit."""
    size: int
    """How much of it is theirs. What history takes of it comes on top."""


class ShadowBook:
    """What a strategy sees of one book in shadow mode, and the orders it has there.

    It has the part of a :class:`~clob.Book` by which one looks at it. History's orders stand in it
    less what own orders took of them, and own orders beside them.

    Args:
        history: the book of history, which somebody else moves on.
    """

    def __init__(self, history: Book) -> None:
        self.history: Book = history
        """The book of history, without any own order."""
        self.own: dict[int, OwnResting] = {}
        """The own orders that rest, by id, in the order they came."""
        self.sides: tuple[list[OwnResting], list[OwnResting]] = ([], [])
        """The own buy and the own sell orders, best price first, oldest first."""
        self.taken: dict[int, Taken] = {}
        """What own orders have taken of recorded orders, by id."""
        self.came: dict[int, dict[int, int]] = {}
        """By price at which own orders rest: which orders joined that queue since the first of
        them came, and the index in the stream of the event by which they did so last."""
        self.catch_up: Callable[[], None] = _nothing
        """Brings ``came`` up to the last event."""
        self._lot_wei: int = history.lot_wei
        self._tidy: int = TIDY

    # ----- own orders --------------------------------------------------------------------------

    def rest(self, order: OwnResting) -> None:
        """Let an own order rest, behind all that stands at its price. Logarithmic."""
        self.catch_up()
        self.own[order.order_id] = order
        insort(self.sides[order.side], order, key=_rank)
        self.came.setdefault(order.price, {})

    def leave(self, order: OwnResting) -> None:
        """Take an own order out. O(own orders)."""
        del self.own[order.order_id]
        self.sides[order.side].remove(order)
        if all(one.price != order.price for one in self.own.values()):
            del self.came[order.price]

    def clear(self) -> list[OwnResting]:
        """Take all own orders out, and forget what they took.

        Returns:
            The orders, in the order they came.
        """
        gone = list(self.own.values())
        self.own.clear()
        for some in self.sides:
            some.clear()
        self.came.clear()
        self.taken.clear()
        return gone

    def precedes(self, order_id: int, order: OwnResting) -> bool:
        """Tell whether a recorded order of its queue stands in front of an own order.

        Args:
            order_id: an order that rests at the price of the own order, or did until just now.
            order: the own order.
        """
        self.catch_up()
        return self.came[order.price].get(order_id, -1) < order.since

    # ----- what was taken ----------------------------------------------------------------------

    def take(self, order_id: int, side: Side, price: int, size: int) -> None:
        """Remember that own orders took some of a recorded order."""
        if order_id in self.taken:
            size += self.taken[order_id].size
        self.taken[order_id] = Taken(side, price, size)
        if len(self.taken) > self._tidy:
            self._forget_taken()
            self._tidy = max(2 * len(self.taken), TIDY)

    def untaken(self, order_id: int, remaining: int) -> int:
        """Give how much of a recorded order is left for own orders.

        Args:
            order_id: the order.
            remaining: what history leaves of it.
        """
        if order_id not in self.taken:
            return remaining
        return max(remaining - self.taken[order_id].size, 0)

    def forget_gone(self) -> None:
        """Forget what is known of orders that have left the book: they would come back anew."""
        history = self.history
        self._forget_taken()
        for queue in self.came.values():
            for order_id in [one for one in queue if one not in history]:
                del queue[order_id]

    def _forget_taken(self) -> None:
        """Forget what was taken of orders that have left the book."""
        history = self.history
        for order_id in [one for one in self.taken if one not in history]:
            del self.taken[order_id]

    # ----- what a strategy sees ----------------------------------------------------------------

    @property
    def lo(self) -> int:
        """The lowest price of the grid."""
        return self.history.lo

    @property
    def hi(self) -> int:
        """The highest price of the grid."""
        return self.history.hi

    @property
    def lot_wei(self) -> int:
        """What every size is a multiple of, in wei."""
        return self._lot_wei

    @property
    def best_bid(self) -> int | None:
        """The highest price of a buy order, own ones included, or None."""
        return self._best(Side.BUY, self.history.best_bid)

    @property
    def best_ask(self) -> int | None:
        """The lowest price of a sell order, own ones included, or None."""
        return self._best(Side.SELL, self.history.best_ask)

    def _best(self, side: Side, price: int | None) -> int | None:
        """Find the best price of a side, of which history's book has one, or None."""
        for what in self.taken.values():
            if what.price == price and what.side is side:
                # Of that level there may be nothing left.
                depth = self.depth(1)
                levels = depth.bids if side is Side.BUY else depth.asks
                return levels[0].price if levels else None
        own = self.sides[side]
        if not own or price is None:
            return own[0].price if own else price
        return max(price, own[0].price) if side is Side.BUY else min(price, own[0].price)

    def depth(self, limit: int | None = None) -> Depth:
        """Take a picture, as :meth:`clob.Book.depth`: own orders in it, what they took not.

        Args:
            limit: how many levels of each side at most; None is all.

        Returns:
            The levels, sizes in wei, and the ``seq`` of history's book.
        """
        # Of as many levels as there are orders of which something is taken, nothing may be left.
        depth = self.history.depth(None if limit is None else limit + len(self.taken))
        bids, asks = self._merged(Side.BUY, depth.bids), self._merged(Side.SELL, depth.asks)
        return Depth(depth.market, depth.token, depth.seq, bids[:limit], asks[:limit])

    def _merged(self, side: Side, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        """Give levels of a side, the best ones, with own orders and without what those took."""
        history, lot_wei = self.history, self._lot_wei
        taken = [(one, what) for one, what in self.taken.items() if what.side is side]
        if not taken and not self.sides[side]:
            return levels
        changes: dict[int, tuple[int, int]] = {}
        for order_id, what in taken:
            if order_id in history:
                remaining = history.order(order_id).remaining
                used = min(remaining, what.size * lot_wei)
                size, count = changes.get(what.price, (0, 0))
                changes[what.price] = (size - used, count - (used == remaining))
        for order in self.sides[side]:
            size, count = changes.get(order.price, (0, 0))
            changes[order.price] = (size + order.left * lot_wei, count + 1)
        return tuple(_changed(levels, changes, side))

    def __contains__(self, order_id: object) -> bool:
        """Whether an order rests, an own one or a recorded one."""
        return order_id in self.own or order_id in self.history

    def __len__(self) -> int:
        """How many orders rest, own ones included."""
        return len(self.history) + len(self.own)

    def order(self, order_id: str | int) -> Resting:
        """Look at one resting order, a recorded one as history has it.

        Args:
            order_id: its id.

        Returns:
            What it is and what is left of it.

        Raises:
            UnknownOrderError: no such order rests.
        """
        order = self.own.get(order_id) if isinstance(order_id, int) else None
        if order is None:
            return self.history.order(order_id)
        remaining = order.left * self._lot_wei
        return Resting(order.order_id, order.side, order.price, remaining, maker_of(OWN), 0)

    def ahead(self, order_id: str | int) -> Ahead:
        """Say what stands in front of an order at its price.

        In front of a recorded order that is what history has there; in front of an own order, own
        ones are counted, too.

        Args:
            order_id: its id.

        Returns:
            How many orders and how much of them, in wei.

        Raises:
            UnknownOrderError: no such order rests.
        """
        order = self.own.get(order_id) if isinstance(order_id, int) else None
        if order is None:
            return self.history.ahead(order_id)
        self.catch_up()
        level = self._history_level(order.side, order.price)
        size, count = (level.size, level.num_orders) if level else (0, 0)
        for other, since in self.came[order.price].items():
            if since < order.since or other not in self.history:
                continue
            later = self.history.order(other)
            if (later.side, later.price) == (order.side, order.price):
                size, count = size - later.remaining, count - 1
        for one in self.sides[order.side]:
            if one is order:
                break
            if one.price == order.price:
                size, count = size + one.left * self._lot_wei, count + 1
        return Ahead(count, size)

    def _history_level(self, side: Side, price: int) -> Level | None:
        """Find the level of history's book at a price, or None."""
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
        """Check all invariants of history's book and of the own orders.

        Raises:
            InvariantError: one is broken, which is a bug of this package.

        O(orders).
        """
        self.history.check()
        ranked = [order for side in self.sides for order in side]
        if {id(order) for order in ranked} != {id(order) for order in self.own.values()}:
            raise InvariantError("an own order rests that is in no queue, or the other way round")
        if any(order.left < 1 or order.left > LOTS_MAX for order in ranked):
            raise InvariantError("an own order rests of which nothing is left")
        if any(side != sorted(side, key=_rank) for side in self.sides):
            raise InvariantError("own orders are not in order of price and time")
        if {order.price for order in ranked} != self.came.keys():
            raise InvariantError("the queues looked at are not those of the own orders")


def _changed(
    levels: tuple[Level, ...], changes: dict[int, tuple[int, int]], side: Side
) -> list[Level]:
    """Give the levels of a side with more or less at some prices, in order; empty ones left out.

    A change at a price behind the last level given is one of orders that stand there, or more.
    """
    found = []
    for level in levels:
        if level.price in changes:
            size, count = changes.pop(level.price)
            if level.size + size:
                found.append(Level(level.price, level.size + size, level.num_orders + count))
        else:
            found.append(level)
    more = [Level(price, *change) for price, change in changes.items() if change[0] > 0]
    if more:
        found += more
        found.sort(key=lambda level: level.price, reverse=side is Side.BUY)
    return found


def _rank(order: OwnResting) -> int:
    """Give what the own orders of a side are in order of; those that came first stay in front."""
    return -order.price if order.side is Side.BUY else order.price


def _nothing() -> None:
    """Do nothing."""
