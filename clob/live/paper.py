"""Runs a strategy in shadow mode over a live feed.

The run is a backtest whose stream is not complete yet: its driver waits for the next message, or
for the time of the next wake, reply or arrival. That time is the server's, estimated from the
quickest message so far. Where it passes without a message, a mark of the clock goes into the
stream and the recording; a message that arrives later counts as of that time. So a shadow backtest
of the recording sees the same events at the same times.
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final, Unpack

from clob.client import ClientError, FeedOptions
from clob.live.recorder import FeedRecorder, FeedSummary
from clob.live.source import NS_PER_S, FeedSource
from clob.order import SelfTrade
from clob.replay import Backtest, Latency, Strategy, Stream, backtest, no_fees
from clob.replay.io.problems import Problems
from clob.replay.io.recording import Records
from clob.replay.modes.shadow import ShadowDriver
from clob.replay.readers import MS_NS
from clob.replay.readers.feed import NOTE, instruments_of_header
from clob.replay.readers.feed.lines import BookEvent, ClockMark
from clob.replay.readers.feed.rows import FeedRows
from clob.replay.sim.driver import NEVER, Stop
from clob.replay.sim.fees import Fees
from clob.replay.sim.marks import DEFAULT_MARK, EQUITY_EVERY_NS
from clob.replay.sim.orders import OwnFill
from clob.units import PRICE_MAX, PRICE_MIN
from clob.wire.messages import Orderbook

LOT_LEAST: Final = 10**9
"""Smallest lot of markets that is used, in wei: a record has sizes up to 2**63 lots."""
LOT_WEI: Final = 10**12
"""The lot of other markets, in wei: a millionth of a token."""
PENDING_S: Final = 0.001
"""Wait for further trades of an order that is not filled completely."""


@dataclasses.dataclass(frozen=True, slots=True)
class PaperRun:
    """The result of a run over a live feed."""

    result: Backtest
    """That of the backtest: its tables, check and digest."""
    stream: Stream
    """Description of the recorded flow; its events are in the recording alone."""
    feed: FeedSummary
    """Counts of the feed, with the error that ended it if there is one."""


class LiveRows:
    """The rows of a live feed so far, for a driver that waits for more.

    Args:
        source: the open feed.
        rows: converts its messages.
        recorder: receives all messages and marks.
    """

    def __init__(self, source: FeedSource, rows: FeedRows, recorder: FeedRecorder) -> None:
        self._source, self._rows, self._recorder = source, rows, recorder
        self._offset_ns = time.monotonic_ns() - source.started_ms * MS_NS
        self._is_finished = False

    def begin(self) -> Records:
        """Return the rows of the first snapshots, and of a mark that starts the run."""
        self._add(self._source.read(0))
        self._mark(self.now_ns)
        return self._rows.take()

    @property
    def now_ns(self) -> int:
        """The estimated time of the server, Unix nanoseconds."""
        return time.monotonic_ns() - self._offset_ns

    def take(self) -> Records | None:
        """Return the rows that were not taken yet; None without any."""
        return self._rows.take() if len(self._rows) else None

    def wait(self, until_ns: int) -> bool:
        """Wait for rows, also of a mark after a time; return False after the last row."""
        while not len(self._rows):
            if self._is_finished:
                return False
            messages = self._read(until_ns)
            if messages:
                self._add(messages)
            elif self._source.is_stopped or self._recorder.summary.error is not None:
                self._is_finished = True
                self._rows.finish()
            elif self._rows.is_pending or self.now_ns > until_ns:
                self._mark(self.now_ns)
        return True

    def _read(self, until_ns: int) -> list[Orderbook | BookEvent]:
        timeout_s = None
        if self._rows.is_pending:
            timeout_s = PENDING_S
        elif until_ns != NEVER:
            timeout_s = max(until_ns + 1 - self.now_ns, 0) / NS_PER_S
        try:
            return self._source.read(timeout_s)
        except ClientError as error:
            self._recorder.summary.error = error
            return []

    def _add(self, messages: Sequence[Orderbook | BookEvent]) -> None:
        now_ns = time.monotonic_ns()
        self._recorder.add(messages)
        for message in messages:
            self._rows.add(message)
            if type(message) is not Orderbook:  # whose time is that of the last event
                self._offset_ns = min(self._offset_ns, now_ns - message.timestamp * MS_NS)

    def _mark(self, now_ns: int) -> None:
        mark = ClockMark(timestamp_ns=now_ns)
        self._recorder.mark(mark)
        self._rows.add(mark)


class LiveChunks(Iterator[Records]):
    """Chunks of a driver that are not complete yet: after the last one so far, others may follow.

    Args:
        first: chunks that are known already.
        take: returns the next one, or None.
    """

    def __init__(self, first: Iterator[Records], take: Callable[[], Records | None]) -> None:
        self._first, self._take = first, take

    def __next__(self) -> Records:
        """Return the next chunk."""
        chunk = next(self._first, None)
        if chunk is None:
            chunk = self._take()
        if chunk is None:
            raise StopIteration
        return chunk


class LiveDriver(ShadowDriver):
    """Executes a live feed in shadow mode; waits where a recorded stream has its next event.

    Args:
        stream: the first events.
        live: the others.
        options: arguments of :class:`~clob.replay.modes.rematch.StreamDriver`.
    """

    def __init__(self, stream: Stream, *, live: LiveRows, **options: Any) -> None:
        super().__init__(stream, **options)
        self._live = live
        self._chunks = LiveChunks(self._chunks, live.take)

    def advance(self, until_ns: int, stop: Stop) -> list[OwnFill]:
        """Execute events up to a time, and wait until it has passed; see :class:`.Driver`."""
        fills: list[OwnFill] = []
        while True:
            fills += super().advance(until_ns, stop)
            if stop and (fills or self.changed >= 0):
                return fills
            # Later events may have the time of the last one.
            if not self.ended or until_ns < self.last_ns or not self._live.wait(until_ns):
                return fills
            self.ended = False
            self._load_chunk()


def paper(
    url: str,
    strategy: Strategy,
    *,
    markets: Sequence[str] = (),
    record: str | os.PathLike[str] | None = None,
    duration_s: float | None = None,
    lot_wei: int | None = None,
    every_ns: int | None = None,
    latency: Latency | None = None,
    self_trade: SelfTrade = SelfTrade.CANCEL_INCOMING,
    collateral: int | None = None,
    fees: Fees | str = no_fees,
    scale: int | None = None,
    mark: str = DEFAULT_MARK,
    equity_every_ns: int | None = EQUITY_EVERY_NS,
    horizons_ns: Sequence[int] = (),
    keep: Collection[str] = (),
    sample: int | None = None,
    api_key: str | None = None,
    **options: Unpack[FeedOptions],
) -> PaperRun:
    """Run a strategy in shadow mode over the live feed of a server; no order is sent.

    It ends with Ctrl-C, SIGTERM or the duration. ``backtest(open_stream(record), mode="shadow",
    strategy=..., ...)`` with the same options has an equal digest.

    A connection that ends is replaced and resumes after the last number; the clock of the strategy
    goes on meanwhile. Where messages are missing, the books are replaced and own orders leave them,
    which the strategy learns by ``on_order``.

    Args:
        url: base URL of the server, or of its WebSocket.
        strategy: the strategy.
        markets: ids of the markets; empty for all.
        record: the file to create for the recording; None for none.
        duration_s: time after which it ends; None for no limit.
        lot_wei: the size of one lot, in wei; None takes that of the markets, or a millionth of a
            token if it is smaller than 10**9.
        every_ns: interval of ``on_wake``, as in :func:`clob.replay.backtest`.
        latency: see there.
        self_trade: see there.
        collateral: see there.
        fees: see there.
        scale: see there.
        mark: see there.
        equity_every_ns: see there.
        horizons_ns: see there.
        keep: see there; without ``"fills"`` and ``"bests"`` memory grows with own orders only.
        sample: see there.
        api_key: API key of the connection; None for none.
        options: options of :class:`~clob.client.Feed`.

    Raises:
        ClientError: there is no connection at the start, or a market does not exist.
        OSError: the file exists or cannot be written.
        ValueError: an argument is out of range.
        ReplayFormatError: a size is not a whole number of lots.
    """
    source = FeedSource(url, markets, duration_s=duration_s, api_key=api_key, **options)
    with source, FeedRecorder(record) as recorder:
        lot = lot_wei or lot_of(int(one.lot_wei) for one in source.markets)
        header, problems = source.header(lot), Problems("warn")
        recorder.begin(header)
        live = LiveRows(source, FeedRows(source.feed.url, header, lot, problems), recorder)
        first = live.begin()
        stream = Stream(
            lambda: [first],
            lo=PRICE_MIN,
            hi=PRICE_MAX,
            lot_wei=lot,
            instruments=instruments_of_header(header),
            name=source.feed.url,
            note=NOTE,
            problems=problems,
        )
        result = backtest(
            stream,
            mode="shadow",
            strategy=strategy,
            every_ns=every_ns,
            latency=latency,
            self_trade=self_trade,
            collateral=collateral,
            fees=fees,
            scale=scale,
            mark=mark,
            equity_every_ns=equity_every_ns,
            horizons_ns=horizons_ns,
            keep=keep,
            sample=sample,
            driver_class=partial(LiveDriver, live=live),
        )
        recorder.summary.num_connections = source.feed.num_connections
    return PaperRun(result, stream, recorder.summary)


def lot_of(lots: Iterator[int]) -> int:
    """Return the lot of a run, in wei, from those of its markets."""
    common = math.gcd(*lots)
    return common if common >= LOT_LEAST else LOT_WEI
