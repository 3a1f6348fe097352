"""An operator key shared with another program, rising fees, and an operator without gas."""

import re

import pytest

from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.messages import OperationDone, OperationRejected
from tests.chain.chains import Chain, answer_of, hashes_of
from tests.chain.failures import calls_of_merge
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.prepared_operations import BalancesBefore, OperationPool
from tests.chain.proxy import (
    SEND,
    AfterSending,
    DropTransaction,
    RequireHigherFees,
    RunBefore,
    fields_of,
    proxy_to,
)
from tests.chain.wallets import TIP_WEI, Wallet

pytestmark = pytest.mark.long
QUICK = {"rpc_timeout_s": 5.0, "bump_after_s": 0.5}
STOCK = 8
CONCURRENT = 4
SIMPLE_GAS = 21_000
GWEI = 10**9
DUST = ACCOUNTS[3].address


def chain_behind(node, proxy, folder):
    """Return a chain whose worker reaches the node through a proxy."""
    chain = Chain(node, folder, proxy.url)
    chain.proxy = proxy
    return chain


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nonces")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        proxy_to(node) as proxy,
    ):
        chain = chain_behind(node, proxy, folder / "chain")
        yield chain
        chain.check_conserved()


@pytest.fixture(scope="module")
def pool(chain):
    return OperationPool(chain, STOCK)


@pytest.fixture
def anvil_chain(anvil, tmp_path):
    """A chain on anvil, which mines on request."""
    with proxy_to(anvil) as proxy:
        chain = chain_behind(anvil, proxy, tmp_path)
        yield chain
        chain.check_conserved()


def send_as_operator(chain, to=DUST, value=1, **more):
    """Send a transaction with the operator's key, as another server would."""
    return Wallet(chain.node, OPERATOR.private_key).send(to, value=value, **more)


# ----- nonces --------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(4))
def test_step_is_signed_again_if_its_nonce_was_used(chain, pool, step):
    [operation] = pool.take("merge")
    before = BalancesBefore(chain, [operation])
    fault = RunBefore(
        lambda: send_as_operator(chain),
        SEND,
        calldata=calls_of_merge(chain, operation)[step],
        times=1,
    )
    with chain.worker(**QUICK) as worker:
        num_foreign = worker.last_state().num_foreign
        with chain.proxy.inject(fault):
            result = worker.do(next(chain.names), operation.body)
        hashes = hashes_of(answer_of(result))
        before.check_happened(len(hashes) + 1)
        chain.check_happened(hashes)
        worker.state(lambda state: state.num_foreign == num_foreign + 1)


def test_key_can_be_used_elsewhere_between_operations(chain, pool):
    [operation] = pool.take("merge")
    with chain.worker(**QUICK) as worker:
        send_as_operator(chain)
        before = BalancesBefore(chain, [operation])
        before.check_done("merge", worker.do(next(chain.names), operation.body))


def test_two_workers_with_one_key_run_each_operation_once(chain, pool):
    operations = pool.take(*["merge"] * 2 * CONCURRENT)
    named = [(next(chain.names), operation) for operation in operations]
    before = BalancesBefore(chain, operations)
    other = Chain(chain.node, chain.folder.with_name("other"), chain.url)
    with chain.worker(**QUICK) as first, other.worker(**QUICK) as second:
        workers = [first, second] * CONCURRENT
        for worker, (name, operation) in zip(workers, named, strict=True):
            worker.start(name, operation.body)
        ends = [worker.end(name) for worker, (name, _) in zip(workers, named, strict=True)]
        assert {type(end) for end in ends} == {OperationDone}, ends
    hashes = [hashed for end in ends for hashed in hashes_of(answer_of(end))]
    assert len(set(hashes)) == 4 * len(operations)
    before.check_happened(len(hashes))
    chain.check_happened(hashes)


# ----- gas balance ---------------------------------------------------------------------------


