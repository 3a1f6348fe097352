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

Any other file must have the layout of :mod:`clob.replay.matrix`, recognised by its ``commands``.
"""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clob.records import EVENT, FILL, Kind
from clob.replay.arrays import Arrays, read_arrays, require, require_in_order, take
from clob.replay.errors import ReplayFormatError
from clob.replay.matrix import from_matrices
from clob.replay.recording import Recording, Records

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
