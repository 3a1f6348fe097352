"""The ticker channel: the newest ticker of a market, conflated.

A task looks at the markets with subscriptions a few times a second. It sends the ticker of those
with new events, if it differs from the last one; between two looks only the newest state counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec

from clob.errors import UnknownMarketError
from clob_server.api.problems import ApiError
from clob_server.api.ticker_schemas import TickerBody
from clob_server.feed.broadcast import ScopedSubscription
from clob_server.feed.event_messages import message_frame
from clob_server.feed.market_stream import MarketStream, NewEvents
from clob_server.feed.messages import TickerMessage, Unsubscribed
from clob_server.feed.subscriber import Subscriber

SEND_S: Final = 0.25
"""Seconds between two tickers of a market."""
MINUTE_MS: Final = 60_000
"""Length of the steps in which the 24 hours of a ticker move on."""


class TickerSubscription(ScopedSubscription):
    """A subscription to this channel."""

    __slots__ = ("has_newest", "subscriber")

    def __init__(
        self, subscriber: Subscriber, market: str, leave: Callable[[ScopedSubscription], None]
    ) -> None:
        super().__init__(subscriber, (market, None), leave, extended=True)
        self.subscriber: Final = subscriber
        self.has_newest: bool = False
        """Whether the last ticker of the market was sent to it."""

    def has_room(self) -> bool:
        """Return whether the client has read most of what was sent."""
        return self.subscriber.sink.buffered() <= self.subscriber.soft_bytes


class WatchedMarket:
    """A market with subscriptions."""

    __slots__ = ("content", "has_events", "members", "minute")

    def __init__(self) -> None:
        self.members: Final[dict[ScopedSubscription, TickerSubscription]] = {}
        self.has_events: bool = True
        """Whether it has events that the last ticker lacks."""
        self.minute: int = 0
        """The minute of the last ticker."""
        self.content: TickerBody | None = None
        """The last ticker, with number and time 0."""


class TickerChannel:
    """Subscriptions to tickers.

    Args:
        ticker: returns the ticker of a market by its id.
        clock_ms: returns the server's time, Unix milliseconds.
    """

    def __init__(
        self, ticker: Callable[[str], Awaitable[TickerBody]], clock_ms: Callable[[], int]
    ) -> None:
        self._ticker = ticker
        self._clock_ms = clock_ms
        self._task: asyncio.Task[None] | None = None
        self.markets: dict[str, WatchedMarket] = {}
        """The markets with subscriptions."""

    def close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()

    def join(self, subscription: TickerSubscription) -> None:
        """Add a subscription; it receives the ticker within about ``SEND_S``."""
        market, _ = subscription.scope
        watched = self.markets.setdefault(market or "", WatchedMarket())
        watched.members[subscription] = subscription
        watched.has_events = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_periodically())

    def leave(self, subscription: ScopedSubscription) -> None:
        """Remove a subscription."""
        market, _ = subscription.scope
        watched = self.markets[market or ""]
        del watched.members[subscription]
        if not watched.members:
            del self.markets[market or ""]

    def on_events(self, new: NewEvents, conflated: Collection[MarketStream]) -> None:
        """Note the markets with new events."""
        if self.markets:
            for stream in (*new, *conflated):
                if (watched := self.markets.get(stream.market)) is not None:
                    watched.has_events = True

    def on_market_removed(self, stream: MarketStream) -> None:
        """End the subscriptions to a market that was removed."""
        watched = self.markets.get(stream.market)
        for member in () if watched is None else tuple(watched.members.values()):
            member.subscriber.remove(("ticker", stream.market, ""))
            member.client.send(
                Unsubscribed(
                    channel="ticker",
                    market_id=stream.market,
                    timestamp=self._clock_ms(),
                    reason="market_removed",
                )
            )

    async def _send_periodically(self) -> None:
        """Send new tickers while there are subscriptions."""
        while self.markets:
            for market, watched in tuple(self.markets.items()):
                await self._send(market, watched)
            await asyncio.sleep(SEND_S)
        self._task = None

    async def _send(self, market: str, watched: WatchedMarket) -> None:
        """Send the ticker of a market to the members that lack it."""
        minute = self._clock_ms() // MINUTE_MS
        if not watched.has_events and watched.minute == minute:
            return
        watched.has_events, watched.minute = False, minute
        try:
            body = await self._ticker(market)
        except UnknownMarketError:  # its subscriptions have ended
            return
        except ApiError:  # history is behind
            watched.has_events = True
            return
        content = msgspec.structs.replace(body, seq=0, timestamp=0)
        is_new = content != watched.content
        watched.content = content
        frame = message_frame(
            TickerMessage(market_id=market, seq=body.seq, timestamp=body.timestamp, data=body)
        )
        for member in tuple(watched.members.values()):
            member.has_newest = member.has_newest and not is_new
            if not member.has_newest and member.has_room():
                member.has_newest = True
                member.client.send_frames(frame)
            elif not member.has_newest:  # sent once the client has read
                watched.has_events = True
