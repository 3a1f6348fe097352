"""Outcomes reported by an oracle with a key of its own, and its transactions."""

import contextlib

import pytest
from eth_utils import keccak

from clob.wire.operations import PrepareBody, ReportBody
from clob_server.chain.eth.accounts import OPERATOR, WALLETS
from clob_server.chain.messages import OperationDone, OperationFailed, OperationRejected
from tests.chain.chains import Chain, done, report
from tests.chain.nodes import KINDS, running, start_node
from tests.chain.signers import SignerProcess
from tests.chain.wallets import read, receipt_of
from tests.chain.workers import DIED, WorkerDiedError

ORACLE = WALLETS[5]
KEY = {"oracle_key": ORACLE.private_key}
WITHOUT_GAS = f"0x{'5a' * 32}"


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    """A node of either kind."""
    folder = tmp_path_factory.mktemp("oracle")
    with running(start_node(request.param, folder / "devchain")) as node:
        yield Chain(node, folder / "chain")


def question(chain):
    """Return a new question id."""
    return f"0x{keccak(text=next(chain.names)).hex()}"


def prepared(chain, worker, oracle=ORACLE.address):
    """Prepare a condition of an oracle; return its question and its id."""
    asked = question(chain)
    body = PrepareBody(question_id=asked, oracle=oracle, prepares=True)
    answer = done(worker, next(chain.names), body)
    assert answer["prepareTx"] is not None
    return asked, answer["conditionId"]


def is_reported(chain, condition):
    """Return whether a condition has payouts."""
    tokens = chain.contracts.conditional_tokens
    return read(chain.node, tokens, "payoutDenominator(bytes32)", bytes.fromhex(condition[2:])) > 0


def test_oracle_reports_and_the_operator_pays_for_the_rest(chain):
    with chain.worker(**KEY) as worker:
        assert worker.ready().oracle == ORACLE.address
        asked, condition = prepared(chain, worker)
        before = chain.num_sent()
        body = ReportBody(question_id=asked, outcome="no", oracle=ORACLE.address)
        answer = done(worker, next(chain.names), body)
        receipt = receipt_of(chain.node, answer["reportTx"])
        assert receipt["from"].lower() == ORACLE.address.lower()
        assert answer["conditionId"] == condition
        assert is_reported(chain, condition)
        assert chain.num_sent() == before
        again = done(worker, next(chain.names), body)
        assert again["reportTx"] is None


def test_conditions_of_the_operator_are_reported_by_the_operator(chain):
    with chain.worker(**KEY) as worker:
        condition = chain.condition(worker)
        answer = done(worker, next(chain.names), report(condition, "yes"))
        receipt = receipt_of(chain.node, answer["reportTx"])
        assert receipt["from"].lower() == chain.operator.lower()


def test_report_without_the_key_of_its_oracle_is_rejected(chain):
    with chain.worker(**KEY) as worker:
        asked, condition = prepared(chain, worker)
    body = ReportBody(question_id=asked, outcome="yes", oracle=ORACLE.address)
    for settings, held in ({}, chain.operator), ({"oracle_key": WITHOUT_GAS}, None):
        with chain.worker(**settings) as worker:
            result = worker.do(next(chain.names), body)
            assert type(result) is OperationRejected
            assert result.code == "ORACLE_KEY_MISSING"
            assert f"only the oracle {ORACLE.address} can report" in result.detail
            assert (held or worker.ready().oracle) in result.detail
    with chain.worker(**KEY) as worker:
        done(worker, next(chain.names), body)
        assert is_reported(chain, condition)


def test_oracle_without_gas_is_named(chain):
    with chain.worker(oracle_key=WITHOUT_GAS) as worker:
        oracle = worker.ready().oracle
        asked, _ = prepared(chain, worker, oracle)
        body = ReportBody(question_id=asked, outcome="yes", oracle=oracle)
        result = worker.do(next(chain.names), body)
        assert result.code == "OPERATOR_OUT_OF_GAS"
        assert result.detail.startswith(f"the oracle {oracle} has 0 wei for gas")


@pytest.mark.parametrize("point", ["before_insert", "after_insert", "after_receipt"])
def test_report_of_the_oracle_survives_a_crash(chain, point):
    with chain.worker(**KEY) as worker:
        asked, condition = prepared(chain, worker)
    name = next(chain.names)
    body = ReportBody(question_id=asked, outcome="yes", oracle=ORACLE.address)
    with chain.worker(die=f"report:reportTx:{point}", **KEY) as worker:
        with pytest.raises(WorkerDiedError) as died:
            worker.do(name, body)
        assert died.value.args == (DIED,)
    with chain.worker(**KEY) as worker:
        assert type(worker.do(name, body)) is OperationDone
        assert is_reported(chain, condition)


def test_begun_report_waits_for_the_key_of_its_oracle(chain):
    with chain.worker(**KEY) as worker:
        asked, condition = prepared(chain, worker)
    name = next(chain.names)
    body = ReportBody(question_id=asked, outcome="yes", oracle=ORACLE.address)
    died = contextlib.suppress(WorkerDiedError)
    with chain.worker(die="report:reportTx:before_insert", **KEY) as worker, died:
        worker.do(name, body)
    with chain.worker() as worker:
        end = worker.do(name, body)
        assert type(end) is OperationFailed
        assert not end.undone
        assert ORACLE.address in end.detail
    with chain.worker(**KEY) as worker:
        worker.retry(name)
        worker.wait_for(lambda message: type(message) is OperationDone and message.id == name)
        assert is_reported(chain, condition)


def test_key_of_the_operator_given_as_oracle_changes_nothing(chain):
    with chain.worker() as worker:
        condition = chain.condition(worker)
    with chain.worker(oracle_key=OPERATOR.private_key) as worker:
        assert worker.ready().oracle == ""
        done(worker, next(chain.names), report(condition, "yes"))


@pytest.mark.long
def test_signer_holds_the_key_of_the_oracle(chain, tmp_path):
    signer = SignerProcess(tmp_path, key=ORACLE.private_key)
    settings = {"oracle_signer_url": signer.url, "oracle": ORACLE.address}
    with chain.worker(**settings) as worker:
        asked, condition = prepared(chain, worker)
        body = ReportBody(question_id=asked, outcome="no", oracle=ORACLE.address)
        done(worker, next(chain.names), body)
        assert is_reported(chain, condition)
    signer.stop()
