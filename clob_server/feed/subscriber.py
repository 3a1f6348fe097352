"""One WebSocket: what it subscribed to, and what may wait for it."""

import asyncio
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from clob_server.api.request import Send
from clob_server.core.commands import ApiKey
from clob_server.feed.broadcast import EVENTS_MAX, ClientSink, Group
from clob_server.feed.event_messages import frame_of, heard
from clob_server.feed.market_stream import MarketStream
from clob_server.feed.messages import POLICY, Message
from clob_server.feed.settlement_channel import SettlementSubscription
from clob_server.feed.user_channel import UserSubscription

if TYPE_CHECKING:
    from clob_server.feed.feed import Feed


CLOSE_S: Final = 1.0
"""How long a client may take to read that he is closed."""
MINUTE_S: Final = 60
"""The time in which messages are counted."""
REASON_MAX: Final = 120
"""How long the reason of a close may be, in bytes."""


class BookSubscription:
    """A follower of a market. While he is behind, what happens is not told to him.

    Args:
        feed: what he follows.
        subscriber: who he is.
        market: the market, which need not exist yet.
        token: the only token he wants to hear of; None is both.
        extended: if he understands more than the specification's messages.
    """

    __slots__ = (
        "_feed",
        "_group",
        "_resume_after",
        "_stream",
        "buffered",
        "extended",
        "market",
        "seq",
        "soft_bytes",
        "subscriber",
        "tell",
        "token",
        "write",
    )

    def __init__(
        self,
        feed: "Feed",
        subscriber: "Subscriber",
        market: str,
        token: str | None,
        *,
        extended: bool,
    ) -> None:
        self.subscriber: Final = subscriber
        self.market: Final = market
        self.token: Final = token
        self.extended: Final = extended
        self.seq: int = BEHIND
        """The number of the last event he was told when he had caught up."""
        self.soft_bytes: Final = feed.settings.ws_soft_bytes
        self.tell: Final = subscriber.sink.tell
        self.write: Final = subscriber.sink.write
        self.buffered: Final = subscriber.sink.buffered
        self._feed = feed
        self._group: Group | None = None
        self._stream: MarketStream | None = None
        self._resume_after: int | None = None

    def follow(self, stream: MarketStream, resume_after: int | None) -> bool:
        """Begin to follow a market, as one who is behind.

        Args:
            stream: the market.
            resume_after: the number of the last event he has, if he has any.

        Returns:
            If he can go on from there, and needs no snapshot.
        """
        self._join(stream)
        if resume_after is not None and stream.since(resume_after, 0) is not None:
            self._resume_after = resume_after
        self.fall_behind()
        return self._resume_after is not None

    def follow_from_start(self, stream: MarketStream) -> None:
        """Begin to follow a market that opens now, and of which nothing was told yet."""
        self._join(stream)
        self.seq = 0

    def _join(self, stream: MarketStream) -> None:
        """Follow a market with all who follow it in the same way."""
        self._stream = stream
        self._group = stream.group(extended=self.extended, token=self.token)
        self._group.join(self)

    def fall_behind(self) -> None:
        """Be told nothing more until there is room for it."""
        self.seq = BEHIND
        self.subscriber.fell_behind(self)

    def catch_up(self) -> bool:
        """Be told what is missing, or a part of it; say if he is behind no longer."""
        stream, after = self._stream, self._resume_after
        assert stream is not None
        missing = None if after is None else stream.since(after, EVENTS_MAX)
        if missing is None:
            self.write(self._feed.snapshots.frames(stream.market, self.token))
            self._resume_after = stream.seq
        elif missing:
            write = self._feed.writer.frames
            told = (heard(each, self.token) for each in missing)
            self.write(b"".join(write(each, extended=self.extended) for each in told if each))
            self._resume_after = missing[-1].event.seq
        if self._resume_after != stream.seq or self.buffered() > self.soft_bytes:
            return False
        self._resume_after = None
        self.seq = stream.seq
        assert self._group is not None
        self._group.last = None  # what is in line already is not for him
        return True

    def end(self) -> None:
        """Follow no longer."""
        self.seq = BEHIND
        if self._group is None:
            self._feed.wait_no_longer(self)
        else:
            self._group.leave(self)


Subscription: TypeAlias = BookSubscription | UserSubscription | SettlementSubscription
"""Something that somebody wants to hear of."""
Name: TypeAlias = tuple[str, str, str]
"""A subscription: channel, market, maker."""


