"""Every order by its ids: in its maker's list while it rests, and readable for a while afterwards.

The hash of a signed order outlives the order:

    "That a hash was used is forgotten only when the order can no longer be valid (expired, or nonce
    below the maker's): it is part of the state, not a cache bounded by count, because anyone can
    read a signature and post it again." (decision 23)

The resting orders of a snapshot stay asleep in its bytes until a command changes them: indexes
hold their place there, counted from 0, instead of an :class:`OrderEntry`.

Compiled from this text, with the types of ``order_index.pxd``.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from sortedcontainers import SortedDict

from clob.codec import read
from clob.events import RemovalReason
from clob.matcher import complementary, entities, rollback
from clob.matcher.admission import Admission
from clob.matcher.amounts import needed, resized
from clob.matcher.entities import MakerState, MarketState, OrderEntry, make_entry, order_from
from clob.matcher.state_records import OrderSnapshot, OutcomeState
from clob.order import Order

if TYPE_CHECKING:
    from clob.matcher.entities import OrderEntry

BY_NUMBER = attrgetter("number")


class OrderIndex(Admission):
    """Resting orders, finished orders still readable, and hashes of evicted orders."""

    def __init__(self) -> None:
        super().__init__()
        # For each maker with resting orders, the first of its linked states in markets.
        self.makers: dict[str, MakerState] = {}
        # Resting orders by expiration and number.
        self.expiring: SortedDict[int, dict[int, OrderEntry | int]] = SortedDict()
        # Finished orders still readable, linked from the first finished to the last.
        self.finished_first: OrderEntry | None = None
        self.finished_last: OrderEntry | None = None
        self.num_finished: int = 0
        # Hashes of evicted orders, by maker and by expiration.
        self.spent_by_maker: dict[str, set[bytes]] = {}
        self.spent_by_expiry: SortedDict[int, set[bytes]] = SortedDict()
        # The snapshot with the sleeping orders, their offsets in it by place, its makers, and its
        # books by their first place.
        self.asleep: bytes | memoryview = b""
        self.asleep_offsets: array[int] = array("Q")
        self.asleep_makers: list[str] = []
        self.asleep_starts: list[int] = []
        self.asleep_books: list[tuple[MarketState, bool]] = []
        # Called with an order that wakes up, before it changes.
        self.on_wake: Callable[[OrderEntry], Any] | None = None

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
        """Return the entry of the order of a snapshot."""
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
        return entry

    # ----- orders of a snapshot ------------------------------------------------------------

    def restore_book(
        self,
        market_state: MarketState,
        states: Iterable[tuple[int, OrderSnapshot, str]],
        is_yes: bool,
    ) -> list[str | int]:
        """Rest orders in their book, asleep, in the order of its queues; return their ids.

        Args:
            market_state: the market.
            states: the offset of each order in the snapshot, the order, and its maker.
            is_yes: whether they are for YES.
        """
        is_in_yes = is_yes or market_state.complementary
        book = market_state.yes_book if is_in_yes else market_state.no_book
        ids: list[str | int] = []
        for offset, state, maker in states:
            place = len(self.asleep_offsets)
            self.asleep_offsets.append(offset)
            entry = self.entry_from(market_state, state, is_yes, maker)
            order = entry.order
            if entry.remaining != order.size:
                order = resized(order, entry.remaining)
            if market_state.complementary:
                order = complementary.on_grid(entry, order)
            book.rest(order)
            self.put_to_sleep(entry, place)
            ids.append(state.id)
        return ids

    def put_to_sleep(self, entry: OrderEntry, place: int) -> None:
        """Index a resting order by its place in the snapshot; raise if another has its ids."""
        order, maker_state = entry.order, entry.maker_state
        maker, used, client_id = maker_state.maker, entry.order_hash, entry.client_id
        if (
            self.entries.setdefault(order.id, place) is not place
            or (used is not None and self.used_hashes.setdefault(used, place) is not place)
            or (
                client_id is not None
                and self.client_ids.setdefault((maker, client_id), place) is not place
            )
        ):
            raise ValueError(f"order {order.id!r} has an id, hash or client id of another")
        if order.expiration_s:
            self.expiring.setdefault(order.expiration_s, {})[entry.number] = place
        if maker_state.asleep is None:
            maker_state.asleep = []
        maker_state.asleep.append(place)
        if not maker_state.count:
            maker_state.market_state.makers[maker] = maker_state
            self.link_maker(maker_state)
        maker_state.count += 1
        if maker_state.market_state.has_accounts:
            self.open_accounts(entry)
            self.reserve(entry, entry.remaining)
            if order.smart_wallet:
                entry.pays.smart_wallet_orders[entry.number] = place

    def peek(self, found: Any) -> OrderEntry:
        """Return an entry to read; that of a sleeping order is a copy, which changes nothing."""
        if type(found) is not int:
            known: OrderEntry = found
            return known
        market_state, is_yes = self.asleep_books[bisect_right(self.asleep_starts, found) - 1]
        offset = self.asleep_offsets[found]
        if market_state.complementary:
            # One byte in front of the order.
            is_yes = read(OutcomeState, self.asleep, offset - 1)[0].is_yes
        state = read(OrderSnapshot, self.asleep, offset)[0]
        entry = self.entry_from(market_state, state, is_yes, self.asleep_makers[state.maker])
        entry.resting = True
        if market_state.has_accounts:
            self.open_accounts(entry)
            entry.reserve = needed(entry.order, entry.remaining, entry.order.price)
        return entry

    def entry_of(self, order_id: str | int) -> OrderEntry:
        """Return the entry of a known order to read, see ``peek``."""
        return self.peek(self.entries[order_id])

    def awake(self, found: Any) -> OrderEntry:
        """Return an entry to change; a sleeping order wakes up."""
        return self.wake(self.peek(found), found) if type(found) is int else found

    def wake(self, entry: OrderEntry, place: int) -> OrderEntry:
        """Make the copy of a sleeping order its entry."""
        undo = self.undo
        if self.on_wake is not None:
            self.on_wake(entry)
        self.undo = None
        self.register(entry)
        entry.before = entry.maker_state.last
        self.link(entry)
        entry.maker_state.count -= 1  # it was counted asleep
        self.undo = undo
        if undo is not None:
            undo.append((undo_wake, self, (entry, place)))
        return entry

    def resting_of(self, maker_state: MakerState, wake: bool) -> list[OrderEntry]:
        """Return the resting orders of a maker in a market, in the order of acceptance.

        Args:
            maker_state: the maker.
            wake: whether the orders may be changed; else they may only be read.
        """
        entries: list[OrderEntry] = []
        for place in maker_state.asleep or ():
            entry = self.peek(place)
            if self.entries.get(entry.order.id) == place:
                if wake:
                    self.wake(entry, place)
                else:
                    entries.append(entry)
        if wake and self.undo is None:
            maker_state.asleep = None
        linked = maker_state.first
        while linked is not None:
            entries.append(linked)
            linked = linked.after
        return sorted(entries, key=BY_NUMBER)

    # ----- registered orders ---------------------------------------------------------------

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
            self.link_maker(maker_state)
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
        if not maker_state.count:
            self.unlink_maker(maker_state)
            if not maker_state.market_state.has_accounts:
                del maker_state.market_state.makers[maker_state.maker]
        second = entry.order.expiration_s
        if second:
            del self.expiring[second][entry.number]
            if not self.expiring[second]:
                del self.expiring[second]
        if entry.order.smart_wallet and maker_state.market_state.has_accounts:
            del entry.pays.smart_wallet_orders[entry.number]

    def link_maker(self, maker_state: MakerState) -> None:
        """Insert a maker in a market among the same maker's in other markets."""
        first = self.makers.get(maker_state.maker)
        if first is None:
            self.makers[maker_state.maker] = maker_state
            return
        following = first.next_market
        maker_state.previous_market, maker_state.next_market = first, following
        first.next_market = maker_state
        if following is not None:
            following.previous_market = maker_state

    def unlink_maker(self, maker_state: MakerState) -> None:
        """Reverse ``link_maker``."""
        previous, following = maker_state.previous_market, maker_state.next_market
        if following is not None:
            following.previous_market = previous
        if previous is not None:
            previous.next_market = following
        elif following is not None:
            self.makers[maker_state.maker] = following
        else:
            del self.makers[maker_state.maker]
            return
        maker_state.previous_market = maker_state.next_market = None

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


def undo_wake(index: "OrderIndex", saved: "tuple[OrderEntry, int]") -> None:
    """Reverse ``wake``."""
    entry, place = saved
    index.unlink(entry)
    undo_register(index, entry)
    index.put_to_sleep(entry, place)
    # The maker's list still had it.
    entry.maker_state.asleep.pop()


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
