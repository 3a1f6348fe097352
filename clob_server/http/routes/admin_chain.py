"""Operator routes of the chain: its state, its operations, and retries of stuck ones."""

from typing import Final, get_args

from clob.wire.admin import ChainBody
from clob.wire.operations import Status
from clob_server.api.faults import wrong
from clob_server.api.problems import Headers
from clob_server.api.request import Reply, reply
from clob_server.core.serialize import contracts_of
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.http.routes.gasless import operation_body
from clob_server.http.server import Request, Route

PAGE: Final = 50
"""Default number of operations on a page."""
PAGE_MAX: Final = 100
LISTED: Final = ("status", "limit", "cursor")
"""The parameters of the list of operations."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
NO_STORE: Final[Headers] = ((b"cache-control", b"no-store"),)
"""Headers of a reply that must not be cached."""

_CHAIN: Final = "/api/admin/chain"
_OPERATIONS: Final = f"{_CHAIN}/operations"


async def chain(call: Request) -> Reply:
    """Return the state of the chain, its contracts and the number of operations."""
    link = call.server.chain
    state = link.state
    return reply(
        ChainBody(
            state=link.stage.value,
            detail=link.detail,
            id=call.server.settings.chain_id,
            rpc_url=link.shown_url or None,
            operator=link.operator,
            operator_balance=None if state is None else state.operator_balance_wei,
            is_out_of_gas=state is not None and state.out_of_gas,
            contracts=contracts_of(link.addresses),
            head=None if state is None else state.head,
            counts=None if state is None else state.counts,
            num_bumped=0 if state is None else state.num_bumped,
            num_rebroadcast=0 if state is None else state.num_rebroadcast,
            num_foreign=0 if state is None else state.num_foreign,
            num_deaths=link.num_deaths,
        ),
        headers=NO_STORE,
    )


async def settlement(call: Request) -> Reply:
    """Return the pending trades, and how the engine's balances match the chain."""
    return reply(call.server.settlement.view(), headers=NO_STORE)


async def list_operations(call: Request) -> Reply:
    """List operations, newest first, in pages."""
    query = call.query()
    limit = read_number(query, "limit", PAGE, 1, PAGE_MAX)
    before = read_number(query, "cursor", 0, 1, CURSOR_MAX) or None
    status = read_status(query.get("status"))
    call.server.chain.check_configured()
    operations = await call.server.chain.worker.list_operations(status, limit + 1, before)
    headers: Headers = ()
    if len(operations) > limit:
        operations = operations[:limit]
        headers = next_page(_OPERATIONS, {"limit": limit, "status": status}, operations[-1].number)
    return reply(operations, headers=headers)


async def retry(call: Request) -> Reply:
    """Retry a stuck operation and return its state."""
    state = await call.server.chain.worker.retry_operation(call.params["operationId"])
    return reply(operation_body(state))


def read_status(value: str | None) -> Status | None:
    """Read the ``status`` filter of the query; None selects every status."""
    for status in STATUSES:
        if value == status:
            return status
    if value is None:
        return None
    raise wrong("status", f"must be one of {', '.join(STATUSES)}", value)


ROUTES: Final = (
    Route("admin_chain", "GET", _CHAIN, chain),
    Route("admin_settlement", "GET", f"{_CHAIN}/settlement", settlement),
    Route("admin_list_operations", "GET", _OPERATIONS, list_operations, query=LISTED),
    Route("admin_retry_operation", "POST", f"{_OPERATIONS}/{{operationId}}/retry", retry),
)
