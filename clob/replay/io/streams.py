"""Streams: order flow read as chunks of events, with bounded memory and as often as needed.

A stream carries commands and, from ``Kind.TRADE`` on, records to compare with. The recorded
fills of a command follow it directly: one ``Kind.FILL`` for each resting order, with its id, its
side, the size and the price. ``Kind.BBO`` is the best price of one side and its size, after
everything before it; on an empty side the size is 0 and the price is one tick outside the grid.
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
from clob.replay.io.recording import OWN_ID as OWN_ID
from clob.units import format_tokens

CHUNK = 131_072
"""Default number of events in a chunk."""

LARGE = 4
"""Pieces larger than 1/LARGE of a chunk are passed on without a copy."""

OWN = 2**31 - 1
"""The owner of the orders of a strategy."""

SHARED_BOOK = "book that several files describe"
"""The remark for a book of merged streams that more than one of them has.

Each reader starts with an empty book, so that the files of one day in parts, merged, differ from
the day in one file. Joined files do not.
"""

INVENTED_ID = 2**61
"""The first id that readers assign to orders without one, such as unnamed incoming orders."""


class Instrument(NamedTuple):
    """One book of a stream."""

    number: int
    """Value of ``instrument`` in the events: market * 2 + outcome, with YES = 0 and NO = 1."""
    market: str
    """The name of the market."""
    outcome: str = "YES"
    """The name of the outcome."""


class Stream:
    """Order flow that can be read in chunks, any number of times.

    Args:
        blocks: called at the start of each reading; returns arrays of ``EVENT`` of any length,
            ordered by ``(ts_ns, seq)``, and does not write to them afterwards.
        lo: the lowest price of the grid, in ticks.
        hi: the highest price of the grid, in ticks.
        lot_wei: the size of one lot, in wei.
        instruments: the books of the events, by number.
        name: a title of one line.
        note: the source of the data.
        problems: receives the reports of the readers; by default one that raises.
        progress: updated by the readers; by default one that stays at zero.
        has_fills: whether the fills of the commands were recorded.
        scale: ticks per token, that is per unit of collateral; 100 if a tick is a cent.
        inferred: whether the reader inferred the fills from levels and traded volumes, because
            the source has none.
        labels: the text of each price of the grid, where a tick is a position in a ladder, such as
            odds; empty where prices are ticks.

    All arguments but ``blocks`` are attributes; ``problems`` are those of the current reading.
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
        inferred: bool = False,
        labels: Sequence[str] = (),
    ) -> None:
        self._blocks = blocks
        self.lo: int = lo
        self.hi: int = hi
        self.lot_wei: int = lot_wei
        self.instruments: tuple[Instrument, ...] = tuple(instruments)
        self.name: str = name
        self.note: str = note
        self.problems: Problems = problems if problems is not None else Problems()
        self.progress: Progress = progress if progress is not None else Progress()
        self.has_fills: bool = has_fills
        self.scale: int = scale
        self.inferred: bool = inferred
        self.labels: tuple[str, ...] = tuple(labels)

    def label(self, price: int) -> str:
        """Return the text of a price: its label, or the number of ticks where there is none."""
        if self.labels and self.lo <= price <= self.hi:
            return self.labels[price - self.lo]
        return str(price)

    def _repr_html_(self) -> str:
        """Return grid, lot and the first books as tables, for notebooks; reads nothing."""
        from clob import notebook  # noqa: PLC0415 - only where it is shown

        unit = "odds" if self.labels else "cents" if self.scale == CENTS else "ticks"
        fills = "inferred by the reader" if self.inferred else "recorded"
        problems = (f"{count:,} {kind}" for kind, count in sorted(self.problems.counts.items()))
        facts = [
            ("prices", f"{self.label(self.lo)} to {self.label(self.hi)} {unit}"),
            ("lot", f"{format_tokens(self.lot_wei)} tokens"),
            ("fills", fills if self.has_fills else "not recorded"),
            ("problems so far", ", ".join(problems) or "none"),
        ]
        if unit == "ticks":
            facts.insert(1, ("ticks per token", f"{self.scale:,}"))
        shown = self.instruments[: notebook.ROWS_MAX]
        books = [
            (str(one.number), notebook.short_name(one.market), notebook.short_name(one.outcome))
            for one in shown
        ]
        head = ["Stream", notebook.short_name(self.name), notebook.short_name(self.note)]
        return notebook.table(head, (), facts) + notebook.table(
            ["Books"],
            ("number", "market", "outcome"),
            books,
            more=len(self.instruments) - len(shown),
        )

    def chunks(self, size: int = CHUNK) -> Iterator[Records]:
        """Read from the start, in chunks.

        A chunk may end between a command and its fills. The size does not affect the events.

        Args:
            size: the length of each chunk; the last may be shorter.

        Yields:
            Non-empty arrays of ``EVENT``, in order; the caller may modify them.

        Raises:
            ValueError: ``size`` is below 1.
            OSError: a file cannot be read.
            ReplayFormatError: the input is malformed and the policy is ``"raise"``.
        """
        return self._read(size, copied=True)

    def borrowed(self, size: int = CHUNK) -> Iterator[Records]:
        """Read from the start, in chunks that must not be modified.

        Chunks may be views of arrays that belong to the stream and may be shorter than ``size``:
        large pieces are passed on without a copy.

        Args:
            size: the maximum length of a chunk.

        Yields:
            Non-empty arrays of ``EVENT``, in order. Raises the errors of :meth:`chunks`.
        """
        return self._read(size, copied=False)

    def _read(self, size: int, *, copied: bool) -> Iterator[Records]:
        if size < 1:
            raise ValueError(f"size of a chunk must be 1 or more; got {size}")
        self.problems.clear()
        return _rechunk(self._blocks(), size, copied=copied)

    def collect(self) -> Recording:
        """Read the whole stream into memory. O(events).

        Returns:
            The recording. Leading ``SEED`` events are its seed, ``FILL`` records its fills, all
            others its events.

        Raises:
            OSError: a file cannot be read.
            ReplayFormatError: the input is malformed and the policy is ``"raise"``.
            ValueError: a fill precedes the first command.
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
            **{field: getattr(self, field) for field in ("scale", "inferred", "labels")},
            market=next((one.market for one in self.instruments), ""),
            outcome=next((one.outcome for one in self.instruments), "YES"),
        )

    @classmethod
    def of(cls, recording: Recording) -> "Stream":
        """Make a stream of a recording: the seed, then each event followed by its fills.

        Args:
            recording: the source; it is not copied, so do not modify it.

        Returns:
            The stream; its ``collect`` returns an equal recording.
        """
        return cls(
            lambda: _of_recording(recording),
            lo=recording.lo,
            hi=recording.hi,
            lot_wei=recording.lot_wei,
            name=recording.name,
            note=recording.note,
            has_fills=recording.fills is not None,
            instruments=[Instrument(0, recording.market, recording.outcome)],
            **{field: getattr(recording, field) for field in ("scale", "inferred", "labels")},
        )


def fill_records(fills: Records, causes: Records) -> Records:
    """Convert fills to events of ``Kind.FILL``.

    Number, instrument and receive time are those of ``causes``, the commands of the fills.
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
    """Yield the seed, then the events with their fills, in pieces."""
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
    """Split and join arrays into chunks; unless ``copied``, large pieces are passed on as views."""
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
    """One of the streams being merged."""

    chunks: Iterator[Records]
    numbers: npt.NDArray[np.uint16]
    """Instrument number in the merged stream, indexed by the number in this stream."""
    waiting: Records
    """Events read and not yet passed on."""
    keys: npt.NDArray[np.int64]
    """The latest time up to each waiting event: the sort key of the merge."""
    ended: bool = False

    def read(self) -> None:
        chunk = next(self.chunks, None)
        if chunk is None:
            self.ended = True
            return
        chunk["instrument"] = self.numbers[chunk["instrument"]]
        self.waiting = join([self.waiting, chunk])
        times = np.concatenate([self.keys, chunk["ts_ns"]])
        self.keys = np.maximum.accumulate(times)

    def take(self, before: int | None) -> tuple[Records, npt.NDArray[np.int64]]:
        """Remove and return the events before a time, or all for None."""
        end = len(self.keys) if before is None else int(np.searchsorted(self.keys, before))
        events, keys = self.waiting[:end], self.keys[:end]
        self.waiting, self.keys = self.waiting[end:], self.keys[end:]
        return events, keys


