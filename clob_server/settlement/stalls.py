"""Stops the matching of escrow markets while trades do not settle or no block is seen.

A maker can take its escrow back after the delay of the exchange contract. So every trade has to
settle, and every request has to be seen, within half of it; otherwise a market accepts cancels
only. It opens again by itself. Each stop is a command, made before the first order after the limit,
so a replay stops at the same order.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from clob import AddMarket, ClobError, Market, Mode, RemoveMarket, SetMode
from clob_server.chain.config import DEVELOPMENT_CHAIN
from clob_server.chain.events import Watched, is_escrow
from clob_server.core.commands import AdvanceClock, AnyCommand, ReviseTrades, StallMarket
from clob_server.core.sequencer import Committed
from clob_server.settlement.inbox import ChainInbox
from clob_server.settlement.operations import ChainContext, ChainPart
from clob_server.settlement.reconcile import NothingToDoError

DELAY_S: Final = 300
"""Seconds in which the exchange contract pays no withdrawal after its request."""
LIMIT_MS: Final = DELAY_S * 1_000 // 2
"""Largest age of an unsettled trade and of the last block, milliseconds."""
TICK_S: Final = 1.0
"""Interval of the checks while there are no commands, seconds."""
PAUSE_MS: Final = 100
"""Time between the checks of batches while a market is stopped, milliseconds."""

_LOOKED_AT_ONCE: Final = (AddMarket, SetMode, ReviseTrades)
"""Commands after which the next batch needs a check of its own."""
_LOG: Final = logging.getLogger("clob_server.chain")


class MarketStalls(ChainPart):
    """Stops and opens escrow markets.

    Args:
        context: the other parts of the server.
        inbox: applies the updates of the chain.
    """

    def __init__(self, context: ChainContext, inbox: ChainInbox) -> None:
        super().__init__(context)
        self._markets = {name for name in self._state.settles if self._is_escrow(name)}
        inbox.on_watched = self.on_watched
        self._seen_ms = self._state.now_ms  # the last process knew the chain until then at most
        self._has_seen = False  # whether this process has seen a block that was new enough
        self._due_ms = 0
        context.sequencer.before_batch = self.commands

    @property
    def block_age_ms(self) -> int:
        """Time since the last block was seen, milliseconds."""
        return max(0, self._clock_ms() - self._seen_ms)

    async def run(self) -> None:
        """Check again and again, until cancelled: markets change without orders as well."""
        while True:
            await asyncio.sleep(TICK_S)
            if self._changes(max(self._clock_ms(), self._state.now_ms)):
                self._due_ms = 0
                with suppress(ClobError, NothingToDoError):
                    await self._sequencer.deliver(_nothing)

    def on_watched(self, watched: Watched) -> None:
        """Note that the updates of all blocks up to the newest one are applied.

        A development chain makes no blocks while it has no transactions, so the reading counts.
        Elsewhere the time of the newest block does: a node may have stopped to follow the chain.
        """
        now_ms = seen_ms = self._clock_ms()
        if self._settings.chain_id != DEVELOPMENT_CHAIN:
            seen_ms = min(seen_ms, watched.time_s * 1_000)
        self._seen_ms = max(self._seen_ms, seen_ms)
        self._has_seen |= now_ms - seen_ms <= LIMIT_MS

    def on_batch(self, batch: Sequence[Committed]) -> None:
        """Follow the commands of a batch that change when a market has to stop."""
        for done in batch:
            command = done.command
            if isinstance(command, _LOOKED_AT_ONCE):
                self._due_ms = 0
                if type(command) is AddMarket and self._is_escrow(command.market.id):
                    self._markets.add(command.market.id)
            elif type(command) is RemoveMarket and not self._is_escrow(command.market):
                self._markets.discard(command.market)
            elif type(command) is AdvanceClock:
                self._seen_ms += command.advance_ms
            elif type(command) is StallMarket:
                fields = {"market": command.market, "reason": command.reason}
                _LOG.warning("an escrow market stopped matching", extra=fields)

    def _is_escrow(self, name: str) -> bool:
        """Return whether there is a market of this name with escrow."""
        market = self._state.markets.get(name)
        return market is not None and is_escrow(market.collateral)

    # ----- commands ----------------------------------------------------------------------------

    def commands(self, now_ms: int) -> Sequence[AnyCommand]:
        """Return the commands that precede a batch; none, without a look, before they are due."""
        return self._changes(now_ms) if now_ms >= self._due_ms else ()

    def _changes(self, now_ms: int) -> Sequence[AnyCommand]:
        """Return the commands that stop and open markets, and compute the next due time."""
        stalls = self._state.registry.stalls
        markets = [self._state.markets[name] for name in sorted(self._markets)]
        oldest = self._oldest_trades() if markets else {}
        if self.ledger.block is None:  # no account is known yet, so no order can match
            self._seen_ms = now_ms
        commands: list[AnyCommand] = []
        for market in markets:
            reason = self._reason(market, oldest, now_ms)
            if reason and market.mode is Mode.OPEN:
                mode = SetMode(market=market.id, mode=Mode.CANCEL_ONLY, now_ms=now_ms)
                commands += (mode, StallMarket(market=market.id, reason=reason, now_ms=now_ms))
            elif not reason and market.id in stalls and self._has_seen:
                commands.append(SetMode(market=market.id, mode=Mode.OPEN, now_ms=now_ms))
        ends = (each + LIMIT_MS + 1 for each in (now_ms, self._seen_ms, *oldest.values()))
        self._due_ms = min(each for each in ends if each > now_ms)
        if stalls or commands:
            self._due_ms = min(self._due_ms, now_ms + PAUSE_MS)
        return commands

    def _oldest_trades(self) -> dict[str, int]:
        """Return the time of the oldest unsettled trade of each market."""
        oldest: dict[str, int] = {}
        for held in self.ledger.held.values():
            oldest[held.market] = min(held.traded_ms, oldest.get(held.market, held.traded_ms))
        return oldest

    def _reason(self, market: Market, oldest: dict[str, int], now_ms: int) -> str:
        """Return the rule by which a market must not match now; empty if it may."""
        limit_s = LIMIT_MS // 1_000
        if now_ms - oldest.get(market.id, now_ms) > LIMIT_MS:
            return f"a trade is unsettled for more than {limit_s} s"
        if now_ms - self._seen_ms > LIMIT_MS:
            return f"no block of the chain was seen for more than {limit_s} s"
        return ""


def _nothing(_: int) -> AnyCommand:
    """Have the sequencer write a batch of the commands that precede it."""
    raise NothingToDoError
