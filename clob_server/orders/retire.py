"""Removes markets without trades: for an operator, and unused ones that orders opened.

A removal is three commands, each committed before the next: the market is halted, so that no trade
gets in between; it is resolved, which removes its resting orders; it is removed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from clob import ClobError, Mode, RemoveMarket, SetMode
from clob.signing.fields import received
from clob_server.core.rejections import MarketInUseError
from clob_server.core.sequencer import Sequencer

SWEEP_S: Final = 1.0
"""Seconds between two looks for unused markets."""
SWEEP_MARKETS: Final = 5_000
"""Markets of one look; 2 ms."""


class MarketRemoval:
    """Removes markets.

    Args:
        sequencer: commits the commands.
        clock_ms: returns the confirmed time, Unix milliseconds, or raises ``ClockUnsureError``.
        unused_s: seconds without an event after which a market that an order opened is unused.
        lock: held while the terms of a market change.
    """

    def __init__(
        self, sequencer: Sequencer, clock_ms: Callable[[], int], unused_s: int, lock: asyncio.Lock
    ) -> None:
        self._sequencer = sequencer
        self._state = sequencer.state
        self._clock_ms = clock_ms
        self._unused_ms = unused_s * 1000
        self._lock = lock
        self._waiting: list[str] = []

    def check(self, name: str) -> None:
        """Check that a market may be removed.

        Raises:
            UnknownMarketError: there is no such market.
            MarketInUseError: it had a trade, or has a condition on the chain.
        """
        state = self._state
        state.matcher.market(name)
        if name in state.traded:
            raise MarketInUseError(f"market {received(name)} must have no trades to be removed")
        if name in state.registry.conditions:
            raise MarketInUseError(
                f"market {received(name)} must have no condition on the chain to be removed"
            )

    async def remove(self, name: str) -> None:
        """Remove a market; the caller holds the lock.

        Raises:
            UnknownMarketError, MarketInUseError: as :meth:`check`; the market keeps its mode.
        """
        self.check(name)
        mode = self._state.markets[name].mode
        if mode is not Mode.RESOLVED:
            await self._set_mode(name, Mode.HALTED)
            try:
                self.check(name)
            except MarketInUseError:  # it traded before it was halted
                await self._set_mode(name, mode)
                raise
            await self._set_mode(name, Mode.RESOLVED)
        await self._sequencer.submit(lambda now_ms: RemoveMarket(market=name, now_ms=now_ms))

    async def _set_mode(self, name: str, mode: Mode) -> None:
        await self._sequencer.submit(lambda now_ms: SetMode(market=name, mode=mode, now_ms=now_ms))

    # ----- unused markets ----------------------------------------------------------------------

    def is_unused(self, name: str) -> bool:
        """Return whether an order opened a market that is unused."""
        state, before_ms = self._state, self._clock_ms() - self._unused_ms
        opened = state.registry.opened.get(name)
        return (
            opened is not None
            and opened.now_ms < before_ms
            and state.changed_ms.get(name, 0) < before_ms
            and name in state.markets
            and name not in state.traded
            and name not in state.registry.conditions
        )

    def _next(self) -> list[str]:
        """Return the next markets to look at, oldest first."""
        if not self._waiting:
            self._waiting = list(reversed(self._state.registry.opened))
        names = self._waiting[-SWEEP_MARKETS:]
        del self._waiting[-SWEEP_MARKETS:]
        return names[::-1]

    async def sweep(self) -> None:
        """Remove unused markets one after the other."""
        for name in filter(self.is_unused, self._next()):
            async with self._lock:
                if self.is_unused(name):  # still, after the removals before it
                    with suppress(ClobError):  # the next round tries again
                        await self.remove(name)

    async def run(self) -> None:
        """Remove unused markets, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            with suppress(ClobError):  # the time is not sure
                await self.sweep()
