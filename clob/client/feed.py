"""The two feeds of a server: one for an event loop, and one for blocking programs.

A :class:`BlockingFeed` runs the methods of a feed in an event loop of its own, in a thread. That
thread changes books, orders and state only while it has the lock of the feed, and waits for
messages without it, so that another thread always reads one state.
"""

import asyncio
import atexit
import os
import selectors
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Literal, Self, TypedDict, TypeVar, Unpack, overload

from clob.client.connection import Backoff
from clob.client.errors import ClientError, ConnectionFailedError, InvalidCallError
from clob.client.feed_base import FeedBase
from clob.client.message_stream import FeedState, MessageStream
from clob.client.steps import Looping, Threaded
from clob.wire.messages import Message
from clob.wire.orders import CreatedBody, OrderBody

T = TypeVar("T")

BUSY_S: Final = 0.005
"""Seconds that the thread of a feed works before it leaves the lock to others."""
LEAVE_S: Final = 0.0002
"""Seconds for which it does."""
SIGNALS_S: Final = 1.0
"""Longest time until a waiting call notices a signal."""
END_S: Final = 5.0
"""Longest wait for calls in progress when a feed is closed."""


class FeedOptions(TypedDict, total=False):
    """Options of a feed; all may be absent."""

    heartbeat_s: float
    """Seconds of silence after which the server is asked for a sign of life, by default 5."""
    timeout_s: float
    """Longest wait for a connection, a subscription or the answer to a request, by default 30."""
    backoff: Backoff | None
    """Waits between connections."""
    respects_limits: bool
    """Whether to wait before a request that would exceed the rate limit, by default True."""
    proxy: str | Literal[True] | None
    """URL of an HTTP or SOCKS proxy; True, the default, uses that of the environment, None none."""
    subprotocols: Sequence[str] | None
    """Subprotocols of the handshake, for proxies that need one."""
    tls: ssl.SSLContext | None
    """Context of ``https`` and ``wss``; None is the default one."""


class RequestOptions(TypedDict, total=False):
    """Parts of a request over a feed; all may be absent."""

    params: Mapping[str, Any] | None
    """Parameters of path and query."""
    body: Any
    """Body of the HTTP request."""
    api_key: str | None
    """API key of this request; None is that of the feed."""
    timeout_s: float | None
    """Longest wait for the answer; None is that of the feed."""


class Feed(Looping, FeedBase):
    """A connection to the feed of a server that is kept, for an event loop.

    Use it as an asynchronous context manager, which connects. :class:`BlockingFeed` is the same for
    programs without an event loop.

    Args:
        url: base URL of the server (``http``, ``https``), or of its WebSocket (``ws``, ``wss``).
        api_key: API key for the channel ``user`` and requests; None where none is needed.
        heartbeat_s: seconds of silence after which the server is asked for a sign of life. After
            twice the time the feed is stale, after three times it reconnects.
        timeout_s: longest wait for a connection, a subscription or the answer to a request.
        backoff: waits between connections.
        respects_limits: whether to wait before a request that would exceed the rate limit.
        proxy: URL of an HTTP or SOCKS proxy; True uses that of the environment, None none.
        headers: further headers of the handshake.
        subprotocols: subprotocols of the handshake, for proxies that need one.
        tls: context of ``https`` and ``wss``; None is the default one.
    """

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            InvalidCallError: the feed was opened before.
            ConnectionFailedError: no connection within ``timeout_s``.
            ResponseError: the server rejected the handshake.
        """
        await self.begin()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the feed."""
        await self.end()

    async def close(self) -> None:
        """Close the connection; requests without an answer end with an error."""
        await self.end()

    def messages(self) -> MessageStream:
        """Return a stream of all messages with data from now on, each once."""
        return self.add_stream()

    @overload
    async def request(
        self,
        operation: Literal["create_order", "create_gasless_order"],
        **options: Unpack[RequestOptions],
    ) -> CreatedBody: ...
    @overload
    async def request(
        self,
        operation: Literal["cancel_order", "reduce_order"],
        **options: Unpack[RequestOptions],
    ) -> OrderBody: ...
    @overload
    async def request(self, operation: str, **options: Unpack[RequestOptions]) -> Any: ...

    async def request(self, operation: str, **options: Unpack[RequestOptions]) -> Any:
        """Send a request of the HTTP interface and return its result.

        While there is no connection, it waits for the next one. If a connection ends before the
        answer, reads, orders that are signed or have a ``clientOrderId``, and cancels are sent
        again: the server recognises a repetition. So is a request that the server could not execute
        yet, after the time that it states.

        Args:
            operation: ``operationId`` in ``/openapi.json``, such as ``create_order``.
            options: see :class:`RequestOptions`.

        Raises:
            RateLimitedError: the rate limit allows it after the time-out only; nothing was sent.
            ResponseError: the server rejected it; nothing changed.
            OutcomeUnknownError: there is no answer, and it may have been executed.
            ConnectionFailedError: there is no answer, and it was not executed.
            InvalidCallError: the feed is not open.
            UnexpectedReplyError: the answer is not of the documented form.
        """
        return await self.send_request(operation, **options)


