"""Gas limits of steps: estimated once, then checked by a trial call, and never too low."""

import pytest

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import OPERATOR
from clob_server.chain.eth.rpc import NodeInvalidResponseError, NodeRejectedError
from clob_server.chain.operations.calls import StepBuilder
from clob_server.chain.tx.gas_limits import GasEstimator, StepCall
from tests.chain.chains import chain_behind_proxy, done, hashes_of, merge, split
from tests.chain.proxy import Delay
from tests.chain.wallets import UNIT

ESTIMATE = "eth_estimateGas"
CALLS = StepBuilder(DEVELOPMENT, OPERATOR.address)
ADA, BOB = f"0x{'a' * 40}", f"0x{'b' * 40}"
PAY = CALLS.pay("returnTx", ADA, 5)
REVERTED = NodeRejectedError(3, "execution reverted", "0x")


def knowing(call, gas):
    """Return an estimator that knows the gas of a call."""
    estimates = GasEstimator(OPERATOR.address)
    assert estimates.read_estimate(call, hex(gas)) == gas
    return estimates


def test_first_call_of_a_function_is_estimated_and_the_next_is_tried():
    estimates = GasEstimator(OPERATOR.address)
    probe = estimates.probe(PAY)
    method, (transaction,) = probe.request
    sent = {"from": OPERATOR.address, "to": PAY.target, "data": f"0x{PAY.data.hex()}"}
    assert (method, transaction) == (ESTIMATE, sent)
    assert estimates.read_probe(probe, "0x9c40") == 40_000
    other = CALLS.pay("returnTx", BOB, 7)
    probe = estimates.probe(other)
    method, (transaction, block) = probe.request
    assert (method, transaction["gas"], block) == ("eth_call", "0x9c40", "latest")
    assert transaction["data"] == f"0x{other.data.hex()}"
    assert estimates.read_probe(probe, f"0x{1:064x}") == 40_000


@pytest.mark.parametrize("reply", [REVERTED, NodeRejectedError(-32601, "no such method"), None, 7])
def test_failed_trial_call_gives_no_estimate(reply):
    estimates = knowing(PAY, 40_000)
    assert estimates.read_probe(estimates.probe(PAY), reply) is None


@pytest.mark.parametrize(
    "reply", [REVERTED, NodeRejectedError(-32601, "no such method"), None, "0x"]
)
def test_failed_estimate_is_not_remembered(reply):
    estimates = GasEstimator(OPERATOR.address)
    assert estimates.read_probe(estimates.probe(PAY), reply) is None
    assert estimates.probe(PAY).gas is None


def test_highest_estimate_is_remembered():
    estimates = knowing(PAY, 40_000)
    estimates.read_estimate(PAY, hex(57_100))
    estimates.read_estimate(PAY, hex(40_000))
    assert estimates.probe(PAY).gas == 57_100


def test_failed_estimate_returns_the_reason_and_is_not_remembered():
    estimates = GasEstimator(OPERATOR.address)
    error = "the transaction would be reverted: execution reverted"
    assert estimates.read_estimate(PAY, REVERTED) == error
    little = PAY._replace(gas_max=30_000)
    error = estimates.read_estimate(little, hex(30_001))
    assert error == "the transaction would use 30001 gas; the limit is 30000"
    with pytest.raises(NodeInvalidResponseError):
        estimates.read_estimate(PAY, "gas")
    assert estimates.probe(PAY).gas is None


def test_step_with_a_limit_below_the_known_gas_is_estimated():
    estimates = knowing(PAY, 40_000)
    assert estimates.probe(PAY._replace(gas_max=40_000)).gas == 40_000
    assert estimates.probe(PAY._replace(gas_max=39_999)).gas is None


@pytest.mark.parametrize(
    "call", [StepCall("gasTx", ADA, b"", value=1), StepCall("aTx", "", PAY.data)]
)
def test_ether_transfers_and_deployments_are_always_estimated(call):
    assert knowing(call, 21_000).probe(call).gas is None


# ----- on a node -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with chain_behind_proxy("devchain", tmp_path_factory.mktemp("estimates")) as world:
        yield world
        world.check_conserved()


def gas_of(world, hashed):
    """Return the gas limit of a transaction."""
    return int(world.node.ask("eth_getTransactionByHash", hashed)["gas"], 16)


def test_second_merge_needs_no_estimate(world):
    with world.worker() as worker:
        user, condition = world.user(worker, 10), world.condition(worker)
        done(worker, "split", split(user, condition, 3 * UNIT))
        done(worker, "first", merge(user, condition, UNIT))
        with world.proxy.inject(Delay(0, ESTIMATE)) as fault:
            answer = done(worker, "second", merge(user, condition, UNIT))
        assert fault.hits == 0
        world.check_happened(hashes_of(answer))


def test_step_that_needs_more_gas_than_before_gets_more(world):
    with world.worker() as worker:
        rich, poor = world.user(worker, 10), world.user(worker, 5)
        condition = world.condition(worker)
        done(worker, "rich splits", split(rich, condition, 5 * UNIT))
        before = done(worker, "rich merges", merge(rich, condition, UNIT))
        done(worker, "poor splits", split(poor, condition, 5 * UNIT))
        # The second user has no collateral left; writing a zero balance costs 17,100 gas more.
        after = done(worker, "poor merges", merge(poor, condition, UNIT))
        world.check_happened(hashes_of(after))
        assert gas_of(world, after["returnTx"]) > gas_of(world, before["returnTx"]) + 17_000
