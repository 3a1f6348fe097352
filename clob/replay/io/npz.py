"""Reads and writes recordings as ``.npz`` files, without pickle; two layouts are understood.

**The layout of this package, version 1**, which :func:`write_npz` writes:

``meta``
    One-dimensional ``uint8``, a JSON object in UTF-8: ``format`` is ``"clob-recording"``,
    ``version`` is 1; ``lo`` and ``hi`` are the grid in ticks, ``lot_wei`` what a size of 1 stands
    for; ``name`` and ``note`` are texts.
``events``
    One-dimensional ``EVENT``, in order. See :mod:`clob.records` for the fields.
``seed``
    One-dimensional ``EVENT``, all of ``Kind.SEED``, oldest first; may be empty.
``fills``
    One-dimensional ``FILL``: what was recorded, in order, with ``event`` as an index into
    ``events``. Left out where nothing was recorded.

Any other file must have the layout of :mod:`clob.replay.io.npz`, recognised by its ``commands``.
"""

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.order import Side
from clob.records import EVENT, FILL, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.recording import Recording, Records
from clob.units import PRICE_MAX, PRICE_MIN, WEI_PER_TOKEN

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
"""The arrays of a file by their name."""

UNREADABLE = (
    EOFError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the standard library and NumPy raise over a damaged archive or array."""


def read_arrays(path: Path) -> Arrays:
    """Read every array of a file, without pickle.

    Args:
        path: the file.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: it is no zip archive, or a member of it is no whole array.
    """
    content = io.BytesIO(path.read_bytes())
    try:
        archive = zipfile.ZipFile(content)
    except UNREADABLE as error:
        raise ReplayFormatError(f"not a whole zip archive: {error}") from error
    with archive:
        members = archive.namelist()
        return {name.removesuffix(".npy"): _array(archive, name) for name in members}


def _array(archive: zipfile.ZipFile, member: str) -> npt.NDArray[Any]:
    """Read one array; the archive's own checksum covers it, since it is read to its end."""
    try:
        content = io.BytesIO(archive.read(member))
        array: npt.NDArray[Any] = np.lib.format.read_array(content, allow_pickle=False)
    except UNREADABLE as error:
        raise ReplayFormatError(f"array {member!r} cannot be read: {error}") from error
    return array


def take(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    """Give the array of that name, or raise ``ReplayFormatError``."""
    if name not in arrays:
        raise ReplayFormatError(f"there is no array {name!r}, only {sorted(arrays)}")
    return arrays[name]


def require(holds: npt.NDArray[np.bool_], name: str, rule: str) -> None:
    """Raise ``ReplayFormatError`` for the first row for which a rule does not hold."""
    if not holds.all():
        raise ReplayFormatError(f"{name}[{int(np.argmin(holds))}]: {rule}")


def require_in_order(index: npt.NDArray[Any], length: int) -> None:
    """Raise ``ReplayFormatError`` for fills whose event does not exist or goes back.

    Args:
        index: of the event of each fill, none negative.
        length: how many events there are.
    """
    require(index < length, "fills", f"the event must be below {length}")
    forward = np.diff(index.astype(np.int64), prepend=0) >= 0
    require(forward, "fills", "the event must not be before that of the fill above")


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


FORMAT = "clob-recording"
VERSION = 1

META_FIELDS: dict[str, type[int] | type[str]] = {
    "lo": int,
    "hi": int,
    "lot_wei": int,
    "name": str,
    "note": str,
}
"""The fields of a recording that are not arrays."""


def write_npz(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a recording, compressed; the same recording gives the same bytes.

    Args:
        path: where to; a file that is there already is replaced.
        recording: what to write.

    Raises:
        OSError: it cannot be written.
    """
    meta = {"format": FORMAT, "version": VERSION}
    meta |= {field: getattr(recording, field) for field in META_FIELDS}
    arrays: Arrays = {
        "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8),
        "events": _without_gaps(recording.events),
        "seed": _without_gaps(recording.seed),
    }
    if recording.fills is not None:
        arrays["fills"] = _without_gaps(recording.fills)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            # Opened by name a member carries no time of day, hence the same bytes.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    Path(path).write_bytes(content.getvalue())


def read_npz(path: str | os.PathLike[str]) -> Recording:
    """Read a recording, in either layout. Pickled objects are refused.

    Args:
        path: the file.

    Returns:
        The recording; its name is the file's where the file gives none.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: it is no zip archive, or a damaged one; an array is missing, has the
            wrong dtype or shape, or holds a value that means nothing.
    """
    arrays = read_arrays(Path(path))
    name = Path(path).stem
    return from_matrices(arrays, name) if "commands" in arrays else _from_records(arrays, name)


def _without_gaps(records: Records) -> Records:
    """Copy records so that the unused bytes between and behind their fields are zero."""
    copy = np.zeros(len(records), records.dtype)
    for field in records.dtype.names or ():
        copy[field] = records[field]
    return copy


def _from_records(arrays: Arrays, name: str) -> Recording:
    """Read the layout of this package."""
    meta = _meta(take(arrays, "meta"))
    events = _records(arrays, "events", EVENT)
    seed = _records(arrays, "seed", EVENT)
    fills = _records(arrays, "fills", FILL) if "fills" in arrays else None
    kinds = np.array(list(Kind), np.uint8)
    require(np.isin(events["kind"], kinds), "events", "the kind is unknown")
    require(events["side"] <= 1, "events", "the side must be 0 or 1")
    require(seed["kind"] == Kind.SEED, "seed", f"the kind must be {Kind.SEED.value}")
    require(seed["side"] <= 1, "seed", "the side must be 0 or 1")
    if fills is not None:
        require_in_order(fills["event"], len(events))
    meta["name"] = meta["name"] or name
    return Recording(events=events, seed=seed, fills=fills, **meta)


def _records(arrays: Arrays, name: str, dtype: np.dtype[np.void]) -> Records:
    """Give an array of records, aligned as the book wants it."""
    array = take(arrays, name)
    if array.dtype != dtype or array.ndim != 1:
        raise ReplayFormatError(
            f"{name} must be one-dimensional of dtype {dtype}, "
            f"not {array.ndim}-dimensional of {array.dtype}"
        )
    return np.require(array, dtype=dtype, requirements=["C", "A", "W"])


def _meta(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Read the fields that are not arrays."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ReplayFormatError(
            f"meta must be one-dimensional of uint8, not {array.ndim}-dimensional of {array.dtype}"
        )
    try:
        meta = json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise ReplayFormatError(f"meta is no JSON: {error}") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ReplayFormatError(f"meta does not say that its format is {FORMAT!r}")
    if meta.get("version") != VERSION:
        raise ReplayFormatError(f"version must be {VERSION}, not {meta.get('version')!r}")
    for field, kind in META_FIELDS.items():
        if type(meta.get(field)) is not kind:
            raise ReplayFormatError(f"meta must have {field!r} of type {kind.__name__}")
    return {field: meta[field] for field in META_FIELDS}


# MERGED clob.replay.io.npz: Reads the matrix layout: order flow as plain ``int64`` matrices in a ``.npz`` file.
#
# The grid is 1 to 99 and a lot is one token. All arrays are ``int64``, a row each:
#
# ``seed``
#     side (1 buy, -1 sell), tick, size, id.
# ``commands``
#     time in ns, kind (0 limit, 1 cancel, 2 reduce, 3 immediate or cancel), side of the order (so
#     that 1 takes asks; of a cancel or a reduction it says nothing), tick, size (of a reduction it
#     is what remains, of a cancel it says nothing), id, clean (not used).
# ``fills``
#     index into ``commands``, id of the resting order, size, tick.

# MERGED clob.replay.io.npz: Takes ``.npz`` files apart, distrusting every byte; the layouts are in the modules beside it.
