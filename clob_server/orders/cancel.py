"""Cancels and reduces orders: checks the authority, commits the command (decision 26)."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from clob import Cancel, CancelSome, Reduce, Side
from clob.errors import NotTheMakerError, OrderNotOpenError, SizeNotReducedError, UnknownOrderError
from clob.signing import Domain, SignedCancel, SignedCancelAll, SignedReduce, fields, verify
from clob.signing.errors import TimestampOutOfWindowError
from clob.signing.fields import received
from clob.status import OrderRecord, OrderStatus
from clob.wire.orders import OrderBody
from clob_server.api.faults import fault, present, read_wallet, wrong
from clob_server.api.options import market_id
from clob_server.api.problems import ApiError
from clob_server.api.request import ApiRequest
from clob_server.auth.guard import Guard
from clob_server.core.sequencer import Committed, GuardedWork, NewOrders, Sequencer
from clob_server.core.serialize import order_body
from clob_server.orders.lookup import CLIENT, OrderLookup

REF_MAX: Final = 128
"""The longest reference to an order, in characters."""

AUTHORITY: Final = ("maker", "timestamp", "signature")
"""The fields that prove the authority to cancel."""
CANCEL: Final = frozenset(AUTHORITY) | {"orderId"}
"""The fields of a cancel."""
IF_REMAINING: Final = "ifRemaining"
"""The field with the remaining size that an order must have, or else the request is rejected."""
REDUCE: Final = CANCEL | {"remaining", IF_REMAINING}
"""The fields of a reduction."""
FILTERS: Final = ("marketId", "tokenId", "side", "all")
"""The parameters that choose the orders of a cancel of several."""
CANCEL_ALL: Final = frozenset((*AUTHORITY, "marketId", "tokenId", "side"))
"""The fields of a cancel of several orders; the filters only repeat the parameters."""

AHEAD_MAX_MS: Final = 5_000
"""How far the timestamp of a signed cancel of several orders may be ahead of the server's time."""

_FINAL: Final = (OrderStatus.FILLED, OrderStatus.CANCELLED)
_BOTH: Final = 2
"""The side of a signed ``CancelAll`` for both sides."""
_REMAINING: Final = "must be the new remaining size in wei, 10^18 a token"
_CHOOSE: Final = (
    "all must be true to cancel every order of the maker; else marketId, tokenId or side in the "
    "query must choose the orders"
)


class CancelRequest(NamedTuple):
    """A request of a maker about one of its orders."""

    order_ref: str
    """The order, by id or hash, or by ``client:`` and its ``clientOrderId``."""
    maker: str
    """The maker that the order must have."""
    signed: SignedCancel | SignedReduce | None
    """The signed request; None without a signature."""


class ReduceRequest(NamedTuple):
    """A reduction that was read."""

    target: CancelRequest
    remaining: int
    """The new remaining size, in wei."""
    expected: int | None
    """The remaining size that the order must have, in wei; None for any."""


class CancelAllRequest(NamedTuple):
    """A cancel of all orders that pass its filters; None filters nothing."""

    maker: str
    market: str | None
    token: str | None
    side: Side | None
    signed: SignedCancelAll | None
    """The signed cancel; None without a signature."""

    def to_command(self, now_ms: int) -> CancelSome:
        """Return the command.

        With a timestamp that ``now_ms`` has not passed, it cancels all orders so far, which are
        those that the signature covers until now.

        Raises:
            TimestampOutOfWindowError: a signed one is too old, or too far ahead.
        """
        ahead_ms = -1 if self.signed is None else self.signed.timestamp_ms - now_ms
        if ahead_ms > AHEAD_MAX_MS:
            raise fields.at("timestamp", TimestampOutOfWindowError(
                f"timestamp must be at most {AHEAD_MAX_MS} ms ahead of the server's time, which is "
                f"{now_ms} (GET /api/time); got {received(now_ms + ahead_ms)}, "
                f"{received(ahead_ms)} ms ahead"
            ))  # fmt: skip
        if self.signed is not None and ahead_ms < 0:
            return self.signed.to_command(now_ms)
        return CancelSome(
            maker=self.maker, market=self.market, token=self.token, side=self.side, now_ms=now_ms
        )


# ----- reading -------------------------------------------------------------------------------


def read_cancel(order_ref: object, body: Mapping[str, Any]) -> CancelRequest:
    """Read a cancel.

    Args:
        order_ref: the order, as in :class:`CancelRequest`.
        body: ``maker``, and for a signed cancel ``timestamp`` and ``signature``.

    Raises:
        ApiError: INVALID_FIELD, ``order_ref`` is not a reference to an order.
        RejectedError: a field is invalid.
    """
    ref, maker = read_ref(order_ref), read_wallet("maker", body.get("maker"))
    if body.get("signature") is None:
        return CancelRequest(ref, maker, None)
    return CancelRequest(ref, maker, SignedCancel.from_json({**body, "orderId": ref}))


