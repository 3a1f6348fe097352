"""Checks that do not depend on the resting orders: books, single commands, arrays of records.

Both books call these functions, so they raise the same errors with the same texts. The checks of a
command run in the order of precedence of :mod:`clob.errors`. NumPy is imported only by the checks
on arrays, once the first array arrives.
"""

from typing import TYPE_CHECKING, Any, Protocol

from clob import errors, records
from clob.events import RemovalReason
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.records import Kind
from clob.units import (
    ORDER_ID_MAX,
    OWNER_MAX,
    PRICE_MAX,
    PRICE_MIN,
    SIZE_MAX,
    TICK_LIMIT,
    TICKS_MAX,
    TIME_MAX,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Records = npt.NDArray[np.void]
    Status = npt.NDArray[np.uint8]


class _Grid(Protocol):
    """The properties of a book that an order is checked against."""

    @property
    def lo(self) -> int: ...
    @property
    def hi(self) -> int: ...
    @property
    def lot_wei(self) -> int: ...
    @property
    def token(self) -> str: ...


def check_book(lo: int, hi: int, token: str, lot_wei: int, capacity: int, market: str) -> None:
    """Check the arguments of ``Book``; raise ``InvalidBookError``."""
    for name, value in (("lo", lo), ("hi", hi), ("lot_wei", lot_wei), ("capacity", capacity)):
        if type(value) is not int:
            raise errors.InvalidBookError(f"{name} must be an integer; got {show(value)}")
    for name, text in (("token", token), ("market", market)):
        if type(text) is not str:
            raise errors.InvalidBookError(f"{name} must be a str; got {show(text)}")
    if not -TICK_LIMIT <= lo <= hi <= TICK_LIMIT:
        raise errors.InvalidBookError(
            f"lo and hi must be in order within {-TICK_LIMIT} to {TICK_LIMIT}; got {lo} and {hi}"
        )
    if hi - lo >= TICKS_MAX:
        raise errors.InvalidBookError(f"a book spans at most {TICKS_MAX} prices; got {hi - lo + 1}")
    if not 1 <= lot_wei <= SIZE_MAX:
        raise errors.InvalidBookError(f"lot_wei must be from 1 to {SIZE_MAX}; got {lot_wei}")
    if not 0 <= capacity <= 2**31:
        raise errors.InvalidBookError(f"capacity must be from 0 to {2**31} orders; got {capacity}")


def check_range(count: int, start: int, stop: int | None, until_ns: int | None) -> None:
    """Check the range of events that ``advance`` executes; raise ``ValueError``."""
    stop = count if stop is None else stop
    if type(start) is not int or type(stop) is not int or not 0 <= start <= stop <= count:
        raise ValueError(
            f"start and stop must be in order from 0 to {count}; got {show(start)} and {show(stop)}"
        )
    if until_ns is not None and (type(until_ns) is not int or not -(2**63) <= until_ns < 2**63):
        raise ValueError(f"until_ns must be None or a 64-bit integer; got {show(until_ns)}")


def check_limit(limit: int | None) -> None:
    """Check the number of levels to return; raise ``ValueError``."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ValueError(f"limit must be None or an integer of 0 or more; got {show(limit)}")


def check_filters(
    watch: int, instrument: int | None, base: int, passes: bool, verify: bool
) -> None:
    """Check the owner to watch, the instrument, the number of the first event and the flags."""
    if type(watch) is not int or not 0 <= watch < 2**31:
        raise ValueError(f"watch must be an owner from 0 to {2**31 - 1}; got {show(watch)}")
    if instrument is not None and (type(instrument) is not int or not 0 <= instrument < 2**16):
        raise ValueError(
            f"instrument must be None or from 0 to {2**16 - 1}; got {show(instrument)}"
        )
    if type(base) is not int or not 0 <= base < 2**63:
        raise ValueError(f"base must be from 0 to {2**63 - 1}; got {show(base)}")
    for name, flag in (("passes", passes), ("verify", verify)):
        if type(flag) is not bool:
            raise ValueError(f"{name} must be True or False; got {show(flag)}")


def check_counts(
    fill_count: int, fill_room: int, best_count: int, best_room: int, best_limit: int | None
) -> None:
    """Check how many rows were written before, against the lengths of the arrays."""
    counts = (("fill_count", fill_count, fill_room), ("best_count", best_count, best_room))
    for name, count, room in counts:
        if type(count) is not int or not 0 <= count <= room:
            raise ValueError(f"{name} must be from 0 to {room}; got {show(count)}")
    if best_limit is not None and (type(best_limit) is not int or not 0 <= best_limit < 2**63):
        raise ValueError(
            f"best_limit must be None or from 0 to {2**63 - 1}; got {show(best_limit)}"
        )


def check_time(now_ms: int) -> None:
    """Check that a time is an integer from 0 to ``TIME_MAX``."""
    if type(now_ms) is not int or not 0 <= now_ms <= TIME_MAX:
        raise errors.InvalidTimeError(
            f"now_ms must be an integer from 0 to {TIME_MAX}; got {show(now_ms)}"
        )


def check_reason(reason: RemovalReason) -> None:
    """Check that a reason is a :class:`~clob.RemovalReason`."""
    if type(reason) is not RemovalReason:
        raise errors.InvalidInstructionError(f"reason must be a RemovalReason; got {show(reason)}")


def check_policy(post_only: bool, self_trade: SelfTrade | None) -> None:
    """Check the types of ``post_only`` and ``self_trade``."""
    if type(post_only) is not bool:
        raise errors.InvalidInstructionError(
            f"post_only must be True or False; got {show(post_only)}"
        )
    if self_trade is not None and type(self_trade) is not SelfTrade:
        raise errors.InvalidInstructionError(
            f"self_trade must be a SelfTrade or None; got {show(self_trade)}"
        )


def check_trades_max(trades_max: int | None) -> None:
    """Check that a limit on trades is None or an integer of 1 or more."""
    if trades_max is not None and (type(trades_max) is not int or trades_max < 1):
        raise errors.InvalidInstructionError(
            f"trades_max must be None or an integer of 1 or more; got {show(trades_max)}"
        )


def check_instructions(order: Order) -> None:
    """Check that the instructions of an order are known and consistent."""
    tif = order.time_in_force
    if type(tif) is not TimeInForce:
        raise errors.InvalidInstructionError(
            f"time_in_force must be a TimeInForce; got {show(tif)}"
        )
    check_policy(order.post_only, order.self_trade)
    if type(order.expiration_s) is not int or order.expiration_s < 0:
        raise errors.InvalidInstructionError(
            f"expiration_s must be an integer of 0 or more; got {show(order.expiration_s)}"
        )
    if order.post_only and tif in (TimeInForce.IOC, TimeInForce.FOK):
        raise errors.InvalidInstructionError(
            f"post_only needs time_in_force GTC or GTD; got {tif!r}"
        )
    if tif is TimeInForce.GTD and not order.expiration_s:
        raise errors.InvalidInstructionError("time_in_force GTD needs expiration_s above 0; got 0")


def check_new_id(order_id: str | int) -> None:
    """Check the id of a new order."""
    if type(order_id) is str:
        if not order_id:
            raise errors.InvalidOrderIdError("order id must have at least 1 character; got ''")
    elif type(order_id) is not int or not 0 <= order_id <= ORDER_ID_MAX:
        raise errors.InvalidOrderIdError(
            f"order id must be a str or an integer from 0 to {ORDER_ID_MAX}; got {show(order_id)}"
        )


def check_owner(owner: int) -> None:
    """Check that an owner number is one that callers may use."""
    if owner > OWNER_MAX:
        raise errors.InvalidOwnerError(f"owner must be at most {OWNER_MAX}; got {owner}")


def check_id(order_id: str | int) -> None:
    """Check the id or number of a resting order."""
    if type(order_id) is not str and not (type(order_id) is int and 0 <= order_id < 2**64):
        raise errors.InvalidOrderIdError(
            f"order id must be a str or an integer from 0 to {2**64 - 1}; got {show(order_id)}"
        )


def check_number(number: int) -> None:
    """Check the number of an order."""
    check_integer("number", number, 0, 2**64 - 1, errors.InvalidOrderIdError)


def check_integer(
    name: str, value: object, least: int, most: int, error: type[errors.RejectedError]
) -> None:
    """Raise ``error`` unless a value is an integer in a range."""
    if type(value) is not int or not least <= value <= most:
        raise error(f"{name} must be an integer from {least} to {most}; got {show(value)}")


def check_price(price: int, lo: int, hi: int) -> None:
    """Check that a price is an integer on the grid."""
    if type(price) is not int or not lo <= price <= hi:
        unit = "cents" if (lo, hi) == (PRICE_MIN, PRICE_MAX) else "ticks"
        raise errors.PriceOutOfRangeError(
            f"price must be an integer from {lo} to {hi} ({unit}); got {show(price)}"
        )


def check_size(size: int, lot_wei: int) -> None:
    """Check that a size is a positive integer, a multiple of the lot and not too large."""
    if type(size) is not int or size <= 0:
        raise errors.InvalidAmountError(
            f"size must be an integer of 1 wei or more; got {show(size)}"
        )
    if size % lot_wei:
        below = size - size % lot_wei
        nearest = f"{show(below)} or {show(below + lot_wei)}" if below else f"{lot_wei}"
        raise errors.InvalidAmountError(
            f"size must be a multiple of the lot of {lot_wei} wei; got {show(size)}, "
            f"nearest: {nearest}"
        )
    if size > SIZE_MAX:
        raise errors.AmountTooLargeError(f"size must be at most {SIZE_MAX} wei; got {show(size)}")


def plain_order(order: Order) -> Order:
    """Return an order as a plain :class:`~clob.Order`.

    The fields of a subclass are read only once, since its attributes may change between reads.

    Raises:
        TypeError: the argument is not an ``Order``.
    """
    if type(order) is Order:
        return order
    if not isinstance(order, Order):
        raise TypeError(f"order must be an Order; got {show(order)}")
    return Order(**{name: getattr(order, name) for name in Order.__struct_fields__})


def check_order(order: Order, book: _Grid, now_ms: int) -> None:
    """Check the fields of a new order, from :func:`plain_order`, against the book.

    Raises:
        RejectedError: the first rule that the order breaks, in the order of :mod:`clob.errors` from
            ``INVALID_TIME`` to ``ORDER_EXPIRED``.
    """
    check_time(now_ms)
    check_instructions(order)
    if type(order.side) is not Side:
        raise errors.InvalidSideError(f"side must be Side.BUY or Side.SELL; got {show(order.side)}")
    check_new_id(order.id)
    if type(order.maker) is not str:
        raise errors.InvalidOwnerError(f"maker must be a str; got {show(order.maker)}")
    if book.token and order.token != book.token:
        raise errors.TokenNotInMarketError(
            f"token must be {show(book.token)}; got {show(order.token)}"
        )
    check_price(order.price, book.lo, book.hi)
    check_size(order.size, book.lot_wei)
    # "Orders past their expiration are rejected from matching." -- specification, States and
    # transitions. The order is still valid during the second of its expiration.
    if order.expiration_s and now_ms // 1000 > order.expiration_s:
        raise errors.OrderExpiredError(
            f"the order expired at second {order.expiration_s}; the time is {now_ms // 1000}"
        )


def show(value: object) -> str:
    """Return the ``repr`` of a rejected value, shortened to 120 characters."""
    if isinstance(value, int) and value.bit_length() > 300:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # the repr of a foreign object may raise anything
        text = f"a {type(value).__name__} without a repr"
    return text if len(text) <= 120 else f"{text[:117]}..."


# ----- arrays ------------------------------------------------------------------------------


def check_arrays(
    events: "Records", fills: "Records | None", status: "Status | None"
) -> "tuple[Records, Records | None, Status | None]":
    """Check the arrays of :meth:`clob.Book.run`.

    Returns:
        The same memory as plain arrays: a subclass may report a wrong length or dtype, and the
        compiled book would access memory out of bounds.

    Raises:
        InvalidArrayError: an array has the wrong type, dtype, layout or length, or two overlap.
    """
    events = _checked("events", events, records.EVENT, writable=False)
    if fills is not None:
        fills = _checked("fills", fills, records.FILL, writable=True)
    if status is not None:
        status = _checked_bytes("status", status, len(events))
    if _overlap(events, fills, status):
        raise errors.InvalidArrayError("events, fills and status must not share memory")
    return events, fills, status


def check_advance(
    events: "Records",
    fills: "Records",
    status: "Status | None",
    bests: "Records | None",
    kinds: "Status | None",
    differs: "Status | None",
) -> "tuple[Records, Records, Status | None, Records | None, Status | None, Status | None]":
    """Check the arrays of :meth:`clob.Book.advance`, as :func:`check_arrays` does."""
    events, _, status = check_arrays(events, None, status)
    fills = _checked("fills", fills, records.FILL, writable=True)
    if bests is not None:
        bests = _checked("bests", bests, records.BEST, writable=True)
    if kinds is not None:
        kinds = _checked_bytes("kinds", kinds, len(events))
    if differs is not None:
        differs = _checked_bytes("differs", differs, len(events))
    if _overlap(events, fills, status, bests, kinds, differs):
        raise errors.InvalidArrayError(
            "events, fills, status, bests, kinds and differs must not share memory"
        )
    return events, fills, status, bests, kinds, differs


def array_types() -> tuple[Any, ...]:
    """Return the class of plain arrays, and the dtypes of events, fills, status and bests."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    return np.ndarray, records.EVENT, records.FILL, np.dtype(np.uint8), records.BEST


def check_seed(events: "Records") -> "Records":
    """Check the array of :meth:`clob.Book.seed`, as :func:`check_arrays` does."""
    events, _, _ = check_arrays(events, None, None)
    others = (events["kind"] != Kind.SEED).nonzero()[0]
    if len(others):
        index = int(others[0])
        raise errors.InvalidKindError(
            f"kind must be {Kind.SEED!r} in seed; got {events['kind'][index]} at event {index}"
        )
    return events


def empty_fills(count: int) -> "Records":
    """Return an uninitialised array for this many fills."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    return np.empty(count, records.FILL)


def _overlap(*arrays: Any) -> bool:
    """Return whether any two of the arrays share memory; None is skipped."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    present = [array for array in arrays if array is not None]
    return any(
        np.may_share_memory(one, other)
        for place, one in enumerate(present)
        for other in present[place + 1 :]
    )


def _checked_bytes(name: str, array: Any, count: int) -> Any:
    """Check an array that needs a byte for each event; return it as a plain array."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    array = _checked(name, array, np.dtype(np.uint8), writable=True)
    if len(array) < count:
        raise errors.InvalidArrayError(
            f"{name} must have at least {count} items, one per event; got {len(array)}"
        )
    return array


def _checked(name: str, array: Any, dtype: "np.dtype[Any]", *, writable: bool) -> Any:
    """Check type, dtype and layout of an array; return its memory as a plain array."""
    import numpy as np  # noqa: PLC0415 - only where arrays are used

    if not isinstance(array, np.ndarray):
        raise errors.InvalidArrayError(f"{name} must be a NumPy array; got {type(array).__name__}")
    array = np.asarray(array)
    if array.dtype != dtype:
        raise errors.InvalidArrayError(f"{name} must have dtype {dtype}; got {array.dtype}")
    if array.ndim != 1 or not array.flags.c_contiguous or not array.flags.aligned:
        raise errors.InvalidArrayError(
            f"{name} must be one-dimensional, contiguous and aligned; got shape {array.shape} "
            f"with strides {array.strides}"
        )
    if writable and not array.flags.writeable:
        raise errors.InvalidArrayError(f"{name} must be writable; got a read-only array")
    return array
