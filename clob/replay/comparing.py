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
    kinds = played.kinds
    places = np.arange(len(kinds))
    command = np.maximum.accumulate(np.where(kinds < FIRST_RECORD, places, 0))
    filled = np.flatnonzero(kinds == RECORDED)
    rows = played.events.take(filled)
    # Ids are below 2**63.
    columns = (command[filled], rows["order_id"].astype(np.int64), rows["size"], rows["price"])
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
    row = np.dtype((np.void, 4 * 8))
    (one, ones), (other, others) = (
        np.unique(np.ascontiguousarray(rows).view(row).ravel(), return_counts=True)
        for rows in (recorded, produced)
    )
    _, here, there = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return int(np.minimum(ones[here], others[there]).sum())


def differing(recorded: Rows, produced: Rows) -> npt.NDArray[np.int64]:
    """Find the commands whose fills are not the recorded ones.

    Args:
        recorded: index of the command, order, size, price; in order.
        produced: the same.

    Returns:
        The indices of the commands, upwards.
    """
    commands = np.union1d(recorded[:, 0], produced[:, 0])
    counts = [
        np.diff(np.searchsorted(rows[:, 0], np.append(commands, commands[-1:] + 1)))
        for rows in (recorded, produced)
    ]
    alike = commands[counts[0] == counts[1]]
    one, other = (rows[np.isin(rows[:, 0], alike)] for rows in (recorded, produced))
    wrong = one[(one != other).any(axis=1), 0]
    return np.union1d(commands[counts[0] != counts[1]], wrong)
