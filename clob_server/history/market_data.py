"""Candles and tickers of markets, from the file and the trades that it does not contain yet.

All are exact until the next command: their callers may read the state with them.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from clob import Market, Trade
from clob.wire.markets import CandleBody, TickerBody
from clob_server.core.settlement_status import StatusChange, settled_as
from clob_server.core.state import ServerState
from clob_server.history.candles import (
    INTERVALS_MS,
    Candle,
    CandleRange,
    UnwrittenTrades,
    candle_body,
    with_trades,
)
from clob_server.history.open_interest import FAILED, unsettled_sizes
from clob_server.history.store import StoreReader
from clob_server.history.ticker import (
    NOTHING,
    MarketDay,
    StoredMarket,
    read_days,
    ticker_body,
    tokens_of,
    window_begin,
)

CANDLES_MAX: Final = 1_000
"""Candles that may change between two readings of :meth:`MarketData.candles_since`."""
TIME_MAX_MS: Final = 2**53
"""More than any time."""
MARKETS_STEP: Final = 16
"""Markets whose tickers are made in one iteration of the event loop; each takes about 10 us."""

_T = TypeVar("_T")


class HistoryFile(Protocol):
    """The history file."""

    async def wait_for(self, seq: int) -> None:
        """Wait until it contains a command.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """

    async def read(self, query: Callable[[StoreReader], _T], seq: int) -> _T:
        """Run a query in the reader thread, on a file that contains a command.

        Raises:
            ApiError: RECOVERING, it cannot be read, or lacks the command.
        """
        raise NotImplementedError


class MarketData:
    """Candles and tickers.

    Args:
        past: the history file.
        state: the server's state.
        unwritten: the trades that the file may lack.
    """

    def __init__(self, past: HistoryFile, state: ServerState, unwritten: UnwrittenTrades) -> None:
        self._past = past
        self._state = state
        self._unwritten = unwritten
        self._days: dict[str, MarketDay] = {}
        self._failed_seq = 0

    def add_trades(self, trades: Iterable[tuple[int, Trade, int]]) -> None:
        """Add the trades of a batch that was applied: number, trade and time."""
        for number, trade, now_ms in trades:
            if trade.market in self._days:
                self._add_to_day(trade, now_ms, number)

    def on_status(self, change: StatusChange, seq: int) -> None:
        """Follow a change of settlement in a batch that ends with command ``seq``."""
        if FAILED in (change.fate.settlement, change.before.settlement):
            self._failed_seq = seq
        if (day := self._days.get(change.held.market)) is not None:
            day.interest.on_status(change)

    def _add_to_day(self, trade: Trade, now_ms: int, number: int) -> None:
        """Add a trade to the day of its market, unless the market was removed or replaced."""
        market = self._state.markets.get(trade.market)
        day = None if market is None else self._known_day(market)
        if day is None:
            del self._days[trade.market]
        else:
            settles = trade.market in self._state.settles
            day.add(trade, now_ms, settled_as(trade, number) if settles else 0)

    # ----- candles ---------------------------------------------------------------------------

    async def candles(self, wanted: Sequence[CandleRange]) -> list[list[Candle]]:
        """Return the candles of ranges, oldest first; all exact until the next command.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        unwritten, is_exact = self._unwritten, False
        stored: Sequence[list[Candle]] = [[] for _ in wanted]
        seq = 0
        while not is_exact:
            await self._past.wait_for(unwritten.after)
            if unwritten.after:  # else nothing is in the file only
                find = partial(StoreReader.candles, wanted=wanted)
                seq, stored = await self._past.read(find, unwritten.after)
            is_exact = unwritten.after <= seq  # else the file has grown since it was read
        found = []
        for each, candles in zip(wanted, stored, strict=True):
            trades = unwritten.of_token(each.market, each.token)
            found.append(
                with_trades(candles, [trade for trade in trades if trade.command_seq > seq], each)
            )
        return found

    async def candles_since(
        self, market: str, interval: str, begins: Mapping[str, int]
    ) -> dict[str, list[CandleBody]]:
        """Return candles of each token of a market, oldest first; exact until the next command.

        Args:
            market: its id.
            interval: name of the interval.
            begins: begin of the first candle by token, Unix milliseconds; of a token without one,
                only the newest candle is returned.

        Raises:
            UnknownMarketError: the market does not exist.
            ApiError: RECOVERING, history is too far behind.
        """
        tokens = tokens_of(self._state.matcher.market(market))
        wanted = [
            CandleRange(
                market,
                token,
                INTERVALS_MS[interval],
                begins.get(token, 0),
                TIME_MAX_MS,
                CANDLES_MAX if token in begins else 1,
                newest=True,
            )
            for token in tokens
        ]
        found = await self.candles(wanted)
        return {
            token: [candle_body(each) for each in candles]
            for token, candles in zip(tokens, found, strict=True)
        }

    # ----- tickers ---------------------------------------------------------------------------

    async def day(self, market: str) -> MarketDay:
        """Return the trades of a market in the last 24 hours, exact until the next command.

        Raises:
            UnknownMarketError: the market does not exist.
            ApiError: RECOVERING, history is too far behind.
        """
        while (day := self._known_day(self._state.matcher.market(market))) is None:
            await self._read_days([market])
        return day

    def _known_day(self, market: Market) -> MarketDay | None:
        """Return the trades of a market in the last 24 hours, if they were read before."""
        day = self._days.get(market.id)
        return day if day is not None and day.is_of(market) else None

    async def _read_days(self, names: Iterable[str]) -> None:
        """Read the last 24 hours of markets; nothing is kept if the file grows meanwhile.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        unwritten, markets, state = self._unwritten, self._state.markets, self._state
        seq = max(unwritten.after, self._failed_seq)
        await self._past.wait_for(seq)
        chosen = [markets[name] for name in names if name in markets]
        stored: Sequence[StoredMarket] = [NOTHING] * len(chosen)
        if seq:  # else nothing is in the file only
            find = partial(read_days, markets=chosen, since_ms=window_begin(state.now_ms))
            seq, stored = await self._past.read(find, seq)
        if max(unwritten.after, self._failed_seq) > seq:
            return
        wanted = {market.id for market in chosen}
        later = unwritten.of_markets(wanted, seq)
        sizes = unsettled_sizes(state.registry.settling, wanted & state.settles)
        for market, found in zip(chosen, stored, strict=True):
            if markets.get(market.id) == market:  # else its NO token has got its id
                self._days[market.id] = MarketDay(
                    market, found, later.get(market.id, ()), sizes.get(market.id, {})
                )

    async def ticker(self, market: str, clock_ms: Callable[[], int]) -> TickerBody:
        """Return the ticker of a market, with all commands until now.

        Raises:
            UnknownMarketError: the market does not exist.
            ApiError: RECOVERING, history is too far behind.
        """
        day, state = await self.day(market), self._state
        now_ms = max(clock_ms(), state.now_ms)
        return ticker_body(state, state.matcher.market(market), day, now_ms)

    async def tickers(self, names: Sequence[str], clock_ms: Callable[[], int]) -> list[TickerBody]:
        """Return the tickers of markets that exist, ``MARKETS_STEP`` in a step of the event loop.

        Each is exact at its own ``seq``; a market that is removed meanwhile is left out.

        Raises:
            ApiError: RECOVERING, history is too far behind.
        """
        markets, bodies = self._state.markets, list[TickerBody]()
        for first in range(0, len(names), MARKETS_STEP):
            part = names[first : first + MARKETS_STEP]
            while missing := [
                name for name in part if name in markets and not self._known_day(markets[name])
            ]:
                await self._read_days(missing)
            bodies += [await self.ticker(name, clock_ms) for name in part if name in markets]
            await asyncio.sleep(0)
        return bodies
