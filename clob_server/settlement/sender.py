"""Sends trades to the chain in batches, until each is in a block.

A batch is logged under an operation id before the chain worker gets it, and the worker runs an
operation id once. After a crash the same operation is requested again, with the same trades.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from clob.wire.operations import SettleBody
from clob_server.api.problems import ApiError
from clob_server.chain.client import Stage
from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from clob_server.core.commands import SendTrades
from clob_server.core.rejections import NotOwnerError
from clob_server.core.sequencer import SequencerStoppedError
from clob_server.core.serialize import WALLET, custody_of
from clob_server.core.settlement_ledger import HeldTrade
from clob_server.settlement.inbox import ChainInbox
from clob_server.settlement.markets import MarketConditions, OnChain
from clob_server.settlement.operations import ChainContext, ChainPart, cancel
from clob_server.settlement.reconcile import NothingToDoError

KIND: Final = "settle"
"""Kind of the operation that settles trades."""
ID_BYTES: Final = 16
"""Random bytes in an operation id."""
OPERATIONS_MAX: Final = 8
"""Operations that may run at the same time."""
PAUSE_S: Final = 1.0
"""Wait before trades of a failed operation are sent again, seconds; doubled at each failure."""
PAUSE_MAX_S: Final = 60.0
"""Longest wait before a retry, seconds."""
HOLD_MAX_S: Final = 10.0
"""Longest delay of unsent trades after another operation failed, seconds."""
POLL_S: Final = 0.25
"""Interval of the check whether the chain and the market are ready, seconds."""
NEVER: Final = sys.maxsize
"""More trades than can exist: no number of trades wakes the loop."""
RESEND_AFTER_S: Final = 120.0
"""Time without a result after which the trades of an operation are sent again, seconds."""
KEY_REUSED: Final = "IDEMPOTENCY_KEY_REUSED"
"""Rejection of an operation id that was first used with more trades; the others have ended."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Retry(NamedTuple):
    """Trades to send again."""

    numbers: tuple[int, ...]
    tries: int
    """How often they were sent."""
    at_s: float
    """When they are due, by the clock of the event loop."""