def drain_operator(chain):
    """Transfer nearly all ether of the operator away; return the amount."""
    block = chain.node.ask("eth_getBlockByNumber", "latest", False)
    max_fee = SIMPLE_GAS * (4 * int(block["baseFeePerGas"], 16) + TIP_WEI)
    value = chain.ledger.ether(chain.operator) - max_fee
    send_as_operator(chain, chain.friend.address, value, gas=SIMPLE_GAS)
    return value


def test_operator_without_gas_rejects_operations_until_funded(chain, pool):
    [operation] = pool.take("merge")
    value, name = drain_operator(chain), next(chain.names)
    before = BalancesBefore(chain, [operation])
    with chain.worker(**QUICK) as worker:
        result = worker.do(name, operation.body)
        assert type(result) is OperationRejected
        assert (result.code, chain.operator in result.detail) == ("OPERATOR_OUT_OF_GAS", True)
        worker.state(lambda state: state.out_of_gas)
        chain.friend.send(chain.operator, value=value)
        worker.state(lambda state: state.reachable and not state.out_of_gas, len(worker.messages))
        since = worker.start(name, operation.body)
        before.check_done("merge", worker.end(name, since))


@pytest.mark.parametrize("step", range(4))
def test_pending_operation_waits_for_gas(chain, pool, step):
    [operation] = pool.take("merge")
    before, amounts = BalancesBefore(chain, [operation]), []
    fault = RunBefore(
        lambda: amounts.append(drain_operator(chain)),
        SEND,
        calldata=calls_of_merge(chain, operation)[step],
        times=1,
    )
    with chain.worker(**QUICK) as worker:
        with chain.proxy.inject(fault):
            name = next(chain.names)
            since = worker.start(name, operation.body)
            worker.state(lambda state: state.out_of_gas, since)
        chain.friend.send(chain.operator, value=amounts[0])
        hashes = hashes_of(answer_of(worker.end(name, since)))
        before.check_happened(len(hashes) + 1)
        chain.check_happened(hashes)


# ----- fees ----------------------------------------------------------------------------------


def merge_on(chain):
    """Prepare a merge; return the operation, the balances before it, and its name."""
    [operation] = OperationPool(chain, 1).take("merge")
    return operation, BalancesBefore(chain, [operation]), next(chain.names)


