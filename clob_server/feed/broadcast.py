"""Sending one message to many clients, a part of them per iteration of the event loop.

A delivery goes to the members that the group had when it was queued, except those that have
received its events otherwise since. Events that are queued before their delivery starts are sent
in the same write.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from clob.wire.messages import Message
from clob_server.api.request import Scope, Send
from clob_server.transport.websocket import PUSH

WRITES_MAX: Final = 128
"""Writes per iteration of the event loop; each takes about 5 us."""
EVENTS_MAX: Final = 100
"""Events per write; larger writes would make a client that reads look slow."""

_T = TypeVar("_T")


def loop_time() -> float:
    """Return the time of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()


class FeedClient(Protocol):
    """A client as the channels see it."""

    def send(self, message: Message) -> None:
        """Send a message; close a client whose buffer is full."""

    def send_frames(self, frames: bytes) -> None:
        """Send encoded messages; close a client whose buffer is full."""

    def close(self, code: int, reason: str) -> None:
        """Close the connection with a WebSocket close code."""


class GroupMember(Protocol):
    """A book subscription as a group sees it."""

    seq: int
    """Number of the last event that was sent by other means."""
    soft_bytes: int
    """Unread bytes beyond which events are skipped."""

    def write_unchecked(self, frames: bytes, /) -> object:
        """Send frames to a client with an empty buffer; may raise RuntimeError."""

    def write(self, frames: bytes, /) -> bool:
        """Send frames."""

    def buffered(self) -> int:
        """Return the number of unread bytes."""

    def fall_behind(self) -> None:
        """Skip events until the client has read its buffer."""

    def skip_to_snapshot(self) -> None:
        """Skip the queued events; a snapshot follows as soon as the buffer has room."""

    def on_market_removed(self, now_ms: int, /) -> None:
        """End the subscription, or wait until the market opens again."""


class Delivery:
    """Frames for the members of a group."""

    __slots__ = ("after", "frames", "members", "num_events", "num_sent", "payload")

    def __init__(self, members: tuple[GroupMember, ...], after: int) -> None:
        self.members: Final = members
        self.after: Final = after
        """Number of the event before the first frame; members with a higher ``seq`` have these."""
        self.frames: list[bytes] = []
        self.num_events: int = 0
        self.payload: bytes = b""
        self.num_sent: int = 0

    def write(self, count: int) -> int:
        """Write to the next ``count`` members or fewer; return how many."""
        if not self.num_sent:
            self.payload = b"".join(self.frames)
        after, payload = self.after, self.payload
        part = self.members[self.num_sent : self.num_sent + count]
        for member in part:
            if member.seq <= after:
                num_waiting = member.buffered()
                if not num_waiting:
                    try:
                        member.write_unchecked(payload)
                    except RuntimeError:
                        continue  # just disconnected; its own task cleans up
                elif num_waiting > member.soft_bytes:
                    member.fall_behind()
                else:
                    member.write(payload)
        self.num_sent += len(part)
        return len(part)


class Group:
    """Subscriptions of a market, or of one token in it, that receive the same frames."""

    __slots__ = ("extended", "last", "members", "sent_at", "token")

    def __init__(self, *, extended: bool, token: str | None) -> None:
        self.extended: Final = extended
        self.token: Final = token
        self.members: tuple[GroupMember, ...] = ()
        self.last: Delivery | None = None
        """The last queued delivery while events may still be added to it."""
        self.sent_at: float = 0.0
        """Loop time of the last message."""

    def join(self, member: GroupMember) -> None:
        """Add a member; it does not receive deliveries that are already queued."""
        if not self.members:
            self.sent_at = loop_time()  # the next heartbeat is due an interval after this moment
        self.members = (*self.members, member)

    def leave(self, member: GroupMember) -> None:
        """Remove a member."""
        self.members = tuple(each for each in self.members if each is not member)

    def skip_to_snapshot(self) -> None:
        """Send snapshots to the members instead of the queued events."""
        for member in self.members:
            member.skip_to_snapshot()


class PacedQueue(Generic[_T]):
    """A queue of which a part is written per iteration of the event loop."""

    def __init__(self) -> None:
        self._queue: deque[_T] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, item: _T, *, now: bool) -> None:
        """Add an item; send it in a later iteration of the loop, or now if no other one waits."""
        self._queue.append(item)
        if now:
            self.flush()
        else:
            self._start()

    def flush(self) -> None:
        """Send the first part of the queue now and the rest in later iterations of the loop."""
        if self._task is None and self._queue:
            self._write()
            self._start()

    def close(self) -> None:
        """Drop the queue."""
        self._queue.clear()

    def _start(self) -> None:
        """Send the queue in later iterations of the loop."""
        if self._task is None and self._queue:
            self._task = asyncio.get_running_loop().create_task(self._flush_rest())

    async def _flush_rest(self) -> None:
        while self._queue:
            await asyncio.sleep(0)
            self._write()
        self._task = None

    def _write(self) -> None:
        """Write the next part."""
        raise NotImplementedError


