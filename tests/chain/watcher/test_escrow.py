"""Escrow in chain updates: final deposits, requests, trades, reorganisations, restarts."""

import pytest

from clob.wire.operations import SettleBody
from clob_server.chain.eth.exchange_abi import COLLATERAL_ASSET, DELAY_S
from clob_server.chain.events import (
    ChainUpdate,
    StartWatching,
    WalletHolding,
    Watched,
    WatchTokens,
    escrow_asset,
)
from tests.chain.chains import Chain, done, split
from tests.chain.nodes import KINDS, running, start_anvil, start_node
from tests.chain.server_mirror import ONE, ServerMirror, SettlingMarket
from tests.chain.settlements import advance_time
from tests.chain.wallets import receipt_of

DEPOSIT = "deposit(address,uint256,uint256)"
REQUEST = "requestWithdrawal(uint256,uint256)"
WITHDRAW = "withdraw(address,uint256)"
CASH = COLLATERAL_ASSET


class EscrowMirror(ServerMirror):
    """The same with escrow: amounts, balances and requests by wallet and asset."""

    def __init__(self, worker):
        super().__init__(worker)
        self.escrow = {}
        self.final_block = -1

    def watch(self, *tokens):
        self.worker.send(
            StartWatching(
                after_block=self.block,
                block_hash=self.hash,
                final_block=self.final_block,
                wallets=self.wallets,
                tokens=[],
                escrow_tokens=[str(token) for token in tokens],
            )
        )
        self.until(lambda: self.num_whole)

    def take(self, update):
        if update.whole and not self.is_part:
            self.escrow = {}
        self.final_block = update.final_block
        super().take(update)
        for each in update.holdings:
            if each.requested is not None:
                values = int(each.amount), int(each.balance), int(each.requested)
                self.escrow[each.wallet, each.asset] = values


