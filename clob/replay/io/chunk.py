"""What a driver tells: of a chunk that is done, of a command that did not go as recorded."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import EventRow, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.recording import Records, join
from clob.replay.io.repair import Command, Filled


class Played(NamedTuple):
    """A chunk of a stream, and what came of it.

    The arrays are there to be looked at while one is told; what is to be kept must be copied.
    """

    base: int
    """Index in the stream of its first event."""
    events: Records
    """Array of ``EVENT``: what the stream gave."""
    status: npt.NDArray[np.uint8]
    """What came of each event: 0, or the number of what refused it."""
    fills: Records
    """Array of ``FILL``; ``event`` is an index in the stream. The fills of an own order that came
    in have that of the event before which it came."""
    bests: Records
    """Array of ``BEST``, as the fills; empty where nobody asked for it."""
    kinds: npt.NDArray[np.uint8]
    """The kinds of the events, side by side: of records that lie far apart each look at them takes
    a tenth of the time that executing them takes."""
    touched: dict[int, int]
    """By instrument, from which event on its book is not that of history, since own orders have
    traded in it; books in which none has are left out."""
    differs: npt.NDArray[np.uint8]
    """1 where the fills of a recorded command were not those recorded right behind it, by whatever
    reason; 0 for all others."""


class Difference(NamedTuple):
    """A recorded command whose fills are not those recorded."""

    event: int
    """Its index in the stream."""
    command: Command
    """The command."""
    status: int
    """0, or the number of what refused it."""
    produced: list[Filled]
    """What was filled."""
    recorded: list[Filled]
    """What was filled in history."""
    filled: frozenset[int]
    """The resting orders that were filled whole by it."""


# Plain integers: comparing an array of bytes with a member of an enum makes one of long integers.
RECORDED, CLEAR, SEED = int(Kind.FILL), int(Kind.CLEAR), int(Kind.SEED)

HEADS = np.dtype({"names": ["head"], "formats": ["<u4"], "offsets": [48], "itemsize": 56})
"""An ``EVENT`` of which instrument, kind and side are one number of 16, 8 and 8 bits."""

ORDER_ID, SIZE, PRICE, KIND = (
    EventRow._fields.index(name) for name in ("order_id", "size", "price", "kind")
)


def recorded_behind(events: Records, place: int) -> list[Filled]:
    """Read the fills recorded behind a command.

    Args:
        events: array of ``EVENT``.
        place: index of the command.
    """
    recorded: list[Filled] = []
    for behind in range(place + 1, len(events)):
        row = events[behind].item()
        if row[KIND] != RECORDED:
            break
        recorded.append((row[ORDER_ID], row[SIZE], row[PRICE]))
    return recorded


def known(number: int, instruments: Collection[int]) -> int:
    """Give the number of an instrument.

    Raises:
        ReplayFormatError: it is none of those there are.
    """
    if number not in instruments:
        raise ReplayFormatError(
            f"an event is of instrument {number}, the stream has {sorted(instruments)}"
        )
    return number


def seeds_of(events: Records) -> int:
    """Count the seeds in front of all other events; O(seeds), however many events there are.

    Args:
        events: array of ``EVENT``.
    """
    start, reach = 0, 64
    while start < len(events):
        others = np.flatnonzero(events["kind"][start : start + reach] != SEED)
        if len(others):
            return start + int(others[0])
        start, reach = start + reach, 2 * reach
    return len(events)


def runs_of(
    events: Records, numbers: Collection[int]
) -> tuple[npt.NDArray[np.uint8], list[tuple[int, int]]]:
    """Part events into runs of one instrument; what clears a book ends one, too.

    Args:
        events: array of ``EVENT``.
        numbers: the instruments there are.

    Returns:
        The kinds of the events; of each run the index behind its last event and its instrument.

    Raises:
        ReplayFormatError: an event is of another instrument.
    """
    # One walk over records that lie far apart; all that follows is side by side.
    heads = events.view(HEADS)["head"].copy()
    instruments, kinds = heads.view("<u2")[::2], heads.view(np.uint8)[2::4].copy()
    last = np.flatnonzero(kinds == CLEAR)
    if len(heads) and not (instruments == instruments[0]).all():
        last = np.union1d(last, np.flatnonzero(instruments[1:] != instruments[:-1]))
    ends = last.tolist()
    if len(heads) and (not ends or ends[-1] != len(heads) - 1):
        ends.append(len(heads) - 1)
    return kinds, [(end + 1, known(int(instruments[end]), numbers)) for end in ends]


def whole(chunks: Iterator[Records]) -> Iterator[Records]:
    """Give chunks in which no command is parted from the fills recorded behind it.

    Args:
        chunks: arrays of ``EVENT``, none of them empty.

    Yields:
        The same events, only those around such a parting put together anew.
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
    """Find the last event that is no recorded fill; 0 if there is none."""
    place = len(events) - 1
    while place > 0 and events[place].item()[KIND] == RECORDED:
        place -= 1
    return max(place, 0)
