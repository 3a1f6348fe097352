"""Shared by the tests: both books, short constructors of commands, and events as lines of text."""

import contextlib
import importlib
import importlib.util

import numpy as np
import pytest

from clob import (
    Level,
    MatchType,
    Order,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    RejectedError,
    RemovalReason,
    Side,
    Trade,
)
from clob.records import EVENT, SELF_TRADE_SHIFT, Kind

BOOKS = {"python": "clob.book._book_py", "compiled": "clob.book._book_c"}
"""The modules with a Book, by their names in the tests."""

SECOND_NS = 1_000_000_000


def load(name):
    """Return one of the books; skip the test if it is not built."""
    if importlib.util.find_spec(BOOKS[name]) is None:
        pytest.skip(f"the {name} Book is not built")
    return importlib.import_module(BOOKS[name]).Book


# ----- orders --------------------------------------------------------------------------------


def buy(order_id, price, size, **fields):
    """Return a buy order."""
    return _order(order_id, Side.BUY, price, size, fields)


def sell(order_id, price, size, **fields):
    """Return a sell order."""
    return _order(order_id, Side.SELL, price, size, fields)


def _order(order_id, side, price, size, fields):
    defaults = {"token": "", "maker": f"maker of {order_id}"}
    return Order(id=order_id, side=side, price=price, size=size, **(defaults | fields))


def fill_book(book, *orders):
    """Submit orders that must not trade; return the book."""
    for order in orders:
        (added,) = book.submit(order)
        assert type(added) is OrderAdded
    return book


# ----- records -------------------------------------------------------------------------------


def row(kind, order_id=0, side=0, price=0, size=0, *, flags=0, policy=0, **fields):
    """Return the fields of one event; ``policy`` is written into its flags."""
    flags |= policy << SELF_TRADE_SHIFT
    named = {"order_id": order_id, "side": side, "price": price, "size": size, "flags": flags}
    return {"kind": kind, **named, **fields}


def batch(*rows):
    """Return rows as an array of ``EVENT``."""
    events = np.zeros(len(rows), EVENT)
    for index, fields in enumerate(rows):
        for name, value in fields.items():
            events[name][index] = value
    return events


def bid(order_id, price, size, **fields):
    """Return a ``LIMIT`` buy event."""
    return row(Kind.LIMIT, order_id, 0, price, size, **fields)


def ask(order_id, price, size, **fields):
    """Return a ``LIMIT`` sell event."""
    return row(Kind.LIMIT, order_id, 1, price, size, **fields)


def fills_of(fills):
    """Return fills as tuples of event, resting id, incoming id, size and price."""
    return fills[["event", "resting_id", "incoming_id", "size", "price"]].tolist()


# ----- events and rejections -----------------------------------------------------------------


def event_lines(events, size=str):
    """Return events as lines: ``trade a c 60 @ 50``, ``removed a filled``, ``added c 40``."""
    return [_line(event, size) for event in events]


def depth_lines(depth, size):
    """Return both sides of a book as lines, the highest price first: ``ask 52 40 1``."""
    named = [("ask", level) for level in reversed(depth.asks)]
    named += [("bid", level) for level in depth.bids]
    return [f"{side} {v.price} {size(v.size)} {v.num_orders}" for side, v in named]


def _line(event, size):
    match event:
        case OrderAdded():
            return f"added {event.order_id} {size(event.remaining)}"
        case Trade():
            word = "trade" if event.match_type is MatchType.DIRECT else event.match_type.value
            parties = f"{event.resting_order_id} {event.incoming_order_id}"
            return f"{word} {parties} {size(event.size)} @ {event.price}"
        case OrderReduced():
            return f"reduced {event.order_id} {size(event.remaining)}"
        case OrderRemoved(reason=RemovalReason.FILLED):
            assert event.remaining == 0
            return f"removed {event.order_id} filled"
        case OrderRemoved():
            return f"removed {event.order_id} {event.reason.value} {size(event.remaining)}"
    raise AssertionError(f"not an event: {event!r}")


class Ledger:
    """Rebuilds a book from its events, and checks that they are consistent."""

    def __init__(self):
        self.seq = 0
        self.resting = {}

    def apply(self, events):
        """Apply the events of one command."""
        for event in events:
            self.seq += 1
            assert event.seq == self.seq, "a gap in seq"
            self._apply(event)
        assert all(left for _, _, left in self.resting.values()), "a filled order was not removed"

    def _apply(self, event):
        if isinstance(event, OrderAdded):
            assert event.order_id not in self.resting
            self.resting[event.order_id] = (event.side, event.price, event.remaining)
            return
        order_id = event.resting_order_id if isinstance(event, Trade) else event.order_id
        side, price, left = self.resting[order_id]
        match event:
            case Trade():
                assert (event.incoming_side, event.price) == (1 - side, price)
                assert event.resting_remaining == left - event.size
                self.resting[order_id] = (side, price, event.resting_remaining)
            case OrderReduced():
                assert 0 < event.remaining < left
                self.resting[order_id] = (side, price, event.remaining)
            case OrderRemoved():
                assert event.remaining == left
                del self.resting[order_id]

    def levels(self, side):
        """Return one side as ``Book.depth`` does."""
        prices = {p for s, p, _ in self.resting.values() if s is side}
        sizes = {
            price: [left for s, p, left in self.resting.values() if (s, p) == (side, price)]
            for price in sorted(prices, reverse=side is Side.BUY)
        }
        return tuple(Level(price, sum(left), len(left)) for price, left in sizes.items())

    def agrees(self, book):
        """Return whether the book matches its events."""
        depth = book.depth()
        sides = (self.levels(Side.BUY), self.levels(Side.SELL))
        return (depth.seq, depth.bids, depth.asks) == (self.seq, *sides)


@contextlib.contextmanager
def rejected(book, error, *words):
    """Expect exactly this rejection, with the words in its message and the book unchanged."""
    before = book.state_hash()
    with pytest.raises(RejectedError) as caught:
        yield
    assert type(caught.value) is error
    for word in words:
        assert str(word) in str(caught.value)
    assert book.state_hash() == before
    book.check()
