"""Reverse steps of an atomic batch: each undoes one change, the last change first.

Every reverse function takes the changed object and a saved value, as recorded in ``undo``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clob.matcher import complementary
from clob.matcher.amounts import resized
from clob.order import Side

if TYPE_CHECKING:
    from clob.book import Book
    from clob.matcher.entities import MarketState, OrderEntry

Step = tuple[Callable[[Any, Any], None], Any, Any]
"""A reverse function and its two arguments."""


def roll_back(steps: list[Step]) -> None:
    """Run all reverse steps, the last first."""
    for reverse, target, saved in reversed(steps):
        reverse(target, saved)


def restore(target: Any, saved: Any) -> None:
    """Restore an order, account or market from its saved values."""
    target.restore(saved)


def remove_pending(market_state: "MarketState", seq: int) -> None:
    """Remove a trade from the pending ones."""
    del market_state.pending[seq]


# ----- books ---------------------------------------------------------------------------------


def save_books(steps: list[Step], market_state: "MarketState") -> None:
    """Record copies of a market's books, before a change without a reverse of its own.

    O(resting orders). An order that only rests or only leaves is reversed in constant time instead.
    """
    steps.append((restore, market_state, market_state.save()))


def before_submit(
    steps: list[Step], market_state: "MarketState", book: "Book", entry: "OrderEntry"
) -> None:
    """Record the reverse of a submission that is about to reach the book."""
    buys, limit = entry.order.side is Side.BUY, entry.order.price
    if market_state.complementary and not entry.is_yes and type(limit) is int:
        buys, limit = not buys, 100 - limit
    best = book.best_ask if buys else book.best_bid
    # The book rejects a limit that is not an integer.
    if best is None or type(limit) is not int or not (best <= limit if buys else best >= limit):
        steps.append((_withdraw, entry, market_state.seq_book.seq))
    else:
        save_books(steps, market_state)


def _withdraw(entry: "OrderEntry", seq: int) -> None:
    """Take an order out of its book if it rests there."""
    market_state, book = _place_of(entry)
    if entry.order.id in book:
        book.cancel(entry.order.id)
    market_state.seq_book.seq = seq


def before_cancel(steps: list[Step], book: "Book", entry: "OrderEntry") -> None:
    """Record the place in the queue of an order that is about to leave."""
    place = (book.behind(entry.order.id), entry.maker_state.market_state.seq_book.seq)
    steps.append((_put_back, entry, place))


def _put_back(entry: "OrderEntry", place: tuple[str | int | None, int]) -> None:
    """Rest an order at its former place in the queue."""
    behind, seq = place
    market_state, book = _place_of(entry)
    order = entry.order
    if entry.remaining != order.size:
        order = resized(order, entry.remaining)
    book.rest(complementary.on_grid(entry, order), 0, behind)
    market_state.seq_book.seq = seq


def _place_of(entry: "OrderEntry") -> "tuple[MarketState, Book]":
    market_state = entry.maker_state.market_state
    is_in_yes = entry.is_yes or market_state.complementary
    return market_state, market_state.yes_book if is_in_yes else market_state.no_book
