"""The whole state of an engine as canonical bytes: engines with equal bytes behave the same.

A snapshot is a magic number with the version, the Structs of :mod:`clob.matcher.state_records` in
the sequence of :func:`_pieces`, and the BLAKE2b hash of all of it, which is the state hash. Values
that follow from others, like reserves, are left out.
"""

import hashlib
from array import array
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from clob.codec import read, write
from clob.codec.layout import is_view
from clob.errors import ClobError, InvalidSnapshotError
from clob.events import MatchType, RemovalReason
from clob.matcher import order_index, rejections, settlement, snapshot_orders
from clob.matcher.state_records import (
    AccountState,
    FinishedState,
    MarketSnapshot,
    NonceState,
    OldSnapshotHeader,
    OrderSnapshot,
    OutcomeState,
    PairState,
    PendingState,
    SnapshotHeader,
    SpentState,
    Text,
)
from clob.units import TIME_MAX, UINT256_MAX

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import MarketState, OrderEntry, PendingTrade

MAGIC = b"CLOBSNAP\x03"
"""The first bytes of a snapshot: eight letters and the version."""
_OLDER = 2
"""The older version that is read as well."""
_INVALID = (ClobError, LookupError, OverflowError, ValueError)
"""Errors of inconsistent bytes."""

HASH_BYTES = 32

NOT_PAIRED = PairState(MatchType.DIRECT, 0)
"""The state of a trade that is not half of a mint or merge."""

ORDER_BYTES_MIN = 20
"""The smallest size of an order; bounds the number of orders a snapshot can contain."""

CHUNK_BYTES = 1_000_000
"""Bytes joined at a time."""

T = TypeVar("T")


# ----- writing -------------------------------------------------------------------------------


def state_hash(engine: "Engine") -> bytes:
    """Return the hash of the whole state, BLAKE2b of 32 bytes. O(state)."""
    seal = hashlib.blake2b(digest_size=HASH_BYTES)
    for chunk in _chunks(engine):
        seal.update(chunk)
    return seal.digest()


def snapshot(engine: "Engine") -> bytes:
    """Return the whole state as bytes. O(state)."""
    seal, chunks = hashlib.blake2b(digest_size=HASH_BYTES), []
    for chunk in _chunks(engine):
        seal.update(chunk)
        chunks.append(chunk)
    return b"".join([*chunks, seal.digest()])


def _chunks(engine: "Engine") -> Iterator[bytes]:
    """Yield the state in chunks: joining single pieces at the end would need twice the memory."""
    pieces, size = [], 0
    for piece in _pieces(engine):
        pieces.append(piece)
        size += len(piece)
        if size > CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)


def _pieces(engine: "Engine") -> Iterator[bytes]:
    """Yield everything in sequence, except the hash at the end."""
    accounts = [
        AccountState(
            wallet, asset, account.balance < 0, *divmod(abs(account.balance), UINT256_MAX + 1)
        )
        for (wallet, asset), account in sorted(engine.accounts.items())
        if account.balance
    ]
    spent = sorted(
        (order_hash, *terms)
        for order_hash, terms in engine.used_hashes.items()
        if type(terms) is tuple
    )
    head = SnapshotHeader(
        now_ms=engine.now_ms,
        number=engine.number,
        limits=engine.limits,
        markets=len(engine.markets),
        finished=engine.num_finished,
        nonces=len(engine.nonces),
        accounts=len(accounts),
        spent=len(spent),
        seq_base=engine.seq_base,
    )
    yield MAGIC + write(head)
    makers: dict[str, int] = {}
    for market_state in engine.markets.values():
        yield from _market_pieces(market_state, engine, makers)
    for entry in order_index.finished_orders(engine):
        removal = entry.removal or RemovalReason.CANCELLED
        yield write(FinishedState(entry.maker_state.market_state.market.id, entry.is_yes, removal))
        yield from engine.order_pieces([entry.order.id], makers, False)
    yield from (write(NonceState(*nonce)) for nonce in sorted(engine.nonces.items()))
    yield from map(write, accounts)
    yield from (write(SpentState(*hash_and_terms)) for hash_and_terms in spent)


