"""Real order flow: the book of a stock must be the recorded one after every message."""

import numpy as np
import pytest

from clob.records import Kind
from tests.real.data import data_file
from tests.real.lobster import (
    ANONYMOUS,
    HI,
    LO,
    events_of,
    places,
    read_books,
    read_messages,
    seed_of,
)

PAIR = "lobster_AAPL_2012-06-21_{}_10_first999.csv"
DEEP = "lobster_AAPL_2012-06-21_0930_0950_message_50.csv"


@pytest.fixture(scope="module")
def day():
    """The messages of fifty levels as events, the orders before them, and the book of ten levels.

    The book was recorded after each message that concerned its ten levels, so each line of it
    belongs after one of the messages of fifty levels.
    """
    messages = read_messages(data_file(DEEP))
    books = read_books(data_file(PAIR.format("orderbook")))
    after = places(read_messages(data_file(PAIR.format("message"))), messages)
    return seed_of(messages, books[0]), events_of(messages), list(zip(after, books, strict=True))


def test_the_ten_best_levels_are_the_recorded_ones_on_every_line(book_class, day):
    seed, events, recorded = day
    book = book_class(lo=LO, hi=HI)
    assert book.seed(seed) == len(seed)
    start = right = 0
    for place, levels in recorded:
        book.run(events[start : place + 1])
        start = place + 1
        depth = book.depth(10)
        found = [[(level.price, level.size) for level in side] for side in (depth.bids, depth.asks)]
        right += found == levels
    assert (right, len(recorded)) == (999, 999)
    book.check()


def test_the_executed_orders_are_the_recorded_ones(book_class, day):
    seed, events, recorded = day
    events = events[: recorded[-1][0] + 1]
    book = book_class(lo=LO, hi=HI)
    book.seed(seed)
    fills = book.run(events)
    executed = np.flatnonzero(events["kind"] == Kind.IOC)
    assert fills["event"].tolist() == executed.tolist()
    assert (fills["resting_id"] == events["order_id"][executed]).all()
    assert (fills["resting_id"] < ANONYMOUS).all()
    assert (fills["size"] == events["size"][executed]).all()
    assert (fills["price"] == events["price"][executed]).all()
