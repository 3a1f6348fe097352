"""The checks on arrays at the batch door, before anything of them is executed; both books use them.

NumPy is imported here and nowhere else in the engine, and only once an array is in sight.
"""

from typing import TYPE_CHECKING, Any

from clob import records
from clob.errors import InvalidArrayError, InvalidKindError
from clob.records import Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Records = npt.NDArray[np.void]
    Status = npt.NDArray[np.uint8]


def check_arrays(
    events: "Records", fills: "Records | None", status: "Status | None"
) -> "tuple[Records, Records | None, Status | None]":
    """Refuse arrays that the batch door cannot work on.

    Args:
        events: must be a one-dimensional contiguous aligned array of ``EVENT``.
        fills: None, or a writable one of ``FILL``, of any length.
        status: None, or a writable one of ``uint8``, at least as long as events.

    Returns:
        The same memory as plain arrays. What a subclass says of itself, its length or dtype, may
        be untrue, and a book that believed it would read and write where nothing is its own.

    Raises:
        InvalidArrayError: which array, what it is, what it must be; or two of them overlap.
    """
    events = _checked("events", events, records.EVENT, writable=False)
    if fills is not None:
        fills = _checked("fills", fills, records.FILL, writable=True)
    if status is not None:
        status = _checked_marks("status", status, len(events))
    if _overlap(events, fills, status):
        raise InvalidArrayError("events, fills and status must not share memory")
    return events, fills, status


def check_advance(
    events: "Records",
    fills: "Records",
    status: "Status | None",
    bests: "Records | None",
    kinds: "Status | None",
    differs: "Status | None",
) -> "tuple[Records, Records, Status | None, Records | None, Status | None, Status | None]":
    """Refuse arrays that ``advance`` cannot work on.

    Args:
        events: as for :func:`check_arrays`.
        fills: must be a writable array of ``FILL``.
        status: as for :func:`check_arrays`.
        bests: None, or a writable array of ``BEST``, of any length.
        kinds: as ``status``.
        differs: as ``status``.

    Returns:
        The same memory as plain arrays.

    Raises:
        InvalidArrayError: which array, what it is, what it must be; or two of them overlap.
    """
    events, _, status = check_arrays(events, None, status)
    fills = _checked("fills", fills, records.FILL, writable=True)
    if bests is not None:
        bests = _checked("bests", bests, records.BEST, writable=True)
    if kinds is not None:
        kinds = _checked_marks("kinds", kinds, len(events))
    if differs is not None:
        differs = _checked_marks("differs", differs, len(events))
    if _overlap(events, fills, status, bests, kinds, differs):
        raise InvalidArrayError(
            "events, fills, status, bests, kinds and differs must not share memory"
        )
    return events, fills, status, bests, kinds, differs


def known_types() -> tuple[Any, ...]:
    """Give what the arrays of ``advance`` are most of the time.

    Returns:
        The class of plain arrays, and the dtypes of events, fills, status and bests.
    """
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    return np.ndarray, records.EVENT, records.FILL, np.dtype(np.uint8), records.BEST


def check_seed(events: "Records") -> "Records":
    """Refuse an array that is not all orders to be rested.

    Returns:
        The same memory as a plain array.

    Raises:
        InvalidArrayError: the array has the wrong type, dtype or layout.
        InvalidKindError: an event is no ``SEED``.
    """
    events, _, _ = check_arrays(events, None, None)
    strangers = (events["kind"] != Kind.SEED).nonzero()[0]
    if len(strangers):
        index = int(strangers[0])
        raise InvalidKindError(
            f"kind must be {Kind.SEED!r}, not {events['kind'][index]} at event {index}"
        )
    return events


def empty_fills(count: int) -> "Records":
    """Make an array for so many fills."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    return np.empty(count, records.FILL)


def _overlap(*arrays: Any) -> bool:
    """Tell whether any two of some arrays, those that are not None, share memory."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    given = [array for array in arrays if array is not None]
    return any(
        np.may_share_memory(one, other)
        for place, one in enumerate(given)
        for other in given[place + 1 :]
    )


def _checked_marks(name: str, array: Any, count: int) -> Any:
    """Refuse an array that has no byte for each of so many events, or give it as a plain one."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    array = _checked(name, array, np.dtype(np.uint8), writable=True)
    if len(array) < count:
        raise InvalidArrayError(
            f"{name} must be at least as long as events, {count}, not {len(array)}"
        )
    return array


def _checked(name: str, array: Any, dtype: "np.dtype[Any]", *, writable: bool) -> Any:
    """Refuse one array by its type, dtype or layout, or give its memory as a plain array."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    if not isinstance(array, np.ndarray):
        raise InvalidArrayError(f"{name} must be a NumPy array, not {type(array).__name__}")
    array = np.asarray(array)
    if array.dtype != dtype:
        raise InvalidArrayError(f"{name} must have the dtype {dtype}, not {array.dtype}")
    if array.ndim != 1 or not array.flags.c_contiguous or not array.flags.aligned:
        raise InvalidArrayError(
            f"{name} must be one-dimensional, contiguous and aligned, not of shape {array.shape} "
            f"with strides {array.strides}"
        )
    if writable and not array.flags.writeable:
        raise InvalidArrayError(f"{name} must be writable, it is read-only")
    return array
