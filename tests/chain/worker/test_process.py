"""The worker process: start, rejected configurations, end."""

import subprocess
import sys

import pytest

from clob_server.chain.config import DEVELOPMENT, Addresses
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.messages import (
    BeginOperation,
    Config,
    OperationPending,
    OperationRejected,
    OperationUnknown,
    WorkerReady,
    encode,
)
from tests.chain.chains import Chain, answer_of, done, faucet, hashes_of, merge, split
from tests.chain.nodes import running, start_anvil
from tests.chain.workers import DIED, NOW_MS, working
from tests.server.live import environment

EXIT_INVALID = 2
EXIT_RESTART = 75
NOWHERE = "http://127.0.0.1:9"


def run_worker(folder, *messages):
    """Run a worker with these messages as input; return its exit code and its log."""
    process = subprocess.run(
        [sys.executable, "-m", "clob_server.chain.worker", str(folder)],
        input=b"".join(messages),
        capture_output=True,
        env=environment(),
        check=False,
        timeout=60,
    )
    return process.returncode, process.stderr.decode()


def config(**changes):
    """Return a config with the URL of a node that does not run."""
    values = {"url": NOWHERE, "chain_id": 31337, "operator_key": OPERATOR.private_key, **changes}
    return encode(Config(**values))


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    with running(start_anvil()) as node:
        yield Chain(node, tmp_path_factory.mktemp("life") / "chain")


def test_worker_without_input_exits(tmp_path):
    assert run_worker(tmp_path) == (0, "")


def test_worker_exits_at_the_end_of_its_input(tmp_path):
    code, _ = run_worker(tmp_path, config())
    assert code == 0


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (config(operator_key="0x12"), "key must be 32 bytes"),
        (config(url="localhost:8545"), "http"),
        (b"hello\n", "malformed"),
        (
            encode(BeginOperation(id="a", body=faucet(OPERATOR, 1), now_ms=NOW_MS)),
            "must be a config",
        ),
    ],
)
def test_worker_logs_why_it_cannot_start(tmp_path, message, words):
    code, logged = run_worker(tmp_path, message)
    assert code == EXIT_INVALID
    assert words in logged
    assert "0x12" not in logged


def test_key_is_not_logged(tmp_path):
    secret = OPERATOR.private_key[:-1]
    code, logged = run_worker(tmp_path, config(operator_key=secret))
    assert code == EXIT_INVALID
    assert secret[2:] not in logged


def test_folder_is_exclusive_to_a_worker(chain):
    with chain.worker():
        code, logged = run_worker(chain.folder, config(url=chain.url))
    assert code == EXIT_INVALID
    assert "another process" in logged


def test_outbox_of_another_chain_is_rejected(chain):
    with chain.worker():
        pass
    code, logged = run_worker(chain.folder, config(url=chain.url, chain_id=1))
    assert code == EXIT_INVALID
    assert "belongs to chain 31337; expected 1" in logged


@pytest.mark.long
def test_new_development_chain_gets_a_new_outbox(tmp_path):
    folder = tmp_path / "chain"
    with running(start_anvil("--timestamp", "1700000000")) as node:
        chain = Chain(node, folder)
        with chain.worker() as worker:
            done(worker, "gift", faucet(chain.stranger(), 1))
    with running(start_anvil("--timestamp", "1800000000")) as node:
        chain = Chain(node, folder)
        with chain.starting() as worker:
            assert worker.wait() == EXIT_RESTART
        with chain.worker() as worker:
            assert type(worker.get("gift")) is OperationUnknown
            done(worker, "gift", faucet(chain.stranger(), 1))
    assert len(list(folder.glob("outbox.db.*"))) == 1


@pytest.mark.long
def test_another_operator_on_a_development_chain_gets_a_new_outbox(chain, tmp_path):
    for account in ACCOUNTS[3:5]:
        with working(tmp_path, chain.url, operator_key=account.private_key) as worker:
            assert worker.ready().operator == account.address
    assert len(list(tmp_path.glob("outbox.db.*"))) == 1


def test_contracts_are_deployed_once(chain):
    with chain.worker() as worker:
        assert worker.ready().addresses == DEVELOPMENT
        deployed = [each.id for each in worker.operations() if each.kind == "deploy"]
    num_sent = chain.num_sent()
    with chain.worker() as worker:
        assert [each.id for each in worker.operations() if each.kind == "deploy"] == deployed
    assert (len(deployed), chain.num_sent()) == (1, num_sent)


def test_existing_contracts_are_found_without_an_outbox(chain, tmp_path):
    with chain.worker():
        num_sent = chain.num_sent()
    with working(tmp_path, chain.url) as worker:
        worker.ready()
        assert worker.operations() == []
    assert chain.num_sent() == num_sent


