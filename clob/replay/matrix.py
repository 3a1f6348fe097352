"""Reads the matrix layout: order flow as plain ``int64`` matrices in a ``.npz`` file.

The grid is 1 to 99 and a lot is one token. All arrays are ``int64``, a row each:

``seed``
    side (1 buy, -1 sell), tick, size, id.
``commands``
    time in ns, kind (0 limit, 1 cancel, 2 reduce, 3 immediate or cancel), side of the order (so
    that 1 takes asks; of a cancel or a reduction it says nothing), tick, size (of a reduction it
    is what remains, of a cancel it says nothing), id, clean (not used).
``fills``
    index into ``commands``, id of the resting order, size, tick.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clob.order import Side
from clob.records import EVENT, FILL, Kind
from clob.replay.arrays import Arrays, require, require_in_order, take
from clob.replay.errors import ReplayFormatError
from clob.replay.recording import Recording, Records
from clob.units import PRICE_MAX, PRICE_MIN, WEI_PER_TOKEN

MATRIX_KINDS = (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC)
"""The kinds of an event, by their number in this layout."""

Columns: TypeAlias = dict[str, npt.NDArray[np.int64]]
"""The columns of a matrix by their name."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Which rows of a matrix are meant."""


def from_matrices(arrays: Arrays, name: str) -> Recording:
    """Read the matrix layout.

    Args:
        arrays: what the file holds.
        name: what to call the recording.

    Returns:
        The recording. Events are numbered by their place; the incoming order and the time of a
        fill are those of its event.

    Raises:
        ReplayFormatError: an array is missing or has the wrong dtype or shape; a kind, a time, an
            index, a side, a size, a tick or an id means nothing.
    """
    seed = _matrix(arrays, "seed", ("side", "tick", "size", "id"))
    commands = _matrix(arrays, "commands", ("ts_ns", "kind", "side", "tick", "size", "id", "clean"))
    fills = _matrix(arrays, "fills", ("event", "id", "size", "tick"))
    kind = commands["kind"]
    require((kind >= 0) & (kind < len(MATRIX_KINDS)), "commands", "the kind must be 0 to 3")
    require(commands["ts_ns"] >= 0, "commands", "the time must not be negative")
    require(fills["event"] >= 0, "fills", "the command must not be negative")
    require_in_order(fills["event"], len(kind))
    _check_orders("seed", seed)
    _check_orders("commands", commands, sideless=(kind == 1) | (kind == 2), sizeless=kind == 1)
    _check_orders("fills", fills)
    events = _matrix_events(commands, np.array(MATRIX_KINDS, np.uint8)[kind])
    return Recording(
        events=events,
        seed=_matrix_events(seed, np.full(len(seed["side"]), Kind.SEED, np.uint8)),
        fills=_matrix_fills(fills, events),
        lo=PRICE_MIN,
        hi=PRICE_MAX,
        lot_wei=WEI_PER_TOKEN,
        name=name,
    )


def _matrix(arrays: Arrays, name: str, columns: Sequence[str]) -> Columns:
    """Give the columns of a matrix by their names."""
    array = take(arrays, name)
    if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] != len(columns):
        raise ReplayFormatError(
            f"{name} must be int64 of {len(columns)} columns ({', '.join(columns)}), "
            f"not {array.dtype} of shape {array.shape}"
        )
    return {column: array[:, place] for place, column in enumerate(columns)}


def _check_orders(
    name: str, rows: Columns, *, sideless: Mask | bool = False, sizeless: Mask | bool = False
) -> None:
    """Refuse sides, sizes, ticks and ids that mean nothing, where the row needs them."""
    on_grid = (rows["tick"] >= PRICE_MIN) & (rows["tick"] <= PRICE_MAX)
    if "side" in rows:
        require((np.abs(rows["side"]) == 1) | sideless, name, "the side must be 1 or -1")
    require((rows["size"] > 0) | sizeless, name, "the size must be positive")
    require(on_grid, name, f"the tick must be {PRICE_MIN} to {PRICE_MAX}")
    require(rows["id"] >= 0, name, "the id must not be negative")


def _matrix_events(rows: Columns, kind: npt.NDArray[np.uint8]) -> Records:
    """Turn the rows of a matrix into events; they are numbered by their place."""
    events = np.zeros(len(kind), EVENT)
    events["seq"] = np.arange(len(kind))
    events["kind"] = kind
    events["side"] = np.where(rows["side"] > 0, Side.BUY, Side.SELL)
    for field, column in {"price": "tick", "size": "size", "order_id": "id"}.items():
        events[field] = rows[column]
    for field in ("ts_ns", "recv_ns"):
        events[field] = rows.get("ts_ns", 0)
    return events


def _matrix_fills(rows: Columns, events: Records) -> Records:
    """Turn the rows of a matrix into fills; the incoming order and the time are its event's."""
    fills = np.zeros(len(rows["event"]), FILL)
    columns = {"event": "event", "resting_id": "id", "size": "size", "price": "tick"}
    for field, column in columns.items():
        fills[field] = rows[column]
    causes = events[rows["event"]]
    fills["incoming_id"] = causes["order_id"]
    fills["ts_ns"] = causes["ts_ns"]
    return fills
