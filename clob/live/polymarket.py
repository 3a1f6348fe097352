"""Records Polymarket's market channel, or that of a server which speaks its dialect.

The channel has no numbers. After a disconnect the server sends whole books again, which a replay
compares with the messages before.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from clob.client import (
    Backoff,
    ClientError,
    ConnectionFailedError,
    InvalidCallError,
    UnexpectedReplyError,
)
from clob.client.calls import seconds
from clob.client.connection import KeptConnection, feed_url
from clob.client.feed_base import OPEN_MAX_S
from clob.live.recorder import FeedRecorder, FeedSummary
from clob.live.source import START_S, signal_stop
from clob.wire.messages import POLICY

PING_S: Final = 10.0
"""Seconds between signs of life, which the venue requires from clients."""
PING, PONG, NO_BOOKS = b"PING", b"PONG", b"[]"
"""A sign of life, its answer, and the answer to a subscription to tokens without a book."""
TRADE: Final = "last_trade_price"
"""The ``event_type`` of a trade."""


class _Header(msgspec.Struct):
    """The fields of a message that are counted."""

    event_type: str = ""
    timestamp: str | int = 0


_DECODER: Final = msgspec.json.Decoder(list[_Header] | _Header)


def channel_url(url: str) -> str:
    """Return the address of the market channel.

    Args:
        url: base URL of the server, or of its WebSockets (``…/ws``), or of the channel itself.

    Raises:
        InvalidCallError: it is none of them.
    """
    parts = urlsplit(feed_url(url))
    path = parts.path.rstrip("/").removesuffix("/market")
    return urlunsplit((*parts[:2], f"{path}/market", *parts[3:]))


class PolymarketFeed:
    """Subscribes to tokens on each connection, and keeps messages until they are taken.

    Args:
        tokens: ids of the tokens.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.is_open: bool = False
        """Whether a connection was open."""
        self.is_ended: bool = False
        """Whether it was stopped or ended with an error."""
        self.is_rejected: bool = False
        """Whether the server closed a connection for its request before any message."""
        self.has_received: bool = False
        """Whether there was a message."""
        self.error: ClientError | None = None
        """The error that ended it; None if it was stopped."""
        self.post: Callable[[bytes], None]
        """Sends a text message."""
        self._request = msgspec.json.encode({"assets_ids": list(tokens), "type": "market"})
        self._messages: list[bytes] = []
        self._changed: Final = asyncio.Event()
        self._next_ping_s = 0.0

    def take(self) -> list[bytes]:
        """Return the messages that were not taken yet, as received."""
        messages, self._messages = self._messages, []
        return messages

    @property
    def has_messages(self) -> bool:
        """Whether there are messages that were not taken yet."""
        return len(self._messages) > 0

    async def wait(self, is_true: Callable[[], bool]) -> None:
        """Wait until a condition is true, or the end."""
        while not (self.is_ended or is_true()):
            await self._changed.wait()
            self._changed.clear()

    def stop(self) -> None:
        """End it."""
        self.is_ended = True
        self._changed.set()

    # ----- connections, see ConnectionUser ---------------------------------------------------

    def is_needed(self) -> bool:
        """Return True: a connection that ends is always replaced."""
        return True

    def on_open(self) -> None:
        """Subscribe."""
        self.is_open = True
        self.post(self._request)
        self._changed.set()

    def on_data(self, data: bytes) -> None:
        """Keep a message."""
        if data in (PONG, NO_BOOKS):
            return
        self.has_received = True
        self._messages.append(data)
        self._changed.set()

    def on_tick(self, now_s: float) -> None:
        """Send a sign of life when it is due."""
        if now_s >= self._next_ping_s:
            self._next_ping_s = now_s + PING_S
            self.post(PING)

    def on_quiet(self) -> None:
        """Do nothing: signs of life are sent anyway."""

    def on_silence(self) -> None:
        """Do nothing: a silent connection is replaced."""

    def on_cut(self, code: int | None) -> None:
        """Note a rejected request, which the next connection would repeat."""
        self.is_rejected = code == POLICY and not self.has_received
        self._changed.set()

    def on_end(self, error: ClientError | None) -> None:
        """End with an error."""
        self.error = error
        self.stop()


