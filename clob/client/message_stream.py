"""The state of a feed, its messages as a stream, and conditions to wait for."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Final, Protocol

from clob.client.errors import ClientError, StreamOverflowError
from clob.wire.messages import Message

STREAM_MAX: Final = 100_000
"""Messages that a stream may be behind."""


class FeedState(StrEnum):
    """State of a feed."""

    CONNECTING = "connecting"
    """There was no connection yet."""
    LIVE = "live"
    """Connected, and all subscriptions are up to date."""
    STALE = "stale"
    """Connected, but the server is silent, messages are missing, or the server ended a
    subscription: the data may be old."""
    RECONNECTING = "reconnecting"
    """The connection ended, or its subscriptions are not up to date yet: the data may be old."""
    CLOSED = "closed"
    """Closed by the caller, or for a reason that a new connection would repeat."""


class StreamSource(Protocol):
    """A feed, as far as a stream needs it."""

    error: ClientError | None
    """The error that closed it."""

    @property
    def state(self) -> FeedState:
        """Its state."""

    @property
    def conditions(self) -> "Conditions":
        """Conditions that are checked after each message."""

    def remove_stream(self, stream: "MessageStream", /) -> None:
        """Add no further messages to a stream."""


class Conditions:
    """Conditions that callers wait for."""

    def __init__(self) -> None:
        self._waiting: Final[list[tuple[Callable[[], bool], asyncio.Future[None]]]] = []

    async def wait(self, is_true: Callable[[], bool]) -> None:
        """Wait until :meth:`check` finds that a condition holds, or :meth:`end`."""
        waiting = is_true, asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.remove(waiting)

    def check(self) -> None:
        """Wake those whose condition holds, or raises."""
        for is_true, future in self._waiting:
            if future.done():
                continue
            try:
                if is_true():
                    future.set_result(None)
            except Exception as error:
                future.set_exception(error)

    def end(self) -> None:
        """Wake all."""
        for _, future in self._waiting:
            if not future.done():
                future.set_result(None)


class MessageStream:
    """The messages of a feed from its creation on, for ``async for``; each is new.

    The feed does not wait for its readers. A stream keeps up to 100,000 messages that
    were not read; one more ends it, with an error after those that it keeps. It also ends when the
    feed is closed, with the error of the feed if there is one.
    """

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self._messages: deque[Message] = deque()
        self._error: ClientError | None = None

    def add(self, message: Message) -> None:
        """Add a message; one that exceeds the limit ends the stream."""
        if len(self._messages) < STREAM_MAX:
            self._messages.append(message)
            return
        self._error = StreamOverflowError(
            f"{STREAM_MAX} messages were not read, and later ones are lost"
        )
        self.close()

    def take(self) -> Message | None:
        """Return the next message that was received; None without one."""
        try:
            return self._messages.popleft()
        except IndexError:
            return None

    def is_ended(self) -> bool:
        """Return whether no message follows those that were received.

        Raises:
            StreamOverflowError: too many messages were not read.
            ClientError: the feed ended with it.
        """
        is_closed = self._source.state is FeedState.CLOSED
        error = self._error or (self._source.error if is_closed else None)
        if error is not None and not self._messages:
            raise error
        return is_closed and not self._messages

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until a message was received, or the stream ended.

        Raises:
            TimeoutError: neither happened within ``timeout_s``.
        """

        def is_due() -> bool:
            return bool(self._messages or self._error)

        async with asyncio.timeout(timeout_s):
            if not is_due() and self._source.state is not FeedState.CLOSED:
                await self._source.conditions.wait(is_due)

    def __aiter__(self) -> AsyncIterator[Message]:
        """Return the stream."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message.

        Raises:
            StreamOverflowError: more than 100,000 messages were not read.
            ClientError: the feed ended with it.
        """
        while (message := self.take()) is None:
            if self.is_ended():
                raise StopAsyncIteration
            await self.wait()
        return message

    def close(self) -> None:
        """Stop to collect messages."""
        self._source.remove_stream(self)