class TradeSender(ChainPart):
    """Sends trades.

    Args:
        context: the other parts of the server.
        conditions: state of the markets on the chain.
        inbox: applies the updates of the chain.
    """

    def __init__(
        self, context: ChainContext, conditions: MarketConditions, inbox: ChainInbox
    ) -> None:
        super().__init__(context)
        self.error: str = ""
        """Reason for which the chain last rejected trades; empty after a success."""
        self._conditions: Final = conditions
        self._inbox: Final = inbox
        self._task: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._retries: list[Retry] = []
        self._hold_until_s = 0.0
        self._num_failures = 0
        self._oldest_seen = 0, 0.0
        self._wake = asyncio.Event()
        self._wake_count = 1

    # ----- start and stop ----------------------------------------------------------------------

    def start(self) -> None:
        """Start to send unsent trades."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        self._wake.set()

    def on_worker_ready(self) -> None:
        """Request the logged operations from a new chain worker, except those due for a retry."""
        waiting = {self.ledger.sent.get(n) for retry in self._retries for n in retry.numbers}
        for name in list(self.ledger.operations):
            if name not in self._running and name not in waiting:
                self._start(name, 1)

    async def close(self) -> None:
        """Stop; the next start resumes the operations from the log."""
        await cancel([*self._running.values(), *([self._task] if self._task is not None else ())])

    def on_batch(self) -> None:
        """Handle a committed batch: wake the loop if enough trades are unsent."""
        if len(self.ledger.held) - len(self.ledger.sent) >= self._wake_count:
            self._wake.set()

    # ----- timing ------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send due trades, forever."""
        while True:
            self._wake.clear()
            due_s = self._next_due_s()
            if due_s is None or due_s > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(due_s):
                        await self._wake.wait()
                continue
            try:
                await self._send()
            except (SequencerStoppedError, NotOwnerError):
                return

    def _next_due_s(self) -> float | None:
        """Return the seconds until there are trades to send; None to wait for a wake-up.

        Also sets how many unsent trades wake the loop earlier.
        """
        self._wake_count = NEVER
        if len(self._running) >= OPERATIONS_MAX:
            return None  # the end of an operation wakes the loop
        now_s = asyncio.get_running_loop().time()
        delays = [self._retries[0].at_s - now_s] if self._retries else []
        unsent_s = self._unsent_due_s()
        if unsent_s is not None:
            delays.append(max(unsent_s, self._hold_until_s - now_s))
        if delays and not self._chain.is_open:
            self._wake_count = NEVER
            return POLL_S
        return min(delays, default=None)

    def _unsent_due_s(self) -> float | None:
        """Return the seconds until unsent trades are due; None without any.

        They are due once they fill a batch or the oldest has waited long enough. Its wait is
        measured by the clock and by the event loop since it was first seen, because the clock may
        step back.
        """
        settings = self._settings
        if len(self.ledger.held) == len(self.ledger.sent):
            self._wake_count = 1
            return None
        ready = self._next_batch()
        if len(ready) == settings.settle_trades_max:
            return 0.0
        if not ready:
            return POLL_S
        count = len(self.ledger.held) - len(self.ledger.sent)
        self._wake_count = count - len(ready) + settings.settle_trades_max
        number, now_s = ready[0].number, asyncio.get_running_loop().time()
        if self._oldest_seen[0] != number:
            self._oldest_seen = number, now_s
        waited_s = (self._clock_ms() - ready[0].traded_ms) / 1_000
        return max(0.0, settings.settle_every_s - max(waited_s, now_s - self._oldest_seen[1]))

    def _next_batch(self) -> list[HeldTrade]:
        """Return unsent trades of one custody: a full batch, or those like the oldest trade.

        An oldest trade that has waited long enough goes before a full batch of the other custody.
        """
        settings = self._settings
        due_ms = self._clock_ms() - settings.settle_every_s * 1_000
        batches: dict[str, list[HeldTrade]] = {}
        for held in self._ready():
            batch = batches.setdefault(self._custody(held.market), [])
            batch.append(held)
            if len(batch) == settings.settle_trades_max:
                first = next(iter(batches.values()))
                return first if first[0].traded_ms <= due_ms else batch
        return next(iter(batches.values()), [])

    def _custody(self, market: str) -> Literal["wallet", "escrow"]:
        """Return where the assets of a market are."""
        return custody_of(self._state.markets[market]) or WALLET

    def _ready(self) -> Iterator[HeldTrade]:
        """Yield the unsent trades whose market is on the chain."""
        ledger, is_ready = self.ledger, dict[str, bool]()
        for number, held in ledger.held.items():
            if number in ledger.sent:
                continue
            if held.market not in is_ready:
                is_ready[held.market] = self._is_on_chain(held.market)
            if is_ready[held.market]:
                yield held

    def _is_on_chain(self, market: str) -> bool:
        """Return whether a market is prepared: before that its tokens cannot be minted."""
        state = self._conditions.state(market)
        if state is OnChain.STUCK:  # with an outcome, only the report is stuck
            words = self._state.registry.words.get(market)
            return words is not None and words.outcome != ""
        return state not in (OnChain.WAITING, OnChain.PREPARING)

    # ----- batches -----------------------------------------------------------------------------

    async def _send(self) -> None:
        """Log a batch of trades and start its operation.

        Raises:
            SequencerStoppedError, NotOwnerError: nothing was logged.
        """
        retry = self._next_retry()
        name = f"{KIND}_{os.urandom(ID_BYTES).hex()}"

        def build(now_ms: int) -> SendTrades:
            """Choose the trades when the batch of commands is built."""
            if retry is None:
                numbers = tuple(held.number for held in self._next_batch())
            else:
                numbers = tuple(each for each in retry.numbers if each in self.ledger.held)
            if not numbers:
                raise NothingToDoError
            return SendTrades(operation=name, trades=numbers, now_ms=now_ms)

        try:
            await self._sequencer.deliver(build)
        except NothingToDoError:
            name = ""
        if retry is not None:
            self._retries.remove(retry)
        if name:
            self._start(name, 1 if retry is None else retry.tries + 1)

    def _next_retry(self) -> Retry | None:
        """Return trades that are due for a retry; unsent trades go first."""
        now_s = asyncio.get_running_loop().time()
        if not self._retries or self._retries[0].at_s > now_s:
            return None
        unsent_s = self._unsent_due_s()
        if unsent_s is not None and max(unsent_s, self._hold_until_s - now_s) <= 0:
            return None
        return self._retries[0]

    # ----- operations --------------------------------------------------------------------------

    def _start(self, name: str, tries: int) -> None:
        self._running[name] = task = asyncio.create_task(self._settle(name, tries))
        task.add_done_callback(lambda _: self._on_task_end(name, task))

    def _on_task_end(self, name: str, task: "asyncio.Task[None]") -> None:
        """Remove an operation that has ended, or whose worker has."""
        del self._running[name]
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a settlement operation raised", exc_info=task.exception())
        self._wake.set()

    async def _settle(self, name: str, tries: int) -> None:
        """Settle the trades of an operation in one transaction; retry rejections."""
        numbers = self.ledger.operations.get(name, ())
        trades = [self.ledger.held[number] for number in numbers]
        custody = self._custody(trades[0].market) if trades else "wallet"
        body = SettleBody(fills=[each.fill for each in trades], custody=custody)
        pause_s = PAUSE_S
        while trades:
            try:
                end = await self._run_operation(name, body)
            except ApiError:  # no chain worker; resumed when the next one is ready
                return
            if isinstance(end, OperationDone):
                self.error, self._num_failures, self._hold_until_s = "", 0, 0.0
                self._check_later(name)
                return
            self._on_failure(name, end)
            if isinstance(end, OperationFailed) or end.code == KEY_REUSED:
                if isinstance(end, OperationRejected) or end.undone:  # otherwise stuck
                    self._retry_trades(name, tries)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    # ----- failures ----------------------------------------------------------------------------

    def _on_failure(self, name: str, end: OperationFailed | OperationRejected) -> None:
        """Record a failure and delay unsent trades: they may fail for the same reason."""
        pause_s = backoff(PAUSE_S, self._num_failures, HOLD_MAX_S)
        self._num_failures += 1
        self._hold_until_s = asyncio.get_running_loop().time() + pause_s
        self.error = f"{end.code}: {end.detail}"
        fields = {"operation": name, "code": end.code, "reason": end.detail}
        level = logging.ERROR if isinstance(end, OperationFailed) else logging.WARNING
        _LOG.log(level, "the chain rejected trades", extra=fields)

    def _retry_trades(self, name: str, tries: int) -> None:
        """Schedule the trades of an operation for another one; after the second attempt in halves.

        Halving isolates a trade that no transaction takes, so that it delays no other.
        """
        numbers = self.ledger.operations.get(name, ())
        at_s = asyncio.get_running_loop().time() + backoff(PAUSE_S, tries - 1, PAUSE_MAX_S)
        half = len(numbers) // 2 if tries > 1 else 0
        parts = [Retry(part, tries, at_s) for part in (numbers[:half], numbers[half:]) if part]
        self._retries = sorted((*self._retries, *parts), key=lambda each: each.at_s)
        self._wake.set()

    def _check_later(self, name: str) -> None:
        """Check later whether the trades of a confirmed operation have results."""
        asyncio.get_running_loop().call_later(RESEND_AFTER_S, self._resend_if_lost, name)

    def _resend_if_lost(self, name: str) -> None:
        """Send trades again whose transaction was probably lost, as in a reorganization.

        If it was not, the contract ignores them: it settles a trade once.
        """
        if name not in self.ledger.operations or name in self._running:
            return
        if self._chain.stage is not Stage.READY or not self._inbox.is_synced:
            self._check_later(name)
            return
        fields = {"operation": name}
        _LOG.warning("trades that were sent have no result yet; sending them again", extra=fields)
        self._retry_trades(name, 1)

    def on_operation_end(self, end: OperationDone | OperationFailed) -> None:
        """Handle the end of an operation that has no task here, as after an operator's retry."""
        if end.kind != KIND or end.id not in self.ledger.operations or end.id in self._running:
            return
        if isinstance(end, OperationDone):
            self.error = ""
            self._check_later(end.id)
        elif end.undone:
            self._retry_trades(end.id, 1)


def backoff(pause_s: float, times: int, max_s: float) -> float:
    """Return a pause doubled ``times`` times, at most ``max_s``."""
    return min(pause_s * 2.0 ** min(times, 20), max_s)
