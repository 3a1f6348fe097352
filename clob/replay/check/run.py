"""Replays a recording through a Book, in chunks, and checks the fills against the recorded ones."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from clob.book import Book
from clob.errors import REFUSALS
from clob.records import FILL, Kind
from clob.replay.io.recording import Recording, Records

COMPARED = ("event", "resting_id", "size", "price")
"""The fields in which a fill must equal the recorded one."""


@dataclasses.dataclass(frozen=True)
class Check:
    """How the fills of a replay compare with the recorded ones."""

    recorded: int
    """How many fills were recorded."""
    produced: int
    """How many fills the replay produced."""
    matched: int
    """How many of the recorded ones were produced, in whatever order."""
    first_difference: int | None
    """Index of the first fill that differs or that only one side has; None if all are equal."""

    @property
    def ok(self) -> bool:
        """Whether both sides are the same fills in the same order."""
        return self.first_difference is None


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """What came of a replay."""

    book: Book
    """The book as the last event left it."""
    fills: Records
    """Array of ``FILL``; ``event`` counts from the first event of the recording."""
    refused: dict[str, int]
    """How many events were refused, by the code of the refusal."""
    check: Check | None
    """The comparison with the recorded fills; None where none were recorded."""
    events: int
    """How many events were run, the refused ones included and the seed not."""
    limit_fills: int
    """How many fills came of ``LIMIT`` events."""
    ioc_unfilled: int
    """How many ``IOC`` events were executed and not wholly filled."""


def replay(
    recording: Recording,
    *,
    book: Book | None = None,
    chunk: int = 65_536,
    on_progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run a recording through a book. Refused events are counted and passed over.

    Args:
        recording: what to run.
        book: where to run it; None makes one on the recording's grid. Orders that rest in it
            already take part.
        chunk: how many events are run at a time. The result does not depend on it.
        on_progress: called after each chunk with the number of events done and of all.

    Returns:
        The book, the fills and the comparison. Equal recordings give equal results.

    Raises:
        ValueError: the chunk is below 1, or the book counts in other lots than the recording.
        InvalidBookError: the recording's grid or lot is no book's.
        InvalidArrayError: an array of the recording has the wrong dtype or layout.
        InvalidKindError: the seed holds an event that is no ``SEED``.
        RunRejectedError: an order of the seed was refused.

    O(events), beside what the book takes.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be 1 or more, not {chunk}")
    if book is None:
        book = Book(lo=recording.lo, hi=recording.hi, lot_wei=recording.lot_wei)
    if book.lot_wei != recording.lot_wei:
        raise ValueError(f"the book's lot is {book.lot_wei} wei, not {recording.lot_wei}")
    book.seed(recording.seed)
    events = recording.events
    status = np.zeros(len(events), np.uint8)
    parts = [np.zeros(0, FILL)]
    for start in range(0, len(events), chunk):
        part = events[start : start + chunk]
        fills = book.run(part, status=status[start : start + chunk])
        fills["event"] += np.uint64(start)
        parts.append(fills)
        if on_progress:
            on_progress(start + len(part), len(events))
    return _result(recording, book, np.concatenate(parts), status)


def _result(
    recording: Recording, book: Book, fills: Records, status: npt.NDArray[np.uint8]
) -> Result:
    """Count and compare."""
    kinds = recording.events["kind"]
    numbers, counts = np.unique(status[status > 0], return_counts=True)
    iocs = (kinds == Kind.IOC) & (status == 0)
    return Result(
        book=book,
        fills=fills,
        refused={
            REFUSALS[number].code: count
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        },
        check=None if recording.fills is None else compare(recording.fills, fills),
        events=len(recording.events),
        limit_fills=int(np.count_nonzero(kinds[fills["event"]] == Kind.LIMIT)),
        ioc_unfilled=int(np.count_nonzero(_unfilled(recording.events, fills)[iocs])),
    )


def _unfilled(events: Records, fills: Records) -> npt.NDArray[np.int64]:
    """Subtract from the size of each event what was filled of it, in lots."""
    left: npt.NDArray[np.int64] = events["size"].copy()
    np.subtract.at(left, fills["event"], fills["size"])
    return left


def compare(recorded: Records, produced: Records) -> Check:
    """Compare two arrays of fills by event, resting order, size and price, in order.

    Args:
        recorded: array of ``FILL``.
        produced: array of ``FILL``.

    Returns:
        The figures. O(fills).
    """
    shorter = min(len(recorded), len(produced))
    differs = np.zeros(shorter, np.bool_)
    for field in COMPARED:
        differs |= recorded[field][:shorter] != produced[field][:shorter]
    places = np.flatnonzero(differs)
    first: int | None = int(places[0]) if len(places) else None
    if first is None and len(recorded) != len(produced):
        first = shorter
    return Check(
        recorded=len(recorded),
        produced=len(produced),
        matched=len(recorded) if first is None else _common(recorded, produced),
        first_difference=first,
    )


def _common(recorded: Records, produced: Records) -> int:
    """Count the fills that both sides have, whatever their order."""
    one, other = (Counter(fills[list(COMPARED)].tolist()) for fills in (recorded, produced))
    return (one & other).total()
