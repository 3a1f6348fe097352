"""Fixtures of nodes: the development chain, anvil, or a test over both."""

import pytest

from tests.chain.nodes import KINDS, running, start_anvil, start_devchain, start_node


@pytest.fixture
def devchain(tmp_path):
    """A new development chain."""
    with running(start_devchain(tmp_path / "devchain")) as node:
        yield node


@pytest.fixture
def anvil():
    """A new anvil."""
    with running(start_anvil()) as node:
        yield node


@pytest.fixture(params=KINDS)
def node(request, tmp_path):
    """A new node of either kind."""
    with running(start_node(request.param, tmp_path / "devchain")) as node:
        yield node


@pytest.fixture(scope="module", params=KINDS)
def shared_node(request, tmp_path_factory):
    """A node of either kind, shared by all tests of a module."""
    with running(start_node(request.param, tmp_path_factory.mktemp("devchain"))) as node:
        yield node
