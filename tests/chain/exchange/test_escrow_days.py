"""Random days with hostile makers: escrow and wallets are conserved to the wei.

``CLOB_ESCROW_CALLS`` is the number of calls on anvil, and ``CLOB_ESCROW_SEED`` the first seed.
"""

import contextlib
import os
import random  # noqa: TID251  # the draws of a test, from a seed
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chain.contracts.anvil_evm import AnvilEvm, start_unsigned_anvil
from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.escrow_days import DayMarket, EscrowDay
from tests.chain.nodes import running

CALLS = int(os.environ.get("CLOB_ESCROW_CALLS", "3000"))
SEED = int(os.environ.get("CLOB_ESCROW_SEED", "0"))
DAY_CALLS = 1_000


@pytest.fixture(scope="module")
def shared():
    return DayMarket()


def run(market, seed, num_calls):
    """Run a day and return it."""
    market.at(NOW_S)
    state = market.evm.snapshot()
    day = EscrowDay(market, random.Random(seed))
    try:
        day.run(num_calls)
    finally:
        market.evm.revert(state)
    return day


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_random_day_conserves_escrow_and_wallets(shared, seed):
    run(shared, seed, 25)


@pytest.mark.long
def test_random_days_on_anvil_conserve_escrow_and_wallets(capsys):
    with running(start_unsigned_anvil()) as node, contextlib.closing(AnvilEvm(node)) as evm:
        market = DayMarket(evm)
        num_calls = num_replaced = 0
        for seed in range(SEED, SEED + -(-CALLS // DAY_CALLS)):
            day = run(market, seed, DAY_CALLS)
            num_calls += day.num_calls
            num_replaced += day.num_replaced
            with capsys.disabled():
                sys.stdout.write(f"seed {seed}: {num_calls} calls, {num_replaced} again\n")
    assert num_calls >= CALLS
