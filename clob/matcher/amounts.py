"""What changes hands: fees, and orders of another size. Pure functions over values."""

import msgspec

from clob.events import MatchType, Trade
from clob.market import Market
from clob.order import Order, Side
from clob.units import collateral_of


def rate_of(charged_bps: int, cap_bps: int | None) -> int:
    """Give the rate an order is charged: the market's, or the order's own cap if that is lower."""
    return charged_bps if cap_bps is None else min(charged_bps, cap_bps)


def seller_fee(rate_bps: int, price: int, size: int) -> int:
    """Give what a seller pays of the collateral received, in wei, rounded down (decision 20)."""
    return rate_bps * min(price, 100 - price) * size // 1_000_000


def buyer_fee(rate_bps: int, price: int, size: int) -> int:
    """Give what a buyer pays of the tokens received, in wei, rounded down (decision 20)."""
    return rate_bps * min(price, 100 - price) * size // (10_000 * price)


def with_fees(market: Market, trade: Trade, incoming: Order, resting: Order) -> Trade:
    """Give a trade the fees of both sides, each at its own rate; nobody pays none."""
    incoming_bps = rate_of(market.incoming_fee_rate_bps, incoming.fee_rate_bps)
    resting_bps = rate_of(market.resting_fee_rate_bps, resting.fee_rate_bps)
    buys = trade.incoming_side is Side.BUY
    buyer_bps, seller_bps = (incoming_bps, resting_bps) if buys else (resting_bps, incoming_bps)
    sold, bought = trade.match_type is not MatchType.MINT, trade.match_type is not MatchType.MERGE
    return msgspec.structs.replace(
        trade,
        buyer_fee=buyer_fee(buyer_bps, trade.price, trade.size) if bought else 0,
        seller_fee=seller_fee(seller_bps, trade.price, trade.size) if sold else 0,
    )


def needed(order: Order, size: int, price: int) -> int:
    """Give what so much of an order must hold at a price: collateral if it buys, else tokens."""
    return collateral_of(size, price) if order.side is Side.BUY else size


def resized(order: Order, size: int, price: int | None = None) -> Order:
    """Give an order another size, and perhaps another price.

    What collateral it was signed with no longer counts.
    """
    new_price = order.price if price is None else price
    return msgspec.structs.replace(order, size=size, price=new_price, collateral=None)
