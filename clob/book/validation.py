"""The rules on a single command that need no book: each check raises its own refusal.

Both books call these, so that they refuse for the same reason with the same words. The checks
run in the order of precedence of :mod:`clob.errors`.
"""

from typing import TYPE_CHECKING, Any, Protocol

from clob import records
from clob.errors import (
    AmountTooLargeError,
    InvalidAmountError,
    InvalidArrayError,
    InvalidBookError,
    InvalidInstructionError,
    InvalidKindError,
    InvalidOrderIdError,
    InvalidOwnerError,
    InvalidSideError,
    InvalidTimeError,
    OrderExpiredError,
    PriceOutOfRangeError,
    TokenNotInMarketError,
)
from clob.events import RemovalReason
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.records import Kind
from clob.units import ORDER_ID_MAX, OWNER_MAX, SIZE_MAX, TICK_LIMIT, TICKS_MAX, TIME_MAX

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Records = npt.NDArray[np.void]
    Status = npt.NDArray[np.uint8]


class Grid(Protocol):
    """What of a book an order must suit."""

    @property
    def lo(self) -> int:
        """The lowest price."""

    @property
    def hi(self) -> int:
        """The highest price."""

    @property
    def lot_wei(self) -> int:
        """What every size is a multiple of."""

    @property
    def token(self) -> str:
        """The token, empty for any."""


def check_book(lo: int, hi: int, token: str, lot_wei: int, capacity: int, market: str) -> None:
    """Check what a book is made of.

    Raises:
        InvalidBookError: the grid is empty, too wide or off the 32-bit range; the lot is not 1 to
            ``SIZE_MAX``; the capacity is not 0 to 2**31; token or market is no text.
    """
    for name, value in (("lo", lo), ("hi", hi), ("lot_wei", lot_wei), ("capacity", capacity)):
        if type(value) is not int:
            raise InvalidBookError(f"{name} must be an integer, not {show(value)}")
    for name, text in (("token", token), ("market", market)):
        if type(text) is not str:
            raise InvalidBookError(f"{name} must be a text, not {show(text)}")
    if not -TICK_LIMIT <= lo <= hi <= TICK_LIMIT:
        raise InvalidBookError(
            f"the grid must run upwards within {-TICK_LIMIT} to {TICK_LIMIT}, not {lo} to {hi}"
        )
    if hi - lo >= TICKS_MAX:
        raise InvalidBookError(f"a grid has at most {TICKS_MAX} prices, not {hi - lo + 1}")
    if not 1 <= lot_wei <= SIZE_MAX:
        raise InvalidBookError(f"lot_wei must be 1 to {SIZE_MAX}, not {lot_wei}")
    if not 0 <= capacity <= 2**31:
        raise InvalidBookError(f"capacity must be 0 to {2**31} orders, not {capacity}")


def check_span(count: int, start: int, stop: int | None, until_ns: int | None) -> None:
    """Refuse what no part of so many events can be.

    Raises:
        ValueError: ``start`` and ``stop`` are not in order within 0 to ``count``, or ``until_ns``
            is no 64-bit integer.
    """
    stop = count if stop is None else stop
    if type(start) is not int or type(stop) is not int or not 0 <= start <= stop <= count:
        raise ValueError(
            f"start and stop must go upwards from 0 to {count}, not {start!r} and {stop!r}"
        )
    if until_ns is not None and (type(until_ns) is not int or not -(2**63) <= until_ns < 2**63):
        raise ValueError(f"until_ns must be an integer of 64 bits, not {until_ns!r}")


def check_stretch(watch: int, instrument: int | None, base: int) -> None:
    """Refuse what nobody, no book and no first event of a stretch can have as its number.

    Raises:
        ValueError: ``watch`` is not 0 to ``2**31 - 1``, ``instrument`` neither None nor 0 to
            ``2**16 - 1``, or ``base`` not 0 to ``2**63 - 1``.
    """
    if type(watch) is not int or not 0 <= watch < 2**31:
        raise ValueError(f"watch must be an owner from 0 to {2**31 - 1}, not {watch!r}")
    if instrument is not None and (type(instrument) is not int or not 0 <= instrument < 2**16):
        raise ValueError(f"instrument must be from 0 to {2**16 - 1}, not {instrument!r}")
    if type(base) is not int or not 0 <= base < 2**63:
        raise ValueError(f"base must be from 0 to {2**63 - 1}, not {base!r}")


