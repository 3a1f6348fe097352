"""Fixtures of an EVM with the contracts."""

import pytest

from tests.chain.contracts.evm import Evm


@pytest.fixture
def evm():
    """A new EVM without contracts."""
    return Evm()


@pytest.fixture(scope="module")
def world():
    """An EVM shared by all tests of a module, and the addresses of the contracts on it."""
    evm = Evm()
    return evm, evm.deploy_all()
