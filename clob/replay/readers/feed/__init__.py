"""Reads recordings of the feed of a clob server, as written by ``clob record`` and ``clob paper``.

A recording is JSON lines: a header, the messages of the channel ``orderbook`` as sent by the
server, and marks of the clock where a strategy was called between messages. Every order has an id
from its arrival on; the orders of a snapshot have none, and those of a level count as one.

- Fills are recorded. An order that trades with several orders of one level of a snapshot has one
  fill with all of them.
- Best prices follow from the levels of the messages, and are records to compare with.
- A snapshot after a gap clears its book and seeds it again, and is counted. One that was sent again
  without a gap is skipped.
- Tokens of a market have a book each; those of a complementary market share that of YES.
- A last line that is cut off, by a recorder that was killed, is counted and skipped.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

import msgspec

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, line_blocks, plain_name
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import excerpt
from clob.replay.readers import OUTCOMES, file_stream
from clob.replay.readers.feed.lines import (
    VERSION,
    ClockMark,
    FeedLine,
    RecordingHeader,
    decode_line,
)
from clob.replay.readers.feed.rows import FeedRows
from clob.replay.readers.journal.rows import ROWS
from clob.units import PRICE_MAX, PRICE_MIN
from clob.wire.messages import BookTradeMessage, Orderbook, OrderReducedMessage

MALFORMED = (ValueError, OverflowError, struct.error)
"""Raised for sizes that are not digits, and for values out of range."""

NOTE = "feed of a clob server"


def read_feed(
    path: FilePath, *, lot_wei: int | None = None, on_problem: Policy = "raise"
) -> Stream:
    """Read a recording of the feed of a clob server.

    Args:
        path: the file, JSON lines, compressed or not.
        lot_wei: the size of one lot, in wei; None takes that of the header, or the largest that
            divides all sizes, which needs another pass.
        on_problem: the policy for unreadable lines.

    Returns:
        The stream.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the first line is not a header, or has another version; a line is
            unreadable and the policy is ``"raise"``; sizes are too large for the lot.
    """
    header = header_of(path)
    lot = lot_wei or int(header.lot_wei or 0) or _common_lot(path)
    return file_stream(
        path,
        partial(_events, path, header, lot),
        on_problem,
        lo=PRICE_MIN,
        hi=PRICE_MAX,
        lot_wei=lot,
        instruments=instruments_of_header(header),
        note=NOTE,
    )


def instruments_of_header(header: RecordingHeader) -> list[Instrument]:
    """Return the books of a recording: YES and NO of each market, YES alone if they share one."""
    return [
        Instrument(2 * place + offset, market.market_id, outcome)
        for place, market in enumerate(header.markets)
        for offset, outcome in enumerate(OUTCOMES[:1] if market.complementary else OUTCOMES)
    ]


def header_of(path: FilePath) -> RecordingHeader:
    """Return the header of a recording.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the first line is not a header, or has another version.
    """
    _, line = next(_read(path, Ignored(), None), (0, None))
    if not isinstance(line, RecordingHeader):
        raise ReplayFormatError(
            f"{plain_name(path)}:1: expected the header of a recording, which begins with "
            '{"type":"recording"'
        )
    if line.version != VERSION:
        raise ReplayFormatError(
            f"{plain_name(path)}:1: version of the recording must be {VERSION}; got {line.version}"
        )
    if line.lot_wei is not None and not (line.lot_wei.isdecimal() and int(line.lot_wei)):
        raise ReplayFormatError(
            f"{plain_name(path)}:1: lotWei must be null or 1 or more wei in decimal digits; got "
            f"{line.lot_wei!r}"
        )
    return line


def _read(
    path: FilePath, problems: Problems, progress: Progress | None
) -> Iterator[tuple[int, FeedLine]]:
    """Yield the lines with their numbers; report unreadable ones."""
    for first, block in line_blocks(path, problems, progress):
        rows = block.splitlines()
        for number, text in enumerate(rows, first):
            try:
                yield number, decode_line(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if number == first + len(rows) - 1 and not block.endswith(b"\n"):
                    problems.remark("last line cut off")
                    return
                reason = f"expected a message of the feed, got {excerpt(text)} ({error})"
                problems.report("unreadable line", reason, path, number)


def _events(
    path: FilePath,
    header: RecordingHeader,
    lot_wei: int,
    problems: Problems,
    progress: Progress,
) -> Iterable[Records]:
    rows = FeedRows(path, header, lot_wei, problems)
    for number, line in _read(path, problems, progress):
        if isinstance(line, RecordingHeader):
            continue
        try:
            rows.add(line)
        except MALFORMED as error:
            problems.report("unreadable line", str(error), path, number)
        if len(rows) >= ROWS:
            yield rows.take()
    rows.finish()
    if len(rows):
        yield rows.take()


def _common_lot(path: FilePath) -> int:
    """Return the largest lot that divides all sizes."""
    lot = 0
    for _, line in _read(path, Ignored(), None):
        if isinstance(line, RecordingHeader | ClockMark):
            continue
        if isinstance(line, Orderbook):
            sizes = [each.size for each in (*line.data.bids, *line.data.asks)]
        elif isinstance(line, BookTradeMessage):
            sizes = [line.data.size, line.data.resting_remaining, line.data.incoming_remaining]
        else:
            sizes = [line.data.size]
            if isinstance(line, OrderReducedMessage):
                sizes.append(line.data.reduced_by)
        with suppress(ValueError):  # the next pass reports it
            lot = math.gcd(lot, *map(int, sizes))
    return lot or 1
