"""The interface between a strategy's session and the code that executes recorded flow.

A driver owns the books and the recorded events. The session decides when the strategy is called
and when its orders arrive. No array crosses this interface.
"""

import enum
from collections.abc import Mapping
from typing import Protocol

from clob.book import Book
from clob.replay.sim.orders import OwnFill

NEVER = 2**63 - 1
"""A time after every event, in ns."""


class Stop(enum.IntEnum):
    """Where :meth:`Driver.advance` may stop early."""

    NO = 0
    """Nowhere: go on to the requested time."""
    FILL = 1
    """After the first event that fills an own order."""
    BOOK = 2
    """After the first event that fills an own order, or changes a best price or the size at one."""


class Driver(Protocol):
    """Executes recorded events up to a time, and own orders between them."""

    books: Mapping[int, Book]
    """The books by instrument, as the strategy sees them."""
    history: Mapping[int, Book]
    """The books in which the recorded flow is executed: ``books``, or books without own orders."""
    lot_wei: int
    """Wei in one lot."""
    start_ns: int
    """Time of the first event that is not a seed. The seeds are executed on construction."""
    last_ns: int
    """Latest time of the executed events; ``start_ns`` before the first."""
    ended: bool
    """Whether all recorded events were executed; does not depend on the chunk size."""
    changed: int
    """The instrument whose best prices stopped the last ``advance``, or -1."""

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute the recorded events up to and including a time.

        Args:
            until_ns: the time.
            stop: where to stop early. Events that were recorded after the stopping event are then
                not executed in any book.

        Returns:
            The resulting own fills, by time and then by position in the stream. No fills and no
            ``changed`` mean that the time was reached or the stream has ended.
        """
        ...

    def last_price(self, instrument: int, /) -> int | None:
        """Return the price of the last trade in a book, in ticks; None without a trade.

        Args:
            instrument: the book.
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
        /,
    ) -> tuple[int, int, list[OwnFill]]:
        """Execute a new own order now.

        Args:
            ts_ns: the time, not before any executed event.
            instrument: the book.
            order_id: a new id, ``OWN_ID`` or above.
            kind: ``Kind.LIMIT`` or ``Kind.IOC``.
            side: 0 buy, 1 sell.
            price: in ticks, on the grid.
            size: in lots, 1 or more.
            flags: bits of ``Flag``, including the self-trade policy.

        Returns:
            The number of the rejection or 0; the lots ahead of the order in its queue, or -1 if it
            does not rest; the fills of the order and of own orders that it met.
        """
        ...

    def cancel(self, ts_ns: int, instrument: int, order_id: int) -> bool:
        """Cancel an own order now.

        Args:
            ts_ns: as in :meth:`submit`.
            instrument: the book.
            order_id: the order.

        Returns:
            Whether the order was still resting.
        """
        ...
