"""The ticker and candles channels: the newest state of a topic, conflated.

A topic is the ticker of a market, or the candles of a market in an interval. A task looks at the
topics with subscriptions a few times a second. It reads those with new events, and sends the parts
that differ from the last ones; between two looks only the newest state of a part counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from clob import Trade
from clob.errors import UnknownMarketError
from clob.wire.markets import CandleBody, CandlesBody, TickerBody
from clob.wire.messages import CandlesMessage, TickerMessage, Unsubscribed
from clob_server.api.problems import ApiError
from clob_server.core.state import ServerState
from clob_server.feed.broadcast import ScopedSubscription
from clob_server.feed.event_messages import FeedEvent, message_frame
from clob_server.feed.market_stream import MarketStream, NewEvents
from clob_server.feed.subscriber import Subscriber, SubscriptionName

SEND_S: Final = 0.25
"""Seconds between two looks at a topic."""
TOPICS_STEP: Final = 16
"""Topics that are read in one iteration of the event loop; each takes about 50 us."""
MINUTE_MS: Final = 60_000
"""Length of the steps in which the 24 hours of a ticker move on."""

Parts: TypeAlias = dict[tuple[str, int], CandleBody | None]
"""Parts of a topic by token and begin; None for the ticker, and for a token without candles."""
TickerOf: TypeAlias = Callable[[str], Awaitable[TickerBody]]
"""Returns the ticker of a market by its id."""
CandlesOf: TypeAlias = Callable[
    [str, str, Mapping[str, int]], Awaitable[Mapping[str, Sequence[CandleBody]]]
]
"""Returns the candles of each token of a market, oldest first and exact until the next command. Its
arguments are the market's id, the interval, and the begin of the first candle by token; of a token
without one, only the newest candle is returned."""

_TICKER: Final[Parts] = {("", 0): None}


class PacedSubscription(ScopedSubscription):
    """A subscription to a topic, whose name identifies the topic as well."""

    __slots__ = ("name", "subscriber", "unsent")

    def __init__(
        self,
        subscriber: Subscriber,
        name: SubscriptionName,
        leave: Callable[[ScopedSubscription], None],
    ) -> None:
        super().__init__(subscriber, (name[1], None), leave, extended=True)
        self.subscriber: Final = subscriber
        self.name: Final = name
        self.unsent: Parts | None = None
        """Parts that changed since the last message; None before the first one."""

    def has_room(self) -> bool:
        """Return whether the client has read most of the sent data."""
        return self.subscriber.sink.buffered() <= self.subscriber.soft_bytes


class PacedTopic:
    """Base of the topics.

    Args:
        market: the market.
    """

    def __init__(self, market: str) -> None:
        self.market: Final = market
        self.members: Final[dict[ScopedSubscription, PacedSubscription]] = {}
        """The subscriptions."""

    def may_change(self, events: Sequence[FeedEvent]) -> bool:
        """Return whether new events of the market may have changed it."""
        raise NotImplementedError

    async def read(self) -> Parts:
        """Read it; return the parts that changed.

        Raises:
            UnknownMarketError: the market was removed.
            ApiError: RECOVERING, history is too far behind.
        """
        raise NotImplementedError

    def current(self) -> Parts:
        """Return the parts in a first message."""
        raise NotImplementedError

    def encode(self, parts: Parts) -> bytes:
        """Return the message about parts, at the end of :meth:`read`."""
        raise NotImplementedError

    def removed(self, now_ms: int) -> Unsubscribed:
        """Return the last message, after the market was removed."""
        raise NotImplementedError


class TickerTopic(PacedTopic):
    """The ticker of a market."""

    def __init__(self, market: str, ticker: TickerOf) -> None:
        super().__init__(market)
        self._ticker = ticker
        self._body: TickerBody
        self._content: TickerBody | None = None

    def may_change(self, events: Sequence[FeedEvent]) -> bool:
        """Return True: any event may change best prices."""
        return True

    async def read(self) -> Parts:
        """Read the ticker; see :meth:`PacedTopic.read`."""
        self._body = await self._ticker(self.market)
        content = msgspec.structs.replace(self._body, seq=0, timestamp=0)
        is_new, self._content = content != self._content, content
        return _TICKER if is_new else {}

    def current(self) -> Parts:
        """Return the only part."""
        return _TICKER

    def encode(self, parts: Parts) -> bytes:
        """Return the message with the last ticker."""
        body = self._body
        return message_frame(
            TickerMessage(market_id=self.market, seq=body.seq, timestamp=body.timestamp, data=body)
        )

    def removed(self, now_ms: int) -> Unsubscribed:
        """Return the last message, after the market was removed."""
        return Unsubscribed(
            channel="ticker", market_id=self.market, timestamp=now_ms, reason="market_removed"
        )


class CandlesTopic(PacedTopic):
    """The candles of a market in an interval."""

    def __init__(
        self,
        state: ServerState,
        name: SubscriptionName,
        candles: CandlesOf,
        clock_ms: Callable[[], int],
    ) -> None:
        _, market, scale = name
        super().__init__(market)
        self._interval, _, self._token = scale.partition(" ")
        self._state = state
        self._candles = candles
        self._clock_ms = clock_ms
        self._newest: dict[str, CandleBody | None] = {}

    def may_change(self, events: Sequence[FeedEvent]) -> bool:
        """Return whether there are trades."""
        return any(isinstance(each.event, Trade) for each in events)

    async def read(self) -> Parts:
        """Read the candles since the newest known ones; see :meth:`PacedTopic.read`."""
        begins = {token: each.timestamp if each else 0 for token, each in self._newest.items()}
        found = await self._candles(self.market, self._interval, begins)
        parts: Parts = {}
        for token, candles in found.items():
            if self._token in ("", token):
                newest = self._newest.get(token)
                parts |= {(token, each.timestamp): each for each in candles if each != newest}
                self._newest[token] = candles[-1] if candles else None
        return parts

    def current(self) -> Parts:
        """Return the newest candle of each token."""
        return {
            (token, each.timestamp if each else 0): each for token, each in self._newest.items()
        }

    def encode(self, parts: Parts) -> bytes:
        """Return a message per token with its candles."""
        by_token: dict[str, list[CandleBody]] = {}
        for (token, _), candle in sorted(parts.items(), key=lambda part: part[0]):
            by_token.setdefault(token, []).extend([] if candle is None else [candle])
        return b"".join(
            message_frame(self._message(token, candles)) for token, candles in by_token.items()
        )

    def _message(self, token: str, candles: list[CandleBody]) -> CandlesMessage:
        """Return the message about candles of a token."""
        return CandlesMessage(
            market_id=self.market,
            token_id=token,
            seq=self._state.matcher.seq(self.market),
            timestamp=self._clock_ms(),
            data=CandlesBody(
                market_id=self.market, token_id=token, interval=self._interval, candles=candles
            ),
        )

    def removed(self, now_ms: int) -> Unsubscribed:
        """Return the last message, after the market was removed."""
        return Unsubscribed(
            channel="candles",
            market_id=self.market,
            interval=self._interval,
            token_id=self._token or None,
            timestamp=now_ms,
            reason="market_removed",
        )


class PacedChannel:
    """Subscriptions to tickers and candles.

    Args:
        state: the server's state.
        ticker: returns tickers.
        candles: returns candles.
        clock_ms: returns the server's time, Unix milliseconds.
    """

    def __init__(
        self,
        state: ServerState,
        ticker: TickerOf,
        candles: CandlesOf,
        clock_ms: Callable[[], int],
    ) -> None:
        self._state = state
        self._ticker = ticker
        self._candles = candles
        self._clock_ms = clock_ms
        self._task: asyncio.Task[None] | None = None
        self.topics: dict[SubscriptionName, PacedTopic] = {}
        """The topics with subscriptions."""
        self._of_market: dict[str, list[PacedTopic]] = {}
        self.due: dict[PacedTopic, None] = {}
        """The topics that may have changed since the last look."""
        self._minute = 0

    def close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()

    def join(self, subscription: PacedSubscription) -> None:
        """Add a subscription; it receives the first message within about ``SEND_S``."""
        topic = self.topics.get(subscription.name)
        if topic is None:
            topic = self.topics[subscription.name] = self._topic(subscription.name)
            self._of_market.setdefault(topic.market, []).append(topic)
        topic.members[subscription] = subscription
        self.due[topic] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_periodically())

    def _topic(self, name: SubscriptionName) -> PacedTopic:
        """Return a new topic."""
        channel, market, *_ = name
        if channel == "ticker":
            return TickerTopic(market, self._ticker)
        return CandlesTopic(self._state, name, self._candles, self._clock_ms)

    def leave(self, subscription: ScopedSubscription) -> None:
        """Remove a subscription."""
        assert isinstance(subscription, PacedSubscription)
        topic = self.topics[subscription.name]
        del topic.members[subscription]
        if not topic.members:
            del self.topics[subscription.name]
            self.due.pop(topic, None)
            of_market = self._of_market[topic.market]
            of_market.remove(topic)
            if not of_market:
                del self._of_market[topic.market]

    def on_events(self, new: NewEvents, conflated: Collection[MarketStream]) -> None:
        """Note the topics with new events."""
        if self.topics:
            for stream, events in new.items():
                for topic in self._of_market.get(stream.market, ()):
                    if topic.may_change(events):
                        self.due[topic] = None
            self.on_changes(each.market for each in conflated)

    def on_changes(self, markets: Iterable[str]) -> None:
        """Read the topics of markets again at the next look."""
        for market in markets:
            for topic in self._of_market.get(market, ()):
                self.due[topic] = None

    def on_market_removed(self, stream: MarketStream) -> None:
        """End the subscriptions to a market that was removed."""
        for topic in tuple(self._of_market.get(stream.market, ())):
            message = topic.removed(self._clock_ms())
            for member in tuple(topic.members.values()):
                member.subscriber.remove(member.name)
                member.client.send(message)

    async def _send_periodically(self) -> None:
        """Send new states while there are subscriptions."""
        while self.topics:
            await self.look()
            await asyncio.sleep(SEND_S)
        self._task = None

    async def look(self) -> None:
        """Send the topics that may have changed."""
        for number, topic in enumerate(self._take_due(), 1):
            if topic.members:
                await self._send(topic)
            if number % TOPICS_STEP == 0:
                await asyncio.sleep(0)

    def _take_due(self) -> Iterable[PacedTopic]:
        """Return the topics to read now: also all tickers once their 24 hours have moved on."""
        due, self.due = self.due, {}
        minute, self._minute = self._minute, self._clock_ms() // MINUTE_MS
        if minute != self._minute:
            tickers = (each for each in self.topics.values() if isinstance(each, TickerTopic))
            due.update(dict.fromkeys(tickers))
        return due

    async def _send(self, topic: PacedTopic) -> None:
        """Send the parts of a topic to the members that lack them."""
        try:
            changed = await topic.read()
        except UnknownMarketError:  # its subscriptions have ended
            return
        except ApiError:  # history is behind
            self.due[topic] = None
            return
        frames: dict[tuple[tuple[str, int], ...], bytes] = {}
        for member in tuple(topic.members.values()):
            unsent = topic.current() if member.unsent is None else member.unsent | changed
            if unsent and member.has_room():
                names = tuple(unsent)
                if names not in frames:
                    frames[names] = topic.encode(unsent)
                member.unsent = {}
                member.client.send_frames(frames[names])
            elif unsent:  # sent once the client has read
                member.unsent = None if member.unsent is None else unsent
                self.due[topic] = None
