"""The life of a worker: how it begins, what it refuses to begin with, how it ends."""

import subprocess
import sys

import pytest

from clob_server.chain.config import DEVELOPMENT
from clob_server.chain.eth.accounts import ACCOUNTS, OPERATOR
from clob_server.chain.messages import (
    Begin,
    Config,
    Contracts,
    OperationPending,
    OperationRejected,
    Ready,
    Unknown,
    encode,
)
from tests.chain.nodes import running, start_anvil
from tests.chain.workers import DIED, NOW_MS, working
from tests.chain.worlds import World, answer_of, done, faucet, hashes_of, merge, split
from tests.server.live import environment

WRONG = 2
AGAIN = 75
NOWHERE = "http://127.0.0.1:9"


def told_at_once(folder, *messages):
    """Give the exit code of a worker that is told this and nothing more, and what it logged."""
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
    """A config of a node that is not there."""
    values = {"url": NOWHERE, "chain_id": 31337, "operator_key": OPERATOR.private_key, **changes}
    return encode(Config(**values))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(start_anvil()) as node:
        yield World(node, tmp_path_factory.mktemp("life") / "chain")


def test_a_worker_that_is_told_nothing_ends(tmp_path):
    assert told_at_once(tmp_path) == (0, "")


def test_a_worker_ends_with_what_it_reads(tmp_path):
    code, _ = told_at_once(tmp_path, config())
    assert code == 0


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (config(operator_key="0x12"), "key is not 32 bytes"),
        (config(url="localhost:8545"), "http"),
        (b"hello\n", "malformed"),
        (encode(Begin(id="a", body=faucet(OPERATOR, 1), now_ms=NOW_MS)), "no config"),
    ],
)
def test_a_worker_that_cannot_begin_says_why(tmp_path, message, words):
    code, logged = told_at_once(tmp_path, message)
    assert code == WRONG
    assert words in logged
    assert "0x12" not in logged


def test_a_key_is_never_repeated(tmp_path):
    secret = OPERATOR.private_key[:-1]
    code, logged = told_at_once(tmp_path, config(operator_key=secret))
    assert code == WRONG
    assert secret[2:] not in logged


def test_two_workers_do_not_share_a_folder(world):
    with world.worker():
        code, logged = told_at_once(world.folder, config(url=world.url))
    assert code == WRONG
    assert "another process" in logged


def test_an_outbox_of_another_chain_is_left_alone(world):
    with world.worker():
        pass
    code, logged = told_at_once(world.folder, config(url=world.url, chain_id=1))
    assert code == WRONG
    assert "of chain 31337, not 1" in logged


@pytest.mark.long
def test_a_development_chain_that_was_made_anew_gets_an_outbox_of_its_own(tmp_path):
    folder = tmp_path / "chain"
    with running(start_anvil("--timestamp", "1700000000")) as node:
        world = World(node, folder)
        with world.worker() as worker:
            done(worker, "gift", faucet(world.stranger(), 1))
    with running(start_anvil("--timestamp", "1800000000")) as node:
        world = World(node, folder)
        with world.starting() as worker:
            assert worker.wait() == AGAIN
        with world.worker() as worker:
            assert type(worker.look("gift")) is Unknown
            done(worker, "gift", faucet(world.stranger(), 1))
    assert len(list(folder.glob("outbox.db.*"))) == 1


@pytest.mark.long
def test_another_operator_on_a_development_chain_gets_an_outbox_of_its_own(world, tmp_path):
    for account in ACCOUNTS[3:5]:
        with working(tmp_path, world.url, operator_key=account.private_key) as worker:
            assert worker.ready().operator == account.address
    assert len(list(tmp_path.glob("outbox.db.*"))) == 1


def test_contracts_are_deployed_once(world):
    with world.worker() as worker:
        assert worker.ready().addresses == Contracts(
            stablecoin=DEVELOPMENT.stablecoin,
            collateral=DEVELOPMENT.collateral,
            conditional_tokens=DEVELOPMENT.conditional_tokens,
            exchange=DEVELOPMENT.exchange,
        )
        deployed = [each.id for each in worker.operations() if each.kind == "deploy"]
    num_sent = world.num_sent()
    with world.worker() as worker:
        assert [each.id for each in worker.operations() if each.kind == "deploy"] == deployed
    assert (len(deployed), world.num_sent()) == (1, num_sent)


