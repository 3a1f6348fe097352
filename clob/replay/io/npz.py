"""Reads and writes recordings as ``.npz`` files, without pickle. Two layouts are supported.

**Version 1 of the layout of this package**, written by :func:`write_npz`:

``meta``
    One-dimensional ``uint8``, a JSON object in UTF-8: ``format`` is ``"clob-recording"``,
    ``version`` is 1; ``lo`` and ``hi`` are the grid in ticks, ``lot_wei`` is the size of one lot;
    ``name`` and ``note`` are strings. Optional: ``scale``, the ticks per token; ``market`` and
    ``outcome``, the names of the book; ``inferred``, whether a reader inferred the fills;
    ``labels``, the texts of the prices.
``events``
    One-dimensional ``EVENT``, in order. See :mod:`clob.records` for the fields.
``seed``
    One-dimensional ``EVENT``, all of ``Kind.SEED``, oldest first; may be empty.
``fills``
    One-dimensional ``FILL``: the recorded fills in order, with ``event`` as an index into
    ``events``. Missing if fills were not recorded.

**The matrix layout**, recognised by its array ``commands`` and only read. The grid is 1 to 99 and
a lot is one token. All arrays are ``int64`` with one row per item and these columns:

``seed``
    side (1 buy, -1 sell), tick, size, id.
``commands``
    time in ns; kind (0 limit, 1 cancel, 2 reduce, 3 immediate or cancel); side of the order
    (ignored for a cancel or a reduction); tick; size (the remainder for a reduction, ignored for a
    cancel); id; clean (ignored).
``fills``
    index into ``commands``, id of the resting order, size, tick.
"""

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.order import Side
from clob.records import EVENT, FILL, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.io.recording import CENTS, Recording, Records
from clob.units import PRICE_MAX, PRICE_MIN, WEI_PER_TOKEN

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
"""The arrays of a file by name."""

UNREADABLE = (
    EOFError,
    KeyError,
    MemoryError,
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
"""Raised by the standard library and NumPy for a damaged archive or array."""


def read_arrays(path: Path) -> Arrays:
    """Read every array of a file, without pickle.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the file is not a zip archive, or a member is not a complete array.
    """
    content = io.BytesIO(path.read_bytes())
    try:
        archive = zipfile.ZipFile(content)
    except UNREADABLE as error:
        raise ReplayFormatError(f"not a complete zip archive: {error}") from error
    with archive:
        members = archive.namelist()
        return {name.removesuffix(".npy"): _array(archive, name) for name in members}


def _array(archive: zipfile.ZipFile, member: str) -> npt.NDArray[Any]:
    """Read one array to its end, so that the checksum of the archive is verified."""
    try:
        content = io.BytesIO(archive.read(member))
        array: npt.NDArray[Any] = np.lib.format.read_array(content, allow_pickle=False)
    except UNREADABLE as error:
        raise ReplayFormatError(f"array {member!r} cannot be read: {error}") from error
    return array


def _take(arrays: Arrays, name: str) -> npt.NDArray[Any]:
    if name not in arrays:
        raise ReplayFormatError(f"array {name!r} is missing; got {sorted(arrays)}")
    return arrays[name]


def _require(holds: npt.NDArray[np.bool_], name: str, rule: str) -> None:
    """Raise ``ReplayFormatError`` for the first row that violates a rule."""
    if not holds.all():
        raise ReplayFormatError(f"{name}[{int(np.argmin(holds))}]: {rule}")


def _require_in_order(index: npt.NDArray[Any], length: int) -> None:
    """Raise ``ReplayFormatError`` for fills with an unknown event or in the wrong order."""
    _require(index < length, "fills", f"event must be below {length}")
    forward = np.diff(index.astype(np.int64), prepend=0) >= 0
    _require(forward, "fills", "event must not be lower than in the row above")


MATRIX_KINDS = (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC)
"""The kinds of events, indexed by their number in the matrix layout."""

Columns: TypeAlias = dict[str, npt.NDArray[np.int64]]
"""The columns of a matrix by name."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""Selects rows of a matrix."""


def _from_matrices(arrays: Arrays, name: str) -> Recording:
    """Read the matrix layout, and check every value of it."""
    seed = _matrix(arrays, "seed", ("side", "tick", "size", "id"))
    commands = _matrix(arrays, "commands", ("ts_ns", "kind", "side", "tick", "size", "id", "clean"))
    fills = _matrix(arrays, "fills", ("event", "id", "size", "tick"))
    kind = commands["kind"]
    _require((kind >= 0) & (kind < len(MATRIX_KINDS)), "commands", "kind must be 0 to 3")
    _require(commands["ts_ns"] >= 0, "commands", "time must not be negative")
    _require(fills["event"] >= 0, "fills", "event must not be negative")
    _require_in_order(fills["event"], len(kind))
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
    array = _take(arrays, name)
    if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] != len(columns):
        raise ReplayFormatError(
            f"{name} must be int64 with {len(columns)} columns ({', '.join(columns)}); "
            f"got {array.dtype} of shape {array.shape}"
        )
    return {column: array[:, place] for place, column in enumerate(columns)}


