"""Builds orders from a feed of levels: the size at each price, and trades.

A source states the new size of a level, and trades. The reader derives commands of orders that are
not in the source, each with ``Flag.SYNTHETIC``:

- An increase of a level is a new order at its tail.
- A decrease by a trade is taken from the head: an incoming ``IOC`` with its ``FILL`` records. A
  trade and its decrease may be reported in either order, up to a window apart. Within one moment
  they are combined: a level that lost less than was traded has also gained the difference.
- Any other decrease is a cancel, by the chosen rule: ``"tail"`` takes the youngest orders first,
  ``"head"`` the oldest, ``"pro-rata"`` a share of each order, with the remainder of the division
  taken from the youngest, one lot each.
- A trade without a decrease is a ``TRADE`` record, which does not change the book. Its side is that
  of the resting order; 0 if the source does not state it.

After each update the orders add up to the stated size of each level, with one exception: a level
that crosses the other side is held back until it no longer crosses, and is reported as a problem
after the window.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from clob.records import EVENT
from clob.replay.io.files import FilePath
from clob.replay.io.problems import Problems
from clob.replay.io.recording import Records
from clob.replay.readers.l2.orders import LevelOrders, LevelRule
from clob.replay.readers.l2.trades import (
    LevelBest,
    LevelTrade,
    LevelUpdate,
    Moment,
    PairedMoment,
    TradePairing,
)

__all__ = [
    "LevelBest",
    "LevelRule",
    "LevelTrade",
    "LevelUpdate",
    "Levels",
    "Moment",
]

BLOCK_ROWS = 1 << 14
"""Approximate number of events per block."""


class Levels:
    """Converts the moments of one reading to events.

    Args:
        lo: the lowest price of the grid, in ticks.
        hi: the highest price of the grid, in ticks.
        rule: which orders are cancelled when a level shrinks without a trade.
        window_ns: maximum time between a trade and the decrease it explains. Events are delayed by
            this time, so memory holds the updates of one window.
        file: the file, for reports.
        problems: receives crossed levels and remarks on conclusions.

    Raises:
        ValueError: the rule is unknown.
    """

    def __init__(
        self,
        *,
        lo: int,
        hi: int,
        rule: LevelRule = "tail",
        window_ns: int = 0,
        file: FilePath = "",
        problems: Problems | None = None,
    ) -> None:
        self._window_ns = window_ns
        self._pairing = TradePairing(lo, hi, window_ns)
        self._orders = LevelOrders(
            lo, hi, rule, window_ns, file, problems if problems is not None else Problems()
        )

    def events(self, moments: Iterable[Moment]) -> Iterator[Records]:
        """Convert all moments.

        Args:
            moments: in order of time; the time of an earlier one is raised to that before it.

        Yields:
            Arrays of ``EVENT``.

        Raises:
            ReplayFormatError: levels cross and the policy is ``"raise"``.
        """
        waiting: deque[PairedMoment] = deque()
        latest = -(2**63)
        for moment in moments:
            latest = max(latest, moment.ts_ns)
            waiting.append(self._pairing.add(moment._replace(ts_ns=latest)))
            while waiting[0].moment.ts_ns + self._window_ns < latest:
                self._orders.apply(waiting.popleft())
            if len(self._orders.out) >= BLOCK_ROWS:
                yield self._flush()
        for paired in waiting:
            self._orders.apply(paired)
        self._orders.end()
        yield self._flush()

    def _flush(self) -> Records:
        """Return the pending events and start a new block."""
        events = np.array(self._orders.out, EVENT)
        self._orders.out.clear()
        return events
