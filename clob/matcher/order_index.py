"""Every order by its ids: in its maker's list while it rests, and readable for a while afterwards.

The hash of a signed order outlives the order:

    "That a hash was used is forgotten only when the order can no longer be valid (expired, or nonce
    below the maker's): it is part of the state, not a cache bounded by count, because anyone can
    read a signature and post it again." (decision 23)

Compiled from this text, with the types of ``order_index.pxd``.
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
    """Resting orders, finished orders still readable, and hashes of evicted orders."""

    def __init__(self) -> None:
        super().__init__()
        # Resting orders by expiration and number.
        self.expiring: SortedDict[int, dict[int, OrderEntry]] = SortedDict()
        # Finished orders still readable, linked from the first finished to the last.
        self.finished_first: OrderEntry | None = None
        self.finished_last: OrderEntry | None = None
        self.num_finished: int = 0
        # Hashes of evicted orders, by maker and by expiration.
        self.spent_by_maker: dict[str, set[bytes]] = {}
        self.spent_by_expiry: SortedDict[int, set[bytes]] = SortedDict()

    # ----- entries -------------------------------------------------------------------------

    def entry_for(self, market_state: MarketState, order: Order) -> OrderEntry:
        """Return a new entry of an order whose maker and token were checked."""
        maker_state = market_state.makers.get(order.maker)
        if maker_state is None:
            maker_state = MakerState(order.maker, market_state)
        entities.prefetch(maker_state.last)
        return make_entry(order, maker_state, order.token == market_state.yes)

    def entry_from(
        self, market_state: MarketState, state: OrderSnapshot, is_yes: bool, maker: str
    ) -> OrderEntry:
        """Register the order of a snapshot and return its entry."""
        order = order_from(state, market_state.yes if is_yes else market_state.no, maker)
        entry = self.entry_for(market_state, order)
        terms = state.submitted
        if terms is not None:
            entry.submitted = msgspec.structs.replace(
                order, price=terms.price, size=terms.size, collateral=terms.collateral
            )
        entry.filled_collateral = state.filled_collateral
        if state.remaining != order.size:
            entry.remaining = state.remaining
        entry.number, entry.accepted_ms = state.number, state.accepted_ms
        entry.client_id, entry.order_hash = state.client_id, state.order_hash
        self.register(entry)
        return entry

    def restore_book(
        self,
        book: "Book",
        market_state: MarketState,
        states: Iterable[tuple[OrderSnapshot, str]],
        is_yes: bool,
    ) -> list[OrderEntry]:
        """Rest the orders of a snapshot in their book, in the order of its queues."""
        entries, makers = [], market_state.makers
        for state, maker in states:
            entry = self.entry_from(market_state, state, is_yes, maker)
            # A maker's orders share one list, which is linked once all are read.
            if entry.maker_state.maker not in makers:
                makers[entry.maker_state.maker] = entry.maker_state
            order = entry.order
            if entry.remaining != order.size:
                order = resized(order, entry.remaining)
            if market_state.complementary:
                order = complementary.on_grid(entry, order)
            book.rest(order)
            entries.append(entry)
        return entries

    def register(self, entry: OrderEntry) -> None:
        """Make an order known by its id, hash and client id."""
        self.entries[entry.order.id] = entry
        if entry.order_hash is not None:
            self.used_hashes[entry.order_hash] = entry
        if entry.client_id is not None:
            self.client_ids[entry.maker_state.maker, entry.client_id] = entry
        if entry.maker_state.market_state.has_accounts:
            self.open_accounts(entry)
        if self.undo is not None:
            self.undo.append((undo_register, self, entry))

    # ----- resting and finished orders -----------------------------------------------------

    def rest(self, entry: OrderEntry) -> None:
        """Add an order to the resting ones."""
        entry.resting = True
        maker_state = entry.maker_state
        entry.before, entry.after = maker_state.last, None
        self.link(entry)
        if maker_state.market_state.has_accounts:
            self.reserve(entry, entry.remaining)
        if self.undo is not None:
            self.undo.append((undo_link, self, entry))

    def link(self, entry: OrderEntry) -> None:
        """Insert an order between its neighbours in its maker's list, and by expiration."""
        maker_state = entry.maker_state
        if entry.before is not None:
            entry.before.after = entry
        else:
            maker_state.first = entry
        if entry.after is not None:
            entry.after.before = entry
        else:
            maker_state.last = entry
        if not maker_state.count:
            # The market may have dropped a maker without orders.
            maker_state.market_state.makers[maker_state.maker] = maker_state
        maker_state.count += 1
        if entry.order.expiration_s:
            self.expiring.setdefault(entry.order.expiration_s, {})[entry.number] = entry
        if entry.order.smart_wallet and maker_state.market_state.has_accounts:
            entry.pays.smart_wallet_orders[entry.number] = entry

    def unlink(self, entry: OrderEntry) -> None:
        """Remove an order from these lists; it keeps its neighbours, so ``link`` can undo it."""
        maker_state = entry.maker_state
        if entry.before is not None:
            entry.before.after = entry.after
        else:
            maker_state.first = entry.after
        if entry.after is not None:
            entry.after.before = entry.before
        else:
            maker_state.last = entry.before
        maker_state.count -= 1
        if not maker_state.count and not maker_state.market_state.has_accounts:
            del maker_state.market_state.makers[maker_state.maker]
        second = entry.order.expiration_s
        if second:
            del self.expiring[second][entry.number]
            if not self.expiring[second]:
                del self.expiring[second]
        if entry.order.smart_wallet and maker_state.market_state.has_accounts:
            del entry.pays.smart_wallet_orders[entry.number]

    def finish(self, entry: OrderEntry, reason: RemovalReason) -> None:
        """Move an order to the finished ones and release its reserve."""
        if self.undo is not None:
            self.undo.append((rollback.restore, entry, entry.save()))
        if entry.resting:
            entry.resting = False
            self.unlink(entry)
            if self.undo is not None:
                self.undo.append((undo_unlink, self, entry))
            if entry.reserve:
                self.save(entry.pays)
                entry.pays.reserved -= entry.reserve
                entry.reserve = 0
        entry.removal = reason
        last = self.finished_last
        if self.undo is not None:
            self.undo.append((undo_finish, self, last))
        if last is not None:
            last.next_finished = entry
        else:
            self.finished_first = entry
        self.finished_last = entry
        self.num_finished += 1

    def evict(self) -> None:
        """Drop the order that finished first; its hash stays while the order could be valid."""
        entry = self.finished_first
        if entry is None:
            return
        self.finished_first = entry.next_finished
        if entry.next_finished is None:
            self.finished_last = None
        self.num_finished -= 1
        del self.entries[entry.order.id]
        if entry.client_id is not None:
            del self.client_ids[entry.maker_state.maker, entry.client_id]
        if entry.order_hash is not None:
            self.evict_hash(entry, entry.order_hash)
        following = entry.next_finished
        entry.before = entry.after = entry.next_finished = None
        if following is None:
            return
        # Old orders have left the CPU cache: load the next two, one step per eviction.
        entities.prefetch(following.order.id)
        second = following.next_finished
        if second is not None:
            entities.prefetch(second.order)
            entities.prefetch(second.next_finished)

    def evict_hash(self, entry: OrderEntry, order_hash: bytes) -> None:
        """Keep the hash of an evicted order unless the order can no longer be valid."""
        order, maker = entry.order, entry.maker_state.maker
        nonce, expiration_s = order.nonce, order.expiration_s
        if (expiration_s and expiration_s < self.now_ms // 1000) or (
            self.nonces and nonce < self.nonces.get(maker, 0)
        ):
            del self.used_hashes[order_hash]
            return
        self.add_spent(order_hash, maker, nonce, expiration_s)

    def add_spent(self, order_hash: bytes, maker: str, nonce: int, expiration_s: int) -> None:
        """Keep the hash of a signed order without its entry."""
        self.used_hashes[order_hash] = (maker, nonce, expiration_s)
        hashes = self.spent_by_maker.get(maker)
        if hashes is None:
            hashes = self.spent_by_maker[maker] = set()
        hashes.add(order_hash)
        if expiration_s:
            self.spent_by_expiry.setdefault(expiration_s, set()).add(order_hash)

    def resize(self, entry: OrderEntry, remaining: int) -> None:
        """Reduce a resting order without a trade."""
        if self.undo is not None:
            self.undo.append((rollback.restore, entry, entry.save()))
        entry.order = resized(entry.order, entry.order.size - entry.remaining + remaining)
        entry.remaining = remaining
        if entry.maker_state.market_state.has_accounts:
            self.reserve(entry, remaining)


