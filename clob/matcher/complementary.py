"""Both tokens of a complementary market in one book: how NO looks on the grid of YES, and back.

All orders of such a market rest in the book of YES. To buy NO at p is to sell YES at 100 - p, and
to sell NO at p is to buy YES at 100 - p, so that price-time priority over both kinds of liquidity
is that of one ordinary book. The desk keeps every order as its maker wrote it; here it is turned
over on its way to the book, and what the book announces on its way back.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from clob.book import rejections, validation
from clob.depth import Depth, Level
from clob.errors import RejectedError
from clob.events import Event, MatchType, OrderAdded, PairedTrade, Trade
from clob.order import Order, Side

if TYPE_CHECKING:
    from clob.matcher.admission import Admission
    from clob.matcher.entities import MarketState, OrderEntry

E = TypeVar("E", bound=Event)

LOT_WEI = 100
"""Every lot of a complementary market is a multiple of this: at any price both halves are whole."""


def other_side(side: Side) -> Side:
    """Give the side that an order for one token has on the grid of the other."""
    return Side.SELL if side is Side.BUY else Side.BUY


def mirrored(order: Order, token: str) -> Order:
    """Give an order for one token as one for the other."""
    return msgspec.structs.replace(
        order, token=token, side=other_side(order.side), price=100 - order.price
    )


def on_grid(entry: "OrderEntry", order: Order) -> Order:
    """Give the order of an entry as its book has it."""
    venue = entry.trader.venue
    return mirrored(order, venue.yes) if venue.complementary and not entry.is_yes else order


def mirrored_depth(depth: Depth, token: str) -> Depth:
    """Give the picture of one token's book as one of the other's."""
    bids, asks = (
        tuple(Level(100 - level.price, level.size, level.num_orders) for level in side)
        for side in (depth.asks, depth.bids)
    )
    return Depth(depth.market, token, depth.seq, bids, asks)


# ----- to the book ---------------------------------------------------------------------------


def submit(entry: "OrderEntry", order: Order, now_ms: int, trades_max: int) -> list[Event]:
    """Let the book match and rest an order for NO; what it announces is still that of the grid."""
    try:
        given = _readable(entry, order, now_ms)
        return entry.trader.venue.yes_book.submit(given, now_ms, trades_max)
    except RejectedError as refusal:
        raise _own_words(entry, order, now_ms, refusal) from None


def simulate(
    desk: "Admission", entry: "OrderEntry", order: Order, now_ms: int, trades_max: int
) -> list[Trade]:
    """Say which trades an order would get, as it is told."""
    venue = entry.trader.venue
    try:
        given = order if entry.is_yes else _readable(entry, order, now_ms)
        trades = venue.yes_book.simulate(given, now_ms, trades_max)
    except RejectedError as refusal:
        raise _own_words(entry, order, now_ms, refusal) from None
    events = seen(desk, venue, trades, entry.is_yes)
    return [event for event in events if isinstance(event, Trade)]


def _readable(entry: "OrderEntry", order: Order, now_ms: int) -> Order:
    """Turn an order over, if it has a side and a price that can be."""
    venue = entry.trader.venue
    if type(order.price) is not int or type(order.side) is not Side:
        validation.check_order(order, venue.no_book, now_ms)
    return mirrored(order, venue.yes)


def _own_words(
    entry: "OrderEntry", order: Order, now_ms: int, refusal: RejectedError
) -> RejectedError:
    """Say a refusal of an order for NO in the terms of NO."""
    if entry.is_yes:
        return refusal
    try:
        validation.check_order(order, entry.trader.venue.no_book, now_ms)
    except RejectedError as own:
        return own
    return rejections.mirrored(refusal)


# ----- from the book -------------------------------------------------------------------------


def told(desk: "Admission", venue: "MarketState", events: list[Event], is_yes: bool) -> None:
    """Turn what the book announced into what happened to the tokens, in place.

    Args:
        desk: who knows the orders.
        venue: the market, which is complementary.
        events: what its book announced; a trade of orders for both tokens becomes two.
        is_yes: whether the order that came in is for YES.
    """
    before = len(events)
    events[:] = seen(desk, venue, events, is_yes)
    if len(events) != before:
        venue.turn.seq = events[-1].seq


def seen(
    desk: "Admission", venue: "MarketState", events: Sequence[Event], is_yes: bool
) -> list[Event]:
    """Give what happened to the tokens, where a book announced events of its grid."""
    found: list[Event] = []
    more = 0
    for event in events:
        seq = event.seq + more
        if isinstance(event, Trade):
            if desk.entries[event.resting_order_id].is_yes == is_yes:
                found.append(_direct(event, venue, seq, is_yes))
            else:
                found += _halves(event, venue, seq, is_yes)
                more += 1
        elif isinstance(event, OrderAdded):
            found.append(_added(event, venue, seq, is_yes))
        elif desk.entries[event.order_id].is_yes:
            found.append(_numbered(event, seq))
        else:
            found.append(msgspec.structs.replace(event, seq=seq, token=venue.no))
    return found


def _numbered(event: E, seq: int) -> E:
    """Give an event a number; it is the very event where that is its own."""
    return event if event.seq == seq else msgspec.structs.replace(event, seq=seq)


def _added(event: OrderAdded, venue: "MarketState", seq: int, is_yes: bool) -> OrderAdded:
    """Give the order that rests as its maker wrote it."""
    if is_yes:
        return _numbered(event, seq)
    side, price = other_side(event.side), 100 - event.price
    return msgspec.structs.replace(event, seq=seq, token=venue.no, side=side, price=price)


def _direct(event: Trade, venue: "MarketState", seq: int, is_yes: bool) -> Trade:
    """Give a trade of two orders for the same token."""
    if is_yes:
        return _numbered(event, seq)
    return msgspec.structs.replace(
        event,
        seq=seq,
        token=venue.no,
        price=100 - event.price,
        buyer=event.seller,
        seller=event.buyer,
        incoming_side=other_side(event.incoming_side),
    )


def _halves(event: Trade, venue: "MarketState", seq: int, is_yes: bool) -> list[PairedTrade]:
    """Give the two trades of a mint or a merge, that of the incoming order's token first."""
    minted = (event.incoming_side is Side.BUY) == is_yes
    match_type = MatchType.MINT if minted else MatchType.MERGE
    yes_maker, no_maker = (event.buyer, event.seller) if minted else (event.seller, event.buyer)
    halves: list[PairedTrade] = []
    for half_is_yes in (is_yes, not is_yes):
        maker = yes_maker if half_is_yes else no_maker
        side = event.incoming_side
        halves.append(
            PairedTrade(
                seq + len(halves),
                event.market,
                venue.yes if half_is_yes else venue.no,
                event.resting_order_id,
                event.incoming_order_id,
                event.price if half_is_yes else 100 - event.price,
                event.size,
                maker if minted else "",
                "" if minted else maker,
                event.resting_remaining,
                event.incoming_remaining,
                side if half_is_yes else other_side(side),
                match_type=match_type,
            )
        )
    return halves