def check_written(filled: int, fill_room: int, told: int, best_room: int, most: int | None) -> None:
    """Refuse more rows than there is room for.

    Raises:
        ValueError: ``filled`` or ``told`` is not 0 to the length of its array, or ``most`` neither
            None nor 0 to ``2**63 - 1``.
    """
    for name, count, room in (("filled", filled, fill_room), ("told", told, best_room)):
        if type(count) is not int or not 0 <= count <= room:
            raise ValueError(f"{name} must be from 0 to {room}, not {count!r}")
    if most is not None and (type(most) is not int or not 0 <= most < 2**63):
        raise ValueError(f"most must be None or from 0 to {2**63 - 1}, not {most!r}")


def check_time(now_ms: int) -> None:
    """Refuse a time that is no integer from 0 to ``TIME_MAX``."""
    if type(now_ms) is not int or not 0 <= now_ms <= TIME_MAX:
        raise InvalidTimeError(
            f"now_ms must be an integer from 0 to {TIME_MAX}, not {show(now_ms)}"
        )


def check_reason(reason: RemovalReason) -> None:
    """Refuse a reason that is no :class:`~clob.RemovalReason`."""
    if type(reason) is not RemovalReason:
        raise InvalidInstructionError(f"reason must be a RemovalReason, not {show(reason)}")


def check_policy(post_only: bool, self_trade: SelfTrade | None) -> None:
    """Refuse instructions of the wrong type."""
    if type(post_only) is not bool:
        raise InvalidInstructionError(f"post_only must be True or False, not {show(post_only)}")
    if self_trade is not None and type(self_trade) is not SelfTrade:
        raise InvalidInstructionError(
            f"self_trade must be a SelfTrade or None, not {show(self_trade)}"
        )


def check_trades_max(trades_max: int | None) -> None:
    """Refuse a limit on trades that is no integer of 1 or more."""
    if trades_max is not None and (type(trades_max) is not int or trades_max < 1):
        raise InvalidInstructionError(
            f"trades_max must be None or an integer of 1 or more, not {show(trades_max)}"
        )


def check_instructions(order: Order) -> None:
    """Refuse instructions that are unknown or contradict each other."""
    tif = order.time_in_force
    if type(tif) is not TimeInForce:
        raise InvalidInstructionError(f"time_in_force must be a TimeInForce, not {show(tif)}")
    check_policy(order.post_only, order.self_trade)
    if type(order.expiration_s) is not int or order.expiration_s < 0:
        raise InvalidInstructionError(
            f"expiration_s must be an integer of 0 or more, not {show(order.expiration_s)}"
        )
    if order.post_only and tif in (TimeInForce.IOC, TimeInForce.FOK):
        raise InvalidInstructionError(f"a post-only order must be able to rest, {tif!r} never does")
    if tif is TimeInForce.GTD and not order.expiration_s:
        raise InvalidInstructionError("TimeInForce.GTD needs an expiration_s above 0, not 0")


def check_new_id(order_id: str | int) -> None:
    """Refuse what cannot name a new order."""
    if type(order_id) is str:
        if not order_id:
            raise InvalidOrderIdError("an order id must have at least 1 character, not 0")
    elif type(order_id) is not int or not 0 <= order_id <= ORDER_ID_MAX:
        raise InvalidOrderIdError(
            f"an order id must be a text or an integer from 0 to {ORDER_ID_MAX}, "
            f"not {show(order_id)}"
        )


def check_owner(owner: int) -> None:
    """Refuse the number of an owner that is not a caller's."""
    if owner > OWNER_MAX:
        raise InvalidOwnerError(f"owner must be at most {OWNER_MAX}, not {owner}")


