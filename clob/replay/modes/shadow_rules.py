"""The rules of the shadow mode: what own orders get of a recorded order, and of a recorded book.

Nothing here changes the book of history. What own orders get is bounded by what history has: of
each recorded lot that comes in, and of each that rests, they get it at most once.
"""

from typing import NamedTuple

from clob.errors import FokNotFillableError, PostOnlyWouldCrossError
from clob.order import Order, SelfTrade, Side, TimeInForce
from clob.records import SELF_TRADE_SHIFT, Flag, Kind
from clob.replay.io.repair import Command, Filled
from clob.replay.modes.shadow_book import OwnResting, ShadowBook
from clob.units import SIZE_MAX

# Plain integers: what is done with a Flag takes a microsecond.
POST_ONLY, FOK, SELF_TRADE = int(Flag.POST_ONLY), int(Flag.FOK), int(Flag.SELF_TRADE)


# ----- a recorded order comes in -----------------------------------------------------------------


class Incoming(NamedTuple):
    """A recorded order that came in, and what history says of it."""

    side: Side
    """Buy or sell."""
    price: int
    """Its limit."""
    fills: list[Filled]
    """What it filled in history, in order."""
    spare: int
    """What it did not trade in history though it might have, and what rests of it."""
    strangers: frozenset[int] = frozenset()
    """Orders that it filled in history, though they do not rest at that price."""


def met_by(book: ShadowBook, incoming: Incoming) -> list[tuple[OwnResting, int]]:
    """Say what own orders get of a recorded order, by price and time.

    An own order gets what history gave to orders behind it or at worse prices, and of what history
    did not trade, so much as the own orders in front of it leave.

    Args:
        book: the book, as far as own orders go; they stay as they are.
        incoming: the recorded order.

    Returns:
        The own orders and how much each gets, 1 lot or more, in the order they trade.
    """
    met: list[tuple[OwnResting, int]] = []
    given = 0
    for order in book.sides[1 - incoming.side]:
        behind = _behind(book, order, incoming)
        spare = incoming.spare if _accepts(incoming.side, incoming.price, order.price) else 0
        size = min(order.left, behind + spare - given)
        if size > 0:
            given += size
            met.append((order, size))
        elif not behind and not spare:
            # Those that follow are further back.
            break
    return met


def _behind(book: ShadowBook, order: OwnResting, incoming: Incoming) -> int:
    """Give how much history gave to orders behind an own order, or at worse prices."""
    limit, buys, behind = order.price, order.side is Side.BUY, 0
    for order_id, size, price in incoming.fills:
        if price == limit:
            # Where a stranger would have stood nobody knows, so that it counts as in front.
            if order_id not in incoming.strangers and not book.precedes(order_id, order):
                behind += size
        elif price < limit if buys else price > limit:
            behind += size
    return behind


def _accepts(side: Side, limit: int, price: int) -> bool:
    """Tell whether an order of that side and limit trades at a price."""
    return price <= limit if side is Side.BUY else price >= limit


def spare_of(command: Command, status: int, filled: int, rests: int) -> int:
    """Give what a recorded order brought and did not trade in history.

    An order that is kept from trading with its owner's own ones, or must not trade when it comes,
    has none but what rests.

    Args:
        command: the order.
        status: 0, or the number of what refused it.
        filled: how much it traded in history.
        rests: how much of it rests.
    """
    if status or command.flags & POST_ONLY:
        return 0
    if command.kind == Kind.IOC and not command.flags & SELF_TRADE:
        return max(command.size - filled, 0)
    return rests


# ----- an own order comes in ---------------------------------------------------------------------


class MatchableOrder(NamedTuple):
    """What an own order that comes in can trade with."""

    order_id: int
    """The order that rests."""
    price: int
    """Its price."""
    size: int
    """How much of it there is for own orders."""
    own: OwnResting | None
    """The order, if it is an own one."""


class Taking(NamedTuple):
    """What becomes of an own order that comes in."""

    refusal: int
    """The number of what refuses it, or 0."""
    trades: list[tuple[MatchableOrder, int]]
    """What it trades with, in order, and how much of each."""
    cancels: list[OwnResting]
    """The own orders that are taken out, since they would have traded with it."""
    left: int
    """What is left of it in the end."""


def offers(book: ShadowBook, side: Side, price: int, size: int) -> list[MatchableOrder]:
    """List what an own order may meet, in the order in which it meets it.

    Args:
        book: the book.
        side: of the own order.
        price: its limit.
        size: how much of it there is.

    Returns:
        Own orders and recorded ones of which something is left for own orders, the best first.
    """
    recorded = _recorded_offers(book, side, price, size)
    own = [one for one in book.sides[1 - side] if _accepts(side, price, one.price)]
    found: list[MatchableOrder] = []
    for offer in recorded:
        while own and _stands_before(book, own[0], offer):
            found.append(_own_offer(own.pop(0)))
        found.append(offer)
    return found + [_own_offer(one) for one in own]


def _recorded_offers(book: ShadowBook, side: Side, price: int, size: int) -> list[MatchableOrder]:
    """List the recorded orders that an own order may meet, as far as it may need them."""
    history = book.history
    best = history.best_ask if side is Side.BUY else history.best_bid
    if best is None or not _accepts(side, price, best):
        return []
    lot_wei = book.lot_wei
    # What is taken already is passed over, so that it must reach so much further.
    size += sum(what.size for what in book.taken.values() if what.side is not side)
    probe = Order(
        id=0,
        token="",
        maker="",
        side=side,
        price=price,
        size=min(size, SIZE_MAX // lot_wei) * lot_wei,
        time_in_force=TimeInForce.IOC,
    )
    found = []
    for trade in history.simulate(probe):
        order_id = int(trade.resting_order_id)
        remaining = (trade.size + trade.resting_remaining) // lot_wei
        left = book.untaken(order_id, remaining)
        if left:
            found.append(MatchableOrder(order_id, trade.price, left, None))
    return found


def _stands_before(book: ShadowBook, own: OwnResting, offer: MatchableOrder) -> bool:
    """Tell whether an own order is met before a recorded one of its side."""
    if own.price == offer.price:
        return not book.precedes(offer.order_id, own)
    return own.price > offer.price if own.side is Side.BUY else own.price < offer.price


def _own_offer(order: OwnResting) -> MatchableOrder:
    """Offer an own order."""
    return MatchableOrder(order.order_id, order.price, order.left, order)


def taking(offered: list[MatchableOrder], size: int, flags: int) -> Taking:
    """Say what becomes of an own order that comes in, by the rules of a :class:`~clob.Book`.

    Args:
        offered: what it meets.
        size: how much of it there is.
        flags: its bits of ``Flag``.
    """
    if flags & POST_ONLY and offered:
        return Taking(PostOnlyWouldCrossError.number, [], [], size)
    if not offered:
        return Taking(FokNotFillableError.number if flags & FOK else 0, [], [], size)
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
        return Taking(FokNotFillableError.number, [], [], size)
    return Taking(0, trades, cancels, 0 if stopped else left)
