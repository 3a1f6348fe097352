"""Simple queues that follow the records, to count incoming orders that met the first order."""

from collections import Counter

from clob.records import Kind


class Queues:
    """Resting orders by side and price, oldest first; only the records change them."""

    def __init__(self):
        self.levels = ({}, {})
        self.places = {}
        self.exact = self.differing = 0
        self.differences = Counter()
        self.crossed = 0

    def follow(self, events):
        """Apply events; compare each incoming order with the fills after it."""
        rows = events[["kind", "side", "price", "size", "order_id"]].tolist()
        taking = None
        for row in rows:
            kind = row[0]
            if taking is not None and kind != Kind.FILL:
                self._compare(*taking)
                taking = None
            if kind == Kind.IOC:
                taking = (self.would_meet(*row[1:4]), [])
            elif kind == Kind.FILL and taking is not None:
                taking[1].append((row[4], row[3], row[2]))
                self.reduce_by(row[4], row[3])
            else:
                self.apply(*row)
        if taking is not None:
            self._compare(*taking)

    def _compare(self, expected, recorded):
        if expected == recorded:
            self.exact += 1
            return
        self.differing += 1
        same = sorted(expected) == sorted(recorded)
        self.differences["other order" if same else "other fills"] += 1

    def apply(self, kind, side, price, size, order_id):
        if kind in (Kind.LIMIT, Kind.SEED):
            opposite = self.levels[1 - side]
            if kind == Kind.LIMIT and opposite:
                best = max(opposite) if side else min(opposite)
                self.crossed += price <= best if side else price >= best
            self.levels[side].setdefault(price, {})[order_id] = size
            self.places[order_id] = (side, price)
        elif kind in (Kind.CANCEL, Kind.REPLACE):
            self.remove(order_id)
            if kind == Kind.REPLACE:
                self.apply(Kind.LIMIT, side, price, size, order_id)
        elif kind == Kind.REDUCE:
            was, at = self.places[order_id]
            assert 0 < size <= self.levels[was][at][order_id]
            self.levels[was][at][order_id] = size

    def remove(self, order_id):
        side, price = self.places.pop(order_id)
        queue = self.levels[side][price]
        del queue[order_id]
        if not queue:
            del self.levels[side][price]

    def reduce_by(self, order_id, size):
        side, price = self.places[order_id]
        left = self.levels[side][price][order_id] - size
        if left > 0:
            self.levels[side][price][order_id] = left
        else:
            self.remove(order_id)

    def would_meet(self, side, price, size):
        """Return id, size and price of the orders that an incoming order meets by priority."""
        met = []
        opposite = self.levels[1 - side]
        for at in sorted(opposite, reverse=bool(side)):
            if not size or (at < price if side else at > price):
                break
            for order_id, resting in opposite[at].items():
                if not size:
                    break
                met.append((order_id, min(size, resting), at))
                size -= met[-1][1]
        return met
