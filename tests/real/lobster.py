"""Reads recorded messages of a stock exchange as events, and the recorded book beside them.

The messages say what happened to each order: added, reduced, deleted, executed. An executed order
is read as an incoming order of the other side that must meet it, so that the queue decides.
"""

import enum
from collections import Counter
from typing import NamedTuple

import numpy as np

from clob.records import EVENT, Kind

TICK = 100
"""The file's prices are dollars times 10,000; one cent is one tick of ours."""

LO, HI = 47_700, 69_895
"""The lowest and the highest price of the hour, in cents."""

ANONYMOUS = 2**40
"""Ids from here on are of orders that stand in the first picture and are never named."""


class Did(enum.IntEnum):
    """What a message says was done."""

    ADD = 1
    REDUCE = 2
    DELETE = 3
    EXECUTE = 4
    HIDDEN = 5
    """A hidden order traded; it was never in the book, so nothing changes."""


class Message(NamedTuple):
    """One line of the messages, prices in cents."""

    time: str
    kind: int
    order_id: int
    size: int
    price: int
    side: int


def read_messages(path):
    """Read a message file: time, kind, id, size, price, direction (1 is a resting buy order)."""
    with path.open(encoding="ascii") as file:
        return [_message(*line.strip().split(",")) for line in file]


def _message(time, kind, order_id, size, price, direction):
    side = 0 if direction == "1" else 1
    return Message(time, int(kind), int(order_id), int(size), int(price) // TICK, side)


def read_books(path):
    """Read a book file: in each line ask price, ask size, bid price, bid size, best first.

    Gives, for each line, its levels as pairs of price and size: a list of bids, a list of asks.
    """
    with path.open(encoding="ascii") as file:
        return [_levels([int(value) for value in line.split(",")]) for line in file]


def _levels(row):
    asks, bids = zip(row[0::4], row[1::4], strict=True), zip(row[2::4], row[3::4], strict=True)
    return [[(price // TICK, size) for price, size in side] for side in (bids, asks)]


def places(some, among):
    """Find where each of some messages stands among more of them, both in order of time."""
    found, start = [], 0
    for message in some:
        found.append(among.index(message, start))
        start = found[-1] + 1
    return found


def seed_of(messages, first_book):
    """Give the orders that rested before the first message, as ``SEED`` events.

    Args:
        messages: all messages there are, the first of them an addition.
        first_book: the recorded levels after the first message.

    The recorded levels say how much rested at each price, but not whose orders. Orders of before
    show when they are mentioned later, and then all that is taken off them is their size. What
    remains of a level is one order without a name, the oldest of its level.
    """
    old = orders_of_before(messages)
    named = Counter()
    for _, side, price, size in old:
        named[side, price] += size
    named[messages[0].side, messages[0].price] += messages[0].size
    nameless = [
        (ANONYMOUS + 1_000 * side + place, side, price, size - named[side, price])
        for side, levels in enumerate(first_book)
        for place, (price, size) in enumerate(levels)
        if size > named[side, price]
    ]
    return _events([(Kind.SEED, *order) for order in nameless + old])


def orders_of_before(messages):
    """Find the orders that are mentioned and were never added: id, side, price, size, by id."""
    added, old = set(), {}
    for _, kind, order_id, size, price, side in messages:
        if kind == Did.ADD:
            added.add(order_id)
        elif kind != Did.HIDDEN and order_id not in added:
            _, _, _, before = old.get(order_id, (0, 0, 0, 0))
            old[order_id] = (order_id, side, price, before + size)
    return sorted(old.values())


def events_of(messages):
    """Turn messages into events, one each; a reduction says how much goes, ours what remains."""
    left = Counter({order_id: size for order_id, _, _, size in orders_of_before(messages)})
    rows = []
    for _, kind, order_id, size, price, side in messages:
        left[order_id] += size if kind == Did.ADD else -size
        match kind:
            case Did.ADD:
                rows.append((Kind.LIMIT, order_id, side, price, size))
            case Did.REDUCE:
                rows.append((Kind.REDUCE, order_id, side, price, left[order_id]))
            case Did.DELETE:
                rows.append((Kind.CANCEL, order_id, side, price, 0))
            case Did.EXECUTE:
                rows.append((Kind.IOC, order_id, 1 - side, price, size))
            case Did.HIDDEN:
                rows.append((Kind.TRADE, order_id, side, price, size))
    return _events(rows)


def _events(rows):
    columns = list(zip(*rows, strict=True))
    events = np.zeros(len(columns[0]), EVENT)
    for name, column in zip(("kind", "order_id", "side", "price", "size"), columns, strict=True):
        events[name] = column
    return events
