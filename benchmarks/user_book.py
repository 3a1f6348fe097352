"""A typical hand-written book in Python: sorted prices, an ordered dict of orders at each.

It checks no input and returns trades only.
"""

from collections import OrderedDict
from dataclasses import dataclass

from sortedcontainers import SortedDict


@dataclass(slots=True)
class UserOrder:
    """An order; side 0 buys and 1 sells, price in cents, sizes in wei."""

    id: str
    side: int
    price: int
    size: int
    remaining: int


@dataclass(slots=True)
class UserTrade:
    """A trade of two orders."""

    resting: str
    incoming: str
    price: int
    size: int


class UserBook:
    """Price-time priority with ``sortedcontainers`` and the standard library."""

    def __init__(self) -> None:
        self.sides = (SortedDict(), SortedDict())
        self.orders: dict[str, UserOrder] = {}

    def add(self, id: str, side: int, price: int, size: int) -> list[UserTrade]:
        """Match an order, rest the remaining size, and return the trades."""
        order = UserOrder(id, side, price, size, size)
        trades: list[UserTrade] = []
        opposite = self.sides[1 - side]
        if side == 0:
            while order.remaining and opposite:
                best, queue = opposite.peekitem(0)
                if best > price:
                    break
                self._trade(order, best, queue, opposite, trades)
        else:
            while order.remaining and opposite:
                best, queue = opposite.peekitem(-1)
                if best < price:
                    break
                self._trade(order, best, queue, opposite, trades)
        if order.remaining:
            own = self.sides[side]
            queue = own.get(price)
            if queue is None:
                queue = own[price] = OrderedDict()
            queue[id] = order
            self.orders[id] = order
        return trades

    def _trade(
        self,
        order: UserOrder,
        price: int,
        queue: OrderedDict[str, UserOrder],
        prices: "SortedDict[int, OrderedDict[str, UserOrder]]",
        trades: list[UserTrade],
    ) -> None:
        while order.remaining and queue:
            resting_id, resting = next(iter(queue.items()))
            size = min(order.remaining, resting.remaining)
            order.remaining -= size
            resting.remaining -= size
            trades.append(UserTrade(resting_id, order.id, price, size))
            if not resting.remaining:
                del queue[resting_id]
                del self.orders[resting_id]
        if not queue:
            del prices[price]

    def cancel(self, id: str) -> bool:
        """Remove an order; return False if the id is unknown."""
        order = self.orders.pop(id, None)
        if order is None:
            return False
        prices = self.sides[order.side]
        queue = prices[order.price]
        del queue[id]
        if not queue:
            del prices[order.price]
        return True
