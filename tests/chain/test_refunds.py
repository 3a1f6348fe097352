"""Failed operations return everything they took, also if the worker crashes.

If a step can neither succeed nor be undone, the operation gets stuck.
"""

import itertools

import pytest

from clob_server.chain.messages import OperationFailed
from tests.chain.chains import answer_of, chain_behind_proxy, hashes_of
from tests.chain.failures import FAILURES
from tests.chain.nodes import KINDS
from tests.chain.prepared_operations import POINTS, STEPS, BalancesBefore, OperationPool
from tests.chain.test_crashes import EVERY, crashes
from tests.chain.wallets import STABLE_UNIT

OTHER_KINDS = ("faucet", "split", "merge")
STOCK = 6
FAILED = ("reverted", "failed")


class FailingOperation:
    """An operation with a fault that makes it fail, and concurrent operations without one."""

    def __init__(self, chain, pool, failure, others=()):
        self.chain, self.failure = chain, failure
        operations = pool.take(failure.kind, *others)
        self.named = [(next(chain.names), operation.body) for operation in operations]
        self.operation, self.name = operations[0], self.named[0][0]
        self.before = BalancesBefore(chain, operations[:1])
        self.others = BalancesBefore(chain, operations[1:])
        self.num_sent = chain.num_sent()
        self.fault = failure.fault(chain, self.operation)

    def inject(self, worker):
        """Run all operations; return the end of the first and the steps of the others."""
        for name, body in self.named:
            worker.start(name, body)
        end, *others = (worker.end(name) for name, _ in self.named)
        num_steps = sum(len(hashes_of(answer_of(each))) for each in others)
        assert type(end) is OperationFailed, end
        assert (end.code, end.undone) == ("OPERATION_FAILED", self.failure.is_undone)
        assert self.fault.hits
        return end, num_steps

    def steps(self, worker):
        """Return the names of the steps from the first failed one on."""
        [view] = [each for each in worker.operations() if each.id == self.name]
        states = [step.status for step in view.steps]
        first = min(states.index(state) for state in FAILED if state in states)
        return list(dict.fromkeys(step.name for step in view.steps[first:]))

    def check(self, end, num_steps):
        """Check that the reported transactions returned everything."""
        self.return_drained_tokens()
        self.chain.stable_left += self.failure.left_units * STABLE_UNIT
        hashes = [hashed for hashed in end.hashes.values() if hashed]
        self.before.check_undone(len(hashes) + num_steps)

    def return_drained_tokens(self):
        """Return the tokens that the fault moved to another wallet."""
        for token in (self.operation.condition.yes, self.operation.condition.no):
            amount = self.chain.ledger.token(self.chain.friend.address, token)
            if amount:
                self.chain.friend.send_token(self.operation.user.address, token, amount)


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    with chain_behind_proxy(request.param, tmp_path_factory.mktemp("refunds")) as chain:
        yield chain
        chain.check_conserved()


@pytest.fixture(scope="module")
def pool(chain):
    return OperationPool(chain, STOCK)


def run_failing(chain, pool, failure, others=(), failpoints=()):
    """Run a failing operation and crash workers; return its steps and the number of crashes."""
    case = FailingOperation(chain, pool, failure, others)
    with chain.proxy.inject(case.fault):
        crashed = [crashes(chain, case.named, failpoint) for failpoint in failpoints]
        with chain.worker() as worker:
            end, num_steps = case.inject(worker)
            steps = case.steps(worker)
            assert worker.do(*case.named[0]) == end
            if failure.is_undone:
                case.check(end, num_steps)
    if not failure.is_undone:
        retry_and_check(chain, case, num_steps)
    return steps, sum(crashed)


def retry_and_check(chain, case, num_steps):
    """Retry the operation without the fault and check that it succeeds."""
    with chain.worker() as worker:
        assert len(worker.operations(status="stuck")) == 1
        assert type(worker.get(case.name)) is OperationFailed
        since = len(worker.messages)
        worker.retry(case.name)
        end = worker.end(case.name, since)
        hashes = hashes_of(answer_of(end))
        assert len(hashes) == len(STEPS[case.failure.kind])
        case.before.check_happened(len(hashes) + num_steps)


def test_failed_merge_returns_the_tokens(chain):
    run_failing(chain, OperationPool(chain, 1), FAILURES["merge, NO drained"])


@pytest.mark.long
@pytest.mark.parametrize("name", FAILURES)
def test_failed_operation_returns_funds_and_affects_no_others(chain, pool, name):
    failure = FAILURES[name]
    others = OTHER_KINDS[1:] if failure.kind == OTHER_KINDS[0] else OTHER_KINDS
    run_failing(chain, pool, failure, others)


@pytest.mark.long
@pytest.mark.parametrize("name", list(FAILURES)[:: 2 * EVERY - 1])
def test_failed_operation_returns_funds_despite_crashes(chain, pool, name):
    failure = FAILURES[name]
    steps, _ = run_failing(chain, pool, failure)
    failpoints = [
        f"{failure.kind}:{step}:{point}" for step, point in itertools.product(steps, POINTS)
    ]
    half = failpoints[KINDS.index(chain.node.kind) :: 2]  # the other kind of node has the other one
    _, num_crashes = run_failing(chain, pool, failure, failpoints=half)
    assert num_crashes
