"""What is to be told to many, told to some of them at a time, so that nothing else has to wait.

A delivery goes to those who followed when it was put in line, but for who has caught up meanwhile
and so knows of it. All that is put in line before its turn comes goes out in one write.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from clob_server.api.request import Scope, Send
from clob_server.transport import PUSH

if TYPE_CHECKING:
    from clob_server.feed.subscriber import BookSubscription


WRITES_MAX: Final = 128
"""How many are written to before everything else gets its turn; each is about 5 us."""
EVENTS_MAX: Final = 100
"""How many events go out in one write: a client who reads shall not look like one who does not."""


class Delivery:
    """Something that is told to all of a group.

    Args:
        members: to whom.
        after: for those alone who were told all up to this number, or less, when they began.
    """

    __slots__ = ("after", "frames", "members", "num_events", "payload", "place")

    def __init__(self, members: "tuple[BookSubscription, ...]", after: int) -> None:
        self.members: Final = members
        self.after: Final = after
        self.frames: list[bytes] = []
        self.num_events: int = 0
        self.payload: bytes = b""
        self.place: int = 0

    def write(self, count: int) -> int:
        """Tell the next of them, so many at most; give how many it were."""
        if not self.place:
            self.payload = b"".join(self.frames)
        after, payload = self.after, self.payload
        part = self.members[self.place : self.place + count]
        for member in part:
            if member.seq <= after:
                num_waiting = member.buffered()
                if not num_waiting:
                    try:
                        member.tell(payload)
                    except RuntimeError:
                        continue  # he has just gone, which his own task hears of
                elif num_waiting > member.soft_bytes:
                    member.fall_behind()
                else:
                    member.write(payload)
        self.place += len(part)
        return len(part)


class Group:
    """Those who follow a market in the same way, and so are told the same.

    Args:
        extended: if they understand more than the specification's messages.
        token: the only token they want to hear of; None is both.
    """

    __slots__ = ("extended", "last", "members", "token", "told_at")

    def __init__(self, *, extended: bool, token: str | None) -> None:
        self.extended: Final = extended
        self.token: Final = token
        self.members: tuple[BookSubscription, ...] = ()
        self.last: Delivery | None = None
        """What was put in line last, while more may be added to it."""
        self.told_at: float = 0.0
        """When they last were told something, by the clock of the loop."""

    def join(self, member: "BookSubscription") -> None:
        """Take somebody in, who is not told what is in line already."""
        self.members = (*self.members, member)

    def leave(self, member: "BookSubscription") -> None:
        """Let somebody go."""
        self.members = tuple(each for each in self.members if each is not member)


class Fanout:
    """The line of deliveries."""

    def __init__(self) -> None:
        self._line: deque[Delivery] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, group: Group, frames: Sequence[bytes], after: int) -> None:
        """Put events in line.

        Args:
            group: whom to tell.
            frames: what to tell.
            after: the number of the event before the first of them.
        """
        delivery = group.last
        if delivery is None or delivery.place or delivery.num_events >= EVENTS_MAX:
            delivery = group.last = Delivery(group.members, after)
            self._line.append(delivery)
        delivery.frames += frames
        delivery.num_events += len(frames)

    def beat(self, group: Group, frame: bytes, seq: int) -> None:
        """Put in line that nothing has happened."""
        group.last = None
        delivery = Delivery(group.members, seq)
        delivery.frames.append(frame)
        self._line.append(delivery)

    def go(self) -> None:
        """Tell as many as may be told now, and the others soon."""
        if self._task is None and self._line:
            self._write()
            if self._line:
                self._task = asyncio.get_running_loop().create_task(self._go_on())

    def close(self) -> None:
        """Tell no more."""
        self._line.clear()

    async def _go_on(self) -> None:
        """Tell all who are left, some at a time."""
        while self._line:
            await asyncio.sleep(0)
            self._write()
        self._task = None

    def _write(self) -> None:
        """Tell the next of them."""
        left, line = WRITES_MAX, self._line
        while line and left > 0:
            delivery = line[0]
            left -= delivery.write(left)
            if delivery.place >= len(delivery.members):
                line.popleft()


class ClientSink(Protocol):
    """One client, to be written to without waiting for him."""

    drained: Callable[[], None] | None
    """Is called when little waits, after much did."""

    tell: Callable[[bytes], object]
    """Sends frames to whom nothing waits for, in the shortest way. Nothing comes of it where he is
    gone, or it raises RuntimeError."""

    def write(self, frame: bytes) -> bool:
        """Send frames; say if they were taken."""

    def buffered(self) -> int:
        """Tell how many bytes wait for the client."""

    def abort(self) -> None:
        """Break the connection off."""


class QueueSink:
    """Frames that go out through ASGI, one after the other, as the client takes them.

    Args:
        send: how ASGI takes a message.
    """

    def __init__(self, send: Send) -> None:
        self.drained: Callable[[], None] | None = None
        self.tell: Callable[[bytes], object] = self.write
        self._send = send
        self._waiting: deque[bytes] = deque()
        self._num_bytes = 0
        self._is_open = True
        self._task: asyncio.Task[None] | None = None

    def write(self, frame: bytes) -> bool:
        """Send frames; say if they were taken."""
        if not self._is_open:
            return False
        self._waiting.append(frame)
        self._num_bytes += len(frame)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())
        return True

    def buffered(self) -> int:
        """Tell how many bytes wait for the client."""
        return self._num_bytes

    def abort(self) -> None:
        """Send no more; ASGI knows no way to break a connection off."""
        self._is_open = False
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _drain(self) -> None:
        """Send what waits."""
        with suppress(Exception):  # he has gone, which is heard of where messages come in
            while self._waiting:
                for text in texts_in(self._waiting[0]):
                    await self._send({"type": "websocket.send", "text": text})
                self._num_bytes -= len(self._waiting.popleft())
            self._task = None
            if self.drained is not None:
                self.drained()
            return
        self._is_open = False


def sink_for(scope: Scope, send: Send) -> ClientSink:
    """Give the best way to a client that there is."""
    push: Any = scope.get("extensions", {}).get(PUSH)
    return QueueSink(send) if push is None else push


SHORT: Final = 126
"""In the second byte of a frame, that two bytes with its size follow; one more is that eight do."""


def texts_in(frames: bytes) -> Iterator[str]:
    """Read the texts of joined frames, as ``text_frame`` makes them."""
    place = 0
    while place < len(frames):
        size, place = frames[place + 1], place + 2
        if size >= SHORT:
            width = 2 if size == SHORT else 8
            size, place = int.from_bytes(frames[place : place + width]), place + width
        yield frames[place : place + size].decode()
        place += size


# MERGED clob_server.feed.broadcast: Where frames go: straight to the connection where there is a door to it, else through ASGI.
