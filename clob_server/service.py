"""A server without its sockets: the log, the engine and all that follows it, from start to end."""

import asyncio
import enum
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from clob import Batch, Event, Rejected, RejectedError, Submit
from clob_server.api.problems import ApiError
from clob_server.api.request import is_request_id
from clob_server.auth.api_keys import IDS, secret
from clob_server.auth.guard import Guard
from clob_server.chain.client import ChainClient
from clob_server.chain.messages import OperationDone as ChainDone
from clob_server.chain.messages import OperationFailed as ChainFailed
from clob_server.core import sequencer
from clob_server.core.ids import Ids
from clob_server.core.recovery import recover
from clob_server.core.sequencer import Committed, Sequencer
from clob_server.core.state import ServerState
from clob_server.feed import Feed
from clob_server.history.history import History
from clob_server.http.book_cache import BookCache
from clob_server.http.pagination import RestingIds
from clob_server.log import SqliteLog
from clob_server.orders.auto_open import AutoOpening
from clob_server.settings import Settings
from clob_server.settlement.coordinator import SettlementCoordinator
from clob_server.settlement.markets import Conditions
from clob_server.settlement.operations import Operations
from clob_server.telemetry.metrics import Metrics

LAG_EVERY_S: Final = 0.1
"""How often the loop is looked at."""

_LOG: Final = logging.getLogger("clob_server")


class Phase(enum.Enum):
    """Where a server is in its life."""

    RECOVERING = "recovering"
    """It reads its log."""
    READY = "ready"
    """It serves."""
    DRAINING = "draining"
    """It is about to stop, and takes no new orders."""


