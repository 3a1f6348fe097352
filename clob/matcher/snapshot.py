"""The whole state of a desk as canonical bytes, and back: equal bytes mean equal futures.

The layout of each Struct in :mod:`clob.matcher.state_records` is derived from its definition as in
:mod:`clob.codec.layout`; the sequence is that of :func:`snapshot`. What can be computed from the
rest, like reserves, is left out. The last 32 bytes are the BLAKE2b hash of all before, which is
the state hash.
"""

import hashlib
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from clob.codec import read, write
from clob.errors import ClobError, InvalidSnapshotError
from clob.events import MatchType, RemovalReason
from clob.matcher import admin, order_index
from clob.matcher.state_records import (
    AccountState,
    FinishedState,
    HalfState,
    NonceState,
    OrderSnapshot,
    OutcomeState,
    PendingState,
    SnapshotHeader,
    SpentState,
    Text,
    VenueState,
)
from clob.units import TIME_MAX, UINT256_MAX

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import MarketState, OrderEntry

MAGIC = b"CLOBSNAP\x01"
"""What a snapshot begins with: eight letters and the version."""

HASH_BYTES = 32

WHOLE = HalfState(MatchType.DIRECT, 0)
"""What a trade is that is no half of anything."""

ORDER_BYTES_MIN = 20
"""No order takes less: a bound on how many there can be, whatever is announced."""

CHUNK_PIECES = 10_000
"""How many pieces are joined at a time."""

T = TypeVar("T")


# ----- writing -------------------------------------------------------------------------------


def state_hash(desk: "Engine") -> bytes:
    """Hash the whole state, BLAKE2b of 32 bytes. O(everything)."""
    seal = hashlib.blake2b(digest_size=HASH_BYTES)
    for chunk in _chunks(desk):
        seal.update(chunk)
    return seal.digest()


def snapshot(desk: "Engine") -> bytes:
    """Write the whole state."""
    seal, chunks = hashlib.blake2b(digest_size=HASH_BYTES), []
    for chunk in _chunks(desk):
        seal.update(chunk)
        chunks.append(chunk)
    return b"".join([*chunks, seal.digest()])


def _chunks(desk: "Engine") -> Iterator[bytes]:
    """Write everything, many pieces at a time: one by one they would be kept twice in the end."""
    pieces = _pieces(desk)
    while chunk := b"".join(islice(pieces, CHUNK_PIECES)):
        yield chunk


def _pieces(desk: "Engine") -> Iterator[bytes]:
    """Write everything in sequence, the hash at the end excepted."""
    accounts = [
        AccountState(
            wallet, asset, account.balance < 0, *divmod(abs(account.balance), UINT256_MAX + 1)
        )
        for (wallet, asset), account in sorted(desk.accounts.items())
        if account.balance
    ]
    spent = sorted(
        (order_hash, *terms) for order_hash, terms in desk.used.items() if type(terms) is tuple
    )
    head = SnapshotHeader(
        now_ms=desk.now_ms,
        number=desk.number,
        limits=desk.limits,
        markets=len(desk.venues),
        finished=desk.num_finished,
        nonces=len(desk.nonces),
        accounts=len(accounts),
        spent=len(spent),
    )
    yield MAGIC + write(head)
    makers: dict[str, int] = {}
    for venue in desk.venues.values():
        yield from _venue_pieces(venue, desk, makers)
    for entry in order_index.readable(desk):
        removal = entry.removal or RemovalReason.CANCELLED
        yield write(FinishedState(entry.trader.venue.market.id, entry.is_yes, removal))
        yield _order_piece(entry, makers)
    yield from (write(NonceState(*nonce)) for nonce in sorted(desk.nonces.items()))
    yield from map(write, accounts)
    yield from (write(SpentState(*hash_and_terms)) for hash_and_terms in spent)


def _order_piece(entry: "OrderEntry", makers: dict[str, int]) -> bytes:
    """Write an order; the first of a maker is followed by the name."""
    maker = entry.trader.maker
    place = makers.get(maker)
    if place is not None:
        return write(entry.state(place))
    makers[maker] = place = len(makers)
    return write(entry.state(place)) + write(Text(maker))


