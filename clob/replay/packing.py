"""Single records as bytes: NumPy takes twenty times as long to read or write a row or two."""

import struct
from typing import TypeAlias, cast

from clob.replay.driver import OwnFill

ONE_EVENT = struct.Struct("<qqQQqIiHBBH2x")
"""An ``EVENT``."""

ONE_FILL = struct.Struct("<QQQqi4xq")
"""A ``FILL``."""

RESTING = struct.Struct("<8xQ32x")
"""The resting order of a ``FILL`` and nothing else."""

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


def met_fills(
    fills: memoryview, first: int, end: int, instrument: int, own_id: int
) -> list[OwnFill]:
    """Find the resting own orders among some fills.

    Args:
        fills: the bytes of an array of ``FILL``.
        first: the index of the first to look at.
        end: the index behind the last.
        instrument: the book they are of.
        own_id: the least id of an own order.
    """
    own: list[OwnFill] = []
    size = ONE_FILL.size
    for place, (resting_id,) in enumerate(RESTING.iter_unpack(fills[first * size : end * size])):
        if resting_id >= own_id:
            row = ONE_FILL.unpack_from(fills, (first + place) * size)
            own.append(OwnFill(row[5], instrument, row[1], row[3], row[4], True, row[2]))
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
            own.append(OwnFill(ts_ns, instrument, resting_id, size, price, True, incoming_id))
        own.append(OwnFill(ts_ns, instrument, incoming_id, size, price, False, resting_id))
    return own
