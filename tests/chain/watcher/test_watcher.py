"""Chain updates of a worker, compared with accounts computed from the logs."""

import pytest

from clob.order import Side
from clob.signing import order_hash
from clob.wire.operations import SettleBody
from clob_server.chain.eth.exchange_abi import CANCEL
from clob_server.chain.events import ChainUpdate, WalletHolding
from clob_server.chain.messages import OperationDone
from tests.chain.chains import Chain, done, split
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.server_mirror import ONE, ServerMirror, SettlingMarket
from tests.chain.signed_fills import order_values

NOWHERE = f"0x{'11' * 20}"


@pytest.fixture(scope="module", params=KINDS)
def venue(request, tmp_path_factory):
    """A market on a node of either kind and a worker, for all tests of this module."""
    folder = tmp_path_factory.mktemp("watching")
    with running(start_node(request.param, folder / "devchain")) as node:
        world = Chain(node, folder / "chain")
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            venue.watched = list(venue.tokens)
            venue.mirror = ServerMirror(worker)
            venue.mirror.watch(*venue.watched)
            yield venue


def check(venue, receipt):
    """Check that the updates up to a block agree with the logs."""
    venue.mirror.wait_for(receipt)
    assert venue.mirror.accounts == venue.books.accounts(*venue.watched)


@pytest.mark.long
def test_approvals_trades_revocations_and_transfers_are_reported(venue):
    mirror, place = venue.mirror, venue.chain.contracts.collateral
    buyer, seller = venue.trader(), venue.trader(tokens=100 * ONE, approves=False)
    check(venue, venue.approve(buyer))
    assert mirror.accounts[buyer.address, place] == 1_000 * ONE
    check(venue, venue.approve_all(seller))
    assert mirror.accounts[seller.address, str(venue.tokens[0])] == 100 * ONE
    fill = venue.fill(buyer, seller, 40 * ONE, 25)
    check(venue, venue.settle(fill))
    [result] = [each for each in mirror.settlements if each.trade_id == fill.trade_id]
    assert (result.error, result.responsible) == (None, ())
    assert mirror.accounts[buyer.address, str(venue.tokens[0])] == 40 * ONE
    assert mirror.accounts[buyer.address, place] == 990 * ONE
    check(venue, venue.approve_all(seller, False))
    assert not [account for account in mirror.accounts if account[0] == seller.address]
    check(venue, buyer.call(place, "transfer(address,uint256)", seller.address, 990 * ONE))
    assert (buyer.address, place) not in mirror.accounts
    assert {buyer.address, seller.address} <= set(mirror.wallets)


def test_limited_allowance_is_used_up(venue):
    mirror, place = venue.mirror, venue.chain.contracts.collateral
    buyer, seller = venue.trader(), venue.trader(tokens=100 * ONE)
    check(venue, venue.approve(buyer, 30 * ONE))
    assert mirror.accounts[buyer.address, place] == 30 * ONE
    check(venue, venue.settle(venue.fill(buyer, seller, 40 * ONE, 50)))
    assert mirror.accounts[buyer.address, place] == 10 * ONE


def test_wallet_without_token_approval_has_no_available_tokens(venue):
    mirror, token = venue.mirror, str(venue.tokens[0])
    buyer, seller = venue.trader(approves=False), venue.trader(tokens=10 * ONE)
    venue.approve(buyer)
    check(venue, venue.settle(venue.fill(buyer, seller, ONE)))
    assert (buyer.address, token) not in mirror.accounts
    updates = [each for each in venue.worker.messages if type(each) is ChainUpdate]
    zero = WalletHolding(wallet=buyer.address, asset=token, amount="0")
    assert any(zero in each.holdings for each in updates if not each.whole)
    check(venue, venue.approve_all(buyer))
    assert mirror.accounts[buyer.address, token] == ONE


def test_failed_fill_is_reported_with_reason_and_responsible_wallet(venue):
    poor, buyer, seller = venue.trader(), venue.trader(), venue.trader(tokens=10 * ONE)
    place = venue.chain.contracts.collateral
    poor.call(place, "transfer(address,uint256)", seller.address, 1_000 * ONE)
    fails, settles = venue.fill(poor, seller, ONE), venue.fill(buyer, seller, ONE)
    receipt = venue.settle(fails, settles)
    check(venue, receipt)
    first, second = venue.mirror.settlements[-2:]
    assert (first.trade_id, second.trade_id) == (fails.trade_id, settles.trade_id)
    assert first.tx == second.tx == receipt["transactionHash"]
    assert first.error.startswith("ERC20InsufficientBalance")
    assert first.responsible == (poor.address,)
    assert (second.error, second.responsible) == (None, ())