class Subscriber:
    """One WebSocket.

    Args:
        feed: what it is about.
        sink: where frames go.
        send: how ASGI takes a message.
        key: the API key it came with.
    """

    def __init__(self, feed: "Feed", sink: ClientSink, send: Send, key: ApiKey | None) -> None:
        self.sink: Final = sink
        self.key: Final = key
        self.extended = False
        """If it said that it understands more than the specification's messages."""
        self.subscriptions: Final[dict[Name, Subscription]] = {}
        self.behind: Final[dict[BookSubscription, None]] = {}
        """The subscriptions that are behind, the one to be served first first."""
        self._feed = feed
        self._settings = feed.settings
        self._send = send
        self._heard_at: deque[float] = deque(maxlen=self._settings.ws_messages_per_minute)
        self._closing: asyncio.Task[None] | None = None
        sink.drained = self.drained

    @property
    def is_open(self) -> bool:
        """If it is not being closed."""
        return self._closing is None

    # ----- what comes in ---------------------------------------------------------------------

    def may_say(self, now: float) -> bool:
        """Count a message; say if it is not one too many in a minute."""
        heard = self._heard_at
        is_full = len(heard) == heard.maxlen and now - heard[0] < MINUTE_S
        heard.append(now)
        return not is_full

    def add(self, name: Name, subscription: Subscription) -> None:
        """Begin a subscription."""
        self.subscriptions[name] = subscription
        self._feed.idle.pop(self, None)

    def remove(self, name: Name) -> None:
        """End a subscription, if there is one of that name."""
        subscription = self.subscriptions.pop(name, None)
        if subscription is None:
            return
        subscription.end()
        if isinstance(subscription, BookSubscription):
            self.behind.pop(subscription, None)
        if not self.subscriptions:
            self._feed.idle[self] = self._feed.time()

    # ----- what goes out ---------------------------------------------------------------------

    def say(self, message: Message) -> None:
        """Send a message that is not left out, however slow the client is."""
        self.push(frame_of(message))

    def push(self, frames: bytes) -> None:
        """Send frames that are not left out; who has too many waiting is dropped instead."""
        num_buffered = self.sink.buffered()
        if num_buffered > self._settings.ws_hard_bytes:
            self.end(POLICY, f"too slow: {num_buffered} bytes wait")
            return
        self.sink.write(frames)
        if num_buffered > self._settings.ws_soft_bytes:
            self._feed.crowded.setdefault(self, self._feed.time())

    def fell_behind(self, subscription: BookSubscription) -> None:
        """Hear that a subscription is behind."""
        self.behind[subscription] = None
        self._feed.crowded.setdefault(self, self._feed.time())

    def drained(self) -> None:
        """Hear that little waits, and send what was left out."""
        self._feed.crowded.pop(self, None)
        if self.behind:
            self.catch_up()

    def catch_up(self) -> None:
        """Bring subscriptions to the end of their markets, as long as there is room."""
        behind, sink, soft_bytes = self.behind, self.sink, self._settings.ws_soft_bytes
        while behind and sink.buffered() <= soft_bytes:
            subscription = next(iter(behind))
            if subscription.catch_up():
                del behind[subscription]
        if behind:
            self._feed.crowded.setdefault(self, self._feed.time())
        else:
            self._feed.crowded.pop(self, None)

    # ----- the end ---------------------------------------------------------------------------

    def end(self, code: int, reason: str) -> None:
        """Close it, and break it off if the client does not read even that."""
        if self._closing is None:
            self.leave()
            self._closing = asyncio.get_running_loop().create_task(self._close(code, reason))

    def leave(self) -> None:
        """End all subscriptions."""
        for subscription in self.subscriptions.values():
            subscription.end()
        self.subscriptions.clear()
        self.behind.clear()
        self.sink.drained = None
        self._feed.crowded.pop(self, None)
        self._feed.idle.pop(self, None)

    async def _close(self, code: int, reason: str) -> None:
        """Say why, and see that nothing is kept of what he does not read."""
        reason = reason.encode()[:REASON_MAX].decode(errors="ignore")
        with suppress(Exception):  # he has gone, or does not read
            async with asyncio.timeout(CLOSE_S):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                while self.sink.buffered():
                    await asyncio.sleep(CLOSE_S / 10)
            return
        self.sink.abort()


BEHIND: Final = sys.maxsize
"""The number of a follower who is behind, so that nothing in line is for him."""


# MERGED clob_server.feed.subscriber: One follower of one market: at its end, or behind it and about to be brought there.
