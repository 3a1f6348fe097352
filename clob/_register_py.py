"""The register: every order by its names, in its maker's list while it rests, finished afterwards.

Compiled as it stands, like the desk, with the types of ``_register_c.pxd``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from sortedcontainers import SortedDict

from clob import _pairs, _undo
from clob._entries_py import Entry, Trader, Venue, make_entry, order_from, soon
from clob._gate_py import Gate
from clob._ledger import resized
from clob._structs_py import Order, OrderState
from clob.events import RemovalReason

if TYPE_CHECKING:
    from clob.book import Book


class Register(Gate):
    """The orders that rest, that are finished and readable, and the hashes of others."""

    def __init__(self) -> None:
        super().__init__()
        self.expiring: SortedDict[int, dict[int, Entry]] = SortedDict()
        # Finished orders still readable, the one that finished first at the head.
        self.finished_first: Entry | None = None
        self.finished_last: Entry | None = None
        self.num_finished = 0
        # The hashes of signed orders that are let go, by maker and by the second they expire.
        self.spent: dict[str, set[bytes]] = {}
        self.spent_until: SortedDict[int, set[bytes]] = SortedDict()

    # ----- making entries ------------------------------------------------------------------

    def entry_for(self, venue: Venue, order: Order) -> Entry:
        """Make the entry of an order whose maker and token are known to be right."""
        trader = venue.traders.get(order.maker)
        if trader is None:
            trader = Trader(order.maker, venue)
        soon(trader.last)
        return make_entry(order, trader, order.token == venue.yes)

    def entry_from(self, venue: Venue, state: OrderState, is_yes: bool, maker: str) -> Entry:
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
        self, book: "Book", venue: Venue, states: Iterable[tuple[OrderState, str]], is_yes: bool
    ) -> list[Entry]:
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
                order = _pairs.on_grid(entry, order)
            book.rest(order)
            entries.append(entry)
        return entries

    def enter(self, entry: Entry) -> None:
        """Know an order by its names from now on."""
        self.entries[entry.order.id] = entry
        if entry.order_hash is not None:
            self.used[entry.order_hash] = entry
        if entry.client_id is not None:
            self.clients[entry.trader.maker, entry.client_id] = entry
        if entry.trader.venue.has_accounts:
            self.open_accounts(entry)
        if self.undo is not None:
            self.undo.append((_undo.forget, self, entry))

    # ----- coming to rest, and leaving -----------------------------------------------------

    def rest(self, entry: Entry) -> None:
        """Count an order among the resting ones."""
        entry.resting = True
        trader = entry.trader
        entry.before, entry.after = trader.last, None
        self.link(entry)
        if trader.venue.has_accounts:
            self.reserve(entry, entry.remaining)
        if self.undo is not None:
            self.undo.append((_undo.unlink, self, entry))

    def link(self, entry: Entry) -> None:
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

    def unlink(self, entry: Entry) -> None:
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

    def finish(self, entry: Entry, reason: RemovalReason) -> None:
        """Put an order among the finished ones."""
        if self.undo is not None:
            self.undo.append((_undo.restore, entry, entry.saved()))
        if entry.resting:
            entry.resting = False
            self.unlink(entry)
            if self.undo is not None:
                self.undo.append((_undo.link, self, entry))
            if entry.reserve:
                self.touch(entry.pays)
                entry.pays.reserved -= entry.reserve
                entry.reserve = 0
        entry.removal = reason
        last = self.finished_last
        if self.undo is not None:
            self.undo.append((_undo.unfinish, self, last))
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
        soon(following.order.id)
        second = following.later
        if second is not None:
            soon(second.order)
            soon(second.later)

    def spend(self, entry: Entry, used: bytes) -> None:
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

    def resize(self, entry: Entry, remaining: int) -> None:
        """Make a resting order smaller without a trade."""
        if self.undo is not None:
            self.undo.append((_undo.restore, entry, entry.saved()))
        entry.order = resized(entry.order, entry.order.size - entry.remaining + remaining)
        entry.remaining = remaining
        if entry.trader.venue.has_accounts:
            self.reserve(entry, remaining)
