"""The compiled Book against its plain-Python twin: the same commands lead to the same results.

Method: a seeded flow of all commands over several grids, valid and rejected ones, goes into
both. The result or error of each call must be equal, error texts included, and every 1,000
operations the hash of the whole state. Three mixtures: mostly single calls, mostly batches, and
batches into one book against single calls into the other.

``CLOB_DIFF_SEED`` sets the seed, ``CLOB_DIFF_OPS`` the number of operations in all. Neither
hypothesis nor anything else beyond NumPy is needed here, so that this runs under a sanitizer.
"""

import sys

import pytest

from tests.books import load
from tests.differential.pair import MARKETS, OPS, SEED, Pair
from tests.flow import Call

MIXTURES = ("calls", "batches", "batches against calls")
TESTS = len(MARKETS) * len(MIXTURES)
SHORT, LONG = int(OPS or 60_000), int(OPS or 1_200_000)


@pytest.fixture(scope="module")
def classes():
    """The Book under test and the reference."""
    return load("compiled"), load("python")


def drive(classes, market, mixture, operations):
    """Run a number of operations on a pair of books."""
    pair = Pair(*classes, market, SEED, mixture)
    rng = pair.flow.rng
    batches_per_call = {"calls": 0.004, "batches": 0.5, "batches against calls": 1}[mixture]
    while pair.done < operations:
        if rng.random() >= batches_per_call:
            pair.step()
        elif mixture == "batches against calls":
            pair.batch_against_calls(rng.choice((0, 1, 3, 40, market.depth // 2)))
        else:
            pair.batch(rng.choice((0, 1, 2, 20, min(200, market.depth))))
    pair.hash()
    if operations < 2_000:
        return pair.about
    assert pair.trades > operations / 20, "this flow hardly trades"
    assert operations / 20 < pair.rejected < operations / 2, "most commands should be valid"
    return f"{pair.about}: {pair.done} operations, {pair.rejected} rejected, {pair.trades} trades"


markets = pytest.mark.parametrize("market", MARKETS, ids=lambda market: market.name)
mixtures = pytest.mark.parametrize("mixture", MIXTURES)


@markets
@mixtures
def test_both_books_agree(classes, market, mixture):
    drive(classes, market, mixture, SHORT // TESTS)


def test_both_books_reject_by_the_same_rule(classes):
    pair = Pair(*classes, MARKETS[0], SEED, "broken calls")
    for _ in range(500):
        pair.step()
    for _ in range(8_000):
        arguments = (pair.flow.order(), pair.flow.tick())
        pair.step(pair.flow.spoiled(Call("submit", arguments)))
        if pair.flow.chance(0.2):
            pair.step()


@pytest.mark.long
@markets
@mixtures
def test_both_books_agree_on_long_flows(classes, market, mixture, capsys):
    summary = drive(classes, market, mixture, LONG // TESTS)
    with capsys.disabled():
        sys.stdout.write(f"\n{summary}\n")
