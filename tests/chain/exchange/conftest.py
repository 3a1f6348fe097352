"""The exchange contract in an EVM, reset after each test."""

import pytest

from tests.chain.contracts.evm import NOW_S
from tests.chain.exchange.evm_market import EvmMarket


@pytest.fixture(scope="module")
def shared():
    """The exchange of all tests of a module."""
    return EvmMarket()


@pytest.fixture
def market(shared):
    """The exchange, reset after each test."""
    state = shared.evm.snapshot()
    shared.at(NOW_S)
    yield shared
    shared.at(NOW_S)
    shared.evm.revert(state)
