"""Converts trades of the engine to fills for the exchange contract.

The builder keeps the resting orders of settling markets, since a command may finish more orders
than the engine keeps readable afterwards.
"""

from collections.abc import Callable, Sequence
from typing import Final

from clob import (
    Event,
    Matcher,
    Order,
    OrderAdded,
    OrderRecord,
    OrderRemoved,
    PairedTrade,
    ReopenedTrade,
    Side,
    Trade,
)
from clob.events import MatchType, RemovalReason
from clob.market import Market
from clob.signing import ZERO_ADDRESS, keccak256
from clob.units import FEE_RATE_MAX_BPS, buyer_fee, collateral_of, seller_fee
from clob.wire.operations import FillBody, PartyBody
from clob_server.core.commands import SignatureRecord
from clob_server.core.settlement_ledger import EndedTrade, HeldTrade, SettlementLedger, TradeHalf

UNSIGNED: Final = "0x"
"""Signature of an unsigned order."""
UNSIGNED_TYPE: Final = 1
"""Signature type of an unsigned order."""

_REPLACED: Final = RemovalReason.REPLACED


def party_body(order: Order, record: SignatureRecord | None, market_bps: int) -> PartyBody:
    """Return an order as part of a fill, exactly as signed.

    The market's fee rate applies unless the signed cap is lower. An unsigned order gets a salt
    derived from its id, so that its hash is the same in all fills.
    """
    collateral = order.collateral
    if collateral is None:
        collateral = collateral_of(order.size, order.price)
    buys = order.side is Side.BUY
    allowed_bps = FEE_RATE_MAX_BPS if order.fee_rate_bps is None else order.fee_rate_bps
    return PartyBody(
        salt=record.salt if record else str(salt_of(order.id)),
        maker=order.maker,
        signer=record.signer if record else order.maker,
        taker=record.taker if record else ZERO_ADDRESS,
        token_id=order.token,
        maker_amount=str(collateral if buys else order.size),
        taker_amount=str(order.size if buys else collateral),
        expiration=str(order.expiration_s),
        nonce=str(order.nonce),
        fee_rate_bps=str(allowed_bps),
        side=int(order.side),
        signature_type=record.signature_type if record else UNSIGNED_TYPE,
        signature=f"0x{record.signature.hex()}" if record else UNSIGNED,
        wallet=order.smart_wallet or ZERO_ADDRESS,
        charged_bps=min(market_bps, allowed_bps),
    )


def salt_of(order_id: str | int) -> int:
    """Return the 256-bit salt of an unsigned order."""
    return int.from_bytes(keccak256(str(order_id).encode(errors="surrogatepass")))


def reopened_trades(ended: EndedTrade) -> tuple[ReopenedTrade, ...]:
    """Return the terms of an ended trade, or of both trades of a mint or merge, for the matcher."""
    fill = ended.fill
    assert fill is not None, "a result without its fill cannot be revised"
    size, price = int(fill.size), fill.price
    if len(ended.halves) == 1:
        buys = fill.resting.side == Side.BUY
        parties = (fill.resting, fill.incoming) if buys else (fill.incoming, fill.resting)
        return (_reopened(ended.halves[0], *parties, price, size),)
    first, second = ended.halves
    minted = fill.resting.side == Side.BUY
    terms = []
    for half, other, party, own_price in (
        (first, second, fill.incoming, 100 - price),
        (second, first, fill.resting, price),
    ):
        buyer, seller = (party, None) if minted else (None, party)
        terms.append(_reopened(half, buyer, seller, own_price, size, other.seq))
    return tuple(terms)


