"""What an operation took is given back where one of its steps fails, also if the worker dies then.

Where a step can neither happen nor be undone, the operation waits for somebody to look into it.
"""

import itertools

import pytest

from clob_server.chain.messages import OperationFailed
from tests.chain.mishaps import MISHAPS
from tests.chain.nodes import KINDS
from tests.chain.people import STABLE_UNIT
from tests.chain.stories import POINTS, STEPS, Before, Stock
from tests.chain.test_crashes import EVERY, dies
from tests.chain.worlds import answer_of, behind_a_proxy, hashes_of

COMPANY = ("faucet", "split", "merge")
STOCK = 6
FAILED = ("reverted", "failed")


class Case:
    """An operation that is about to go wrong."""

    def __init__(self, world, stock, mishap, company=()):
        self.world, self.mishap = world, mishap
        stories = stock.take(mishap.kind, *company)
        self.named = [(next(world.names), story.body) for story in stories]
        self.story, self.name = stories[0], self.named[0][0]
        self.before = Before(world, stories[:1])
        self.others = Before(world, stories[1:])
        self.num_sent = world.num_sent()
        self.fault = mishap.fault(world, self.story)

    def goes_wrong(self, worker):
        """Have everything done, give what came of the first, and count what the others took."""
        for name, body in self.named:
            worker.start(name, body)
        end, *others = (worker.end(name) for name, _ in self.named)
        num_steps = sum(len(hashes_of(answer_of(each))) for each in others)
        assert type(end) is OperationFailed, end
        assert (end.code, end.undone) == ("OPERATION_FAILED", self.mishap.is_undone)
        assert self.fault.hits
        return end, num_steps

    def steps(self, worker):
        """Give the names of its steps, from the first on that went wrong."""
        [view] = [each for each in worker.operations() if each.id == self.name]
        states = [step.status for step in view.steps]
        first = min(states.index(state) for state in FAILED if state in states)
        return list(dict.fromkeys(step.name for step in view.steps[first:]))

    def check(self, end, num_steps):
        """All was given back, in transactions that the end names."""
        self.return_what_was_drained()
        self.world.stable_left += self.mishap.left_units * STABLE_UNIT
        hashes = [hashed for hashed in end.hashes.values() if hashed]
        self.before.check_undone(len(hashes) + num_steps)

    def return_what_was_drained(self):
        """Undo what the user did himself."""
        for token in (self.story.condition.yes, self.story.condition.no):
            amount = self.world.ledger.token(self.world.friend.address, token)
            if amount:
                self.world.friend.give_token(self.story.user.address, token, amount)


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("refunds")) as world:
        yield world
        world.check_conserved()


@pytest.fixture(scope="module")
def stock(world):
    return Stock(world, STOCK)


def gives_back(world, stock, mishap, company=(), places=()):
    """Have an operation go wrong, while workers die one after the other; give its steps."""
    case = Case(world, stock, mishap, company)
    with world.proxy.goes_wrong(case.fault):
        deaths = [dies(world, case.named, place) for place in places]
        with world.worker() as worker:
            end, num_steps = case.goes_wrong(worker)
            steps = case.steps(worker)
            assert worker.do(*case.named[0]) == end
            if mishap.is_undone:
                case.check(end, num_steps)
    if not mishap.is_undone:
        goes_on_when_it_is_retried(world, case, num_steps)
    return steps, sum(deaths)


def goes_on_when_it_is_retried(world, case, num_steps):
    """The fault is gone: the operation comes to its end as if nothing had been."""
    with world.worker() as worker:
        assert len(worker.operations(status="stuck")) == 1
        assert type(worker.look(case.name)) is OperationFailed
        since = len(worker.heard)
        worker.retry(case.name)
        end = worker.end(case.name, since)
        hashes = hashes_of(answer_of(end))
        assert len(hashes) == len(STEPS[case.mishap.kind])
        case.before.check_happened(len(hashes) + num_steps)


def test_what_was_taken_is_given_back(world):
    gives_back(world, Stock(world, 1), MISHAPS["merge, NO drained"])


@pytest.mark.long
@pytest.mark.parametrize("name", MISHAPS)
def test_what_was_taken_is_given_back_and_nobody_else_suffers(world, stock, name):
    mishap = MISHAPS[name]
    company = COMPANY[1:] if mishap.kind == COMPANY[0] else COMPANY
    gives_back(world, stock, mishap, company)


@pytest.mark.long
@pytest.mark.parametrize("name", list(MISHAPS)[:: 2 * EVERY - 1])
def test_what_was_taken_is_given_back_although_workers_die(world, stock, name):
    mishap = MISHAPS[name]
    steps, _ = gives_back(world, stock, mishap)
    places = [f"{mishap.kind}:{step}:{point}" for step, point in itertools.product(steps, POINTS)]
    _, num_deaths = gives_back(world, stock, mishap, places=places)
    assert num_deaths
