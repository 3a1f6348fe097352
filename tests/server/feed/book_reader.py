"""A client that rebuilds the books of a market from the messages it receives."""

import zlib
from collections import Counter


class BookReader:
    """Books of one market: price levels and, for orders whose addition was received, orders.

    Args:
        check: called with the reader and each applied message.
        gapless: whether to reject a gap in the sequence or a later snapshot.
    """

    def __init__(self, check=lambda reader, message: None, *, gapless=True):
        self.levels = {}
        """By token: [size, number of orders] by (side, price)."""
        self.orders = {}
        """By token and order id: [side, price, size]."""
        self.seq = None
        self.trades = []
        self.counts = Counter()
        self.has_gap = False
        """Whether events were skipped before the last message."""
        self.reduced = None
        """Between the two messages of a reduction: its number."""
        self.last = None
        """Number and token of the last event since a snapshot."""
        self._check, self._gapless = check, gapless

    def apply(self, messages):
        """Apply messages."""
        for message in messages:
            self.counts[message["type"]] += 1
            self._apply(message)

    def _apply(self, message):
        kind, token, data = message["type"], message.get("tokenId"), message.get("data")
        if kind in ("subscribed", "unsubscribed"):
            return
        if kind == "heartbeat":
            assert message["seq"] == self.seq
            for each in message["checksums"]:
                assert each["checksum"] == self.checksum(each["tokenId"])
            return
        self.check_sequence(message)
        getattr(self, kind)(token, data)
        self.seq = message["seq"]
        self._check(self, message)

    def check_sequence(self, message):
        """Check that no event is missing or repeated."""
        if message["type"] == "orderbook":
            assert self.seq is None or message["seq"] >= self.seq
            self.has_gap = self.seq not in (None, message["seq"])
            if self.has_gap:
                assert not self._gapless
                self.orders.clear()  # their changes in the gap are unknown
            return
        assert self.seq is not None, "events before the first snapshot"
        self.has_gap = False
        # The second message of a reduction repeats its number, and so does the event in the
        # other book of a complementary market.
        token = message["tokenId"]
        same = message["type"] == "order_added" and self.reduced == message["seq"]
        again = self.last is not None and self.last[0] == message["seq"] and self.last[1] != token
        assert message["seq"] == self.seq + (not (same or again)), (message, self.seq)
        self.reduced = None
        if message["type"] == "order_removed" and message["data"]["reason"] == "reduced":
            self.reduced = message["seq"]
        self.last = message["seq"], token

    def orderbook(self, token, data):
        sides = enumerate((data["bids"], data["asks"]))
        self.levels[token] = {
            (side, level["price"]): [int(level["size"]), level["numOrders"]]
            for side, levels in sides
            for level in levels
        }
        assert all(level["orders"] == level["numOrders"] for level in data["bids"] + data["asks"])
        assert data["checksum"] == self.checksum(token)

    def order_added(self, token, data):
        self.change(token, data["side"], data["price"], int(data["size"]), 1)
        self.orders[token, data["orderId"]] = [data["side"], data["price"], int(data["size"])]

    def order_removed(self, token, data):
        self.change(token, data["side"], data["price"], -int(data["size"]), -1)
        known = self.orders.pop((token, data["orderId"]), None)
        assert known in (None, [data["side"], data["price"], int(data["size"])])

    def order_reduced(self, token, data):
        self.change(token, data["side"], data["price"], -int(data["reducedBy"]), 0)
        known = self.orders.get((token, data["orderId"]))
        if known is not None:
            known[2] -= int(data["reducedBy"])
            assert known == [data["side"], data["price"], int(data["size"])]

    def trade(self, token, data):
        self.trades.append(data)
        side = 1 - data["incomingSide"]
        self.change(token, side, data["price"], -int(data["size"]), 0)
        known = self.orders.get((token, data["restingOrderId"]))
        if known is not None:
            known[2] -= int(data["size"])
            assert known == [side, data["price"], int(data["restingRemaining"])]

    def change(self, token, side, price, size, count):
        """Change a level."""
        levels = self.levels.setdefault(token, {})  # without a snapshot the book is empty
        level = levels.setdefault((side, price), [0, 0])
        level[0] += size
        level[1] += count
        assert min(level) >= 0
        if level[1] == 0:
            assert level[0] == 0
            del levels[side, price]

    def checksum(self, token):
        """Return the checksum of a book, from its levels alone."""
        return checksum_of({place: size for place, (size, _) in self.levels.get(token, {}).items()})

    def book(self, token):
        """Return a book in the form of :func:`book_of`."""
        levels = self.levels.get(token, {})
        return {place: tuple(level) for place, level in levels.items()}


def checksum_of(sizes):
    """Return the checksum of a book, given as sizes by (side, price)."""
    bids, asks = (
        {price: size for (of, price), size in sizes.items() if of == side} for side in (0, 1)
    )
    lines = [f"{price}:{bids[price]}" for price in sorted(bids, reverse=True)]
    text = ",".join(lines) + "|" + ",".join(f"{price}:{asks[price]}" for price in sorted(asks))
    return zlib.crc32(text.encode())


def book_of(depth):
    """Return the engine's depth as (size, number of orders) by (side, price)."""
    sides = enumerate((depth.bids, depth.asks))
    return {
        (side, level.price): (level.size, level.num_orders)
        for side, levels in sides
        for level in levels
    }


def book_in(body):
    """Return a response of ``GET orderbook`` in the form of :func:`book_of`."""
    return {
        (side, level["price"]): (int(level["size"]), level["numOrders"])
        for side, name in enumerate(("bids", "asks"))
        for level in body[name]
    }
