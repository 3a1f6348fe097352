"""The register: every order by its names, in its maker's list while it rests, finished afterwards.

Compiled as it stands, like the desk, with the types of ``_register_c.pxd``.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from sortedcontainers import SortedDict

from clob.events import RemovalReason
from clob.matcher import complementary, entities, rollback
from clob.matcher.admission import Admission
from clob.matcher.amounts import resized
from clob.matcher.entities import MakerState, MarketState, OrderEntry, make_entry, order_from
from clob.matcher.state_records import OrderSnapshot
from clob.order import Order

if TYPE_CHECKING:
    from clob.book import Book
    from clob.matcher.entities import OrderEntry


class OrderIndex(Admission):
    """The orders that rest, that are finished and readable, and the hashes of others."""

    def __init__(self) -> None:
        super().__init__()
        self.expiring: SortedDict[int, dict[int, OrderEntry]] = SortedDict()
        # Finished orders still readable, the one that finished first at the head.
        self.finished_first: OrderEntry | None = None
        self.finished_last: OrderEntry | None = None
        self.num_finished = 0
        # The hashes of signed orders that are let go, by maker and by the second they expire.
        self.spent: dict[str, set[bytes]] = {}
        self.spent_until: SortedDict[int, set[bytes]] = SortedDict()

    # ----- making entries ------------------------------------------------------------------

    def entry_for(self, venue: MarketState, order: Order) -> OrderEntry:
        """Make the entry of an order whose maker and token are known to be right."""
        trader = venue.traders.get(order.maker)
        if trader is None:
            trader = MakerState(order.maker, venue)
        entities.prefetch(trader.last)
        return make_entry(order, trader, order.token == venue.yes)

    def entry_from(
        self, venue: MarketState, state: OrderSnapshot, is_yes: bool, maker: str
    ) -> OrderEntry:
        """Make the entry of an order out of a snapshot, and know it by its names."""
        order = order_from(state, venue.yes if is_yes else venue.no, maker)
        entry = self.entry_for(venue, order)
        terms = state.given
        if terms is not None:
            entry.given = msgspec.structs.replace(
                order, price=terms.price, size=terms.size, collateral=terms.collateral
            )
        entry.filled_collateral = state.filled_collateral
        if state.remaining != order.size:
            entry.remaining = state.remaining
        entry.number, entry.accepted_ms = state.number, state.accepted_ms
        entry.client_id, entry.order_hash = state.client_id, state.order_hash
        self.enter(entry)
        return entry

    def queue_up(
        self,
        book: "Book",
        venue: MarketState,
        states: Iterable[tuple[OrderSnapshot, str]],
        is_yes: bool,
    ) -> list[OrderEntry]:
        """Put the orders of a snapshot into their book, the sequence of its queues given."""
        entries, traders = [], venue.traders
        for state, maker in states:
            entry = self.entry_from(venue, state, is_yes, maker)
            # The orders of a maker share one list, which is filled once all are read.
            if entry.trader.maker not in traders:
                traders[entry.trader.maker] = entry.trader
            order = entry.order
            if entry.remaining != order.size:
                order = resized(order, entry.remaining)
            if venue.complementary:
                order = complementary.on_grid(entry, order)
            book.rest(order)
            entries.append(entry)
        return entries

    def enter(self, entry: OrderEntry) -> None:
        """Know an order by its names from now on."""
        self.entries[entry.order.id] = entry
        if entry.order_hash is not None:
            self.used[entry.order_hash] = entry
        if entry.client_id is not None:
            self.clients[entry.trader.maker, entry.client_id] = entry
        if entry.trader.venue.has_accounts:
            self.open_accounts(entry)
        if self.undo is not None:
            self.undo.append((rollback.forget, self, entry))

    # ----- coming to rest, and leaving -----------------------------------------------------

    def rest(self, entry: OrderEntry) -> None:
        """Count an order among the resting ones."""
        entry.resting = True
        trader = entry.trader
        entry.before, entry.after = trader.last, None
        self.link(entry)
        if trader.venue.has_accounts:
            self.reserve(entry, entry.remaining)
        if self.undo is not None:
            self.undo.append((rollback.unlink, self, entry))

    def link(self, entry: OrderEntry) -> None:
        """Put an order where it says it belongs: into its maker's list, and under its expiry."""
        trader = entry.trader
        if entry.before is not None:
            entry.before.after = entry
        else:
            trader.first = entry
        if entry.after is not None:
            entry.after.before = entry
        else:
            trader.last = entry
        if not trader.count:
            # One without orders may have been forgotten.
            trader.venue.traders[trader.maker] = trader
        trader.count += 1
        if entry.order.expiration_s:
            self.expiring.setdefault(entry.order.expiration_s, {})[entry.number] = entry
        if entry.order.smart_wallet and trader.venue.has_accounts:
            entry.pays.guests[entry.number] = entry

    def unlink(self, entry: OrderEntry) -> None:
        """Take an order out of these lists; it remembers its place, so that it can be put back."""
        trader = entry.trader
        if entry.before is not None:
            entry.before.after = entry.after
        else:
            trader.first = entry.after
        if entry.after is not None:
            entry.after.before = entry.before
        else:
            trader.last = entry.before
        trader.count -= 1
        if not trader.count and not trader.venue.has_accounts:
            del trader.venue.traders[trader.maker]
        second = entry.order.expiration_s
        if second:
            del self.expiring[second][entry.number]
            if not self.expiring[second]:
                del self.expiring[second]
        if entry.order.smart_wallet and trader.venue.has_accounts:
            del entry.pays.guests[entry.number]

    def finish(self, entry: OrderEntry, reason: RemovalReason) -> None:
        """Put an order among the finished ones."""
        if self.undo is not None:
            self.undo.append((rollback.restore, entry, entry.saved()))
        if entry.resting:
            entry.resting = False
            self.unlink(entry)
            if self.undo is not None:
                self.undo.append((rollback.link, self, entry))
            if entry.reserve:
                self.touch(entry.pays)
                entry.pays.reserved -= entry.reserve
                entry.reserve = 0
        entry.removal = reason
        last = self.finished_last
        if self.undo is not None:
            self.undo.append((rollback.unfinish, self, last))
        if last is not None:
            last.later = entry
        else:
            self.finished_first = entry
        self.finished_last = entry
        self.num_finished += 1

    def evict(self) -> None:
        """Let go of the order that finished first; its hash is kept while it counts."""
        entry = self.finished_first
        if entry is None:
            return
        self.finished_first = entry.later
        if entry.later is None:
            self.finished_last = None
        self.num_finished -= 1
        del self.entries[entry.order.id]
        if entry.client_id is not None:
            del self.clients[entry.trader.maker, entry.client_id]
        if entry.order_hash is not None:
            self.spend(entry, entry.order_hash)
        following = entry.later
        entry.before = entry.after = entry.later = None
        if following is None:
            return
        # They are old and have left the cache: let those come that are next, one step each time.
        entities.prefetch(following.order.id)
        second = following.later
        if second is not None:
            entities.prefetch(second.order)
            entities.prefetch(second.later)

    def spend(self, entry: OrderEntry, used: bytes) -> None:
        """Keep the hash of an order that is let go, unless the order can no longer be valid."""
        order, maker = entry.order, entry.trader.maker
        nonce, expiration_s = order.nonce, order.expiration_s
        if (expiration_s and expiration_s < self.now_ms // 1000) or (
            self.nonces and nonce < self.nonces.get(maker, 0)
        ):
            del self.used[used]
            return
        self.keep(used, maker, nonce, expiration_s)

    def keep(self, used: bytes, maker: str, nonce: int, expiration_s: int) -> None:
        """Remember that a signed order was used, its details gone."""
        self.used[used] = (maker, nonce, expiration_s)
        hashes = self.spent.get(maker)
        if hashes is None:
            hashes = self.spent[maker] = set()
        hashes.add(used)
        if expiration_s:
            self.spent_until.setdefault(expiration_s, set()).add(used)

    def resize(self, entry: OrderEntry, remaining: int) -> None:
        """Make a resting order smaller without a trade."""
        if self.undo is not None:
            self.undo.append((rollback.restore, entry, entry.saved()))
        entry.order = resized(entry.order, entry.order.size - entry.remaining + remaining)
        entry.remaining = remaining
        if entry.trader.venue.has_accounts:
            self.reserve(entry, remaining)


