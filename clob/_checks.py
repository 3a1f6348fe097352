"""The rules on a single command that need no book: each check raises its own refusal.

Both books call these, so that they refuse for the same reason with the same words. The checks
run in the order of precedence of :mod:`clob.errors`.
"""

from typing import Protocol

from clob.errors import (
    AmountTooLargeError,
    InvalidAmountError,
    InvalidBookError,
    InvalidInstructionError,
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
from clob.units import ORDER_ID_MAX, OWNER_MAX, SIZE_MAX, TICK_LIMIT, TICKS_MAX, TIME_MAX


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
