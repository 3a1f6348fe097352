"""Cancels orders: checks the authority, commits the command, returns the order (decision 26)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from clob import Cancel
from clob.errors import NotTheMakerError, OrderNotOpenError
from clob.signing import Domain, SignedCancel, verify
from clob.signing.fields import received
from clob.status import OrderStatus
from clob_server.api.faults import read_wallet, wrong
from clob_server.api.problems import ApiError
from clob_server.api.request import ApiRequest
from clob_server.api.schemas import OrderBody
from clob_server.auth.guard import Guard
from clob_server.core.sequencer import Sequencer
from clob_server.orders.lookup import OrderLookup

REF_MAX: Final = 128
"""The longest reference to an order, in characters."""


CANCEL: Final = frozenset(("orderId", "maker", "timestamp", "signature"))
"""The fields of a cancel."""


class CancelRequest(NamedTuple):
    """A cancel that was read."""

    order_ref: str
    """The order, by id or hash."""
    maker: str
    """The maker that the order must have."""
    signed: SignedCancel | None
    """The signed cancel; None without a signature."""


def read_cancel(order_ref: object, body: Mapping[str, Any]) -> CancelRequest:
    """Read a cancel.

    Args:
        order_ref: the order, by id or hash.
        body: ``maker``, and for a signed cancel ``timestamp`` and ``signature``.

    Raises:
        ApiError: INVALID_FIELD, ``order_ref`` is not a reference to an order.
        RejectedError: a field is invalid.
    """
    if type(order_ref) is not str or not 0 < len(order_ref) <= REF_MAX:
        raise wrong("orderId", "must be the id or the hash of an order", order_ref)
    maker = read_wallet("maker", body.get("maker"))
    if body.get("signature") is None:
        return CancelRequest(order_ref, maker, None)
    signed = SignedCancel.from_json({**body, "orderId": order_ref})
    return CancelRequest(order_ref, maker, signed)


@dataclass(slots=True, eq=False)
class OrderCancels:
    """Cancels orders for their makers."""

    sequencer: Sequencer
    lookup: OrderLookup
    guard: Guard
    domain: Domain
    """The EIP-712 domain that cancels are signed for."""
    clock_ms: Callable[[], int]

    def check_authority(self, call: ApiRequest, cancel: CancelRequest) -> None:
        """Check the authority of a cancel.

        A signature is checked wherever there is one. Without one, the route's rule applies: in
        production the key has to be bound to the maker.

        Raises:
            ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
            TimestampOutOfWindowError: it was signed too long ago, or in the future.
            InvalidSignatureError: the maker did not sign it.
        """
        if cancel.signed is None:
            self.guard.may_act_for(call, cancel.maker)
        else:
            cancel.signed.to_command(self.clock_ms())
            verify(cancel.signed, self.domain)

    async def find(self, cancel: CancelRequest) -> str:
        """Return the id of the order to cancel.

        Raises:
            UnknownOrderError: there is no such order.
            NotTheMakerError: it is another maker's.
            ApiError: ORDER_NOT_OPEN, with the order.
        """
        ref = cancel.order_ref
        record = self.lookup.known(ref)
        if record is None:
            order = await self.lookup.get(ref)
            _check_maker(ref, order.maker, cancel.maker)
            raise not_open(order)
        _check_maker(ref, record.order.maker, cancel.maker)
        if record.status in (OrderStatus.FILLED, OrderStatus.CANCELLED):
            raise not_open(await self.lookup.get(ref))
        return str(record.order.id)

    async def cancel(self, cancel: CancelRequest) -> OrderBody:
        """Cancel an order, and return it as it is afterwards.

        Raises:
            UnknownOrderError, NotTheMakerError, ApiError: as :meth:`find`.
            MarketNotOpenError: its market allows no cancels now.
            QueueFullError, SequencerStoppedError, OutcomeUnknownError: as ``Sequencer.submit``.
        """
        order_id = await self.find(cancel)
        try:
            await self.sequencer.submit(Cancel(order_id=order_id, maker=cancel.maker))
        except OrderNotOpenError:  # it was filled in the meantime
            raise not_open(await self.lookup.get(order_id)) from None
        return await self.lookup.get(order_id)


def _check_maker(order_ref: str, owner: str, maker: str) -> None:
    if owner != maker:
        raise NotTheMakerError(f"order {received(order_ref)} belongs to another maker than {maker}")


def not_open(order: OrderBody) -> ApiError:
    """Return the rejection of a cancel of a final order, which it shows."""
    detail = f"order {order.id} is {order.status} already"
    return ApiError("ORDER_NOT_OPEN", detail, more={"order": order})
