"""Chain updates after reorganisations, during faults of the node, and in large numbers."""

import contextlib
import json
import time

import pytest

from clob.wire.operations import SettleBody
from clob_server.chain.events import ChainUpdate
from clob_server.chain.messages import OperationDone
from tests.chain.chains import Chain, done, faucet
from tests.chain.nodes import running, start_anvil
from tests.chain.proxy import Delay, Drop, Fault, Raw, RawError, Reject, Result, proxy_to
from tests.chain.server_mirror import ONE, ServerMirror, SettlingMarket
from tests.chain.wallets import UNIT, calldata, receipt_of

APPROVE = "approve(address,uint256)"
GIVE = "transfer(address,uint256)"
LOGS = "eth_getLogs"
IDLE_S = 4.5


class Narrow(Fault):
    """A node that limits requests for logs.

    Args:
        limit: largest number of blocks, or of logs.
        code, message: the error above it; ``{first}``, ``{last}`` and ``{limit}`` are filled in.
        counts_logs: whether the number of logs is limited instead of the range.
        status: HTTP status of the error; None for an error in a response with status 200.
    """

    def __init__(self, limit, code, message, *, counts_logs=False, status=None):
        super().__init__(LOGS)
        self.limit, self.code, self.message = limit, code, message
        self.counts_logs, self.status = counts_logs, status
        self.answered, self.rejected = [], []
        """Blocks of the requests that were answered and rejected."""

    def answer(self, call, forward):
        first, last = (int(call["params"][0][name], 16) for name in ("fromBlock", "toBlock"))
        width = last - first + 1
        answer = forward(call)
        if (len(answer["result"]) if self.counts_logs else width) <= self.limit or width == 1:
            self.answered.append(width)
            return answer
        self.rejected.append(width)
        message = self.message.format(first=hex(first), last=hex(last), limit=self.limit)
        error = {"code": self.code, "message": message}
        response = {"jsonrpc": "2.0", "id": call["id"], "error": error}
        if self.status is not None:
            raise RawError(self.status, json.dumps({**response, "id": None}).encode())
        return response


WORKS = "Based on your parameters, this block range should work: [{first}, {last}]"
LIMITS = {
    "Infura, results": lambda: Narrow(
        3, -32005, "query returned more than {limit} results. Try with this block range "
        "[{first}, {last}].", counts_logs=True,
    ),
    "Infura, range": lambda: Narrow(3, -32602, "range 65 exceeds limit of {limit}"),
    "Alchemy, results": lambda: Narrow(
        3, -32602, "Log response size exceeded. You can make eth_getLogs requests with up to a 2K "
        "block range and no limit on the response size, or you can request any block range with a "
        f"cap of {{limit}} logs in the response. {WORKS}", counts_logs=True, status=400,
    ),
    "Alchemy, range": lambda: Narrow(
        10, -32600, "Under the Free tier plan, you can make eth_getLogs requests with up to a "
        f"{{limit}} block range. {WORKS}", status=400,
    ),
    "Geth": lambda: Narrow(20, -32602, "exceed maximum block range: {limit}"),
    "Erigon, results": lambda: Narrow(
        3, -32000, "query returns too many logs, narrow your filter: {limit}", counts_logs=True
    ),
    "Erigon, range": lambda: Narrow(
        20, -32000, "query block range exceeds server limit, narrow your filter: {limit}"
    ),
    "a gateway": lambda: Narrow(20, -32000, "request entity too large", status=413),
}  # fmt: skip
"""Errors of providers and nodes for ranges that are too large, as they return them."""


@contextlib.contextmanager
def followed(folder, **settings):
    """Yield a market on anvil behind a proxy, and a server that receives updates."""
    with running(start_anvil()) as node, proxy_to(node) as proxy:
        world = Chain(node, folder / "chain", proxy.url)
        with world.worker(**settings) as worker:
            venue = SettlingMarket(world, worker)
            venue.proxy, venue.node = proxy, node
            venue.mirror = ServerMirror(worker)
            venue.mirror.watch(*venue.tokens)
            yield venue