def _reopened(
    half: TradeHalf,
    buyer: PartyBody | None,
    seller: PartyBody | None,
    price: int,
    size: int,
    other_seq: int = 0,
) -> ReopenedTrade:
    """Return the terms of one trade; a mint has no seller and a merge no buyer."""
    pair = MatchType.MERGE if buyer is None else MatchType.MINT
    return ReopenedTrade(
        seq=half.seq,
        token=half.token,
        buyer_pays=_payer(buyer) if buyer else "",
        buyer_receives=buyer.maker if buyer else "",
        seller_pays=seller.maker if seller else "",
        seller_receives=_payer(seller) if seller else "",
        paid=size * price // 100,
        size=size,
        buyer_fee=buyer_fee(buyer.charged_bps, price, size) if buyer else 0,
        seller_fee=seller_fee(seller.charged_bps, price, size) if seller else 0,
        match_type=pair if other_seq else MatchType.DIRECT,
        other_seq=other_seq,
    )


def _payer(party: PartyBody) -> str:
    """Return the wallet that pays or receives collateral for an order."""
    return party.maker if party.wallet == ZERO_ADDRESS else party.wallet


class FillBuilder:
    """Records each trade of a settling market as a complete fill in the ledger."""

    def __init__(
        self,
        matcher: Matcher,
        settling: SettlementLedger,
        signature: Callable[[str | int], SignatureRecord | None],
    ) -> None:
        self._matcher: Final = matcher
        self._settling: Final = settling
        self._signature: Final = signature
        self.markets: Final[set[str]] = {market.id for market in matcher.markets if market.settles}
        """Settling markets."""
        self.orders: Final[dict[str | int, Order]] = {}
        """Their resting orders, as submitted, by id, except those of a snapshot without changes."""

    def add(self, record: OrderRecord) -> None:
        """Add a resting order."""
        if record.market in self.markets:
            self.orders[record.order.id] = record.order

    def take(
        self, events: Sequence[Event], incoming: Order | None, num_trades: int, now_ms: int
    ) -> None:
        """Record the trades of a command, while the signature records of its orders are kept.

        Args:
            events: all events of one command.
            incoming: the new or replaced order, if any.
            num_trades: number of trades after the command.
            now_ms: the time of the command, Unix milliseconds.
        """
        orders = self.orders
        if incoming is not None:
            if len(events) == 1 and type(events[0]) is OrderAdded:  # the most frequent case
                orders[incoming.id] = incoming
                return
            trades = [event for event in events if isinstance(event, Trade)]
            if trades:
                self._hold(trades, incoming, num_trades - len(trades), now_ms)
        for event in events:
            if type(event) is OrderRemoved and event.reason is not _REPLACED:
                orders.pop(event.order_id, None)
        if incoming is not None:
            if type(events[-1]) is OrderAdded:
                orders[incoming.id] = incoming
            elif type(events[0]) is OrderRemoved and events[0].order_id == incoming.id:
                orders.pop(incoming.id, None)  # it left its queue and did not rest again

    def _hold(self, trades: Sequence[Trade], incoming: Order, num_before: int, now_ms: int) -> None:
        """Add the trades of an order to the ledger; both trades of a mint or merge count as one."""
        market = self._matcher.market(trades[0].market)
        second = self._party(incoming, market.incoming_fee_rate_bps)
        settling, place = self._settling, 0
        while place < len(trades):
            count = 2 if type(trades[place]) is PairedTrade else 1
            own = trades[place : place + count]
            halves = tuple(
                TradeHalf(num_before + at, trade.seq, trade.token, trade.buyer, trade.seller)
                for at, trade in enumerate(own, place + 1)
            )
            fill = self._fill(own[-1], halves[0].number, market, second)
            settling.hold(HeldTrade(market.id, halves, now_ms, fill))
            place += count

    def _fill(self, trade: Trade, number: int, market: Market, incoming: PartyBody) -> FillBody:
        """Return the fill of a trade; for a pair, of the trade in the resting order's token."""
        order = self.orders[trade.resting_order_id]
        return FillBody(
            trade_id=str(self._settling.trade_id(number)),
            price=trade.price,
            size=str(trade.size),
            resting=self._party(order, market.resting_fee_rate_bps),
            incoming=incoming,
        )

    def _party(self, order: Order, market_bps: int) -> PartyBody:
        return party_body(order, self._signature(order.id), market_bps)
