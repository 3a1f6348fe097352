"""Reads and writes single records as bytes: NumPy takes twenty times as long for a row or two."""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from clob.replay.io.streams import OWN
from clob.replay.sim.market_view import OwnOrder
from clob.replay.sim.orders import OwnFill

FILL_STRUCT = struct.Struct("<QQQqi4xq")
"""The layout of a ``FILL``."""

read_event: Callable[..., tuple[Any, ...]] = struct.Struct("<Q").unpack_from
"""Reads the event index of a ``FILL``."""

FillRow: TypeAlias = tuple[int, int, int, int, int, int]
"""A row of ``FILL``: event, resting id, incoming id, size, price, time."""


def fill_rows(fills: memoryview, first: int, end: int) -> list[FillRow]:
    """Read the fills from an index to another, from the bytes of an array of ``FILL``."""
    size = FILL_STRUCT.size
    return cast("list[FillRow]", list(FILL_STRUCT.iter_unpack(fills[first * size : end * size])))


def last_rows(fills: memoryview, first: int, end: int, event: int) -> list[FillRow]:
    """Read the fills of an event at the end of a range of fills; see :func:`fill_rows`."""
    start = end
    while start > first and read_event(fills, (start - 1) * FILL_STRUCT.size)[0] == event:
        start -= 1
    return fill_rows(fills, start, end)


FILL_WORDS = FILL_STRUCT.size // 8
"""64-bit words in a ``FILL``: event, resting order, incoming order, size, price (lower half),
time."""

UPPER = 1 << 32
"""Factor of the upper half of a 64-bit word."""


def write_event(
    words: memoryview,
    ts_ns: int,
    instrument: int,
    order_id: int,
    kind: int,
    side: int,
    price: int,
    size: int,
    flags: int,
) -> None:
    """Write an own event to an ``EVENT`` as 64-bit words; the third word is not written."""
    words[0] = words[1] = ts_ns
    words[3], words[4] = order_id, size
    words[5] = OWN + price * UPPER  # in C, shifting a negative number is undefined
    words[6] = instrument | kind << 16 | side << 24 | flags << 32


def price_of(words: memoryview, start: int) -> int:
    """Read the price of the fill whose first word has an index."""
    # The upper half is padding with any content.
    price = words[start + 4] & (UPPER - 1)
    return price - UPPER if price >= UPPER // 2 else price


def own_fills(
    words: memoryview, first: int, end: int, instrument: int, own_id: int, incoming: bool
) -> list[OwnFill]:
    """Return the fills of own orders in a range of fills of one book.

    Args:
        words: the memory of an array of ``FILL`` as 64-bit words.
        first: index of the first fill.
        end: index after the last fill.
        instrument: the book.
        own_id: the lowest id of an own order.
        incoming: whether the incoming order is an own order; a resting own order that it met
            precedes it.
    """
    own: list[OwnFill] = []
    for place in range(first, end):
        start = place * FILL_WORDS
        if words[start + 1] >= own_id:
            own.append(own_fill(words, start, instrument, True))
        if incoming:
            own.append(own_fill(words, start, instrument, False))
    return own


def own_fill(words: memoryview, start: int, instrument: int, resting: bool) -> OwnFill:
    """Read a fill as one of its resting or its incoming order."""
    # The constructor of a compiled class would box and unbox the numbers.
    fill = OwnFill.__new__(OwnFill)
    fill.ts_ns, fill.instrument, fill.resting = words[start + 5], instrument, resting
    fill.order_id, fill.other_id = words[start + 2 - resting], words[start + 1 + resting]
    fill.size, fill.price = words[start + 3], price_of(words, start)
    return fill


def tag_fills(words: memoryview, first: int, end: int, instrument: int) -> int:
    """Write the instrument into a range of fills of one book; return the price of the last.

    The instrument is in the padding behind the price, where ``FILLS`` of
    :mod:`clob.replay.results` has a field for it.
    """
    upper = instrument * UPPER
    for place in range(first, end):
        at = place * FILL_WORDS + 4
        words[at] = (words[at] & (UPPER - 1)) + upper
    return price_of(words, (end - 1) * FILL_WORDS)


# ----- tables --------------------------------------------------------------------------------


def write_orders(words: memoryview, orders: list[OwnOrder]) -> None:
    """Write own orders as rows of their table, of eleven 64-bit words each."""
    at = 0
    for order in orders:
        words[at], words[at + 1] = order.id, order.outcome.instrument
        words[at + 2], words[at + 3] = order.side, order.state
        words[at + 4], words[at + 5] = order.price, order.size
        words[at + 6], words[at + 7] = order.filled, order.ahead
        words[at + 8], words[at + 9] = order.sent_ns, order.arrived_ns
        words[at + 10] = order.done_ns
        at += 11


def write_fills(words: memoryview, fills: list[OwnFill]) -> None:
    """Write fills of own orders as rows of their table, of seven 64-bit words each."""
    at = 0
    for fill in fills:
        words[at], words[at + 1] = fill.ts_ns, fill.order_id
        words[at + 2], words[at + 3] = fill.other_id, fill.size
        words[at + 4], words[at + 5] = fill.price, fill.instrument
        words[at + 6] = fill.resting
        at += 7
