"""Unreachable, slow and faulty nodes: no operation is lost, started in vain or done twice."""

import pytest

from clob_server.chain.messages import OperationRejected, WorkerReady
from tests.chain.failures import calls_of_merge
from tests.chain.nodes import KINDS
from tests.chain.proxy import (
    RECEIPT,
    SEND,
    TRIES,
    Delay,
    Drop,
    DropAnswer,
    Raw,
    Reject,
    Result,
    Since,
    Swallow,
    WrongId,
)
from tests.chain.stories import Before, Stock
from tests.chain.worlds import behind_a_proxy

pytestmark = pytest.mark.long
QUICK = {"rpc_timeout_s": 0.5, "bump_after_s": 0.5}
STOCK = 12
HTML = b"<html><body>502 Bad Gateway</body></html>"

WRONG = {
    "drops connections": lambda method, **more: Drop(method, **more),
    "drops its answers": lambda method, **more: DropAnswer(method, **more),
    "is slow": lambda method, **more: Delay(1.0, method, **more),
    "answers 500": lambda method, **more: Raw(500, b"", method, **more),
    "answers 429": lambda method, **more: Raw(429, b"slow down", method, **more),
    "answers HTML": lambda method, **more: Raw(200, HTML, method, **more),
    "answers half a line": lambda method, **more: Raw(200, b'{"jsonrpc": "2.', method, **more),
    "answers no object": lambda method, **more: Raw(200, b"17", method, **more),
    "answers somebody else": lambda method, **more: WrongId(method, **more),
    "answers an error": lambda method, **more: Reject(-32603, "internal error", method, **more),
    "does it and answers an error": lambda method, **more: Reject(
        -32000, "nonce too low", method, forwards=True, **more
    ),
    "answers a wrong kind": lambda method, **more: Result({"no": ["sense"]}, method, **more),
}
"""Constructors of faults for the calls of a method, or of all."""
METHODS = (*TRIES, SEND, RECEIPT, "eth_getTransactionCount", "eth_blockNumber")


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("edges")) as world:
        yield world
        world.check_conserved()


@pytest.fixture(scope="module")
def stock(world):
    return Stock(world, STOCK)


def is_rejected(result):
    """Return whether an operation was rejected because of the node."""
    return type(result) is OperationRejected and result.code == "CHAIN_UNAVAILABLE"


# ----- before an operation -------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["drops connections", "answers HTML", "answers somebody else"])
def test_operation_rejected_by_a_faulty_node_can_be_repeated(world, stock, wrong):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    with world.worker(**QUICK) as worker:
        with world.proxy.inject(WRONG[wrong](None)):
            assert is_rejected(worker.do(name, story.body))
            state = worker.state(lambda state: not state.reachable)
            assert state.detail
            since = len(worker.messages)
        worker.state(lambda state: state.reachable, since)
        assert not worker.operations(status="pending")
        result = worker.end(name, worker.start(name, story.body))
        before.check_done("merge", result)


def test_worker_waits_for_the_node(world, stock):
    [story] = stock.take("merge")
    name = next(world.names)
    with world.starting(**QUICK) as worker, world.proxy.inject(Drop()) as fault:
        assert is_rejected(worker.do(name, story.body))
        while not fault.hits:
            assert worker.process.poll() is None
        assert is_rejected(worker.do(name, story.body))
        state = worker.last_state()
        assert (state.reachable, state.head) == (False, None)
        assert not [result for result in worker.messages if type(result) is WorkerReady]
    before = Before(world, [story])
    with world.worker(**QUICK) as worker:
        before.check_done("merge", worker.do(name, story.body))


def test_node_of_another_chain_is_not_used(world, stock):
    num_sent = world.num_sent()
    [story] = stock.take("merge")
    folder, world.folder = world.folder, world.folder.with_name("other")
    with world.starting(chain_id=1, **QUICK) as worker:
        worker.state(lambda state: not state.reachable and "31337" in state.detail)
        assert is_rejected(worker.do(next(world.names), story.body))
    world.folder = folder
    assert world.num_sent() == num_sent


# ----- during an operation -------------------------------------------------------------------


@pytest.mark.parametrize("wrong", WRONG)
def test_temporary_faults_do_not_fail_an_operation(world, stock, wrong):
    stories = stock.take(*["merge"] * len(METHODS))
    with world.worker(**QUICK) as worker:
        for number, (method, story) in enumerate(zip(METHODS, stories, strict=True)):
            before, name = Before(world, [story]), next(world.names)
            since = worker.keep(name, story.body)
            with world.proxy.inject(WRONG[wrong](method, times=1 + number % 3)):
                result = worker.end(name, since)
            before.check_done("merge", result)


@pytest.mark.parametrize(("number", "wrong"), list(enumerate(WRONG))[::2])
def test_operation_waits_for_an_unreachable_node(world, stock, wrong, number):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    fault = Since(calls_of_merge(world, story)[number // 2 % 4], WRONG[wrong](None))
    with world.worker(**QUICK) as worker:
        with world.proxy.inject(fault):
            since = worker.start(name, story.body)
            state = worker.state(lambda state: not state.reachable, since)
            assert state.counts.stuck == 0
        before.check_done("merge", worker.end(name, since))


def test_dropped_transaction_is_sent_again(world, stock):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    with world.worker(**QUICK) as worker:
        with world.proxy.inject(Swallow(times=3)) as fault:
            result = worker.do(name, story.body)
        assert fault.hits == 3
        before.check_done("merge", result)
        worker.state(lambda state: state.num_rebroadcast > 0)


def test_late_receipts_are_awaited(world, stock):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    with world.worker(**QUICK) as worker:
        with world.proxy.inject(Result(None, RECEIPT, times=15)) as fault:
            result = worker.do(name, story.body)
        assert fault.hits == 15
        before.check_done("merge", result)
