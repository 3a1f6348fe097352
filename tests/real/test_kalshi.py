"""A real log of six markets: the books have its best prices after every line."""

import csv

import pytest

from clob.replay import ReplayFormatError, ReplayWarning, backtest, open_stream
from tests.real.data import data_file
from tests.replay.readers.level_follower import follow_levels

pytestmark = pytest.mark.long

NAME = "kalshi_market_data_KXHIGHNY-25DEC14.csv"
LOCKED = r"must add up to 99 or less, got 28 \+ 72"
"""The only line of the file with crossed bids."""


@pytest.fixture(scope="module")
def stream():
    return open_stream(data_file(NAME), on_problem="warn")


@pytest.fixture(scope="module")
def events(stream):
    with pytest.warns(ReplayWarning, match=LOCKED):
        return next(stream.chunks(10**6))


def read_lines():
    """Return the best prices after each line except the crossed one."""
    markets, levels = {}, {}
    with data_file(NAME).open() as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            number = 2 * markets.setdefault(row["market_ticker"], len(markets))
            yes, no = int(row["best_yes_bid"]), int(row["best_no_bid"])
            if yes + no != 100:
                levels[number, 0], levels[number, 1] = yes, 100 - no
                yield line, {(*at, price): 1 for at, price in levels.items() if 0 < price < 100}


def test_crossed_line_is_the_only_problem(stream, events):
    with pytest.raises(ReplayFormatError, match=rf"{NAME}:27469: crossed book: .*{LOCKED}"):
        list(open_stream(data_file(NAME)).chunks())
    assert stream.problems.counts == {"crossed book": 1}
    assert (len(events), len(stream.instruments)) == (244_648, 6)


def test_orders_are_at_the_best_prices_after_every_line(events):
    lines = list(read_lines())
    right = 0
    for best, (_, levels) in zip(
        follow_levels([line for line, _ in lines], events), lines, strict=True
    ):
        right += best == levels
    assert right == len(lines) == 61_165


@pytest.mark.filterwarnings("ignore::clob.replay.ReplayWarning")
@pytest.mark.parametrize(("mirror", "bests"), [(True, 122_330), (False, 122_330)])
def test_replay_matches_the_records(mirror, bests):
    result = backtest(open_stream(data_file(NAME), on_problem="warn", mirror=mirror))
    assert (result.check.bests, result.check.bests_equal) == (bests, bests)
    assert result.divergence.total == 0
