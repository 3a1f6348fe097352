"""Several nodes of one chain: a node that lies, lags, hangs or is gone changes nothing."""

import asyncio
import contextlib
import logging
import threading

import pytest

from clob_server.chain.eth.accounts import ACCOUNTS
from clob_server.chain.eth.quorum import NodesDisagreeError, Quorum
from clob_server.chain.eth.rpc import NodeRejectedError, NodeUnreachableError, Rpc
from tests.chain.nodes import running, start_devchain
from tests.chain.proxy import SEND, Delay, Drop, Lie, Proxy, Reject, Result, RunBefore
from tests.chain.wallets import Wallet

NUM_NODES = 3
BLOCK = "eth_getBlockByNumber"
ONE = "0x1"


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A chain with three blocks."""
    with running(start_devchain(tmp_path_factory.mktemp("chain"))) as node:
        wallet = Wallet(node, ACCOUNTS[8].private_key)
        for _ in range(3):
            wallet.send(ACCOUNTS[9].address, value=1)
        yield node


@pytest.fixture
def nodes(chain):
    """Three nodes of the chain."""
    proxies = [Proxy(chain.url) for _ in range(NUM_NODES)]
    yield proxies
    for proxy in proxies:
        proxy.close()


def ask(nodes, *requests, least=2, timeout_s=10.0):
    """Send requests to the nodes; return the replies."""

    async def send():
        client = Quorum([Rpc(node.url, timeout_s) for node in nodes], least)
        try:
            return await client.batch(requests)
        finally:
            await client.close()

    return asyncio.run(send())


def forged(block):
    """Return a block with another hash."""
    return block and {**block, "hash": f"0x{'ab' * 32}"}


LIES = {
    "a block": (BLOCK, (ONE, False), forged),
    "no block": (BLOCK, (ONE, False), lambda _: None),
    "a chain id": ("eth_chainId", (), lambda _: "0x1"),
    "code": ("eth_getCode", (ACCOUNTS[0].address, ONE), lambda _: "0xfe"),
    "logs": ("eth_getLogs", ({"fromBlock": "0x0", "toBlock": "0x2"},), lambda _: [{"data": "0x"}]),
    "a count": ("eth_getTransactionCount", (ACCOUNTS[8].address, "latest"), lambda _: "0xff"),
}


@pytest.mark.parametrize("liar", range(NUM_NODES))
@pytest.mark.parametrize("name", LIES)
def test_reply_of_one_node_that_lies_is_not_used(nodes, liar, name):
    method, params, change = LIES[name]
    expected = ask(nodes, (method, params))
    with nodes[liar].inject(Lie(change, method)):
        for _ in range(3):
            assert ask(nodes, (method, params)) == expected


def test_members_of_results_that_are_not_read_may_differ(nodes):
    with (
        nodes[0].inject(Lie(lambda block: {**block, "size": "0x1", "miner": "0x2"}, BLOCK)),
        nodes[1].inject(Lie(lambda block: {**block, "hash": block["hash"].upper()}, BLOCK)),
    ):
        (reply,) = ask(nodes, (BLOCK, (ONE, False)), least=3)
    assert reply["number"] == ONE


def test_node_that_lies_is_named_in_the_log(nodes, caplog):
    with (
        nodes[0].inject(Lie(forged, BLOCK)),
        nodes[1].inject(Delay(0.3)),
        caplog.at_level(logging.WARNING),
    ):
        ask(nodes, (BLOCK, (ONE, False)))
    (record,) = [each for each in caplog.records if "differs" in each.message]
    assert (record.node, record.method) == ("127.0.0.1", BLOCK)


def test_reply_is_rejected_if_too_few_nodes_agree(nodes):
    with nodes[0].inject(Lie(forged, BLOCK)), pytest.raises(NodesDisagreeError) as raised:
        ask(nodes, ("eth_chainId", ()), (BLOCK, (ONE, False)), least=3)
    assert str(raised.value).startswith(f"3 of 3 nodes must agree on the reply to {BLOCK}")
    assert isinstance(raised.value, NodeUnreachableError)


@pytest.mark.parametrize("fault", ["gone", "hangs", "lacks the block"])
def test_nodes_that_fail_or_hang_do_not_hold_the_others_up(nodes, fault):
    released = threading.Event()
    faults = {
        "gone": Drop(),
        "hangs": RunBefore(released.wait),
        "lacks the block": Reject(-32000, "header not found"),
    }
    with nodes[1].inject(faults[fault]):
        (reply,) = ask(nodes, (BLOCK, (ONE, False)), timeout_s=60.0)
        released.set()  # after the reply, which did not wait for it
    assert reply["number"] == ONE


def test_error_of_the_first_node_is_raised_if_no_node_responds(nodes):
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(node.inject(Drop()))
        with pytest.raises(NodeUnreachableError, match=r"the node at 127\.0\.0\.1 is unreachable"):
            ask(nodes, ("eth_chainId", ()))


def test_rejection_of_enough_nodes_is_the_reply(nodes):
    with nodes[0].inject(Result("0x", "eth_call")):
        (reply,) = ask(nodes, ("eth_call", ({"to": "no address"}, "latest")))
    assert isinstance(reply, NodeRejectedError)


@pytest.mark.parametrize(("heights", "expected"), [((3, 2, 1), 2), ((1, 1, 3), 1), ((2, 3, 9), 3)])
def test_newest_block_is_the_highest_that_enough_nodes_have_reached(
    chain, nodes, heights, expected
):
    blocks = {number: chain.ask(BLOCK, hex(number), False) for number in range(4)}
    for node, height in zip(nodes, heights, strict=True):
        newest = blocks.get(height) or {**forged(blocks[3]), "number": hex(height)}
        node.faults.append(Lie(lambda _, newest=newest: newest, BLOCK, times=1))
    (reply,) = ask(nodes, (BLOCK, ("latest", False)))
    assert reply["hash"] == blocks[expected]["hash"]


def test_count_of_transactions_is_the_highest_that_enough_nodes_have_reached(nodes):
    method, params = "eth_getTransactionCount", (ACCOUNTS[8].address, "latest")
    with nodes[0].inject(Result("0x7", method)), nodes[1].inject(Result("0x2", method)):
        assert ask(nodes, (method, params)) == ["0x3"]


def test_fees_are_those_of_the_first_node_that_responds(nodes):
    for place, node in enumerate(nodes):
        node.faults.append(Result(hex(place), "eth_gasPrice"))
    assert ask(nodes, ("eth_gasPrice", ())) == ["0x0"]
    nodes[0].faults.insert(0, Drop())
    assert ask(nodes, ("eth_gasPrice", ())) == ["0x1"]


def test_transaction_reaches_every_node_and_is_accepted_if_one_accepts_it(nodes):
    nodes[0].faults.append(Reject(-32000, "already known", SEND))
    nodes[1].faults += [Delay(0.3, SEND)]
    nodes[2].faults.append(Result("0x12", SEND))

    async def send():
        client = Quorum([Rpc(node.url) for node in nodes], 2)
        try:
            reply = await client.ask(SEND, "0xaa")
            await asyncio.sleep(0.6)
            return reply
        finally:
            await client.close()

    assert asyncio.run(send()) == "0x12"
    assert [SEND in node.calls for node in nodes] == [True] * NUM_NODES


@pytest.mark.parametrize("least", [0, 4])
def test_quorum_outside_the_number_of_nodes_is_rejected(least):
    with pytest.raises(ValueError, match=f"least must be from 1 to 3, the nodes; got {least}"):
        Quorum([Rpc("http://127.0.0.1:1")] * NUM_NODES, least)
