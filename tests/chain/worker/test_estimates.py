"""How much gas a step takes: asked of the node once, tried from then on, and never too little."""

import pytest

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.eth.rpc import NodeNonsenseError, NodeRefusedError
from clob_server.chain.operations.calls import StepBuilder
from clob_server.chain.tx.gas_limits import Estimates, GasEstimateCall
from tests.chain.people import UNIT
from tests.chain.proxy import Delay
from tests.chain.worlds import behind_a_proxy, done, hashes_of, merge, split

ESTIMATE = "eth_estimateGas"
CALLS = StepBuilder(DEVELOPMENT, OPERATOR.address)
ADA, BOB = f"0x{'a' * 40}", f"0x{'b' * 40}"
PAY = CALLS.pay("returnTx", ADA, 5)
REVERTED = NodeRefusedError(3, "execution reverted", "0x")


def knowing(call, gas):
    """Estimates where a node has said how much a step takes."""
    estimates = Estimates(OPERATOR.address)
    assert estimates.estimated(call, hex(gas)) == gas
    return estimates


def test_the_first_of_a_function_is_asked_about_and_the_next_is_tried():
    estimates = Estimates(OPERATOR.address)
    probe = estimates.probe(PAY)
    method, (asked,) = probe.question
    sent = {"from": OPERATOR.address, "to": PAY.target, "data": f"0x{PAY.data.hex()}"}
    assert (method, asked) == (ESTIMATE, sent)
    assert estimates.probed(probe, "0x9c40") == 40_000
    other = CALLS.pay("returnTx", BOB, 7)
    probe = estimates.probe(other)
    method, (asked, block) = probe.question
    assert (method, asked["gas"], block) == ("eth_call", "0x9c40", "latest")
    assert asked["data"] == f"0x{other.data.hex()}"
    assert estimates.probed(probe, f"0x{1:064x}") == 40_000


@pytest.mark.parametrize("reply", [REVERTED, NodeRefusedError(-32601, "no such method"), None, 7])
def test_what_fails_when_it_is_tried_is_not_known(reply):
    estimates = knowing(PAY, 40_000)
    assert estimates.probed(estimates.probe(PAY), reply) is None


@pytest.mark.parametrize(
    "reply", [REVERTED, NodeRefusedError(-32601, "no such method"), None, "0x"]
)
def test_what_a_node_does_not_estimate_is_not_known(reply):
    estimates = Estimates(OPERATOR.address)
    assert estimates.probed(estimates.probe(PAY), reply) is None
    assert estimates.probe(PAY).gas is None


def test_the_most_is_remembered():
    estimates = knowing(PAY, 40_000)
    estimates.estimated(PAY, hex(57_100))
    estimates.estimated(PAY, hex(40_000))
    assert estimates.probe(PAY).gas == 57_100


def test_an_estimate_says_why_a_step_fails_and_nothing_of_it_is_remembered():
    estimates = Estimates(OPERATOR.address)
    assert estimates.estimated(PAY, REVERTED) == "it would be reverted: execution reverted"
    little = PAY._replace(gas_max=30_000)
    told = estimates.estimated(little, hex(30_001))
    assert told == "it would take 30001 gas, more than 30000"
    with pytest.raises(NodeNonsenseError):
        estimates.estimated(PAY, "gas")
    assert estimates.probe(PAY).gas is None


def test_a_step_that_may_take_less_than_is_known_is_asked_about():
    estimates = knowing(PAY, 40_000)
    assert estimates.probe(PAY._replace(gas_max=40_000)).gas == 40_000
    assert estimates.probe(PAY._replace(gas_max=39_999)).gas is None


@pytest.mark.parametrize(
    "call", [GasEstimateCall("gasTx", ADA, b"", value=1), GasEstimateCall("aTx", "", PAY.data)]
)
def test_gifts_and_new_contracts_are_asked_about_each_time(call):
    assert knowing(call, 21_000).probe(call).gas is None


# ----- on a node -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with behind_a_proxy("devchain", tmp_path_factory.mktemp("estimates")) as world:
        yield world
        world.check_conserved()


def gas_of(world, hashed):
    """How much gas a transaction may take."""
    return int(world.node.ask("eth_getTransactionByHash", hashed)["gas"], 16)


def test_a_merge_like_one_before_needs_no_estimate(world):
    with world.worker() as worker:
        user, condition = world.user(worker, 10), world.condition(worker)
        done(worker, "split", split(user, condition, 3 * UNIT))
        done(worker, "first", merge(user, condition, UNIT))
        with world.proxy.goes_wrong(Delay(0, ESTIMATE)) as asked:
            answer = done(worker, "second", merge(user, condition, UNIT))
        assert asked.hits == 0
        world.check_happened(hashes_of(answer))


def test_a_step_that_takes_more_than_those_before_gets_more(world):
    with world.worker() as worker:
        rich, poor = world.user(worker, 10), world.user(worker, 5)
        condition = world.condition(worker)
        done(worker, "rich splits", split(rich, condition, 5 * UNIT))
        before = done(worker, "rich merges", merge(rich, condition, UNIT))
        done(worker, "poor splits", split(poor, condition, 5 * UNIT))
        # The poor has no collateral left, and to write the first takes 17,100 gas more.
        after = done(worker, "poor merges", merge(poor, condition, UNIT))
        world.check_happened(hashes_of(after))
        assert gas_of(world, after["returnTx"]) > gas_of(world, before["returnTx"]) + 17_000
