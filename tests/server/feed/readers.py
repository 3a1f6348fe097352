"""Clients that keep books of their own, made of nothing but what the stream tells them."""

from collections import Counter


class BookReader:
    """The books of one market: aggregated, as a snapshot has them, and order by order if all of
    them were seen to come in.

    Args:
        check: is called with the reader and a message that was taken in, to compare what it has.
        gapless: if no event may be missing between two messages, nor a snapshot come later.
    """

    def __init__(self, check=lambda reader, message: None, *, gapless=True):
        self.levels = {}
        """By token: wei and number of orders, by side and price."""
        self.orders = {}
        """By token and id: side, price and wei."""
        self.seq = None
        self.trades = []
        self.counts = Counter()
        self.has_jumped = False
        """If something was left out before the message that came last."""
        self.reduced = None
        """Between the two messages of a reduction its number."""
        self.last = None
        """The number and the token of the last event, until a snapshot comes."""
        self._check, self._gapless = check, gapless

    def take(self, messages):
        """Take messages in."""
        for message in messages:
            self.counts[message["type"]] += 1
            self.one(message)

    def one(self, message):
        """Take one message in."""
        kind, token, data = message["type"], message.get("tokenId"), message.get("data")
        if kind in ("subscribed", "unsubscribed"):
            return
        if kind == "heartbeat":
            assert message["seq"] == self.seq
            return
        self.follow(message)
        getattr(self, kind)(token, data)
        self.seq = message["seq"]
        self._check(self, message)

    def follow(self, message):
        """Insist that nothing is missing, and nothing told twice."""
        if message["type"] == "orderbook":
            assert self.seq is None or message["seq"] >= self.seq
            self.has_jumped = self.seq not in (None, message["seq"])
            if self.has_jumped:
                assert not self._gapless
                self.orders.clear()  # nothing was told of what happened to them meanwhile
            return
        assert self.seq is not None, "events come after a snapshot"
        self.has_jumped = False
        # The second half of a reduction has the number of the first; and where orders for both
        # tokens meet, what happens in the one book is told of the other, too.
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
        levels = self.levels.setdefault(token, {})  # a book of which no snapshot came is empty
        level = levels.setdefault((side, price), [0, 0])
        level[0] += size
        level[1] += count
        assert min(level) >= 0
        if level[1] == 0:
            assert level[0] == 0
            del levels[side, price]

    def book(self, token):
        """Give a book as :func:`book_of` does."""
        levels = self.levels.get(token, {})
        return {place: tuple(level) for place, level in levels.items()}


def book_of(depth):
    """Give a picture of the engine's as wei and number of orders, by side and price."""
    sides = enumerate((depth.bids, depth.asks))
    return {
        (side, level.price): (level.size, level.num_orders)
        for side, levels in sides
        for level in levels
    }


def book_in(body):
    """Give the answer of ``GET orderbook`` in the same way."""
    return {
        (side, level["price"]): (int(level["size"]), level["numOrders"])
        for side, name in enumerate(("bids", "asks"))
        for level in body[name]
    }
