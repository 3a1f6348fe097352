"""JSON bodies of orders, books, trades and markets."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import UNSET, structs

from clob import (
    Balance,
    Event,
    Funds,
    Market,
    Matcher,
    Mode,
    OrderStatus,
    PairedTrade,
    Rejected,
    Side,
    Trade,
)
from clob.depth import Depth
from clob.events import MatchType
from clob.signing import ZERO_ADDRESS
from clob.status import OrderRecord
from clob.wire.info import ContractsBody
from clob.wire.markets import LevelBody, OrderbookBody, StallBody, TradeBody
from clob.wire.orders import NO_SIGNATURE, MakerFill, OrderBody, TradeSummary
from clob_server.chain.config import Addresses
from clob_server.chain.events import is_escrow, wallet_asset
from clob_server.core.commands import Condition, SignatureRecord
from clob_server.core.ids import Cursor, Ids
from clob_server.core.registry import MarketText, Stall
from clob_server.core.settlement_status import NONE, SettlementStatus

MODES: Final = {
    Mode.OPEN: "open",
    Mode.CANCEL_ONLY: "cancelOnly",
    Mode.HALTED: "halted",
    Mode.RESOLVED: "resolved",
}
"""Market modes in JSON."""
NOWHERE: Final = "none"
"""Settlement of a market whose trades move nothing."""
ON_CHAIN: Final = "chain"
"""Settlement of a market whose trades move tokens and collateral on the chain."""

WALLET: Final = "wallet"
"""Custody of a market whose orders are covered by wallets."""
ESCROW: Final = "escrow"
"""Custody of a market whose orders are covered by deposits in the exchange contract."""

_DIRECT: Final = MatchType.DIRECT.value


def order_body(record: OrderRecord, signature: SignatureRecord | None) -> OrderBody:
    """Return the body of an order; ``signature`` is None for one without a signature."""
    order = record.order
    collateral = order.size * order.price // 100 if order.collateral is None else order.collateral
    buys = order.side is Side.BUY
    removal = record.removal if record.status is OrderStatus.CANCELLED else None
    return OrderBody(
        id=str(order.id),
        market_id=record.market,
        token_id=order.token,
        maker=order.maker,
        signer=signature.signer if signature else order.maker,
        taker=signature.taker if signature else ZERO_ADDRESS,
        side=int(order.side),
        maker_amount=str(collateral if buys else order.size),
        taker_amount=str(order.size if buys else collateral),
        filled_amount=str(record.filled_amount),
        salt=signature.salt if signature else "0",
        expiration=order.expiration_s,
        nonce=str(order.nonce),
        fee_rate_bps=order.fee_rate_bps or 0,
        signature_type=signature.signature_type if signature else 1,
        signature=f"0x{signature.signature.hex()}" if signature else NO_SIGNATURE,
        status=record.status.value,
        timestamp=record.accepted_ms,
        price=record.price,
        size=str(record.size),
        remaining=str(record.remaining),
        filled_tokens=str(record.filled),
        filled_collateral=str(record.filled_collateral),
        average_price=average(record.filled_collateral, record.filled),
        time_in_force=order.time_in_force.name,
        post_only=order.post_only,
        smart_wallet=order.smart_wallet or UNSET,
        cancel_reason=UNSET if removal is None else removal.value,
        order_hash=UNSET if record.order_hash is None else f"0x{record.order_hash.hex()}",
        client_order_id=UNSET if record.client_id is None else record.client_id,
    )


def average(collateral: int, tokens: int) -> str | None:
    """Return the average price in cents with up to four decimals, rounded down."""
    if not tokens:
        return None
    whole, parts = divmod(collateral * 1_000_000 // tokens, 10_000)
    return f"{whole}.{parts:04}".rstrip("0").rstrip(".")


def assets_of(market: Market) -> tuple[str, ...]:
    """Return the assets of a market with accounts; none for other markets.

    Those of an escrow market begin with the collateral in the wallet, from which deposits come.
    """
    if market.funds is not Funds.ACCOUNTS:
        return ()
    collaterals = dict.fromkeys((wallet_asset(market.collateral), market.collateral))
    return (*collaterals, market.yes, market.no)


def custody_of(market: Market) -> Literal["wallet", "escrow"] | None:
    """Return where the assets of a market are; None if its trades do not settle."""
    if not market.settles:
        return None
    return ESCROW if is_escrow(market.collateral) else WALLET


def sorted_assets(matcher: Matcher, assets: Iterable[str]) -> list[str]:
    """Return the assets of a wallet: collaterals first, then tokens by market, YES before NO.

    Tokens of markets without accounts are left out.
    """
    collaterals: list[str] = []
    tokens: list[tuple[str, bool, str]] = []
    for asset in assets:
        market = matcher.market_of(asset)
        if market is None:
            collaterals.append(asset)
        elif market.funds is Funds.ACCOUNTS:
            tokens.append((market.id, asset != market.yes, asset))
    return sorted(collaterals) + [token for *_, token in sorted(tokens)]


def balance_fields(asset: str, own: Balance) -> dict[str, str]:
    """Return the fields of :class:`~clob.wire.accounts.AssetBalance`."""
    return {
        "asset": asset,
        "balance": str(own.balance),
        "reserved": str(own.reserved),
        "unsettled": str(own.unsettled),
        "available": str(own.available),
    }


def orderbook_body(market: str, depth: Depth, changed_ms: int) -> OrderbookBody:
    """Return the body of a book."""
    bids, asks = (
        [
            LevelBody(
                price=level.price,
                size=str(level.size),
                num_orders=level.num_orders,
                orders=level.num_orders,
            )
            for level in levels
        ]
        for levels in (depth.bids, depth.asks)
    )
    return OrderbookBody(
        market_id=market,
        token_id=depth.token,
        bids=bids,
        asks=asks,
        last_update=changed_ms,
        seq=depth.seq,
        checksum=book_checksum(bids, asks),
    )


def book_checksum(bids: Sequence[LevelBody], asks: Sequence[LevelBody]) -> int:
    """Return the CRC-32 of a book, which clients compare with the book that they keep.

    Its text is ``price:size`` of every level, best first, joined by ``,``; a ``|`` separates bids
    and asks.
    """
    sides = (",".join(f"{each.price}:{each.size}" for each in levels) for levels in (bids, asks))
    return zlib.crc32("|".join(sides).encode())


def trade_body(
    event: Trade, trade_id: str, now_ms: int, fate: SettlementStatus = NONE
) -> TradeBody:
    """Return the body of a trade."""
    settlement, tx_hash, reason, is_final = fate
    return TradeBody(
        id=trade_id,
        market_id=event.market,
        token_id=event.token,
        price=event.price,
        size=str(event.size),
        buyer=event.buyer,
        seller=event.seller,
        match_type=_DIRECT if type(event) is Trade else event.match_type.value,
        timestamp=now_ms,
        tx_hash=tx_hash,
        settlement=settlement,
        final=is_final,
        seq=event.seq,
        resting_order_id=str(event.resting_order_id),
        incoming_order_id=str(event.incoming_order_id),
        incoming_side=int(event.incoming_side),
        buyer_fee=str(event.buyer_fee),
        seller_fee=str(event.seller_fee),
        settlement_reason=reason or UNSET,
    )


def maker_fill(
    event: Trade, body: TradeBody, cursor: Cursor, side: Side, *, is_incoming: bool
) -> MakerFill:
    """Return a trade from the view of the maker on one side of it.

    Args:
        event: the trade.
        body: its body.
        cursor: the position of the fill.
        side: side of the maker's order.
        is_incoming: whether that is the incoming order.
    """
    return MakerFill(
        **structs.asdict(body),
        order_id=str(event.incoming_order_id if is_incoming else event.resting_order_id),
        role="incoming" if is_incoming else "resting",
        side=int(side),
        remaining=str(event.incoming_remaining if is_incoming else event.resting_remaining),
        maker=event.seller if side else event.buyer,
        fee=str(event.seller_fee if side else event.buyer_fee),
        cursor=str(cursor),
    )


def summaries(
    events: Sequence[Event | Rejected],
    ids: Ids,
    now_ms: int,
    num_trades: int,
    tx_hash: str | None = None,
) -> list[TradeSummary]:
    """Return summaries of the trades of a command, which follow ``num_trades`` others."""
    return [
        TradeSummary(
            id=ids.trade(now_ms, number), price=trade.price, size=str(trade.size), tx_hash=tx_hash
        )
        for number, trade in own_trades(events, num_trades)
    ]


def own_trades(events: Sequence[Event | Rejected], num_trades: int) -> Iterator[tuple[int, Trade]]:
    """Yield the trades of incoming orders with their numbers.

    Of the two trades of a mint or merge, this is the one in the incoming order's token.
    """
    trades = (event for event in events if isinstance(event, Trade))
    for number, trade in enumerate(trades, num_trades + 1):
        if is_own(trade):
            yield number, trade


def is_own(trade: Trade) -> bool:
    """Return whether a trade is in the incoming order's token."""
    return not isinstance(trade, PairedTrade) or trade.is_incoming


