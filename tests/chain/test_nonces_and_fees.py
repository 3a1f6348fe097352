"""An operator key that others use too, rising fees, and an operator without gas."""

import pytest

from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.messages import OperationDone, OperationRejected
from tests.chain.failures import calls_of_merge
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.people import TIP_WEI, Person
from tests.chain.proxy import SEND, Insist, Meanwhile, Since, Swallow, fields_of, in_front_of
from tests.chain.stories import Before, Stock
from tests.chain.worlds import World, answer_of, hashes_of

pytestmark = pytest.mark.long
QUICK = {"rpc_timeout_s": 5.0, "bump_after_s": 0.5}
STOCK = 8
SIDE_BY_SIDE = 4
SIMPLE_GAS = 21_000
DUST = ACCOUNTS[3].address


def made_world(node, proxy, folder):
    """Return a world behind a proxy."""
    world = World(node, folder, proxy.url)
    world.proxy = proxy
    return world


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nonces")
    with (
        running(start_node(request.param, folder / "devchain")) as node,
        in_front_of(node) as proxy,
    ):
        world = made_world(node, proxy, folder / "chain")
        yield world
        world.check_conserved()


@pytest.fixture(scope="module")
def stock(world):
    return Stock(world, STOCK)


@pytest.fixture
def anvil_world(anvil, tmp_path):
    """A world on anvil, which mines on request."""
    with in_front_of(anvil) as proxy:
        world = made_world(anvil, proxy, tmp_path)
        yield world
        world.check_conserved()


def send_as_operator(world, to=DUST, value=1, **more):
    """Send a transaction with the operator's key, as another server would."""
    return Person(world.node, OPERATOR.private_key).send(to, value=value, **more)


# ----- nonces --------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(4))
def test_step_is_signed_again_if_its_nonce_was_used(world, stock, step):
    [story] = stock.take("merge")
    before = Before(world, [story])
    fault = Meanwhile(
        lambda: send_as_operator(world),
        SEND,
        calldata=calls_of_merge(world, story)[step],
        times=1,
    )
    with world.worker(**QUICK) as worker:
        num_foreign = worker.last_state().num_foreign
        with world.proxy.inject(fault):
            result = worker.do(next(world.names), story.body)
        hashes = hashes_of(answer_of(result))
        before.check_happened(len(hashes) + 1)
        world.check_happened(hashes)
        worker.state(lambda state: state.num_foreign == num_foreign + 1)


def test_key_can_be_used_elsewhere_between_operations(world, stock):
    [story] = stock.take("merge")
    with world.worker(**QUICK) as worker:
        send_as_operator(world)
        before = Before(world, [story])
        before.check_done("merge", worker.do(next(world.names), story.body))


def test_two_workers_with_one_key_run_each_operation_once(world, stock):
    stories = stock.take(*["merge"] * 2 * SIDE_BY_SIDE)
    named = [(next(world.names), story) for story in stories]
    before = Before(world, stories)
    other = World(world.node, world.folder.with_name("other"), world.url)
    with world.worker(**QUICK) as first, other.worker(**QUICK) as second:
        workers = [first, second] * SIDE_BY_SIDE
        for worker, (name, story) in zip(workers, named, strict=True):
            worker.start(name, story.body)
        ends = [worker.end(name) for worker, (name, _) in zip(workers, named, strict=True)]
        assert {type(end) for end in ends} == {OperationDone}, ends
    hashes = [hashed for end in ends for hashed in hashes_of(answer_of(end))]
    assert len(set(hashes)) == 4 * len(stories)
    before.check_happened(len(hashes))
    world.check_happened(hashes)


# ----- gas balance ---------------------------------------------------------------------------


def give_everything_away(world):
    """Transfer nearly all ether of the operator away; return the amount."""
    block = world.node.ask("eth_getBlockByNumber", "latest", False)
    most = SIMPLE_GAS * (4 * int(block["baseFeePerGas"], 16) + TIP_WEI)
    value = world.ledger.ether(world.operator) - most
    send_as_operator(world, world.friend.address, value, gas=SIMPLE_GAS)
    return value


def test_operator_without_gas_rejects_operations_until_funded(world, stock):
    [story] = stock.take("merge")
    value, name = give_everything_away(world), next(world.names)
    before = Before(world, [story])
    with world.worker(**QUICK) as worker:
        result = worker.do(name, story.body)
        assert type(result) is OperationRejected
        assert (result.code, world.operator in result.detail) == ("OPERATOR_OUT_OF_GAS", True)
        worker.state(lambda state: state.out_of_gas)
        world.friend.send(world.operator, value=value)
        worker.state(lambda state: state.reachable and not state.out_of_gas, len(worker.messages))
        since = worker.start(name, story.body)
        before.check_done("merge", worker.end(name, since))


