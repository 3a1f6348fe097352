"""Chunks of events: the result of replaying one, and helpers that split events for a replay."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import EventRow, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.recording import Records, join
from clob.replay.io.repair import Filled, RecordedCommand


class ReplayedChunk(NamedTuple):
    """A chunk of a stream and the results of replaying it.

    The arrays are reused for the next chunk: a receiver must copy anything it keeps.
    """

    base: int
    """Index of the first event in the stream."""
    events: Records
    """The replayed events; array of ``EVENT``."""
    status: npt.NDArray[np.uint8]
    """For each event 0, or the number of the rejection."""
    fills: Records
    """Array of ``FILL``; ``event`` is an index in the stream. Fills of an incoming own order have
    the index of the event after the order."""
    bests: Records
    """Array of ``BEST``, indexed like the fills; empty if best prices are not recorded."""
    kinds: npt.NDArray[np.uint8]
    """The kinds of the events as a contiguous array: reading them through the strided field takes
    a tenth of the time of executing the events."""
    touched: dict[int, int]
    """By instrument, the index of the first event at which own trades have changed its book;
    unchanged books are left out."""
    differs: npt.NDArray[np.uint8]
    """1 for a recorded command whose fills differ from the recorded ones, for any reason, else
    0."""


class Difference(NamedTuple):
    """A recorded command whose fills differ from the recorded ones."""

    event: int
    """Index of the command in the stream."""
    command: RecordedCommand
    status: int
    """0, or the number of the rejection."""
    produced: list[Filled]
    """The fills of the replay."""
    recorded: list[Filled]
    """The recorded fills."""
    filled: frozenset[int]
    """Resting orders that the command filled completely."""
    ghosts: tuple[int, ...] = ()
    """Orders that were removed because history rests the command through them."""


# Plain integers: comparing an array of bytes with an enum member converts it to int64.
RECORDED, CLEAR, SEED = int(Kind.FILL), int(Kind.CLEAR), int(Kind.SEED)

HEADS = np.dtype({"names": ["head"], "formats": ["<u4"], "offsets": [48], "itemsize": 56})
"""Reads instrument, kind and side of an ``EVENT`` as one number, of 16, 8 and 8 bits."""

ORDER_ID, SIZE, PRICE, KIND = (
    EventRow._fields.index(name) for name in ("order_id", "size", "price", "kind")
)


def recorded_fills_after(events: Records, place: int) -> list[Filled]:
    """Return the recorded fills of the command at an index."""
    recorded: list[Filled] = []
    for behind in range(place + 1, len(events)):
        row = events[behind].item()
        if row[KIND] != RECORDED:
            break
        recorded.append((row[ORDER_ID], row[SIZE], row[PRICE]))
    return recorded


def check_instrument(number: int, instruments: Collection[int]) -> int:
    """Return a number, or raise ``ReplayFormatError`` if it is not that of an instrument."""
    if number not in instruments:
        raise ReplayFormatError(
            f"instrument of an event must be one of {sorted(instruments)}; got {number}"
        )
    return number


def count_seeds(events: Records) -> int:
    """Count the seeds at the start. O(seeds), independent of the number of events."""
    start, reach = 0, 64
    while start < len(events):
        others = np.flatnonzero(events["kind"][start : start + reach] != SEED)
        if len(others):
            return start + int(others[0])
        start, reach = start + reach, 2 * reach
    return len(events)


def split_runs(
    events: Records, numbers: Collection[int]
) -> tuple[npt.NDArray[np.uint8], list[tuple[int, int]]]:
    """Split events into runs of one instrument; an event that clears a book ends a run as well.

    Returns:
        The kinds of the events; for each run the end index (exclusive) and the instrument.

    Raises:
        ReplayFormatError: an event is of another instrument.
    """
    # One pass over the strided records; the rest works on contiguous arrays.
    heads = events.view(HEADS)["head"].copy()
    instruments, kinds = heads.view("<u2")[::2], heads.view(np.uint8)[2::4].copy()
    last = np.flatnonzero(kinds == CLEAR)
    if len(heads) and not (instruments == instruments[0]).all():
        last = np.union1d(last, np.flatnonzero(instruments[1:] != instruments[:-1]))
    ends = last.tolist()
    if len(heads) and (not ends or ends[-1] != len(heads) - 1):
        ends.append(len(heads) - 1)
    return kinds, [(end + 1, check_instrument(int(instruments[end]), numbers)) for end in ends]


def align_to_commands(chunks: Iterator[Records]) -> Iterator[Records]:
    """Move chunk boundaries so that every command is in one chunk with its recorded fills.

    The chunks are not empty; only those around a moved boundary are copied.
    """
    held: Records | None = None
    for chunk in chunks:
        begin = 0
        while begin < len(chunk) and chunk[begin].item()[KIND] == RECORDED:
            begin += 1
        if held is not None and begin:
            last = _last_command(held)
            if last:
                yield held[:last]
            held = join([held[last:], chunk[:begin]])
            if begin == len(chunk):
                continue
        if held is not None:
            yield held
            chunk = chunk[begin:]
        held = chunk
    if held is not None:
        yield held


def _last_command(events: Records) -> int:
    """Return the index of the last event that is not a recorded fill, or 0."""
    place = len(events) - 1
    while place > 0 and events[place].item()[KIND] == RECORDED:
        place -= 1
    return max(place, 0)