def merge(streams: Iterable[Stream], *, chunk: int = CHUNK) -> Stream:
    """Merge streams into one by time; events of the same time keep the order of ``streams``.

    Books of the same market and outcome become one instrument; all others stay separate. Each
    stream keeps its own order even where its clock runs backwards.

    Args:
        streams: one or more, with the same lot and the same scale.
        chunk: approximate number of events of each stream held in memory.

    Returns:
        The stream, on a grid that covers all of them. Its problems and progress are the sums.

    Raises:
        ValueError: ``streams`` is empty, or lots, scales or price ladders differ.
    """
    streams = tuple(streams)
    if not streams:
        raise ValueError("merge needs one or more streams; got none")
    for field, name, unit in (("lot_wei", "lot", "wei"), ("scale", "scale", "ticks per token")):
        values = {getattr(stream, field) for stream in streams}
        if len(values) > 1:
            raise ValueError(
                f"streams to merge must have the same {name}; got {sorted(values)} {unit}"
            )
    if len({stream.labels for stream in streams}) > 1:
        raise ValueError("streams to merge must have the same prices; got different odds ladders")
    instruments, numbers = _renumber(streams)
    shared = sum(len(stream.instruments) for stream in streams) - len(instruments)
    problems, progress = Problems(), Progress()

    def blocks() -> Iterator[Records]:
        sources = [
            _Source(stream.chunks(chunk), of, np.zeros(0, EVENT), np.zeros(0, np.int64))
            for stream, of in zip(streams, numbers, strict=True)
        ]
        for events in _merged(sources):
            problems.gather([stream.problems for stream in streams])
            problems.remark(SHARED_BOOK, shared)
            progress.done_bytes = sum(stream.progress.done_bytes for stream in streams)
            progress.total_bytes = sum(stream.progress.total_bytes for stream in streams)
            yield events

    return Stream(
        blocks,
        lo=min(stream.lo for stream in streams),
        hi=max(stream.hi for stream in streams),
        lot_wei=streams[0].lot_wei,
        instruments=instruments,
        name=" + ".join(stream.name for stream in streams),
        note="; ".join(stream.note for stream in streams if stream.note),
        problems=problems,
        progress=progress,
        has_fills=any(stream.has_fills for stream in streams),
        scale=streams[0].scale,
        inferred=any(stream.inferred for stream in streams),
        labels=streams[0].labels,
    )


