"""Compares the fills of a chunk with the recorded ones, all at once."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clob.replay.played import RECORDED, Played
from clob.replay.streams import FIRST_RECORD, OWN_ID

Rows: TypeAlias = npt.NDArray[np.int64]
"""A matrix of fills: index of the command, resting order, size in lots, price in ticks."""


def recorded_fills(played: Played) -> Rows:
    """List the recorded fills of a chunk: index of the command in it, order, size, price."""
    commands = np.flatnonzero(played.kinds < FIRST_RECORD)
    filled = np.flatnonzero(played.kinds == RECORDED)
    command = np.zeros(len(filled), np.int64)
    if len(commands):
        command = commands[np.maximum(np.searchsorted(commands, filled) - 1, 0)]
    rows = played.events.take(filled)
    # Ids are below 2**63.
    columns = (command, rows["order_id"].astype(np.int64), rows["size"], rows["price"])
    return np.stack(columns, axis=1)


def produced_fills(played: Played) -> Rows:
    """List the fills that recorded commands brought, as :func:`recorded_fills`."""
    rows = played.fills.take(np.flatnonzero(played.fills["incoming_id"] < OWN_ID))
    columns = (
        (rows["event"] - np.uint64(played.base)).astype(np.int64),
        rows["resting_id"].astype(np.int64),
        rows["size"],
        rows["price"],
    )
    return np.stack(columns, axis=1)


def of_touched(rows: Rows, played: Played, instrument: int, first: int) -> Rows:
    """Leave of some fills those in one book, from an event of the stream on."""
    places = rows[:, 0]
    mine = (played.events["instrument"][places] == instrument) & (places + played.base >= first)
    some: Rows = rows[mine]
    return some


def common(recorded: Rows, produced: Rows) -> int:
    """Count the fills that both have of the same command, whatever their order."""
    both = np.concatenate([recorded, produced])
    if not len(both):
        return 0
    places = np.lexsort(both.T)
    ordered = both[places]
    # Equal rows stand side by side, and have one number.
    number = np.zeros(len(both), np.int64)
    number[1:] = np.cumsum((ordered[1:] != ordered[:-1]).any(axis=1))
    theirs = places < len(recorded)
    counts = [np.bincount(number[some], minlength=len(both)) for some in (theirs, ~theirs)]
    return int(np.minimum(*counts).sum())


def differing(recorded: Rows, produced: Rows, count: int) -> npt.NDArray[np.bool_]:
    """Find the commands whose fills are not the recorded ones.

    Args:
        recorded: index of the command, order, size, price; in order.
        produced: the same.
        count: how many events there are.

    Returns:
        For each event whether it is such a command.
    """
    counts = [np.bincount(rows[:, 0], minlength=count) for rows in (recorded, produced)]
    wrong: npt.NDArray[np.bool_] = counts[0] != counts[1]
    one, other = (rows[~wrong[rows[:, 0]]] for rows in (recorded, produced))
    wrong[one[(one != other).any(axis=1), 0]] = True
    return wrong
