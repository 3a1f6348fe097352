"""How the steps of a batch are taken back, each the reverse of what the desk did; last step first.

Every function takes the thing and what was done to it, as the desk writes them down.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clob.matcher import complementary
from clob.matcher.amounts import resized
from clob.order import Side

if TYPE_CHECKING:
    from clob.book import Book
    from clob.matcher.engine import Engine
    from clob.matcher.entities import MarketState, OrderEntry

Step = tuple[Callable[[Any, Any], None], Any, Any]
"""What takes a step back, and what it is called with."""


def take_back(steps: list[Step]) -> None:
    """Take back all steps, the last first."""
    for reverse, thing, what in reversed(steps):
        reverse(thing, what)


def restore(thing: Any, saved: Any) -> None:
    """Let an order or an account be as it was."""
    thing.restore(saved)


def forget(desk: "Engine", entry: "OrderEntry") -> None:
    """Know an order by its names no more."""
    del desk.entries[entry.order.id]
    if entry.order_hash is not None:
        del desk.used[entry.order_hash]
    if entry.client_id is not None:
        del desk.clients[entry.trader.maker, entry.client_id]


def unlink(desk: "Engine", entry: "OrderEntry") -> None:
    """Take an order that came to rest out of the lists."""
    desk.unlink(entry)


def link(desk: "Engine", entry: "OrderEntry") -> None:
    """Put an order back where it was in the lists."""
    desk.link(entry)


def unfinish(desk: "Engine", last: "OrderEntry | None") -> None:
    """Let another order be the one that finished last."""
    desk.finished_last = last
    desk.num_finished -= 1
    if last is not None:
        last.later = None
    else:
        desk.finished_first = None


def unhold(venue: "MarketState", seq: int) -> None:
    """Let a trade wait no more for its settlement."""
    del venue.pending[seq]


# ----- books ---------------------------------------------------------------------------------


def keep_books(steps: list[Step], venue: "MarketState") -> None:
    """Keep the books of a market as they are, before a step that has no reverse.

    O(resting orders). What only rests or only leaves is reversed instead, in constant time.
    """
    steps.append((restore, venue, venue.saved()))


def before_submit(
    steps: list[Step], venue: "MarketState", book: "Book", entry: "OrderEntry"
) -> None:
    """Note what takes back a submission that is about to be made."""
    buys, limit = entry.order.side is Side.BUY, entry.order.price
    if venue.complementary and not entry.is_yes and type(limit) is int:
        buys, limit = not buys, 100 - limit
    best = book.best_ask if buys else book.best_bid
    # A limit that is no integer the book will refuse.
    if best is None or type(limit) is not int or not (best <= limit if buys else best >= limit):
        steps.append((withdraw, entry, venue.turn.seq))
    else:
        keep_books(steps, venue)


def withdraw(entry: "OrderEntry", seq: int) -> None:
    """Take an order out that came to rest, if it did."""
    venue, book = _place_of(entry)
    if entry.order.id in book:
        book.cancel(entry.order.id)
    venue.turn.seq = seq


def before_cancel(steps: list[Step], book: "Book", entry: "OrderEntry") -> None:
    """Note what takes back that an order is about to leave: its place, and the number."""
    steps.append((put_back, entry, (book.behind(entry.order.id), entry.trader.venue.turn.seq)))


def put_back(entry: "OrderEntry", place: tuple[str | int | None, int]) -> None:
    """Let an order stand where it stood."""
    behind, seq = place
    venue, book = _place_of(entry)
    order = entry.order
    if entry.remaining != order.size:
        order = resized(order, entry.remaining)
    book.rest(complementary.on_grid(entry, order), 0, behind)
    venue.turn.seq = seq


def _place_of(entry: "OrderEntry") -> "tuple[MarketState, Book]":
    """Give the market and the book of an order."""
    venue = entry.trader.venue
    return venue, venue.yes_book if entry.is_yes or venue.complementary else venue.no_book
