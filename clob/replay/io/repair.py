"""Puts a book right after a command whose fills were not the recorded ones.

What came of the command is undone, each order back in its place of the queue, and the recorded
fills are taken off instead, so that one difference does not bring on others. Sizes are lots.
"""

from typing import TypeAlias

from clob.book import Book
from clob.errors import RejectedError
from clob.order import Order, Side, TimeInForce, maker_of
from clob.records import LOTS_MAX, EventRow, Flag, Kind

Filled: TypeAlias = tuple[int, int, int]
"""Id of the resting order, size in lots, price in ticks."""


class Command(EventRow):
    """A recorded command."""

    __slots__ = ()

    @property
    def rests(self) -> bool:
        """Whether what does not trade of it rests."""
        return self.kind in (Kind.LIMIT, Kind.REPLACE) and not self.flags & Flag.FOK


def put_right(
    book: Book, command: Command, produced: list[Filled], recorded: list[Filled], *, done: bool
) -> bool:
    """Make a book what it would be, had a command brought the recorded fills.

    Orders that come back after they had been filled whole belong to nobody, since fills do not
    name owners.

    Args:
        book: as the command left it.
        command: what was executed last.
        produced: the fills that came of it, none of them of own orders.
        recorded: the fills that should have.
        done: whether the command was executed; False if it was refused.

    Returns:
        Whether all of it could be done: False where a recorded fill is of an order that does not
        rest or is smaller, or what is left of the command would trade again.
    """
    maker = maker_of(command.owner)
    rests = done and command.rests
    side = Side(command.side)
    if rests and command.order_id in book:
        resting = book.order(command.order_id)
        maker, side = resting.maker, resting.side
        book.cancel(command.order_id)
    for filled in reversed(produced):
        _give_back(book, Side(1 - side), *filled)
    whole = True
    for order_id, size, _ in recorded:
        whole &= _take_off(book, order_id, size)
    left = command.size - sum(size for _, size, _ in recorded)
    if rests and left > 0:
        whole &= _rest(book, command.order_id, maker, side, command.price, left)
    return whole


def top_of(book: Book) -> tuple[int, int, int, int]:
    """Give size and price of both sides as a row of ``BEST`` has them.

    Returns:
        Size at the best bid and at the best ask, in lots, and the two prices in ticks.
    """
    depth = book.depth(1)
    bid, bid_size, ask, ask_size = book.lo - 1, 0, book.hi + 1, 0
    for level in depth.bids:
        bid, bid_size = level.price, min(level.size // book.lot_wei, LOTS_MAX)
    for level in depth.asks:
        ask, ask_size = level.price, min(level.size // book.lot_wei, LOTS_MAX)
    return bid_size, ask_size, bid, ask


def _rest(
    book: Book,
    order_id: int,
    maker: str,
    side: Side,
    price: int,
    size: int,
    before: str | int | None = None,
) -> bool:
    """Rest an order, in front of another if one is named; False if it would trade."""
    order = Order(
        id=order_id, token="", maker=maker, side=side, price=price, size=size * book.lot_wei
    )
    try:
        book.rest(order, 0, before)
    except RejectedError:
        return False
    return True


def _give_back(book: Book, side: Side, order_id: int, size: int, price: int) -> None:
    """Undo a fill of an order that was the first of its queue, the best one there was then."""
    if order_id not in book:
        _rest(book, order_id, "", side, price, size, _first(book, side, price))
        return
    order, following = book.order(order_id), book.behind(order_id)
    book.cancel(order_id)
    size += order.remaining // book.lot_wei
    _rest(book, order_id, order.maker, side, price, size, following)


def _first(book: Book, side: Side, price: int) -> str | int | None:
    """Give the first order at a price that is the best of its side, or None."""
    if (book.best_bid if side is Side.BUY else book.best_ask) != price:
        return None
    taker = Order(
        id=0,
        token="",
        maker="",
        side=Side(1 - side),
        price=price,
        size=book.lot_wei,
        time_in_force=TimeInForce.IOC,
    )
    return book.simulate(taker)[0].resting_order_id


def _take_off(book: Book, order_id: int, size: int) -> bool:
    """Take a recorded fill off an order; False if it is not there or smaller, or no fill."""
    if order_id not in book:
        return False
    left = book.order(order_id).remaining - size * book.lot_wei
    if size < 1:
        return False
    if left > 0:
        book.reduce(order_id, left)
    else:
        book.cancel(order_id)
    return left >= 0
