"""Tokens of stuck operations, while others redeem and after a retry."""

import pytest

from clob_server.chain.messages import OperationFailed
from tests.chain.failures import no_no_out
from tests.chain.nodes import KINDS
from tests.chain.people import UNIT
from tests.chain.stories import Story
from tests.chain.worlds import answer_of, behind_a_proxy, done, redeem, report, split


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("stuck")) as world:
        yield world
        world.check_conserved()


@pytest.mark.parametrize("outcome", ["yes", "no"])
def test_retry_pays_for_tokens_that_another_redemption_used(world, outcome):
    with world.worker() as worker:
        unlucky, other = (world.user(worker, 10) for _ in range(2))
        condition = world.condition(worker)
        name, body = next(world.names), split(unlucky, condition, 4 * UNIT)
        story = Story(body, unlucky, condition, ())
        with world.proxy.inject(no_no_out(world, story)):
            end = worker.do(name, body)
        assert (type(end), end.undone) == (OperationFailed, False)
        assert world.ledger.token(world.operator, condition.no) == 4 * UNIT

        done(worker, next(world.names), split(other, condition, 3 * UNIT))
        done(worker, next(world.names), report(condition, outcome))
        answer = done(worker, next(world.names), redeem(other, condition))
        assert answer["amount"] == str(3 * UNIT)
        assert world.ledger.collateral(other.address) == 10 * UNIT
        assert world.ledger.token(world.operator, condition.no) == 0

        since = len(worker.messages)
        worker.retry(name)
        answer_of(worker.end(name, since))
        paid = 4 * UNIT if outcome == "no" else 0
        assert world.ledger.collateral(unlucky.address) == 6 * UNIT + paid
        assert world.ledger.token(unlucky.address, condition.yes) == 4 * UNIT


def test_retry_sends_the_tokens_of_a_stuck_operation(world):
    with world.worker() as worker:
        user = world.user(worker, 10)
        condition = world.condition(worker)
        name, body = next(world.names), split(user, condition, 4 * UNIT)
        with world.proxy.inject(no_no_out(world, Story(body, user, condition, ()))):
            assert worker.do(name, body).undone is False
            since = len(worker.messages)
            worker.retry(name)
            assert worker.end(name, since).undone is False
        assert worker.last_state().counts.stuck or worker.operations(status="stuck")
    with world.worker() as worker:
        since = len(worker.messages)
        worker.retry(name)
        answer_of(worker.end(name, since))
        assert world.ledger.token(user.address, condition.no) == 4 * UNIT
        assert world.ledger.token(user.address, condition.yes) == 4 * UNIT
