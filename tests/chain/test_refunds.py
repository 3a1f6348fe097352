"""Failed operations return everything they took, also if the worker crashes meanwhile.

If a step can neither succeed nor be undone, the operation gets stuck.
"""

import itertools

import pytest

from clob_server.chain.messages import OperationFailed
from tests.chain.failures import FAILURES
from tests.chain.nodes import KINDS
from tests.chain.people import STABLE_UNIT
from tests.chain.stories import POINTS, STEPS, Before, Stock
from tests.chain.test_crashes import EVERY, dies
from tests.chain.worlds import answer_of, behind_a_proxy, hashes_of

COMPANY = ("faucet", "split", "merge")
STOCK = 6
FAILED = ("reverted", "failed")


class Case:
    """An operation that is about to fail."""

    def __init__(self, world, stock, failure, company=()):
        self.world, self.failure = world, failure
        stories = stock.take(failure.kind, *company)
        self.named = [(next(world.names), story.body) for story in stories]
        self.story, self.name = stories[0], self.named[0][0]
        self.before = Before(world, stories[:1])
        self.others = Before(world, stories[1:])
        self.num_sent = world.num_sent()
        self.fault = failure.fault(world, self.story)

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
        """Return the names of its steps from the first failed one on."""
        [view] = [each for each in worker.operations() if each.id == self.name]
        states = [step.status for step in view.steps]
        first = min(states.index(state) for state in FAILED if state in states)
        return list(dict.fromkeys(step.name for step in view.steps[first:]))

    def check(self, end, num_steps):
        """Check that everything was returned by the transactions that the end names."""
        self.return_drained_tokens()
        self.world.stable_left += self.failure.left_units * STABLE_UNIT
        hashes = [hashed for hashed in end.hashes.values() if hashed]
        self.before.check_undone(len(hashes) + num_steps)

    def return_drained_tokens(self):
        """Revert the user's own transfers."""
        for token in (self.story.condition.yes, self.story.condition.no):
            amount = self.world.ledger.token(self.world.friend.address, token)
            if amount:
                self.world.friend.send_token(self.story.user.address, token, amount)


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("refunds")) as world:
        yield world
        world.check_conserved()


@pytest.fixture(scope="module")
def stock(world):
    return Stock(world, STOCK)


def run_failing(world, stock, failure, company=(), places=()):
    """Let an operation fail while workers crash; return its steps and the number of crashes."""
    case = Case(world, stock, failure, company)
    with world.proxy.inject(case.fault):
        deaths = [dies(world, case.named, place) for place in places]
        with world.worker() as worker:
            end, num_steps = case.inject(worker)
            steps = case.steps(worker)
            assert worker.do(*case.named[0]) == end
            if failure.is_undone:
                case.check(end, num_steps)
    if not failure.is_undone:
        retry_and_check(world, case, num_steps)
    return steps, sum(deaths)


def retry_and_check(world, case, num_steps):
    """Retry the operation without the fault and check that it succeeds."""
    with world.worker() as worker:
        assert len(worker.operations(status="stuck")) == 1
        assert type(worker.get(case.name)) is OperationFailed
        since = len(worker.messages)
        worker.retry(case.name)
        end = worker.end(case.name, since)
        hashes = hashes_of(answer_of(end))
        assert len(hashes) == len(STEPS[case.failure.kind])
        case.before.check_happened(len(hashes) + num_steps)


def test_failed_merge_returns_the_tokens(world):
    run_failing(world, Stock(world, 1), FAILURES["merge, NO drained"])


@pytest.mark.long
@pytest.mark.parametrize("name", FAILURES)
def test_failed_operation_returns_funds_and_affects_no_others(world, stock, name):
    failure = FAILURES[name]
    company = COMPANY[1:] if failure.kind == COMPANY[0] else COMPANY
    run_failing(world, stock, failure, company)


@pytest.mark.long
@pytest.mark.parametrize("name", list(FAILURES)[:: 2 * EVERY - 1])
def test_failed_operation_returns_funds_despite_crashes(world, stock, name):
    failure = FAILURES[name]
    steps, _ = run_failing(world, stock, failure)
    places = [f"{failure.kind}:{step}:{point}" for step, point in itertools.product(steps, POINTS)]
    _, num_deaths = run_failing(world, stock, failure, places=places)
    assert num_deaths