def check_id(order_id: str | int) -> None:
    """Refuse what cannot name a resting order, neither by id nor by number."""
    if type(order_id) is not str and not (type(order_id) is int and 0 <= order_id < 2**64):
        raise InvalidOrderIdError(
            f"an order id must be a text or an integer from 0 to {2**64 - 1}, not {show(order_id)}"
        )


def check_number(number: int) -> None:
    """Refuse what is no number of an order."""
    if type(number) is not int or not 0 <= number < 2**64:
        raise InvalidOrderIdError(
            f"a number must be an integer from 0 to {2**64 - 1}, not {show(number)}"
        )


def check_price(price: int, lo: int, hi: int) -> None:
    """Refuse a price that is no integer on the grid."""
    if type(price) is not int or not lo <= price <= hi:
        raise PriceOutOfRangeError(f"price must be an integer from {lo} to {hi}, not {show(price)}")


def check_size(size: int, lot_wei: int) -> None:
    """Refuse a size that is no integer, not positive, no multiple of the lot or too large."""
    if type(size) is not int or size <= 0:
        raise InvalidAmountError(f"size must be an integer of 1 wei or more, not {show(size)}")
    if size % lot_wei:
        below = size - size % lot_wei
        nearest = f"{show(below)} or {show(below + lot_wei)}" if below else f"{lot_wei}"
        raise InvalidAmountError(
            f"size must be a multiple of the lot of {lot_wei} wei, not {show(size)}; "
            f"nearest: {nearest}"
        )
    if size > SIZE_MAX:
        raise AmountTooLargeError(f"size must be at most {SIZE_MAX} wei, not {show(size)}")


def plain_order(order: Order) -> Order:
    """Take an order as an exact :class:`~clob.Order`, its fields read once.

    A subclass may answer differently each time it is asked; what was checked must be what is used.

    Raises:
        TypeError: it is not an order.
    """
    if type(order) is Order:
        return order
    if not isinstance(order, Order):
        raise TypeError(f"an Order is needed, not {show(order)}")
    return Order(**{name: getattr(order, name) for name in Order.__struct_fields__})


def check_order(order: Order, book: Grid, now_ms: int) -> None:
    """Check all of an order that needs no look at the resting ones.

    Args:
        order: the order, from :func:`plain_order`.
        book: whose ``lo``, ``hi``, ``lot_wei`` and ``token`` it must suit.
        now_ms: the time of the command, Unix milliseconds.

    Raises:
        RejectedError: the first rule it breaks, in the order of :mod:`clob.errors` from
            ``INVALID_TIME`` to ``ORDER_EXPIRED``.
    """
    check_time(now_ms)
    check_instructions(order)
    if type(order.side) is not Side:
        raise InvalidSideError(f"side must be Side.BUY or Side.SELL, not {show(order.side)}")
    check_new_id(order.id)
    if type(order.maker) is not str:
        raise InvalidOwnerError(f"maker must be a text, not {show(order.maker)}")
    if book.token and order.token != book.token:
        raise TokenNotInMarketError(
            f"the token of the order must be {show(book.token)}, not {show(order.token)}"
        )
    check_price(order.price, book.lo, book.hi)
    check_size(order.size, book.lot_wei)
    # "Orders past their expiration are rejected from matching." -- specification, States and
    # transitions. The second of the expiration itself is still good.
    if order.expiration_s and now_ms // 1000 > order.expiration_s:
        raise OrderExpiredError(
            f"the order expired after second {order.expiration_s}, it is {now_ms // 1000}"
        )


def show(value: object) -> str:
    """Write a refused value, but not at any length."""
    if isinstance(value, int) and value.bit_length() > 300:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # a value may do anything when asked, and is refused all the same
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 120 else f"{text[:117]}..."


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


# MERGED clob.book.validation: The checks on arrays at the batch door, before anything of them is executed; both books use them.
#
# NumPy is imported here and nowhere else in the engine, and only once an array is in sight.
