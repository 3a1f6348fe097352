"""A server with the embedded chain for all tests of a module, and a new user for each test."""

import itertools

import pytest
from eth_utils import keccak

from tests.chain.venues import Venue
from tests.server.live import live_server

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def venue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain") / "data"
    with live_server(folder, chain="embedded", chain_port=0, rate_limits=False) as live:
        venue = Venue(live)
        venue.market = venue.open_market("rain", "Will it rain tomorrow?")
        yield venue


@pytest.fixture
def user(venue):
    """A user without funds."""
    return venue.user(f"0x{keccak(text=f'user {next(_numbers)}').hex()}")


@pytest.fixture
def rich(venue, user):
    """A user with 100 units who has approved the operator."""
    venue.faucet(user)
    user.approve_collateral()
    user.approve_tokens()
    return user
