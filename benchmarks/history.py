"""History of the backtest benchmarks: half a million events, and the same day as an exchange feed.

The day is ``clob.replay.synthetic_day``, compressed to seven minutes so that a strategy with an
interval of 100 ms runs four thousand times. Its SHA-256 is pinned. :func:`feed` converts it to the
order-by-order feed that other libraries read.
"""

import functools
import hashlib
import os

import numpy as np

from benchmarks import workload
from benchmarks.workload import cache_dir
from clob import Book
from clob.records import EVENT, Kind
from clob.replay.io.recording import FIRST_RECORD, Recording, Records, join
from clob.replay.io.streams import Stream
from clob.replay.samples.synthetic import HI, LO, LOT_WEI, synthetic_day

NUM_EVENTS, NUM_QUICK = 500_000, 20_000
SEED, ORDERS = 1, 234_000
SPEED_UP = 200
"""Factor by which the day is compressed in time."""

PINNED = "5743dbdb26b664503959532f0fa0a2e0fa072dd5ef5dd058f60c2b91cb400f3e"

ADD, MODIFY, DELETE, TRADE, FILL = range(5)
"""Actions of a feed row."""

FEED = np.dtype(
    [
        ("ts_ns", "<i8"),
        ("order_id", "<u8"),
        ("size", "<i8"),
        ("price", "<i4"),
        ("action", "u1"),
        ("side", "u1"),
    ],
    align=True,
)
"""A row of a feed; ``size`` is the order's new size, or the traded size."""


def fingerprint(events: Records) -> str:
    """Return the SHA-256 over all fields, without padding."""
    digest = hashlib.sha256()
    for name in EVENT.names or ():
        digest.update(np.ascontiguousarray(events[name]).data)
    return digest.hexdigest()


@functools.cache
def history(*, quick: bool = False) -> Records:
    """Return the events, recorded fills after their commands.

    Raises:
        RuntimeError: the history differs from the pinned one.
    """
    path = cache_dir() / "history.npy"
    if path.exists():
        events = np.load(path)
    else:
        day = Stream.of(synthetic_day(SEED, ORDERS))
        events = join(list(day.chunks()))[:NUM_EVENTS]
        first_ns = int(events["ts_ns"].min())
        events["ts_ns"] = first_ns + (events["ts_ns"] - first_ns) // SPEED_UP
        events["recv_ns"] = events["ts_ns"]
    digest = fingerprint(events)
    if digest != PINNED:
        raise RuntimeError(f"history {path}: SHA-256 must be {PINNED}; got {digest}")
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.npy")
        np.save(part, events)
        part.replace(path)
    events = events.view(EVENT)
    return events[:NUM_QUICK] if quick else events


@functools.cache
def deep(name: str, *, quick: bool = False) -> Records:
    """Return the beginning of a stream of ``workload.py`` as a history of half a million events.

    Args:
        name: name of the stream; the orders that fill its book become seeds.
        quick: return a short history.
    """
    flow = workload.load(name)
    events = workload.to_events(flow)
    events["order_id"] += 1
    events["kind"][: flow.prefill] = Kind.SEED
    num_events = NUM_QUICK + flow.prefill if quick else NUM_EVENTS
    events = events[:num_events]
    fills = Book(lot_wei=workload.WEI_PER_LOT).run(events)
    recording = Recording(
        events=events, seed=events[:0], fills=fills, lo=LO, hi=HI, lot_wei=LOT_WEI, name=name
    )
    return join(list(Stream.of(recording).chunks()))[:num_events]


def stream_of(events: Records) -> Stream:
    """Return a stream over a history in memory."""
    return Stream(lambda: (events,), lo=LO, hi=HI, lot_wei=LOT_WEI, name="history")


def feed(events: Records) -> np.ndarray:
    """Return a history as the feed of an exchange.

    A trade is one row. Each resting order that it fills is a second row, and the resulting change
    of that order a third. The rest of an incoming order is added after them.

    Returns:
        Array of ``FEED``.
    """
    writer = _Feed()
    incoming: tuple[int, ...] | None = None
    for row in events.tolist():
        ts_ns, _, _, order_id, size, _, price, _, kind, side, _ = row
        if kind == Kind.FILL:
            writer.fill(ts_ns, order_id, size, price)
        elif kind < FIRST_RECORD:
            writer.end()
            incoming = (ts_ns, order_id, size, price, kind, side)
            writer.begin(*incoming)
    writer.end()
    return np.array(writer.rows, FEED)


class _Feed:
    """A feed under construction, and the remaining size of each order."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.left: dict[int, int] = {}
        self.side: dict[int, int] = {}
        self.price: dict[int, int] = {}
        self.command: tuple[int, ...] | None = None
        self.traded = 0

    def begin(self, *command: int) -> None:
        """Start a command; its fills follow."""
        self.command, self.traded = command, 0

    def fill(self, ts_ns: int, order_id: int, size: int, price: int) -> None:
        """Write the fill of a resting order and its remaining size."""
        assert self.command is not None
        side = self.side[order_id]
        if not self.traded:
            self.rows.append((ts_ns, 0, self.command[2], price, TRADE, 1 - side))
        self.traded += size
        self.rows.append((ts_ns, order_id, size, price, FILL, side))
        self.left[order_id] -= size
        left = self.left[order_id]
        self.rows.append((ts_ns, order_id, left, price, MODIFY if left else DELETE, side))

    def end(self) -> None:
        """Write the effect of the last command on its own order."""
        if self.command is None:
            return
        ts_ns, order_id, size, price, kind, side = self.command
        left = size - self.traded
        if kind in (Kind.LIMIT, Kind.SEED):
            if left:
                self.rest(order_id, left, price, side)
                self.rows.append((ts_ns, order_id, left, price, ADD, side))
        elif kind == Kind.CANCEL or (kind == Kind.REPLACE and not left):
            gone = (self.left[order_id], self.price[order_id], DELETE, self.side[order_id])
            self.rows.append((ts_ns, order_id, *gone))
        elif kind in (Kind.REDUCE, Kind.REPLACE):
            if kind == Kind.REDUCE:
                price = self.price[order_id]
            self.rest(order_id, left, price, self.side[order_id])
            self.rows.append((ts_ns, order_id, left, price, MODIFY, self.side[order_id]))
        self.command = None

    def rest(self, order_id: int, left: int, price: int, side: int) -> None:
        """Store the state of a resting order."""
        self.left[order_id], self.price[order_id], self.side[order_id] = left, price, side
