"""A node that is away, slow or wrong: nothing is begun, nothing is lost, nothing is done twice."""

import pytest

from clob_server.chain.messages import OperationRejected, Ready
from tests.chain.mishaps import calls_of_merge
from tests.chain.nodes import KINDS
from tests.chain.proxy import (
    RECEIPT,
    SEND,
    TRIES,
    Delay,
    Drop,
    DropAnswer,
    Raw,
    Refuse,
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
    "answers an error": lambda method, **more: Refuse(-32603, "internal error", method, **more),
    "does it and answers an error": lambda method, **more: Refuse(
        -32000, "nonce too low", method, forwards=True, **more
    ),
    "answers a wrong kind": lambda method, **more: Result({"no": ["sense"]}, method, **more),
}
"""Each makes a fault with the calls of a method, or of all."""
METHODS = (*TRIES, SEND, RECEIPT, "eth_getTransactionCount", "eth_blockNumber")


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with behind_a_proxy(request.param, tmp_path_factory.mktemp("edges")) as world:
        yield world
        world.check_conserved()


@pytest.fixture(scope="module")
def stock(world):
    return Stock(world, STOCK)


def is_refused(told):
    """Nothing was begun, since the node cannot be relied on."""
    return type(told) is OperationRejected and told.code == "CHAIN_UNAVAILABLE"


# ----- before anything was begun -------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["drops connections", "answers HTML", "answers somebody else"])
def test_what_is_asked_of_a_node_that_is_wrong_is_refused_and_can_be_asked_again(
    world, stock, wrong
):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    with world.worker(**QUICK) as worker:
        with world.proxy.goes_wrong(WRONG[wrong](None)):
            assert is_refused(worker.do(name, story.body))
            state = worker.state(lambda state: not state.reachable)
            assert state.detail
            since = len(worker.heard)
        worker.state(lambda state: state.reachable, since)
        assert not worker.operations(status="pending")
        told = worker.end(name, worker.start(name, story.body))
        before.check_done("merge", told)


def test_a_worker_that_finds_no_node_waits_for_it(world, stock):
    [story] = stock.take("merge")
    name = next(world.names)
    with world.starting(**QUICK) as worker, world.proxy.goes_wrong(Drop()) as fault:
        assert is_refused(worker.do(name, story.body))
        while not fault.hits:
            assert worker.process.poll() is None
        assert is_refused(worker.do(name, story.body))
        state = worker.last_state()
        assert (state.reachable, state.head) == (False, None)
        assert not [told for told in worker.heard if type(told) is Ready]
    before = Before(world, [story])
    with world.worker(**QUICK) as worker:
        before.check_done("merge", worker.do(name, story.body))


def test_a_node_of_another_chain_is_not_touched(world, stock):
    num_sent = world.num_sent()
    [story] = stock.take("merge")
    folder, world.folder = world.folder, world.folder.with_name("other")
    with world.starting(chain_id=1, **QUICK) as worker:
        worker.state(lambda state: not state.reachable and "31337" in state.detail)
        assert is_refused(worker.do(next(world.names), story.body))
    world.folder = folder
    assert world.num_sent() == num_sent


# ----- while something is under way ----------------------------------------------------------


@pytest.mark.parametrize("wrong", WRONG)
def test_whatever_goes_wrong_for_a_while_is_made_up_for(world, stock, wrong):
    stories = stock.take(*["merge"] * len(METHODS))
    with world.worker(**QUICK) as worker:
        for number, (method, story) in enumerate(zip(METHODS, stories, strict=True)):
            before, name = Before(world, [story]), next(world.names)
            since = worker.keep(name, story.body)
            with world.proxy.goes_wrong(WRONG[wrong](method, times=1 + number % 3)):
                told = worker.end(name, since)
            before.check_done("merge", told)


@pytest.mark.parametrize(("number", "wrong"), list(enumerate(WRONG))[::2])
def test_an_operation_waits_for_a_node_that_went_away(world, stock, wrong, number):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    fault = Since(calls_of_merge(world, story)[number // 2 % 4], WRONG[wrong](None))
    with world.worker(**QUICK) as worker:
        with world.proxy.goes_wrong(fault):
            since = worker.start(name, story.body)
            state = worker.state(lambda state: not state.reachable, since)
            assert state.counts.stuck == 0
        before.check_done("merge", worker.end(name, since))


def test_a_transaction_that_the_node_forgot_is_sent_again(world, stock):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    with world.worker(**QUICK) as worker:
        with world.proxy.goes_wrong(Swallow(times=3)) as fault:
            told = worker.do(name, story.body)
        assert fault.hits == 3
        before.check_done("merge", told)
        worker.state(lambda state: state.num_rebroadcast > 0)


def test_receipts_that_come_late_are_waited_for(world, stock):
    [story] = stock.take("merge")
    before, name = Before(world, [story]), next(world.names)
    with world.worker(**QUICK) as worker:
        with world.proxy.goes_wrong(Result(None, RECEIPT, times=15)) as fault:
            told = worker.do(name, story.body)
        assert fault.hits == 15
        before.check_done("merge", told)