def wall_clock_ms() -> int:
    """Tell the time, Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Service:
    """Everything that routes ask of a server.

    Args:
        settings: how it is to be run.
        clock_ms: tells the time, Unix milliseconds.
    """

    books: BookCache
    exchange: ServerState
    engine: Sequencer
    history: History
    ids: Ids
    resting: RestingIds

    def __init__(self, settings: Settings, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.settings: Final = settings
        self.clock_ms: Final = clock_ms
        self.folder: Final = Path(settings.data_dir)
        self.domain: Final = settings.domain
        self.metrics: Final = Metrics()
        self.guard: Final = Guard(self)
        self.feed: Final = Feed(self)
        self.openings: Final = AutoOpening(self)
        self.operations: Final = Operations(self)
        self.conditions: Final = Conditions(self)
        self.settlement: Final = SettlementCoordinator(self)
        self.chain: Final = ChainClient(
            settings, self.folder, risen=self._rise, ended=self._hear_of_operation
        )
        self.chain.on_news = self.settlement.hearing.hear
        self.description = b"{}"
        """What describes the interface, as the application has set it."""
        self.begun_ms: Final = clock_ms()
        """When this process began, Unix milliseconds."""
        self.operating: Final = asyncio.Lock()
        """Held by an operator's change, so that each sees what the one before led to."""
        self.phase: Phase = Phase.RECOVERING
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        """Called where the log has failed, and the process has to end."""
        self._log: SqliteLog | None = None
        self._has_started = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._requests = 0
        self._order_number = 0
        self._process = os.urandom(4).hex()

    # ----- from start to end -------------------------------------------------------------------

    async def start(self) -> None:
        """Open the log, recover, and begin to serve.

        Raises:
            LogLockedError: another server has the folder.
            LogError: the log cannot be read, or is damaged.
        """
        self._log = log = await asyncio.to_thread(SqliteLog, self.folder)
        self.chain.begin()  # it comes up while the log is read
        self.ids = Ids(secret(self.folder, IDS))
        self.history = History(self, log)
        await self.history.begin()
        self.exchange, hashed, count = await asyncio.to_thread(recover, log)
        self.guard.recover()
        _LOG.info("recovered", extra={"command_seq": log.tail.seq, "done_again": count})
        self.books = BookCache(self.exchange)
        matcher = self.exchange.matcher
        records = await asyncio.to_thread(matcher.open_orders)
        self.resting = await asyncio.to_thread(RestingIds, matcher, records)
        self.feed.start(records)
        self.engine = Sequencer(
            log,
            self.exchange,
            self.clock_ms,
            hashed=hashed,
            also=self.guard.charges,
            on_commit=self.metrics.commit_seconds.observe,
        )
        self.engine.listeners.extend(
            (
                self._count,
                self.resting.listen,
                self.history.listen,
                self.feed.listen,
                self.settlement.listen,
            )
        )
        self._tasks = [
            asyncio.create_task(work)
            for work in (
                self._run(),
                sequencer.sweep(self.engine, self.clock_ms),
                self._watch_loop(),
            )
        ]
        await self.history.start(self.engine)
        await self.chain.placed()
        self.phase = Phase.READY
        self._has_started.set()

    def drain(self) -> None:
        """Take no new orders any more; what is under way is still done."""
        self.phase = Phase.DRAINING
        self.operations.drain()

    async def close(self) -> None:
        """Do what waits, and let go of everything."""
        self.drain()
        self.feed.close()
        await self.operations.close()
        await self.conditions.close()
        await self.settlement.close()
        await self.chain.close(self.settings.grace_s / 4)
        if self._tasks:
            self.engine.stop()
            run, *others = self._tasks
            for task in others:
                task.cancel()
            with suppress(Exception):  # it was told to on_failure
                await run
        if hasattr(self, "history"):  # it begins before the log is known to be sound
            await self.history.close()
        if self._log is not None:
            await asyncio.to_thread(self._log.close)

    async def _run(self) -> None:
        """Have the engine work; where it fails, nothing more may be said by this process."""
        try:
            await self.engine.run()
        except BaseException as error:
            self.on_failure(error)
            raise

    # ----- the chain ---------------------------------------------------------------------------

    async def _rise(self) -> None:
        """See to what a chain worker that went has left over."""
        await self._has_started.wait()
        await self.operations.rise()
        await self.conditions.rise()
        await self.settlement.rise()

    def _hear_of_operation(self, end: ChainDone | ChainFailed) -> None:
        """Hear of the end of an operation that nobody waits for."""
        self.operations.hear_end(end)
        self.conditions.hear_end(end)
        self.settlement.sending.hear_end(end)

    # ----- what routes ask ---------------------------------------------------------------------

    def check_open(self) -> None:
        """Refuse a new order while the server starts or is about to stop.

        Raises:
            ApiError: RECOVERING, DRAINING.
        """
        if self.phase is Phase.RECOVERING:
            raise ApiError("RECOVERING", "the server is starting; try again in a second")
        if self.phase is Phase.DRAINING:
            raise ApiError("DRAINING", "the server is about to stop; try again in a second")

    def next_order_number(self) -> int:
        """Give the number that the next order's id is made of."""
        self._order_number = max(self._order_number, self.exchange.num_orders) + 1
        return self._order_number

    def may_sign(self, maker: str, signer: str) -> bool:
        """Say whether somebody may sign for a maker."""
        return (maker, signer) in self.exchange.registry.delegates

    def request_id(self, given: bytes | None) -> str:
        """Name a request: as the client did, or with a name of ours."""
        if given is not None and is_request_id(given):
            return given.decode()
        self._requests += 1
        return f"{self._process}-{self._requests:x}"

    # ----- what is counted ---------------------------------------------------------------------

    def _count(self, batch: Sequence[Committed]) -> None:
        """Count what a batch led to."""
        orders = 0
        for done in batch:
            outcome = done.outcome
            if type(done.command) is Submit:
                orders += type(outcome) is list
            elif type(done.command) is Batch and not isinstance(outcome, RejectedError):
                orders += num_accepted(done.command, outcome)
        self.metrics.orders.inc(orders)
        self.metrics.trades.inc(self.exchange.num_trades - batch[0].num_trades)

    async def _watch_loop(self) -> None:
        """Measure how late the loop is, again and again."""
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(LAG_EVERY_S)
            self.metrics.loop_lag_seconds.observe(
                max(0.0, time.perf_counter() - begin - LAG_EVERY_S)
            )


def num_accepted(batch: Batch, events: Sequence[Event | Rejected]) -> int:
    """Count the orders that a batch brought in."""
    refused = {event.index for event in events if type(event) is Rejected}
    return sum(
        type(each) is Submit and index not in refused for index, each in enumerate(batch.commands)
    )
