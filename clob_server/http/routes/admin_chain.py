"""What an operator sees of the chain, and does when an operation is stuck."""

from typing import Final, get_args

from clob_server.api.options import wrong
from clob_server.api.problems import Headers
from clob_server.api.request import Reply, reply
from clob_server.chain.messages import Status
from clob_server.core.serialize import contracts_of
from clob_server.http.admin_schemas import ChainBody
from clob_server.http.pagination import CURSOR_MAX, next_page, read_number
from clob_server.http.routes.gasless import operation_body
from clob_server.http.server import Request, Route

PAGE: Final = 50
"""How many operations there are on a page, unless it is asked for otherwise."""
PAGE_MAX: Final = 100
"""How many there may be."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
"""Where an operation may stand."""
NO_STORE: Final[Headers] = ((b"cache-control", b"no-store"),)
"""What an answer has that is old as soon as it is there."""

_CHAIN: Final = "/api/admin/chain"
_OPERATIONS: Final = f"{_CHAIN}/operations"


async def chain(call: Request) -> Reply:
    """Say how the chain is, where its contracts are, and how many operations there are."""
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
    """Say which trades wait to be settled, and how the accounts follow the chain."""
    return reply(call.server.settlement.view(), headers=NO_STORE)


async def list_operations(call: Request) -> Reply:
    """List operations, the newest first, a page of them at a time."""
    query = call.query()
    limit = read_number(query, "limit", PAGE, 1, PAGE_MAX)
    before = read_number(query, "cursor", 0, 1, CURSOR_MAX) or None
    status = read_status(query.get("status"))
    call.server.chain.check_configured()
    found = await call.server.chain.worker.list_operations(status, limit + 1, before)
    headers: Headers = ()
    if len(found) > limit:
        found = found[:limit]
        headers = next_page(_OPERATIONS, {"limit": limit, "status": status}, found[-1].number)
    return reply(found, headers=headers)


async def retry(call: Request) -> Reply:
    """Have an operation that is stuck go on, and say where it stands then."""
    return reply(
        operation_body(await call.server.chain.worker.retry_operation(call.params["operationId"]))
    )


def read_status(given: str | None) -> Status | None:
    """Read where the operations that are asked for stand; None is anywhere.

    Raises:
        ApiError: INVALID_FIELD, it is no status.
    """
    for status in STATUSES:
        if given == status:
            return status
    if given is None:
        return None
    raise wrong("status", f"must be one of {', '.join(STATUSES)}", given)


ROUTES: Final = (
    Route("admin_chain", "GET", _CHAIN, chain),
    Route("admin_settlement", "GET", f"{_CHAIN}/settlement", settlement),
    Route("admin_list_operations", "GET", _OPERATIONS, list_operations),
    Route("admin_retry_operation", "POST", f"{_OPERATIONS}/{{operationId}}/retry", retry),
)
"""The operator's routes of the chain."""
