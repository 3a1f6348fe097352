"""Orders: placed, tried, looked up, listed, cancelled; and what else a maker signs."""

from typing import Any, Final

from clob import ClobError, RejectedError, SetNonce
from clob.errors import UnknownOrderError
from clob.signing import SignedSetDelegate, SignedSetNonce, fields, verify
from clob_server.api.options import market_id
from clob_server.api.problems import content_of
from clob_server.api.request import ApiRequest, Outcome, Reply, Route, reply
from clob_server.api.schemas import DelegateBody, NonceBody
from clob_server.core.commands import SetDelegate
from clob_server.core.serialize import order_body
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.orders.batch import Results, cancel_all, place_all, read_items
from clob_server.orders.cancel import cancel, check_authority, read_cancel
from clob_server.orders.lookup import find_order
from clob_server.orders.place import check_signature, place, read_gasless, read_signed
from clob_server.orders.preview import simulate, validate

LIMIT: Final = 100
"""How many orders a list has, unless it is asked for another number."""
LIMIT_MAX: Final = 500
"""How many it may be asked for."""


# ----- placing -------------------------------------------------------------------------------


def create_order(call: ApiRequest) -> Outcome:
    """Place a signed order."""
    service = call.service
    service.guard.charge_orders(call)
    service.check_open()
    ticket = read_signed(service, call.object())
    check_signature(service, ticket)
    return place(service, ticket)


def create_gasless(call: ApiRequest) -> Outcome:
    """Place an order that nobody signed."""
    service = call.service
    service.guard.charge_orders(call)
    service.check_open()
    ticket = read_gasless(service, call.object())
    service.guard.may_act_for(call, ticket.order.maker)
    return place(service, ticket)


async def create_batch(call: ApiRequest) -> Reply:
    """Place several orders, each with its own result; each counts as an order created."""
    service = call.service
    service.check_open()
    items = read_items(service, call.object())
    service.guard.charge_orders(call, len(items))
    return reply_results(call, await place_all(call, items))


async def validate_order(call: ApiRequest) -> Reply:
    """Do everything with an order but place it. It counts as an order created."""
    call.service.guard.charge_orders(call)
    return reply(await validate(call, call.object()))


async def simulate_order(call: ApiRequest) -> Reply:
    """Say which trades an order would get."""
    return reply(simulate(call.service, call.object()))


# ----- looking up ----------------------------------------------------------------------------


async def get_order(call: ApiRequest) -> Reply:
    """Give an order by its id or by its hash."""
    order_ref = call.params["orderId"]
    found = await find_order(call.service, order_ref)
    if found is None:
        raise UnknownOrderError(f"there is no order {order_ref!r:.99}")
    return reply(found)


async def list_orders(call: ApiRequest) -> Reply:
    """List the orders that rest, in the sequence in which they were accepted."""
    service, query = call.service, call.query()
    maker, market = query.get("maker"), query.get("marketId")
    if maker is not None:
        maker = fields.address("maker", maker)
    if market is not None:
        market = market_id(market)
    limit = read_number(query, "limit", LIMIT, 1, LIMIT_MAX)
    after = read_number(query, "cursor", 0, 0, CURSOR_MAX)
    records = service.resting.page(maker, market, after, limit + 1)
    papers = service.exchange.registry.papers
    found = [order_body(record, papers.get(record.order.id)) for record in records[:limit]]
    if len(records) <= limit:
        return reply(found)
    asked = {"maker": maker, "marketId": market, "limit": limit}
    return reply(found, headers=next_page("/api/orders", asked, records[limit - 1].number))


# ----- cancelling ----------------------------------------------------------------------------


async def cancel_order(call: ApiRequest) -> Reply:
    """Take an order out of its book. The maker is named in the body, or else in the query."""
    given: dict[str, Any] = {**call.query(), **(call.object() if call.body else {})}
    wish = read_cancel(call.params["orderId"], given)
    check_authority(call, wish)
    return reply(await cancel(call.service, wish))


async def cancel_batch(call: ApiRequest) -> Reply:
    """Take several orders out of their books, each with its own result."""
    items = read_items(call.service, call.object())
    return reply_results(call, await cancel_all(call, items))


def reply_results(call: ApiRequest, results: Results) -> Reply:
    """Answer with what came of each, in the sequence of the request."""
    told = [
        content_of(result, call.request_id)[0] if isinstance(result, ClobError) else result
        for _, result in sorted(results.items(), key=lambda item: item[0])
    ]
    return reply({"results": told})


# ----- what else a maker signs ---------------------------------------------------------------


async def set_nonce(call: ApiRequest) -> Reply:
    """Raise a maker's nonce, which cancels every order of his with a lower one (decision 18)."""
    service = call.service
    signed = SignedSetNonce.from_json(call.object())
    verify(signed, service.domain)
    done = await service.engine.ask(
        lambda now_ms: SetNonce(maker=signed.maker, nonce=signed.nonce, now_ms=now_ms)
    )
    assert not isinstance(done.outcome, RejectedError)
    return reply(
        NonceBody(
            success=True,
            maker=signed.maker,
            nonce=str(signed.nonce),
            num_cancelled=len(done.outcome),
        )
    )


async def set_delegate(call: ApiRequest) -> Reply:
    """Let somebody sign for a maker, or no longer (decision 16)."""
    service = call.service
    signed = SignedSetDelegate.from_json(call.object())
    verify(signed, service.domain)
    await service.engine.ask(
        lambda now_ms: SetDelegate(
            maker=signed.maker,
            delegate=signed.delegate,
            allowed=signed.allowed,
            nonce=str(signed.nonce),
            now_ms=now_ms,
        )
    )
    return reply(
        DelegateBody(
            success=True,
            maker=signed.maker,
            delegate=signed.delegate,
            allowed=signed.allowed,
            nonce=str(signed.nonce),
        )
    )


ROUTES = (
    Route("create_order", "POST", "/api/orders", create_order, reads_body=True),
    Route("list_orders", "GET", "/api/orders", list_orders),
    Route("create_gasless_order", "POST", "/api/orders/gasless", create_gasless, reads_body=True),
    Route("create_batch", "POST", "/api/orders/batch", create_batch, reads_body=True),
    Route("cancel_batch", "DELETE", "/api/orders/batch", cancel_batch, reads_body=True),
    Route("validate_order", "POST", "/api/orders/validate", validate_order, reads_body=True),
    Route("simulate_order", "POST", "/api/orders/simulate", simulate_order, reads_body=True),
    Route("set_nonce", "POST", "/api/orders/nonce", set_nonce, reads_body=True),
    Route("set_delegate", "POST", "/api/orders/delegates", set_delegate, reads_body=True),
    Route("get_order", "GET", "/api/orders/{orderId}", get_order),
    Route("cancel_order", "DELETE", "/api/orders/{orderId}", cancel_order, reads_body=True),
)
"""The routes of orders. Starlette takes the first path that fits, so that names go before ids."""
