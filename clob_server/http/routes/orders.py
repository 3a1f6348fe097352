"""Routes of orders: place, preview, look up, cancel; nonces and delegates."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from clob import ClobError, RejectedError, SetNonce
from clob.signing import Signed, SignedSetDelegate, SignedSetNonce, verify
from clob_server.api.faults import present, read_wallet, wrong
from clob_server.api.problems import content_of
from clob_server.api.request import Reply, reply
from clob_server.api.schemas import DelegateBody, NonceBody
from clob_server.core.commands import SetDelegate
from clob_server.http.server import Request, Response, Route
from clob_server.orders.batch import Results
from clob_server.orders.cancel import CANCEL, read_cancel
from clob_server.orders.place import OrderPlacement
from clob_server.orders.resource import RULES

_Message = TypeVar("_Message", bound=Signed)

ORDERS_PER_REQUEST: Final = 100
"""Orders cancelled by a nonce after which it is charged as one more request."""


# ----- placing -------------------------------------------------------------------------------


async def create_batch(call: Request) -> Reply:
    """Place several orders, each with its own result. Each counts against the order budget."""
    server = call.server
    server.lifecycle.check_open()
    items = server.batches.read_items(call.object())
    server.guard.limiter.charge_orders(call.key, call.address, len(items), call.usage)
    return reply_results(call, await server.batches.create(call, items))


async def validate_order(call: Request) -> Reply:
    """Run every check of an order. It counts against the order budget."""
    return reply(await call.server.preview.validate(call, call.object()))


async def simulate_order(call: Request) -> Reply:
    """Return the trades that an order would make now."""
    return reply(call.server.preview.simulate(call, call.object()))


# ----- cancelling ----------------------------------------------------------------------------


async def cancel_order(call: Request) -> Reply:
    """Cancel an order. The maker is in the body, or else in the query."""
    params: dict[str, Any] = {**call.query(), **(call.object(CANCEL) if call.body else {})}
    order_ref = call.params["orderId"]
    if params.get("orderId") not in (None, order_ref):
        raise wrong("orderId", f"must be {order_ref}, as in the path", params["orderId"])
    cancel = read_cancel(order_ref, params)
    cancels = call.server.cancels
    cancels.check_authority(call, cancel)
    return reply(await cancels.cancel(cancel))


async def cancel_batch(call: Request) -> Reply:
    """Cancel several orders, each with its own result."""
    batches = call.server.batches
    items = batches.read_items(call.object())
    return reply_results(call, await batches.cancel(call, items))


def reply_results(call: Request, results: Results) -> Reply:
    """Return the results in the order of the request."""
    bodies = [
        content_of(result, call.request_id, f"orders[{at}]")[0]
        if isinstance(result, ClobError)
        else result
        for at, result in sorted(results.items(), key=lambda item: item[0])
    ]
    return reply({"results": bodies})


# ----- nonces and delegates -------------------------------------------------------------------


async def set_nonce(call: Request) -> Reply:
    """Raise a maker's nonce, which cancels all of its orders with a lower nonce (decision 18)."""
    server = call.server
    signed = read_message(call, SignedSetNonce)
    verify(signed, server.domain)
    maker, nonce = signed.maker, signed.nonce
    done = await server.sequencer.submit(
        lambda now_ms: SetNonce(maker=maker, nonce=nonce, now_ms=now_ms)
    )
    assert not isinstance(done.outcome, RejectedError)
    count = len(done.outcome)
    server.guard.limiter.charge_work(call.usage, count // ORDERS_PER_REQUEST)
    return reply(NonceBody(success=True, maker=maker, nonce=str(nonce), num_cancelled=count))


async def set_delegate(call: Request) -> Reply:
    """Allow or revoke a delegate who signs for a maker (decision 16)."""
    server = call.server
    signed = read_message(call, SignedSetDelegate)
    verify(signed, server.domain)
    terms: dict[str, Any] = {
        "maker": signed.maker,
        "delegate": signed.delegate,
        "allowed": signed.allowed,
        "nonce": str(signed.nonce),
    }
    await server.sequencer.submit(lambda now_ms: SetDelegate(**terms, now_ms=now_ms))
    return reply(DelegateBody(success=True, **terms))


def read_message(call: Request, kind: type[_Message]) -> _Message:
    """Read a message that its maker has to sign.

    Raises:
        ApiError: INVALID_FIELD, a field is unknown or missing; INVALID_ADDRESS.
        RejectedError: a field is invalid.
    """
    names = {field.name for field in kind.SCHEMA.fields}
    body = call.object(names | {"signature"})
    read_wallet("maker", body.get("maker"))
    signed = kind.from_json(body)
    present("signature", body.get("signature"), RULES["signature"])
    return signed


def create(name: str, path: str, handler: Callable[..., Response]) -> Route:
    """Return the route of a method of :class:`~clob_server.orders.place.OrderPlacement`."""
    return Route(name, "POST", path, handler, reads_body=True, part="placement")


ROUTES = (
    create("create_order", "/api/orders", OrderPlacement.create_signed),
    create("create_gasless_order", "/api/orders/gasless", OrderPlacement.create_gasless),
    Route("create_batch", "POST", "/api/orders/batch", create_batch, reads_body=True),
    Route("cancel_batch", "DELETE", "/api/orders/batch", cancel_batch, reads_body=True),
    Route("validate_order", "POST", "/api/orders/validate", validate_order, reads_body=True),
    Route("simulate_order", "POST", "/api/orders/simulate", simulate_order, reads_body=True),
    Route("set_nonce", "POST", "/api/orders/nonce", set_nonce, reads_body=True),
    Route("set_delegate", "POST", "/api/orders/delegates", set_delegate, reads_body=True),
    Route(
        "cancel_order",
        "DELETE",
        "/api/orders/{orderId}",
        cancel_order,
        reads_body=True,
        query=("maker", "timestamp", "signature"),
    ),
)
"""The routes of orders. The first matching path wins, so fixed names precede ids."""
