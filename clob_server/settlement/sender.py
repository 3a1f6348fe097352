"""Sends trades to the chain in batches, again and again until each is in a block.

A batch is noted in the log before the chain is asked, under a name by which the chain worker does
it once. So whoever is killed in between asks for the same again, and not for something else.
"""

import asyncio
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from clob_server.api.problems import ApiError
from clob_server.chain.client import ChainClient, Stage
from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from clob_server.chain.operation_bodies import SettleBody
from clob_server.core.commands import SendTrades
from clob_server.core.sequencer import QueueFullError, Sequencer, SequencerStoppedError
from clob_server.core.settlement_ledger import HeldTrade, SettlementLedger
from clob_server.settings import Settings
from clob_server.settlement.inbox import Hearing
from clob_server.settlement.markets import Conditions, OnChain
from clob_server.settlement.operations import outcome_of
from clob_server.settlement.reconcile import NothingToDoError
from clob_server.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from clob_server.chain.worker_client import OperationEnd

KIND: Final = "settle"
"""What the operation is called that settles trades."""
NAME_BYTES: Final = 16
"""How many bytes the name of an operation is made of."""
AT_ONCE: Final = 8
"""How many operations are under way at the same time."""
PAUSE_S: Final = 1.0
"""How long until trades are sent again that failed together, at first; twice as long each time."""
PAUSE_MAX_S: Final = 60.0
"""How long at most."""
HOLD_MAX_S: Final = 10.0
"""How long trades that were never sent wait at most for others that fail."""
FULL_S: Final = 0.05
"""How long until an engine is asked again that was full."""
LOOK_S: Final = 0.25
"""How often it is looked whether the chain is there, and on it the market, that trades wait for."""
NEVER: Final = sys.maxsize
"""More trades than there can be."""
LOST_S: Final = 120.0
"""How long after its transaction nothing may be heard of a trade until it is sent again."""
REUSED: Final = "IDEMPOTENCY_KEY_REUSED"
"""The refusal of an operation that was asked for with more trades: those have come to an end."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Again(NamedTuple):
    """Trades that are to be sent once more."""

    numbers: tuple[int, ...]
    """Which."""
    tries: int
    """How often they were sent."""
    at_s: float
    """When, by the clock of the loop."""


class Sending:
    """Sends trades.

    Args:
        settings: settings of the server.
        clock_ms: returns the time, Unix milliseconds.
        sequencer: commits commands.
        chain: connection to the chain.
        metrics: counts operations and settlements.
        conditions: state of the markets on the chain.
        inbox: handles the updates of the chain.
    """

    def __init__(
        self,
        settings: Settings,
        clock_ms: Callable[[], int],
        sequencer: Sequencer,
        chain: ChainClient,
        metrics: Metrics,
        conditions: Conditions,
        inbox: Hearing,
    ) -> None:
        self.trouble: str = ""
        """Why the chain last did not take trades; empty where it did."""
        self._settings: Final = settings
        self._clock_ms: Final = clock_ms
        self._state: Final = sequencer.state
        self._sequencer: Final = sequencer
        self._chain: Final = chain
        self._metrics: Final = metrics
        self._conditions: Final = conditions
        self._inbox: Final = inbox
        self._task: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: deque[Again] = deque()
        self._hold_until_s = 0.0
        self._num_stumbles = 0
        self._oldest = 0, 0.0
        self._wake = asyncio.Event()
        self._enough = 1

    @property
    def settling(self) -> SettlementLedger:
        """What waits."""
        return self._state.registry.settling

    # ----- from start to end -------------------------------------------------------------------

    def begin(self) -> None:
        """Send what waits from now on."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_sending())
        self._wake.set()

    def rise(self) -> None:
        """Ask a worker that has just come for what was noted, unless it is to go once more."""
        waiting = {self.settling.sent.get(n) for again in self._again for n in again.numbers}
        for name in list(self.settling.operations):
            if name not in self._running and name not in waiting:
                self._go(name, 1)

    async def close(self) -> None:
        """Leave the rest to the next start."""
        tasks = [*self._running.values(), *([self._task] if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def look(self) -> None:
        """Hear that there may be trades to send; after each batch, so it costs next to nothing."""
        if len(self.settling.held) - len(self.settling.sent) >= self._enough:
            self._wake.set()

    # ----- when --------------------------------------------------------------------------------

    async def _keep_sending(self) -> None:
        """Send what is due, again and again."""
        while True:
            self._wake.clear()
            due_s = self._due_in_s()
            if due_s is None or due_s > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(due_s):
                        await self._wake.wait()
                continue
            try:
                await self._send()
            except QueueFullError:
                await asyncio.sleep(FULL_S)
            except SequencerStoppedError:
                return

    def _due_in_s(self) -> float | None:
        """Say in how many seconds there is something to send; None is not by itself.

        How many trades that were never sent are enough to look again before is left behind.
        """
        self._enough = NEVER
        if len(self._running) >= AT_ONCE:
            return None  # the end of one wakes
        now_s = asyncio.get_running_loop().time()
        waits = [self._again[0].at_s - now_s] if self._again else []
        fresh_s = self._fresh_in_s()
        if fresh_s is not None:
            waits.append(max(fresh_s, self._hold_until_s - now_s))
        if waits and not self._chain.is_open:
            self._enough = NEVER
            return LOOK_S
        return min(waits, default=None)

    def _fresh_in_s(self) -> float | None:
        """Say in how many seconds trades are due that were never sent; None where there are none.

        They are once they fill a batch, or the oldest has waited for long enough: by the clock, or
        by that of the loop since it was seen first, as the clock may have stepped back.
        """
        settings = self._settings
        if len(self.settling.held) == len(self.settling.sent):
            self._enough = 1
            return None
        ready = list(islice(self._ready(), settings.settle_trades_max))
        if len(ready) == settings.settle_trades_max:
            return 0.0
        if not ready:
            return LOOK_S
        count = len(self.settling.held) - len(self.settling.sent)
        self._enough = count - len(ready) + settings.settle_trades_max
        number, now_s = ready[0].number, asyncio.get_running_loop().time()
        if self._oldest[0] != number:
            self._oldest = number, now_s
        waited_s = (self._clock_ms() - ready[0].traded_ms) / 1_000
        return max(0.0, settings.settle_every_s - max(waited_s, now_s - self._oldest[1]))

    def _ready(self) -> Iterator[HeldTrade]:
        """Go through the trades that were never sent and whose market is on the chain."""
        settling, is_ready = self.settling, dict[str, bool]()
        for number, held in settling.held.items():
            if number in settling.sent:
                continue
            if held.market not in is_ready:
                is_ready[held.market] = self._is_on_chain(held.market)
            if is_ready[held.market]:
                yield held

    def _is_on_chain(self, market: str) -> bool:
        """Say if a market is prepared: before that, none of its tokens can be minted."""
        state = self._conditions.state(market)
        if state is OnChain.STUCK:  # with an outcome, it is the report of it that is
            words = self._state.registry.words.get(market)
            return words is not None and words.outcome != ""
        return state not in (OnChain.WAITING, OnChain.PREPARING)

    # ----- a batch -----------------------------------------------------------------------------

    async def _send(self) -> None:
        """Note in the log which trades go, and have them go.

        Raises:
            QueueFullError, SequencerStoppedError: nothing was noted.
        """
        again = self._next_again()
        name = f"{KIND}_{os.urandom(NAME_BYTES).hex()}"

        def make(now_ms: int) -> SendTrades:
            """Choose the trades once the batch is made."""
            if again is None:
                most = self._settings.settle_trades_max
                numbers = tuple(held.number for held in islice(self._ready(), most))
            else:
                numbers = tuple(each for each in again.numbers if each in self.settling.held)
            if not numbers:
                raise NothingToDoError
            return SendTrades(operation=name, trades=numbers, now_ms=now_ms)

        try:
            await self._sequencer.try_submit(make)
        except NothingToDoError:
            name = ""
        if again is not None:
            self._again.remove(again)
        if name:
            self._go(name, 1 if again is None else again.tries + 1)

    def _next_again(self) -> Again | None:
        """Give trades that are due to be sent again; those that never were go first."""
        now_s = asyncio.get_running_loop().time()
        if not self._again or self._again[0].at_s > now_s:
            return None
        fresh_s = self._fresh_in_s()
        if fresh_s is not None and max(fresh_s, self._hold_until_s - now_s) <= 0:
            return None
        return self._again[0]

    # ----- an operation ------------------------------------------------------------------------

    def _go(self, name: str, tries: int) -> None:
        """Go with an operation to its end."""
        self._running[name] = task = asyncio.create_task(self._carry_out(name, tries))
        task.add_done_callback(lambda _: self._let_go(name, task))

    def _let_go(self, name: str, task: "asyncio.Task[None]") -> None:
        """Let go of an operation that has ended, or whose worker has."""
        del self._running[name]
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a settlement broke off", exc_info=task.exception())
        self._wake.set()

    async def _carry_out(self, name: str, tries: int) -> None:
        """Have the chain settle trades in one transaction, however often it refuses."""
        numbers = self.settling.operations.get(name, ())
        body = SettleBody(fills=[self.settling.held[number].fill for number in numbers])
        pause_s = PAUSE_S
        while numbers:
            end = await self._once(name, body)
            if end is None:  # the next worker is asked once it is ready
                return
            if isinstance(end, OperationDone):
                self.trouble, self._num_stumbles, self._hold_until_s = "", 0, 0.0
                self._look_later(name)
                return
            self._stumble(name, end)
            if isinstance(end, OperationFailed) or end.code == REUSED:
                if isinstance(end, OperationRejected) or end.undone:  # else it is stuck
                    self._send_again(name, tries)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _once(self, name: str, body: SettleBody) -> "OperationEnd | None":
        """Ask the chain once; None where there is nobody to ask."""
        begin = time.perf_counter()
        try:
            end = await self._chain.worker.run_operation(name, body, self._clock_ms())
        except ApiError:
            return None
        self._metrics.operation(KIND, outcome_of(end), time.perf_counter() - begin)
        return end

    # ----- what went wrong ---------------------------------------------------------------------

    def _stumble(self, name: str, end: OperationFailed | OperationRejected) -> None:
        """Hold back for a while what was never sent: it may come to the same end."""
        pause_s = doubled(PAUSE_S, self._num_stumbles, HOLD_MAX_S)
        self._num_stumbles += 1
        self._hold_until_s = asyncio.get_running_loop().time() + pause_s
        self.trouble = f"{end.code}: {end.detail}"
        more = {"operation": name, "code": end.code, "reason": end.detail}
        level = logging.ERROR if isinstance(end, OperationFailed) else logging.WARNING
        _LOG.log(level, "the chain did not take trades", extra=more)

    def _send_again(self, name: str, tries: int) -> None:
        """Have the trades of an operation go with another one; after the second time in halves.

        So a trade that no transaction takes is alone in the end, and holds up no other.
        """
        numbers = self.settling.operations.get(name, ())
        at_s = asyncio.get_running_loop().time() + doubled(PAUSE_S, tries - 1, PAUSE_MAX_S)
        half = len(numbers) // 2 if tries > 1 else 0
        parts = [Again(part, tries, at_s) for part in (numbers[:half], numbers[half:]) if part]
        self._again = deque(sorted((*self._again, *parts), key=lambda each: each.at_s))
        self._wake.set()

    def _look_later(self, name: str) -> None:
        """Look after a while whether news came of trades that are in a block."""
        asyncio.get_running_loop().call_later(LOST_S, self._look_for, name)

    def _look_for(self, name: str) -> None:
        """Send trades again whose transaction the chain must have lost, as in a reorganisation.

        Should it not have, the contract does nothing: it settles a trade once.
        """
        if name not in self.settling.operations or name in self._running:
            return
        chain, hearing = self._chain, self._inbox
        if chain.stage is not Stage.READY or not hearing.has_heard:
            self._look_later(name)
            return
        _LOG.warning("nothing is heard of trades that were sent", extra={"operation": name})
        self._send_again(name, 1)

    def hear_end(self, end: OperationDone | OperationFailed) -> None:
        """Hear of the end of an operation that nobody waits for, as after an operator's retry."""
        if end.kind != KIND or end.id not in self.settling.operations or end.id in self._running:
            return
        if isinstance(end, OperationDone):
            self.trouble = ""
            self._look_later(end.id)
        elif end.undone:
            self._send_again(end.id, 1)


def doubled(pause_s: float, times: int, most_s: float) -> float:
    """Give a pause that was doubled so often, and is never longer than the longest."""
    return min(pause_s * 2.0 ** min(times, 20), most_s)
