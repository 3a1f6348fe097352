"""The lines of a recorded feed: a header, the messages of the server, and marks of the clock."""

from typing import Final, TypeAlias

import msgspec

from clob.wire import Wire
from clob.wire.messages import (
    BookTradeMessage,
    OrderAddedMessage,
    Orderbook,
    OrderReducedMessage,
    OrderRemovedMessage,
)

VERSION: Final = 1
"""Version of the format."""


class RecordedMarket(Wire, frozen=True, kw_only=True):
    """A market of a recording."""

    market_id: str
    """Market id."""
    yes_token_id: str
    """YES token, decimal digits; any other token of the market is NO."""
    complementary: bool = False
    """Whether both tokens share a book. It is recorded as that of YES."""


class RecordingHeader(Wire, frozen=True, kw_only=True, tag_field="type", tag="recording"):
    """The first line of a recording."""

    version: int = VERSION
    """Version of the format."""
    url: str
    """URL of the feed."""
    timestamp: int
    """Time of the server at the start, Unix milliseconds. No event is earlier."""
    lot_wei: str | None = None
    """Size of one lot in wei; null for the largest that divides all sizes."""
    markets: list[RecordedMarket]
    """The markets."""


class ClockMark(Wire, frozen=True, kw_only=True, tag_field="type", tag="clock"):
    """The time that a strategy saw after the messages so far. Later events are not before it."""

    timestamp_ns: int
    """Time of the server, Unix nanoseconds."""


BookEvent: TypeAlias = (
    OrderAddedMessage | OrderRemovedMessage | OrderReducedMessage | BookTradeMessage
)
"""A message about one event of a book."""

FeedLine: TypeAlias = RecordingHeader | ClockMark | Orderbook | BookEvent
"""A line of a recording."""

decode_line: Final = msgspec.json.Decoder(FeedLine).decode
"""Decodes a line."""

_encode: Final = msgspec.json.Encoder().encode


def encode_line(line: FeedLine) -> bytes:
    """Return a line as JSON text with a newline."""
    return _encode(line) + b"\n"
