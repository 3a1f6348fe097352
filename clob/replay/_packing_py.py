"""Writes own events, and finds the fills of own orders; compiled with ``_packing_c.pxd``."""

from clob.replay.driver import OwnFill
from clob.replay.packing import ONE_FILL, fill_rows
from clob.replay.streams import OWN

WORDS = ONE_FILL.size // 8
"""Of how many numbers of 64 bits the memory of a ``FILL`` is; the second is the resting order."""

FILL_SIZE = ONE_FILL.size

UPPER = 1 << 32
"""What the upper half of a number of 64 bits counts in."""

# The class called as such makes a named tuple in Python, and takes three times as long.
new = tuple.__new__


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


def met_fills(
    fills: memoryview, words: memoryview, first: int, end: int, instrument: int, own_id: int
) -> list[OwnFill]:
    """Find the resting own orders among some fills.

    Args:
        fills: the bytes of an array of ``FILL``.
        words: the same memory as numbers of 64 bits.
        first: the index of the first to look at.
        end: the index behind the last.
        instrument: the book they are of.
        own_id: the least id of an own order.
    """
    own: list[OwnFill] = []
    for place in range(first, end):
        if words[place * WORDS + 1] >= own_id:
            _, resting_id, other_id, size, price, ts_ns = ONE_FILL.unpack_from(
                fills, place * FILL_SIZE
            )
            own.append(new(OwnFill, (ts_ns, instrument, resting_id, size, price, True, other_id)))
    return own


def came_fills(
    fills: memoryview, first: int, end: int, instrument: int, own_id: int
) -> list[OwnFill]:
    """Give the fills of an own order that came in; of another one it met is told first.

    Args:
        fills: the bytes of an array of ``FILL``.
        first: the index of its first.
        end: the index behind the last.
        instrument: the book they are of.
        own_id: the least id of an own order.
    """
    own: list[OwnFill] = []
    for _, resting_id, incoming_id, size, price, ts_ns in fill_rows(fills, first, end):
        if resting_id >= own_id:
            own.append(
                new(OwnFill, (ts_ns, instrument, resting_id, size, price, True, incoming_id))
            )
        own.append(new(OwnFill, (ts_ns, instrument, incoming_id, size, price, False, resting_id)))
    return own
