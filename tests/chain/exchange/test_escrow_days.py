"""Random days with hostile makers: escrow and wallets are conserved to the wei.

``CLOB_ESCROW_CALLS`` is the number of calls on anvil, and ``CLOB_ESCROW_SEED`` the first seed.
"""

import contextlib
import os
import random  # noqa: TID251  # the draws of a test, from a seed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain.contracts.anvil_evm import AnvilEvm, start_unsigned_anvil
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.escrow_days import DayMarket, EscrowDay
from tests.chain.nodes import running

DAY_CALLS = 1_000
DAYS = -(-int(os.environ.get("CLOB_ESCROW_CALLS", "3000")) // DAY_CALLS)
SEED = int(os.environ.get("CLOB_ESCROW_SEED", "0"))


@pytest.fixture(scope="module")
def shared():
    return DayMarket()


@pytest.fixture(scope="module")
def on_anvil():
    with running(start_unsigned_anvil()) as node, contextlib.closing(AnvilEvm(node)) as evm:
        yield DayMarket(evm)


def run(market, seed, num_calls):
    """Run a day of at least so many calls."""
    market.at(NOW_S)
    state = market.evm.snapshot()
    day = EscrowDay(market, random.Random(seed))
    try:
        day.run(num_calls)
    finally:
        market.evm.revert(state)
    assert day.num_calls >= num_calls


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_random_day_conserves_escrow_and_wallets(shared, seed):
    run(shared, seed, 25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEED, SEED + DAYS))
def test_random_day_on_anvil_conserves_escrow_and_wallets(on_anvil, seed):
    run(on_anvil, seed, DAY_CALLS)
