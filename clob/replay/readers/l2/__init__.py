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
- A trade at a price behind the best, which no incoming order can reach, is a ``TRADE`` record; its
  decrease is taken from the head without a fill.
- A trade without a decrease is a ``TRADE`` record, which does not change the book. Its side is that
  of the resting order; 0 if the source does not state it.

The fills are conclusions of the reader, not records of the venue: ``Stream.inferred`` says so.

After each update the orders add up to the stated size of each level, with one exception: a level
that crosses the other side is held back until it no longer crosses, and is reported as a problem
after the window.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Unpack

from clob.replay.io.files import FilePath, Progress
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Stream
from clob.replay.readers import StreamOptions, file_stream
from clob.replay.readers.l2.orders import LevelRule, Levels
from clob.replay.readers.l2.trades import LevelBest, LevelTrade, LevelUpdate, Moment

__all__ = [
    "LevelBest",
    "LevelRule",
    "LevelTrade",
    "LevelUpdate",
    "Levels",
    "Moment",
    "level_stream",
]


def level_stream(
    path: FilePath,
    moments: Callable[[Problems, Progress], Iterable[Moment]],
    *,
    rule: LevelRule,
    on_problem: Policy,
    window_ns: int = 0,
    **options: Unpack[StreamOptions],
) -> Stream:
    """Make the stream of a file of levels; ``moments`` is called at the start of each reading.

    Raises:
        ValueError: the rule is unknown.
    """
    lo, hi = options["lo"], options["hi"]
    Levels(lo=lo, hi=hi, rule=rule)  # checks the rule before the first reading

    def read(problems: Problems, progress: Progress) -> Iterator[Records]:
        levels = Levels(lo=lo, hi=hi, rule=rule, window_ns=window_ns, file=path, problems=problems)
        return levels.events(moments(problems, progress))

    return file_stream(path, read, on_problem, inferred=True, **options)
