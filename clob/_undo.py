"""How the steps of a batch are taken back, each the reverse of what the desk did; last step first.

Every function takes the thing and what was done to it, as the desk writes them down.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clob._desk_py import Desk
    from clob._entries_py import Entry, Venue

Step = tuple[Callable[[Any, Any], None], Any, Any]
"""What takes a step back, and what it is called with."""


def take_back(steps: list[Step]) -> None:
    """Take back all steps, the last first."""
    for reverse, thing, what in reversed(steps):
        reverse(thing, what)


def restore(thing: Any, saved: Any) -> None:
    """Let an order or an account be as it was."""
    thing.restore(saved)


def forget(desk: "Desk", entry: "Entry") -> None:
    """Know an order by its names no more."""
    del desk.entries[entry.order.id]
    if entry.order_hash is not None:
        del desk.used[entry.order_hash]
    if entry.client_id is not None:
        del desk.clients[entry.trader.maker, entry.client_id]


def unlink(desk: "Desk", entry: "Entry") -> None:
    """Take an order that came to rest out of the lists."""
    desk.unlink(entry)


def link(desk: "Desk", entry: "Entry") -> None:
    """Put an order back where it was in the lists."""
    desk.link(entry)


def unfinish(desk: "Desk", last: "Entry | None") -> None:
    """Let another order be the one that finished last."""
    desk.finished_last = last
    desk.num_finished -= 1
    if last is not None:
        last.later = None
    else:
        desk.finished_first = None


def unhold(venue: "Venue", seq: int) -> None:
    """Let a trade wait no more for its settlement."""
    del venue.pending[seq]


def keep_books(steps: list[Step], venue: "Venue") -> None:
    """Keep the books of a market as they are, once in a batch. O(resting orders)."""
    if not any(thing is venue for reverse, thing, _ in steps if reverse is restore):
        steps.append((restore, venue, venue.saved()))
