"""The feed: accepts WebSockets and sends the events of each batch to their subscriptions.

It sends only events that are durable and applied. Subscriptions start, and snapshots are taken, on
the event loop between two batches, so a snapshot, its sequence number and the events after it
always agree.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import compress
from typing import Final, Protocol

from clob.signing.fields import received
from clob.wire.messages import POLICY, RESTART, Heartbeat
from clob_server.api.problems import CONTENT_TYPE, ApiError, problem_of
from clob_server.api.request import Receive, RequestIds, Scope, Send
from clob_server.core.commands import DeactivateKey
from clob_server.core.ids import Ids
from clob_server.core.sequencer import Committed, Steps, begin
from clob_server.core.settlement_status import SettlementStatuses, StatusChange
from clob_server.core.state import ServerState
from clob_server.core.switches import CancelSwitches
from clob_server.feed.broadcast import EVENTS_MAX, Broadcaster, Group, loop_time, sink_for
from clob_server.feed.event_messages import (
    BookOpened,
    EncodedEvents,
    EventEncoder,
    FeedEvent,
    for_token,
    message_frame,
    trade_statuses,
)
from clob_server.feed.market_stream import BookSnapshots, MarketStream, MarketStreams, NewEvents
from clob_server.feed.paced_channel import CandlesOf, PacedChannel, TickerOf
from clob_server.feed.requests import Answers, RouteOperations, SocketRequests
from clob_server.feed.session import Channels, FeedGuard, FeedSession, MessageHandler
from clob_server.feed.settlement_channel import SettlementChannel
from clob_server.feed.subscriber import BookSources, PendingMarkets, Subscriber, Subscribers
from clob_server.feed.user_channel import Past, UserChannel
from clob_server.settings import Settings
from clob_server.telemetry.metrics import Metrics

CHECK_S: Final = 0.5
"""Seconds between checks for slow and idle clients and due heartbeats."""


class EventListener(Protocol):
    """Sends events of markets in another format."""

    def on_events(self, new: NewEvents, conflated: Collection[MarketStream], /) -> None:
        """Handle the events of a batch; those of ``conflated`` markets are left out."""

    def on_market_removed(self, stream: MarketStream, /) -> None:
        """End the subscriptions to a market that was removed."""


class FeedServer:
    """The WebSocket endpoint, as an ASGI application."""

    channels: Channels
    """Sources of the messages, from :meth:`start` on."""
    operations: RouteOperations
    """The routes that requests on a WebSocket may use; set before the first connection."""

    def __init__(
        self,
        settings: Settings,
        guard: FeedGuard,
        clock_ms: Callable[[], int],
        metrics: Metrics,
        request_ids: RequestIds,
    ) -> None:
        self.subscribers: Final = Subscribers(settings)
        """The open connections."""
        self.listeners: Final[list[EventListener]] = []
        """Receive the events that this feed sends."""
        self._settings: Final = settings
        self._guard: Final = guard
        self._clock_ms: Final = clock_ms
        self._request_ids: Final = request_ids
        self._broadcaster = Broadcaster()
        self._answers = Answers()
        self._task: asyncio.Task[None] | None = None
        subscribers = self.subscribers
        metrics.gauge("websockets", "Open WebSockets.", lambda: len(subscribers))
        metrics.gauge(
            "websockets_behind",
            "WebSockets that skip events because they read too slowly.",
            lambda: subscribers.num_behind,
        )
        metrics.gauge(
            "websocket_buffered_bytes",
            "Unread bytes of all WebSockets.",
            lambda: subscribers.buffered_bytes,
        )

    # ----- start and end ---------------------------------------------------------------------

    def start(
        self,
        state: ServerState,
        ids: Ids,
        switches: CancelSwitches,
        *,
        seq: int = 0,
        past: Past | None = None,
        market_data: tuple[TickerOf, CandlesOf] | None = None,
    ) -> None:
        """Start with the current state.

        Args:
            state: the server's state.
            ids: the ids of trades.
            switches: the switches that cancel orders.
            seq: number of the last applied command.
            past: history; without it no client can resume the ``user`` channel.
            market_data: return tickers and candles; without them these channels do not exist.
        """
        self._ids = ids
        self._statuses = SettlementStatuses(state.registry.settling)
        paced = None if market_data is None else PacedChannel(state, *market_data, self._clock_ms)
        if paced is not None:
            self.listeners.append(paced)
        self.channels = Channels(
            state,
            MarketStreams(state, self._settings.ws_resume_events),
            BookSources(BookSnapshots(state), EventEncoder(ids, state.settles), PendingMarkets()),
            UserChannel(state, ids, seq, past),
            SettlementChannel(state, ids),
            switches,
            paced,
            int(ids.exchange, 16),
        )
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._task = loop.create_task(self._check_periodically())

    def close(self) -> None:
        """Stop sending, and close every WebSocket with 1012."""
        if self._task is not None:
            self._task.cancel()
            self.channels.settlements.close()
            if self.channels.paced is not None:
                self.channels.paced.close()
        self._broadcaster.close()
        self.subscribers.close_all(RESTART, "server shutting down")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await self.serve(scope, receive, send, partial(self._session, scope))

    def _session(self, scope: Scope, subscriber: Subscriber) -> MessageHandler:
        requests = SocketRequests(subscriber, self.operations, scope, self._answers)
        session = FeedSession(
            subscriber, self.channels, self._settings, self._guard, self._clock_ms, requests
        )
        subscriber.sink.at_once = session.at_once
        return session

    async def reject_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the handshake for a path without a WebSocket, once its client was checked."""
        await self.serve(scope, receive, send, None)

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        session_of: Callable[[Subscriber], MessageHandler] | None,
    ) -> None:
        """Serve one WebSocket with the session that ``session_of`` returns for its client.

        Without ``session_of`` the handshake is rejected as one for an unknown path.
        """
        await receive()  # websocket.connect
        client = scope.get("client")
        address = client[0] if client else ""
        try:
            headers = dict(scope["headers"])
            self._guard.check_site(headers)
            key = self._guard.key_of_handshake(headers, address)
            self._guard.charge_request(key, address)
            if session_of is None:
                path = received(scope["path"][:99])
                raise ApiError("NOT_FOUND", f"there is no WebSocket at {path}")
        except ApiError as error:
            await reject_handshake(error, scope, send, self._request_ids)
            return
        await send({"type": "websocket.accept"})
        subscriber = Subscriber(self.subscribers, sink_for(scope, send), send, key, address)
        session = session_of(subscriber)
        try:
            while (message := await receive())["type"] == "websocket.receive":
                if subscriber.is_open:
                    waits = session.on_message(message.get("text"))
                    if waits is not None:
                        await waits
        finally:
            subscriber.sink.at_once = None
            self.subscribers.remove(subscriber)

    # ----- events ----------------------------------------------------------------------------

    def on_batch(self, batch: Sequence[Committed]) -> Steps | None:
        """Send the events of a batch that was written and applied; return the work that is left."""
        channels = self.channels
        channels.users.seq = batch[-1].seq
        new = channels.streams.on_batch(batch)
        for stream in channels.streams.take_removed():  # before another of the same id starts
            if events := new.pop(stream, []):
                self._broadcast(stream, events)
            self._end_stream(stream)
        if channels.books.pending.by_market:
            for stream in (*new, *channels.streams.conflated):
                channels.books.pending.start(stream)
        for stream in channels.streams.conflated:
            for group in stream.groups.values():
                group.skip_to_snapshot()
        for listener in self.listeners:
            listener.on_events(new, channels.streams.conflated)
        changes = self._statuses.on_batch(batch) if channels.state.settles else ()
        if not self.subscribers:
            return None
        if channels.paced is not None:  # a failed settlement changes the open interest
            channels.paced.on_changes(each.held.market for each in changes)
        return begin(self._publish(batch, new, changes))

    def _publish(
        self, batch: Sequence[Committed], new: NewEvents, changes: Sequence[StatusChange]
    ) -> Steps:
        """Send new events, then the changes of orders, about ``EVENTS_MAX`` in a step."""
        channels, num_events = self.channels, 0
        for stream, events in new.items():
            if not stream.groups or stream in channels.streams.conflated:
                continue
            for start in range(0, len(events), EVENTS_MAX):
                if num_events >= EVENTS_MAX:
                    self._broadcaster.flush()
                    yield
                    num_events = 0
                part = events[start : start + EVENTS_MAX]
                num_events += len(part)
                self._broadcast(stream, part)
            if len(events) > EVENTS_MAX:
                # Clients that joined meanwhile skip these deliveries, but not the next event.
                stream.end_deliveries()
        self._broadcaster.flush()
        if channels.users.makers or channels.settlements.scopes:
            if channels.streams.conflated:
                yield
            yield from self._notify_makers(batch, changes)
        channels.users.sent = channels.users.position
        for done in batch:
            if type(done.command) is DeactivateKey:
                self.subscribers.close_key(done.command.key_id)

    def _end_stream(self, stream: MarketStream) -> None:
        """End the subscriptions to a market that was removed."""
        books, now_ms = self.channels.books, self._clock_ms()
        books.snapshots.drop(stream.market)
        for group in stream.groups.values():
            for member in group.members:
                member.on_market_removed(now_ms)
        for listener in self.listeners:
            listener.on_market_removed(stream)

    def _notify_makers(self, batch: Sequence[Committed], changes: Sequence[StatusChange]) -> Steps:
        """Send changes of orders, then changes of settlement."""
        channels, now = self.channels, loop_time()
        trades = list(trade_statuses(changes, self._ids))
        if channels.users:
            yield from channels.users.publish(batch, now)
            channels.users.on_statuses(trades, now)
        if channels.settlements:
            channels.settlements.on_batch(batch, trades, now)

    def _broadcast(self, stream: MarketStream, events: Sequence[FeedEvent]) -> None:
        """Queue up to ``EVENTS_MAX`` events of a market for its groups."""
        now = self._time()
        encoded = EncodedEvents(self.channels.books.encoder, events)
        first = events[0].event
        after = first.seq if isinstance(first, BookOpened) else first.seq - 1
        for group in stream.groups.values():
            if not group.members:
                continue
            wanted = encoded.frames(extended=group.extended)
            if group.token is not None and stream.tokens:
                wanted = self._frames_for_token(group, events, wanted)
            elif group.token is not None:
                is_wanted = (each.event.token == group.token for each in events)
                wanted = list(compress(wanted, is_wanted))
            if wanted:
                self._broadcaster.enqueue(group, wanted, after)
                group.sent_at = now

    def _frames_for_token(
        self, group: Group, events: Sequence[FeedEvent], frames: Sequence[bytes]
    ) -> list[bytes]:
        """Return the frames that concern one token of a complementary market."""
        wanted = []
        for event, encoded in zip(events, frames, strict=True):
            part = for_token(event, group.token)
            if part is event:
                wanted.append(encoded)
            elif part is not None:
                wanted.append(self.channels.books.encoder.encode(part, extended=group.extended))
        return wanted

    # ----- periodic checks -------------------------------------------------------------------

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            now = loop_time()
            self.subscribers.check_slow(now)
            self.subscribers.check_idle(now)
            self._send_heartbeats(now)

    def _send_heartbeats(self, now: float) -> None:
        """Send heartbeats to extended clients without a recent message."""
        quiet_since, now_ms = now - self._settings.ws_heartbeat_s, self._clock_ms()
        channels = self.channels
        for stream in channels.streams:
            for group in stream.groups.values():
                if group.extended and group.members and group.sent_at <= quiet_since:
                    group.sent_at = now
                    message = Heartbeat(
                        channel="orderbook",
                        market_id=stream.market,
                        seq=stream.seq,
                        timestamp=now_ms,
                        checksums=channels.books.snapshots.checksums(stream.market, group.token),
                    )
                    self._broadcaster.enqueue_heartbeat(group, message_frame(message), stream.seq)
        self._broadcaster.flush()
        channels.users.send_heartbeats(quiet_since, now, now_ms)
        channels.settlements.send_heartbeats(quiet_since, now, now_ms)


async def reject_handshake(
    error: ApiError, scope: Scope, send: Send, request_ids: RequestIds
) -> None:
    """Reject a WebSocket handshake with an HTTP error, if the ASGI server supports that."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY, "reason": error.code})
        return
    request_id = request_ids.of(dict(scope["headers"]).get(b"x-request-id"))
    response = problem_of(error, request_id)
    headers = [(b"content-type", CONTENT_TYPE), (b"x-request-id", request_id.encode())]
    headers += response.headers
    start = {"status": response.status, "headers": headers}
    await send({"type": "websocket.http.response.start", **start})
    await send({"type": "websocket.http.response.body", "body": response.body})
