"""Routes of orders: place, preview, look up, cancel; nonces and delegates."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final, TypeVar

from clob import ClobError, Event, OrderRemoved, Rejected, RejectedError, SetNonce
from clob.signing import Signed, SignedSetDelegate, SignedSetNonce, verify
from clob.wire.orders import CancelledBody, DelegateBody, NonceBody, SwitchBody
from clob_server.api.faults import present, read_wallet, wrong
from clob_server.api.problems import content_of
from clob_server.api.request import Reply, reply
from clob_server.core.commands import SetDelegate
from clob_server.core.switches import TIMEOUT_MAX_MS, TIMEOUT_MIN_MS
from clob_server.http.routes.markets import read_token
from clob_server.http.server import Request, Response, Route
from clob_server.orders.batch import NEW_BATCH, Results, read_atomic
from clob_server.orders.cancel import (
    AUTHORITY,
    CANCEL,
    CANCEL_ALL,
    FILTERS,
    REDUCE,
    read_cancel,
    read_cancel_all,
    read_reduce,
)
from clob_server.orders.place import OrderPlacement
from clob_server.orders.resource import RULES

_Message = TypeVar("_Message", bound=Signed)

HEARTBEAT: Final = frozenset(("maker", "timeoutMs"))
"""The fields of a heartbeat."""
ORDERS_PER_REQUEST: Final = 100
"""Orders cancelled by a request after which it is charged as one more."""
ORDER_IDS_MAX: Final = 10_000
"""Ids of cancelled orders in a reply at most."""


# ----- placing -------------------------------------------------------------------------------


async def create_batch(call: Request) -> Reply:
    """Place several orders, each with its own result. Each counts against the order budget."""
    server = call.server
    server.lifecycle.check_open()
    body = call.object()
    items, atomic = server.batches.read_items(body, NEW_BATCH), read_atomic(body)
    server.guard.limiter.charge_orders(call.key, call.address, len(items), call.usage)
    return reply_results(call, await server.batches.create(call, items, atomic=atomic))


async def replace_order(call: Request) -> Reply:
    """Cancel an order and place another one, both or neither."""
    server = call.server
    server.lifecycle.check_open()
    return reply(await server.batches.replace(call, call.params["orderId"], call.object()))


async def validate_order(call: Request) -> Reply:
    """Run every check of an order. It counts against the order budget."""
    return reply(await call.server.preview.validate(call, call.object()))


async def simulate_order(call: Request) -> Reply:
    """Return the trades that an order would make now."""
    return reply(call.server.preview.simulate(call, call.object()))


# ----- cancelling ----------------------------------------------------------------------------


async def cancel_order(call: Request) -> Reply:
    """Cancel an order. The maker is in the body, or else in the query."""
    cancel = read_cancel(*order_and_body(call, CANCEL))
    cancels = call.server.cancels
    cancels.check_authority(call, cancel)
    return reply(await cancels.cancel(cancel))


async def reduce_order(call: Request) -> Reply:
    """Reduce the remaining size of an order, which keeps its priority."""
    request = read_reduce(*order_and_body(call, REDUCE))
    cancels = call.server.cancels
    cancels.check_authority(call, request.target)
    return reply(await cancels.reduce(request))


def order_and_body(call: Request, known: AbstractSet[str]) -> tuple[str, dict[str, Any]]:
    """Return the order that the path names, and the fields of the query and the body.

    Raises:
        ApiError: INVALID_FIELD, the body has an unknown field or names another order.
    """
    params: dict[str, Any] = {**call.query(), **(call.object(known) if call.body else {})}
    order_ref = call.params["orderId"]
    if params.get("orderId") not in (None, order_ref):
        raise wrong("orderId", f"must be {order_ref}, as in the path", params["orderId"])
    return order_ref, params


async def cancel_orders(call: Request) -> Reply:
    """Cancel the orders of a maker that pass the filters of the query, in one command."""
    server, query = call.server, {**call.query()}
    if "tokenId" in query:
        query["tokenId"] = read_token(query["tokenId"])
    body = call.object(CANCEL_ALL) if call.body else {}
    request = read_cancel_all(query, body)
    server.cancels.check_authority(call, request)
    done = await server.cancels.cancel_all(request)
    events: list[Event | Rejected] = []
    for each in done:
        assert not isinstance(each.outcome, RejectedError)
        events += each.outcome
    count = len(events)
    server.guard.limiter.charge_work(call.usage, count // ORDERS_PER_REQUEST)
    removed = islice(events, ORDER_IDS_MAX)
    ids = [str(event.order_id) for event in removed if type(event) is OrderRemoved]
    return reply(
        CancelledBody(success=True, maker=request.maker, num_cancelled=count, order_ids=ids)
    )


async def cancel_batch(call: Request) -> Reply:
    """Cancel several orders, each with its own result."""
    batches = call.server.batches
    items = batches.read_items(call.object())
    return reply_results(call, await batches.cancel(call, items))


async def heartbeat(call: Request) -> Reply:
    """Keep the orders of a maker for a time, or of each maker that the key is bound to."""
    body = call.object(HEARTBEAT)
    if body.get("maker") is None and call.key is not None and call.key.makers:
        makers = list(call.key.makers)
    else:
        makers = [read_wallet("maker", body.get("maker"))]
    for maker in makers:
        call.server.guard.may_act_for(call, maker)
    timeout_ms = read_timeout(body.get("timeoutMs"))
    changed = await call.server.switches.heartbeat(makers, timeout_ms)
    return reply(SwitchBody(success=True, makers=makers, timeout_ms=timeout_ms, changed=changed))


def read_timeout(value: object) -> int:
    """Read the timeout of heartbeats, milliseconds; 0 for none.

    Raises:
        ApiError: INVALID_FIELD.
    """
    if type(value) is int and (value == 0 or TIMEOUT_MIN_MS <= value <= TIMEOUT_MAX_MS):
        return value
    rule = f"must be 0 or an integer from {TIMEOUT_MIN_MS:,} to {TIMEOUT_MAX_MS:,} (milliseconds)"
    raise wrong("timeoutMs", rule, value)


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
    Route(
        "cancel_orders",
        "DELETE",
        "/api/orders",
        cancel_orders,
        reads_body=True,
        query=(*FILTERS, *AUTHORITY),
    ),
    Route("validate_order", "POST", "/api/orders/validate", validate_order, reads_body=True),
    Route("simulate_order", "POST", "/api/orders/simulate", simulate_order, reads_body=True),
    Route(
        "heartbeat",
        "POST",
        "/api/orders/heartbeat",
        heartbeat,
        reads_body=True,
        mends_clock=True,  # a heartbeat needs no time, only the commands that arm and disarm
    ),
    Route("set_nonce", "POST", "/api/orders/nonce", set_nonce, reads_body=True),
    Route("set_delegate", "POST", "/api/orders/delegates", set_delegate, reads_body=True),
    Route(
        "cancel_order",
        "DELETE",
        "/api/orders/{orderId}",
        cancel_order,
        reads_body=True,
        query=AUTHORITY,
    ),
    Route("reduce_order", "PATCH", "/api/orders/{orderId}", reduce_order, reads_body=True),
    Route("replace_order", "POST", "/api/orders/{orderId}/replace", replace_order, reads_body=True),
)
"""The routes of orders. The first matching path wins, so fixed names precede ids."""
