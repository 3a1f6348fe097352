"""Shows the result that an order would have, without placing it.

Rejections state figures of the maker: balance, nonce, number of orders. They are read only with the
authority to place the order, or with a key bound to the maker.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from clob import ClobError, Side, Trade
from clob.errors import InsufficientBalanceError, MarketNotOpenError
from clob.signing import InvalidSignatureError, SignerNotAuthorisedError, explain
from clob.wire.orders import ExpectedTrade, InvalidBody, OutlookBody
from clob_server.api.problems import content_of
from clob_server.api.request import ApiRequest
from clob_server.auth.guard import is_bound
from clob_server.auth.policy import TRADE
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

    async def validate(self, call: ApiRequest, body: dict[str, Any]) -> OutlookBody | InvalidBody:
        """Run every check of an order, and return the expected result or the rejection.

        A wrong signature is explained, which takes dozens of recoveries; they run in a thread.
        """
        parsed = None
        try:
            parsed = self.placement.read(body)
            self._check_authority(call, parsed)
            return self._outlook(call, parsed, parsed.order_hash)
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

    def simulate(self, call: ApiRequest, body: dict[str, Any]) -> OutlookBody:
        """Return the trades that an order would get; repetition is ignored.

        Without the authority to place it, an unknown maker without a balance check replaces its
        maker.

        Raises:
            RejectedError, ApiError: the rejection that the order would get.
        """
        parsed = self.placement.read(body, is_complete=False)
        order, knows_account = parsed.order, self._knows_account(call, parsed)
        if not knows_account:
            order = structs.replace(order, maker="", smart_wallet="", nonce=0)
        options = structs.replace(parsed.options, client_id=None)
        trial = structs.replace(parsed, order=order, order_hash=None, options=options)
        return self._outlook(call, trial, parsed.order_hash, knows_account=knows_account)

    def _check_authority(self, call: ApiRequest, parsed: ParsedOrder) -> None:
        """Reject an order that the request may not place: by its signature, or without one by rule.

        Raises:
            InvalidSignatureError, SignerNotAuthorisedError: a signed order.
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED, an order without one.
        """
        if parsed.signed is None:
            self.placement.guard.may_act_for(call, parsed.order.maker)
        else:
            self.placement.check_signature(parsed)

    def _knows_account(self, call: ApiRequest, parsed: ParsedOrder) -> bool:
        """Return whether the reply may depend on the account of the maker."""
        if is_bound(call.key, TRADE, parsed.order.maker):
            return True
        try:
            self._check_authority(call, parsed)
        except ClobError:
            return False
        return True

    def _outlook(
        self,
        call: ApiRequest,
        parsed: ParsedOrder,
        order_hash: bytes | None,
        *,
        knows_account: bool = True,
    ) -> OutlookBody:
        """Return the expected result of an order, with the hash to show; raise its rejection."""
        order = parsed.order
        trades = self._expected(call, parsed, check_balance=knows_account)
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
            account_checked=knows_account,
        )

    def _expected(
        self, call: ApiRequest, parsed: ParsedOrder, *, check_balance: bool
    ) -> list[Trade]:
        """Return the trades that an order would get now, for its own token; raise its rejection."""
        state = self.placement.state
        submit = parsed.submit(now_ms=max(self.clock_ms(), state.now_ms))
        if parsed.opens_market:  # its book would be empty
            self.open_market(submit, self.placement.opener(call), {}, submit.now_ms)
            return []
        try:
            trades = state.matcher.simulate(submit, check_balance=check_balance)
        except (InsufficientBalanceError, MarketNotOpenError) as rejection:
            explained = self.placement.explained(submit.order, submit.market, rejection)
            raise explained from None
        return [trade for trade in trades if is_own(trade)]