def read_reduce(order_ref: object, body: Mapping[str, Any]) -> ReduceRequest:
    """Read a reduction, which has ``remaining`` besides the fields of a cancel.

    Raises:
        ApiError, RejectedError: as :func:`read_cancel`; ``remaining`` is missing or invalid.
    """
    ref, maker = read_ref(order_ref), read_wallet("maker", body.get("maker"))
    given = present("remaining", body.get("remaining"), _REMAINING)
    remaining, signed = fields.amount("remaining", given), None
    if remaining == 0:
        raise wrong("remaining", "must be above 0, since DELETE cancels an order", given)
    if body.get("signature") is not None:
        signed = SignedReduce.from_json({**body, "orderId": ref})
    return ReduceRequest(CancelRequest(ref, maker, signed), remaining, read_expected(body))


def read_expected(body: Mapping[str, Any]) -> int | None:
    """Return the remaining size that an order must have, in wei; None for any.

    Raises:
        ApiError, RejectedError: ``ifRemaining`` is not an amount, or 0.
    """
    given = body.get(IF_REMAINING)
    if given is None:
        return None
    expected = fields.amount(IF_REMAINING, given)
    if expected == 0:
        raise wrong(IF_REMAINING, "must be above 0, as long as an order rests", given)
    return expected


def read_ref(order_ref: object) -> str:
    """Read a reference to an order.

    Raises:
        ApiError: INVALID_FIELD.
    """
    if type(order_ref) is not str or not 0 < len(order_ref) <= REF_MAX:
        raise wrong("orderId", "must be the id or the hash of an order", order_ref)
    return order_ref


def read_cancel_all(query: Mapping[str, str], body: Mapping[str, Any]) -> CancelAllRequest:
    """Read a cancel of several orders. An empty filter is invalid, so that it never means all.

    Args:
        query: the filters, the token in decimal digits; also the fields of ``body``.
        body: ``maker``, and for a signed cancel ``timestamp`` and ``signature``, which covers the
            filters, an absent one as empty text or side 2. It may repeat them in this form.

    Raises:
        ApiError: INVALID_FIELD, a filter is invalid, or another one in the body; neither ``all``
            nor a filter is given, or both are.
        RejectedError: a field is invalid.
    """
    given = {name: body.get(name, query.get(name)) for name in AUTHORITY}
    maker = read_wallet("maker", given["maker"])
    market, token, side, everything = map(query.get, FILTERS)
    if market is not None:
        market = market_id(market)
    if side not in (None, "0", "1", "BUY", "SELL"):
        raise wrong("side", "must be 0, 1, BUY or SELL", side)
    if everything not in (None, "true"):
        raise wrong("all", "must be true or absent", everything)
    filtered = not (market is None and token is None and side is None)
    if everything is None and not filtered:
        raise fault("all", _CHOOSE)
    if everything is not None and filtered:
        raise wrong("all", "must be absent beside marketId, tokenId or side", everything)
    chosen = None if side is None else Side(fields.side("side", side))
    covered: dict[str, str | int] = {
        "marketId": market or "",
        "tokenId": token or "",
        "side": _BOTH if chosen is None else int(chosen),
    }
    check_repeated(body, covered)
    signed = None
    if given["signature"] is not None:
        signed = SignedCancelAll.from_json({**given, **covered})
    return CancelAllRequest(maker, market, token, chosen, signed)


def check_repeated(body: Mapping[str, Any], covered: Mapping[str, str | int]) -> None:
    """Check that the filters in the body, if any, are those of the query.

    Raises:
        ApiError: INVALID_FIELD.
    """
    for name, value in covered.items():
        repeated = body.get(name)
        if repeated is not None and (type(repeated), repeated) != (type(value), value):
            raise wrong(name, f"must be {received(value)}, as in the query", repeated)


