"""Writes the feed of a server to a recording, line by line."""

import dataclasses
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self, Unpack

from clob.client import ClientError, FeedOptions
from clob.live.source import FeedSource
from clob.replay.readers.feed.lines import BookEvent, ClockMark, RecordingHeader, encode_line
from clob.replay.readers.feed.rows import MarketSequence
from clob.wire.messages import BookTradeMessage, Orderbook


@dataclasses.dataclass(slots=True)
class FeedSummary:
    """Counts of a recorded feed."""

    markets: tuple[str, ...] = ()
    """The markets."""
    num_messages: int = 0
    """Messages about books, snapshots included."""
    num_trades: int = 0
    """Trades; a mint or merge counts once per token."""
    num_gaps: int = 0
    """Snapshots after messages that are missing; those of both tokens count once."""
    num_connections: int = 0
    """Connections; each but the first followed a disconnect."""
    num_bytes: int = 0
    """Bytes written."""
    first_ms: int = 0
    """Time of the server at the start, Unix milliseconds."""
    last_ms: int = 0
    """Time of the last message, Unix milliseconds; 0 without one."""
    error: ClientError | None = None
    """The error that ended the feed; None if it was stopped."""


class FeedRecorder:
    """Counts the messages of a feed, and writes them to a file. Use it as a context manager.

    Each batch of lines is passed to the operating system at once, so a recording is readable after
    its process was killed at any time; its last line may be cut off.

    Args:
        path: the file, which must not exist; None counts only.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.summary: Final = FeedSummary()
        """The counts so far."""
        self._path = None if path is None else Path(path)
        self._file: io.RawIOBase | None = None
        self._sequences: dict[str, MarketSequence] = {}

    def __enter__(self) -> Self:
        """Create the file.

        Raises:
            OSError: it exists, or cannot be created.
        """
        if self._path is not None:
            self._file = open(self._path, "xb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def begin(self, header: RecordingHeader) -> None:
        """Write the header.

        Raises:
            OSError: the file cannot be written.
        """
        names = [one.market_id for one in header.markets]
        self.summary.markets, self.summary.first_ms = tuple(names), header.timestamp
        self._sequences = {name: MarketSequence() for name in names}
        self.write(encode_line(header))

    def add(self, messages: Sequence[Orderbook | BookEvent]) -> None:
        """Write messages.

        Raises:
            OSError: the file cannot be written.
        """
        for message in messages:
            self._count(message)
        if self._file is not None:
            self.write(b"".join(map(encode_line, messages)))

    def mark(self, clock: ClockMark) -> None:
        """Write a mark of the clock.

        Raises:
            OSError: the file cannot be written.
        """
        if self._file is not None:
            self.write(encode_line(clock))

    def _count(self, message: Orderbook | BookEvent) -> None:
        summary, sequence = self.summary, self._sequences[message.market_id]
        summary.num_messages += 1
        summary.last_ms = max(summary.last_ms, message.timestamp)
        if type(message) is Orderbook:
            num_gaps = sequence.num_gaps
            sequence.is_replaced(message)
            summary.num_gaps += sequence.num_gaps - num_gaps
        elif sequence.is_new(message):  # type: ignore[arg-type]
            summary.num_trades += type(message) is BookTradeMessage

    def write(self, data: bytes) -> None:
        """Write lines as they are.

        Raises:
            OSError: the file cannot be written.
        """
        left = memoryview(data)
        while self._file is not None and left:
            left = left[self._file.write(left) or 0 :]
        self.summary.num_bytes += len(data)


def record(
    url: str,
    path: str | os.PathLike[str],
    *,
    markets: Sequence[str] = (),
    duration_s: float | None = None,
    api_key: str | None = None,
    **options: Unpack[FeedOptions],
) -> FeedSummary:
    """Record the books of some markets, until Ctrl-C, SIGTERM or the end of the duration.

    A connection that ends is replaced and resumes after the last number. Where the server no longer
    has the messages in between, fresh snapshots mark the gap, which a replay of the file reports.

    Args:
        url: base URL of the server, or of its WebSocket.
        path: the file to create, JSON lines for ``clob.replay.open_stream``.
        markets: ids of the markets; empty for all.
        duration_s: time after which it ends; None for no limit.
        api_key: API key of the connection; None for none.
        options: options of :class:`~clob.client.Feed`.

    Returns:
        The counts, with the error that ended the feed if there is one. Memory does not grow.

    Raises:
        ClientError: there is no connection at the start, or a market does not exist; no file was
            created.
        OSError: the file exists or cannot be written.
    """
    source = FeedSource(url, markets, duration_s=duration_s, api_key=api_key, **options)
    with source, FeedRecorder(path) as recorder:
        recorder.begin(source.header())
        summary = recorder.summary
        try:
            while (messages := source.read()) or not source.is_stopped:
                recorder.add(messages)
        except ClientError as error:
            summary.error = error
        summary.num_connections = source.feed.num_connections
    return summary
