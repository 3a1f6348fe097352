"""The queues of the plain-Python Book and their matching: everything that changes a book.

Commands were checked before they arrive here. Sizes are in wei.
"""

from collections import OrderedDict
from collections.abc import Iterator
from operator import neg
from typing import Protocol

from sortedcontainers import SortedDict

from clob.book import rejections
from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import SelfTrade, Side
from clob.units import ORDER_ID_MAX


class QueuedOrder:
    """An incoming or resting order; ``remaining`` decreases as it trades."""

    __slots__ = ("expiration_s", "id", "maker", "number", "price", "remaining", "side")

    def __init__(
        self, order_id: str | int, maker: str, side: Side, price: int, size: int, expiration_s: int
    ) -> None:
        """A text id gets its number when the order rests."""
        self.id: str | int = order_id
        self.number: int = order_id if isinstance(order_id, int) else 0
        self.maker: str = maker
        self.side: Side = side
        self.price: int = price
        self.remaining: int = size
        self.expiration_s: int = expiration_s

    def copy(self) -> "QueuedOrder":
        twin = QueuedOrder(
            self.id, self.maker, self.side, self.price, self.remaining, self.expiration_s
        )
        twin.number = self.number
        return twin

    def accepts(self, resting_price: int) -> bool:
        """Return whether the limit allows a trade at a resting order's price."""
        return resting_price <= self.price if self.side is Side.BUY else resting_price >= self.price

    def expired(self, now_s: int) -> bool:
        """Return whether the expiration has passed; the order is valid during that second."""
        return 0 < self.expiration_s < now_s


Queue = OrderedDict[str | int, QueuedOrder]


class FillListener(Protocol):
    """Receives trades and departed orders during a run."""

    def reserve(self, trades: int) -> None:
        """Called before an order with its number of trades; raises if they do not fit."""

    def trade(self, resting: QueuedOrder, incoming: QueuedOrder, size: int) -> None:
        """Called after each trade."""

    def departure(self, order: QueuedOrder) -> None:
        """Called when an order leaves the book."""