def test_trade_settled_twice_is_reported_once(venue):
    buyer, seller = venue.trader(), venue.trader(tokens=10 * ONE)
    fill = venue.fill(buyer, seller, ONE)
    venue.settle(fill)
    end = venue.worker.do("again", SettleBody(fills=[fill]))
    assert type(end) is OperationDone
    check(venue, venue.approve(buyer))
    assert venue.mirror.block > int(venue.receipt("again")["blockNumber"], 16)
    result = [each for each in venue.mirror.settlements if each.trade_id == fill.trade_id]
    assert len(result) == 1


def test_permissions_set_and_revoked_are_reported(venue):
    mirror, (one, other) = venue.mirror, (venue.trader(0, approves=False) for _ in range(2))
    for kind in ("delegate", "payer", "payee"):
        venue.permit(one, kind, other.address)
    check(venue, one.call(venue.exchange, "setGasless(bool)", True))
    kinds = {"delegate": other, "payer": other, "payee": other, "gasless": one}
    given = {(kind, one.address, user.address) for kind, user in kinds.items()}
    assert given <= mirror.permissions
    assert {one.address, other.address} <= set(mirror.wallets)
    check(venue, venue.permit(one, "payer", other.address, False))
    assert mirror.permissions & given == given - {("payer", one.address, other.address)}


def test_raised_nonces_and_cancelled_orders_are_reported(venue):
    maker = venue.trader(0, approves=False)
    maker.call(venue.exchange, "raiseNonce(uint256)", 7)
    order = venue.order(maker, Side.BUY, 50, ONE)
    check(venue, maker.send(venue.exchange, CANCEL.encode(order_values(order))))
    assert venue.mirror.nonces[maker.address] == 7
    assert venue.mirror.cancelled[-1] == f"0x{order_hash(order, venue.domain).hex()}"


def test_additional_tokens_are_watched(venue):
    mirror, other = venue.mirror, venue.chain.condition(venue.worker)
    holder = venue.trader(10, tokens=ONE)
    done(venue.worker, "other split", split(holder, other, 3 * ONE))
    venue.permit(holder, "delegate", holder.address)
    mirror.until(lambda: ("delegate", holder.address, holder.address) in mirror.permissions)
    assert (holder.address, str(other.yes)) not in mirror.accounts
    mirror.add(other.yes, other.no)
    venue.watched += other.yes, other.no
    mirror.until(lambda: (holder.address, str(other.yes)) in mirror.accounts)
    assert mirror.accounts[holder.address, str(other.no)] == 3 * ONE


def test_batch_transfer_is_reported(venue):
    giver, taker = venue.trader(10, tokens=5 * ONE), venue.trader(0)
    place = venue.chain.contracts.conditional_tokens
    signature = "safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)"
    amounts = [2 * ONE, ONE]
    receipt = giver.call(place, signature, giver.address, taker.address, venue.tokens, amounts, b"")
    check(venue, receipt)
    held = [venue.mirror.accounts[taker.address, str(token)] for token in venue.tokens]
    assert held == amounts


@pytest.mark.long
def test_next_worker_continues_after_the_last_update(tmp_path):
    with running(start_node("anvil", tmp_path)) as node:
        world = Chain(node, tmp_path / "chain")
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            mirror = ServerMirror(worker)
            mirror.watch(*venue.tokens)
            buyer, seller = venue.trader(), venue.trader(tokens=100 * ONE)
            mirror.until(lambda: seller.address in mirror.wallets)
            heard, block = len(mirror.settlements), mirror.block
        buyer.call(world.contracts.collateral, "transfer(address,uint256)", NOWHERE, 300 * ONE)
        with world.worker() as venue.worker:
            fill = venue.fill(buyer, seller, ONE)
            receipt = venue.settle(fill)
            late = venue.trader(5)
            mirror.continue_with(venue.worker, *venue.tokens)
            mirror.wait_for(receipt)
            assert mirror.accounts == venue.books.accounts(*venue.tokens)
            assert [each.trade_id for each in mirror.settlements[heard:]] == [fill.trade_id]
            assert late.address in mirror.wallets
            assert mirror.block > block