def test_contracts_that_are_there_are_found_without_an_outbox(world, tmp_path):
    with world.worker():
        num_sent = world.num_sent()
    with working(tmp_path, world.url) as worker:
        worker.ready()
        assert worker.operations() == []
    assert world.num_sent() == num_sent


def test_contracts_that_are_missing_are_said_to_be(world, tmp_path):
    nowhere = f"0x{'12' * 20}"
    places = Contracts(stablecoin=nowhere, collateral=nowhere, conditional_tokens=nowhere)
    with working(tmp_path, world.url, addresses=places) as worker:
        worker.state(lambda state: nowhere in state.detail)
        told = worker.do("first", faucet(world.stranger(), 1))
        assert (type(told), told.code) == (OperationRejected, "CHAIN_UNAVAILABLE")
        assert nowhere in told.detail
        assert not [each for each in worker.heard if type(each) is Ready]


def test_the_same_id_is_the_same_answer_and_another_body_is_refused(world):
    with world.worker() as worker:
        user = world.user(worker, 10)
        condition = world.condition(worker)
        body = split(user, condition, 10**18)
        first, num_sent = worker.do("once", body), world.num_sent()
        assert worker.do("once", body) == first == worker.look("once")
        other = worker.end("once", worker.start("once", split(user, condition, 2 * 10**18)))
        assert (type(other), other.code) == (OperationRejected, "IDEMPOTENCY_KEY_REUSED")
        same_id = worker.end("once", worker.start("once", merge(user, condition, 10**18)))
        assert same_id.code == "IDEMPOTENCY_KEY_REUSED"
    with world.worker() as worker:
        assert worker.do("once", body) == first == worker.look("once")
        assert worker.unknown_of(["once", "never"]) == ["never"]
    assert world.num_sent() == num_sent


def test_what_was_refused_can_be_asked_again_by_the_same_id(world):
    with world.worker() as worker:
        user = world.user(worker, 10, approved=False)
        condition = world.condition(worker)
        body = split(user, condition, 10**18)
        assert worker.do("later", body).code == "NOT_APPROVED"
        assert type(worker.look("later")) is Unknown
        user.approve_collateral()
        since = worker.start("later", body)
        assert len(hashes_of(answer_of(worker.end("later", since)))) == 4


def test_an_operation_is_kept_with_its_first_steps_or_not_at_all(world):
    with world.worker() as worker:
        user, condition = world.user(worker, 10), world.condition(worker)
        done(worker, "to be merged", split(user, condition, 10**18))
    num_sent = world.num_sent()
    with world.worker(die="merge:yesTransferTx:before_insert") as worker:
        worker.start("together", merge(user, condition, 10**18))
        assert worker.wait() == DIED
        assert not [told for told in worker.heard if type(told) is OperationPending]
    with world.worker() as worker:
        assert type(worker.look("together")) is Unknown
        assert worker.unknown_of(["together"]) == ["together"]
        assert world.num_sent() == num_sent
    with world.worker(die="merge:yesTransferTx:after_insert") as worker:
        worker.start("together", merge(user, condition, 10**18))
        assert worker.wait() == DIED
    with world.worker() as worker:
        assert len(hashes_of(answer_of(worker.end("together")))) == 4
    assert world.num_sent() == num_sent + 4


def test_an_end_that_was_told_is_the_end_although_the_worker_dies_at_once(world):
    with world.worker() as worker:
        user, condition = world.user(worker, 10), world.condition(worker)
        since = worker.start("ended", split(user, condition, 10**18))
        told = worker.end("ended", since)
        worker.kill()
    num_sent = world.num_sent()
    with world.worker() as worker:
        assert worker.do("ended", split(user, condition, 10**18)) == told
        assert not worker.operations(status="pending")
    assert world.num_sent() == num_sent
