"""Real order flow: the book of a stock must match the recorded one after every message."""

import numpy as np
import pytest

from clob.records import Kind
from tests.real.lobster import NAMELESS, read_books, read_executions, read_places, read_stream
from tests.real.queues import Queues


@pytest.fixture(scope="module")
def stream():
    return read_stream()


@pytest.fixture(scope="module")
def events(stream):
    return next(stream.chunks(10**6))


def test_conclusions_are_counted(stream, events):
    assert (len(events), stream.lo, stream.hi) == (28_469, 47_700, 69_895)
    assert len(stream.problems) == 0
    assert stream.problems.remarks == {
        "order older than the file": 263,
        "order never announced": 6,
        "order without a name in the first book": 1,
        "hidden trade between two ticks": 5,
    }


def test_events_are_in_order(events):
    times, numbers = events["ts_ns"], events["seq"].astype(np.int64)
    assert (np.diff(times) >= 0).all()
    assert (np.diff(numbers) >= 0).all()


@pytest.mark.parametrize("size", [7, 4_096])
def test_chunks_have_the_same_events(stream, events, size):
    start = 0
    for chunk in stream.chunks(size):
        assert np.array_equal(chunk, events[start : start + len(chunk)])
        start += len(chunk)
    assert start == len(events)


def one_by_one(events):
    """Split runs into one incoming order per execution, since the file has the book after each."""
    some = events.take(np.flatnonzero(events["kind"] != Kind.IOC))
    executed = np.flatnonzero(some["kind"] == Kind.FILL)
    some["seq"][executed] = read_executions()
    some["side"][executed] ^= 1
    some["kind"][executed] = Kind.IOC
    return some.take(np.argsort(some["seq"], kind="stable"))


def test_ten_best_levels_match_on_every_line(book_class, stream, events):
    places, events = read_places(), one_by_one(events)
    book = book_class(lo=stream.lo, hi=stream.hi)
    start = right = 0
    for line, levels in zip(places, read_books(), strict=True):
        end = int(np.searchsorted(events["seq"], line, "right"))
        book.run(events[start:end])
        start = end
        depth = book.depth(10)
        found = [[[level.price, level.size] for level in each] for each in (depth.bids, depth.asks)]
        right += found == levels
    assert (right, len(places)) == (999, 999)
    book.check()


def test_best_prices_match_the_records(book_class, stream, events):
    book = book_class(lo=stream.lo, hi=stream.hi)
    start, records = 0, np.flatnonzero(events["kind"] == Kind.BBO)
    for record in records.tolist():
        book.run(events[start:record])
        start = record
        depth = book.depth(1)
        best = (depth.asks if events["side"][record] else depth.bids)[0]
        assert (best.price, best.size) == (events["price"][record], events["size"][record])
    assert len(records) == 451


def test_incoming_orders_meet_the_recorded_orders(events):
    queues = Queues()
    queues.follow(events)
    assert (queues.exact, queues.differing, queues.crossed) == (1_180, 2, 0)
    recorded = events[events["kind"] == Kind.FILL]
    assert (recorded["order_id"] < NAMELESS).all()
