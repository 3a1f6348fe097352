"""With unreachable, slow and faulty nodes no operation is lost or run twice."""

import pytest

from clob_server.chain.messages import OperationRejected, WorkerReady
from tests.chain.chains import chain_behind_proxy
from tests.chain.failures import calls_of_merge
from tests.chain.nodes import KINDS
from tests.chain.prepared_operations import BalancesBefore, OperationPool
from tests.chain.proxy import (
    DRY_RUNS,
    RECEIPT,
    SEND,
    AfterSending,
    Delay,
    Drop,
    DropAnswer,
    DropTransaction,
    Raw,
    Reject,
    Result,
    WrongId,
)

pytestmark = pytest.mark.long
QUICK = {"bump_after_s": 0.5}
SLOW, HASTY_S = "is slow", 1.0
"""The fault that a timeout finds, and the timeout of its tests, which a busy machine may exceed."""
STOCK = 12
HTML = b"<html><body>502 Bad Gateway</body></html>"

NODE_FAULTS = {
    "drops connections": lambda method, **more: Drop(method, **more),
    "drops its answers": lambda method, **more: DropAnswer(method, **more),
    SLOW: lambda method, **more: Delay(HASTY_S + 1, method, **more),
    "answers 500": lambda method, **more: Raw(500, b"", method, **more),
    "answers 429": lambda method, **more: Raw(429, b"slow down", method, **more),
    "answers HTML": lambda method, **more: Raw(200, HTML, method, **more),
    "answers truncated JSON": lambda method, **more: Raw(200, b'{"jsonrpc": "2.', method, **more),
    "answers a number": lambda method, **more: Raw(200, b"17", method, **more),
    "answers another request": lambda method, **more: WrongId(method, **more),
    "answers an error": lambda method, **more: Reject(-32603, "internal error", method, **more),
    "runs the call and answers an error": lambda method, **more: Reject(
        -32000, "nonce too low", method, forwards=True, **more
    ),
    "answers an unexpected type": lambda method, **more: Result({"no": ["sense"]}, method, **more),
}
"""Constructors of faults for the calls of a method, or for all calls."""
METHODS = (*DRY_RUNS, SEND, RECEIPT, "eth_getTransactionCount", "eth_blockNumber")


@pytest.fixture(scope="module", params=KINDS)
def chain(request, tmp_path_factory):
    with chain_behind_proxy(request.param, tmp_path_factory.mktemp("edges")) as chain:
        yield chain
        chain.check_conserved()


@pytest.fixture(scope="module")
def pool(chain):
    return OperationPool(chain, STOCK)


def settings_for(fault_name):
    """Return the settings of a worker that has to notice a fault."""
    return QUICK | {"rpc_timeout_s": HASTY_S} if fault_name == SLOW else QUICK


def is_rejected(result):
    """Return whether an operation was rejected because of the node."""
    return type(result) is OperationRejected and result.code == "CHAIN_UNAVAILABLE"


# ----- before an operation -------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault_name", ["drops connections", "answers HTML", "answers another request"]
)
def test_operation_rejected_by_a_faulty_node_can_be_repeated(chain, pool, fault_name):
    [operation] = pool.take("merge")
    before, name = BalancesBefore(chain, [operation]), next(chain.names)
    with chain.worker(**QUICK) as worker:
        with chain.proxy.inject(NODE_FAULTS[fault_name](None)):
            assert is_rejected(worker.do(name, operation.body))
            state = worker.state(lambda state: not state.reachable)
            assert state.detail
            since = len(worker.messages)
        worker.state(lambda state: state.reachable, since)
        assert not worker.operations(status="pending")
        result = worker.end(name, worker.start(name, operation.body))
        before.check_done("merge", result)


def test_worker_waits_for_the_node(chain, pool):
    [operation] = pool.take("merge")
    name = next(chain.names)
    with chain.starting(**QUICK) as worker, chain.proxy.inject(Drop()) as fault:
        assert is_rejected(worker.do(name, operation.body))
        while not fault.hits:
            assert worker.process.poll() is None
        assert is_rejected(worker.do(name, operation.body))
        state = worker.last_state()
        assert (state.reachable, state.head) == (False, None)
        assert not [result for result in worker.messages if type(result) is WorkerReady]
    before = BalancesBefore(chain, [operation])
    with chain.worker(**QUICK) as worker:
        before.check_done("merge", worker.do(name, operation.body))


def test_node_of_another_chain_is_not_used(chain, pool):
    num_sent = chain.num_sent()
    [operation] = pool.take("merge")
    folder, chain.folder = chain.folder, chain.folder.with_name("other")
    with chain.starting(chain_id=1, **QUICK) as worker:
        worker.state(lambda state: not state.reachable and "31337" in state.detail)
        assert is_rejected(worker.do(next(chain.names), operation.body))
    chain.folder = folder
    assert chain.num_sent() == num_sent


# ----- during an operation -------------------------------------------------------------------


@pytest.mark.parametrize("fault_name", NODE_FAULTS)
def test_temporary_faults_do_not_fail_an_operation(chain, pool, fault_name):
    methods = METHODS[KINDS.index(chain.node.kind) :: 2]  # the other kind of node has the others
    operations = pool.take(*["merge"] * len(methods))
    with chain.worker(**settings_for(fault_name)) as worker:
        for number, (method, operation) in enumerate(zip(methods, operations, strict=True)):
            before, name = BalancesBefore(chain, [operation]), next(chain.names)
            since = worker.keep(name, operation.body)
            with chain.proxy.inject(NODE_FAULTS[fault_name](method, times=1 + number % 3)):
                result = worker.end(name, since)
            before.check_done("merge", result)


@pytest.mark.parametrize(("number", "fault_name"), list(enumerate(NODE_FAULTS))[::2])
def test_operation_waits_for_an_unreachable_node(chain, pool, fault_name, number):
    [operation] = pool.take("merge")
    before, name = BalancesBefore(chain, [operation]), next(chain.names)
    fault = AfterSending(
        calls_of_merge(chain, operation)[number // 2 % 4], NODE_FAULTS[fault_name](None)
    )
    with chain.worker(**settings_for(fault_name)) as worker:
        with chain.proxy.inject(fault):
            since = worker.start(name, operation.body)
            state = worker.state(lambda state: not state.reachable, since)
            assert state.counts.stuck == 0
        before.check_done("merge", worker.end(name, since))


def test_dropped_transaction_is_sent_again(chain, pool):
    [operation] = pool.take("merge")
    before, name = BalancesBefore(chain, [operation]), next(chain.names)
    with chain.worker(**QUICK) as worker:
        with chain.proxy.inject(DropTransaction(times=3)) as fault:
            result = worker.do(name, operation.body)
        assert fault.hits == 3
        before.check_done("merge", result)
        worker.state(lambda state: state.num_rebroadcast > 0)


def test_late_receipts_are_awaited(chain, pool):
    [operation] = pool.take("merge")
    before, name = BalancesBefore(chain, [operation]), next(chain.names)
    with chain.worker(**QUICK) as worker:
        with chain.proxy.inject(Result(None, RECEIPT, times=15)) as fault:
            result = worker.do(name, operation.body)
        assert fault.hits == 15
        before.check_done("merge", result)