def pair(yes: Stream, no: Stream, market: str) -> Stream:
    """Merge two recordings of one book each as YES and NO of a market.

    Args:
        yes: the book of YES.
        no: the book of NO, with the same lot and scale.
        market: the name of the market.

    Raises:
        ValueError: a stream has several books, or :func:`merge` rejects the streams.
    """
    for stream in (yes, no):
        if len(stream.instruments) != 1:
            books = len(stream.instruments)
            raise ValueError(f"a stream to pair must have one book; {stream.name} has {books}")
    both = [_as_outcome(stream, place, market) for place, stream in enumerate((yes, no))]
    return merge(both)


def _as_outcome(stream: Stream, number: int, market: str) -> Stream:
    """Return a stream of one book as an outcome of a market: 0 YES, 1 NO."""

    def blocks() -> Iterator[Records]:
        for chunk in stream.chunks():
            chunk["instrument"] = number
            yield chunk

    public = {name: value for name, value in vars(stream).items() if not name.startswith("_")}
    public["instruments"] = [Instrument(number, market, ("YES", "NO")[number])]
    return Stream(blocks, **public)


def _renumber(streams: Sequence[Stream]) -> tuple[list[Instrument], list[npt.NDArray[np.uint16]]]:
    """Number the markets of all streams so that both outcomes of a market are neighbours."""
    markets: dict[str, int] = {}
    instruments: dict[int, Instrument] = {}
    tables = []
    for stream in streams:
        last = max((each.number for each in stream.instruments), default=0)
        table = np.zeros(last + 2, np.uint16)
        for each in stream.instruments:
            number = markets.setdefault(each.market, len(markets)) * 2 + each.number % 2
            table[each.number] = number
            instruments.setdefault(number, each._replace(number=number))
        tables.append(table)
    return [instruments[number] for number in sorted(instruments)], tables


def _merged(sources: list[_Source]) -> Iterator[Records]:
    """Yield the events that no source can still precede, until all have ended."""
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
            # A whole chunk with one time: read on in the source that blocks the others.
            for source in sources:
                if not source.ended and source.keys[-1] == before:
                    source.read()