def _venue_pieces(venue: "MarketState", desk: "Engine", makers: dict[str, int]) -> Iterator[bytes]:
    """Write a market: its orders in the sequence of their queues, its trades that wait."""
    ids = (venue.yes_book.ids(), venue.no_book.ids())
    counts = (len(ids[0]), len(ids[1]), len(venue.pending))
    yield write(VenueState(venue.market, venue.turn.seq, *counts))
    entries = desk.entries
    for side in ids:
        for order_id in side:
            if venue.complementary:
                yield write(OutcomeState(entries[order_id].is_yes))
            yield _order_piece(entries[order_id], makers)
    for seq, held in venue.pending.items():
        yield write(
            PendingState(
                seq=seq,
                token=held.seller_pays.asset,
                buyer_pays=held.buyer_pays.wallet,
                buyer_receives=held.buyer_receives.wallet,
                seller_pays=held.seller_pays.wallet,
                seller_receives=held.seller_receives.wallet,
                paid=held.paid,
                size=held.size,
                buyer_fee=held.buyer_fee,
                seller_fee=held.seller_fee,
            )
        )
        if venue.complementary:
            yield write(HalfState(held.match_type, held.other))


# ----- reading -------------------------------------------------------------------------------


class StructReader:
    """Reads one Struct after the other."""

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.offset = len(MAGIC)
        self.makers: list[str] = []

    def maker(self, place: int) -> str:
        """Give a maker by its place; the name of a new one comes next."""
        if place == len(self.makers):
            self.makers.append(self.take(Text).text)
        return self.makers[place]

    def take(self, kind: type[T]) -> T:
        """Read the next one."""
        value: T
        value, self.offset = read(kind, self.state, self.offset)
        return value

    def orders(self, count: int) -> Iterator[tuple[OrderSnapshot, str]]:
        """Read so many orders, each with its maker."""
        # As ``take``, ``check_counts`` and ``maker``, for there may be a million of them.
        state, offset, makers = self.state, self.offset, self.makers
        for _ in range(count):
            order, offset = read(OrderSnapshot, state, offset)
            if order.number > TIME_MAX or order.accepted_ms > TIME_MAX:
                check_counts(order.number, order.accepted_ms)
            if order.maker >= len(makers):
                self.offset = offset
                self.maker(order.maker)
                offset = self.offset
            yield order, makers[order.maker]
        self.offset = offset

    def several(self, kind: type[T], count: int) -> Iterator[T]:
        """Read as many as that."""
        return (self.take(kind) for _ in range(count))


def restore(desk: "Engine", state: bytes) -> None:
    """Bring an empty desk into a state.

    Raises:
        InvalidSnapshotError: the bytes are no snapshot of this version, or a damaged one.
    """
    if type(state) is not bytes or not state.startswith(MAGIC[:-1]):
        raise InvalidSnapshotError("a snapshot begins with CLOBSNAP; these bytes do not")
    if state[len(MAGIC) - 1 : len(MAGIC)] != MAGIC[-1:]:
        raise InvalidSnapshotError(f"a snapshot of version {MAGIC[-1]} is needed")
    body = memoryview(state)[:-HASH_BYTES]
    if hashlib.blake2b(body, digest_size=HASH_BYTES).digest() != state[-HASH_BYTES:]:
        raise InvalidSnapshotError("the hash at the end is not that of the bytes before it")
    try:
        _restore(desk, StructReader(state))
    except (ClobError, LookupError, OverflowError, ValueError) as error:
        raise InvalidSnapshotError(f"the snapshot contradicts itself: {error!r}") from error