class Broadcaster(PacedQueue[Delivery]):
    """Queue of deliveries."""

    def enqueue(self, group: Group, frames: Sequence[bytes], after: int) -> None:
        """Queue the frames of the events that follow event ``after``, one item per event."""
        delivery = group.last
        if delivery is None or delivery.num_sent or delivery.num_events >= EVENTS_MAX:
            delivery = group.last = Delivery(group.members, after)
            self._queue.append(delivery)
        delivery.frames += frames
        delivery.num_events += len(frames)

    def enqueue_heartbeat(self, group: Group, frame: bytes, seq: int) -> None:
        """Queue a heartbeat, separate from the events around it."""
        group.last = None
        delivery = Delivery(group.members, seq)
        delivery.frames.append(frame)
        self._queue.append(delivery)

    def _write(self) -> None:
        left, queue = WRITES_MAX, self._queue
        while queue and left > 0:
            delivery = queue[0]
            left -= delivery.write(left)
            if delivery.num_sent >= len(delivery.members):
                queue.popleft()


# ----- channels by market and maker ----------------------------------------------------------


TradeScope: TypeAlias = tuple[str | None, str | None]
"""A market, a maker, or a maker in a market; None for all markets or makers."""


class ScopedSubscription:
    """A subscription to the ``user`` or ``settlement`` channel."""

    __slots__ = ("_leave", "client", "extended", "is_open", "scope")

    def __init__(
        self,
        client: FeedClient,
        scope: TradeScope,
        leave: "Callable[[ScopedSubscription], None]",
        *,
        extended: bool,
    ) -> None:
        self.client: Final = client
        self.scope: Final = scope
        self.extended: Final = extended
        self.is_open: bool = True
        self._leave = leave

    def end(self) -> None:
        """End the subscription."""
        self.is_open = False
        self._leave(self)


# ----- connections ---------------------------------------------------------------------------


class ClientSink(Protocol):
    """Writes to one connection without waiting for it."""

    drained: Callable[[], None] | None
    """Called when the buffer is nearly empty after it was full."""

    at_once: Callable[[str], bool] | None
    """Handles a text that need not wait, if the connection offers that; returns False, without any
    effect, if the application has to receive the text."""

    write_unchecked: Callable[[bytes], object]
    """Sends frames to a client with an empty buffer, without further checks. After a disconnect it
    does nothing or raises RuntimeError."""

    def write(self, frame: bytes) -> bool:
        """Send frames; return False if the connection is closed."""

    def buffered(self) -> int:
        """Return the number of unread bytes."""

    def abort(self) -> None:
        """Close the connection without a close frame."""


class QueueSink:
    """Writes to a connection through ASGI, on servers without the push extension."""

    def __init__(self, send: Send) -> None:
        self.drained: Callable[[], None] | None = None
        self.at_once: Callable[[str], bool] | None = None
        self.write_unchecked: Callable[[bytes], object] = self.write
        self._send = send
        self._queue: deque[bytes] = deque()
        self._num_bytes = 0
        self._is_open = True
        self._task: asyncio.Task[None] | None = None

    def write(self, frame: bytes) -> bool:
        """Send frames; return False if the connection is closed."""
        if not self._is_open:
            return False
        self._queue.append(frame)
        self._num_bytes += len(frame)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())
        return True

    def buffered(self) -> int:
        """Return the number of queued bytes."""
        return self._num_bytes

    def abort(self) -> None:
        """Drop the queue; ASGI cannot abort a connection."""
        self._is_open = False
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()

    async def _drain(self) -> None:
        with suppress(Exception):  # disconnected; the receiving task handles it
            while self._queue:
                for text in texts_in(self._queue[0]):
                    await self._send({"type": "websocket.send", "text": text})
                self._num_bytes -= len(self._queue.popleft())
            self._task = None
            if self.drained is not None:
                self.drained()
            return
        self._is_open = False


def sink_for(scope: Scope, send: Send) -> ClientSink:
    """Return the push extension of the transport if it has one, else a sink over ASGI."""
    push: Any = scope.get("extensions", {}).get(PUSH)
    return QueueSink(send) if push is None else push


LENGTH_16: Final = 126
"""Second byte of a frame with a length field of 2 bytes; the next value means 8 bytes."""


def texts_in(frames: bytes) -> Iterator[str]:
    """Yield the texts of concatenated frames made by ``text_frame``."""
    offset = 0
    while offset < len(frames):
        size, offset = frames[offset + 1], offset + 2
        if size >= LENGTH_16:
            width = 2 if size == LENGTH_16 else 8
            size, offset = int.from_bytes(frames[offset : offset + width]), offset + width
        yield frames[offset : offset + size].decode()
        offset += size
