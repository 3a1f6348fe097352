"""WebSocket connections: their subscriptions, buffers and limits."""

import asyncio
import sys
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeAlias

from clob.wire.messages import POLICY, RESTART, Message, Unsubscribed
from clob_server.api.request import Send
from clob_server.core.commands import ApiKey
from clob_server.feed.broadcast import EVENTS_MAX, ClientSink, Group, PacedQueue, loop_time
from clob_server.feed.event_messages import EventEncoder, for_token, message_frame
from clob_server.feed.market_stream import BookSnapshots, MarketStream
from clob_server.settings import Settings

CLOSE_S: Final = 1.0
"""Seconds a client has to read the close frame before the connection is aborted."""
MINUTE_S: Final = 60
"""Window of the message rate limit, in seconds."""
REASON_MAX: Final = 120
"""Longest reason of a close frame, in bytes."""
CATCH_UPS_MAX: Final = 8
"""Snapshots, or parts of ``EVENTS_MAX`` missing events, sent per iteration of the event loop."""
BEHIND: Final = sys.maxsize
"""``seq`` of a subscription that skips events: no delivery starts after it."""

SubscriptionName: TypeAlias = tuple[str, str, str]
"""Identity of a subscription: channel, market, and maker or scale of the candles."""


class Subscription(Protocol):
    """A subscription of any channel."""

    def end(self) -> None:
        """End the subscription."""


class Subscriber:
    """One WebSocket connection, which adds itself to all ``connections``."""

    def __init__(
        self,
        connections: "Subscribers",
        sink: ClientSink,
        send: Send,
        key: ApiKey | None,
        address: str,
    ) -> None:
        self.sink: Final = sink
        self.key: Final = key
        self.address: Final = address
        """The address that the limits of a client without a key count for."""
        self.extended = False
        """Whether the client asked for the extended messages."""
        self.subscriptions: Final[dict[SubscriptionName, Subscription]] = {}
        self.keys: Final[dict[SubscriptionName, ApiKey]] = {}
        """Keys of the subscriptions that need one, each its own or that of the handshake."""
        self.behind: Final[dict[BookSubscription, None]] = {}
        """Book subscriptions that skip events, in the order in which they catch up."""
        settings = connections.settings
        self.soft_bytes: Final = settings.ws_soft_bytes
        """Unread bytes beyond which book events are skipped."""
        self._hard_bytes: Final = settings.ws_hard_bytes
        self._connections: Final = connections
        self._send = send
        self._received_at: deque[float] = deque(maxlen=settings.ws_messages_per_minute)
        self._closing: asyncio.Task[None] | None = None
        self._is_catching_up = False
        self._is_used = False
        sink.drained = self.on_drained
        connections.add(self)

    @property
    def is_open(self) -> bool:
        """Whether the connection is not being closed."""
        return self._closing is None

    # ----- receiving -------------------------------------------------------------------------

    def count_message(self, now: float) -> bool:
        """Count a received message; return whether it is within the rate limit."""
        received = self._received_at
        is_over = len(received) == received.maxlen and now - received[0] < MINUTE_S
        received.append(now)
        return not is_over

    def replace(
        self, name: SubscriptionName, subscription: Subscription, key: ApiKey | None = None
    ) -> None:
        """Add a subscription with its key, and end the one with the same name."""
        self.remove(name)
        self.subscriptions[name] = subscription
        if key is not None:
            self.keys[name] = key
        self._connections.idle.pop(self, None)

    def set_used(self) -> None:
        """Note that a request was accepted; the connection then needs no subscription."""
        if not self._is_used:
            self._is_used = True
            self._connections.idle.pop(self, None)

    def remove(self, name: SubscriptionName) -> None:
        """End a subscription; do nothing if it does not exist."""
        self.keys.pop(name, None)
        subscription = self.subscriptions.pop(name, None)
        if subscription is None:
            return
        subscription.end()
        if isinstance(subscription, BookSubscription):
            self.behind.pop(subscription, None)
        if not self.subscriptions and not self._is_used:
            self._connections.idle[self] = loop_time()

    # ----- sending ---------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Send a message; close the connection if its buffer is full."""
        self.send_frames(message_frame(message))

    def send_frames(self, frames: bytes) -> None:
        """Send encoded messages; close the connection if its buffer is full."""
        num_buffered = self.sink.buffered()
        if num_buffered > self._hard_bytes:
            self.close(POLICY, f"too slow: {num_buffered} bytes unread")
            return
        self.sink.write(frames)
        if num_buffered > self.soft_bytes:
            self._connections.set_slow(self)

    def set_slow(self) -> None:
        """Note that the client reads slowly, so that it is checked later."""
        self._connections.set_slow(self)

    def on_drained(self) -> None:
        """Bring subscriptions up to date after the client has read its buffer."""
        self._connections.slow.pop(self, None)
        if self.behind:
            self.catch_up()

    def catch_up(self, *, now: bool = True) -> None:
        """Bring subscriptions up to date while the buffer has room, in turn with other clients.

        Args:
            now: begin at once; False where the caller does the same for many clients.
        """
        if not self._is_catching_up:
            self._is_catching_up = True
            self._connections.catching_up.add(self, now=now)

    def catch_up_once(self) -> bool:
        """Send one part of the missing events; return whether to continue."""
        behind, has_room = self.behind, self.sink.buffered() <= self.soft_bytes
        if behind and has_room:
            subscription = next(iter(behind))
            if subscription.catch_up():
                behind.pop(subscription, None)
            has_room = self.sink.buffered() <= self.soft_bytes
        self._is_catching_up = bool(behind) and has_room
        if not behind:
            self._connections.slow.pop(self, None)
        elif not has_room:
            self._connections.set_slow(self)
        return self._is_catching_up

    # ----- closing ---------------------------------------------------------------------------

    def close(self, code: int, reason: str) -> None:
        """Close the connection; abort it if the client does not read the close frame."""
        if self._closing is None:
            self.end_subscriptions()
            self._closing = asyncio.get_running_loop().create_task(self._close(code, reason))

    def end_subscriptions(self) -> None:
        """End all subscriptions."""
        for subscription in self.subscriptions.values():
            subscription.end()
        self.subscriptions.clear()
        self.keys.clear()
        self.behind.clear()
        self.sink.drained = None
        self._connections.slow.pop(self, None)
        self._connections.idle.pop(self, None)

    async def _close(self, code: int, reason: str) -> None:
        reason = reason.encode()[:REASON_MAX].decode(errors="ignore")
        with suppress(Exception):  # disconnected, or does not read
            async with asyncio.timeout(CLOSE_S):
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                while self.sink.buffered():
                    await asyncio.sleep(CLOSE_S / 10)
            return
        self.sink.abort()


