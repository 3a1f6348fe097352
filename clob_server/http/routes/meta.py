"""Routes about the server: information, health, metrics, documentation and web pages."""

import hashlib
import re
from functools import cache, lru_cache, partial
from typing import Final

import msgspec

import clob
from clob.wire.info import (
    ADVANCE_MAX_MS,
    AdvancedClockBody,
    AdvanceRequest,
    HealthBody,
    NodeBody,
    ReadyBody,
    RootBody,
    RootChain,
    TimeBody,
)
from clob_server.api.convert import convert
from clob_server.api.faults import wrong
from clob_server.api.problems import Headers
from clob_server.api.request import Reply, reply
from clob_server.core.commands import AdvanceClock
from clob_server.core.lifecycle import Phase
from clob_server.core.sequencer import expire_due
from clob_server.core.serialize import contracts_of
from clob_server.http.compression import has_current, not_modified
from clob_server.http.server import Request, Route, Server
from clob_server.http.web_files import KINDS, headers_of, web_bytes
from clob_server.telemetry.metrics import with_pages

DESCRIPTION: Final = "An order book for prediction markets: limit orders, matched by price and time"
PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"
"""Content type of the metrics."""
VARY_ACCEPT: Final = (b"vary", b"accept")
"""The header of the replies at ``/``, which depend on ``Accept``."""


def root(call: Request) -> Reply:
    """Return information about the API (specification, "API information"); a browser gets the page.

    A client gets the page if its ``Accept`` lists ``text/html``; ``*/*`` does not.
    """
    if lists_html(call.headers.get(b"accept", b"")):
        return Reply(b"", 302, ((b"location", b"/ui"), VARY_ACCEPT), KINDS["html"])
    settings = call.server.settings
    here = base_url(call)
    return reply(
        RootBody(
            name="clob",
            version=clob.__version__,
            description=DESCRIPTION,
            documentation=f"{here}/docs",
            endpoints=endpoints(call, here),
            status="beta",
            rate_limit=rate_limit(call),
            support={"contact": settings.support} if settings.support else {},
            environment=settings.environment,
            websocket=f"{here.replace('http', 'ws', 1)}/ws",
            eip712=call.server.domain.to_json(),
            chain=chain_of(call.server),
        ),
        headers=(VARY_ACCEPT,),
    )


@lru_cache(128)
def lists_html(accept: bytes) -> bool:
    """Return whether an ``Accept`` lists ``text/html`` with a weight above 0 (RFC 9110, 12.4.2).

    >>> lists_html(b"application/json, Text/HTML;q=0.8"), lists_html(b"*/*"), lists_html(b"text/*")
    (True, False, False)
    """
    for part in accept.lower().split(b","):
        kind, *parameters = [each.strip() for each in part.split(b";")]
        if kind == b"text/html":
            return not any(re.fullmatch(rb"q=0(\.0*)?", each) for each in parameters)
    return False


def chain_of(server: Server) -> RootChain | None:
    """Return the JSON of the chain; None without one."""
    link = server.chain
    if not link.is_configured:
        return None
    return RootChain(
        **msgspec.structs.asdict(contracts_of(link.addresses)),
        id=server.settings.chain_id,
        rpc_url=link.rpc_url or None,
        operator=link.operator,
        state=link.stage.value,
    )


def base_url(call: Request) -> str:
    """Return the base URL for clients: the ``public_url`` setting, else the listening address."""
    settings = call.server.settings
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host, port = call.scope["server"]
    return f"{call.scope['scheme']}://{f'[{host}]' if ':' in host else host}:{port}"


def endpoints(call: Request, here: str) -> dict[str, str]:
    """Return the base URLs of the testnet and mainnet servers."""
    settings = call.server.settings
    if not settings.is_test:
        return {"testnet": "", "mainnet": here}
    mainnet = settings.mainnet_url
    return {"testnet": here, "mainnet": f"{mainnet} (coming soon)" if mainnet else "coming soon"}


def rate_limit(call: Request) -> dict[str, str]:
    """Describe the request budgets of the environment that runs in a sentence."""
    settings = call.server.settings
    here, other = ("testnet", "mainnet") if settings.is_test else ("mainnet", "testnet")
    return {
        here: budgets_text(call.server),
        other: f"not served: this is a {settings.environment} server",
    }


def budgets_text(server: Server) -> str:
    """Describe the request budgets, and whether they need an API key."""
    key = "an API key is optional"
    if not server.settings.is_test:
        key = "orders without a signature and reads of orders require an API key"
    if not server.settings.rate_limits:
        return f"no limit; {key}"
    budgets = server.state.registry.budgets
    return (
        f"{budgets.anonymous_per_minute} requests per minute without an API key, "
        f"{budgets.key_per_minute} with one; {budgets.orders_per_minute} orders and "
        f"{budgets.cancels_per_minute} cancels per minute; {key}"
    )


async def health(call: Request) -> Reply:
    """Return the health of the process and the position of the log."""
    server = call.server
    return reply(
        HealthBody(
            status="ok",
            version=clob.__version__,
            command_seq=server.sequencer.seq,
            chain=server.chain.stage.value,
            clock=server.clock.reason or "sure",
            history=server.history.status,
            node=node_of(server),
        )
    )


