"""The feed: what happens in the markets, to everybody who subscribed to it.

Whatever is told here is durable and done. Subscriptions begin, and snapshots are taken, in the loop
of the engine between two batches, so that state, sequence numbers and what was told agree.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final

from clob import OrderRecord
from clob_server.api.problems import CONTENT_TYPE, ApiError, refusal_of
from clob_server.api.request import Receive, Scope, Send
from clob_server.core.commands import DeactivateKey
from clob_server.core.sequencer import Committed
from clob_server.core.settlement_status import Fates, StatusChange
from clob_server.feed.broadcast import EVENTS_MAX, Fanout, Group, sink_for
from clob_server.feed.event_messages import (
    EncodedEvents,
    Happening,
    Opened,
    Writer,
    frame_of,
    heard,
    standings,
)
from clob_server.feed.market_stream import MarketStream, Snapshots, Streams
from clob_server.feed.messages import POLICY, RESTART, Heartbeat
from clob_server.feed.session import Conversation
from clob_server.feed.settlement_channel import Settlements
from clob_server.feed.subscriber import BookSubscription, Subscriber
from clob_server.feed.user_channel import Users

if TYPE_CHECKING:
    from clob_server.core.state import ServerState
    from clob_server.service import Service

LOOK_S: Final = 0.5
"""How often it is looked for subscribers who are too slow, or have to hear a heartbeat."""


class Feed:
    """What happens, to everybody who subscribed to it.

    Args:
        service: where it happens.
    """

    exchange: "ServerState"
    settlements: Settlements
    snapshots: Snapshots
    streams: Streams
    users: Users
    writer: Writer

    def __init__(self, service: "Service") -> None:
        self.settings: Final = service.settings
        self.subscribers: Final[set[Subscriber]] = set()
        """The WebSockets that are open."""
        self.crowded: Final[dict[Subscriber, float]] = {}
        """Those for whom much waits, and since when."""
        self.idle: Final[dict[Subscriber, float]] = {}
        """Those without a subscription, and since when."""
        self.clock_ms: Final = service.clock_ms
        self.guard: Final = service.guard
        self._service = service
        self._fanout = Fanout()
        self._early: dict[str, list[BookSubscription]] = {}
        self._task: asyncio.Task[None] | None = None
        gauge = service.metrics.gauge
        gauge("websockets", "WebSockets that are open.", lambda: self.num_subscribers)
        gauge("websockets_behind", "WebSockets that are behind.", lambda: self.num_stale)
        gauge(
            "websocket_buffered_bytes",
            "Bytes that wait for the clients of WebSockets.",
            lambda: self.buffered_bytes,
        )

    @property
    def num_subscribers(self) -> int:
        """How many WebSockets are open."""
        return len(self.subscribers)

    @property
    def num_stale(self) -> int:
        """How many of them are behind."""
        return sum(bool(each.behind) for each in self.crowded)

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait for all of them."""
        return sum(each.sink.buffered() for each in self.subscribers)

    def time(self) -> float:
        """Tell the time of the loop, in seconds."""
        return asyncio.get_running_loop().time()

    # ----- from start to end -----------------------------------------------------------------

    def start(self, records: Iterable[OrderRecord] | None = None) -> None:
        """Begin with the exchange as it is; about 1 us an order that rests.

        Args:
            records: all that rest; None asks for them.
        """
        self.exchange = self._service.exchange
        self.streams = Streams(self.exchange, self.settings.ws_resume_events, records)
        self.snapshots = Snapshots(self.exchange)
        ids = self._service.ids
        self.writer = Writer(ids, self.exchange.settles)
        self.users = Users(self.exchange, ids)
        self.settlements = Settlements(self.exchange, ids)
        self._fates = Fates(self.exchange.registry.settling)
        self._task = asyncio.get_running_loop().create_task(self._look_again())

    def close(self) -> None:
        """Tell no more, and close every WebSocket with 1012."""
        if self._task is not None:
            self._task.cancel()
        self._fanout.close()
        if self._task is not None:
            self.settlements.close()
        for subscriber in tuple(self.subscribers):
            subscriber.end(RESTART, "the server ends")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()  # that it wants to be one
        client = scope.get("client")
        try:
            key = self.guard.key_of(dict(scope["headers"]))
            self.guard.charge_request(key, client[0] if client else "")
        except ApiError as error:
            await refuse(error, scope, send)
            return
        await send({"type": "websocket.accept"})
        subscriber = Subscriber(self, sink_for(scope, send), send, key)
        self.subscribers.add(subscriber)
        self.idle[subscriber] = self.time()
        conversation = Conversation(self, subscriber)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                if subscriber.is_open:
                    conversation.hear(message.get("text"))
        finally:
            subscriber.leave()
            self.subscribers.discard(subscriber)

    # ----- what happens ----------------------------------------------------------------------

    def listen(self, batch: Sequence[Committed]) -> None:
        """Hear of a batch that is durable and done, and tell those who subscribed."""
        for stream, happenings in self.streams.hear(batch).items():
            if self._early:
                self._let_in(stream)
            if stream.groups:
                self._tell(stream, happenings)
        self._fanout.go()
        changes = self._fates.hear(batch) if self.exchange.settles else ()
        if self.users or self.settlements:
            self._tell_makers(batch, changes)
        if self.subscribers:
            for done in batch:
                if isinstance(done.command, DeactivateKey):
                    self._drop(done.command.key_id)

    def _tell_makers(self, batch: Sequence[Committed], changes: Sequence[StatusChange]) -> None:
        """Tell what became of orders, and then how trades stand."""
        now, news = self.time(), list(standings(changes, self._service.ids))
        if self.users:
            self.users.hear(batch, now)
            self.users.hear_of(news, now)
        if self.settlements:
            self.settlements.hear(batch, news, now)

    def _tell(self, stream: MarketStream, happenings: Sequence[Happening]) -> None:
        """Put what happened in a market in line for those who follow it."""
        now = self.time()
        written = EncodedEvents(self.writer, happenings)
        for group in stream.groups.values():
            if not group.members:
                continue
            frames = written.frames(extended=group.extended)
            for start in range(0, len(happenings), EVENTS_MAX):
                part = happenings[start : start + EVENTS_MAX]
                first = part[0].event
                after = first.seq if isinstance(first, Opened) else first.seq - 1
                wanted = frames[start : start + EVENTS_MAX]
                if group.token is not None and stream.tokens:
                    wanted = self._about(group, part, wanted)
                elif group.token is not None:
                    about = (each.event.token == group.token for each in part)
                    wanted = list(compress(wanted, about))
                if wanted:
                    self._fanout.put(group, wanted, after)
                    group.told_at = now

    def _about(
        self, group: Group, part: Sequence[Happening], frames: Sequence[bytes]
    ) -> list[bytes]:
        """Give the frames of what those hear who follow one of two tokens that meet."""
        wanted = []
        for each, written in zip(part, frames, strict=True):
            found = heard(each, group.token)
            if found is each:
                wanted.append(written)
            elif found is not None:
                wanted.append(self.writer.frames(found, extended=group.extended))
        return wanted

    def _drop(self, key_id: str) -> None:
        """Close the WebSockets of a key that was deactivated."""
        for subscriber in tuple(self.subscribers):
            if subscriber.key is not None and subscriber.key.id == key_id:
                subscriber.end(POLICY, "INVALID_API_KEY: the key was deactivated")

    # ----- those who came before their market ------------------------------------------------

    def wait_for_market(self, subscription: BookSubscription) -> None:
        """Let somebody follow a market once it is there."""
        self._early.setdefault(subscription.market, []).append(subscription)

    def wait_no_longer(self, subscription: BookSubscription) -> None:
        """Forget somebody who waits for a market."""
        waiting = self._early[subscription.market]
        waiting.remove(subscription)
        if not waiting:
            del self._early[subscription.market]

    def _let_in(self, stream: MarketStream) -> None:
        """Let those follow a market who waited for it; nothing was told of it yet."""
        for subscription in self._early.pop(stream.market, ()):
            subscription.follow_from_start(stream)

    # ----- now and then ----------------------------------------------------------------------

    async def _look_again(self) -> None:
        """Look after those who are slow, silent, or have nothing to hear."""
        while True:
            await asyncio.sleep(LOOK_S)
            now = self.time()
            self._look_at_slow(now)
            self._look_at_silent(now)
            self._beat(now)

    def _look_at_slow(self, now: float) -> None:
        """Send to those who have room again, and drop those who have had none for long."""
        most_s = self.settings.ws_stall_timeout_s
        for subscriber, since in tuple(self.crowded.items()):
            if subscriber.sink.buffered() <= self.settings.ws_soft_bytes:
                subscriber.drained()
            elif now - since > most_s:
                subscriber.end(POLICY, f"too slow: nothing was read for {most_s} s")

    def _look_at_silent(self, now: float) -> None:
        """Close those who do not subscribe to anything."""
        most_s = self.settings.ws_subscribe_timeout_s
        for subscriber, since in tuple(self.idle.items()):
            if now - since > most_s:
                subscriber.end(POLICY, f"no subscription within {most_s} s")

    def _beat(self, now: float) -> None:
        """Tell those who have heard nothing for long that nothing has happened."""
        quiet_since, now_ms = now - self.settings.ws_heartbeat_s, self.clock_ms()
        for stream in self.streams:
            for group in stream.groups.values():
                if group.extended and group.members and group.told_at <= quiet_since:
                    group.told_at = now
                    message = Heartbeat(
                        channel="orderbook",
                        market_id=stream.market,
                        seq=stream.seq,
                        timestamp=now_ms,
                    )
                    self._fanout.beat(group, frame_of(message), stream.seq)
        self._fanout.go()
        self.users.beat(quiet_since, now, now_ms)
        self.settlements.beat(quiet_since, now, now_ms)


async def refuse(error: ApiError, scope: Scope, send: Send) -> None:
    """Refuse a WebSocket before it is one, in the words of HTTP where that is possible."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY, "reason": error.code})
        return
    refusal = refusal_of(error)
    headers = [(b"content-type", CONTENT_TYPE), *refusal.headers]
    await send(
        {
            "type": "websocket.http.response.start",
            "status": refusal.status,
            "headers": headers,
        }
    )
    await send({"type": "websocket.http.response.body", "body": refusal.body})
