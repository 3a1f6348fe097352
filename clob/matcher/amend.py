"""Execution of commands about known orders: reduce, replace, cancel all, set a nonce, expire."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from clob.book import rejections as book_rejections
from clob.commands import CancelAll, CancelSome, Expire, Reduce, Replace, SetNonce
from clob.errors import RejectedError
from clob.events import Event, RemovalReason
from clob.market import Mode
from clob.matcher import complementary, order_index, rejections, rollback
from clob.matcher.amounts import resized

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import MakerState, MarketState, OrderEntry


def remove_all(
    engine: "Engine", entries: Iterable["OrderEntry"], reason: RemovalReason, now_ms: int
) -> list[Event]:
    """Remove orders from their books, in the given order."""
    events: list[Event] = []
    for entry in entries:
        events += engine.remove(entry, reason, now_ms)
    return events


def orders_in(
    engine: "Engine", maker_state: "MakerState | None", *, wake: bool = True
) -> list["OrderEntry"]:
    """Return the resting orders of a maker in a market; see ``OrderIndex.resting_of``."""
    return engine.resting_of(maker_state, wake) if maker_state else []


def states_of(
    engine: "Engine", maker: str | None, market_state: "MarketState | None" = None
) -> Iterator["MakerState"]:
    """Yield each maker with resting orders in each market, in no meaningful order.

    Args:
        engine: the engine.
        maker: only this maker; None for all.
        market_state: only this market; None for all.
    """
    if market_state is not None:
        known = market_state.makers
        yield from known.values() if maker is None else filter(None, (known.get(maker),))
        return
    for first in engine.makers.values() if maker is None else (engine.makers.get(maker),):
        state = first
        while state is not None:
            yield state
            state = state.next_market


def resting_orders(
    engine: "Engine",
    maker: str | None,
    market_state: "MarketState | None" = None,
    *,
    wake: bool = True,
) -> list["OrderEntry"]:
    """Return the resting orders of :func:`states_of`, in the order of acceptance."""
    return by_number(
        entry
        for state in states_of(engine, maker, market_state)
        for entry in orders_in(engine, state, wake=wake)
    )


def by_number(entries: Iterable["OrderEntry"]) -> list["OrderEntry"]:
    """Sort orders by acceptance."""
    return sorted(entries, key=lambda entry: entry.number)


# ----- reduce and replace --------------------------------------------------------------------


def reduce(engine: "Engine", command: Reduce, now_ms: int) -> list[Event]:
    """Reduce an order, which keeps its place in the queue."""
    entry = engine.awake(engine.entries[command.order_id])
    market_state = entry.maker_state.market_state
    if engine.undo is not None:
        rollback.save_books(engine.undo, market_state)
    events = engine.book_of(entry).reduce(entry.order.id, command.size, now_ms)
    if market_state.complementary:
        complementary.convert_events(engine.entry_of, market_state, events, entry.is_yes)
    engine.resize(entry, command.size)
    return events


def replace(engine: "Engine", command: Replace, now_ms: int) -> list[Event]:
    """Change the price or size of an order; the book may still reject it."""
    entry = engine.awake(engine.entries[command.order_id])
    market_state, order = entry.maker_state.market_state, entry.order
    if engine.undo is not None:
        rollback.save_books(engine.undo, market_state)
    is_mirrored = market_state.complementary and not entry.is_yes
    policy = command.self_trade if command.self_trade is not None else market_state.self_trade
    try:
        events = engine.book_of(entry).replace(
            order.id,
            100 - command.price if is_mirrored else command.price,
            command.size,
            now_ms,
            command.post_only,
            policy,
            engine.trades_max,
        )
    except RejectedError as error:
        raise (book_rejections.mirrored(error) if is_mirrored else error) from None
    if market_state.complementary:
        complementary.convert_events(engine.entry_of, market_state, events, entry.is_yes)
    if command.price == order.price and command.size < entry.remaining:
        engine.resize(entry, command.size)
        return events
    if engine.undo is not None:
        engine.undo.append((rollback.restore, entry, entry.save()))
    if market_state.has_accounts:
        engine.reserve(entry, 0)
    entry.order = resized(order, order.size - entry.remaining + command.size, command.price)
    entry.remaining = command.size
    engine.apply_events(entry, events)
    return events


# ----- several orders ------------------------------------------------------------------------


def cancel_all(engine: "Engine", command: CancelAll, now_ms: int) -> list[Event]:
    """Remove the orders of a maker, of a market, or both."""
    market_state = engine.markets[command.market] if command.market else None
    return _remove_for(
        engine, command.maker, _cancellable(engine, command.maker, market_state), now_ms
    )


def cancel_some(engine: "Engine", command: CancelSome, now_ms: int) -> list[Event]:
    """Remove the orders that pass every filter. O(orders of the maker, or of the market)."""
    token, side, until_ms = command.token, command.side, command.accepted_until_ms
    market_state = rejections.market_of_filters(engine, command.market, token)
    entries = [
        entry
        for entry in _cancellable(engine, command.maker, market_state)
        if (token is None or entry.order.token == token)
        and (side is None or entry.order.side is side)
        and (until_ms is None or entry.accepted_ms <= until_ms)
    ]
    return _remove_for(engine, command.maker, entries, now_ms)


def _cancellable(
    engine: "Engine", maker: str | None, market_state: "MarketState | None"
) -> list["OrderEntry"]:
    """Return the orders of a maker or of all, in a market or in all that allow cancelling."""
    return [
        entry
        for state in states_of(engine, maker, market_state)
        if maker is None or state.market_state.mode <= Mode.CANCEL_ONLY
        for entry in orders_in(engine, state)
    ]


def _remove_for(
    engine: "Engine", maker: str | None, entries: list["OrderEntry"], now_ms: int
) -> list[Event]:
    """Remove orders in the order of acceptance, for their maker or for the operator."""
    reason = RemovalReason.ADMIN if maker is None else RemovalReason.CANCELLED
    return remove_all(engine, by_number(entries), reason, now_ms)


def set_nonce(engine: "Engine", command: SetNonce, now_ms: int) -> list[Event]:
    """Set a maker's nonce and remove the orders below it.

    "Incrementing the nonce cancels all orders with lower nonces." -- specification, Order
    """
    engine.nonces[command.maker] = command.nonce
    entries = [
        entry
        for entry in resting_orders(engine, command.maker)
        if entry.order.nonce < command.nonce
    ]
    events = remove_all(engine, entries, RemovalReason.NONCE, now_ms)
    order_index.drop_hashes_below(engine, command.maker, command.nonce)
    return events


def expire(engine: "Engine", command: Expire, now_ms: int) -> list[Event]:
    """Remove expired orders, the earliest expiration first, and drop expired hashes."""
    now_s = now_ms // 1000
    due = engine.expiring.irange(maximum=now_s, inclusive=(True, False))
    entries = [
        entry
        for second in list(due)
        for entry in by_number(map(engine.awake, list(engine.expiring[second].values())))
    ]
    events = remove_all(engine, entries, RemovalReason.EXPIRED, now_ms)
    order_index.drop_expired_hashes(engine, now_s)
    return events
