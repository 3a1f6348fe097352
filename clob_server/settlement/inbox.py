"""Takes the news of the chain: each becomes commands, in sequence, whoever else asks meanwhile."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from clob_server.chain.events import ChainUpdate, SettlementResult
from clob_server.core.sequencer import Build, QueueFullError, Sequencer, SequencerStoppedError
from clob_server.core.settlement_ledger import Held
from clob_server.settlement.reconcile import (
    Account,
    NothingToDoError,
    assets_of,
    holdings_of,
    joined,
    makes,
    pieces,
    waited,
)
from clob_server.telemetry.metrics import Metrics

FULL_S: Final = 0.05
"""How long until an engine is asked again that was full."""
COMPARE_S: Final = 0.1
"""How often some accounts are compared with what the chain said of them."""

_LOG: Final = logging.getLogger("clob_server.chain")


class Hearing:
    """Takes what the chain says by itself.

    Args:
        clock_ms: returns the time, Unix milliseconds.
        sequencer: commits commands.
        metrics: counts operations and settlements.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        sequencer: Sequencer,
        metrics: Metrics,
    ) -> None:
        self.trouble: str = ""
        """Why nothing is heard any more; empty where all is."""
        self.has_heard: bool = False
        """If all that wallets hold was heard since the worker came."""
        self.is_taking: bool = False
        """If news are on their way into the engine."""
        self.num_differing: int = 0
        """How many accounts were not as the chain said, when all were last looked at in turn."""
        self._comparing: asyncio.Task[None] | None = None
        self._clock_ms: Final = clock_ms
        self._state: Final = sequencer.state
        self._sequencer: Final = sequencer
        self._metrics: Final = metrics
        self._said: dict[Account, int] = {}
        self._parts: list[ChainUpdate] = []
        self._inbox: asyncio.Queue[ChainUpdate | None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """If news are taken."""
        return self._inbox is not None

    def begin(self) -> None:
        """Take news from now on."""
        self._inbox, self._parts = asyncio.Queue(), []
        self.has_heard, self.is_taking, self.trouble = False, False, ""
        self._task = asyncio.create_task(self._hear_on(self._inbox))
        if self._comparing is None:
            self._comparing = asyncio.create_task(self._compare())

    async def end(self) -> None:
        """Take nothing more of what a worker has said that is gone; the next one says it again."""
        inbox, self._inbox = self._inbox, None
        if inbox is None or self._task is None:
            return
        while not inbox.empty():
            inbox.get_nowait()
        inbox.put_nowait(None)
        await self._task  # what is on its way to the log is waited for

    async def close(self) -> None:
        """Leave the rest to the next start, which hears it again."""
        self._inbox = None
        tasks = [task for task in (self._task, self._comparing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hear(self, news: ChainUpdate) -> None:
        """Hear a message of the worker; the news are taken once they are there in full."""
        if self._inbox is None:
            return
        self._parts.append(news)
        if not news.more:
            self._inbox.put_nowait(joined(self._parts))
            self._parts = []

    async def _hear_on(self, inbox: "asyncio.Queue[ChainUpdate | None]") -> None:
        """Take news one after the other."""
        try:
            while (news := await inbox.get()) is not None:
                await self._take(news)
        except SequencerStoppedError:
            self._inbox = None
        except Exception as error:
            self._inbox = None  # what follows would be no continuation
            self.trouble = f"the chain is not followed any more: {error}"
            _LOG.exception("the chain is not followed any more")

    async def _take(self, news: ChainUpdate) -> None:
        """Have the engine's accounts become those of the chain."""
        self.is_taking = True
        self._report(news)
        for make in makes(self._state, news):
            await self._ask(make)
        if news.whole:
            self._said.clear()
        self._said.update(holdings_of(news))
        self.has_heard = self.has_heard or news.whole
        self.is_taking = False

    async def _ask(self, make: Build) -> None:
        """Have commands done; an engine that is full is asked again."""
        while True:
            try:
                await self._sequencer.try_submit(make)
            except NothingToDoError:
                return
            except QueueFullError:
                await asyncio.sleep(FULL_S)
            else:
                return

    def _report(self, news: ChainUpdate) -> None:
        """Count what came of trades, and say why some failed."""
        now_ms = self._clock_ms()
        for held, told in waited(self._state, news.settlements):
            outcome = "settled" if told.error is None else "failed"
            taken_s = max(0, now_ms - held.traded_ms) / 1_000
            self._metrics.settlement(outcome, taken_s)
            if told.error is not None:
                _LOG.warning("a trade was not settled", extra=words_of(held, told))

    # ----- what differs ------------------------------------------------------------------------

    async def _compare(self) -> None:
        """Look at all accounts that the chain spoke of, some at a time, again and again.

        All at once would hold orders up for 4 ms where there are a thousand.
        """
        matcher = self._state.matcher
        while True:
            await asyncio.sleep(COMPARE_S)
            count = 0
            for piece in pieces(list(self._said)):
                await asyncio.sleep(COMPARE_S)
                if self.is_taking or not self.has_heard:
                    break  # what was said is about to change
                said = self._said
                count += sum(matcher.balance(*own).balance != said.get(own, 0) for own in piece)
            else:
                self.num_differing = count

    def difference(self) -> int:
        """Count the accounts that are not as the chain last said, and trades that wait for nothing.

        Trades under way explain none of it: what they hold is part of a balance until the batch of
        commands that takes what the chain says of their block. O(accounts).
        """
        if self.is_taking or not self.has_heard:
            return self.num_differing
        exchange, held = self._state, self._state.registry.settling.held
        assets = assets_of(exchange)
        found = {
            account: own.balance
            for account, own in exchange.matcher.balances().items()
            if own.balance and account[1] in assets
        }
        said = {account: amount for account, amount in self._said.items() if amount}
        accounts = {account for account, _ in found.items() ^ said.items()}
        waits = {(each.market, half.seq) for each in held.values() for half in each.halves}
        unsettled = exchange.matcher.unsettled
        trades = {(market, seq) for market in exchange.settles for seq in unsettled(market)}
        return len(accounts) + len(waits ^ trades)


def words_of(held: Held, told: SettlementResult) -> dict[str, object]:
    """Say of a trade why it failed."""
    return {
        "market": held.market,
        "trade": held.number,
        "tx": told.tx,
        "reason": told.error,
        "blamed": ", ".join(told.responsible),
    }
