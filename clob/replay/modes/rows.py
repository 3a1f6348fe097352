"""Single records as bytes: NumPy takes twenty times as long to read or write a row or two."""

import struct
from typing import TypeAlias, cast

from clob.replay.io.streams import OWN
from clob.replay.sim.orders import OwnFill, OwnOrder

ONE_EVENT = struct.Struct("<qqQQqIiHBBH2x")
"""An ``EVENT``."""

ONE_FILL = struct.Struct("<QQQqi4xq")
"""A ``FILL``."""

EVENT_OF = struct.Struct("<Q").unpack_from
"""Reads the event that a ``FILL`` is of."""

FillRow: TypeAlias = tuple[int, int, int, int, int, int]
"""A row of ``FILL``: event, resting id, incoming id, size, price, time."""


def fill_rows(fills: memoryview, first: int, end: int) -> list[FillRow]:
    """Read some fills.

    Args:
        fills: the bytes of an array of ``FILL``.
        first: the index of the first to read.
        end: the index behind the last.
    """
    size = ONE_FILL.size
    return cast("list[FillRow]", list(ONE_FILL.iter_unpack(fills[first * size : end * size])))


def last_rows(fills: memoryview, first: int, end: int, event: int) -> list[FillRow]:
    """Read the last of some fills, as far as they are of one event.

    Args:
        fills: the bytes of an array of ``FILL``.
        first: the index of the first that may be read.
        end: the index behind the last.
        event: the event.
    """
    start = end
    while start > first and EVENT_OF(fills, (start - 1) * ONE_FILL.size)[0] == event:
        start -= 1
    return fill_rows(fills, start, end)


WORDS = ONE_FILL.size // 8
"""Of how many numbers of 64 bits the memory of a ``FILL`` is: event, resting order, incoming one,
size, price in the lower half, time."""

UPPER = 1 << 32
"""What the upper half of a number of 64 bits counts in."""


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
    """Write an own event down.

    Args:
        words: the memory of an ``EVENT`` as numbers of 64 bits; the third is not written.
        ts_ns: its time.
        instrument: which book it is for.
        order_id: the own order.
        kind: a ``Kind``.
        side: 0 buy, 1 sell.
        price: in ticks.
        size: in lots.
        flags: bits of ``Flag``.
    """
    words[0] = words[1] = ts_ns
    words[3], words[4] = order_id, size
    words[5] = OWN + price * UPPER  # C does not say what a negative number shifted is
    words[6] = instrument | kind << 16 | side << 24 | flags << 32


def price_of(words: memoryview, start: int) -> int:
    """Read the price of a fill.

    Args:
        words: the memory of an array of ``FILL`` as numbers of 64 bits.
        start: where it begins.
    """
    # Of what stands above it nothing is known.
    price = words[start + 4] & (UPPER - 1)
    return price - UPPER if price >= UPPER // 2 else price


def met_fills(
    words: memoryview, first: int, end: int, instrument: int, own_id: int
) -> list[OwnFill]:
    """Find the resting own orders among some fills.

    Args:
        words: the memory of an array of ``FILL`` as numbers of 64 bits.
        first: the index of the first to look at.
        end: the index behind the last.
        instrument: the book they are of.
        own_id: the least id of an own order.
    """
    own: list[OwnFill] = []
    for place in range(first, end):
        start = place * WORDS
        if words[start + 1] >= own_id:
            fill = own_fill(words, start, instrument, True)
            own.append(fill)
    return own


def came_fills(
    words: memoryview, first: int, end: int, instrument: int, own_id: int
) -> list[OwnFill]:
    """Give the fills of an own order that came in; of another one it met is told first.

    Args:
        words: the memory of an array of ``FILL`` as numbers of 64 bits.
        first: the index of its first.
        end: the index behind the last.
        instrument: the book they are of.
        own_id: the least id of an own order.
    """
    own: list[OwnFill] = []
    for place in range(first, end):
        start = place * WORDS
        if words[start + 1] >= own_id:
            own.append(own_fill(words, start, instrument, True))
        own.append(own_fill(words, start, instrument, False))
    return own


def own_fill(words: memoryview, start: int, instrument: int, resting: bool) -> OwnFill:
    """Read a fill of an own order, which is the resting one or the incoming one of it."""
    # Called as such, a compiled class gets its numbers as objects and takes them apart again.
    fill = OwnFill.__new__(OwnFill)
    fill.ts_ns, fill.instrument, fill.resting = words[start + 5], instrument, resting
    fill.order_id, fill.other_id = words[start + 2 - resting], words[start + 1 + resting]
    fill.size, fill.price = words[start + 3], price_of(words, start)
    return fill


# ----- tables --------------------------------------------------------------------------------


def write_orders(words: memoryview, orders: list[OwnOrder]) -> None:
    """Write own orders down, in the sequence of their table.

    Args:
        words: eleven numbers of 64 bits for each order.
        orders: the orders.
    """
    at = 0
    for order in orders:
        words[at], words[at + 1] = order.id, order.leg.instrument
        words[at + 2], words[at + 3] = order.side, order.state
        words[at + 4], words[at + 5] = order.price, order.size
        words[at + 6], words[at + 7] = order.filled, order.ahead
        words[at + 8], words[at + 9] = order.sent_ns, order.arrived_ns
        words[at + 10] = order.done_ns
        at += 11


def write_fills(words: memoryview, fills: list[OwnFill]) -> None:
    """Write fills of own orders down, in the sequence of their table.

    Args:
        words: seven numbers of 64 bits for each fill.
        fills: the fills.
    """
    at = 0
    for fill in fills:
        words[at], words[at + 1] = fill.ts_ns, fill.order_id
        words[at + 2], words[at + 3] = fill.other_id, fill.size
        words[at + 4], words[at + 5] = fill.price, fill.instrument
        words[at + 6] = fill.resting
        at += 7


# MERGED clob.replay.modes.rows: Writes own events and tables, and finds the fills of own orders; see ``_packing_c.pxd``.