def _check_orders(
    name: str, rows: Columns, *, sideless: Mask | bool = False, sizeless: Mask | bool = False
) -> None:
    """Check sides, sizes, ticks and ids, except where the kind of the row ignores them."""
    on_grid = (rows["tick"] >= PRICE_MIN) & (rows["tick"] <= PRICE_MAX)
    if "side" in rows:
        _require((np.abs(rows["side"]) == 1) | sideless, name, "side must be 1 or -1")
    _require((rows["size"] > 0) | sizeless, name, "size must be positive")
    _require(on_grid, name, f"tick must be {PRICE_MIN} to {PRICE_MAX}")
    _require(rows["id"] >= 0, name, "id must not be negative")


def _matrix_events(rows: Columns, kind: npt.NDArray[np.uint8]) -> Records:
    """Convert the rows of a matrix to events, numbered by index."""
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
    """Convert the rows of a matrix to fills, with the incoming order and time of their events."""
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
"""The fields of a recording that ``meta`` holds, with their types."""

META_DEFAULTS: dict[str, Any] = {
    "scale": CENTS,
    "market": "",
    "outcome": "YES",
    "inferred": False,
    "labels": [],
}
"""The fields that ``meta`` holds unless they have these values."""


def write_npz(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write a compressed recording; equal recordings produce equal bytes.

    Args:
        path: the file to write; an existing file is replaced.
        recording: the recording.

    Raises:
        OSError: the file cannot be written.
    """
    records = {"events": recording.events, "seed": recording.seed}
    if recording.fills is not None:
        records["fills"] = recording.fills
    arrays = {name: without_gaps(rows) for name, rows in records.items()}
    write_arrays(path, {"meta": meta_array(recording), **arrays})


def meta_array(source: Any) -> npt.NDArray[np.uint8]:
    """Return the array ``meta`` of a recording or a stream."""
    meta = {"format": FORMAT, "version": VERSION}
    meta |= {field: getattr(source, field) for field in META_FIELDS}
    meta |= optional_meta(source)
    return np.frombuffer(json.dumps(meta).encode(), np.uint8)


def optional_meta(source: Any) -> dict[str, Any]:
    """Return the fields of a recording or a stream that differ from ``META_DEFAULTS``."""
    fields: dict[str, Any] = {field: getattr(source, field, None) for field in META_DEFAULTS}
    if fields["market"] is None:
        first = source.instruments[0]
        fields |= {"market": first.market, "outcome": first.outcome}
    fields["labels"] = list(fields["labels"])
    return {name: value for name, value in fields.items() if value != META_DEFAULTS[name]}


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays as one compressed file; equal arrays produce equal bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            # A member opened by name has no modification time, hence equal bytes.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_npz(path: str | os.PathLike[str]) -> Recording:
    """Read a recording in either layout. Pickled objects are rejected.

    Args:
        path: the file.

    Returns:
        The recording, named after the file if the file has no name for it.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the file is not a zip archive or is damaged; an array is missing, has
            the wrong dtype or shape, or holds a value out of range.
    """
    name = Path(path).stem
    try:
        arrays = read_arrays(Path(path))
        return _from_matrices(arrays, name) if "commands" in arrays else _from_records(arrays, name)
    except ReplayFormatError as error:
        raise ReplayFormatError(f"{Path(path).name}: {error}") from error


def without_gaps(records: Records) -> Records:
    """Copy records with zeros as the padding between and after their fields."""
    copy = np.zeros(len(records), records.dtype)
    for field in records.dtype.names or ():
        copy[field] = records[field]
    return copy


def _from_records(arrays: Arrays, name: str) -> Recording:
    meta = _meta(_take(arrays, "meta"))
    events = _records(arrays, "events", EVENT)
    seed = _records(arrays, "seed", EVENT)
    fills = _records(arrays, "fills", FILL) if "fills" in arrays else None
    kinds = np.array(list(Kind), np.uint8)
    _require(np.isin(events["kind"], kinds), "events", "kind is unknown")
    _require(events["side"] <= 1, "events", "side must be 0 or 1")
    _require(seed["kind"] == Kind.SEED, "seed", f"kind must be {Kind.SEED.value}")
    _require(seed["side"] <= 1, "seed", "side must be 0 or 1")
    if fills is not None:
        _require_in_order(fills["event"], len(events))
    meta["name"] = meta["name"] or name
    return Recording(events=events, seed=seed, fills=fills, **meta)


def _records(arrays: Arrays, name: str, dtype: np.dtype[np.void]) -> Records:
    """Return an array of records, aligned as the book requires."""
    array = _take(arrays, name)
    if array.dtype != dtype or array.ndim != 1:
        raise ReplayFormatError(
            f"{name} must be one-dimensional of dtype {dtype}; "
            f"got {array.ndim}-dimensional of {array.dtype}"
        )
    return np.require(array, dtype=dtype, requirements=["C", "A", "W"])


def _meta(array: npt.NDArray[Any]) -> dict[str, Any]:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ReplayFormatError(
            f"meta must be one-dimensional of uint8; got {array.ndim}-dimensional of {array.dtype}"
        )
    try:
        meta = json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise ReplayFormatError(f"meta must be JSON: {error}") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise ReplayFormatError(f"meta must be an object whose format is {FORMAT!r}")
    if meta.get("version") != VERSION:
        raise ReplayFormatError(f"version must be {VERSION}; got {meta.get('version')!r}")
    for field, kind in META_FIELDS.items():
        if type(meta.get(field)) is not kind:
            raise ReplayFormatError(f"meta must have {field!r} of type {kind.__name__}")
    for field, default in META_DEFAULTS.items():
        if type(meta.get(field, default)) is not type(default):
            wanted = f"{field!r} of type {type(default).__name__}, or not at all"
            raise ReplayFormatError(f"meta must have {wanted}")
    if meta.get("scale", CENTS) < 1:
        raise ReplayFormatError(f"scale must be 1 or more; got {meta['scale']}")
    check_labels(meta.get("labels", []), meta["lo"], meta["hi"])
    return {field: meta[field] for field in META_FIELDS} | {
        field: meta[field] for field in META_DEFAULTS if field in meta
    }


def check_labels(labels: list[Any], lo: int, hi: int) -> None:
    """Raise ``ReplayFormatError`` unless each price has a text, or none has."""
    if labels and (len(labels) != hi - lo + 1 or not all(type(one) is str for one in labels)):
        raise ReplayFormatError(f"labels must be {hi - lo + 1} strings; got {len(labels)} values")