class Queues:
    """Both sides of a book, price-time priority, and the sequence of its events."""

    def __init__(self, token: str, market: str) -> None:
        self._token, self._market = token, market
        self._seq = 0
        self._orders: dict[str | int, QueuedOrder] = {}
        self._named: dict[int, QueuedOrder] = {}
        self._next_number = ORDER_ID_MAX + 1
        # The best price of each side comes first: the highest bid, the lowest ask.
        self._sides: tuple[SortedDict[int, Queue], SortedDict[int, Queue]] = (
            SortedDict(neg),
            SortedDict(),
        )
        self._listener: FillListener | None = None

    # ----- reading and rejections ----------------------------------------------------------

    def _queued(self) -> Iterator[QueuedOrder]:
        """Iterate over resting orders: bids first, best price first, oldest first."""
        for levels in self._sides:
            for queue in levels.values():
                yield from queue.values()

    def _opposite(self, incoming: QueuedOrder) -> Iterator[QueuedOrder]:
        """Iterate over the resting orders within the limit of an order, in matching order."""
        for price, queue in self._sides[1 - incoming.side].items():
            if not incoming.accepts(price):
                return
            yield from queue.values()

    def _reject_duplicate(self, order_id: str | int) -> None:
        if order_id in self._orders:
            raise rejections.duplicate(order_id)

    def _reject_post_only(self, incoming: QueuedOrder, now_s: int) -> None:
        """Reject an order that would trade; expired resting orders do not count."""
        for resting in self._opposite(incoming):
            if not resting.expired(now_s):
                raise rejections.would_cross(incoming.side, incoming.price, resting.price)

    def _reject_seed(self, incoming: QueuedOrder) -> None:
        """Reject an order to rest whose limit reaches the other side."""
        for resting in self._opposite(incoming):
            raise rejections.seed_would_cross(incoming.side, incoming.price, resting.price)

    def _reject_other_queue(self, order: QueuedOrder, following: QueuedOrder | None) -> None:
        """Reject resting an order in front of one from another queue."""
        if following and (following.side, following.price) != (order.side, order.price):
            raise rejections.other_queue(following.id)

    def _reject_unfillable(self, incoming: QueuedOrder, policy: SelfTrade, now_s: int) -> None:
        """Reject a fill-or-kill order that cannot trade its whole size."""
        fillable = 0
        for resting in self._opposite(incoming):
            if resting.expired(now_s):
                continue
            if policy and _same_maker(incoming, resting):
                if policy is SelfTrade.CANCEL_RESTING:
                    continue
                break
            fillable += resting.remaining
            if fillable >= incoming.remaining:
                return
        raise rejections.not_fillable(incoming.price, fillable, incoming.remaining)

    # ----- matching ------------------------------------------------------------------------

    def _execute(
        self, incoming: QueuedOrder, policy: SelfTrade, now_s: int, *, rests: bool
    ) -> list[Event]:
        """Match an order, and rest the remainder if ``rests``."""
        self._reserve_trades(incoming, policy, now_s)
        events: list[Event] = []
        self._match(incoming, policy, now_s, events)
        if incoming.remaining and rests:
            self._add(incoming, events)
        return events

    def _reject_too_many_trades(
        self, incoming: QueuedOrder, policy: SelfTrade, now_s: int, trades_max: int | None
    ) -> None:
        if trades_max is None:
            return
        sizes = list(self._predict(incoming, policy, now_s))
        if len(sizes) > trades_max:
            raise rejections.too_many_trades(len(sizes), trades_max, sizes[trades_max - 1])

    def _reserve_trades(self, incoming: QueuedOrder, policy: SelfTrade, now_s: int) -> None:
        """Announce the number of trades of an order to the listener, before anything changes."""
        if self._listener:
            self._listener.reserve(sum(1 for _ in self._predict(incoming, policy, now_s)))

    def _predict(self, incoming: QueuedOrder, policy: SelfTrade, now_s: int) -> Iterator[int]:
        """Yield for each trade of an order the size used up after it."""
        left = incoming.remaining
        for resting in self._opposite(incoming):
            if resting.expired(now_s):
                continue
            own = policy and _same_maker(incoming, resting)
            if not left or (own and policy in (SelfTrade.CANCEL_INCOMING, SelfTrade.CANCEL_BOTH)):
                return
            if own and policy is SelfTrade.CANCEL_RESTING:
                continue
            left -= min(left, resting.remaining)
            if not own:
                yield incoming.remaining - left

    def _match(
        self, incoming: QueuedOrder, policy: SelfTrade, now_s: int, events: list[Event]
    ) -> None:
        """Match against the best resting order while its price is within the limit.

        "Best price matches first: highest bid, lowest ask. At the same price, the older order
        matches first." -- specification, What the service does, 2
        """
        levels = self._sides[1 - incoming.side]
        while incoming.remaining and levels:
            price, queue = levels.peekitem(0)
            if not incoming.accepts(price):
                return
            resting = next(iter(queue.values()))
            if resting.expired(now_s):
                self._remove(resting, RemovalReason.EXPIRED, events)
            elif policy and _same_maker(incoming, resting):
                self._prevent(incoming, resting, policy, events)
            else:
                self._trade(incoming, resting, events)

    def _trade(self, incoming: QueuedOrder, resting: QueuedOrder, events: list[Event]) -> None:
        """Trade the smaller of both sizes at the resting order's price."""
        size = min(incoming.remaining, resting.remaining)
        incoming.remaining -= size
        resting.remaining -= size
        buys = incoming.side is Side.BUY
        events.append(
            Trade(
                seq=self._next_seq(),
                market=self._market,
                token=self._token,
                resting_order_id=resting.id,
                incoming_order_id=incoming.id,
                price=resting.price,
                size=size,
                buyer=(incoming if buys else resting).maker,
                seller=(resting if buys else incoming).maker,
                resting_remaining=resting.remaining,
                incoming_remaining=incoming.remaining,
                incoming_side=incoming.side,
            )
        )
        if self._listener:
            self._listener.trade(resting, incoming, size)
        if not resting.remaining:
            self._remove(resting, RemovalReason.FILLED, events)

    def _prevent(
        self, incoming: QueuedOrder, resting: QueuedOrder, policy: SelfTrade, events: list[Event]
    ) -> None:
        """Apply the self-trade policy to two orders of one maker."""
        if policy is SelfTrade.DECREMENT:
            size = min(incoming.remaining, resting.remaining)
            incoming.remaining -= size
            if size < resting.remaining:
                events.extend(self._shrink(resting, resting.remaining - size))
            else:
                self._remove(resting, RemovalReason.SELF_TRADE, events)
            return
        if policy in (SelfTrade.CANCEL_RESTING, SelfTrade.CANCEL_BOTH):
            self._remove(resting, RemovalReason.SELF_TRADE, events)
        if policy in (SelfTrade.CANCEL_INCOMING, SelfTrade.CANCEL_BOTH):
            incoming.remaining = 0

    def _replace(
        self,
        order: QueuedOrder,
        price: int,
        size: int,
        now_s: int,
        *,
        post_only: bool,
        policy: SelfTrade,
        trades_max: int | None = None,
    ) -> list[Event]:
        """Reduce an order in place, or remove it and submit it again."""
        if order.expired(now_s):
            raise rejections.expired(order.expiration_s, now_s)
        if price == order.price and size < order.remaining:
            return self._shrink(order, size)
        renewed = order.copy()
        renewed.price, renewed.remaining = price, size
        if post_only:
            self._reject_post_only(renewed, now_s)
        self._reject_too_many_trades(renewed, policy, now_s, trades_max)
        self._reserve_trades(renewed, policy, now_s)
        events: list[Event] = []
        self._remove(order, RemovalReason.REPLACED, events)
        events += self._execute(renewed, policy, now_s, rests=True)
        if self._listener and not renewed.remaining:
            self._listener.departure(renewed)
        return events

    # ----- changing the queues -------------------------------------------------------------

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _add(self, order: QueuedOrder, events: list[Event]) -> None:
        if not order.number and isinstance(order.id, str):
            order.number = self._next_number
            self._next_number += 1
        if isinstance(order.id, str):
            self._named[order.number] = order
        self._orders[order.id] = order
        levels = self._sides[order.side]
        if order.price not in levels:
            levels[order.price] = OrderedDict()
        levels[order.price][order.id] = order
        events.append(
            OrderAdded(
                seq=self._next_seq(),
                market=self._market,
                token=self._token,
                order_id=order.id,
                side=order.side,
                price=order.price,
                remaining=order.remaining,
            )
        )

    def _move(self, order: QueuedOrder, following: QueuedOrder | None) -> None:
        """Move the last order of a queue in front of ``following``, if given."""
        if following is None:
            return
        queue = self._sides[order.side][order.price]
        ids = list(queue)
        for order_id in ids[ids.index(following.id) : -1]:
            queue.move_to_end(order_id)

    def _remove(self, order: QueuedOrder, reason: RemovalReason, events: list[Event]) -> None:
        levels = self._sides[order.side]
        queue = levels[order.price]
        del queue[order.id], self._orders[order.id]
        self._named.pop(order.number, None)
        if not queue:
            del levels[order.price]
        if self._listener and reason is not RemovalReason.REPLACED:
            self._listener.departure(order)
        events.append(
            OrderRemoved(
                seq=self._next_seq(),
                market=self._market,
                token=self._token,
                order_id=order.id,
                reason=reason,
                remaining=order.remaining,
            )
        )

    def _remove_all(self, orders: list[QueuedOrder], reason: RemovalReason) -> list[Event]:
        events: list[Event] = []
        for order in orders:
            self._remove(order, reason, events)
        return events

    def _reduce(self, order: QueuedOrder, size: int) -> list[Event]:
        """Reduce an order in place; reject a size that is not smaller."""
        if size >= order.remaining:
            raise rejections.not_reduced(size, order.remaining)
        return self._shrink(order, size)

    def _shrink(self, order: QueuedOrder, size: int) -> list[Event]:
        order.remaining = size
        return [OrderReduced(self._next_seq(), self._market, self._token, order.id, size)]


def _same_maker(incoming: QueuedOrder, resting: QueuedOrder) -> bool:
    """Return whether two orders have the same maker. An empty maker never matches itself."""
    return bool(incoming.maker) and incoming.maker == resting.maker
