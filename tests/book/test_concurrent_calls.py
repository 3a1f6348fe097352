"""A call during another one, from a thread or a callback, raises ``BookBusyError``."""

import sys
import threading
from time import monotonic

import numpy as np
import pytest

from clob import BookBusyError, ClobError
from clob.errors import PriceOutOfRangeError
from clob.records import FILL, Kind
from tests.books import ask, batch, buy, fill_book, row, sell

PATIENCE_S = 60
"""Timeout for catching the other thread inside a call."""

CALLS = {
    "submit": lambda book: book.submit(buy("late", 1, 1)),
    "rest": lambda book: book.rest(buy("late", 1, 1)),
    "cancel": lambda book: book.cancel("a"),
    "reduce": lambda book: book.reduce("a", size=1),
    "replace": lambda book: book.replace("a", price=1, size=1),
    "expire": lambda book: book.expire(0),
    "clear": lambda book: book.clear(),
    "run": lambda book: book.run(batch()),
    "seed": lambda book: book.seed(batch()),
    "simulate": lambda book: book.simulate(buy("late", 1, 1)),
    "fork": lambda book: book.fork(),
    "check": lambda book: book.check(),
    "depth": lambda book: book.depth(),
    "order": lambda book: book.order("a"),
    "orders": lambda book: book.orders(),
    "ahead": lambda book: book.ahead("a"),
    "number_of": lambda book: book.number_of("a"),
    "id_of": lambda book: book.id_of(2**63),
    "state_bytes": lambda book: book.state_bytes(),
    "state_hash": lambda book: book.state_hash(),
    "len": len,
    "in": lambda book: "a" in book,
    "repr": repr,
    "html": lambda book: book._repr_html_(),
    "seq": lambda book: book.seq,
    "best_bid": lambda book: book.best_bid,
    "best_ask": lambda book: book.best_ask,
}


@pytest.fixture
def quick_switches():
    """Switch threads so often that one can call while the other is inside a call."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def busy_book(book_class, quick_switches):
    """A book on which another thread calls ``run`` in a loop."""
    book = fill_book(book_class(), buy("a", 1, 9))
    book.run(batch(*(ask(i, 50, 10**15) for i in range(1, 40))))
    events = np.repeat(batch(row(Kind.IOC, 7, 0, 50, 1)), 20_000)
    fills = np.zeros(len(events), FILL)
    stop = threading.Event()
    failures = []

    def keep_running():
        while not stop.is_set():
            try:
                book.run(events, fills)
            except BookBusyError:
                continue
            except Exception as error:
                failures.append(error)
                return

    thread = threading.Thread(target=keep_running)
    thread.start()
    yield book
    stop.set()
    thread.join()
    assert failures == []
    book.check()


def test_every_call_during_a_run_of_another_thread_raises_book_busy(busy_book):
    for name, call in CALLS.items():
        assert observed(busy_book, call), name


def observed(book, call):
    """Repeat a call until it finds the book busy; earlier attempts may succeed."""
    deadline = monotonic() + PATIENCE_S
    while monotonic() < deadline:
        try:
            call(book)
        except BookBusyError:
            return True
        except ClobError:
            continue
    return False


class Meddler:
    """A value that calls the book in its ``repr``, which an error message needs during a call."""

    def __init__(self, book, call):
        self.book, self.call, self.raised = book, call, None

    def __repr__(self):
        try:
            self.call(self.book)
        except BookBusyError as rejection:
            self.raised = rejection
        return "a meddler"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_reentrant_call_raises_book_busy(book_class, call):
    book = fill_book(book_class(), buy("a", 50, 9), sell("b", 60, 9))
    before = book.state_hash()
    meddler = Meddler(book, call)
    with pytest.raises(PriceOutOfRangeError, match="a meddler"):
        book.submit(buy("c", meddler, 1))
    assert meddler.raised.code == "BOOK_BUSY"
    assert book.state_hash() == before
    book.check()


def test_book_accepts_calls_after_a_rejection_or_an_error(book_class):
    book = book_class()
    for wrong in (None, buy("a", 0, 1)):
        with pytest.raises((TypeError, PriceOutOfRangeError)):
            book.submit(wrong)
    fill_book(book, buy("a", 50, 1))


def test_a_call_on_another_book_is_allowed_during_a_call(book_class):
    book, other = book_class(), fill_book(book_class(), buy("a", 50, 9))
    meddler = Meddler(other, lambda other: other.cancel("a"))
    with pytest.raises(PriceOutOfRangeError, match="a meddler"):
        book.submit(buy("c", meddler, 1))
    assert meddler.raised is None
    assert len(other) == 0


def test_alternating_threads_lose_no_orders(book_class, quick_switches):
    book = book_class()
    done = []

    def work(first):
        for order_id in range(first, first + 300):
            while True:
                try:
                    book.submit(buy(order_id, 50, 1))
                    break
                except BookBusyError:
                    continue
            done.append(order_id)

    threads = [threading.Thread(target=work, args=(1_000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(book) == len(done) == book.seq == 1_200
    book.check()
