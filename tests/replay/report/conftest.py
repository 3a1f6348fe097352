"""The runs that the report tests share."""

import pytest

from clob.replay import Stream, backtest
from tests.replay.report.runs import run, several


@pytest.fixture(scope="session")
def own(day):
    """A run with a strategy, settled."""
    return run(Stream.of(day), outcome={0: 100})


@pytest.fixture(scope="session")
def plain(day):
    """A run without a strategy."""
    return backtest(Stream.of(day), sample=64)


@pytest.fixture(scope="session")
def many():
    """A run in several markets."""
    return run(several(), collateral=300 * 10**18, outcome={0: 100})


@pytest.fixture(scope="session")
def odds(day):
    """A run whose recording has a text for each price."""
    stream = Stream.of(day)
    stream.labels = tuple(f"{100 + tick}.5" for tick in range(day.lo, day.hi + 1))
    return run(stream)
