"""What a driver tells: of a chunk that is done, of a command that did not go as recorded."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import Kind
from clob.replay.recording import Records, join
from clob.replay.rematch import Command, Filled


class Played(NamedTuple):
    """A chunk of a stream, and what came of it. The arrays are nobody else's to write to."""

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
    touched: dict[int, int]
    """By instrument, from which event on its book is not that of history, since own orders have
    traded in it; books in which none has are left out."""


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


def recorded_behind(events: Records, place: int) -> list[Filled]:
    """Read the fills recorded behind a command.

    Args:
        events: array of ``EVENT``.
        place: index of the command.
    """
    recorded: list[Filled] = []
    for row in events[place + 1 :]:
        if row["kind"] != Kind.FILL:
            break
        recorded.append((int(row["order_id"]), int(row["size"]), int(row["price"])))
    return recorded


def whole(chunks: Iterator[Records]) -> Iterator[Records]:
    """Give chunks in which no command is parted from the fills recorded behind it.

    Args:
        chunks: arrays of ``EVENT``, none of them empty.

    Yields:
        The same, each with the ``FILL`` events that the one behind it began with.
    """
    waiting: list[Records] = []
    for chunk in chunks:
        begin = 0
        if chunk["kind"][0] == Kind.FILL:
            others = np.flatnonzero(chunk["kind"] != Kind.FILL)
            begin = int(others[0]) if len(others) else len(chunk)
        if waiting and begin:
            waiting.append(chunk[:begin])
        if begin == len(chunk) and waiting:
            continue
        if waiting:
            yield join(waiting) if len(waiting) > 1 else waiting[0]
            chunk = chunk[begin:]
        waiting = [chunk]
    if waiting:
        yield join(waiting) if len(waiting) > 1 else waiting[0]
