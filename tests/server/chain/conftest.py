"""A server with the embedded chain for all tests of a module, and a new user for each test."""

import itertools

import pytest
from eth_utils import keccak

from tests.chain.chain_server import ChainServer
from tests.server.live import live_server

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain") / "data"
    with live_server(folder, chain="embedded", chain_port=0, rate_limits=False) as live:
        server = ChainServer(live)
        server.market = server.open_market("rain", "Will it rain tomorrow?")
        yield server


@pytest.fixture
def user(server):
    """A user without funds."""
    return server.user(f"0x{keccak(text=f'user {next(_numbers)}').hex()}")


@pytest.fixture
def funded_user(server, user):
    """A user with 100 units who has approved the operator."""
    server.faucet(user)
    user.approve_collateral()
    user.approve_tokens()
    return user
