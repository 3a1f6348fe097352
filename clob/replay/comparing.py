"""Compares the fills of a chunk with the recorded ones, all at once."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.replay.played import RECORDED, Played
from clob.replay.streams import FIRST_RECORD, OWN_ID

Columns: TypeAlias = npt.NDArray[np.int64]
"""A matrix with a column for each fill: index of the command, resting order, size in lots, price in
ticks; the commands in order. What is of one kind stands side by side."""


def recorded_fills(played: Played) -> Columns:
    """List the recorded fills of a chunk: index of the command in it, order, size, price."""
    filled = np.flatnonzero(played.kinds == RECORDED)
    places = np.arange(len(played.kinds))
    # Of each event the last command up to it.
    places[played.kinds >= FIRST_RECORD] = 0
    command = np.maximum.accumulate(places).take(filled)
    rows = played.events.take(filled)
    return _columns(command, rows["order_id"], rows["size"], rows["price"])


def produced_fills(played: Played) -> Columns:
    """List the fills that recorded commands brought, as :func:`recorded_fills`."""
    rows = played.fills
    foreign = rows["incoming_id"] < OWN_ID
    if not foreign.all():
        rows = rows.take(np.flatnonzero(foreign))
    command = rows["event"] - np.uint64(played.base)
    return _columns(command, rows["resting_id"], rows["size"], rows["price"])


def _columns(*fields: npt.NDArray[Any]) -> Columns:
    """Put fields into a matrix. Ids are below 2**63."""
    columns = np.empty((len(fields), len(fields[0])), np.int64)
    for place, field in enumerate(fields):
        columns[place] = field
    return columns


def of_touched(columns: Columns, played: Played, instrument: int, first: int) -> Columns:
    """Leave of some fills those in one book, from an event of the stream on."""
    columns = columns[:, int(columns[0].searchsorted(first - played.base)) :]
    mine = played.events["instrument"].take(columns[0]) == instrument
    return columns if mine.all() else columns.compress(mine, axis=1)


def common(recorded: Columns, produced: Columns) -> int:
    """Count the fills that both have of the same command, whatever their order."""
    both = np.concatenate([recorded, produced], axis=1)
    if not both.size:
        return 0
    places = np.lexsort((both[1], both[0]))
    ordered = both.take(places, axis=1)
    theirs = places < recorded.shape[1]
    same = (ordered[:2, 1:] == ordered[:2, :-1]).all(axis=0)
    if not (same & (theirs[1:] == theirs[:-1])).any():
        # No command meets an order twice, so that only neighbours may be equal.
        return int(np.count_nonzero(same & (ordered[2:, 1:] == ordered[2:, :-1]).all(axis=0)))
    places = np.lexsort(both)
    ordered = both.take(places, axis=1)
    # Equal fills stand side by side, and have one number.
    number = np.zeros(len(places), np.int64)
    number[1:] = np.cumsum((ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    theirs = places < recorded.shape[1]
    counts = [np.bincount(number[some], minlength=len(places)) for some in (theirs, ~theirs)]
    return int(np.minimum(*counts).sum())


def differing(recorded: Columns, produced: Columns, count: int) -> npt.NDArray[np.bool_]:
    """Find the commands whose fills are not the recorded ones.

    Args:
        recorded: the recorded fills.
        produced: those that came.
        count: how many events there are.

    Returns:
        For each event whether it is such a command.
    """
    counts = [np.bincount(columns[0], minlength=count) for columns in (recorded, produced)]
    wrong: npt.NDArray[np.bool_] = counts[0] != counts[1]
    one, other = (of_commands(columns, ~wrong) for columns in (recorded, produced))
    wrong[one[0, (one != other).any(axis=0)]] = True
    return wrong


def of_commands(columns: Columns, wanted: npt.NDArray[np.bool_]) -> Columns:
    """Leave of some fills those of the commands wanted, each event being one or not."""
    return columns.compress(wanted.take(columns[0]), axis=1)