def order_ids(engine: "Engine") -> list[str | int]:
    """Return the ids of the orders in sequence: resting ones by market and queue, finished ones."""
    ids: list[str | int] = []
    for market_state in engine.markets.values():
        ids += market_state.yes_book.ids() + market_state.no_book.ids()
    return ids + finished_ids(engine)


def finished_ids(engine: "Engine") -> list[str | int]:
    """Return the ids of the finished orders in sequence."""
    return [entry.order.id for entry in order_index.finished_orders(engine)]


def _market_pieces(
    market_state: "MarketState", engine: "Engine", makers: dict[str, int]
) -> Iterator[bytes]:
    """Yield a market: its orders in the sequence of their queues, then its pending trades."""
    ids = (market_state.yes_book.ids(), market_state.no_book.ids())
    counts = (len(ids[0]), len(ids[1]), len(market_state.pending))
    yield write(MarketSnapshot(market_state.market, market_state.seq_book.seq, *counts))
    for side in ids:
        yield from engine.order_pieces(side, makers, market_state.complementary)
    for seq, pending in market_state.pending.items():
        yield write(_pending_state(seq, pending))
        if market_state.complementary:
            yield write(PairState(pending.match_type, pending.other_seq))


def _pending_state(seq: int, pending: "PendingTrade") -> PendingState:
    """Return the state of a pending trade."""
    return PendingState(
        seq=seq,
        token=pending.seller_pays.asset,
        buyer_pays=pending.buyer_pays.wallet,
        buyer_receives=pending.buyer_receives.wallet,
        seller_pays=pending.seller_pays.wallet,
        seller_receives=pending.seller_receives.wallet,
        paid=pending.paid,
        size=pending.size,
        buyer_fee=pending.buyer_fee,
        seller_fee=pending.seller_fee,
    )


# ----- reading -------------------------------------------------------------------------------


class StructReader:
    """Reads Structs one after the other; compiled code may read orders in bulk."""

    def __init__(self, state: bytes | memoryview, *, in_bulk: bool = True) -> None:
        self.state = state
        self.in_bulk = in_bulk
        self.offset: int = len(MAGIC)
        self.makers: list[str] = []
        self.known: set[str] = set()
        self.numbers: array[int] = array("q")

    def maker(self, place: int) -> str:
        """Return a maker by index; the name of a new one is read next."""
        if place == len(self.makers):
            maker = self.take(Text).text
            if maker in self.known:
                raise ValueError(f"maker {maker!r} appears twice")
            self.known.add(maker)
            self.makers.append(maker)
        return self.makers[place]

    def take(self, kind: type[T]) -> T:
        """Read one Struct."""
        value: T
        value, self.offset = read(kind, self.state, self.offset)
        return value

    def orders(self, count: int) -> Iterator[tuple[int, OrderSnapshot, str]]:
        """Yield ``count`` orders, each with its offset and maker."""
        # Inlines ``take``, ``check_counts`` and ``maker``: there may be a million orders.
        state, offset, makers, numbers = self.state, self.offset, self.makers, self.numbers
        for _ in range(count):
            start = offset
            order, offset = read(OrderSnapshot, state, offset)
            if order.remaining > order.size or max(order.number, order.accepted_ms) > TIME_MAX:
                check_order(order)
            if order.maker >= len(makers):
                self.offset = offset
                self.maker(order.maker)
                offset = self.offset
            numbers.append(order.number)
            yield start, order, makers[order.maker]
        self.offset = offset

    def ascending(self, kind: type[T], count: int, *key: str) -> Iterator[T]:
        """Yield ``count`` Structs, which must be sorted by the fields of their key."""
        key_of, last = attrgetter(*key), None
        for _ in range(count):
            value = self.take(kind)
            found = key_of(value)
            if last is not None and not last < found:
                raise ValueError(f"{kind.__name__} {found!r} is not after {last!r}")
            yield value
            last = found