class CatchUpQueue(PacedQueue[Subscriber]):
    """Clients that get snapshots or missing events, in turn."""

    def _write(self) -> None:
        queue = self._queue
        for _ in range(CATCH_UPS_MAX):
            if not queue:
                break
            subscriber = queue.popleft()
            if subscriber.catch_up_once():
                queue.append(subscriber)


class Subscribers:
    """All open connections, and those that read slowly or have no subscription."""

    def __init__(self, settings: Settings) -> None:
        self.settings: Final = settings
        self.slow: Final[dict[Subscriber, float]] = {}
        """Connections with more than ``ws_soft_bytes`` unread, and since when (loop time)."""
        self.idle: Final[dict[Subscriber, float]] = {}
        """Connections without a subscription, and since when (loop time)."""
        self.catching_up: Final = CatchUpQueue()
        """Connections that get snapshots or missing events."""
        self._open: set[Subscriber] = set()

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    @property
    def num_behind(self) -> int:
        """Number of connections that skip events."""
        return sum(bool(each.behind) for each in self.slow)

    @property
    def buffered_bytes(self) -> int:
        """Unread bytes of all connections."""
        return sum(each.sink.buffered() for each in self._open)

    def add(self, subscriber: Subscriber) -> None:
        """Add a connection without subscriptions."""
        self._open.add(subscriber)
        self.idle[subscriber] = loop_time()

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a connection that has closed."""
        subscriber.end_subscriptions()
        self._open.discard(subscriber)

    def set_slow(self, subscriber: Subscriber) -> None:
        """Note that a connection reads slowly."""
        self.slow.setdefault(subscriber, loop_time())

    def close_all(self, code: int, reason: str) -> None:
        """Close every connection."""
        for subscriber in tuple(self._open):
            subscriber.close(code, reason)

    def close_key(self, key_id: str) -> None:
        """Close the connections of a deactivated key, and those with a subscription of it."""
        for subscriber in tuple(self._open):
            keys = (subscriber.key, *subscriber.keys.values())
            if any(key is not None and key.id == key_id for key in keys):
                subscriber.close(POLICY, "INVALID_API_KEY: the key was deactivated")

    def check_slow(self, now: float) -> None:
        """Bring connections up to date whose buffer has room; close those that are slow for long.

        The transport reports a drained buffer only if it was above its own limit before.
        """
        stall_s = self.settings.ws_stall_timeout_s
        for subscriber, since in tuple(self.slow.items()):
            if subscriber.sink.buffered() <= self.settings.ws_soft_bytes:
                self.slow.pop(subscriber, None)
                subscriber.catch_up(now=False)
            elif now - since > stall_s:
                subscriber.close(POLICY, f"too slow: buffer unread for {stall_s} s")

    def check_idle(self, now: float) -> None:
        """Close connections that are without a subscription for too long."""
        idle_s = self.settings.ws_subscribe_timeout_s
        for subscriber, since in tuple(self.idle.items()):
            if now - since > idle_s:
                subscriber.close(POLICY, f"no subscription within {idle_s} s")


# ----- books ---------------------------------------------------------------------------------


class PendingMarkets:
    """Subscriptions to markets that do not exist yet."""

    def __init__(self) -> None:
        self.by_market: Final[dict[str, list[BookSubscription]]] = {}

    def add(self, subscription: "BookSubscription") -> None:
        """Add a subscription."""
        self.by_market.setdefault(subscription.market, []).append(subscription)

    def remove(self, subscription: "BookSubscription") -> None:
        """Remove a subscription."""
        pending = self.by_market[subscription.market]
        pending.remove(subscription)
        if not pending:
            del self.by_market[subscription.market]

    def start(self, stream: MarketStream) -> None:
        """Start the subscriptions to a market that opened, before its first event is sent."""
        for subscription in self.by_market.pop(stream.market, ()):
            subscription.follow_from_start(stream)


class BookSources(NamedTuple):
    """Sources of the messages about books."""

    snapshots: BookSnapshots
    encoder: EventEncoder
    pending: PendingMarkets


class BookSubscription:
    """A subscription to a market's books. While it is behind, it skips events.

    Args:
        market: market id; the market may not exist yet.
        token: the only token to follow; None for both.
    """

    __slots__ = (
        "_group",
        "_resume_after",
        "_sources",
        "_stream",
        "buffered",
        "extended",
        "market",
        "seq",
        "soft_bytes",
        "subscriber",
        "token",
        "write",
        "write_unchecked",
    )

    def __init__(
        self,
        subscriber: Subscriber,
        market: str,
        token: str | None,
        sources: BookSources,
        *,
        extended: bool,
    ) -> None:
        self.subscriber: Final = subscriber
        self.market: Final = market
        self.token: Final = token
        self.extended: Final = extended
        self.seq: int = BEHIND
        """Number of the last event sent when it last caught up."""
        self.soft_bytes: int = subscriber.soft_bytes
        self.write_unchecked: Final = subscriber.sink.write_unchecked
        self.write: Final = subscriber.sink.write
        self.buffered: Final = subscriber.sink.buffered
        self._sources = sources
        self._group: Group | None = None
        self._stream: MarketStream | None = None
        self._resume_after: int | None = None

    def follow(self, stream: MarketStream, resume_after: int | None) -> bool:
        """Join a market; the subscriber must call ``catch_up`` next.

        Returns:
            True if the subscription resumes after the client's last event, without a snapshot.
        """
        self._join(stream)
        if resume_after is not None and stream.events_after(resume_after, 0) is not None:
            self._resume_after = resume_after
        self._skip()
        return self._resume_after is not None

    def follow_from_start(self, stream: MarketStream) -> None:
        """Join a market that just opened, before its first event is sent."""
        self._join(stream)
        self.seq = 0

    def _join(self, stream: MarketStream) -> None:
        self._stream = stream
        self._group = stream.group(extended=self.extended, token=self.token)
        self._group.join(self)

    def fall_behind(self) -> None:
        """Skip events until the client has read its buffer."""
        self._skip()
        self.subscriber.set_slow()

    def skip_to_snapshot(self) -> None:
        """Skip the queued events; a snapshot follows as soon as the buffer has room."""
        self._resume_after = None
        self._skip()
        self.subscriber.catch_up(now=False)

    def _skip(self) -> None:
        """Skip events until the subscription was brought up to date."""
        self.seq = BEHIND
        self.subscriber.behind[self] = None

    def catch_up(self) -> bool:
        """Send a snapshot or some of the missing events; return whether it is up to date."""
        stream, after = self._stream, self._resume_after
        assert stream is not None
        missing = None if after is None else stream.events_after(after, EVENTS_MAX)
        if missing is None:
            self.write(self._sources.snapshots.frames(stream.market, self.token))
            self._resume_after = stream.seq
        elif missing:
            encode = self._sources.encoder.encode
            events = (for_token(each, self.token) for each in missing)
            self.write(b"".join(encode(each, extended=self.extended) for each in events if each))
            self._resume_after = missing[-1].event.seq
        if self._resume_after != stream.seq or self.buffered() > self.soft_bytes:
            return False
        self._resume_after = None
        self.seq = stream.seq
        assert self._group is not None
        self._group.last = None  # later events must not join a delivery that starts before `seq`
        return True

    def on_market_removed(self, now_ms: int) -> None:
        """Notify an extended client; for a plain one, wait until the market opens again.

        A plain client that has not received all events is closed, since no snapshot can follow.
        """
        subscriber = self.subscriber
        if self.extended:
            subscriber.remove(("orderbook", self.market, ""))
            subscriber.send(
                Unsubscribed(
                    channel="orderbook",
                    market_id=self.market,
                    timestamp=now_ms,
                    reason="market_removed",
                )
            )
        elif self in subscriber.behind:
            subscriber.close(RESTART, f"market {self.market} was removed")
        else:
            self._group = self._stream = None
            self._sources.pending.add(self)

    def end(self) -> None:
        """End the subscription."""
        self.seq = BEHIND
        if self._group is None:
            self._sources.pending.remove(self)
        else:
            self._group.leave(self)
