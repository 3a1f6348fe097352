"""Shows the result that an order would have, without placing it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from clob import ClobError, Side, Trade
from clob.signing import InvalidSignatureError, SignerNotAuthorisedError, explain
from clob_server.api.problems import content_of
from clob_server.api.request import ApiRequest
from clob_server.api.schemas import ExpectedTrade, InvalidBody, OutlookBody
from clob_server.core.serialize import average, is_own
from clob_server.orders.auto_open import AutoOpening
from clob_server.orders.place import OrderPlacement, ParsedOrder


@dataclass(slots=True, eq=False)
class OrderPreview:
    """Validates and simulates orders."""

    placement: OrderPlacement
    open_market: AutoOpening
    """Checks orders that would open a market."""
    clock_ms: Callable[[], int]

    async def validate(
        self, call: ApiRequest, body: Mapping[str, Any]
    ) -> OutlookBody | InvalidBody:
        """Run every check of an order, and return the expected result or the rejection.

        A wrong signature is explained, which takes dozens of recoveries; they run in a thread.
        """
        parsed = None
        try:
            parsed = self.placement.read(body)
            self.placement.check_signature(parsed)
            return self._outlook(parsed, parsed.order_hash)
        except ClobError as error:
            return InvalidBody(
                valid=False,
                rejection=content_of(error, call.request_id)[0],
                explanation=await self._explain(parsed, error),
            )

    async def _explain(self, parsed: ParsedOrder | None, error: ClobError) -> str | None:
        """Return an explanation of a wrong signature; None if the signature is not the reason."""
        if parsed is None or parsed.signed is None or not isinstance(error, InvalidSignatureError):
            return None
        if isinstance(error, SignerNotAuthorisedError):  # the order was signed
            return None
        return (await asyncio.to_thread(explain, parsed.signed, self.placement.domain)).text

    def simulate(self, body: Mapping[str, Any]) -> OutlookBody:
        """Return the trades that an order would get; signature and repetition are ignored.

        Raises:
            RejectedError, ApiError: the rejection that the order would get.
        """
        parsed = self.placement.read(body)
        options = structs.replace(parsed.options, client_id=None)
        trial = structs.replace(parsed, order_hash=None, options=options)
        return self._outlook(trial, parsed.order_hash)

    def _outlook(self, parsed: ParsedOrder, order_hash: bytes | None) -> OutlookBody:
        """Return the expected result of an order, with the hash to show; raise its rejection."""
        order, trades = parsed.order, self._expected(parsed)
        filled = sum(trade.size for trade in trades)
        paid = sum(trade.size * trade.price // 100 for trade in trades)
        return OutlookBody(
            valid=True,
            order_hash=None if order_hash is None else f"0x{order_hash.hex()}",
            side=int(order.side),
            price=order.price,
            size=str(order.size),
            collateral=str(order.collateral),
            matched=bool(trades),
            trades=[
                ExpectedTrade(
                    price=trade.price,
                    size=str(trade.size),
                    fee=str(trade.buyer_fee if order.side is Side.BUY else trade.seller_fee),
                )
                for trade in trades
            ],
            filled_tokens=str(filled),
            filled_collateral=str(paid),
            average_price=average(paid, filled),
            remaining=str(order.size - filled),
        )

    def _expected(self, parsed: ParsedOrder) -> list[Trade]:
        """Return the trades that an order would get now, for its own token; raise its rejection."""
        state = self.placement.state
        submit = parsed.submit(now_ms=max(self.clock_ms(), state.now_ms))
        if parsed.opens_market:  # its book would be empty
            self.open_market(submit, {}, submit.now_ms)
            return []
        return [trade for trade in state.matcher.simulate(submit) if is_own(trade)]
