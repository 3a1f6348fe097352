"""Sums up how fills differ from the recorded ones; compiled with ``_comparing_c.pxd``."""

from clob.replay.io.chunk import RECORDED, Played
from clob.replay.io.repair import Filled
from clob.replay.io.streams import OWN_ID


class Sides:
    """Commands of a chunk that brought other fills than recorded, and what both sides are.

    Args:
        played: the chunk; what it holds must not change meanwhile.
        most: of how many commands to keep the fills.
    """

    def __init__(self, played: Played, most: int) -> None:
        events, fills = played.events, played.fills
        self.failed: int = 0
        """How many of the commands traded in history."""
        self.missed: int = 0
        """How many of the recorded fills did not come of their command."""
        self.surplus: int = 0
        """How many more fills there were than recorded."""
        self.kept: list[tuple[int, list[Filled], list[Filled]]] = []
        """The first of the commands: index in the chunk, what came, what was recorded."""
        self._most = most
        self._base = played.base
        self._count, self._end = len(events), len(fills)
        self._kinds: memoryview = played.kinds.data
        self._ids: memoryview = events["order_id"].data
        self._sizes: memoryview = events["size"].data
        self._prices: memoryview = events["price"].data
        self._commands: memoryview = fills["event"].data
        self._resting: memoryview = fills["resting_id"].data
        self._incoming: memoryview = fills["incoming_id"].data
        self._lots: memoryview = fills["size"].data
        self._ticks: memoryview = fills["price"].data

    def take(self, places: list[int]) -> None:
        """Take commands in.

        Args:
            places: their indices in the chunk, in order.
        """
        stop = 0
        for place in places:
            behind = place + 1
            while behind < self._count and self._kinds[behind] == RECORDED:
                behind += 1
            command = self._base + place
            first = stop
            while first < self._end and self._commands[first] < command:
                first += 1
            # An own order that came in right before the command has fills of its number, too.
            while first < self._end and self._is_own(first, command):
                first += 1
            stop = first
            while stop < self._end and self._commands[stop] == command:
                stop += 1
            self._count_in(place + 1, behind, first, stop)
            if len(self.kept) < self._most:
                self._keep(place, behind, first, stop)

    def _is_own(self, fill: int, command: int) -> bool:
        """Tell whether a fill is of an own order that came in right before a command."""
        return self._commands[fill] == command and self._incoming[fill] >= OWN_ID

    def _count_in(self, begin: int, behind: int, first: int, stop: int) -> None:
        """Count what both sides have of a command.

        Args:
            begin: the first of the recorded fills.
            behind: the event behind the last of them.
            first: the first fill that came.
            stop: the one behind the last.
        """
        shared, record = 0, begin
        for fill in range(first, stop):
            # No command meets an order twice. What both have, both mostly have in one order.
            for _ in range(begin, behind):
                if record == behind:
                    record = begin
                record += 1
                if self._equal(record - 1, fill):
                    shared += 1
                    break
        self.failed += behind > begin
        self.missed += behind - begin - shared
        self.surplus += stop - first - (behind - begin)

    def _equal(self, record: int, fill: int) -> bool:
        """Tell whether a recorded fill and one that came are of one order, size and price."""
        return (
            self._ids[record] == self._resting[fill]
            and self._sizes[record] == self._lots[fill]
            and self._prices[record] == self._ticks[fill]
        )

    def _keep(self, place: int, behind: int, first: int, stop: int) -> None:
        """Keep the fills of a command."""
        came = [
            (self._resting[fill], self._lots[fill], self._ticks[fill])
            for fill in range(first, stop)
        ]
        recorded = [
            (self._ids[record], self._sizes[record], self._prices[record])
            for record in range(place + 1, behind)
        ]
        self.kept.append((place, came, recorded))


# MERGED clob.replay.check.fill_diff: Chooses what compares fills with recorded ones: compiled, or the same lines as plain Python.
