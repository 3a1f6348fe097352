"""Corrects a book after a command whose fills differ from the recorded ones.

The produced fills are undone, with each order back at its place in the queue, and the recorded
fills are applied instead, so that one difference does not cause others. Sizes are in lots.
"""

from typing import NamedTuple, TypeAlias

from clob.book import Book
from clob.errors import RejectedError
from clob.events import Trade
from clob.order import Order, Side, TimeInForce, maker_of
from clob.records import LOTS_MAX, EventRow, Flag, Kind
from clob.replay.io.recording import OWN_ID
from clob.units import SIZE_MAX

Filled: TypeAlias = tuple[int, int, int]
"""Id of the resting order, size in lots, price in ticks."""


class Correction(NamedTuple):
    """The result of a correction."""

    complete: bool
    """Whether the book now agrees with the recorded fills."""
    ghosts: tuple[int, ...]
    """The removed orders, whose removal the recording has lost."""


class RecordedCommand(EventRow):
    """A recorded command."""

    __slots__ = ()

    @property
    def rests(self) -> bool:
        """Whether the remainder rests after matching."""
        return self.kind in (Kind.LIMIT, Kind.REPLACE) and not self.flags & Flag.FOK


def apply_recorded_fills(
    book: Book,
    command: RecordedCommand,
    produced: list[Filled],
    recorded: list[Filled],
    *,
    done: bool,
) -> "Correction":
    """Undo the produced fills of a command and apply the recorded ones.

    Where history rests the command through older orders, the recording has lost their removal; such
    ghosts are removed.

    The command is the latest of the book, ``done`` unless it was rejected; ``produced`` does not
    include fills of own orders. Fills do not name owners, so an order that was filled completely
    returns without an owner.

    Returns:
        The removed ghosts, and whether the correction is complete: False if a recorded order does
        not rest or is smaller than its fill, or if the remainder of the command would trade again.
    """
    maker = maker_of(command.owner)
    rests = done and command.rests
    side = Side(command.side)
    if rests and command.order_id in book:
        resting = book.order(command.order_id)
        maker, side = resting.maker, resting.side
        book.cancel(command.order_id)
    for filled in reversed(produced):
        _undo_fill(book, Side(1 - side), *filled)
    complete = True
    for order_id, size, _ in recorded:
        complete &= _apply_fill(book, order_id, size)
    left = command.size - sum(size for _, size, _ in recorded)
    ghosts: tuple[int, ...] = ()
    if rests and left > 0:
        ghosts = _remove_ghosts(book, side, command.price)
        complete &= _rest(book, command.order_id, maker, side, command.price, left)
    return Correction(complete, ghosts)


def _remove_ghosts(book: Book, side: Side, price: int) -> tuple[int, ...]:
    """Remove the recorded orders that cross a resting order; return their ids."""
    ghosts: list[int] = []
    while True:
        trades = matches_of(book, side, price, SIZE_MAX // book.lot_wei * book.lot_wei)
        gone = [one for trade in trades if (one := int(trade.resting_order_id)) < OWN_ID]
        for order_id in gone:
            book.cancel(order_id)
        ghosts += gone
        if not gone:
            return tuple(ghosts)


def best_levels(book: Book) -> tuple[int, int, int, int]:
    """Return the best levels in the order of a ``BEST`` row.

    Returns:
        Size at the best bid and at the best ask, in lots, then the two prices in ticks; an empty
        side has size 0 and a price one tick outside the grid.
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
    """Rest an order, before another one if given; return False if it would trade."""
    size_wei = size * book.lot_wei
    order = Order(id=order_id, token="", maker=maker, side=side, price=price, size=size_wei)
    try:
        book.rest(order, 0, before)
    except RejectedError:
        return False
    return True


def _undo_fill(book: Book, side: Side, order_id: int, size: int, price: int) -> None:
    """Undo a fill of an order that was first in the queue of the best level."""
    if order_id not in book:
        _rest(book, order_id, "", side, price, size, _first(book, side, price))
        return
    order, following = book.order(order_id), book.behind(order_id)
    book.cancel(order_id)
    size += order.remaining // book.lot_wei
    _rest(book, order_id, order.maker, side, price, size, following)


def _first(book: Book, side: Side, price: int) -> str | int | None:
    """Return the first order at a price, or None if it is not the best price of the side."""
    if (book.best_bid if side is Side.BUY else book.best_ask) != price:
        return None
    return matches_of(book, Side(1 - side), price, book.lot_wei)[0].resting_order_id


def matches_of(book: Book, side: Side, price: int, size: int) -> list[Trade]:
    """Return the trades that an IOC order of ``size`` wei would have, without executing it."""
    ioc = TimeInForce.IOC
    taker = Order(id=0, token="", maker="", side=side, price=price, size=size, time_in_force=ioc)
    return book.simulate(taker)


def _apply_fill(book: Book, order_id: int, size: int) -> bool:
    """Reduce an order by a fill; return False if it is missing or smaller, or the size is 0."""
    if order_id not in book or size < 1:
        return False
    left = book.order(order_id).remaining - size * book.lot_wei
    if left > 0:
        book.reduce(order_id, left)
    else:
        book.cancel(order_id)
    return left >= 0
