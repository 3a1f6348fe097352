"""Single records as bytes: NumPy takes twenty times as long to read or write a row or two."""

import struct
from typing import TypeAlias, cast

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
