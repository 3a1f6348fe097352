"""Commands about orders that are there: reduce, replace, cancel all, raise a nonce, expire."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clob.book import rejections as book_rejections
from clob.book import validation
from clob.commands import CancelAll, Expire, Reduce, Replace, SetNonce
from clob.errors import NonceTooLowError, RejectedError
from clob.events import Event, RemovalReason
from clob.market import Mode
from clob.matcher import complementary, order_index, rejections, rollback
from clob.matcher.amounts import needed, resized
from clob.units import PRICE_MAX, PRICE_MIN

if TYPE_CHECKING:
    from clob.matcher.engine import Engine
    from clob.matcher.entities import MarketState, OrderEntry


def remove(
    desk: "Engine", entries: Iterable["OrderEntry"], reason: RemovalReason, now_ms: int
) -> list[Event]:
    """Take orders out of their books, in the sequence given."""
    events: list[Event] = []
    for entry in entries:
        events += desk.take_out(entry, reason, now_ms)
    return events


def of_maker(venue: "MarketState", maker: str) -> list["OrderEntry"]:
    """List the resting orders of a maker in a market, in the sequence of acceptance."""
    trader = venue.traders.get(maker)
    entry, entries = trader.first if trader else None, []
    while entry is not None:
        entries.append(entry)
        entry = entry.after
    return entries


def by_number(entries: Iterable["OrderEntry"]) -> list["OrderEntry"]:
    """Sort orders into the sequence of acceptance."""
    return sorted(entries, key=lambda entry: entry.number)


# ----- reduce and replace --------------------------------------------------------------------


def _lot_of(desk: "Engine", command: Reduce | Replace) -> int:
    """Give the lot of the market of an order, 1 where there is no such order."""
    entry = desk.entries.get(command.order_id)
    return entry.trader.venue.market.lot_wei if entry else 1


def refuse_reduce(desk: "Engine", command: Reduce, now_ms: int) -> None:
    """Refuse a reduction."""
    rejections.check_market_and_maker(desk, command)
    validation.check_id(command.order_id)
    validation.check_size(command.size, _lot_of(desk, command))
    entry = rejections.entry_of(desk, command, Mode.CANCEL_ONLY)
    if command.size >= entry.remaining:
        raise book_rejections.not_reduced(command.size, entry.remaining)


def reduce(desk: "Engine", command: Reduce, now_ms: int) -> list[Event]:
    """Make an order smaller where it stands."""
    entry = desk.entries[command.order_id]
    if desk.undo is not None:
        rollback.keep_books(desk.undo, entry.trader.venue)
    events = desk.book_of(entry).reduce(entry.order.id, command.size, now_ms)
    if entry.trader.venue.complementary:
        complementary.told(desk, entry.trader.venue, events, entry.is_yes)
    desk.resize(entry, command.size)
    return events


def refuse_replace(desk: "Engine", command: Replace, now_ms: int) -> None:
    """Refuse a replacement, but for what only the book can refuse."""
    rejections.check_market_and_maker(desk, command)
    validation.check_policy(command.post_only, command.self_trade)
    validation.check_id(command.order_id)
    validation.check_price(command.price, PRICE_MIN, PRICE_MAX)
    validation.check_size(command.size, _lot_of(desk, command))
    known = desk.entries.get(command.order_id)
    if known is not None:
        rejections.check_min_size(known.trader.venue, command.size)
        if known.resting and 0 < known.order.expiration_s < now_ms // 1000:
            raise book_rejections.expired(known.order.expiration_s, now_ms // 1000)
    entry = rejections.entry_of(desk, command, Mode.OPEN)
    refusal = _uncovered(desk, entry, command)
    if refusal is not None:
        raise refusal


def _uncovered(desk: "Engine", entry: "OrderEntry", command: Replace) -> RejectedError | None:
    """Refuse a replacement that needs more than is available once the order lets go of its own."""
    if not entry.trader.venue.has_accounts:
        return None
    account, needs = entry.pays, needed(entry.order, command.size, command.price)
    if needs <= account.balance - account.reserved - account.unsettled + entry.reserve:
        return None
    return rejections.balance_refused(desk, account.wallet, account.asset, needs, entry.reserve)


def replace(desk: "Engine", command: Replace, now_ms: int) -> list[Event]:
    """Give an order another price or size; the book may still refuse it."""
    entry = desk.entries[command.order_id]
    venue, order = entry.trader.venue, entry.order
    if desk.undo is not None:
        rollback.keep_books(desk.undo, venue)
    turned = venue.complementary and not entry.is_yes
    try:
        events = desk.book_of(entry).replace(
            order.id,
            100 - command.price if turned else command.price,
            command.size,
            now_ms,
            command.post_only,
            command.self_trade if command.self_trade is not None else venue.self_trade,
            desk.trades_max,
        )
    except RejectedError as refusal:
        raise (book_rejections.mirrored(refusal) if turned else refusal) from None
    if venue.complementary:
        complementary.told(desk, venue, events, entry.is_yes)
    if command.price == order.price and command.size < entry.remaining:
        desk.resize(entry, command.size)
        return events
    if desk.undo is not None:
        desk.undo.append((rollback.restore, entry, entry.saved()))
    if venue.has_accounts:
        desk.reserve(entry, 0)
    entry.order = resized(order, order.size - entry.remaining + command.size, command.price)
    entry.remaining = command.size
    desk.absorb(entry, events)
    return events


# ----- several orders ------------------------------------------------------------------------


def refuse_cancel_all(desk: "Engine", command: CancelAll, now_ms: int) -> None:
    """Refuse to cancel where there is no such market, or it does not allow its makers to."""
    rejections.check_maker(command.maker)
    if command.market is not None:
        venue = rejections.venue_of(desk, command.market)
        if command.maker is not None:
            rejections.check_mode(venue, Mode.CANCEL_ONLY)


def cancel_all(desk: "Engine", command: CancelAll, now_ms: int) -> list[Event]:
    """Take out the orders of a maker, of a market, or both."""
    venues = [desk.venues[command.market]] if command.market else list(desk.venues.values())
    entries: list[OrderEntry] = []
    for venue in venues:
        if command.maker is None:
            for maker in venue.traders:
                entries += of_maker(venue, maker)
        elif venue.mode <= Mode.CANCEL_ONLY:
            entries += of_maker(venue, command.maker)
    reason = RemovalReason.ADMIN if command.maker is None else RemovalReason.CANCELLED
    return remove(desk, by_number(entries), reason, now_ms)


def refuse_set_nonce(desk: "Engine", command: SetNonce, now_ms: int) -> None:
    """Refuse a nonce that does not raise the maker's."""
    rejections.check_text("maker", command.maker)
    rejections.check_uint256("nonce", command.nonce)
    nonce = desk.nonces.get(command.maker, 0)
    if command.nonce <= nonce:
        raise NonceTooLowError(f"nonce must be above the maker's {nonce}, not {command.nonce}")


def set_nonce(desk: "Engine", command: SetNonce, now_ms: int) -> list[Event]:
    """Raise a maker's nonce and take out the orders below it.

    "Incrementing the nonce cancels all orders with lower nonces." -- specification, Order
    """
    desk.nonces[command.maker] = command.nonce
    entries = [
        entry
        for venue in desk.venues.values()
        for entry in of_maker(venue, command.maker)
        if entry.order.nonce < command.nonce
    ]
    events = remove(desk, by_number(entries), RemovalReason.NONCE, now_ms)
    order_index.forget_below(desk, command.maker, command.nonce)
    return events


def refuse_expire(desk: "Engine", command: Expire, now_ms: int) -> None:
    """Refuse nothing: the time is all there is."""


def expire(desk: "Engine", command: Expire, now_ms: int) -> list[Event]:
    """Take out what expired, the earliest first; forget the hashes of what can no longer be."""
    now_s = now_ms // 1000
    due = desk.expiring.irange(maximum=now_s, inclusive=(True, False))
    entries = [entry for second in due for entry in by_number(desk.expiring[second].values())]
    events = remove(desk, entries, RemovalReason.EXPIRED, now_ms)
    order_index.forget_expired(desk, now_s)
    return events
