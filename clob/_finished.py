"""What is left of finished orders: readable for a while, and their hashes for as long as it counts.

"That a hash was used is forgotten only when the order can no longer be valid (expired, or nonce
below the maker's): it is part of the state, not a cache bounded by count, because anyone can read
a signature and post it again." (decision 23)

``desk.used`` leads from a hash to its order, or where the details are gone to maker, nonce and
expiration.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clob._entries_py import Entry
    from clob._register_py import Register


def readable(desk: "Register") -> "Iterator[Entry]":
    """Go over the finished orders that are still readable, the one that finished first first."""
    entry = desk.finished_first
    while entry is not None:
        yield entry
        entry = entry.later


def forget_expired(desk: "Register", now_s: int) -> None:
    """Forget the hashes of orders whose expiration has passed."""
    due = list(desk.spent_until.irange(maximum=now_s, inclusive=(True, False)))
    for second in due:
        for order_hash in list(desk.spent_until[second]):
            _forget(desk, order_hash)


def forget_below(desk: "Register", maker: str, nonce: int) -> None:
    """Forget the hashes of a maker's orders signed with a lower nonce. O(the maker's hashes)."""
    for order_hash in list(desk.spent.get(maker, ())):
        if desk.used[order_hash][1] < nonce:
            _forget(desk, order_hash)


def _forget(desk: "Register", order_hash: bytes) -> None:
    """Forget one hash."""
    maker, _, expiration_s = desk.used.pop(order_hash)
    desk.spent[maker].discard(order_hash)
    if not desk.spent[maker]:
        del desk.spent[maker]
    if expiration_s:
        desk.spent_until[expiration_s].discard(order_hash)
        if not desk.spent_until[expiration_s]:
            del desk.spent_until[expiration_s]
