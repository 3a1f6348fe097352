"""Both tokens of a complementary market in one book: conversion of NO to the YES grid and back.

All orders of such a market rest in the book of YES. Buying NO at p is selling YES at 100 - p, and
selling NO at p is buying YES at 100 - p, so price-time priority over both kinds of liquidity is
that of one ordinary book. The engine keeps every order as its maker wrote it; this module mirrors
orders on their way to the book, and events on their way back.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from clob.book import rejections, validation
from clob.depth import Depth, Level
from clob.errors import RejectedError
from clob.events import Event, MatchType, OrderAdded, PairedTrade, Trade
from clob.order import Order, Side

if TYPE_CHECKING:
    from clob.matcher.entities import MarketState, OrderEntry

    EntryOf = Callable[[str | int], OrderEntry]

E = TypeVar("E", bound=Event)


def other_side(side: Side) -> Side:
    """Return the side of an order for one token on the grid of the other."""
    return Side.SELL if side is Side.BUY else Side.BUY


def mirrored(order: Order, token: str) -> Order:
    """Return an order for one token as an order for the other."""
    return msgspec.structs.replace(
        order, token=token, side=other_side(order.side), price=100 - order.price
    )


def on_grid(entry: "OrderEntry", order: Order) -> Order:
    """Return the order of an entry as its book holds it."""
    market_state = entry.maker_state.market_state
    if market_state.complementary and not entry.is_yes:
        return mirrored(order, market_state.yes)
    return order


def mirrored_depth(depth: Depth, token: str) -> Depth:
    """Return the depth of one token's book as the other's."""
    bids, asks = (
        tuple(Level(100 - level.price, level.size, level.num_orders) for level in side)
        for side in (depth.asks, depth.bids)
    )
    return Depth(depth.market, token, depth.seq, bids, asks)


# ----- orders to the book --------------------------------------------------------------------


def submit(entry: "OrderEntry", order: Order, now_ms: int, trades_max: int) -> list[Event]:
    """Submit an order for NO to the book; the returned events are on the YES grid."""
    try:
        grid_order = _mirrored_if_valid(entry, order, now_ms)
        book = entry.maker_state.market_state.yes_book
        return book.submit(grid_order, now_ms, trades_max)
    except RejectedError as error:
        raise _rejection_of_token(entry, order, now_ms, error) from None


def simulate(
    entry_of: "EntryOf",
    entry: "OrderEntry",
    order: Order,
    now_ms: int,
    trades_max: int,
) -> list[Trade]:
    """Return the trades an order would get, as trades of the tokens."""
    market_state = entry.maker_state.market_state
    try:
        grid_order = order if entry.is_yes else _mirrored_if_valid(entry, order, now_ms)
        trades = market_state.yes_book.simulate(grid_order, now_ms, trades_max)
    except RejectedError as error:
        raise _rejection_of_token(entry, order, now_ms, error) from None
    events = token_events(entry_of, market_state, trades, entry.is_yes)
    return [event for event in events if isinstance(event, Trade)]


def _mirrored_if_valid(entry: "OrderEntry", order: Order, now_ms: int) -> Order:
    """Mirror an order for NO; raise if its side or price has the wrong type."""
    market_state = entry.maker_state.market_state
    if type(order.price) is not int or type(order.side) is not Side:
        validation.check_order(order, market_state.no_book, now_ms)
    return mirrored(order, market_state.yes)


def _rejection_of_token(
    entry: "OrderEntry", order: Order, now_ms: int, error: RejectedError
) -> RejectedError:
    """Return a rejection by the YES book in the terms of the order's own token."""
    if entry.is_yes:
        return error
    try:
        validation.check_order(order, entry.maker_state.market_state.no_book, now_ms)
    except RejectedError as own:
        return own
    return rejections.mirrored(error)


# ----- events from the book ------------------------------------------------------------------


def convert_events(
    entry_of: "EntryOf",
    market_state: "MarketState",
    events: list[Event],
    is_yes: bool,
) -> None:
    """Convert events of the YES grid to events of the tokens, in place.

    A trade between orders for both tokens becomes two. ``is_yes`` is about the incoming order.
    """
    before = len(events)
    events[:] = token_events(entry_of, market_state, events, is_yes)
    if len(events) != before:
        market_state.seq_book.seq = events[-1].seq


def token_events(
    entry_of: "EntryOf",
    market_state: "MarketState",
    events: Sequence[Event],
    is_yes: bool,
) -> list[Event]:
    """Return events of the YES grid as events of the tokens, renumbered."""
    converted: list[Event] = []
    added = 0
    for event in events:
        seq = event.seq + added
        if isinstance(event, Trade):
            if entry_of(event.resting_order_id).is_yes == is_yes:
                converted.append(_direct_trade(event, market_state, seq, is_yes))
            else:
                converted += _paired_trades(event, market_state, seq, is_yes)
                added += 1
        elif isinstance(event, OrderAdded):
            converted.append(_order_added(event, market_state, seq, is_yes))
        elif entry_of(event.order_id).is_yes:
            converted.append(_numbered(event, seq))
        else:
            converted.append(msgspec.structs.replace(event, seq=seq, token=market_state.no))
    return converted


def _numbered(event: E, seq: int) -> E:
    """Return an event with this ``seq``; the same object if it has it already."""
    return event if event.seq == seq else msgspec.structs.replace(event, seq=seq)


def _order_added(
    event: OrderAdded, market_state: "MarketState", seq: int, is_yes: bool
) -> OrderAdded:
    """Return the resting order as its maker wrote it."""
    if is_yes:
        return _numbered(event, seq)
    side, price = other_side(event.side), 100 - event.price
    return msgspec.structs.replace(event, seq=seq, token=market_state.no, side=side, price=price)


def _direct_trade(event: Trade, market_state: "MarketState", seq: int, is_yes: bool) -> Trade:
    """Return a trade of two orders for the same token."""
    if is_yes:
        return _numbered(event, seq)
    return msgspec.structs.replace(
        event,
        seq=seq,
        token=market_state.no,
        price=100 - event.price,
        buyer=event.seller,
        seller=event.buyer,
        incoming_side=other_side(event.incoming_side),
    )


def _paired_trades(
    event: Trade, market_state: "MarketState", seq: int, is_yes: bool
) -> list[PairedTrade]:
    minted = (event.incoming_side is Side.BUY) == is_yes
    match_type = MatchType.MINT if minted else MatchType.MERGE
    yes_maker, no_maker = (event.buyer, event.seller) if minted else (event.seller, event.buyer)
    trades: list[PairedTrade] = []
    for trade_is_yes in (is_yes, not is_yes):
        maker = yes_maker if trade_is_yes else no_maker
        side = event.incoming_side
        trades.append(
            PairedTrade(
                seq + len(trades),
                event.market,
                market_state.yes if trade_is_yes else market_state.no,
                event.resting_order_id,
                event.incoming_order_id,
                event.price if trade_is_yes else 100 - event.price,
                event.size,
                maker if minted else "",
                "" if minted else maker,
                event.resting_remaining,
                event.incoming_remaining,
                side if trade_is_yes else other_side(side),
                match_type=match_type,
            )
        )
    return trades
