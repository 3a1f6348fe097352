"""What is to be told to many, told to some of them at a time, so that nothing else has to wait.

A delivery goes to those who followed when it was put in line, but for who has caught up meanwhile
and so knows of it. All that is put in line before its turn comes goes out in one write.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clob_server.feed.subscriptions import BookSubscription

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