@pytest.fixture
def venue(tmp_path):
    with followed(tmp_path) as venue:
        yield venue


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A market for all tests that do not revert the chain."""
    with followed(tmp_path_factory.mktemp("shared")) as venue:
        yield venue


def check(venue, receipt):
    """Check that the updates up to a block agree with the logs."""
    venue.mirror.wait_for(receipt)
    assert venue.mirror.accounts == venue.books.accounts(*venue.tokens)


def updates_of(worker, since=0):
    """Return all updates that a worker sent."""
    return [each for each in worker.messages[since:] if type(each) is ChainUpdate]


def place_of(venue):
    """Return the address of the collateral."""
    return venue.chain.contracts.collateral


# ----- reorganisations -----------------------------------------------------------------------


def test_reorganisation_reverts_reported_state(venue):
    mirror, node = venue.mirror, venue.node
    buyer, seller = venue.trader(), venue.trader(tokens=10 * ONE)
    other = venue.trader(0, approves=False)
    venue.permit(seller, "delegate", other.address)
    snapshot = node.ask("evm_snapshot")
    venue.approve(buyer, 7 * ONE)
    venue.permit(buyer, "delegate", other.address)
    check(venue, buyer.call(place_of(venue), GIVE, other.address, 100 * ONE))
    assert ("delegate", buyer.address, other.address) in mirror.permissions
    result = mirror.block
    node.ask("evm_revert", snapshot)
    receipt = buyer.call(place_of(venue), GIVE, other.address, 10 * ONE)
    mirror.until(lambda: mirror.num_whole == 2)
    check(venue, receipt)
    assert mirror.accounts[buyer.address, place_of(venue)] == 990 * ONE
    assert mirror.block < result
    assert mirror.permissions == {("delegate", seller.address, other.address)}


def test_reorganisation_to_a_shorter_chain(venue):
    mirror, node = venue.mirror, venue.node
    buyer = venue.trader(approves=False)
    before = int(node.ask("eth_blockNumber"), 16)
    snapshot = node.ask("evm_snapshot")
    check(venue, venue.approve(buyer))
    node.ask("evm_revert", snapshot)
    mirror.until(lambda: mirror.num_whole == 2)
    assert mirror.block <= before
    assert mirror.accounts == {}


def test_trade_settled_on_two_branches_is_reported_twice(venue):
    mirror, node = venue.mirror, venue.node
    buyer, seller = venue.trader(), venue.trader(tokens=10 * ONE)
    fill = venue.fill(buyer, seller, ONE)
    snapshot = node.ask("evm_snapshot")
    check(venue, venue.settle(fill))
    node.ask("evm_revert", snapshot)
    receipt = venue.approve(buyer)  # so that the transaction is in another block
    mirror.until(lambda: len(mirror.settlements) == 2)
    first, second = mirror.settlements
    assert (first.trade_id, first.tx) == (second.trade_id, second.tx)
    check(venue, receipt)


@pytest.mark.long
def test_reorganisation_without_a_running_worker(tmp_path):
    with running(start_anvil()) as node:
        world = Chain(node, tmp_path / "chain")
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            mirror = ServerMirror(worker)
            mirror.watch(*venue.tokens)
            snapshot = node.ask("evm_snapshot")
            buyer = venue.trader(approves=False)
            mirror.wait_for(venue.approve(buyer))
            mirror.wait_for(venue.permit(buyer, "delegate", venue.exchange))
            assert mirror.permissions
        node.ask("evm_revert", snapshot)
        node.ask("anvil_mine", "0x20")
        with world.worker() as worker:
            mirror.continue_with(worker, *venue.tokens)
            assert mirror.accounts == venue.books.accounts(*venue.tokens) == {}
            assert mirror.permissions == set()


@pytest.mark.long
def test_only_confirmed_blocks_are_reported(tmp_path):
    with running(start_anvil()) as node:
        world = Chain(node, tmp_path / "chain")
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            buyer = venue.trader(approves=False)
        with world.worker(confirmations=3) as worker:
            mirror = venue.mirror = ServerMirror(worker)
            mirror.watch(*venue.tokens)
            receipt = venue.approve(buyer)
            for _ in range(2):
                time.sleep(1.5)
                assert [each.block for each in updates_of(worker)] == [mirror.block]
                snapshot = node.ask("evm_snapshot")
                node.ask("evm_mine")
            check(venue, receipt)
            assert mirror.accounts[buyer.address, place_of(venue)] == 1_000 * ONE
            node.ask("evm_revert", snapshot)  # a block on top of the reported ones
            node.ask("anvil_mine", "0x5")
            receipt = venue.approve(buyer, 0)
            node.ask("anvil_mine", "0x2")
            check(venue, receipt)
            assert mirror.accounts == {}
            assert mirror.num_whole == 1


# ----- a full block --------------------------------------------------------------------------


def test_approvals_transfers_and_settlement_in_one_block(venue):
    mirror, node = venue.mirror, venue.node
    buyer, seller = venue.trader(), venue.trader(tokens=10 * ONE)
    place, rich = place_of(venue), 1_000 * ONE
    fill = venue.fill(buyer, seller, 2 * ONE)
    node.ask("evm_setAutomine", False)
    revoke = "setApprovalForAll(address,bool)"
    for user, to, *call in (
        (buyer, place, APPROVE, venue.exchange, 0),
        (buyer, place, APPROVE, venue.exchange, 5 * ONE),
        (buyer, place, GIVE, seller.address, rich - 3 * ONE),
        (seller, venue.chain.contracts.conditional_tokens, revoke, venue.exchange, False),
    ):
        node.ask("eth_sendRawTransaction", user.sign(to, calldata(*call)))
    since = venue.worker.start("settle", SettleBody(fills=[fill]))
    time.sleep(1)
    node.ask("evm_mine")
    assert type(venue.worker.end("settle", since)) is OperationDone
    receipt = venue.receipt("settle")
    check(venue, receipt)
    assert [each.trade_id for each in mirror.settlements] == [fill.trade_id]
    # The operator's transaction may be first or last in the block; both results are valid.
    assert mirror.accounts[seller.address, place] >= rich - 3 * ONE


# ----- faults of the node --------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_history(tmp_path_factory):
    """A chain of many blocks, with the logs of one wallet near its end."""
    with running(start_anvil()) as node, proxy_to(node) as proxy:
        world = Chain(node, tmp_path_factory.mktemp("history") / "chain", proxy.url)
        world.proxy = proxy
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            node.ask("anvil_mine", "0x40")
            buyer = venue.trader(approves=False)
            for amount in range(1, 7):
                receipt = venue.approve(buyer, amount * ONE)
            venue.buyer, venue.receipt = buyer, receipt
        yield venue


@pytest.mark.parametrize("name", LIMITS)
def test_log_requests_adapt_to_the_limit_of_the_node(long_history, name):
    venue = long_history
    with venue.chain.proxy.inject(LIMITS[name]()) as fault, venue.chain.worker() as worker:
        venue.mirror = ServerMirror(worker)
        venue.mirror.watch(*venue.tokens)
        check(venue, venue.receipt)
    assert venue.mirror.wallets == [venue.buyer.address]
    assert max(fault.rejected) > 64
    if not fault.counts_logs:
        head = int(venue.receipt["blockNumber"], 16)
        assert max(fault.answered) <= fault.limit
        assert len(fault.answered) > 2 * head / fault.limit  # two requests for each range


def test_range_grows_again_after_blocks_with_many_logs(long_history):
    venue = long_history
    limit = Narrow(1, -32005, "query returned more than {limit} results", counts_logs=True)
    with venue.chain.proxy.inject(limit) as fault, venue.chain.worker() as worker:
        mirror = venue.mirror = ServerMirror(worker)
        mirror.watch(*venue.tokens)
        check(venue, venue.receipt)
        narrow = min(fault.rejected)
        del fault.answered[:], fault.rejected[:]
        venue.chain.node.ask("anvil_mine", hex(2_000))
        check(venue, venue.approve(venue.buyer, 9 * ONE))
    assert narrow < 16
    assert max(fault.answered) > 128
    assert fault.rejected == []


@pytest.mark.parametrize(
    "fault",
    [
        lambda: Drop(LOGS),
        lambda: Delay(0.5, LOGS),
        lambda: Raw(500, b"no", LOGS),
        lambda: Raw(200, b"<html>", LOGS),
        lambda: Raw(200, b"{}", LOGS),
        lambda: Result({"a": 1}, LOGS),
        lambda: Result([{"address": "0x00"}], LOGS),
        lambda: Result(None, LOGS),
        lambda: Reject(-32000, "not now", LOGS),
        lambda: Drop("eth_call"),
        lambda: Reject(-32000, "missing trie node", "eth_call"),
        lambda: Result("0x", "eth_call"),
    ],
)
def test_node_faults_only_delay_updates(shared, fault):
    venue = shared
    buyer = venue.trader(approves=False)
    heard = len(venue.worker.messages)
    with venue.proxy.inject(fault()) as fault:
        receipt = venue.approve(buyer)
        end = time.monotonic() + IDLE_S
        while not fault.hits and time.monotonic() < end:
            time.sleep(0.05)
        assert fault.hits
        if "eth_call" not in (fault.methods or ()):  # operations use it, too
            gift = faucet(venue.chain.stranger(), 1)
            done(venue.worker, f"gift {gift.user}", gift)
        block = int(receipt["blockNumber"], 16)
        assert not [each for each in updates_of(venue.worker, heard) if each.block >= block]
    check(venue, receipt)
    assert venue.mirror.accounts[buyer.address, place_of(venue)] == 1_000 * ONE


@pytest.mark.long
def test_idle_chain_costs_one_block_request_per_poll(shared):
    venue = shared
    check(venue, venue.approve(venue.trader()))
    time.sleep(1.5)
    del venue.proxy.calls[:]
    time.sleep(IDLE_S)
    calls = list(venue.proxy.calls)
    assert not {LOGS, "eth_call"} & set(calls)
    fees = calls.count("eth_gasPrice")  # requested together with a block
    assert 0 < calls.count("eth_getBlockByNumber") - fees <= IDLE_S + 1


# ----- many wallets --------------------------------------------------------------------------


@pytest.mark.long
def test_five_hundred_wallets(tmp_path):
    with running(start_anvil()) as node:
        world = Chain(node, tmp_path / "chain")
        with world.worker() as worker:
            venue = SettlingMarket(world, worker)
            mirror = venue.mirror = ServerMirror(worker)
            rich = venue.trader(10_000)
            receipt = populate(venue, rich)
            mirror.watch(*venue.tokens)
            mirror.wait_for(receipt)
            assert [each.more for each in updates_of(worker) if each.whole] == [True, False]
            assert len(mirror.wallets) == 501
            assert mirror.accounts == venue.books.accounts(*venue.tokens)
        with world.worker() as venue.worker:
            seller = venue.trader(tokens=100 * ONE)
            begin = time.perf_counter()
            mirror.continue_with(venue.worker, *venue.tokens)
            assert time.perf_counter() - begin < 10
            assert mirror.accounts == venue.books.accounts(*venue.tokens)
            check(venue, venue.settle(venue.fill(rich, seller, ONE)))


def populate(venue, rich):
    """Fund 500 wallets that approve some collateral and all tokens."""
    node, place = venue.chain.node, place_of(venue)
    tokens = venue.chain.contracts.conditional_tokens
    node.ask("anvil_autoImpersonateAccount", True)
    node.ask("evm_setAutomine", False)  # avoids equal nonces of one sender
    approval = calldata("setApprovalForAll(address,bool)", venue.exchange, True)
    for number in range(500):
        wallet = f"0x{0x1234_0000 + number:040x}"
        node.ask("anvil_setBalance", wallet, hex(UNIT))
        send(node, rich.address, place, calldata(GIVE, wallet, (number + 1) * 10**15))
        send(node, wallet, place, calldata(APPROVE, venue.exchange, 10**17 * (number % 3 + 1)))
        send(node, wallet, tokens, approval)
        last = send(node, rich.address, place, calldata(GIVE, wallet, 1))
        if number % 25 == 24:
            node.ask("evm_mine")
    node.ask("evm_setAutomine", True)
    return receipt_of(node, last)


def send(node, sender, to, data):
    """Send a transaction of an impersonated account and return its hash."""
    transaction = {"from": sender, "to": to, "data": f"0x{data.hex()}", "gas": hex(300_000)}
    return node.ask("eth_sendTransaction", transaction)