def finished_orders(index: "OrderIndex") -> "Iterator[OrderEntry]":
    """Yield the finished orders that are still readable, the first finished first."""
    entry = index.finished_first
    while entry is not None:
        yield entry
        entry = entry.next_finished


def drop_orders_of(index: "OrderIndex", market_state: MarketState) -> None:
    """Drop the finished orders of a market like ``evict``. O(finished orders)."""
    entries = list(finished_orders(index))
    index.finished_first = index.finished_last = None
    index.num_finished = 0
    for entry in entries:
        entry.next_finished = None
        if entry.maker_state.market_state is not market_state:
            if index.finished_last is None:
                index.finished_first = entry
            else:
                index.finished_last.next_finished = entry
            index.finished_last = entry
            index.num_finished += 1
            continue
        entry.before = entry.after = None
        del index.entries[entry.order.id]
        if entry.client_id is not None:
            del index.client_ids[entry.maker_state.maker, entry.client_id]
        if entry.order_hash is not None:
            index.evict_hash(entry, entry.order_hash)


# ----- hashes of evicted orders --------------------------------------------------------------


def drop_expired_hashes(index: "OrderIndex", now_s: int) -> None:
    """Drop the hashes of orders that expired before ``now_s``."""
    due = list(index.spent_by_expiry.irange(maximum=now_s, inclusive=(True, False)))
    for second in due:
        for order_hash in list(index.spent_by_expiry[second]):
            _drop_hash(index, order_hash)


