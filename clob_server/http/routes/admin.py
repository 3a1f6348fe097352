"""Operator routes: API keys, limits, engine status, cancelling any order.

Every change is a logged command.
"""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from clob import Cancel, Limits, SetLimits
from clob.errors import OrderNotOpenError
from clob.wire.admin import ClockBody, EngineBody, KeyBody, NewKeyBody
from clob_server.api.request import Reply, reply
from clob_server.core.commands import ApiKey, Budgets, DeactivateKey, SetBudgets
from clob_server.http.admin_schemas import (
    ClockRequest,
    KeyRequest,
    LimitsRequest,
    add_key,
    draw_key,
    key_fields,
    limits_body,
    read_body,
)
from clob_server.http.routes import admin_backup, admin_chain, admin_markets
from clob_server.http.routes.admin_chain import NO_STORE
from clob_server.http.server import Request, Route, Server

_KEYS: Final = "/api/admin/keys"
_KEY: Final = f"{_KEYS}/{{keyId}}"
_CLOCK: Final = "/api/admin/clock"


# ----- keys ------------------------------------------------------------------------------------


async def list_keys(call: Request) -> Reply:
    """List the API keys, deactivated ones included, oldest first."""
    keys = call.server.state.registry.keys.values()
    return reply([key_body(call.server, key) for key in keys])


async def create_key(call: Request) -> Reply:
    """Create an API key. The reply is the only one that contains the secret."""
    server = call.server
    secret, key = draw_key(read_body(call, KeyRequest), server.settings.environment)
    await server.sequencer.submit(lambda now_ms: add_key(key, now_ms))
    made = server.state.registry.keys[key.id]
    return reply(NewKeyBody(key=secret, **key_fields(made, None)), headers=NO_STORE)


async def deactivate_key(call: Request) -> Reply:
    """Deactivate an API key, effective for the next request."""
    server, key_id = call.server, call.params["keyId"]
    await server.sequencer.submit(lambda now_ms: DeactivateKey(key_id=key_id, now_ms=now_ms))
    return reply(key_body(server, server.state.registry.keys[key_id]))


def key_body(server: Server, key: ApiKey) -> KeyBody:
    """Return the JSON of a key."""
    return KeyBody(**key_fields(key, server.guard.last_used_ms.get(key.id)))


# ----- limits ----------------------------------------------------------------------------------


async def get_limits(call: Request) -> Reply:
    """Return the limits of the engine and the request budgets."""
    state = call.server.state
    return reply(limits_body(state.matcher.limits, state.registry.budgets))


async def set_limits(call: Request) -> Reply:
    """Set the limits of the engine, the request budgets, or both."""
    server, request = call.server, read_body(call, LimitsRequest)
    changes = changed_limits(request)
    if changes:
        await server.sequencer.submit(
            lambda now_ms: tuple(msgspec.structs.replace(each, now_ms=now_ms) for each in changes)
        )
    return await get_limits(call)


def changed_limits(request: LimitsRequest) -> list[SetLimits | SetBudgets]:
    """Return the commands that set limits. Neither can be rejected, so both apply or none."""
    changes: list[SetLimits | SetBudgets] = []
    if request.engine is not msgspec.UNSET:
        changes.append(SetLimits(limits=Limits(**msgspec.structs.asdict(request.engine))))
    if request.budgets is not msgspec.UNSET:
        budgets = Budgets(**msgspec.structs.asdict(request.budgets))
        changes.append(SetBudgets(budgets=budgets, now_ms=0))
    return changes


# ----- engine ----------------------------------------------------------------------------------


async def engine_numbers(call: Request) -> Reply:
    """Return the state of the engine and of the parts that follow it."""
    server = call.server
    files = await asyncio.to_thread(sizes, server.folder)
    return reply(
        EngineBody(
            phase=server.lifecycle.phase.value,
            uptime_s=server.clock.uptime_s,
            command_seq=server.sequencer.seq,
            event_hash=server.sequencer.event_hash.hex(),
            waiting=server.sequencer.num_queued,
            markets=len(server.state.markets),
            open_orders=len(server.state.matcher),
            history_lag=server.history.lag,
            subscribers=len(server.feed.subscribers),
            files=files,
        ),
        headers=NO_STORE,
    )


def sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the files in a folder, in bytes."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}


async def get_clock(call: Request) -> Reply:
    """Return the clocks, and whether commands are accepted."""
    clock = call.server.clock
    clock.observe()
    now_ms, log_ms = clock.now_ms(), clock.log_ms
    return reply(
        ClockBody(
            sure=clock.is_sure,
            needs_operator=clock.needs_operator,
            detail=clock.reason,
            time=now_ms,
            wall_time=clock.wall_ms,
            ahead_ms=clock.ahead_ms,
            log_time=log_ms,
            skew_s=clock.skew_ms / 1000,
            log_ahead_s=max(0, log_ms - now_ms) / 1000,
        ),
        headers=NO_STORE,
    )


async def accept_clock(call: Request) -> Reply:
    """Accept the wall clock as right after a jump."""
    read_body(call, ClockRequest)
    call.server.clock.accept(call.operator)
    return await get_clock(call)


async def cancel_order(call: Request) -> Reply:
    """Cancel an order of any maker."""
    server, order_ref = call.server, call.params["orderId"]
    record = server.lookup.known(order_ref)
    if record is None:
        order = await server.lookup.get(order_ref)
        raise OrderNotOpenError(f"order {order.id} is {order.status}")
    await server.sequencer.submit(Cancel(order_id=record.order.id))
    return reply(await server.lookup.find(order_ref))


ROUTES: Final = (
    Route("admin_list_keys", "GET", _KEYS, list_keys),
    Route("admin_create_key", "POST", _KEYS, create_key, reads_body=True),
    Route("admin_deactivate_key", "POST", f"{_KEY}/deactivate", deactivate_key),
    Route("admin_delete_key", "DELETE", _KEY, deactivate_key),
    *admin_markets.ROUTES,
    *admin_chain.ROUTES,
    *admin_backup.ROUTES,
    Route("admin_get_limits", "GET", "/api/admin/limits", get_limits),
    Route("admin_set_limits", "PUT", "/api/admin/limits", set_limits, reads_body=True),
    Route("admin_engine", "GET", "/api/admin/engine", engine_numbers),
    Route("admin_get_clock", "GET", _CLOCK, get_clock),
    Route("admin_accept_clock", "POST", _CLOCK, accept_clock, reads_body=True, mends_clock=True),
    Route("admin_cancel_order", "POST", "/api/admin/orders/{orderId}/cancel", cancel_order),
)
