"""Single book calls under pytest-benchmark: ``pytest benchmarks/bench_calls.py``.

The figures include some tens of nanoseconds of harness per call. Use them to compare two commits on
one machine, not as absolute times.
"""

import pytest

from benchmarks.bench_submit import TOKEN, make_order, text_id
from benchmarks.growth import orders, resting
from benchmarks.workload import WEI_PER_LOT
from clob import Book

pytest.importorskip("pytest_benchmark", reason="needs `pip install '.[bench]'`")

NUM_RESTING = 10_000
NUM_CALLS = 10_000


@pytest.fixture
def book() -> Book:
    """Return a book with 10,000 orders."""
    book = Book(token=TOKEN)
    for order in orders(resting(NUM_RESTING)):
        book.submit(order)
    return book


def time_each(benchmark, arguments, call):
    """Time one call per argument, each argument used once."""
    remaining = iter(arguments)
    benchmark.pedantic(
        call, setup=lambda: ((next(remaining),), {}), rounds=NUM_CALLS - 1, warmup_rounds=1
    )


def test_submit_resting(benchmark, book):
    """Submit a prebuilt order that rests."""
    numbers = range(NUM_RESTING, NUM_RESTING + NUM_CALLS)
    new = [make_order(text_id(n), 0, 1 + n % 49, 10 * WEI_PER_LOT) for n in numbers]
    time_each(benchmark, new, book.submit)


def test_cancel(benchmark, book):
    """Cancel orders spread over the book."""
    time_each(benchmark, [text_id(n * 7919 % NUM_RESTING) for n in range(NUM_CALLS)], book.cancel)


def test_depth(benchmark, book):
    """Read all levels."""
    assert len(benchmark(book.depth).bids) == 49


def test_best(benchmark, book):
    """Read the best bid."""
    assert benchmark(lambda: book.best_bid) == 49


def test_ahead(benchmark, book):
    """Read the queue position of an order in the middle of the book."""
    assert benchmark(book.ahead, text_id(NUM_RESTING // 2)).num_orders > 0


def test_fork(benchmark, book):
    """Copy the book."""
    assert len(benchmark(book.fork)) == NUM_RESTING


def test_simulate(benchmark, book):
    """Simulate a small order that trades once."""
    assert len(benchmark(book.simulate, make_order(text_id(NUM_RESTING), 0, 99, WEI_PER_LOT))) == 1


def test_state_hash(benchmark, book):
    """Hash the whole book."""
    assert len(benchmark(book.state_hash)) == 32