def node_of(server: Server) -> NodeBody | None:
    """Return the JSON of a node; None without a cluster."""
    node = server.node
    if node is None:
        return None
    owner = node.owner
    return NodeBody(
        name=node.name,
        role=node.role,
        epoch=node.epoch,
        owner=None if owner is None else owner.url,
        lag=node.lag,
    )


async def server_time(call: Request) -> Reply:
    """Return the time that the next command would get."""
    now_ms = max(call.server.state.now_ms, call.server.clock_ms())
    return reply(
        TimeBody(now_ms=now_ms, now_s=now_ms // 1000), headers=((b"cache-control", b"no-store"),)
    )


async def advance_clock(call: Request) -> Reply:
    """Move the server's time forward, and expire the orders that are due then."""
    server, clock = call.server, call.server.clock
    asked: AdvanceRequest = convert(call.object(), AdvanceRequest)
    async with server.admin_lock:
        most_ms = ADVANCE_MAX_MS - clock.ahead_ms
        if asked.advance_ms > most_ms:
            rule = f"must be an integer from 1 to {most_ms} (milliseconds, all moves together)"
            raise wrong("advanceMs", rule, asked.advance_ms)
        await server.sequencer.submit(AdvanceClock(advance_ms=asked.advance_ms))
        await expire_due(server.sequencer, clock.commit_ms)
        now_ms, chain = server.clock_ms(), "none"
        if server.chain.is_configured:
            is_moved = await server.chain.move_clock(now_ms // 1000)
            chain = "moved" if is_moved else "unmoved"
    return reply(
        AdvancedClockBody(now_ms=now_ms, now_s=now_ms // 1000, ahead_ms=clock.ahead_ms, chain=chain)
    )


async def ready(call: Request) -> Reply:
    """Return whether orders are accepted; 503 while the server drains or its time is uncertain."""
    server = call.server
    phase, reason = server.lifecycle.phase, server.clock.reason
    is_ready = phase is Phase.READY and not reason
    return reply(
        ReadyBody(
            status="ready" if is_ready else "unavailable",
            phase=phase.value,
            detail=reason,
            chain=server.chain.stage.value,
            history=server.history.status,
        ),
        200 if is_ready else 503,
        () if is_ready else ((b"retry-after", b"1"),),
    )


async def metrics(call: Request) -> Reply:
    """Return the metrics in Prometheus text format, with those of the worker processes."""
    server = call.server
    page, workers = server.metrics.page(), server.workers
    if workers is not None and server.followers is not None:
        page = with_pages(page, await server.followers.pages())
    return Reply(page, content_type=PROMETHEUS)


def openapi(call: Request) -> Reply:
    """Return the OpenAPI 3.1 document."""
    return documentation(call, call.server.openapi)


def asyncapi(call: Request) -> Reply:
    """Return the AsyncAPI 3.0 document of the WebSocket."""
    return documentation(call, web_bytes("asyncapi.json"))


def web_file(call: Request) -> Reply:
    """Return a script, a style or an icon of the pages."""
    return page(call, call.params["file"])


def page(call: Request, name: str) -> Reply:
    """Return a web page file, or 304 for the copy of the browser."""
    content = web_bytes(name)
    headers = headers_of(call.headers.get(b"host", b""))
    return with_tag(call, content, headers, KINDS[name.rpartition(".")[2]])


def documentation(call: Request, content: bytes) -> Reply:
    """Return a document, or 304 for the copy of the client."""
    return with_tag(call, content, ((b"cache-control", b"no-cache"),), KINDS["json"])


def with_tag(call: Request, content: bytes, headers: Headers, kind: bytes) -> Reply:
    """Return content with an ETag, or 304 if the client has the same content.

    As a cached read it has no headers of rate limits.
    """
    call.usage = None
    tag = b'"%s"' % tag_of(content)
    headers = ((b"etag", tag), *headers)
    if has_current(call.headers.get(b"if-none-match"), tag):
        return not_modified(headers, kind)
    return Reply(content, 200, headers, kind)


@cache
def tag_of(content: bytes) -> bytes:
    """Return the hash of a content, for its ETag."""
    return hashlib.blake2b(content, digest_size=8).hexdigest().encode()


ROUTES = (
    Route("root", "GET", "/", root),
    Route("health", "GET", "/health", health),
    Route("ready", "GET", "/ready", ready),
    Route("get_time", "GET", "/api/time", server_time),
    Route("advance_clock", "POST", "/api/test/clock", advance_clock, reads_body=True),
    Route("metrics", "GET", "/metrics", metrics),
    Route("openapi", "GET", "/openapi.json", openapi),
    Route("asyncapi", "GET", "/asyncapi.json", asyncapi),
    Route("docs", "GET", "/docs", partial(page, name="docs.html")),
    Route("trading_page", "GET", "/ui", partial(page, name="ui.html")),
    Route("admin_page", "GET", "/admin", partial(page, name="admin.html")),
    Route("web_file", "GET", "/web/{file}", web_file),
)
