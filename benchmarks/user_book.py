"""The book one would write oneself in Python: sorted prices, an ordered dict of orders at each.

It checks nothing and announces only trades, as such a book does.
"""

from collections import OrderedDict
from dataclasses import dataclass

from sortedcontainers import SortedDict


@dataclass(slots=True)
class UserOrder:
    """An order: its name, 0 to buy or 1 to sell, cents, wei."""

    id: str
    side: int
    price: int
    size: int
    remaining: int


@dataclass(slots=True)
class UserTrade:
    """Two orders traded."""

    resting: str
    incoming: str
    price: int
    size: int


class UserBook:
    """Price-time priority with what PyPI and the standard library offer."""

    def __init__(self) -> None:
        self.sides = (SortedDict(), SortedDict())
        self.orders: dict[str, UserOrder] = {}

    def add(self, id: str, side: int, price: int, size: int) -> list[UserTrade]:
        """Match an order, rest what is left, and give the trades."""
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
        prices: SortedDict,
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
        """Remove an order; False if there is none of that name."""
        order = self.orders.pop(id, None)
        if order is None:
            return False
        prices = self.sides[order.side]
        queue = prices[order.price]
        del queue[id]
        if not queue:
            del prices[order.price]
        return True