def test_pending_transaction_is_bumped_by_more_than_the_node_requires(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    with chain.worker(**QUICK) as worker, chain.proxy.inject(RequireHigherFees(10)) as fault:
        chain.node.ask("evm_setAutomine", False)
        since = worker.start(name, operation.body)
        worker.state(lambda state: state.num_bumped >= 4, since)
        chain.node.ask("evm_setAutomine", True)
        chain.node.ask("evm_mine")
        before.check_done("merge", worker.end(name, since))
    assert fault.raised
    assert not fault.rejected


def test_first_transaction_counts_after_a_fee_bump(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    first = calls_of_merge(chain, operation)[0]
    with chain.worker(**QUICK) as worker:
        chain.node.ask("evm_setAutomine", False)
        with chain.proxy.inject(AfterSending(first, DropTransaction(calldata=first))):
            since = worker.start(name, operation.body)
            worker.state(lambda state: state.num_bumped >= 1, since)
            chain.node.ask("evm_setAutomine", True)
            chain.node.ask("evm_mine")
            before.check_done("merge", worker.end(name, since))
        [view] = [each for each in worker.operations() if each.id == name]
        step = view.steps[0]
        assert step.num_bumps >= 1
        assert answer_of(worker.do(name, operation.body))["yesTransferTx"] == step.hashes[0]


def test_fees_follow_a_rising_base_fee(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    base_fee_wei = 40 * TIP_WEI
    with chain.worker(**QUICK) as worker:

        def raise_base_fee():
            chain.node.ask("anvil_setNextBlockBaseFeePerGas", base_fee_wei)
            chain.node.ask("evm_mine")

        calldata = calls_of_merge(chain, operation)[2]
        with chain.proxy.inject(RunBefore(raise_base_fee, SEND, calldata=calldata, times=1)):
            before.check_done("merge", worker.do(name, operation.body))
        assert worker.state(lambda state: state.num_bumped).num_bumped >= 1


def test_fees_do_not_exceed_the_limit(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    limit = 4 * TIP_WEI
    sent = []
    recorder = RunBefore(lambda: None, SEND)
    recorder.answer = lambda call, forward: sent.append(call["params"][0]) or forward(call)
    with chain.worker(fee_max_wei=str(limit), **QUICK) as worker:
        chain.node.ask("evm_setAutomine", False)
        with chain.proxy.inject(recorder):
            since = worker.start(name, operation.body)
            worker.state(lambda state: state.num_bumped >= 2, since)
            chain.node.ask("evm_setAutomine", True)
            chain.node.ask("evm_mine")
            before.check_done("merge", worker.end(name, since))
    assert max(max(fields_of(bytes.fromhex(raw[2:]))[1]) for raw in sent) <= limit


def test_operation_names_the_limit_that_its_fee_has_reached(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    with chain.worker(fee_max_wei=str(4 * TIP_WEI), **QUICK) as worker:
        chain.node.ask("evm_setAutomine", False)
        since = worker.start(name, operation.body)
        reason = f"no block took it at .* gwei .*--chain-fee-max-gwei allows {4 * TIP_WEI // GWEI} "
        worker.state(lambda state: re.search(reason, state.detail), since)
        assert re.search(f"^yesTransferTx waits: {reason}", worker.get(name).detail)
        chain.node.ask("evm_setAutomine", True)
        chain.node.ask("evm_mine")
        before.check_done("merge", worker.end(name, since))
        worker.state(lambda state: not state.detail, len(worker.messages))


def test_operation_names_a_base_fee_above_the_limit(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    with chain.worker(fee_max_wei=str(4 * TIP_WEI), **QUICK) as worker:
        chain.node.ask("evm_setAutomine", False)
        since = worker.start(name, operation.body)
        worker.state(lambda state: state.counts.pending, since)
        chain.node.ask("anvil_setNextBlockBaseFeePerGas", 40 * TIP_WEI)
        chain.node.ask("evm_mine")
        reason = "the base fee of blocks is .* gwei; it pays at most .* gwei; --chain-fee-max-gwei"
        worker.state(lambda state: re.search(reason, state.detail), since)
        chain.node.ask("evm_setAutomine", True)
        chain.node.ask("anvil_setNextBlockBaseFeePerGas", 1)
        chain.node.ask("evm_mine")
        before.check_done("merge", worker.end(name, since))


def test_tip_of_the_settings_is_paid(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    with chain.worker(tip_wei=str(3 * TIP_WEI), **QUICK) as worker:
        result = worker.do(name, operation.body)
        before.check_done("merge", result)
    for hashed in hashes_of(answer_of(result)):
        sent = chain.node.ask("eth_getTransactionByHash", hashed)
        assert int(sent["maxPriorityFeePerGas"], 16) == 3 * TIP_WEI


# ----- reorganisations -----------------------------------------------------------------------


def test_transactions_removed_by_a_reorganisation_are_sent_again(anvil_chain):
    chain = anvil_chain
    operation, before, name = merge_on(chain)
    with chain.worker(confirmations=3, **QUICK) as worker:
        since = worker.start(name, operation.body)
        while chain.num_sent() < before.num_sent + 2:
            assert worker.process.poll() is None
        chain.node.ask("anvil_reorg", 2, [])
        assert chain.num_sent() == before.num_sent
        result = mine_until_end(chain, worker, name, since)
        before.check_done("merge", result)
        worker.state(lambda state: state.num_rebroadcast > 0)


def mine_until_end(chain, worker, name, since):
    """Mine blocks until an operation ends; return its end."""
    while True:
        chain.node.ask("evm_mine")
        ends = [
            result
            for result in worker.messages[since:]
            if type(result) is OperationDone and result.id == name
        ]
        if ends:
            return ends[0]
