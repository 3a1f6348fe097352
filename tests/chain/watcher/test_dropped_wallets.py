"""Wallets that the worker drops and watches again, compared with accounts computed from logs."""

import pytest

from clob_server.chain.events import ChainUpdate
from clob_server.chain.watcher.logs import log_requests
from tests.chain.chains import Chain, done, split
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.server_mirror import ONE, ServerMirror, SettlingMarket
from tests.chain.watcher.test_escrow import REQUEST, EscrowMarket, EscrowMirror

SEND = "transfer(address,uint256)"


@pytest.fixture(scope="module", params=KINDS)
def venue(request, tmp_path_factory):
    """A market on a node of either kind and a worker."""
    folder = tmp_path_factory.mktemp("dropping")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = Chain(node, folder / "chain")
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            venue.mirror = ServerMirror(worker)
            venue.mirror.watch(*venue.tokens)
            yield venue


def of(mirror, user):
    """Return the accounts of a user by asset."""
    return {asset: amount for (wallet, asset), amount in mirror.accounts.items() if wallet == user}


def reads(venue, user):
    """Return the updates that name a wallet."""
    updates = [each for each in venue.worker.messages if type(each) is ChainUpdate]
    return [each for each in updates if any(own.wallet == user for own in each.holdings)]


def test_dropped_wallet_is_not_reported_until_it_is_asked_for(venue):
    mirror, place = venue.mirror, venue.chain.contracts.collateral
    idle, other = venue.trader(0), venue.trader(50, tokens=5 * ONE)
    mirror.until(lambda: idle.address in mirror.wallets and of(mirror, other.address))
    mirror.drop(idle)
    mirror.wait_for(other.call(place, SEND, other.address, ONE))
    before = len(reads(venue, idle.address))
    done(venue.worker, f"split {idle.address}", split(other, venue.condition, ONE))
    mirror.wait_for(other.call(place, SEND, idle.address, 20 * ONE))
    assert len(reads(venue, idle.address)) == before
    mirror.ask_for(idle)
    assert of(mirror, idle.address) == {place: 20 * ONE}
    mirror.wait_for(other.call(place, SEND, idle.address, ONE))
    assert mirror.accounts == venue.books.accounts(*venue.tokens)


def test_wallet_that_is_asked_for_is_read_without_a_new_block(venue):
    mirror, place = venue.mirror, venue.chain.contracts.collateral
    idle, other = venue.trader(0), venue.trader(5, tokens=2 * ONE)
    yes, _ = venue.tokens
    mirror.until(lambda: idle.address in mirror.wallets)
    mirror.drop(idle)
    mirror.wait_for(other.call(place, SEND, idle.address, ONE))
    signature = "safeTransferFrom(address,address,uint256,uint256,bytes)"
    tokens = venue.chain.contracts.conditional_tokens
    values = other.address, idle.address, yes, ONE, b""
    mirror.wait_for(other.call(tokens, signature, *values))
    mirror.ask_for(idle)
    assert of(mirror, idle.address) == {place: ONE, str(yes): ONE}
    mirror.ask_for(idle)
    assert of(mirror, idle.address) == {place: ONE, str(yes): ONE}


def test_dropped_wallet_that_approves_again_comes_back_by_itself(venue):
    mirror, place = venue.mirror, venue.chain.contracts.collateral
    idle, other = venue.trader(0), venue.trader(50)
    mirror.until(lambda: idle.address in mirror.wallets)
    mirror.drop(idle)
    mirror.wait_for(other.call(place, SEND, idle.address, 20 * ONE))
    assert of(mirror, idle.address) == {}
    mirror.wait_for(venue.approve(idle, 15 * ONE))
    assert idle.address in mirror.wallets
    assert of(mirror, idle.address) == {place: 15 * ONE}


def test_filters_name_watched_wallets_only(venue):
    idle, other = venue.trader(0), venue.trader(1)
    mirror = venue.mirror
    mirror.until(lambda: {idle.address, other.address} <= set(mirror.wallets))
    mirror.drop(idle)
    mirror.wait_for(other.call(venue.chain.contracts.collateral, SEND, other.address, 1))
    requests = log_requests(venue.chain.contracts, mirror.wallets, 1, 1)
    assert idle.address[2:].lower() not in str(requests)
    assert other.address[2:].lower() in str(requests)


@pytest.mark.long
def test_escrow_of_a_dropped_wallet_is_reported(tmp_path):
    with running(start_node("anvil", tmp_path)) as node:
        chain = Chain(node, tmp_path / "chain")
        with chain.worker(confirmations=1, final_blocks=2) as worker:
            venue = EscrowMarket(chain, worker)
            venue.mirror = mirror = EscrowMirror(worker)
            mirror.watch(*venue.tokens)
            maker, seller = venue.depositor(), venue.depositor(0, tokens=10 * ONE)
            mirror.wait_for(venue.deposit(maker))
            mirror.drop(maker)  # its deposit is not final
            venue.deposit(seller, 10 * ONE, venue.condition.yes)
            node.ask("anvil_mine", "0x2")
            mirror.until(lambda: mirror.escrow[maker.address, venue.cash][0] == 10 * ONE)
            mirror.drop(maker)
            fill = venue.fill(maker, seller, 4 * ONE, 50)
            venue.settle_escrow(fill)
            mirror.until(lambda: mirror.escrow[maker.address, venue.cash][0] == 8 * ONE)
            assert mirror.escrow[maker.address, str(venue.condition.yes)][0] == 4 * ONE
            mirror.drop(maker)
            mirror.wait_for(maker.call(venue.exchange, REQUEST, 0, 8 * ONE))
            assert mirror.escrow[maker.address, venue.cash] == (0, 8 * ONE, 8 * ONE)
