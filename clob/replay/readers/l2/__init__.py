"""Makes orders of a feed that states only levels: how much there is at each price, and trades.

A source says how large a level has become, and what traded; of that come the commands of orders
that nobody has seen, each with ``Flag.SYNTHETIC``:

- What a level gains is a new order at its tail.
- What a level loses to a trade is taken from its head: an incoming ``IOC`` with its ``FILL``
  records. A trade and the loss it explains may be told of at different times, up to a window
  apart, in either order. What is told at the same time is taken together: a level that loses less
  than was traded has gained the difference.
- What a level loses otherwise was cancelled, by the rule that was chosen: ``"tail"`` takes the
  youngest orders first, ``"head"`` the oldest, ``"pro-rata"`` from each its share, and what the
  division leaves over, a lot each, from the youngest.
- A trade that took nothing of a level is a ``TRADE`` record, of no effect on the book. Its side is
  that of the resting order; 0 where the source does not say.

After each update the sizes of the orders add up to what the source says of each level. The one
exception is a level that crosses the other side: it is held back until it no longer does, and is a
problem once the window has passed.
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
    Telling,
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
"""How many events are given at a time, about."""


class Levels:
    """Turns what a source says of its levels into events, once.

    Args:
        lo: the lowest price of the grid, in ticks.
        hi: the highest price of the grid, in ticks.
        rule: whose order an unexplained loss is.
        window_ns: how far a trade and the loss it explains may be apart. Events are given that
            much later than the source is read, so memory holds the updates of one window.
        file: the file, for reports.
        problems: where levels that cross are reported, and what had to be concluded is remarked.

    Raises:
        ValueError: there is no such rule.
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
        """Go through all that the source says.

        Args:
            moments: what was said at once, by time; one that is earlier than that before it is
                taken to be of the same time.

        Yields:
            Arrays of ``EVENT``.

        Raises:
            ReplayFormatError: levels cross, and the policy is to raise.
        """
        waiting: deque[Telling] = deque()
        latest = -(2**63)
        for moment in moments:
            latest = max(latest, moment.ts_ns)
            waiting.append(self._pairing.hear(moment._replace(ts_ns=latest)))
            while waiting[0].moment.ts_ns + self._window_ns < latest:
                self._orders.play(waiting.popleft())
            if len(self._orders.out) >= BLOCK_ROWS:
                yield self._taken()
        for telling in waiting:
            self._orders.play(telling)
        self._orders.end()
        yield self._taken()

    def _taken(self) -> Records:
        """Give the events there are and begin anew."""
        events = np.array(self._orders.out, EVENT)
        self._orders.out.clear()
        return events