def record_polymarket(
    url: str,
    path: str | os.PathLike[str],
    *,
    tokens: Sequence[str],
    duration_s: float | None = None,
    heartbeat_s: float = PING_S,
    backoff: Backoff | None = None,
    proxy: str | Literal[True] | None = True,
    tls: ssl.SSLContext | None = None,
) -> FeedSummary:
    """Record the market channel of some tokens, until Ctrl-C, SIGTERM or the end of the duration.

    The file has the messages as received, one per line, for ``clob.replay.open_stream``. A
    connection that ends is replaced, and counts as a gap: messages may be missing before the books
    that the server sends then.

    Args:
        url: base URL of the server, or of its market channel.
        path: the file to create.
        tokens: ids of the tokens, at least one. A replay needs both of a market to check trades
            in each of its books.
        duration_s: time after which it ends; None for no limit.
        heartbeat_s: seconds of silence after which the connection is asked for a sign of life;
            after three times as many it is replaced.
        backoff: waits between connections.
        proxy: URL of an HTTP or SOCKS proxy; True uses that of the environment, None none.
        tls: context of ``https`` and ``wss``; None is the default one.

    Returns:
        The counts, with the error that ended it if there is one. Their markets are the tokens.

    Raises:
        InvalidCallError: there are no tokens, or the address or a time cannot be used.
        ClientError: there is no connection at the start; no file was created.
        OSError: the file exists or cannot be written.
    """
    if not tokens:
        raise InvalidCallError("tokens must have at least one id; got none")
    settings: dict[str, Any] = {"proxy": proxy, "open_timeout": OPEN_MAX_S}
    if tls is not None:
        settings["ssl"] = tls
    feed = PolymarketFeed(tokens)
    kept = KeptConnection(
        channel_url(url), settings, feed, seconds("heartbeat_s", heartbeat_s), backoff or Backoff()
    )
    feed.post = kept.post
    summary = asyncio.run(_record(feed, kept, path, duration_s))
    summary.markets, summary.num_connections = tuple(tokens), kept.num_connections
    summary.num_gaps = kept.num_connections - 1
    return summary


async def _record(
    feed: PolymarketFeed,
    kept: KeptConnection,
    path: str | os.PathLike[str],
    duration_s: float | None,
) -> FeedSummary:
    loop = asyncio.get_running_loop()
    with signal_stop(lambda: loop.call_soon_threadsafe(feed.stop)):
        kept.open()
        try:
            if duration_s is not None:
                loop.call_later(duration_s, feed.stop)
            await _await_message(feed, kept)
            with FeedRecorder(path) as recorder:
                await _write_all(feed, recorder)
        finally:
            await kept.close()
    return recorder.summary


async def _await_message(feed: PolymarketFeed, kept: KeptConnection) -> None:
    """Wait for the first connection, and then for the first message or the end.

    Raises:
        ClientError: there is no connection, or the server rejected the tokens.
    """
    try:
        async with asyncio.timeout(START_S):
            await feed.wait(lambda: feed.is_open)
    except TimeoutError:
        raise ConnectionFailedError(
            f"no connection within {START_S:g} s; the last attempt: {kept.reason}"
        ) from None
    await feed.wait(lambda: feed.has_received or feed.is_rejected)
    if feed.error is not None:
        raise feed.error
    if feed.is_rejected:
        raise InvalidCallError(f"the server rejected the tokens: {kept.reason}")


async def _write_all(feed: PolymarketFeed, recorder: FeedRecorder) -> None:
    """Write messages until the end; the error that ended the feed goes into the summary."""
    try:
        while True:
            for message in feed.take():
                recorder.write(_line(message, recorder.summary))
            if feed.is_ended:
                break
            await feed.wait(lambda: feed.has_messages)
        recorder.summary.error = feed.error
    except ClientError as error:
        recorder.summary.error = error


def _line(data: bytes, summary: FeedSummary) -> bytes:
    """Count the messages of a text, and return it as a line.

    Raises:
        UnexpectedReplyError: it is not a message.
    """
    try:
        found = _DECODER.decode(data)
        for each in found if isinstance(found, list) else [found]:
            time_ms = int(each.timestamp)
            summary.num_messages += 1
            summary.num_trades += each.event_type == TRADE
            summary.first_ms = summary.first_ms or time_ms
            summary.last_ms = max(summary.last_ms, time_ms)
    except (msgspec.DecodeError, ValueError) as error:
        text = data[:200].decode(errors="replace")
        raise UnexpectedReplyError(
            f"expected a message of the market channel, got {text!r} ({error})"
        ) from error
    return msgspec.json.format(data, indent=-1) + b"\n"
