"""Forks: a copy and its original are independent."""

import pytest

from tests.books import load
from tests.differential.pair import MARKETS, Pair
from tests.flow import Flow, outcome

STEPS = 400
markets = pytest.mark.parametrize("market", MARKETS, ids=lambda market: market.name)


def grown(book_class, reference_class, market):
    """Return a pair of books with many orders."""
    pair = Pair(book_class, reference_class, market, 5, "forks")
    for _ in range(2 * STEPS):
        pair.step()
    pair.batch(100)
    return pair


def step_all(pairs, steps):
    """Run pairs alternately, so that shared memory would be written by all."""
    for _ in range(steps):
        for pair in pairs:
            pair.step()
            if pair.flow.chance(0.01):
                pair.batch(20)
    for pair in pairs:
        pair.hash()


@markets
def test_forks_are_independent(book_class, market):
    original = grown(book_class, load("python"), market)
    first = original.fork("first")
    step_all([original, first], STEPS)
    second = first.fork("second")
    step_all([original, first, second], STEPS // 2)


@markets
def test_fork_outlives_its_original(book_class, market):
    original = grown(book_class, load("python"), market)
    fork = original.fork("survivor")
    original.book.clear()
    del original
    step_all([fork], STEPS)


@markets
def test_changing_a_fork_keeps_the_original(book_class, market):
    book = grown(book_class, book_class, market).book
    before, fork = book.state_bytes(), book.fork()
    assert fork.state_bytes() == before
    assert type(fork) is type(book)
    flow = Flow("away", market, fork)
    flow.ids = [order.order_id for order in fork.orders()]
    for _ in range(STEPS):
        outcome(flow.call(), fork)
    fork.clear()
    book.check()
    assert book.state_bytes() == before


@markets
def test_changing_the_original_keeps_a_fork(book_class, market):
    book = grown(book_class, book_class, market).book
    fork, before = book.fork(), book.state_bytes()
    book.clear()
    fork.check()
    assert fork.state_bytes() == before


@markets
def test_simulate_is_submit_on_a_fork(book_class, market):
    book = grown(book_class, book_class, market).book
    flow = Flow("what if", market, book)
    flow.ids = [order.order_id for order in book.orders()]
    before = book.state_bytes()
    for _ in range(100):
        order, now_ms = flow.order(), flow.tick()
        fork = book.fork()
        expected = outcome(lambda book, a=(order, now_ms): book.submit(*a), fork)
        if isinstance(expected, list):
            expected = [event for event in expected if type(event).__name__ == "Trade"]
        got = outcome(lambda book, a=(order, now_ms): book.simulate(*a), book)
        assert got == expected, f"{order!r} at {now_ms}"
        assert book.state_bytes() == before