# ----- blocking programs -------------------------------------------------------------------------


class LockedSelector(selectors.DefaultSelector):
    """Waits for sockets without a lock that its thread has otherwise.

    Args:
        lock: the lock.
    """

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        super().__init__()
        self._lock: Any = lock
        self._rested_s = time.monotonic()

    def select(self, timeout: float | None = None) -> Any:
        """Wait for sockets; leave the lock to waiting readers also if sockets are always ready."""
        self._lock.release()
        try:
            if timeout is None or timeout > 0:
                self._rested_s = time.monotonic()
            elif time.monotonic() - self._rested_s > BUSY_S:
                time.sleep(LEAVE_S)
                self._rested_s = time.monotonic()
            return super().select(timeout)
        finally:
            self._lock.acquire()


class LoopThread:
    """An event loop in a thread, which has a lock while its callbacks run.

    Args:
        lock: the lock, reentrant.
    """

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self._lock: Final = lock
        self._loop = asyncio.SelectorEventLoop(LockedSelector(lock))
        self._end: Final = asyncio.Event()
        self._thread: Final = threading.Thread(target=self._run, name="clob-feed", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; cancel it if the caller is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            # A signal in the moment before the wait would not end a wait without a limit.
            while not wait((future,), SIGNALS_S).done:
                pass
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self) -> None:
        """End the thread after the calls in progress."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with self._lock, asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_end())

    async def _until_end(self) -> None:
        await self._end.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=END_S)


class BlockingFeed(Threaded, FeedBase):
    """A connection to the feed of a server that is kept, for programs without an event loop.

    Use it as a context manager, which connects. Its methods are those of :class:`Feed`, with the
    same arguments, results and errors, and wait in the calling thread. Several threads may use it.

    A thread of the feed receives all messages meanwhile. Each read of a book returns one state, and
    ``open`` and ``balances`` of own orders do not change during an iteration; :meth:`hold` keeps
    everything for several reads. Conditions of ``until`` are checked by that thread.

    Ctrl-C ends a call that waits; the feed stays open. A feed that is still open at the end of the
    program is closed. It belongs to the process that opened it: in a child process after a fork it
    is closed, so daemonize before you open one.
    """

    _thread: LoopThread | None = None
    _holder: int | None = None

    def __enter__(self) -> Self:
        """Connect; see :class:`Feed`."""
        self._check_new()
        self._lock: Any = threading.RLock()
        thread = self._thread = LoopThread(self._lock)
        atexit.register(self.close)
        _open_feeds.add(self)
        try:
            thread.wait_for(self.begin())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Close the feed."""
        self.close()

    def close(self) -> None:
        """Close the connection and end the thread; calls that wait end with an error."""
        thread = self._thread
        if thread is None:
            return
        self._check_caller(thread)
        self._thread = None
        _open_feeds.discard(self)
        atexit.unregister(self.close)
        try:
            thread.wait_for(self.end())
        finally:
            thread.end()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread of the feed, and return its result.

        Raises:
            InvalidCallError: the calling thread is that of the feed, holds it, or did not open it.
        """
        thread = self._thread
        try:
            if thread is None:
                return self._ended(work)
            self._check_caller(thread)
        except ClientError:
            work.close()
            raise
        try:
            return thread.wait_for(work)
        except (CancelledError, RuntimeError):  # closed by another thread meanwhile
            if self._thread is thread:
                raise
            raise self.closed_error() from None

    def _ended(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine of a closed feed, which does not wait."""
        if self._state is not FeedState.CLOSED:
            self._check_running()
        try:
            work.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        raise self.closed_error()

    def _check_caller(self, thread: LoopThread) -> None:
        """Raise if the calling thread would wait for itself."""
        if thread.is_current:
            raise InvalidCallError(
                "a condition of until() is checked by the thread of the feed, and must not call a "
                "method that waits"
            )
        if self._holder == threading.get_ident():
            raise InvalidCallError("leave hold() before you call a method that waits")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep books, own orders and state as they are, within a ``with`` statement.

        Messages wait meanwhile; hold a feed for a short time.
        """
        with self._lock:
            before, self._holder = self._holder, threading.get_ident()
            try:
                yield
            finally:
                self._holder = before

    def cut(self) -> None:
        """End the current connection at once; another one follows, as after a failure."""
        self.wait_for(called(super().cut))

    def unfollow(
        self, channel: str, market_id: str | None = None, maker: str | None = None
    ) -> None:
        """End a subscription; do nothing if it does not exist. See :meth:`.FeedBase.unfollow`."""
        self.wait_for(called(lambda: FeedBase.unfollow(self, channel, market_id, maker)))

    def messages(self) -> "BlockingStream":
        """Return a stream of all messages with data from now on, each once."""
        return BlockingStream(self, self.add_stream())

    @overload
    def request(
        self,
        operation: Literal["create_order", "create_gasless_order"],
        **options: Unpack[RequestOptions],
    ) -> CreatedBody: ...
    @overload
    def request(
        self,
        operation: Literal["cancel_order", "reduce_order"],
        **options: Unpack[RequestOptions],
    ) -> OrderBody: ...
    @overload
    def request(self, operation: str, **options: Unpack[RequestOptions]) -> Any: ...

    def request(self, operation: str, **options: Unpack[RequestOptions]) -> Any:
        """Send a request of the HTTP interface and return its result; see :meth:`Feed.request`."""
        return self.wait_for(self.send_request(operation, **options))

    def on_fork(self) -> None:
        """Be closed: the thread exists in the parent process only."""
        _forked.append(self._thread)  # neither it nor its sockets are closed here
        self._thread = None
        self.on_end(ConnectionFailedError("the feed was opened by the process before a fork"))
        atexit.unregister(self.close)


class BlockingStream:
    """The messages of a feed from its creation on, for ``for``; each is new.

    Its limit and its end are those of :class:`MessageStream`.
    """

    def __init__(self, feed: BlockingFeed, stream: MessageStream) -> None:
        self._feed, self._stream = feed, stream

    def __iter__(self) -> Iterator[Message]:
        """Return the stream."""
        return self

    def __next__(self) -> Message:
        """Return the next message; wait for it.

        Raises:
            StreamOverflowError: more than 100,000 messages were not read.
            ClientError: the feed ended with it.
        """
        message = self.get()
        if message is None:
            raise StopIteration
        return message

    def get(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None if the feed was closed.

        Raises:
            TimeoutError: there was none within ``timeout_s``.
            StreamOverflowError: more than 100,000 messages were not read.
            ClientError: the feed ended with it.
        """
        take = self._stream.take
        while (message := take()) is None:
            if self._stream.is_ended():
                return None
            try:
                self._feed.wait_for(self._stream.wait(timeout_s))
            except ClientError:
                if not self._stream.is_ended():
                    raise
        return message

    def close(self) -> None:
        """Stop to collect messages."""
        self._stream.close()


async def called(function: Callable[[], T]) -> T:
    """Return the result of a function."""
    return function()


# ----- processes ---------------------------------------------------------------------------------

_open_feeds: Final[weakref.WeakSet[BlockingFeed]] = weakref.WeakSet()
_held: Final[list[BlockingFeed]] = []
_forked: Final[list[LoopThread | None]] = []


def _before_fork() -> None:
    """Wait until no feed changes."""
    for each in tuple(_open_feeds):
        each._lock.acquire()
        _held.append(each)


def _in_parent() -> None:
    while _held:
        _held.pop()._lock.release()


def _in_child() -> None:
    for each in tuple(_held):
        each.on_fork()
    _in_parent()
    _open_feeds.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
