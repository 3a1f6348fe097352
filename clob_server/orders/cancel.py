"""Cancels: what the maker says, who may say it, and the order as it is afterwards (decision 26)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clob import Cancel
from clob.errors import NotTheMakerError, OrderNotOpenError, UnknownOrderError
from clob.signing import SignedCancel, verify
from clob.signing.signed_struct import read_address
from clob.status import OrderStatus
from clob_server.api.options import wrong
from clob_server.api.problems import ApiError
from clob_server.orders.lookup import find_order, known_order

if TYPE_CHECKING:
    from clob_server.api.request import ApiRequest
    from clob_server.api.schemas import OrderBody
    from clob_server.service import Service

REF_MAX: Final = 128
"""How long the name of an order may be, its id or its hash."""


class Wish(NamedTuple):
    """A cancel that has been read."""

    order_ref: str
    """The order, by its id or by its hash."""
    maker: str
    """Whose it should be."""
    signed: SignedCancel | None
    """What the maker signed; None where he did not."""


def read_cancel(order_ref: object, body: Mapping[str, Any]) -> Wish:
    """Read a cancel.

    Args:
        order_ref: the order, by its id or by its hash.
        body: ``maker``, and where it is signed ``timestamp`` and ``signature``.

    Raises:
        ApiError: INVALID_FIELD, the order has no name.
        RejectedError: a field is wrong.
    """
    if type(order_ref) is not str or not 0 < len(order_ref) <= REF_MAX:
        raise wrong("orderId", "must be the id or the hash of an order", order_ref)
    if "signature" not in body:
        return Wish(order_ref, read_address("maker", body.get("maker")), None)
    signed = SignedCancel.from_json({**body, "orderId": order_ref})
    return Wish(order_ref, signed.maker, signed)


def check_authority(call: "ApiRequest", wish: Wish) -> None:
    """Refuse a cancel by somebody who may not ask for it.

    A signature is checked wherever there is one. Without one the key has to be the maker's, or the
    environment the one for tests.

    Raises:
        ApiError: API_KEY_REQUIRED, SCOPE_MISSING, MAKER_NOT_ALLOWED.
        TimestampOutOfWindowError: it was signed too long ago, or in the future.
        InvalidSignatureError: the maker did not sign it.
    """
    service = call.service
    if wish.signed is None:
        service.guard.may_act_for(call, wish.maker)
    else:
        wish.signed.to_command(service.clock_ms())
        verify(wish.signed, service.domain)


async def find_own(service: "Service", wish: Wish) -> str:
    """Give the id of the order that is to be cancelled.

    Raises:
        UnknownOrderError: there is none.
        NotTheMakerError: it is another maker's.
        ApiError: ORDER_NOT_OPEN, with the order.
    """
    record, ref = known_order(service, wish.order_ref), wish.order_ref
    if record is None:
        found = await service.history.order(ref)
        if found is None:
            raise UnknownOrderError(f"there is no order {ref!r}")
        check_maker(ref, found.maker, wish.maker)
        raise not_open(found)
    check_maker(ref, record.order.maker, wish.maker)
    if record.status in (OrderStatus.FILLED, OrderStatus.CANCELLED):
        raise not_open(await order_now(service, ref))
    return str(record.order.id)


async def cancel(service: "Service", wish: Wish) -> "OrderBody":
    """Take an order out of its book, and give it as it is then.

    Raises:
        UnknownOrderError, NotTheMakerError, ApiError: as :func:`find_own`.
        MarketNotOpenError: its market does not allow it now.
        EngineFullError, EngineStoppedError, OutcomeUnknownError: nobody did, or nobody knows.
    """
    order_id = await find_own(service, wish)
    try:
        await service.engine.ask(
            lambda now_ms: Cancel(order_id=order_id, maker=wish.maker, now_ms=now_ms)
        )
    except OrderNotOpenError:  # it was filled meanwhile
        raise not_open(await order_now(service, order_id)) from None
    return await order_now(service, order_id)


async def order_now(service: "Service", order_ref: str) -> "OrderBody":
    """Give an order that there is.

    Raises:
        UnknownOrderError: its details have left the store.
    """
    found = await find_order(service, order_ref)
    if found is None:
        raise UnknownOrderError(f"there is no order {order_ref!r}")
    return found


def check_maker(order_ref: str, owner: str, maker: str) -> None:
    """Refuse somebody else's order."""
    if owner != maker:
        raise NotTheMakerError(f"order {order_ref!r} is not of maker {maker}")


def not_open(order: "OrderBody") -> ApiError:
    """Refuse to cancel an order that is final, and show it."""
    return ApiError(
        "ORDER_NOT_OPEN", f"order {order.id!r} is {order.status}", more={"order": order}
    )
