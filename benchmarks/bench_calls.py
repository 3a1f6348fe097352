"""Single calls under pytest-benchmark: ``pytest benchmarks/bench_calls.py``.

The figures hold the cost of the harness, some tens of nanoseconds per call; they are for comparing
one commit with the next on the same machine, not for quoting.
"""

import pytest

from benchmarks.bench_submit import TOKEN, order, text_id
from benchmarks.growth import orders, resting
from benchmarks.workload import WEI_PER_LOT
from clob import Book

pytest.importorskip("pytest_benchmark")

NUM_RESTING = 10_000
NUM_CALLS = 10_000


@pytest.fixture
def book() -> Book:
    """A book with 10,000 orders."""
    made = Book(token=TOKEN)
    for one in orders(resting(NUM_RESTING)):
        made.submit(one)
    return made


def each(benchmark, setup, call):
    """Time one call after the other, each on what ``setup`` prepared for it."""
    things = iter(setup)
    benchmark.pedantic(
        call, setup=lambda: ((next(things),), {}), rounds=NUM_CALLS - 1, warmup_rounds=1
    )


def test_submit_resting(benchmark, book):
    """An order that rests, built before."""
    numbers = range(NUM_RESTING, NUM_RESTING + NUM_CALLS)
    new = [order(text_id(n), 0, 1 + n % 49, 10 * WEI_PER_LOT) for n in numbers]
    each(benchmark, new, book.submit)


def test_cancel(benchmark, book):
    """A cancel, spread over the book."""
    each(benchmark, [text_id(n * 7919 % NUM_RESTING) for n in range(NUM_CALLS)], book.cancel)


def test_depth(benchmark, book):
    """All levels."""
    assert len(benchmark(book.depth).bids) == 49


def test_best(benchmark, book):
    """The best bid."""
    assert benchmark(lambda: book.best_bid) == 49


def test_ahead(benchmark, book):
    """The place in its queue of an order in the middle."""
    assert benchmark(book.ahead, text_id(NUM_RESTING // 2)).num_orders > 0


def test_fork(benchmark, book):
    """A copy of the book."""
    assert len(benchmark(book.fork)) == NUM_RESTING


def test_simulate(benchmark, book):
    """What a small order would trade."""
    assert len(benchmark(book.simulate, order(text_id(NUM_RESTING), 0, 99, WEI_PER_LOT))) == 1


def test_state_hash(benchmark, book):
    """The hash of the whole book."""
    assert len(benchmark(book.state_hash)) == 32
