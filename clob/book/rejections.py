"""Rejections that depend on the resting orders, with texts that both books share."""

from clob import errors
from clob.book.validation import show
from clob.order import Side


def duplicate(order_id: str | int) -> errors.RejectedError:
    """Reject a new order whose id rests."""
    return errors.DuplicateOrderError(f"order {show(order_id)} already rests in this book")


def unknown(order_id: str | int) -> errors.RejectedError:
    """Reject an id that no resting order has."""
    return errors.UnknownOrderError(f"no order {show(order_id)} rests in this book")


def expired(expiration_s: int, now_s: int) -> errors.RejectedError:
    """Reject a command on an order whose expiration has passed."""
    return errors.OrderExpiredError(
        f"the order expired at second {expiration_s}; the time is {now_s}"
    )


def other_queue(order_id: str | int) -> errors.RejectedError:
    """Reject resting an order in front of one from another queue."""
    return errors.InvalidInstructionError(
        f"before must name an order of the same side and price; got {show(order_id)}"
    )


def not_reduced(size: int, remaining: int) -> errors.RejectedError:
    """Reject a reduction to a size that is not below the remaining one."""
    return errors.SizeNotReducedError(
        f"size must be below the remaining {remaining} wei; got {size}"
    )


def would_cross(side: Side, price: int, resting_price: int) -> errors.RejectedError:
    """Reject a post-only order that would trade."""
    error = errors.PostOnlyWouldCrossError(
        f"a post-only {side.name} at {price} would trade at {resting_price}"
    )
    error.__dict__["terms"] = side, price, resting_price
    return error


def seed_would_cross(side: Side, price: int, resting_price: int) -> errors.RejectedError:
    """Reject resting an order whose limit reaches the other side."""
    return errors.SeedWouldCrossError(
        f"a {side.name} at {price} cannot rest: it crosses the order at {resting_price}"
    )


def not_fillable(price: int, fillable: int, size: int) -> errors.RejectedError:
    """Reject a fill-or-kill order that cannot trade its whole size."""
    error = errors.FokNotFillableError(
        f"only {fillable} of {size} wei can trade at {price} or better"
    )
    error.__dict__["terms"] = price, fillable, size
    return error


def too_many_trades(trades: int, trades_max: int, size_at_max: int) -> errors.RejectedError:
    """Reject an order that would make more than ``trades_max`` trades."""
    return errors.TooManyTradesError(
        f"an order may make at most {trades_max} trades; got {trades}, "
        f"a size of {size_at_max} wei fits"
    )


def mirrored(rejection: errors.RejectedError) -> errors.RejectedError:
    """Restate a rejection for the other token: the opposite side, and prices of 100 minus price."""
    if isinstance(rejection, errors.PostOnlyWouldCrossError):
        side, price, resting_price = rejection.__dict__["terms"]
        other = Side.SELL if side is Side.BUY else Side.BUY
        return would_cross(other, 100 - price, 100 - resting_price)
    if isinstance(rejection, errors.FokNotFillableError):
        price, fillable, size = rejection.__dict__["terms"]
        return not_fillable(100 - price, fillable, size)
    return rejection
