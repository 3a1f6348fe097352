"""Takes ``.npz`` files apart, distrusting every byte; the layouts are in the modules beside it."""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from clob.replay.errors import ReplayFormatError

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