def _restore(desk: "Engine", reader: StructReader) -> None:
    """Read everything in the sequence in which it was written."""
    head = reader.take(SnapshotHeader)
    admin.check_limits(head.limits)
    desk.adopt_limits(head.limits)
    resting: list[OrderEntry] = []
    for _ in range(head.markets):
        resting += _restore_venue(desk, reader)
    resting.sort(key=attrgetter("number"))
    for entry in resting:
        desk.rest(entry)
    for _ in range(head.finished):
        where = reader.take(FinishedState)
        venue = desk.venues[where.market]
        state = reader.take(OrderSnapshot)
        check_token(venue, where.is_yes)
        check_counts(state.number, state.accepted_ms)
        entry = desk.entry_from(venue, state, where.is_yes, reader.maker(state.maker))
        desk.finish(entry, where.removal)
    for nonce in reader.several(NonceState, head.nonces):
        desk.nonces[nonce.maker] = nonce.nonce
    for account in reader.several(AccountState, head.accounts):
        balance = account.high * (UINT256_MAX + 1) + account.low
        named = desk.account(account.wallet, account.asset)
        named.balance = -balance if account.owes else balance
    for spent in reader.several(SpentState, head.spent):
        desk.keep(*msgspec.structs.astuple(spent))
    check_counts(head.number, head.now_ms)
    left = len(reader.state) - HASH_BYTES - reader.offset
    if left:
        raise ValueError(f"{left} bytes follow the end")
    desk.now_ms, desk.number = head.now_ms, head.number


def check_counts(number: int, time_ms: int) -> None:
    """Refuse a number or a time beyond 63 bits, which no matcher reaches."""
    if number > TIME_MAX or time_ms > TIME_MAX:
        raise ValueError(f"a number or a time is beyond {TIME_MAX}")


def check_token(venue: "MarketState", is_yes: bool) -> None:
    """Refuse an order for a token that has no name yet."""
    if not is_yes and venue.no is None:
        raise ValueError(f"market {venue.market.id!r} has an order for a NO that is not named")


def _restore_venue(desk: "Engine", reader: StructReader) -> "list[OrderEntry]":
    """Read a market and put its orders into their queues."""
    state = reader.take(VenueState)
    room = len(reader.state) // ORDER_BYTES_MIN
    admin.check_market(state.market)
    admin.check_tokens(desk, state.market)
    if state.market.id in desk.venues:
        raise ValueError(f"market {state.market.id!r} is there twice")
    venue = desk.open_venue(state.market, min(state.yes, room), min(state.no, room))
    entries: list[OrderEntry] = []
    if venue.complementary:
        for _ in range(state.yes):
            is_yes = reader.take(OutcomeState).is_yes
            entries += desk.queue_up(venue.yes_book, venue, reader.orders(1), is_yes)
    else:
        entries += desk.queue_up(venue.yes_book, venue, reader.orders(state.yes), True)
    if state.no:
        check_token(venue, False)
    entries += desk.queue_up(venue.no_book, venue, reader.orders(state.no), False)
    venue.turn.seq = state.seq
    for _ in range(state.pending):
        _restore_pending(desk, venue, reader)
    check_halves(venue)
    return entries


def _restore_pending(desk: "Engine", venue: "MarketState", reader: StructReader) -> None:
    """Read a trade and let it wait for its settlement."""
    state, half = reader.take(PendingState), WHOLE
    if venue.complementary:
        half = reader.take(HalfState)
    collateral, token = venue.market.collateral, state.token
    buyer, seller = (
        (state.buyer_pays, state.buyer_receives),
        (state.seller_pays, state.seller_receives),
    )
    amounts = (state.paid, state.size, state.buyer_fee, state.seller_fee)
    if half.match_type is MatchType.MINT:
        accounts = desk.beside_nobody(
            desk.account(buyer[0], collateral), desk.account(buyer[1], token), True
        )
    elif half.match_type is MatchType.MERGE:
        accounts = desk.beside_nobody(
            desk.account(seller[0], token), desk.account(seller[1], collateral), False
        )
    else:
        accounts = (
            desk.account(buyer[0], collateral),
            desk.account(buyer[1], token),
            desk.account(seller[0], token),
            desk.account(seller[1], collateral),
        )
    desk.hold(venue, state.seq, accounts, amounts)
    desk.bind(venue, state.seq, half.match_type, half.other)


def check_halves(venue: "MarketState") -> None:
    """Refuse half of a mint or a merge that waits without the other."""
    for seq, held in venue.pending.items():
        direct = held.match_type is MatchType.DIRECT
        if direct != (held.other == 0) or (held.other and venue.pending[held.other].other != seq):
            raise ValueError(f"trade {seq} and its other half {held.other} contradict each other")