class EscrowMarket(SettlingMarket):
    """A market in escrow."""

    @property
    def cash(self):
        """Asset of the collateral in escrow."""
        return escrow_asset(self.chain.contracts.collateral)

    def depositor(self, units=100, tokens=0):
        """Return a user who approved the exchange, with collateral and tokens in its wallet."""
        return self.trader(units + tokens // ONE, tokens=tokens)

    def deposit(self, user, amount=10 * ONE, asset=CASH, wallet=None):
        """Deposit an asset and return the receipt."""
        return user.call(self.exchange, DEPOSIT, wallet or user.address, asset, amount)

    def settle_escrow(self, *fills):
        """Settle trades in escrow and return the receipt."""
        name = f"settle {fills[0].trade_id}"
        answer = done(self.worker, name, SettleBody(fills=list(fills), custody="escrow"))
        return receipt_of(self.chain.node, answer["settleTx"])


@pytest.fixture(scope="module", params=KINDS)
def venue(request, tmp_path_factory):
    """An escrow market on a node of either kind, in which blocks are final at once."""
    folder = tmp_path_factory.mktemp("escrow")
    with running(start_node(request.param, folder / "devchain")) as node:
        chain = Chain(node, folder / "chain")
        with chain.worker(confirmations=1, final_blocks=1) as worker:
            venue = EscrowMarket(chain, worker)
            venue.mirror = EscrowMirror(worker)
            venue.mirror.watch(*venue.tokens)
            yield venue


def reported(venue, receipt, user, asset=None):
    """Wait for the block of a receipt; return amount, balance and request of a wallet."""
    venue.mirror.wait_for(receipt)
    return venue.mirror.escrow.get((user.address, asset or venue.cash))


def test_deposits_requests_and_withdrawals_are_reported(venue):
    user = venue.depositor()
    assert reported(venue, venue.deposit(user), user) == (10 * ONE, 10 * ONE, 0)
    assert user.address in venue.mirror.wallets
    request = user.call(venue.exchange, REQUEST, CASH, 3 * ONE)
    assert reported(venue, request, user) == (7 * ONE, 10 * ONE, 3 * ONE)
    advance_time(venue.chain.node, DELAY_S)
    paid = user.call(venue.exchange, WITHDRAW, user.address, CASH)
    assert reported(venue, paid, user) == (7 * ONE, 7 * ONE, 0)
    holding = WalletHolding(
        wallet=user.address, asset=venue.cash, amount=str(7 * ONE), balance=str(7 * ONE),
        requested="0",
    )  # fmt: skip
    updates = [each for each in venue.worker.messages if type(each) is ChainUpdate]
    assert holding in updates[-1].holdings


def test_deposit_for_a_wallet_without_any_approval_is_reported(venue):
    payer, user = venue.depositor(), venue.chain.stranger()
    receipt = venue.deposit(payer, ONE, wallet=user.address)
    assert reported(venue, receipt, user) == (ONE, ONE, 0)
    assert (user.address, venue.chain.contracts.collateral) not in venue.mirror.accounts


def test_trades_in_escrow_are_reported_with_both_accounts_of_both_makers(venue):
    buyer, seller = venue.depositor(), venue.depositor(tokens=10 * ONE)
    token = venue.tokens[0]
    venue.deposit(buyer)
    venue.deposit(seller, 10 * ONE, token)
    fill = venue.fill(buyer, seller, 4 * ONE, 50)
    receipt = venue.settle_escrow(fill)
    assert reported(venue, receipt, buyer) == (8 * ONE, 8 * ONE, 0)
    assert reported(venue, receipt, buyer, str(token)) == (4 * ONE, 4 * ONE, 0)
    assert reported(venue, receipt, seller) == (2 * ONE, 2 * ONE, 0)
    assert reported(venue, receipt, seller, str(token)) == (6 * ONE, 6 * ONE, 0)
    [result] = [each for each in venue.mirror.settlements if each.trade_id == fill.trade_id]
    assert (result.error, result.tx) == (None, receipt["transactionHash"])


def test_failed_trade_in_escrow_names_the_wallet_that_has_too_little(venue):
    buyer, seller = venue.depositor(), venue.depositor(tokens=10 * ONE)
    venue.deposit(buyer)
    fill = venue.fill(buyer, seller, ONE)
    venue.mirror.wait_for(venue.settle_escrow(fill))
    [result] = [each for each in venue.mirror.settlements if each.trade_id == fill.trade_id]
    assert result.error == (
        f"InsufficientEscrow: {seller.address} has 0 wei of asset {venue.tokens[0]} in escrow; "
        f"{ONE} are needed"
    )
    assert result.responsible == (seller.address,)


def test_tokens_of_a_market_that_opens_later_are_reported(venue):
    user, market = venue.depositor(), EscrowMarket(venue.chain, venue.worker)
    done(venue.worker, f"split {market.tokens[0]}", split(_split_by(user), market.condition, ONE))
    venue.deposit(user, ONE, market.tokens[0])
    venue.mirror.wait_for(venue.deposit(user, ONE))
    key = user.address, str(market.tokens[0])
    assert key not in venue.mirror.escrow
    venue.worker.send(WatchTokens(tokens=[], escrow_tokens=[str(market.tokens[0])]))
    venue.mirror.until(lambda: key in venue.mirror.escrow)
    assert venue.mirror.escrow[key] == (ONE, ONE, 0)


def _split_by(user):
    """Approve collateral for the operator and return the user."""
    user.approve_collateral()
    return user


def test_restarted_worker_reports_all_escrow(venue, tmp_path):
    user = venue.depositor()
    venue.mirror.wait_for(venue.deposit(user))
    before = {key: values for key, values in venue.mirror.escrow.items() if values[1]}
    other = Chain(venue.chain.node, tmp_path / "other")
    with other.worker(confirmations=1, final_blocks=1) as worker:
        venue.mirror.continue_with(worker, *venue.tokens)
        watched = {key: each for key, each in before.items() if _is_watched(venue, key[1])}
        assert venue.mirror.escrow == watched
    venue.mirror.worker = venue.worker


def _is_watched(venue, asset):
    """Return whether an asset is collateral or a token of the market."""
    return asset in (venue.cash, *map(str, venue.tokens))


def test_newest_block_is_reported_without_events(venue):
    since = len(venue.worker.messages)
    node = venue.chain.node
    node.ask("evm_mine")
    head = node.ask("eth_getBlockByNumber", "latest", False)
    number, time_s = (int(head[name], 16) for name in ("number", "timestamp"))
    venue.worker.wait_for(lambda message: message == Watched(block=number, time_s=time_s), since)


# ----- deposits that are not final -----------------------------------------------------------


@pytest.fixture
def slow(tmp_path):
    """An escrow market on anvil in which blocks are final after three more."""
    with running(start_anvil()) as node:
        chain = Chain(node, tmp_path / "chain")
        with chain.worker(confirmations=1, final_blocks=4) as worker:
            venue = EscrowMarket(chain, worker)
            venue.mirror = EscrowMirror(worker)
            venue.mirror.watch(*venue.tokens)
            yield venue


def test_deposit_counts_once_its_block_is_final(slow):
    user, node = slow.depositor(), slow.chain.node
    receipt = slow.deposit(user)
    assert reported(slow, receipt, user) == (0, 10 * ONE, 0)
    node.ask("evm_mine")
    assert reported(slow, slow.deposit(user, ONE), user) == (0, 11 * ONE, 0)
    node.ask("evm_mine")
    key = user.address, slow.cash
    slow.mirror.until(lambda: slow.mirror.escrow[key][0] > 0)
    assert slow.mirror.escrow[key] == (10 * ONE, 11 * ONE, 0)
    for _ in range(2):
        node.ask("evm_mine")
    slow.mirror.until(lambda: slow.mirror.escrow[key] == (11 * ONE, 11 * ONE, 0))


def test_request_counts_at_once(slow):
    user, node = slow.depositor(), slow.chain.node
    slow.mirror.wait_for(slow.deposit(user))
    for _ in range(3):
        node.ask("evm_mine")
    key = user.address, slow.cash
    slow.mirror.until(lambda: slow.mirror.escrow[key] == (10 * ONE, 10 * ONE, 0))
    slow.deposit(user, 4 * ONE)
    receipt = user.call(slow.exchange, REQUEST, CASH, 11 * ONE)
    assert reported(slow, receipt, user) == (0, 14 * ONE, 11 * ONE)


def test_reorganisation_removes_a_deposit_that_did_not_count(slow):
    user, node = slow.depositor(), slow.chain.node
    for _ in range(4):
        node.ask("evm_mine")
    snapshot = node.ask("evm_snapshot")
    assert reported(slow, slow.deposit(user), user) == (0, 10 * ONE, 0)
    node.ask("evm_revert", snapshot)
    for _ in range(5):
        node.ask("evm_mine")
    key = user.address, slow.cash
    slow.mirror.until(lambda: key not in slow.mirror.escrow)
    again = slow.deposit(user, ONE)
    assert reported(slow, again, user) == (0, ONE, 0)
    for _ in range(3):
        node.ask("evm_mine")
    slow.mirror.until(lambda: slow.mirror.escrow[key] == (ONE, ONE, 0))


def test_restarted_worker_still_waits_for_the_final_block(slow, tmp_path):
    user, node = slow.depositor(), slow.chain.node
    assert reported(slow, slow.deposit(user), user) == (0, 10 * ONE, 0)
    other = Chain(node, tmp_path / "other")
    with other.worker(confirmations=1, final_blocks=4) as worker:
        slow.mirror.continue_with(worker, *slow.tokens)
        key = user.address, slow.cash
        assert slow.mirror.escrow[key] == (0, 10 * ONE, 0)
        for _ in range(3):
            node.ask("evm_mine")
        slow.mirror.until(lambda: slow.mirror.escrow[key] == (10 * ONE, 10 * ONE, 0))
