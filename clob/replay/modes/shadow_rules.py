"""Matching rules of the ``shadow`` mode: trades of own orders with recorded orders.

Nothing here changes the book of history. Own orders receive each recorded lot at most once,
whether it arrives or rests.
"""

from typing import NamedTuple

from clob.errors import FokNotFillableError, PostOnlyWouldCrossError
from clob.order import SelfTrade, Side
from clob.records import SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.repair import Filled, RecordedCommand, matches_of
from clob.replay.modes.shadow_book import OwnResting, ShadowBook
from clob.units import SIZE_MAX

# Plain integers: an operation on a Flag takes 1 us.
POST_ONLY, FOK, SELF_TRADE = int(Flag.POST_ONLY), int(Flag.FOK), int(Flag.SELF_TRADE)


# ----- incoming recorded orders ------------------------------------------------------------------


class Incoming(NamedTuple):
    """A recorded incoming order, and its fills in history."""

    side: Side
    price: int
    fills: list[Filled]
    untraded: int
    """The size that it could have traded but did not in history, and that rests."""
    misplaced: frozenset[int] = frozenset()
    """Orders that it filled in history although they do not rest at that price."""


def own_matches(book: ShadowBook, incoming: Incoming) -> list[tuple[OwnResting, int]]:
    """Return the trades of own orders with a recorded order, by price and time.

    An own order receives the volume that history gave to orders behind it or at worse prices, and
    the volume that history did not trade, minus the volume that own orders in front of it receive.
    The book is not changed.
    """
    met: list[tuple[OwnResting, int]] = []
    allocated = 0
    for order in book.sides[1 - incoming.side]:
        behind = _filled_behind(book, order, incoming)
        untraded = incoming.untraded if _crosses(incoming.side, incoming.price, order.price) else 0
        size = min(order.left, behind + untraded - allocated)
        if size > 0:
            allocated += size
            met.append((order, size))
        elif not behind and not untraded:
            # The following orders are further back.
            break
    return met


def _filled_behind(book: ShadowBook, order: OwnResting, incoming: Incoming) -> int:
    """Return the volume that history gave to orders behind an own order or at worse prices."""
    limit, buys, behind = order.price, order.side is Side.BUY, 0
    for order_id, size, price in incoming.fills:
        if price == limit:
            # The position of a misplaced order is unknown; it counts as in front.
            if order_id not in incoming.misplaced and not book.precedes(order_id, order):
                behind += size
        elif price < limit if buys else price > limit:
            behind += size
    return behind


def _crosses(side: Side, limit: int, price: int) -> bool:
    """Return whether an order of that side and limit trades at a price."""
    return price <= limit if side is Side.BUY else price >= limit


def untraded_size(command: RecordedCommand, status: int, filled: int, rests: int) -> int:
    """Return the size of a recorded order that did not trade in history.

    For an order that may not trade on arrival, or that has a self-trade policy, only the part that
    rests counts. ``status`` is 0 or the number of its rejection.
    """
    if status or command.flags & POST_ONLY:
        return 0
    if command.kind == Kind.IOC and not command.flags & SELF_TRADE:
        return max(command.size - filled, 0)
    return rests


# ----- incoming own orders -----------------------------------------------------------------------


class MatchableOrder(NamedTuple):
    """A resting order that an incoming own order can trade with."""

    order_id: int
    price: int
    size: int
    """Its size that is available to own orders."""
    own: OwnResting | None
    """The own order, or None for a recorded one."""


class Execution(NamedTuple):
    """The result of an incoming own order."""

    rejection: int
    """Number of the rejection, or 0."""
    trades: list[tuple[MatchableOrder, int]]
    """The orders it trades with, in order, and the sizes."""
    cancels: list[OwnResting]
    """Own orders that the self-trade policy cancels."""
    left: int
    """Its unfilled size."""


def matchable_orders(book: ShadowBook, side: Side, price: int, size: int) -> list[MatchableOrder]:
    """List the orders that an own order can trade with, in matching order.

    They are own orders, and recorded orders with volume left for own orders.
    """
    recorded = _recorded_orders(book, side, price, size)
    own = [one for one in book.sides[1 - side] if _crosses(side, price, one.price)]
    matchable: list[MatchableOrder] = []
    for offer in recorded:
        while own and _has_priority(book, own[0], offer):
            matchable.append(_as_matchable(own.pop(0)))
        matchable.append(offer)
    return matchable + [_as_matchable(one) for one in own]


def _recorded_orders(book: ShadowBook, side: Side, price: int, size: int) -> list[MatchableOrder]:
    """List the recorded orders that an own order can trade with, as far as its size reaches."""
    history = book.history
    best = history.best_ask if side is Side.BUY else history.best_bid
    if best is None or not _crosses(side, price, best):
        return []
    lot_wei = book.lot_wei
    # Taken volume is skipped, so the probe must be larger by that much.
    size += sum(taken.size for taken in book.taken.values() if taken.side is not side)
    matchable = []
    for trade in matches_of(history, side, price, min(size, SIZE_MAX // lot_wei) * lot_wei):
        order_id = int(trade.resting_order_id)
        remaining = (trade.size + trade.resting_remaining) // lot_wei
        left = book.available(order_id, remaining)
        if left:
            matchable.append(MatchableOrder(order_id, trade.price, left, None))
    return matchable


def _has_priority(book: ShadowBook, own: OwnResting, offer: MatchableOrder) -> bool:
    """Return whether an own order is matched before a recorded order of its side."""
    if own.price == offer.price:
        return not book.precedes(offer.order_id, own)
    return own.price > offer.price if own.side is Side.BUY else own.price < offer.price


def _as_matchable(order: OwnResting) -> MatchableOrder:
    return MatchableOrder(order.order_id, order.price, order.left, order)


def execute(offered: list[MatchableOrder], size: int, flags: int) -> Execution:
    """Match an incoming own order with the offered orders by the rules of a :class:`~clob.Book`."""
    if flags & POST_ONLY and offered:
        return Execution(PostOnlyWouldCrossError.number, [], [], size)
    if not offered:
        return Execution(FokNotFillableError.number if flags & FOK else 0, [], [], size)
    policy = SelfTrade((flags & SELF_TRADE) >> SELF_TRADE_SHIFT)
    trades: list[tuple[MatchableOrder, int]] = []
    cancels: list[OwnResting] = []
    left, stopped = size, False
    for offer in offered:
        if not left or stopped:
            break
        if offer.own is None or policy is SelfTrade.NONE:
            trades.append((offer, min(left, offer.size)))
            left -= trades[-1][1]
            continue
        if policy is not SelfTrade.CANCEL_INCOMING:
            cancels.append(offer.own)
        stopped = policy is not SelfTrade.CANCEL_RESTING
    if flags & FOK and left:
        return Execution(FokNotFillableError.number, [], [], size)
    return Execution(0, trades, cancels, 0 if stopped else left)