def drop_hashes_below(index: "OrderIndex", maker: str, nonce: int) -> None:
    """Drop the hashes of a maker's orders with a lower nonce. O(hashes of the maker)."""
    for order_hash in list(index.spent_by_maker.get(maker, ())):
        if index.used_hashes[order_hash][1] < nonce:
            _drop_hash(index, order_hash)


def _drop_hash(index: "OrderIndex", order_hash: bytes) -> None:
    maker, _, expiration_s = index.used_hashes.pop(order_hash)
    index.spent_by_maker[maker].discard(order_hash)
    if not index.spent_by_maker[maker]:
        del index.spent_by_maker[maker]
    if expiration_s:
        index.spent_by_expiry[expiration_s].discard(order_hash)
        if not index.spent_by_expiry[expiration_s]:
            del index.spent_by_expiry[expiration_s]


# ----- reverse steps, see clob.matcher.rollback ----------------------------------------------


def undo_register(index: "OrderIndex", entry: "OrderEntry") -> None:
    """Reverse ``register``."""
    del index.entries[entry.order.id]
    if entry.order_hash is not None:
        del index.used_hashes[entry.order_hash]
    if entry.client_id is not None:
        del index.client_ids[entry.maker_state.maker, entry.client_id]


def undo_link(index: "OrderIndex", entry: "OrderEntry") -> None:
    """Reverse ``link``."""
    index.unlink(entry)


def undo_unlink(index: "OrderIndex", entry: "OrderEntry") -> None:
    """Reverse ``unlink``."""
    index.link(entry)


def undo_finish(index: "OrderIndex", last: "OrderEntry | None") -> None:
    """Reverse the last part of ``finish``: ``last`` is the last finished order again."""
    index.finished_last = last
    index.num_finished -= 1
    if last is not None:
        last.next_finished = None
    else:
        index.finished_first = None
