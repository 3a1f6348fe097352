"""A matcher as plain as can be, by which the synthetic day knows which fills are right.

It shares no line with the Book, so that comparing the two means something.
"""

import dataclasses
from typing import TypeAlias

BUY, SELL = 0, 1

Filled: TypeAlias = tuple[int, int, int]
"""Id of the resting order, size in lots, price in ticks."""


@dataclasses.dataclass
class Resting:
    """An order in a queue."""

    id: int
    """The order."""
    side: int
    """0 buy, 1 sell."""
    price: int
    """Its limit, in ticks."""
    size: int
    """What remains of it, in lots."""


class NaiveMatcher:
    """Price-time priority on plain lists, one for each price of each side. It checks nothing."""

    def __init__(self) -> None:
        """Begin empty."""
        self.orders: dict[int, Resting] = {}
        """The resting orders by their id."""
        self._levels: tuple[dict[int, list[Resting]], ...] = ({}, {})

    def best(self, side: int) -> int | None:
        """Find the best price of a side, or None. O(levels)."""
        prices = self._levels[side]
        return (max(prices) if side == BUY else min(prices)) if prices else None

    def crosses(self, side: int, price: int) -> bool:
        """Tell whether an order at that price would trade at once."""
        opposite = self.best(1 - side)
        return opposite is not None and (price >= opposite if side == BUY else price <= opposite)

    def rest(self, order: Resting) -> None:
        """Put an order last in its queue."""
        self.orders[order.id] = order
        self._levels[order.side].setdefault(order.price, []).append(order)

    def match(self, order: Resting) -> list[Filled]:
        """Trade an incoming order; what is left of it is its ``size`` afterwards."""
        fills = []
        while order.size and self.crosses(order.side, order.price):
            price = self.best(1 - order.side)
            assert price is not None
            first = self._levels[1 - order.side][price][0]
            size = min(first.size, order.size)
            first.size -= size
            order.size -= size
            fills.append((first.id, size, price))
            if not first.size:
                self.cancel(first.id)
        return fills

    def enter(self, order: Resting) -> list[Filled]:
        """Match an order and rest what is left."""
        fills = self.match(order)
        if order.size:
            self.rest(order)
        return fills

    def cancel(self, order_id: int) -> Resting:
        """Take an order out."""
        order = self.orders.pop(order_id)
        queue = self._levels[order.side][order.price]
        queue.remove(order)
        if not queue:
            del self._levels[order.side][order.price]
        return order

    def replace(self, order_id: int, price: int, size: int) -> list[Filled]:
        """Shrink an order where it stands, or else bring it in again."""
        order = self.orders[order_id]
        if price == order.price and size < order.size:
            order.size = size
            return []
        self.cancel(order_id)
        return self.enter(dataclasses.replace(order, price=price, size=size))