def restore(engine: "Engine", state: bytes | memoryview, *, check_hash: bool = True) -> None:
    """Load a snapshot into an empty engine; raise ``InvalidSnapshotError``."""
    is_bytes = type(state) is bytes or is_view(state)
    if not is_bytes or state[: len(MAGIC) - 1] != MAGIC[:-1]:
        raise InvalidSnapshotError("a snapshot must be bytes that begin with CLOBSNAP")
    found = state[len(MAGIC) - 1] if len(state) >= len(MAGIC) else "missing"
    if found not in (MAGIC[-1], _OLDER):
        raise InvalidSnapshotError(
            f"unsupported snapshot version {found} (expected {_OLDER} or {MAGIC[-1]})"
        )
    body = memoryview(state)[:-HASH_BYTES]
    if check_hash and hashlib.blake2b(body, digest_size=HASH_BYTES).digest() != state[-HASH_BYTES:]:
        raise InvalidSnapshotError("the snapshot is damaged: its hash does not match")
    try:
        _restore(engine, StructReader(state))
    except _INVALID as error:
        first = _first_error(engine, state, error)
        raise InvalidSnapshotError(f"the snapshot is inconsistent: {first!r}") from first


def _first_error(engine: "Engine", state: bytes | memoryview, found: Exception) -> Exception:
    """Return the first error of a snapshot; reading in bulk may find a later one before it."""
    again = type(engine)(engine.book_class, engine.handlers)
    try:
        _restore(again, StructReader(state, in_bulk=False))
    except _INVALID as error:
        return error
    return found


def _restore(engine: "Engine", reader: StructReader) -> None:
    """Read everything in the sequence of :func:`_pieces`."""
    head: SnapshotHeader
    if reader.state[len(MAGIC) - 1] == _OLDER:
        old = reader.take(OldSnapshotHeader)
        head = SnapshotHeader(**msgspec.structs.asdict(old), seq_base=0)
    else:
        head = reader.take(SnapshotHeader)
    rejections.check_limits(head.limits)
    engine.set_limits(head.limits)
    engine.asleep, engine.asleep_makers = reader.state, reader.makers
    for _ in range(head.markets):
        _restore_market(engine, reader)
    for _ in range(head.finished):
        where = reader.take(FinishedState)
        market_state = engine.markets[where.market]
        state = reader.take(OrderSnapshot)
        check_token(market_state, where.is_yes)
        check_order(state)
        entry = engine.entry_from(market_state, state, where.is_yes, reader.maker(state.maker))
        check_unused(engine, entry)
        engine.register(entry)
        engine.finish(entry, where.removal)
        reader.numbers.append(state.number)
    for nonce in reader.ascending(NonceState, head.nonces, "maker"):
        engine.nonces[nonce.maker] = nonce.nonce
    for account in reader.ascending(AccountState, head.accounts, "wallet", "asset"):
        balance = account.high * (UINT256_MAX + 1) + account.low
        if not balance:
            raise ValueError(f"wallet {account.wallet!r} has a balance of 0")
        opened = engine.account(account.wallet, account.asset)
        opened.balance = -balance if account.owes else balance
    check_counts(head.number, head.now_ms)
    check_numbers(reader.numbers, head.number)
    for spent in reader.ascending(SpentState, head.spent, "order_hash"):
        if spent.order_hash in engine.used_hashes:
            raise ValueError(f"hash 0x{spent.order_hash.hex()} appears twice")
        engine.add_spent(*msgspec.structs.astuple(spent))
    left = len(reader.state) - HASH_BYTES - reader.offset
    if left:
        raise ValueError(f"{left} bytes after the end")
    engine.now_ms, engine.number, engine.seq_base = head.now_ms, head.number, head.seq_base


def check_counts(number: int, time_ms: int) -> None:
    """Raise for a number or a time above 63 bits."""
    if number > TIME_MAX or time_ms > TIME_MAX:
        raise ValueError(f"number and time must be at most {TIME_MAX}")


