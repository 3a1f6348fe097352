"""Where frames go: straight to the connection where there is a door to it, else through ASGI."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol

from clob_server.calls import Scope, Send
from clob_server.transport import PUSH


class Sink(Protocol):
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


def sink_for(scope: Scope, send: Send) -> Sink:
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