@pytest.mark.parametrize("step", range(4))
def test_pending_operation_waits_for_gas(world, stock, step):
    [story] = stock.take("merge")
    before, given = Before(world, [story]), []
    fault = Meanwhile(
        lambda: given.append(give_everything_away(world)),
        SEND,
        calldata=calls_of_merge(world, story)[step],
        times=1,
    )
    with world.worker(**QUICK) as worker:
        with world.proxy.inject(fault):
            name = next(world.names)
            since = worker.start(name, story.body)
            worker.state(lambda state: state.out_of_gas, since)
        world.friend.send(world.operator, value=given[0])
        hashes = hashes_of(answer_of(worker.end(name, since)))
        before.check_happened(len(hashes) + 1)
        world.check_happened(hashes)


# ----- fees ----------------------------------------------------------------------------------


def merge_on(world):
    """Prepare a merge; return story, balances before it, and name."""
    [story] = Stock(world, 1).take("merge")
    return story, Before(world, [story]), next(world.names)


def test_pending_transaction_is_bumped_by_more_than_the_node_requires(anvil_world):
    world = anvil_world
    story, before, name = merge_on(world)
    with world.worker(**QUICK) as worker, world.proxy.inject(Insist(10)) as fault:
        world.node.ask("evm_setAutomine", False)
        since = worker.start(name, story.body)
        worker.state(lambda state: state.num_bumped >= 4, since)
        world.node.ask("evm_setAutomine", True)
        world.node.ask("evm_mine")
        before.check_done("merge", worker.end(name, since))
    assert fault.raised
    assert not fault.rejected


def test_first_transaction_counts_after_a_fee_bump(anvil_world):
    world = anvil_world
    story, before, name = merge_on(world)
    first = calls_of_merge(world, story)[0]
    with world.worker(**QUICK) as worker:
        world.node.ask("evm_setAutomine", False)
        with world.proxy.inject(Since(first, Swallow(calldata=first))):
            since = worker.start(name, story.body)
            worker.state(lambda state: state.num_bumped >= 1, since)
            world.node.ask("evm_setAutomine", True)
            world.node.ask("evm_mine")
            before.check_done("merge", worker.end(name, since))
        [view] = [each for each in worker.operations() if each.id == name]
        step = view.steps[0]
        assert step.num_bumps >= 1
        assert answer_of(worker.do(name, story.body))["yesTransferTx"] == step.hashes[0]


def test_fees_follow_a_rising_base_fee(anvil_world):
    world = anvil_world
    story, before, name = merge_on(world)
    dear = 40 * TIP_WEI
    with world.worker(**QUICK) as worker:

        def get_dear():
            world.node.ask("anvil_setNextBlockBaseFeePerGas", dear)
            world.node.ask("evm_mine")

        calldata = calls_of_merge(world, story)[2]
        with world.proxy.inject(Meanwhile(get_dear, SEND, calldata=calldata, times=1)):
            before.check_done("merge", worker.do(name, story.body))
        assert worker.state(lambda state: state.num_bumped).num_bumped >= 1


def test_fees_do_not_exceed_the_limit(anvil_world):
    world = anvil_world
    story, before, name = merge_on(world)
    limit = 4 * TIP_WEI
    sent = []
    keep = Meanwhile(lambda: None, SEND)
    keep.answer = lambda call, forward: sent.append(call["params"][0]) or forward(call)
    with world.worker(fee_max_wei=str(limit), **QUICK) as worker:
        world.node.ask("evm_setAutomine", False)
        with world.proxy.inject(keep):
            since = worker.start(name, story.body)
            worker.state(lambda state: state.num_bumped >= 2, since)
            world.node.ask("evm_setAutomine", True)
            world.node.ask("evm_mine")
            before.check_done("merge", worker.end(name, since))
    assert max(max(fields_of(bytes.fromhex(raw[2:]))[1]) for raw in sent) <= limit


# ----- reorganisations -----------------------------------------------------------------------


def test_transactions_removed_by_a_reorganisation_are_sent_again(anvil_world):
    world = anvil_world
    story, before, name = merge_on(world)
    with world.worker(confirmations=3, **QUICK) as worker:
        since = worker.start(name, story.body)
        while world.num_sent() < before.num_sent + 2:
            assert worker.process.poll() is None
        world.node.ask("anvil_reorg", 2, [])
        assert world.num_sent() == before.num_sent
        result = mining(world, worker, name, since)
        before.check_done("merge", result)
        worker.state(lambda state: state.num_rebroadcast > 0)


def mining(world, worker, name, since):
    """Mine blocks until an operation ends; return its end."""
    while True:
        world.node.ask("evm_mine")
        ends = [
            result
            for result in worker.messages[since:]
            if type(result) is OperationDone and result.id == name
        ]
        if ends:
            return ends[0]
