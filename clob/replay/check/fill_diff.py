"""Compares fills with the recorded fills in books that own orders have changed."""

from clob.replay.io.chunk import RECORDED, ReplayedChunk
from clob.replay.io.repair import Filled
from clob.replay.io.streams import OWN_ID


class FillDiff:
    """Counts the differences for commands of a chunk whose fills differ from the recorded ones.

    The arrays of the chunk must not change meanwhile. The fills of the first ``most`` commands are
    kept.
    """

    def __init__(self, chunk: ReplayedChunk, most: int) -> None:
        events, fills = chunk.events, chunk.fills
        self.failed: int = 0
        """Commands that traded in history."""
        self.missed: int = 0
        """Recorded fills that their command did not produce."""
        self.surplus: int = 0
        """Produced fills minus recorded fills."""
        self.kept: list[tuple[int, list[Filled], list[Filled]]] = []
        """The first commands: index in the chunk, produced fills, recorded fills."""
        self._most = most
        self._base = chunk.base
        self._count, self._end = len(events), len(fills)
        self._kinds: memoryview = chunk.kinds.data
        self._ids: memoryview = events["order_id"].data
        self._sizes: memoryview = events["size"].data
        self._prices: memoryview = events["price"].data
        self._commands: memoryview = fills["event"].data
        self._resting: memoryview = fills["resting_id"].data
        self._incoming: memoryview = fills["incoming_id"].data
        self._lots: memoryview = fills["size"].data
        self._ticks: memoryview = fills["price"].data

    def add(self, places: list[int]) -> None:
        """Add commands by their indices in the chunk, ascending."""
        stop = 0
        for place in places:
            end = place + 1
            while end < self._count and self._kinds[end] == RECORDED:
                end += 1
            command = self._base + place
            first = stop
            while first < self._end and self._commands[first] < command:
                first += 1
            # Fills of an own order executed right before the command have the same event index.
            while first < self._end and self._is_own(first, command):
                first += 1
            stop = first
            while stop < self._end and self._commands[stop] == command:
                stop += 1
            self._count_command(place + 1, end, first, stop)
            if len(self.kept) < self._most:
                self._keep_fills(place, end, first, stop)

    def _is_own(self, fill: int, command: int) -> bool:
        """Return whether a fill is of an own order executed right before a command."""
        return self._commands[fill] == command and self._incoming[fill] >= OWN_ID

    def _count_command(self, begin: int, end: int, first: int, stop: int) -> None:
        """Count the recorded fills from begin to end, and the produced ones from first to stop."""
        shared, record = 0, begin
        for fill in range(first, stop):
            # No command meets an order twice, and equal fills are mostly in the same sequence.
            for _ in range(begin, end):
                if record == end:
                    record = begin
                record += 1
                if self._equal(record - 1, fill):
                    shared += 1
                    break
        self.failed += end > begin
        self.missed += end - begin - shared
        self.surplus += stop - first - (end - begin)

    def _equal(self, record: int, fill: int) -> bool:
        """Return whether a recorded and a produced fill have equal order, size and price."""
        return (
            self._ids[record] == self._resting[fill]
            and self._sizes[record] == self._lots[fill]
            and self._prices[record] == self._ticks[fill]
        )

    def _keep_fills(self, place: int, end: int, first: int, stop: int) -> None:
        produced = [
            (self._resting[fill], self._lots[fill], self._ticks[fill])
            for fill in range(first, stop)
        ]
        recorded = [
            (self._ids[record], self._sizes[record], self._prices[record])
            for record in range(place + 1, end)
        ]
        self.kept.append((place, produced, recorded))