# ----- committing ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class OrderCancels:
    """Cancels and reduces orders for their makers."""

    sequencer: Sequencer
    lookup: OrderLookup
    guard: Guard
    domain: Domain
    """The EIP-712 domain that cancels are signed for."""
    clock_ms: Callable[[], int]

    def check_authority(self, call: ApiRequest, cancel: CancelRequest | CancelAllRequest) -> None:
        """Check the authority of a cancel or a reduction.

        A signature is checked wherever there is one. Without one, the route's rule applies: in
        production the key has to be bound to the maker.

        Raises:
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
            TimestampOutOfWindowError: it was signed too long ago, or too far in the future.
            InvalidSignatureError: the maker did not sign it.
        """
        if cancel.signed is None:
            self.guard.may_act_for(call, cancel.maker)
        else:
            window = cancel if isinstance(cancel, CancelAllRequest) else cancel.signed
            window.to_command(self.clock_ms())
            verify(cancel.signed, self.domain)

    async def find(self, cancel: CancelRequest) -> OrderRecord:
        """Return the order to cancel, which rests.

        Raises:
            UnknownOrderError: there is no such order.
            NotTheMakerError: it is another maker's.
            ApiError: ORDER_NOT_OPEN, with the order.
        """
        record = self.known(cancel)
        if record is None:
            raise not_open(await self.order(cancel))
        _check_maker(cancel.order_ref, record.order.maker, cancel.maker)
        if record.status in _FINAL:
            raise not_open(await self.lookup.get(str(record.order.id)))
        return record

    def known(self, cancel: CancelRequest) -> OrderRecord | None:
        """Return the record of the order of a request; None if the matcher does not know it."""
        return self.lookup.known_to(cancel.maker, cancel.order_ref)

    async def order(self, cancel: CancelRequest) -> OrderBody:
        """Return the order of a request, resting or finished.

        Raises:
            UnknownOrderError: there is no such order.
            NotTheMakerError: it is another maker's.
        """
        record, ref = self.known(cancel), cancel.order_ref
        if record is None and ref.startswith(CLIENT):
            name = received(ref.removeprefix(CLIENT))
            raise UnknownOrderError(f"{cancel.maker} has no order with clientOrderId {name}")
        order = await self.lookup.get(ref if record is None else str(record.order.id))
        _check_maker(ref, order.maker, cancel.maker)
        return order

    async def cancel(self, cancel: CancelRequest) -> OrderBody:
        """Cancel an order, and return its new state.

        Raises:
            UnknownOrderError, NotTheMakerError, ApiError: as :meth:`find`.
            MarketNotOpenError: its market allows no cancels now.
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
        """
        order_id = str((await self.find(cancel)).order.id)
        try:
            await self.sequencer.submit(Cancel(order_id=order_id, maker=cancel.maker))
        except OrderNotOpenError:  # it was filled in the meantime
            raise not_open(await self.lookup.get(order_id)) from None
        return await self.lookup.get(order_id)

    async def reduce(self, request: ReduceRequest) -> OrderBody:
        """Reduce an order, which keeps its priority, and return its new state.

        Raises:
            UnknownOrderError, NotTheMakerError, ApiError: as :meth:`find` and :meth:`guarded`.
            RejectedError: the size does not fit the market, or the market allows no cancels now.
            ApiError: SIZE_NOT_REDUCED, with the order.
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
        """
        target, remaining, expected = request
        order_id = str((await self.find(target)).order.id)
        command = Reduce(order_id=order_id, size=remaining, maker=target.maker)
        try:
            await self.sequencer.submit(self.guarded(command, order_id, expected))
        except OrderNotOpenError:  # it was filled in the meantime
            raise not_open(await self.lookup.get(order_id)) from None
        except SizeNotReducedError:
            order = await self.lookup.get(order_id)
            rule = f"must be below the remaining {order.remaining} wei"
            error = wrong("remaining", rule, str(remaining))
            raise ApiError(
                SizeNotReducedError.code, str(error), faults=error.faults, more={"order": order}
            ) from None
        return await self.lookup.get(order_id)

    def guarded(
        self, work: Reduce | NewOrders, order_id: str, expected: int | None
    ) -> Reduce | NewOrders | GuardedWork:
        """Return the work that is done only if an order has the remaining size, if one is given.

        Raises when it is done:
            ApiError: REMAINING_CHANGED, with the order.
        """
        if expected is None:
            return work
        return GuardedWork(work, partial(self._check_remaining, order_id, expected))

    def _check_remaining(self, order_id: str, expected: int) -> None:
        """Check the remaining size of an order; the command rejects one that does not rest."""
        record = self.lookup.known(order_id)
        if record is None or record.status in _FINAL or record.remaining == expected:
            return
        rule = f"must be {record.remaining} wei, the remaining size of order {order_id}"
        error = wrong(IF_REMAINING, rule, str(expected))
        order = order_body(record, self.sequencer.state.signature(order_id))
        raise ApiError("REMAINING_CHANGED", str(error), faults=error.faults, more={"order": order})

    async def cancel_all(self, request: CancelAllRequest) -> list[Committed]:
        """Cancel the orders that pass the filters in one command; its events remove them.

        With a signed time ahead of the server's, the command is repeated once that has passed. Then
        no order that the signature covers can come any more, and a copy of it reaches none.

        Raises:
            UnknownMarketError, TokenNotInMarketError: no order can pass the filters.
            MarketNotOpenError: the market allows no cancels now.
            TimestampOutOfWindowError: the signed time is too old, or too far ahead.
            QueueFullError, SequencerStoppedError, CommitUnknownError: as ``Sequencer.submit``.
        """
        done = [await self.sequencer.submit(request.to_command)]
        last_ms = -1 if request.signed is None else request.signed.timestamp_ms
        while (ahead_ms := last_ms - done[-1].now_ms) >= 0:
            await asyncio.sleep((ahead_ms + 1) / 1000)
            done.append(await self.sequencer.submit(request.to_command))
        return done


def _check_maker(order_ref: str, owner: str, maker: str) -> None:
    if owner != maker:
        raise NotTheMakerError(f"order {received(order_ref)} belongs to another maker than {maker}")


def not_open(order: OrderBody) -> ApiError:
    """Return the rejection of a cancel of a final order, which it shows."""
    detail = f"order {order.id} is {order.status} already"
    return ApiError("ORDER_NOT_OPEN", detail, more={"order": order})
