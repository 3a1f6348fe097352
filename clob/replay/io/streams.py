"""Streams: order flow as chunks of events, however large the file, always from the start again.

A stream carries commands and, from ``Kind.TRADE`` on, records to compare with. What came of a
command where it was recorded stands right behind it: one ``Kind.FILL`` for each resting order,
with its id, its side, the size and the price. ``Kind.BBO`` states the best price and its size on
one side, after everything before it; where the side is empty the size is 0 and the price is one
below or above the grid.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, Kind
from clob.replay.io.files import Progress
from clob.replay.io.problems import Problems
from clob.replay.io.recording import CENTS, Recording, Records, join, split_fills

CHUNK = 131_072
"""How many events a chunk has, unless another number is asked for."""

LARGE = 4
"""A piece of a chunk over this is not worth copying."""

OWN = 2**31 - 1
"""The owner of the orders of a strategy."""

OWN_ID = 2**62
"""The first id of the orders of a strategy; no reader gives an order such an id."""

INVENTED_ID = 2**61
"""The first id that readers give to orders without one, as to unnamed incoming orders."""


class Instrument(NamedTuple):
    """One book of a stream."""

    number: int
    """What the events call it: market * 2 + outcome, with YES = 0 and NO = 1."""
    market: str
    """The name of the market."""
    outcome: str = "YES"
    """The name of the outcome."""


class Stream:
    """Order flow that can be read in chunks, as often as one likes.

    Args:
        blocks: gives the events anew at each call, in arrays of ``EVENT`` of any length, in order
            of ``(ts_ns, seq)``; it does not write to what it has given.
        lo: the lowest price of the grid, in ticks.
        hi: the highest price of the grid, in ticks.
        lot_wei: what a size of 1 stands for, in wei.
        instruments: the books the events are of, by number.
        name: what to call it, on one line.
        note: where it comes from.
        problems: where the readers report; None makes one that raises.
        progress: what the readers move on; None for one that stands still.
        has_fills: whether what came of the commands was recorded.
        scale: how many ticks a whole of collateral is, 100 where a tick is a cent.
    """

    def __init__(
        self,
        blocks: Callable[[], Iterable[Records]],
        *,
        lo: int,
        hi: int,
        lot_wei: int,
        instruments: Sequence[Instrument] = (Instrument(0, ""),),
        name: str = "",
        note: str = "",
        problems: Problems | None = None,
        progress: Progress | None = None,
        has_fills: bool = True,
        scale: int = CENTS,
    ) -> None:
        self._blocks = blocks
        self.lo: int = lo
        """The lowest price of the grid, in ticks."""
        self.hi: int = hi
        """The highest price of the grid, in ticks."""
        self.lot_wei: int = lot_wei
        """What a size of 1 stands for, in wei."""
        self.instruments: tuple[Instrument, ...] = tuple(instruments)
        """The books the events are of."""
        self.name: str = name
        """What to call it, on one line."""
        self.note: str = note
        """Where it comes from."""
        self.problems: Problems = problems if problems is not None else Problems()
        """What was wrong with the input, so far in this reading."""
        self.progress: Progress = progress if progress is not None else Progress()
        """How far the reading is, in bytes."""
        self.has_fills: bool = has_fills
        """Whether what came of the commands was recorded."""
        self.scale: int = scale
        """How many ticks a whole of collateral is: what money is counted by."""

    def chunks(self, size: int = CHUNK) -> Iterator[Records]:
        """Read from the start, in chunks.

        A chunk may end between a command and its fills. What is read does not depend on the size.

        Args:
            size: how many events each chunk has; the last may have fewer.

        Yields:
            Arrays of ``EVENT``, in order, none empty; they are the caller's.

        Raises:
            ValueError: the size is below 1.
            OSError: a file cannot be read.
            ReplayFormatError: the input is broken and the policy is to raise.
        """
        return self._read(size, copied=True)

    def borrowed(self, size: int = CHUNK) -> Iterator[Records]:
        """Read from the start, in chunks that are only to be looked at.

        They may be parts of arrays that belong to the stream, and of any length up to the size:
        what the readers give in large pieces is not copied to have another length.

        Args:
            size: how many events a chunk has at most.

        Yields:
            Arrays of ``EVENT``, in order, none empty. Errors are those of :meth:`chunks`.
        """
        return self._read(size, copied=False)

    def _read(self, size: int, *, copied: bool) -> Iterator[Records]:
        """Read from the start."""
        if size < 1:
            raise ValueError(f"the size of a chunk must be 1 or more, not {size}")
        self.problems.clear()
        return _rechunk(self._blocks(), size, copied=copied)

    def collect(self) -> Recording:
        """Read all of it into memory. O(events).

        Returns:
            The recording; ``SEED`` events at the very beginning are its seed, ``FILL`` records its
            fills, all others its events.

        Raises:
            OSError: a file cannot be read.
            ReplayFormatError: the input is broken and the policy is to raise; or a fill stands
                before any command.
        """
        events = join([np.zeros(0, EVENT), *self.chunks()])
        rest = np.flatnonzero(events["kind"] != Kind.SEED)
        start = int(rest[0]) if len(rest) else len(events)
        commands, fills = split_fills(events[start:])
        return Recording(
            events=commands,
            seed=events[:start],
            fills=fills if self.has_fills else None,
            lo=self.lo,
            hi=self.hi,
            lot_wei=self.lot_wei,
            name=self.name,
            note=self.note,
        )

    @classmethod
    def of(cls, recording: Recording) -> "Stream":
        """Make a stream of a recording: the seed, then each event with its fills behind it.

        Args:
            recording: what to read; it is not copied, so leave it as it is.

        Returns:
            The stream; its ``collect`` gives the recording back.
        """
        return cls(
            lambda: _of_recording(recording),
            lo=recording.lo,
            hi=recording.hi,
            lot_wei=recording.lot_wei,
            name=recording.name,
            note=recording.note,
            has_fills=recording.fills is not None,
        )


def fill_records(fills: Records, causes: Records) -> Records:
    """Write fills as records of a stream.

    Args:
        fills: array of ``FILL``.
        causes: array of ``EVENT``, the command of each.

    Returns:
        Array of ``EVENT``, all of ``Kind.FILL``, numbered and timed as their commands.
    """
    records = np.zeros(len(fills), EVENT)
    for field in ("recv_ns", "seq", "instrument"):
        records[field] = causes[field]
    records["order_id"] = fills["resting_id"]
    for field in ("size", "price", "ts_ns"):
        records[field] = fills[field]
    records["kind"] = Kind.FILL
    records["side"] = 1 - causes["side"]
    return records


def _of_recording(recording: Recording) -> Iterator[Records]:
    """Give the seed, then events and fills, some at a time."""
    yield recording.seed.copy()
    events, fills = recording.events, recording.fills
    for start in range(0, len(events), CHUNK):
        part = events[start : start + CHUNK]
        if fills is None:
            yield part.copy()
            continue
        first, last = np.searchsorted(fills["event"], (start, start + len(part)))
        some = fills[first:last]
        cause = some["event"].astype(np.int64) - start
        both = join([part, fill_records(some, part.take(cause))])
        order = np.concatenate([np.arange(len(part)) * 2, cause * 2 + 1])
        yield both.take(np.argsort(order, kind="stable"))


def _rechunk(blocks: Iterable[Records], size: int, *, copied: bool) -> Iterator[Records]:
    """Cut arrays anew: all but the last of the same length, unless they need not be copied."""
    waiting: list[Records] = []
    count = 0
    large = size if copied else max(size // LARGE, 1)
    for block in blocks:
        start = 0
        while count + len(block) - start >= large:
            end = min(start + size - count, len(block))
            waiting.append(block[start:end])
            yield join(waiting) if copied or len(waiting) > 1 else waiting[0]
            waiting, count, start = [], 0, end
        if start < len(block):
            waiting.append(block[start:])
            count += len(block) - start
    if waiting:
        yield join(waiting) if copied or len(waiting) > 1 else waiting[0]


@dataclasses.dataclass
class _Source:
    """One of the streams that are being merged."""

    chunks: Iterator[Records]
    """What is still to come."""
    numbers: npt.NDArray[np.uint16]
    """The number of each instrument in the merged stream, by that in its own."""
    waiting: Records
    """What was read and not given."""
    keys: npt.NDArray[np.int64]
    """The latest time up to each event waiting: the order to merge by."""
    ended: bool = False
    """Whether nothing is still to come."""

    def read(self) -> None:
        """Read one more chunk."""
        chunk = next(self.chunks, None)
        if chunk is None:
            self.ended = True
            return
        chunk["instrument"] = self.numbers[chunk["instrument"]]
        self.waiting = join([self.waiting, chunk])
        times = np.concatenate([self.keys, chunk["ts_ns"]])
        self.keys = np.maximum.accumulate(times)

    def take(self, before: int | None) -> tuple[Records, npt.NDArray[np.int64]]:
        """Give what is earlier than a time; None gives all."""
        end = len(self.keys) if before is None else int(np.searchsorted(self.keys, before))
        events, keys = self.waiting[:end], self.keys[:end]
        self.waiting, self.keys = self.waiting[end:], self.keys[end:]
        return events, keys


def merge(streams: Sequence[Stream], *, chunk: int = CHUNK) -> Stream:
    """Merge streams into one by time; at the same time the streams keep the order given.

    Books of the same market and outcome become one instrument, all others stay apart. Each stream
    keeps its own order even where its clock runs backwards.

    Args:
        streams: one or more, counted in the same lots, money in the same ticks.
        chunk: how many events of each are held, about.

    Returns:
        The stream, on a grid wide enough for all. Its problems and its progress are the sums.

    Raises:
        ValueError: there is none; the lots differ, or what a tick is worth.
    """
    if not streams:
        raise ValueError("there is no stream to merge")
    lots = {stream.lot_wei for stream in streams}
    if len(lots) > 1:
        raise ValueError(f"the streams count in different lots: {sorted(lots)} wei")
    scales = {stream.scale for stream in streams}
    if len(scales) > 1:
        raise ValueError(f"the streams have different ticks: {sorted(scales)} to the whole")
    instruments, numbers = _renumber(streams)
    problems, progress = Problems(), Progress()

    def blocks() -> Iterator[Records]:
        """Read all streams anew."""
        sources = [
            _Source(stream.chunks(chunk), of, np.zeros(0, EVENT), np.zeros(0, np.int64))
            for stream, of in zip(streams, numbers, strict=True)
        ]
        for events in _merged(sources):
            problems.gather([stream.problems for stream in streams])
            progress.done_bytes = sum(stream.progress.done_bytes for stream in streams)
            progress.total_bytes = sum(stream.progress.total_bytes for stream in streams)
            yield events

    return Stream(
        blocks,
        lo=min(stream.lo for stream in streams),
        hi=max(stream.hi for stream in streams),
        lot_wei=lots.pop(),
        instruments=instruments,
        name=" + ".join(stream.name for stream in streams),
        note="; ".join(stream.note for stream in streams if stream.note),
        problems=problems,
        progress=progress,
        has_fills=any(stream.has_fills for stream in streams),
        scale=scales.pop(),
    )


def _renumber(
    streams: Sequence[Stream],
) -> tuple[list[Instrument], list[npt.NDArray[np.uint16]]]:
    """Number the markets of all streams, each pair of outcomes beside one another."""
    markets: dict[str, int] = {}
    found: dict[int, Instrument] = {}
    tables = []
    for stream in streams:
        table = np.zeros(
            max((each.number for each in stream.instruments), default=0) + 2, np.uint16
        )
        for each in stream.instruments:
            number = markets.setdefault(each.market, len(markets)) * 2 + each.number % 2
            table[each.number] = number
            found.setdefault(number, each._replace(number=number))
        tables.append(table)
    return [found[number] for number in sorted(found)], tables


def _merged(sources: list[_Source]) -> Iterator[Records]:
    """Give what no source can still come before, until all have ended."""
    while True:
        for source in sources:
            if not len(source.waiting) and not source.ended:
                source.read()
        open_ends = [int(source.keys[-1]) for source in sources if not source.ended]
        before = min(open_ends) if open_ends else None
        parts = [source.take(before) for source in sources]
        events = join([part for part, _ in parts])
        if len(events):
            keys = np.concatenate([key for _, key in parts])
            yield events.take(np.argsort(keys, kind="stable"))
        elif before is None:
            return
        else:
            # A whole chunk of one time: the source that holds the others up must go on.
            for source in sources:
                if not source.ended and source.keys[-1] == before:
                    source.read()
