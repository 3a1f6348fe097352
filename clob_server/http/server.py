"""The parts of a running server that routes use, and the type of a route."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from clob.signing import Domain
from clob_server.api.request import ApiRequest, Receive, Reply, RequestIds, Scope, Send
from clob_server.auth.guard import Guard
from clob_server.chain.client import ChainClient
from clob_server.cluster.followers import Followers
from clob_server.cluster.forward import Forwarding
from clob_server.cluster.node import ClusterNode
from clob_server.cluster.workers import Workers
from clob_server.core.clock import ClockGuard
from clob_server.core.ids import Ids
from clob_server.core.lifecycle import Lifecycle
from clob_server.core.sequencer import QueuedCommand, Sequencer
from clob_server.core.state import ServerState
from clob_server.core.switches import CancelSwitches
from clob_server.feed import FeedServer
from clob_server.history.history import History
from clob_server.http.book_cache import BookCache
from clob_server.http.pagination import RestingIds
from clob_server.log import SqliteLog
from clob_server.orders.auto_open import AutoOpening
from clob_server.orders.batch import OrderBatches
from clob_server.orders.cancel import OrderCancels
from clob_server.orders.lookup import OrderLookup
from clob_server.orders.place import OrderPlacement
from clob_server.orders.preview import OrderPreview
from clob_server.orders.retire import MarketRemoval
from clob_server.settings import Settings
from clob_server.settlement.coordinator import SettlementCoordinator
from clob_server.settlement.markets import MarketConditions
from clob_server.settlement.operations import Operations
from clob_server.telemetry.metrics import Metrics

WebSocketApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application of WebSockets."""
Response: TypeAlias = Reply | Awaitable[Reply] | QueuedCommand
"""The result of a handler: a reply, an awaitable of one, or a command to commit first."""


class Server:
    """The parts of a running server; :class:`clob_server.service.Service` builds them."""

    settings: Settings
    folder: Path
    """The data folder."""
    domain: Domain
    """The EIP-712 domain that orders are signed for."""
    clock: ClockGuard
    clock_ms: Callable[[], int]
    """Returns the server's time, Unix milliseconds; commands take theirs from ``clock``."""
    lifecycle: Lifecycle
    metrics: Metrics
    request_ids: RequestIds
    openapi: bytes
    """The OpenAPI document."""
    admin_lock: asyncio.Lock
    """Held during an operator's change, so that each change sees the result of the one before."""

    log: SqliteLog
    """Used on the thread of the sequencer only."""
    state: ServerState
    sequencer: Sequencer
    node: ClusterNode | None
    """The role of this node in a cluster; None without one."""
    forwarding: Forwarding | None
    """Sends changes to the owner of the log; None in a process that alone commits."""
    followers: Followers | None
    """Connections of other nodes or workers, if this process may own their log."""
    workers: Workers | None
    """The worker processes; None without them."""
    ids: Ids
    switches: CancelSwitches
    guard: Guard
    history: History
    feed: FeedServer
    sockets: Mapping[str, WebSocketApp]
    """The WebSockets by path, all of which the feed serves."""
    books: BookCache
    auto_open: AutoOpening
    removal: MarketRemoval
    resting: RestingIds
    lookup: OrderLookup
    placement: OrderPlacement
    batches: OrderBatches
    cancels: OrderCancels
    preview: OrderPreview
    chain: ChainClient
    conditions: MarketConditions
    operations: Operations
    settlement: SettlementCoordinator


class Request(ApiRequest):
    """A request with the parts of the server that handles it."""

    __slots__ = ("server",)

    server: Server
    """Set by the endpoint."""


class Route(NamedTuple):
    """A path with a method, and its handler."""

    name: str
    """The name in the authority table and in the documentation."""
    method: str
    path: str
    """The path, with ``{parameters}``."""
    handler: Callable[..., Response]
    """Takes a :class:`Request`; a method also the part of the server that ``part`` names."""
    reads_body: bool = False
    query: tuple[str, ...] = ()
    """The parameters of the query; a route of the API rejects others."""
    part: str = ""
    """The attribute of :class:`Server` that ``handler`` is a method of; empty for a function."""
    mends_clock: bool = False
    """Whether a route that is not GET is handled while the time is not certain."""

    @property
    def needs_time(self) -> bool:
        """Whether the route is rejected while the time is not certain."""
        return self.method not in ("GET", "") and not self.mends_clock
