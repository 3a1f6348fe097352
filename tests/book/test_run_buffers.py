"""``run`` with a buffer for fills: any buffer size leads to the same result."""

import numpy as np
import pytest

from clob import FillsFullError, RunRejectedError, errors
from clob.records import FILL, Flag, Kind
from tests.books import SECOND_NS, ask, batch, bid, fill_book, fills_of, row, sell


def ids(book):
    return [order.order_id for order in book.orders()]


def test_fills_are_written_to_the_start_of_the_buffer(book_class):
    buffer = np.zeros(5, FILL)
    buffer["size"] = 77
    fills = book_class().run(batch(ask(1, 50, 5), bid(2, 50, 2)), buffer)
    assert fills_of(fills) == [(1, 1, 2, 2, 50)]
    assert np.shares_memory(fills, buffer)
    assert buffer["size"].tolist() == [2, 77, 77, 77, 77]


LARGEST_EVENT = 4
"""The largest number of fills of one event in ``crowded``."""


def crowded():
    """Events with 0 to 4 fills each, some of them rejected."""
    rows = []
    for i in range(1, 25):
        rows += [ask(100 * i + n, 50 + n, 2) for n in range(3)]
        rows += [row(Kind.IOC, 7, 0, 52, 1 + i % 6), row(Kind.CANCEL, 99)]
    return batch(*rows)


def test_any_buffer_size_leads_to_the_same_state(book_class):
    events = crowded()
    whole = book_class()
    expected = fills_of(whole.run(events, status=np.zeros(len(events), np.uint8)))
    most = max(sum(fill[0] == index for fill in expected) for index in range(len(events)))
    assert most == LARGEST_EVENT
    for room in range(LARGEST_EVENT, len(expected) + 2):
        book = book_class()
        assert run_in_pieces(book, events, room) == expected
        assert book.state_hash() == whole.state_hash()


def run_in_pieces(book, events, room):
    """Run events with a buffer of ``room`` fills, continuing until all are executed."""
    fills, start = [], 0
    while True:
        status = np.zeros(len(events) - start, np.uint8)
        try:
            head, end = book.run(events[start:], np.zeros(room, FILL), status), len(events)
        except FillsFullError as full:
            head, end = full.fills, start + full.index
        assert len(head) <= room
        assert end > start, "no event was executed"
        fills += [(event + start, *rest) for event, *rest in fills_of(head)]
        if end == len(events):
            return fills
        start = end


@pytest.mark.parametrize("room", range(LARGEST_EVENT))
def test_a_run_stops_before_an_event_that_does_not_fit(book_class, room):
    events = crowded()
    book, same = book_class(), book_class()
    with pytest.raises(FillsFullError) as caught:
        book.run(events, np.zeros(room, FILL), np.zeros(len(events), np.uint8))
    index = caught.value.index
    fills = same.run(events[:index], status=np.zeros(index, np.uint8))
    assert fills_of(caught.value.fills) == fills_of(fills)
    assert book.state_bytes() == same.state_bytes()
    assert len(same.run(events[index : index + 1])) + len(fills) > room
    book.check()


def test_a_rejected_event_needs_no_room(book_class):
    book = book_class()
    fok = row(Kind.LIMIT, 2, 0, 50, 9, flags=int(Flag.FOK))
    post = bid(3, 50, 9, flags=int(Flag.POST_ONLY))
    status = np.zeros(4, np.uint8)
    book.run(batch(ask(1, 50, 5), fok, post, bid(1, 50, 1)), np.zeros(0, FILL), status)
    assert status.tolist() == [
        0,
        errors.FokNotFillableError.number,
        errors.PostOnlyWouldCrossError.number,
        errors.DuplicateOrderError.number,
    ]
    with pytest.raises(RunRejectedError):
        book.run(batch(fok), np.zeros(0, FILL))


def test_prevented_and_expired_orders_need_no_room(book_class):
    book = fill_book(
        book_class(), sell("a", 50, 5, expiration_s=1), sell("b", 50, 5, maker="owner:3")
    )
    taker = bid(1, 50, 9, owner=3, policy=1, ts_ns=5 * SECOND_NS)
    assert len(book.run(batch(taker), np.zeros(0, FILL))) == 0
    assert ids(book) == [1]
