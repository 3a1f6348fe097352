"""A model of a book, built from its events: queues in order of arrival, and a ledger of sizes.

The model never reads a book. From the events of each command it derives the order that must match
next, and fails on any other event.
"""

from clob import (
    Level,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    RemovalReason,
    Resting,
    SelfTrade,
    Side,
    TimeInForce,
    Trade,
)


class Entry:
    """One resting order."""

    def __init__(self, order, remaining):
        self.id, self.side, self.price = order.id, order.side, order.price
        self.maker, self.expiration_s = order.maker, order.expiration_s
        self.remaining = remaining

    def as_resting(self):
        """Return it as ``Book.orders`` does."""
        fields = (self.id, self.side, self.price, self.remaining, self.maker, self.expiration_s)
        return Resting(*fields)


class Model:
    """All resting orders in order of arrival, and the account of every wei.

    The submitted size equals the sum of the resting size, twice the traded size (each trade
    consumes two orders), the size removed from resting orders without a trade, and the size dropped
    from incoming orders.
    """

    def __init__(self):
        self.seq = 0
        self.resting = {}
        self.submitted = self.traded = self.removed = self.dropped = 0

    # ----- the state -----

    def queue(self, side):
        """List one side: best price first, oldest first."""
        entries = [entry for entry in self.resting.values() if entry.side is side]
        # A dict keeps the order of arrival, and sorting is stable.
        return sorted(entries, key=lambda x: x.price, reverse=side is Side.BUY)

    def orders(self):
        """List all orders as ``Book.orders`` does."""
        return [entry.as_resting() for side in Side for entry in self.queue(side)]

    def levels(self, side):
        """Return the depth of one side as ``Book.depth`` does."""
        sizes = {}
        for entry in self.queue(side):
            sizes.setdefault(entry.price, []).append(entry.remaining)
        return tuple(Level(price, sum(sizes[price]), len(sizes[price])) for price in sizes)

    def meets(self, order):
        """Return the order that an incoming one matches next, or None."""
        head = next(iter(self.queue(Side(1 - order.side))), None)
        if head is None:
            return None
        reached = head.price <= order.price if order.side is Side.BUY else head.price >= order.price
        return head if reached else None

    def alive_against(self, order, now_s):
        """List the orders within an order's limit that have not expired, in order."""
        against = self.queue(Side(1 - order.side))
        sign = 1 if order.side is Side.BUY else -1
        return [
            x for x in against if sign * x.price <= sign * order.price and not expired(x, now_s)
        ]

    def tradable(self, order, now_s):
        """Return the size an order could trade, up to the first order of its own maker."""
        size = 0
        for resting in self.alive_against(order, now_s):
            if order.self_trade and order.maker != "" and resting.maker == order.maker:
                if order.self_trade is not SelfTrade.CANCEL_RESTING:
                    break
            else:
                size += resting.remaining
        return size

    # ----- the events -----

    def apply_removals(self, events, reason, ids):
        """Apply the removal of exactly these orders, in this sequence."""
        assert [event.order_id for event in events] == ids
        for event in events:
            self._count(event)
            assert type(event) is OrderRemoved
            assert event.reason is reason
            self._out(self.resting.pop(event.order_id), event)

    def apply_reduction(self, events, order_id, size):
        """Apply the reduction of an order."""
        (event,) = events
        self._count(event)
        assert (type(event), event.order_id, event.remaining) == (OrderReduced, order_id, size)
        entry = self.resting[order_id]
        assert size < entry.remaining
        self.removed += entry.remaining - size
        entry.remaining = size

    def apply_rest(self, events, order):
        """Apply an order that rested without matching."""
        assert self.meets(order) is None
        self.submitted += order.size
        (event,) = events
        self._count(event)
        self._add(event, order, order.size)

    def apply_order(self, events, order, now_s):
        """Apply the events of an incoming order, and assert that they are correct."""
        rests = order.time_in_force in (TimeInForce.GTC, TimeInForce.GTD)
        assert not rests or order.id not in self.resting
        self.submitted += order.size
        left, halted = order.size, False
        events = list(events)
        while events:
            event = events.pop(0)
            self._count(event)
            assert left, "an event after the order was filled"
            assert not halted, "an event after the self-trade ended the order"
            if type(event) is OrderAdded:
                assert rests
                assert not events
                self._stops(order, left, now_s)
                self._add(event, order, left)
                return
            left, halted = self._met(event, order, left, now_s, events)
        if left:
            self._stops(order, left, now_s, halted=halted, rested=False)
            self.dropped += left

    def _met(self, event, order, left, now_s, events):
        """Apply an event at the next resting order; return the remainder and whether it ends."""
        head = self.meets(order)
        assert head, f"no order to match, but got {event}"
        same = bool(order.self_trade) and order.maker != "" and order.maker == head.maker
        if expired(head, now_s):
            assert (type(event), event.order_id) == (OrderRemoved, head.id)
            assert event.reason is RemovalReason.EXPIRED
            self._out(self.resting.pop(head.id), event)
            return left, False
        if same:
            return self._prevented(event, head, order.self_trade, left)
        assert not order.post_only
        self._traded(event, head, order, left)
        left -= event.size
        if not head.remaining:
            removal = events.pop(0)
            self._count(removal)
            assert (type(removal), removal.order_id) == (OrderRemoved, head.id)
            assert removal.reason is RemovalReason.FILLED
            self._out(self.resting.pop(head.id), removal)
        return left, False

    def _traded(self, event, head, order, left):
        """Apply a trade with the first order of the queue."""
        size = min(left, head.remaining)
        head.remaining -= size
        self.traded += size
        buyer, seller = (order, head) if order.side is Side.BUY else (head, order)
        expected = {
            "resting_order_id": head.id,
            "incoming_order_id": order.id,
            "price": head.price,
            "size": size,
            "buyer": buyer.maker,
            "seller": seller.maker,
            "resting_remaining": head.remaining,
            "incoming_remaining": left - size,
            "incoming_side": order.side,
        }
        assert type(event) is Trade
        assert {name: getattr(event, name) for name in expected} == expected

    def _prevented(self, event, head, policy, left):
        """Apply the prevention of a self-trade."""
        assert event.order_id == head.id
        assert policy is not SelfTrade.CANCEL_INCOMING
        if policy is SelfTrade.DECREMENT:
            lost = min(left, head.remaining)
            self.dropped += lost
            if lost < head.remaining:
                assert type(event) is OrderReduced
                assert event.remaining == head.remaining - lost
                head.remaining -= lost
                self.removed += lost
                return 0, True
        else:
            lost = 0
        assert type(event) is OrderRemoved
        assert event.reason is RemovalReason.SELF_TRADE
        self._out(self.resting.pop(head.id), event)
        return left - lost, policy is SelfTrade.CANCEL_BOTH

    def _stops(self, order, left, now_s, *, halted=False, rested=True):
        """Assert that matching of an order with a remainder had a reason to stop."""
        assert order.time_in_force is not TimeInForce.FOK
        head = self.meets(order)
        own = head and order.maker != "" and head.maker == order.maker and not expired(head, now_s)
        by_policy = halted or (own and order.self_trade is SelfTrade.CANCEL_INCOMING)
        if by_policy:
            assert not rested, "it rests, although self-trade prevention cancels it"
        else:
            assert head is None, f"{left} wei of {order.id!r} did not trade with {head.id!r}"
            assert rested or order.time_in_force is TimeInForce.IOC, "a remainder was dropped"

    def _add(self, event, order, left):
        """Append an order to its queue."""
        added = (event.order_id, event.side, event.price, event.remaining)
        assert type(event) is OrderAdded
        assert added == (order.id, order.side, order.price, left)
        assert order.id not in self.resting
        self.resting[order.id] = Entry(order, left)

    def _out(self, entry, event):
        """Account for the size of a removed order."""
        assert event.remaining == entry.remaining
        self.removed += entry.remaining

    def _count(self, event):
        """Assert the next sequence number."""
        self.seq += 1
        assert event.seq == self.seq, "a gap in seq"


def expired(entry, now_s):
    """Return whether an order has expired."""
    return 0 < entry.expiration_s < now_s