def readable(desk: "OrderIndex") -> "Iterator[OrderEntry]":
    """Go over the finished orders that are still readable, the one that finished first first."""
    entry = desk.finished_first
    while entry is not None:
        yield entry
        entry = entry.later


def forget_expired(desk: "OrderIndex", now_s: int) -> None:
    """Forget the hashes of orders whose expiration has passed."""
    due = list(desk.spent_until.irange(maximum=now_s, inclusive=(True, False)))
    for second in due:
        for order_hash in list(desk.spent_until[second]):
            _forget(desk, order_hash)


def forget_below(desk: "OrderIndex", maker: str, nonce: int) -> None:
    """Forget the hashes of a maker's orders signed with a lower nonce. O(the maker's hashes)."""
    for order_hash in list(desk.spent.get(maker, ())):
        if desk.used[order_hash][1] < nonce:
            _forget(desk, order_hash)


def _forget(desk: "OrderIndex", order_hash: bytes) -> None:
    """Forget one hash."""
    maker, _, expiration_s = desk.used.pop(order_hash)
    desk.spent[maker].discard(order_hash)
    if not desk.spent[maker]:
        del desk.spent[maker]
    if expiration_s:
        desk.spent_until[expiration_s].discard(order_hash)
        if not desk.spent_until[expiration_s]:
            del desk.spent_until[expiration_s]


# MERGED clob.matcher.order_index: What is left of finished orders: readable for a while, and their hashes for as long as it counts.
#
# "That a hash was used is forgotten only when the order can no longer be valid (expired, or nonce
# below the maker's): it is part of the state, not a cache bounded by count, because anyone can read
# a signature and post it again." (decision 23)
#
# ``desk.used`` leads from a hash to its order, or where the details are gone to maker, nonce and
# expiration.
