"""One WebSocket: what it subscribed to, and what may wait for it."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from clob_server.calls import Send
from clob_server.commands import Key
from clob_server.feed.happenings import frame_of
from clob_server.feed.messages import POLICY, Message
from clob_server.feed.settlements import SettlementSubscription
from clob_server.feed.sinks import Sink
from clob_server.feed.subscriptions import BookSubscription
from clob_server.feed.users import UserSubscription

if TYPE_CHECKING:
    from clob_server.feed.feed import Feed

CLOSE_S: Final = 1.0
"""How long a client may take to read that he is closed."""
MINUTE_S: Final = 60
"""The time in which messages are counted."""
REASON_MAX: Final = 120
"""How long the reason of a close may be, in bytes."""

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

    def __init__(self, feed: "Feed", sink: Sink, send: Send, key: Key | None) -> None:
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
