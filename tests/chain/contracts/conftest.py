"""A virtual machine on which the contracts are deployed."""

import pytest

from tests.chain.contracts.evm import Evm


@pytest.fixture
def evm():
    """A fresh one, without contracts."""
    return Evm()


@pytest.fixture(scope="module")
def world():
    """One that all tests of a module share, and where the contracts lie on it."""
    evm = Evm()
    return evm, evm.deploy_all()
