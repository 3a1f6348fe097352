"""What the scheduler of a strategy asks of whoever executes the recorded flow.

The driver owns the books and knows the recorded events; the scheduler knows when the strategy
wakes and when its orders arrive. No array crosses between them.
"""

import enum
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from clob.book import Book

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay.sim.orders import OwnFill
else:
    try:
        from clob.replay.sim.orders import OwnFill
    except ImportError:
        from clob.replay.sim.orders import OwnFill

__all__ = ["NEVER", "Driver", "OwnFill", "Stop"]

NEVER = 2**63 - 1
"""A time that no event is later than, in ns."""


class Stop(enum.IntEnum):
    """How far the driver may go at once."""

    NO = 0
    """To the time asked for."""
    FILL = 1
    """To the first event that fills an own order."""
    BOOK = 2
    """To the first event that fills an own order or changes a best price or its size."""


class Driver(Protocol):
    """Executes recorded flow up to a time, and own orders in the midst of it."""

    books: Mapping[int, Book]
    """The books by their instrument."""
    lot_wei: int
    """What a size of 1 stands for, in wei."""
    start_ns: int
    """The time of the first event that is no seed. The seeds are executed already."""
    last_ns: int
    """The latest time of all events executed; ``start_ns`` before the first."""
    ended: bool
    """Whether no recorded event is left; exact, however the events come in."""
    changed: int
    """The instrument whose best prices made the last ``advance`` stop, or -1."""

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute the recorded events up to a time, that time included.

        Args:
            until_ns: the time.
            stop: what ends it earlier. Then no event that comes later in the recorded order was
                executed in any book.

        Returns:
            The own fills that came of it, in order of time and, at one time, of the stream.
            An answer without fills and without ``changed`` means that the time was reached or
            the stream has ended.
        """
        ...

    def submit(
        self,
        ts_ns: int,
        instrument: int,
        order_id: int,
        kind: int,
        side: int,
        price: int,
        size: int,
        flags: int,
    ) -> tuple[int, int, list[OwnFill]]:
        """Let an own order come in now.

        Args:
            ts_ns: the time, not before that of any event executed.
            instrument: which book.
            order_id: a new one, from ``OWN_ID`` on.
            kind: ``Kind.LIMIT`` or ``Kind.IOC``.
            side: 0 buy, 1 sell.
            price: in ticks, on the grid.
            size: in lots, 1 or more.
            flags: bits of ``Flag``, the self-trade policy among them.

        Returns:
            The number of the refusal, 0 if there was none; how many lots rest afterwards; the
            fills, the order being the incoming one.
        """
        ...

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Take an own order out now.

        Args:
            ts_ns: as in :meth:`submit`.
            instrument: which book.
            order_id: the order.

        Returns:
            Whether it still rested.
        """
        ...