def market_terms(market: Market, words: MarketText, stall: Stall | None) -> dict[str, Any]:
    """Return the fields of :class:`~clob.wire.markets.MarketTerms`."""
    return {
        "market_id": market.id,
        "yes_token_id": market.yes,
        "no_token_id": market.no or None,
        "mode": MODES[market.mode],
        "question": words.question,
        "description": words.description,
        "outcome": words.outcome or None,
        "min_size": str(market.min_size),
        "resting_fee_rate_bps": market.resting_fee_rate_bps,
        "incoming_fee_rate_bps": market.incoming_fee_rate_bps,
        "complementary": market.complementary,
        "lot_wei": str(market.lot_wei),
        "settlement": ON_CHAIN if market.settles else NOWHERE,
        "custody": custody_of(market),
        "stalled": stall_body(stall),
    }


def stall_body(stall: Stall | None) -> StallBody | None:
    """Return the JSON of the stop of a market; None without one."""
    return None if stall is None else StallBody(since=stall.since_ms, reason=stall.reason)


def chain_terms(condition: Condition | None, state: str | None) -> dict[str, Any]:
    """Return the fields about a market's condition."""
    if condition is None:
        return dict.fromkeys(("condition_id", "question_id", "oracle", "collateral", "chain"))
    return {
        "condition_id": f"0x{condition.condition_id.hex()}",
        "question_id": f"0x{condition.question_id.hex()}",
        "oracle": condition.oracle,
        "collateral": condition.collateral,
        "chain": state,
    }


def contracts_of(addresses: Addresses | None) -> ContractsBody:
    """Return the body of contract addresses, null if unknown."""
    if addresses is None:
        return ContractsBody(
            stablecoin=None, collateral=None, conditional_tokens=None, exchange=None
        )
    return ContractsBody(
        stablecoin=addresses.stablecoin,
        collateral=addresses.collateral,
        conditional_tokens=addresses.conditional_tokens,
        exchange=addresses.exchange or None,
    )
