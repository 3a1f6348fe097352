"""Tokens of stuck operations, while others redeem and after a retry."""

import pytest

from clob_server.chain.messages import OperationFailed
from tests.chain.chains import answer_of, chain_behind_proxy, done, redeem, report, split
from tests.chain.failures import sending_no_reverts
from tests.chain.nodes import KINDS
from tests.chain.prepared_operations import PreparedOperation
from tests.chain.wallets import UNIT


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    with chain_behind_proxy(request.param, tmp_path_factory.mktemp("stuck")) as chain:
        yield chain
        chain.check_conserved()


@pytest.mark.parametrize("outcome", ["yes", "no"])
def test_retry_pays_for_tokens_that_another_redemption_used(chain, outcome):
    with chain.worker() as worker:
        unlucky, other = (chain.user(worker, 10) for _ in range(2))
        condition = chain.condition(worker)
        name, body = next(chain.names), split(unlucky, condition, 4 * UNIT)
        operation = PreparedOperation(body, unlucky, condition, ())
        with chain.proxy.inject(sending_no_reverts(chain, operation)):
            end = worker.do(name, body)
        assert (type(end), end.undone) == (OperationFailed, False)
        assert chain.ledger.token(chain.operator, condition.no) == 4 * UNIT

        done(worker, next(chain.names), split(other, condition, 3 * UNIT))
        done(worker, next(chain.names), report(condition, outcome))
        answer = done(worker, next(chain.names), redeem(other, condition))
        assert answer["amount"] == str(3 * UNIT)
        assert chain.ledger.collateral(other.address) == 10 * UNIT
        assert chain.ledger.token(chain.operator, condition.no) == 0

        since = len(worker.messages)
        worker.retry(name)
        answer_of(worker.end(name, since))
        paid = 4 * UNIT if outcome == "no" else 0
        assert chain.ledger.collateral(unlucky.address) == 6 * UNIT + paid
        assert chain.ledger.token(unlucky.address, condition.yes) == 4 * UNIT


def test_retry_sends_the_tokens_of_a_stuck_operation(chain):
    with chain.worker() as worker:
        user = chain.user(worker, 10)
        condition = chain.condition(worker)
        name, body = next(chain.names), split(user, condition, 4 * UNIT)
        with chain.proxy.inject(
            sending_no_reverts(chain, PreparedOperation(body, user, condition, ()))
        ):
            assert worker.do(name, body).undone is False
            since = len(worker.messages)
            worker.retry(name)
            assert worker.end(name, since).undone is False
        assert worker.last_state().counts.stuck or worker.operations(status="stuck")
    with chain.worker() as worker:
        since = len(worker.messages)
        worker.retry(name)
        answer_of(worker.end(name, since))
        assert chain.ledger.token(user.address, condition.no) == 4 * UNIT
        assert chain.ledger.token(user.address, condition.yes) == 4 * UNIT
