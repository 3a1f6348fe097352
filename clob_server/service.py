"""Builds the parts of a server, and starts and stops them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import clob
from clob.signing import Domain
from clob_server import gauges
from clob_server.api.request import RequestIds
from clob_server.auth.api_keys import IDS, TOKENS, ids_key, secret
from clob_server.auth.guard import Guard
from clob_server.auth.rate_limit import RateLimiter
from clob_server.auth.sites import sites_of
from clob_server.auth.tokens import tokens_of
from clob_server.chain.client import ChainClient
from clob_server.chain.config import LOOPBACK, OUTBOX_FOLDER
from clob_server.chain.messages import OperationDone as ChainDone
from clob_server.chain.messages import OperationFailed as ChainFailed
from clob_server.cluster.followers import Followers
from clob_server.cluster.forward import Forwarding
from clob_server.cluster.leases import NodeSwitches
from clob_server.cluster.node import ClusterNode, fingerprint
from clob_server.cluster.outbox import OutboxReplica
from clob_server.cluster.replica import ReplicaSequencer
from clob_server.cluster.workers import CHAIN_READS, Workers
from clob_server.core.clock import CHECK_S, ClockGuard, boot_clock_ms, wall_clock_ms
from clob_server.core.commands import DescribeExchange, ExchangeSettings, Owner
from clob_server.core.identity import changed_exchange
from clob_server.core.ids import Ids
from clob_server.core.lifecycle import Lifecycle, Phase
from clob_server.core.recovery import recover
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import Committed, Sequencer, expire_orders
from clob_server.core.state import ServerState
from clob_server.core.switches import CancelSwitches
from clob_server.dialects.polymarket import Polymarket
from clob_server.dialects.polymarket import sockets as polymarket_sockets
from clob_server.dialects.polymarket.credentials import FILE as DIALECT_SECRET
from clob_server.dialects.polymarket.credentials import CredentialStore
from clob_server.dialects.polymarket.heartbeats import HeartbeatIds
from clob_server.dialects.polymarket.markets import MarketIndex
from clob_server.feed import FeedServer
from clob_server.history.history import History
from clob_server.http.book_cache import BookCache
from clob_server.http.pagination import RestingIds
from clob_server.http.server import Server, WebSocketApp
from clob_server.log import FrameStream, Log, ReplicatedLog, SqliteLog
from clob_server.orders.auto_open import AutoOpening
from clob_server.orders.batch import OrderBatches
from clob_server.orders.cancel import OrderCancels
from clob_server.orders.lookup import OrderLookup
from clob_server.orders.permissions import Permissions
from clob_server.orders.place import OrderPlacement
from clob_server.orders.preview import OrderPreview
from clob_server.orders.retire import MarketRemoval
from clob_server.settings import AUTO, POLYMARKET, Settings
from clob_server.settlement.coordinator import SettlementCoordinator
from clob_server.settlement.markets import MarketConditions
from clob_server.settlement.operations import ChainContext, Operations
from clob_server.telemetry.metrics import Metrics

_LOG: Final = logging.getLogger("clob_server")


def open_stream(settings: Settings) -> FrameStream:
    """Open the stream of the replicated log that the settings name.

    Raises:
        LogError: the servers cannot be reached, or could lose commands.
    """
    return FrameStream(
        settings.log,
        settings.log_name,
        replicas=settings.log_replicas,
        monitors=settings.log_monitors or None,
    )


class Service(Server):
    """A server without its sockets. Nothing below this module imports it.

    Args:
        settings: the settings.
        wall_ms: returns the wall clock, Unix milliseconds.
        boot_ms: returns the time since boot, milliseconds; None uses the system's, or ``wall_ms``
            itself if that is not the system's.
    """

    def __init__(
        self,
        settings: Settings,
        wall_ms: Callable[[], int] = wall_clock_ms,
        boot_ms: Callable[[], int] | None = None,
    ) -> None:
        self.settings: Settings = settings
        self.folder: Path = Path(settings.data_dir)
        is_system = wall_ms is wall_clock_ms
        self.clock: ClockGuard = ClockGuard(
            wall_ms,
            boot_ms or (boot_clock_ms if is_system else wall_ms),
            settings.clock_skew_max_s,
            folder=self.folder,
            boot_id=None if is_system else "",
        )
        self.clock_ms: Callable[[], int] = self.clock.now_ms
        self.domain: Domain = settings.domain
        self.lifecycle: Lifecycle = Lifecycle()
        self.metrics: Metrics = Metrics()
        self.request_ids: RequestIds = RequestIds()
        self.openapi: bytes = b"{}"
        self.admin_lock: asyncio.Lock = asyncio.Lock()
        self.outbox: OutboxReplica | None = None
        """The outbox of the chain worker; None outside of a cluster."""
        self.chain: ChainClient = self._new_chain()
        self._chain_turn: asyncio.Task[None] | None = None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called when the log has failed, after which the process has to end."""
        self.operations_left: int = 0
        """Operations of the chain that were pending at the end and continue at the next start."""
        self._log: Log | None = None
        self._is_started = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._sweeps: list[asyncio.Task[None]] = []
        self.node = None
        self.forwarding = None
        self.followers = None
        self.workers = None
        self._commits = not settings.log
        """Whether this process alone commits, from its start to its end."""

    # ----- from start to end -------------------------------------------------------------------

    async def start(self) -> None:
        """Open the log, recover the state, build the parts and start them.

        Raises:
            LogLockedError: another server uses the folder.
            LogError: the log cannot be read, or is damaged.
            ExchangeDiffersError: the log was written for another environment or EIP-712 domain.
            SettingsError: the public key of tokens cannot be used.
            OSError, ValueError: a file with a secret is missing or unusable.
        """
        self._log = log = await asyncio.to_thread(self._open_log)
        self.log: SqliteLog = cast("SqliteLog", log)  # the owner of the log uses it
        if self._commits:
            self.chain.start()  # starts while the log is read
        self._ids_key: bytes = await asyncio.to_thread(
            ids_key, self.folder, lambda: recover(log)[0].num_orders
        )
        self.ids: Ids = Ids(self._ids_key)
        self.history: History = self._build_history(log)
        await self.history.open()
        self.state: ServerState
        self.state, event_hash, count = await asyncio.to_thread(recover, log)
        found = {"command_seq": log.tail.seq, "done_again": count, "unchecked": log.unchecked_seq}
        _LOG.info("recovered", extra=found)
        settings = self.settings
        exchange = self._changed_exchange()
        registry = self.state.registry
        wait_s = self.clock.follow_log(lambda: self.state.now_ms, lambda: registry.ahead_ms)
        await asyncio.sleep(wait_s)
        self._build_core(log, event_hash)
        if settings.log and self.chain.is_configured:
            await self._open_outbox(log)
        self._build_orders()
        self._build_settlement()
        if settings.dialect == POLYMARKET:
            self._build_dialect()
        gauges.show(self)
        self.resting: RestingIds = RestingIds(self.state.matcher)
        self.feed.start(
            self.state,
            self.ids,
            self.switches,
            seq=self.sequencer.seq,
            past=self.history,
            market_data=(
                lambda market: self.history.market_data.ticker(market, self.clock_ms),
                lambda *wanted: self.history.market_data.candles_since(*wanted),
            ),
        )
        self.history.follow(self.sequencer)
        self.sequencer.subscribe(self.resting.on_batch, self.history.on_batch, self.feed.on_batch)
        self.sequencer.subscribe(self.switches.on_batch, self._on_settling_batch)
        run = asyncio.create_task(self.sequencer.run())
        run.add_done_callback(self._on_run_ended)
        self._tasks = [run, asyncio.create_task(self._watch_clock())]
        if self._commits:
            self._begin_sweeps()
        await self._begin_role(log)
        await self.history.start()
        if self._commits and exchange is not None:
            describing = asyncio.create_task(self._describe(exchange))
            self._tasks.append(describing)
            if self.clock.is_sure:  # otherwise the reads start without it
                await describing
        if self._commits:
            await self.chain.wait_for_url()
        self._log_start(log)
        if self._commits:
            self._begin_switches()
        self.lifecycle.phase = Phase.READY
        self._is_started.set()

    def _build_history(self, log: Log) -> History:
        return History(log, self.folder, self.settings, self.ids, self.metrics)

    async def _begin_role(self, log: Log) -> None:
        """Connect to the other nodes, or listen for the workers."""
        settings = self.settings
        if self.followers is None:
            return
        if self.node is not None and self.forwarding is not None:
            await self.followers.listen(settings.host, settings.node_port)
            roles = self.node.run(), self.forwarding.run()
            self._tasks += map(asyncio.create_task, roles)
            return
        await self.followers.listen(LOOPBACK, 0)
        assert isinstance(log, SqliteLog)
        self.followers.on_damage = self.history.rebuild
        owner = f"{LOOPBACK}:{self.followers.port}"
        self.workers = Workers(log, self.sequencer, settings, owner)
        gauges.show_workers(self, self.workers)

    def _open_log(self) -> Log:
        """Open the log; in a cluster, copy the commands that the folder lacks."""
        if not self.settings.log:
            return SqliteLog(self.folder)
        log = ReplicatedLog(self.folder, open_stream(self.settings))
        while log.pull(0):
            pass
        return log

    def _changed_exchange(self) -> ExchangeSettings | None:
        """Compare environment and domain with those in the log; return the commands to record."""
        return changed_exchange(self.state.registry.exchange, self.settings)

    def _begin_sweeps(self) -> None:
        """Begin the work that submits commands at certain times."""
        sweeps = (
            expire_orders(self.sequencer, self.clock.sweep_ms),
            self.removal.run(),
            self.settlement.stalls.run(),
        )
        self._sweeps += map(asyncio.create_task, sweeps)

    def _begin_switches(self) -> None:
        """Begin to cancel the orders of makers whose heartbeats or WebSockets end."""
        self.switches.start()
        self._sweeps.append(asyncio.create_task(self.switches.run()))

    def _log_start(self, log: Log) -> None:
        """Log which exchange runs, and from which position of the log."""
        settings = self.settings
        _LOG.info(
            "started",
            extra={
                "version": clob.__version__,
                "environment": settings.environment,
                "eip712_domain": str(self.domain),
                "chain": self.chain.shown_url or settings.chain_source,
                "command_seq": log.tail.seq,
                "is_new_log": log.tail.seq == 1,
                "data_dir": str(self.folder.absolute()),
            },
        )

    def _build_core(self, log: Log, event_hash: bytes) -> None:
        """Build authentication, the sequencer, and the readers of the state."""
        settings, state, clock_ms = self.settings, self.state, self.clock_ms
        limiter = RateLimiter(
            state,
            self._ids_key,
            clock_ms,
            is_on=settings.rate_limits,
            processes=settings.workers * settings.node_count,
        )
        has_tokens = not log.tail.seq or (self.folder / TOKENS).exists()
        tokens = tokens_of(settings, self.folder, self.clock.token_ms)
        if not has_tokens and (self.folder / TOKENS).exists():
            _LOG.warning("tokens.key was missing: it was created, and earlier tokens are invalid")
        self.guard: Guard = Guard(
            state.registry,
            settings.environment,
            limiter,
            tokens,
            clock_ms,
            sites_of(settings),
        )
        self.auto_open: AutoOpening = AutoOpening(
            state, settings.markets_max, settings.auto_markets_per_address
        )
        options: dict[str, Any] = {
            "ids": self.ids,
            "event_hash": event_hash,
            "charges": limiter.take_charges,
            "open_market": self.auto_open if settings.opens_markets else None,
            "on_commit": self.metrics.commits.add,
        }
        self.sequencer: Sequencer = self._build_sequencer(log, options)
        self.switches: CancelSwitches = self._build_switches()
        self._build_followers()
        self.removal: MarketRemoval = MarketRemoval(
            self.sequencer,
            self.clock.sweep_ms,
            settings.auto_market_unused_s,
            self.admin_lock,
        )
        self.feed: FeedServer = FeedServer(
            settings, self.guard, clock_ms, self.metrics, self.request_ids
        )
        self.sockets: Mapping[str, WebSocketApp] = {"/ws": self.feed}
        self.books: BookCache = BookCache(state, self.ids.exchange)

    def _build_sequencer(self, log: Log, options: dict[str, Any]) -> Sequencer:
        """Build the sequencer; in a cluster also the role of this node and its way to the owner."""
        if not isinstance(log, ReplicatedLog):
            return Sequencer(log, self.state, self.clock.commit_ms, **options)
        settings, loop = self.settings, asyncio.get_running_loop()
        secrets = [IDS, TOKENS]
        if settings.dialect == POLYMARKET:
            secret(self.folder, DIALECT_SECRET)
            secrets.append(DIALECT_SECRET)
        keys = fingerprint(self.folder, secrets)

        def ownership(epoch: int) -> Owner:
            return Owner(epoch=epoch, node=node.name, url=node.url, keys=keys)

        replica = ReplicaSequencer(
            log, self.state, self.clock.commit_ms, ownership=ownership, keys=keys, **options
        )
        self.node = node = ClusterNode(
            settings.node, replica, log.stream.send_beat, may_own=settings.role == AUTO
        )
        log.stream.follow_beats(lambda data: loop.call_soon_threadsafe(node.on_beat, data))
        replica.on_role, replica.on_owner = self._on_role, node.on_owner
        reads = CHAIN_READS if self.chain.is_configured else frozenset[str]()
        self.forwarding = Forwarding(self._ids_key, node, replica, reads)
        return replica

    def _build_switches(self) -> CancelSwitches:
        if self.forwarding is None:
            return CancelSwitches(self.sequencer)
        return NodeSwitches(self.sequencer, self.forwarding)

    def _build_followers(self) -> None:
        """Build the parts that other nodes or workers connect to."""
        sequencer = self.sequencer
        if isinstance(sequencer, ReplicaSequencer):
            enqueue = sequencer.enqueue_here
        elif self.settings.workers > 1:
            enqueue = sequencer.enqueue
        else:
            return
        self.followers = Followers(
            self._ids_key,
            enqueue,
            lambda: sequencer.is_owner,
            self.guard.limiter.charge_payer,
            self.switches,
        )

    def _on_role(self, is_owner: bool) -> None:
        """Begin or end the work of the owner of a cluster's log."""
        assert self.node is not None
        self.node.on_role(is_owner)
        if not is_owner:
            self._end_sweeps()
            assert isinstance(self.switches, NodeSwitches)
            self.switches.follow()
            self._leave_chain()
            return
        self.guard.limiter.take_over()
        self.switches.take_over()
        self._lead_chain()
        self._begin_sweeps()
        self._begin_switches()
        exchange = self._changed_exchange()
        if exchange is not None:
            self._sweeps.append(asyncio.create_task(self._describe(exchange)))

    def _end_sweeps(self) -> None:
        sweeps, self._sweeps = self._sweeps, []
        for task in sweeps:
            task.cancel()

    def listen(self, url: str, port: int) -> None:
        """Note the base URL and the port that this server listens at; start the workers there."""
        if self.node is not None and self.followers is not None:
            self.node.url = self.settings.node_url or url
            name = urlsplit(self.node.url).hostname or self.settings.host
            name = f"[{name}]" if ":" in name else name
            self.node.address = f"{name}:{self.followers.port}"
        if self.workers is not None:
            self.workers.start(port)

    def _build_orders(self) -> None:
        self.lookup: OrderLookup = OrderLookup(self.state, self.history)
        self.placement: OrderPlacement = OrderPlacement(
            self.settings,
            self.domain,
            self.state,
            self.ids,
            self.lifecycle,
            self.guard,
            self.lookup,
            self.sequencer.try_submit,
            Permissions(self.state, self.domain, self.clock_ms),
            self._operator,
        )
        self.cancels: OrderCancels = OrderCancels(
            self.sequencer, self.lookup, self.guard, self.domain, self.clock_ms
        )
        self.batches: OrderBatches = OrderBatches(self.sequencer, self.placement, self.cancels)
        self.preview: OrderPreview = OrderPreview(
            self.placement, self.auto_open, self.clock.commit_ms
        )

    def _build_dialect(self) -> None:
        """Build the parts of the dialect that the settings name."""
        self.polymarket: Polymarket = Polymarket(
            self,
            MarketIndex(self.state),
            CredentialStore(secret(self.folder, DIALECT_SECRET), self.state.registry),
            HeartbeatIds(self.state.registry),
        )
        self.sequencer.subscribe(self.polymarket.markets.on_batch)
        self.sequencer.subscribe(self.polymarket.heartbeats.on_batch)
        self.sockets = {**self.sockets, **polymarket_sockets(self.polymarket)}

    def _build_settlement(self) -> None:
        context = ChainContext(
            self.settings, self.clock_ms, self.sequencer, self.chain, self.metrics
        )
        self.operations: Operations = Operations(context)
        self.conditions: MarketConditions = MarketConditions(context)
        self.settlement: SettlementCoordinator = SettlementCoordinator(context, self.conditions)
        self.chain.on_update = self.settlement.inbox.receive
        self.placement.holding = self.settlement.inbox.holding
        self.placement.ask_for = self.settlement.wallets.ask_for
        self.settlement.wallets.followed = lambda: self.feed.channels.users.makers

    def _operator(self) -> str | None:
        """Return the operator of the chain; None while it is unknown.

        Raises:
            NotOwnerError: only the owner of the log knows the wallets on the chain.
        """
        if not self.sequencer.is_owner:
            raise NotOwnerError("this process does not know the wallets on the chain")
        return self.chain.operator

    def drain(self) -> None:
        """Accept no new orders; finish the accepted ones."""
        self.lifecycle.phase = Phase.DRAINING
        if self.node is not None:
            self.node.leave()
        if self.workers is not None:
            self.workers.drain()
        if hasattr(self, "switches"):
            self.switches.stop()
        if hasattr(self, "operations"):
            self.operations.drain()

    async def close(self) -> None:
        """Finish the accepted commands and close every part; works after a failed start as well."""
        self.drain()
        if self.workers is not None:
            await self.workers.close(self.settings.grace_s / 2)
        if self._chain_turn is not None:
            await asyncio.wait((self._chain_turn,))
        if hasattr(self, "settlement"):
            self.feed.close()
            self.operations_left = self.operations.num_running
            await self._close_chain(self.chain, self._chain_parts)
        else:
            await self.chain.close(self.settings.grace_s / 4)
        if self._tasks:
            await self.switches.close()
            self.sequencer.stop()
            self._end_sweeps()
            run, *others = self._tasks
            for task in others:
                task.cancel()
            with suppress(Exception):  # on_failure received it
                await run
        if hasattr(self, "history"):  # it starts before the log was checked
            await self.history.close()
        if self.forwarding is not None:
            self.forwarding.close()
        if self.followers is not None:
            self.followers.close()
        if self.outbox is not None:
            self.outbox.close()
        if self._log is not None:
            await asyncio.to_thread(self._log.close)

    async def _describe(self, exchange: ExchangeSettings) -> None:
        """Record environment and domain in the log, once the time is certain."""
        await self.sequencer.deliver(
            lambda now_ms: DescribeExchange(exchange=exchange, now_ms=now_ms)
        )

    async def _watch_clock(self) -> None:
        """Compare the clocks again and again, until cancelled."""
        while True:
            self.clock.check()
            await asyncio.sleep(CHECK_S)

    def _on_run_ended(self, run: "asyncio.Task[None]") -> None:
        """Report a sequencer that failed: this process must not reply any more."""
        error = None if run.cancelled() else run.exception()
        if error is not None:
            self.on_failure(error)

    # ----- the chain ---------------------------------------------------------------------------

    def _new_chain(self) -> ChainClient:
        return ChainClient(
            self.settings,
            self.folder,
            on_ready=self._on_chain_ready,
            on_end=self._on_operation_end,
            outbox=self.outbox,
        )

    async def _open_outbox(self, log: Log) -> None:
        """Keep the outbox of this node equal to the log; the worker of the owner writes it."""
        self.outbox = OutboxReplica(self.folder / OUTBOX_FOLDER, self.sequencer)
        await asyncio.to_thread(self.outbox.open, log)
        self.chain = self._new_chain()
        self.sequencer.subscribe(self.outbox.on_batch)

    def _lead_chain(self) -> None:
        """Connect to the chain, with new parts: those of an earlier ownership have ended."""
        if self.outbox is not None:
            self.chain = self._new_chain()
            self._build_settlement()
            self._take_turn(self._start_chain(self.chain))

    def _leave_chain(self) -> None:
        """End the work on the chain; the next owner continues it."""
        if self.outbox is not None:
            self._take_turn(self._close_chain(self.chain, self._chain_parts))

    def _take_turn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work on the chain after the work before."""
        before = self._chain_turn

        async def run() -> None:
            if before is not None:
                await asyncio.wait((before,))
            await work

        self._chain_turn = asyncio.create_task(run())
        self._chain_turn.add_done_callback(self._on_run_ended)

    async def _start_chain(self, chain: ChainClient) -> None:
        if chain is self.chain:
            chain.start()

    @property
    def _chain_parts(self) -> tuple[Operations, MarketConditions, SettlementCoordinator]:
        return self.operations, self.conditions, self.settlement

    async def _close_chain(
        self,
        chain: ChainClient,
        parts: tuple[Operations, MarketConditions, SettlementCoordinator],
    ) -> None:
        """Close the connection to the chain, and the parts that work with it."""
        for part in parts:
            await part.close()
        await chain.close(self.settings.grace_s / 4)
        if self.outbox is not None:
            self.outbox.take_back()

    def _on_settling_batch(self, batch: Sequence[Committed]) -> None:
        """Hand a committed batch to the current parts that work with the chain."""
        self.settlement.stalls.on_batch(batch)
        if self.chain.is_configured:
            self.settlement.on_batch(batch)

    async def _on_chain_ready(self) -> None:
        """Resume the work of a chain worker that ended."""
        await self._is_started.wait()
        if self.clock.ahead_ms:
            await self.chain.move_clock(self.clock_ms() // 1000)
        await self.operations.on_worker_ready()
        await self.conditions.on_worker_ready()
        await self.settlement.on_worker_ready()

    def _on_operation_end(self, end: ChainDone | ChainFailed) -> None:
        """Handle the end of an operation that no request waits for."""
        self.operations.on_operation_end(end)
        self.conditions.on_operation_end(end)
        self.settlement.sender.on_operation_end(end)