def check_order(state: OrderSnapshot) -> None:
    """Raise for a number or a time above 63 bits, or a remaining size above the size."""
    check_counts(state.number, state.accepted_ms)
    if state.remaining > state.size:
        raise ValueError(f"order {state.id!r} has {state.remaining} wei left of {state.size}")


def check_numbers(numbers: "array[int]", last: int) -> None:
    """Raise if two orders share a number, or one is above the last number."""
    if not snapshot_orders.are_distinct(numbers):
        raise ValueError("two orders have the same number")
    if max(numbers, default=0) > last:
        raise ValueError(f"order number {max(numbers)} is above {last}, the last one")


def check_unused(engine: "Engine", entry: "OrderEntry") -> None:
    """Raise if another order has the id, hash or client id of an order."""
    client = (entry.maker_state.maker, entry.client_id)
    if (
        entry.order.id in engine.entries
        or entry.order_hash in engine.used_hashes
        or client in engine.client_ids
    ):
        raise ValueError(f"order {entry.order.id!r} has an id, hash or client id of another")


def check_queues(market_state: "MarketState", ids: list[str | int]) -> None:
    """Raise if the orders of a market are not in the sequence of their queues."""
    if market_state.yes_book.ids() + market_state.no_book.ids() != ids:
        raise ValueError(f"the orders of market {market_state.market.id!r} are not sorted")


def check_token(market_state: "MarketState", is_yes: bool) -> None:
    """Raise for an order for NO in a market without a NO token."""
    if not is_yes and market_state.no is None:
        raise ValueError(f"market {market_state.market.id!r} has an order for NO but no NO token")


def _restore_market(engine: "Engine", reader: StructReader) -> None:
    """Read a market and rest its orders in their books."""
    state = reader.take(MarketSnapshot)
    orders_max = len(reader.state) // ORDER_BYTES_MIN
    rejections.check_market(state.market)
    rejections.check_tokens(engine, state.market)
    if state.market.id in engine.markets:
        raise ValueError(f"market {state.market.id!r} appears twice")
    market_state = engine.open_market(
        state.market, min(state.yes, orders_max), min(state.no, orders_max)
    )
    if state.no:
        check_token(market_state, False)
    ids: list[str | int] = []
    for count, is_yes in ((state.yes, True), (state.no, False)):
        engine.asleep_starts.append(len(engine.asleep_offsets))
        engine.asleep_books.append((market_state, is_yes))
        if not market_state.complementary:
            engine.restore_orders(reader, market_state, count, is_yes)
            continue
        for _ in range(count):
            of_token = reader.take(OutcomeState).is_yes
            ids += engine.restore_book(market_state, reader.orders(1), of_token)
    if market_state.complementary:
        check_queues(market_state, ids)
    market_state.seq_book.seq = state.seq
    for _ in range(state.pending):
        _restore_pending(engine, market_state, reader)
    seqs = market_state.pending
    if len(seqs) != state.pending or max(seqs, default=0) > state.seq:
        raise ValueError(f"the pending trades of market {state.market.id!r} have wrong seqs")
    check_pairs(market_state)


def _restore_pending(engine: "Engine", market_state: "MarketState", reader: StructReader) -> None:
    """Read a pending trade."""
    state, pair = reader.take(PendingState), NOT_PAIRED
    if market_state.complementary:
        pair = reader.take(PairState)
    settlement.hold(engine, market_state, state, pair)
    if _pending_state(state.seq, market_state.pending[state.seq]) != state:
        raise ValueError(f"trade {state.seq} has wallets of a party that {pair.match_type} lacks")


def check_pairs(market_state: "MarketState") -> None:
    """Raise if half of a mint or merge is pending without the other."""
    for seq, pending in market_state.pending.items():
        direct = pending.match_type is MatchType.DIRECT
        if direct != (pending.other_seq == 0) or (
            pending.other_seq and market_state.pending[pending.other_seq].other_seq != seq
        ):
            raise ValueError(f"trade {seq} and its other half {pending.other_seq} are inconsistent")
