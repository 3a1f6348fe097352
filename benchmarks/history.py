"""The history that backtests are measured on: half a million events, and the feed of the same day.

The day is ``clob.replay.synthetic_day``, pressed into seven minutes so that a strategy that wakes
every 100 ms wakes four thousand times. Its SHA-256 is pinned. :func:`feed` writes it as an exchange
sends it order by order, which is what other libraries read.
"""

import functools
import hashlib
import os

import numpy as np

from benchmarks import workload
from benchmarks.workload import cache_dir
from clob import Book
from clob.records import EVENT, Kind
from clob.replay.recording import FIRST_RECORD, Recording, Records, join
from clob.replay.streams import Stream
from clob.replay.synthetic import HI, LO, LOT_WEI, synthetic_day

NUM_EVENTS, NUM_QUICK = 500_000, 20_000
SEED, ORDERS = 1, 234_000
PRESSED = 200
"""How much quicker time passes than on the day."""

PINNED = "5743dbdb26b664503959532f0fa0a2e0fa072dd5ef5dd058f60c2b91cb400f3e"

ADD, MODIFY, DELETE, TRADE, FILL = range(5)
"""What a row of a feed says of an order."""

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
"""A row of a feed: time, order, its size from then on or that of the trade, price, action, side."""


def fingerprint(events: Records) -> str:
    """The SHA-256 over all fields; what lies between them may be anything."""
    digest = hashlib.sha256()
    for name in EVENT.names or ():
        digest.update(np.ascontiguousarray(events[name]).data)
    return digest.hexdigest()


@functools.cache
def history(*, quick: bool = False) -> Records:
    """Give the events, recorded fills behind their commands.

    Raises:
        RuntimeError: it is not the pinned history.
    """
    path = cache_dir() / "history.npy"
    if path.exists():
        events = np.load(path)
    else:
        day = Stream.of(synthetic_day(SEED, ORDERS))
        events = join(list(day.chunks()))[:NUM_EVENTS]
        first_ns = int(events["ts_ns"].min())
        events["ts_ns"] = first_ns + (events["ts_ns"] - first_ns) // PRESSED
        events["recv_ns"] = events["ts_ns"]
    made = fingerprint(events)
    if made != PINNED:
        raise RuntimeError(f"the history ({path}) is not what it was: {made}")
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.npy")
        np.save(part, events)
        part.replace(path)
    events = events.view(EVENT)
    return events[:NUM_QUICK] if quick else events


@functools.cache
def deep(name: str, *, quick: bool = False) -> Records:
    """Give the beginning of a stream of ``workload.py`` as a history of half a million events.

    Args:
        name: which one; the orders that fill its book beforehand are seeds.
        quick: whether a short one will do.
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
    """Make a stream of a history in memory."""
    return Stream(lambda: (events,), lo=LO, hi=HI, lot_wei=LOT_WEI, name="history")


def feed(events: Records) -> np.ndarray:
    """Write a history as the feed of an exchange.

    A trade is one row, each order filled by it another, and what that did to the order, as it is
    sent in feeds of this kind, a third. What is left of an incoming order is added behind.

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
    """A feed while it is being written, and what remains of each order."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.left: dict[int, int] = {}
        self.side: dict[int, int] = {}
        self.price: dict[int, int] = {}
        self.command: tuple[int, ...] | None = None
        self.traded = 0

    def begin(self, *command: int) -> None:
        """Take up a command; its fills come next."""
        self.command, self.traded = command, 0

    def fill(self, ts_ns: int, order_id: int, size: int, price: int) -> None:
        """Write what one resting order traded, and what is left of it."""
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
        """Write what the last command did to its own order."""
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
        """Keep what rests."""
        self.left[order_id], self.price[order_id], self.side[order_id] = left, price, side
