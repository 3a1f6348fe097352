"""The messages about the books of some markets, in order, over a connection that is kept.

Everything runs in the thread of the caller: the event loop of the connection runs while the caller
waits for messages, and not while it handles them.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, Self, Unpack
from urllib.parse import urlsplit, urlunsplit

from clob.client import AsyncClient, Feed, FeedOptions, InvalidCallError, MessageStream
from clob.client.errors import NotFoundError
from clob.replay.readers.feed.lines import BookEvent, RecordedMarket, RecordingHeader
from clob.wire.markets import MarketBody
from clob.wire.messages import BookMessage, Orderbook, Unsubscribed

NS_PER_S: Final = 1_000_000_000
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a run after the current message; a second one interrupts it."""
START_S: Final = 5.0
"""Longest time of a request at the start, with its repetitions."""
BATCH: Final = 1_024
"""Messages returned at once, at most."""


class FeedSource:
    """The feed of a server: the books of some markets. Use it as a context manager.

    Ctrl-C and SIGTERM end it like :meth:`stop` if it was opened by the main thread.

    Args:
        url: base URL of the server, or of its WebSocket.
        market_ids: the markets; empty for all.
        duration_s: time after which it ends; None for no limit.
        api_key: API key of the connection; None for none.
        options: options of :class:`~clob.client.Feed`.
    """

    def __init__(
        self,
        url: str,
        market_ids: Sequence[str] = (),
        *,
        duration_s: float | None = None,
        api_key: str | None = None,
        **options: Unpack[FeedOptions],
    ) -> None:
        self.feed: Final = Feed(url, api_key=api_key, **options)
        """The connection."""
        self.markets: list[MarketBody] = []
        """The markets."""
        self.started_ms: int = 0
        """Time of the server at the start, Unix milliseconds."""
        self._url, self._market_ids, self._api_key = url, market_ids, api_key
        self._duration_s = duration_s
        self._end_ns: int | None = None
        self._loop: Final = asyncio.new_event_loop()
        self._stopped = False
        self._held: Any = None
        self._signals: Final = ExitStack()
        self._open_markets: set[str] = set()

    def __enter__(self) -> Self:
        """Connect, and wait until the books are known.

        Raises:
            ClientError: there is no connection, or a market does not exist.
        """
        try:
            self._stream: MessageStream = self._loop.run_until_complete(self._open())
        except BaseException:
            self._close()
            raise
        if self._duration_s is not None:
            self._end_ns = time.monotonic_ns() + int(self._duration_s * NS_PER_S)
        self._signals.enter_context(signal_stop(self.stop))
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._signals.close()
        self._close()

    def _close(self) -> None:
        self._loop.run_until_complete(self.feed.close())
        self._loop.close()

    async def _open(self) -> MessageStream:
        options: dict[str, Any] = {"api_key": self._api_key, "deadline_s": START_S}
        async with AsyncClient(http_url(self._url), **options) as client:
            self.markets = await self._read_markets(client)
            self.started_ms = (await client.server_time()).now_ms
        await self.feed.__aenter__()
        stream = self.feed.messages()
        for market in self.markets:
            await self.feed.orderbook(market.market_id)
            self._open_markets.add(market.market_id)
        return stream

    async def _read_markets(self, client: AsyncClient) -> list[MarketBody]:
        if self._market_ids:
            return [await client.market(market_id) for market_id in self._market_ids]
        markets = [each async for each in client.markets()]
        if not markets:
            raise NotFoundError("UNKNOWN_MARKET", "the server has no market")
        return markets

    def header(self, lot_wei: int | None = None) -> RecordingHeader:
        """Return the header of a recording."""
        return RecordingHeader(
            url=self.feed.url,
            timestamp=self.started_ms,
            lot_wei=None if lot_wei is None else str(lot_wei),
            markets=[
                RecordedMarket(
                    market_id=one.market_id,
                    yes_token_id=one.yes_token_id,
                    complementary=one.complementary,
                )
                for one in self.markets
            ],
        )

    # ----- messages ----------------------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped, its time is over, or all its markets were removed."""
        is_late = self._end_ns is not None and time.monotonic_ns() >= self._end_ns
        return self._stopped or is_late or not self._open_markets

    def stop(self) -> None:
        """End it after the messages that were received; any thread may call it."""
        self._stopped = True
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self.feed.conditions.check)

    def read(self, timeout_s: float | None = None) -> list[Orderbook | BookEvent]:
        """Wait for messages and return them, oldest first.

        Args:
            timeout_s: longest wait; None for no limit.

        Returns:
            The messages; empty after the time-out, or once it is stopped.

        Raises:
            ClientError: the feed ended, after all messages before.
        """
        messages = self._take()
        if messages or self.is_stopped or self._stream.is_ended():
            return messages
        if self._end_ns is not None:
            left_s = max(self._end_ns - time.monotonic_ns(), 0) / NS_PER_S
            timeout_s = left_s if timeout_s is None else min(timeout_s, left_s)
        self._loop.run_until_complete(self._wait(timeout_s))
        return self._take()

    async def _wait(self, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.feed.conditions.wait(self._is_due)

    def _is_due(self) -> bool:
        if self._held is None:
            self._held = self._stream.take()
        return self._held is not None or self._stopped

    def _take(self) -> list[Orderbook | BookEvent]:
        messages: list[Any] = []
        message, self._held = self._held or self._stream.take(), None
        while message is not None:
            if isinstance(message, BookMessage):
                messages.append(message)
            elif isinstance(message, Unsubscribed):
                self._open_markets.discard(message.market_id or "")
            if len(messages) == BATCH:
                break
            message = self._stream.take()
        return messages


@contextmanager
def signal_stop(stop: Callable[[], object]) -> Iterator[None]:
    """Call a function at the first Ctrl-C or SIGTERM within the block; a second one interrupts it.

    In another thread than the main one it does nothing.

    Args:
        stop: the function; it may not block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stops = iter([stop])

    def on_signal(*_: object) -> None:
        if (first := next(stops, None)) is None:
            raise KeyboardInterrupt
        first()

    handlers = [(one, signal.signal(one, on_signal)) for one in SIGNALS]
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def http_url(url: str) -> str:
    """Return the base URL of a server from that of its WebSocket.

    Raises:
        InvalidCallError: the path of a WebSocket does not end with ``/ws``.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss"):
        return url
    if not parts.path.endswith("/ws"):
        raise InvalidCallError(f"the path of a WebSocket must end with /ws; got {url!r}")
    scheme = "https" if parts.scheme == "wss" else "http"
    return urlunsplit((scheme, parts.netloc, parts.path.removesuffix("/ws"), "", ""))
