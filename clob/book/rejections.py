"""The refusals that need a look at the book, worded once for both books."""

from clob.book.validation import show
from clob.errors import (
    DuplicateOrderError,
    FokNotFillableError,
    InvalidInstructionError,
    OrderExpiredError,
    PostOnlyWouldCrossError,
    RejectedError,
    SeedWouldCrossError,
    SizeNotReducedError,
    TooManyTradesError,
    UnknownOrderError,
)
from clob.order import Side


def duplicate(order_id: str | int) -> RejectedError:
    """An order of this id rests."""
    return DuplicateOrderError(f"an order {show(order_id)} rests in this book already")


def unknown(order_id: str | int) -> RejectedError:
    """No order of this id rests."""
    return UnknownOrderError(f"no order {show(order_id)} rests in this book")


def expired(expiration_s: int, now_s: int) -> RejectedError:
    """The expiration has passed."""
    return OrderExpiredError(f"the order expired after second {expiration_s}, it is {now_s}")


def other_queue(order_id: str | int) -> RejectedError:
    """An order is to rest in front of one that stands in another queue."""
    return InvalidInstructionError(
        f"before must name an order of the same side and price, not {show(order_id)}"
    )


def not_reduced(size: int, remaining: int) -> RejectedError:
    """The size of a reduction is not below what remains."""
    return SizeNotReducedError(f"size must be below the {remaining} wei that remain, not {size}")


def would_cross(side: Side, price: int, resting_price: int) -> RejectedError:
    """A post-only order would trade."""
    error = PostOnlyWouldCrossError(
        f"a post-only {side.name} at {price} would trade at {resting_price}"
    )
    error.__dict__["terms"] = side, price, resting_price
    return error


def seed_would_cross(side: Side, price: int, resting_price: int) -> RejectedError:
    """An order to be rested reaches the other side."""
    return SeedWouldCrossError(f"a {side.name} at {price} cannot rest against {resting_price}")


def not_fillable(price: int, found: int, size: int) -> RejectedError:
    """A fill-or-kill order does not find all of its size."""
    error = FokNotFillableError(f"only {found} wei can trade at {price} or better, not {size}")
    error.__dict__["terms"] = price, found, size
    return error


def too_many_trades(trades: int, trades_max: int, fits: int) -> RejectedError:
    """The order would make more trades than are allowed."""
    return TooManyTradesError(
        f"an order may make at most {trades_max} trades, not {trades}; a size of {fits} wei fits"
    )


def mirrored(refusal: RejectedError) -> RejectedError:
    """Say a refusal of a book in the terms of the other token, at prices that make 100 with its."""
    if isinstance(refusal, PostOnlyWouldCrossError):
        side, price, resting_price = refusal.__dict__["terms"]
        other = Side.SELL if side is Side.BUY else Side.BUY
        return would_cross(other, 100 - price, 100 - resting_price)
    if isinstance(refusal, FokNotFillableError):
        price, found, size = refusal.__dict__["terms"]
        return not_fillable(100 - price, found, size)
    return refusal
