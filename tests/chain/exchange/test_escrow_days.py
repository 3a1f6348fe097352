"""Random days with hostile makers: escrow and wallets are conserved to the wei."""

import os
import random  # noqa: TID251  # the draws of a test, from a seed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.escrow_days import EscrowDay

SEEDS = int(os.environ.get("CLOB_ESCROW_DAYS", "6"))
"""Number of long days; 800 of them are 200,000 calls."""
STEPS = 300


def run(market, seed, num_steps):
    """Run a day and return the number of its calls."""
    state = market.evm.snapshot()
    day = EscrowDay(market, random.Random(seed))
    try:
        for step in range(num_steps):
            day.step()
            if step % 10 == 0:
                day.check()
        day.check()
    finally:
        market.at(NOW_S)
        market.evm.revert(state)
    return day.num_calls


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_random_day_conserves_escrow_and_wallets(shared, seed):
    run(shared, seed, 25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_long_random_day_conserves_escrow_and_wallets(shared, seed):
    assert run(shared, seed, STEPS) > STEPS // 2
