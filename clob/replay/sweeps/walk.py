"""Walk-forward splits: slices of a stream in time, each starting with the book of that time.

The orders that rest at the start of a slice are ``SEED`` records, oldest first in each queue. They
come from a replay of everything before the slice, without a strategy and corrected to the recorded
fills, so the book of a slice equals the book of the whole run at every time.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from clob.book import Book
from clob.order import owner_number
from clob.records import EVENT, Kind
from clob.replay.io.recording import Records
from clob.replay.io.streams import Stream
from clob.replay.modes.rematch import StreamDriver
from clob.replay.sim.driver import Stop
from clob.replay.sweeps.mapped import MappedStream

FILL = int(Kind.FILL)


class WalkSplit(NamedTuple):
    """A slice to choose parameters on, and the slice after it to test them on."""

    number: int
    """Place in the walk, from 0."""
    train: Stream
    """The events from ``start_ns`` up to ``test_ns``."""
    test: Stream
    """The events from ``test_ns`` up to ``end_ns``."""
    start_ns: int
    """Start of the training slice."""
    test_ns: int
    """End of the training slice and start of the test slice."""
    end_ns: int
    """End of the test slice; the stream may end before."""


class BookMark(NamedTuple):
    """A time in a stream, and the books there."""

    ts_ns: int
    """The time; events of this time are after the mark."""
    event: int
    """Index of the first event after the mark."""
    seed: Records
    """The resting orders of all books as ``SEED`` events, oldest first in each queue."""


def walk_forward(
    stream: Stream | MappedStream, *, train_ns: int, test_ns: int, step_ns: int | None = None
) -> Iterator[WalkSplit]:
    """Split a stream into training and test slices that move forward in time.

    The first training slice starts with the first event that is not a seed. Splits are yielded
    while one replay of the stream goes on, so that only the books of open splits are in memory. The
    last test slice may be shorter than ``test_ns``.

    Args:
        stream: the recorded flow. A slice is read by skipping all events before it, which is fast
            for a mapped stream and for a recording in memory.
        train_ns: length of a training slice, 1 or more.
        test_ns: length of a test slice, 1 or more.
        step_ns: distance between the starts of two splits; None for ``test_ns``, so that the test
            slices follow each other without a gap.

    Yields:
        The splits, in order. Each has events in both slices; others are left out.

    Raises:
        ValueError: a length is not an integer of 1 or more.
        ReplayFormatError: the input is malformed and the policy is ``"raise"``.
    """
    step_ns = test_ns if step_ns is None else step_ns
    for name, value in (("train_ns", train_ns), ("test_ns", test_ns), ("step_ns", step_ns)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be an integer of 1 or more (ns); got {value!r}")
    source = stream.open() if isinstance(stream, MappedStream) else stream
    return _splits(source, train_ns, test_ns, step_ns)


def _splits(stream: Stream, train_ns: int, test_ns: int, step_ns: int) -> Iterator[WalkSplit]:
    driver = StreamDriver(stream)
    title, number = stream.name or "stream", 0
    ahead = (0, train_ns, train_ns + test_ns)
    times = heapq.merge(*(itertools.count(driver.start_ns + each, step_ns) for each in ahead))
    marks: dict[int, BookMark] = {}
    # Splits end in order, so the next one to end starts here.
    start = driver.start_ns
    for ts_ns in times:
        if ts_ns not in marks:
            marks[ts_ns] = _mark(driver, ts_ns, marks)
        if ts_ns != start + ahead[-1]:
            continue
        first, middle, last = (marks[start + each] for each in ahead)
        if first.event < middle.event < last.event:
            train = _slice(stream, first, middle, f"{title}, training {number}")
            test = _slice(stream, middle, last, f"{title}, test {number}")
            yield WalkSplit(number, train, test, first.ts_ns, middle.ts_ns, last.ts_ns)
            number += 1
        start += step_ns
        if driver.ended and start + train_ns > driver.last_ns:
            return
        marks = {at: mark for at, mark in marks.items() if at >= start}


def _mark(driver: StreamDriver, ts_ns: int, before: dict[int, BookMark]) -> BookMark:
    """Execute the events before a time, and return the books there."""
    if not driver.ended:
        driver.advance(ts_ns - 1, Stop.NO)
    latest = max(before.values(), default=None)
    if latest is not None and latest.event == driver.next_index:
        return latest._replace(ts_ns=ts_ns)
    return BookMark(ts_ns, driver.next_index, resting_orders(driver.history, ts_ns))


def resting_orders(books: Mapping[int, Book], ts_ns: int) -> Records:
    """Return the resting orders of books as ``SEED`` events, oldest first in each queue.

    Args:
        books: the books by instrument; makers are owners of records.
        ts_ns: the time of the events.
    """
    orders = [(number, order) for number, book in books.items() for order in book.orders()]
    seed = np.zeros(len(orders), EVENT)
    seed["ts_ns"] = seed["recv_ns"] = ts_ns
    seed["kind"] = Kind.SEED
    seed["seq"] = np.arange(len(orders))
    seed["instrument"] = [number for number, _ in orders]
    seed["order_id"] = [books[number].number_of(order.order_id) for number, order in orders]
    seed["side"] = [order.side for _, order in orders]
    seed["price"] = [order.price for _, order in orders]
    seed["size"] = [order.remaining // books[number].lot_wei for number, order in orders]
    seed["owner"] = [owner_number(order.maker) for _, order in orders]
    return seed


def _slice(stream: Stream, first: BookMark, last: BookMark, name: str) -> Stream:
    """Return the events between two marks, after the orders that rest at the first.

    Recorded fills stay with their command if a mark separates them.
    """

    def blocks() -> Iterator[Records]:
        seed = first.seed.copy()
        seed["ts_ns"] = seed["recv_ns"] = first.ts_ns
        yield seed
        place, begun = 0, False
        for chunk in stream.borrowed():
            begin, end = max(first.event - place, 0), max(last.event - place, 0)
            place += len(chunk)
            if begin >= len(chunk):
                continue
            part = chunk[begin:end]
            if not begun:
                part = part[_leading_fills(part) :]
                begun = len(part) > 0
            if len(part):
                yield part
            if end <= len(chunk):
                rest = chunk[end:]
                fills = _leading_fills(rest)
                if fills and begun:
                    yield rest[:fills]
                if fills < len(rest):
                    return

    public = {field: value for field, value in vars(stream).items() if not field.startswith("_")}
    return Stream(blocks, **public | {"name": name})


def _leading_fills(events: Records) -> int:
    """Count the recorded fills at the start of events."""
    others = np.flatnonzero(events["kind"] != FILL)
    return int(others[0]) if len(others) else len(events)
