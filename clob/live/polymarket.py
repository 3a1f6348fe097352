"""Records Polymarket's market channel, or that of a server which speaks its dialect.

The channel has no numbers. After a disconnect the server sends whole books again, which a replay
compares with the messages before.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Unpack
from urllib.parse import urlsplit, urlunsplit

import msgspec

from clob.client import (
    Backoff,
    ClientError,
    ConnectionFailedError,
    FeedOptions,
    InvalidCallError,
    UnexpectedReplyError,
)
from clob.client.connection import KeptConnection, feed_url
from clob.live.recorder import FeedRecorder, FeedSummary
from clob.live.source import START_S, signal_stop
from clob.wire.messages import POLICY

PING_S: Final = 10.0
"""Seconds between signs of life, which the venue requires from clients."""
PING, PONG, NO_BOOKS = b"PING", b"PONG", b"[]"
"""A sign of life, its answer, and the answer to a subscription to tokens without a book."""
TRADE: Final = "last_trade_price"
"""The ``event_type`` of a trade."""
CONNECT_S: Final = 10.0
"""Longest time of one attempt to connect."""


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
    **options: Unpack[FeedOptions],
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
        options: ``backoff``, ``proxy``, ``tls`` and ``heartbeat_s`` of
            :class:`~clob.client.Feed`, the last by default 10.

    Returns:
        The counts, with the error that ended it if there is one. Their markets are the tokens.

    Raises:
        InvalidCallError: there are no tokens, or the address cannot be used.
        ClientError: there is no connection at the start; no file was created.
        OSError: the file exists or cannot be written.
    """
    if not tokens:
        raise InvalidCallError("tokens must have at least one id; got none")
    return asyncio.run(_record(url, path, tokens, duration_s, options))


async def _record(
    url: str,
    path: str | os.PathLike[str],
    tokens: Sequence[str],
    duration_s: float | None,
    options: FeedOptions,
) -> FeedSummary:
    loop, channel = asyncio.get_running_loop(), PolymarketFeed(tokens)
    settings: dict[str, Any] = {"proxy": options.get("proxy", True), "open_timeout": CONNECT_S}
    if options.get("tls") is not None:
        settings["ssl"] = options["tls"]
    heartbeat_s, backoff = options.get("heartbeat_s", PING_S), options.get("backoff") or Backoff()
    kept = KeptConnection(channel_url(url), settings, channel, heartbeat_s, backoff)
    channel.post = kept.post
    with signal_stop(lambda: loop.call_soon_threadsafe(channel.stop)):
        kept.open()
        try:
            if duration_s is not None:
                loop.call_later(duration_s, channel.stop)
            await _await_message(channel, kept)
            with FeedRecorder(path) as recorder:
                await _write_all(channel, kept, recorder)
        finally:
            await kept.close()
    summary = recorder.summary
    summary.markets, summary.num_connections = tuple(tokens), kept.num_connections
    summary.num_gaps = kept.num_connections - 1
    return summary


async def _await_message(channel: PolymarketFeed, kept: KeptConnection) -> None:
    """Wait for the first connection, and then for the first message or the end.

    Raises:
        ClientError: there is no connection, or the server rejected the tokens.
    """
    try:
        async with asyncio.timeout(START_S):
            await channel.wait(lambda: channel.is_open)
    except TimeoutError:
        raise ConnectionFailedError(
            f"no connection within {START_S:g} s; the last attempt: {kept.reason}"
        ) from None
    await channel.wait(lambda: channel.has_received or channel.is_rejected)
    if channel.error is not None:
        raise channel.error
    if channel.is_rejected:
        raise InvalidCallError(f"the server rejected the tokens: {kept.reason}")


async def _write_all(channel: PolymarketFeed, kept: KeptConnection, recorder: FeedRecorder) -> None:
    """Write messages until the end; the error that ended the channel goes into the summary."""
    try:
        while True:
            for message in channel.take():
                recorder.write(_line(message, recorder.summary))
            if channel.is_ended:
                break
            await channel.wait(lambda: channel.has_messages)
        recorder.summary.error = channel.error
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
