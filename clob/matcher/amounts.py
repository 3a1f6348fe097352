"""Fees, reserves and resized orders: pure functions over values."""

import msgspec

from clob.events import MatchType, Trade
from clob.market import Market
from clob.order import Order, SelfTrade, Side
from clob.units import buyer_fee, collateral_of, seller_fee


def rate_of(charged_bps: int, cap_bps: int | None) -> int:
    """Return the fee rate of an order: the market's, or the order's own cap if that is lower."""
    return charged_bps if cap_bps is None else min(charged_bps, cap_bps)


def with_fees(market: Market, trade: Trade, incoming: Order, resting: Order) -> Trade:
    """Return a trade with the fees of both sides, each at its own rate.

    A mint has no seller and a merge no buyer; the fee of the missing party is 0.
    """
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
    """Return the amount to reserve for a size and price: collateral if it buys, else tokens."""
    return collateral_of(size, price) if order.side is Side.BUY else size


def resized(order: Order, size: int, price: int | None = None) -> Order:
    """Return an order with another size and, optionally, another price.

    The signed amount of collateral no longer applies and is dropped.
    """
    new_price = order.price if price is None else price
    return msgspec.structs.replace(order, size=size, price=new_price, collateral=None)


def with_policy(order: Order, policy: SelfTrade) -> Order:
    """Return an order with the self-trade policy of its market."""
    return msgspec.structs.replace(order, self_trade=policy)