def test_missing_contracts_are_reported(chain, tmp_path):
    nowhere = f"0x{'12' * 20}"
    addresses = Addresses(stablecoin=nowhere, collateral=nowhere, conditional_tokens=nowhere)
    with working(tmp_path, chain.url, addresses=addresses) as worker:
        worker.state(lambda state: nowhere in state.detail)
        result = worker.do("first", faucet(chain.stranger(), 1))
        assert (type(result), result.code) == (OperationRejected, "CHAIN_UNAVAILABLE")
        assert nowhere in result.detail
        assert not [each for each in worker.messages if type(each) is WorkerReady]


@pytest.mark.parametrize("deploys", [True, False])
def test_collateral_of_another_stablecoin_is_rejected_at_the_start(chain, tmp_path, deploys):
    with chain.worker():
        num_sent = chain.num_sent()
    used = {"collateral": DEVELOPMENT.collateral, "tokens": DEVELOPMENT.conditional_tokens}
    wrong = (
        (used["tokens"], used["collateral"], f"wraps {DEVELOPMENT.stablecoin}; expected the "
         f"stablecoin {used['tokens']}"),
        (DEVELOPMENT.stablecoin, used["tokens"], "is not a WrappedCollateral of this software"),
    )  # fmt: skip
    for place, (stablecoin, collateral, problem) in enumerate(wrong):
        addresses = Addresses(
            stablecoin=stablecoin, collateral=collateral, conditional_tokens=used["tokens"]
        )
        settings = {"addresses": addresses, "deploy": deploys}
        with working(tmp_path / str(place), chain.url, **settings) as worker:
            text = f"the collateral contract {collateral} {problem}"
            worker.state(lambda state, text=text: text in state.detail)
            result = worker.do("first", faucet(chain.stranger(), 1))
            assert (type(result), result.code) == (OperationRejected, "CHAIN_UNAVAILABLE")
            assert text in result.detail
            assert not [each for each in worker.messages if type(each) is WorkerReady]
    assert chain.num_sent() == num_sent


def test_same_id_returns_the_same_answer_and_another_body_is_rejected(chain):
    with chain.worker() as worker:
        user = chain.user(worker, 10)
        condition = chain.condition(worker)
        body = split(user, condition, 10**18)
        first, num_sent = worker.do("once", body), chain.num_sent()
        assert worker.do("once", body) == first == worker.get("once")
        other = worker.end("once", worker.start("once", split(user, condition, 2 * 10**18)))
        assert (type(other), other.code) == (OperationRejected, "IDEMPOTENCY_KEY_REUSED")
        same_id = worker.end("once", worker.start("once", merge(user, condition, 10**18)))
        assert same_id.code == "IDEMPOTENCY_KEY_REUSED"
    with chain.worker() as worker:
        assert worker.do("once", body) == first == worker.get("once")
        assert worker.find_missing(["once", "never"]) == ["never"]
    assert chain.num_sent() == num_sent


def test_rejected_operation_can_be_repeated_with_the_same_id(chain):
    with chain.worker() as worker:
        user = chain.user(worker, 10, approved=False)
        condition = chain.condition(worker)
        body = split(user, condition, 10**18)
        assert worker.do("later", body).code == "NOT_APPROVED"
        assert type(worker.get("later")) is OperationUnknown
        user.approve_collateral()
        since = worker.start("later", body)
        assert len(hashes_of(answer_of(worker.end("later", since)))) == 4


def test_operation_is_stored_together_with_its_first_steps(chain):
    with chain.worker() as worker:
        user, condition = chain.user(worker, 10), chain.condition(worker)
        done(worker, "to be merged", split(user, condition, 10**18))
    num_sent = chain.num_sent()
    with chain.worker(die="merge:yesTransferTx:before_insert") as worker:
        worker.start("together", merge(user, condition, 10**18))
        assert worker.wait() == DIED
        assert not [result for result in worker.messages if type(result) is OperationPending]
    with chain.worker() as worker:
        assert type(worker.get("together")) is OperationUnknown
        assert worker.find_missing(["together"]) == ["together"]
        assert chain.num_sent() == num_sent
    with chain.worker(die="merge:yesTransferTx:after_insert") as worker:
        worker.start("together", merge(user, condition, 10**18))
        assert worker.wait() == DIED
    with chain.worker() as worker:
        assert len(hashes_of(answer_of(worker.end("together")))) == 4
    assert chain.num_sent() == num_sent + 4


def test_reported_end_survives_a_crash_of_the_worker(chain):
    with chain.worker() as worker:
        user, condition = chain.user(worker, 10), chain.condition(worker)
        since = worker.start("ended", split(user, condition, 10**18))
        result = worker.end("ended", since)
        worker.kill()
    num_sent = chain.num_sent()
    with chain.worker() as worker:
        assert worker.do("ended", split(user, condition, 10**18)) == result
        assert not worker.operations(status="pending")
    assert chain.num_sent() == num_sent
