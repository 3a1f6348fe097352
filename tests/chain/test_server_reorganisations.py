"""Results of trades, permissions and cancels that a reorganisation of the chain removed."""

from contextlib import ExitStack, contextmanager

import pytest

from tests.chain.chain_server import wait_until
from tests.chain.nodes import running, start_anvil
from tests.chain.proxy import Drop, proxy_to
from tests.chain.settling_server import BUY, SELL, SETTINGS, SettlingServer
from tests.chain.wallets import calldata
from tests.server.feed.connection import Connection
from tests.server.live import live_server

pytestmark = pytest.mark.long
FINAL_BLOCKS = 12
APPROVE_ALL = "setApprovalForAll(address,bool)"


@contextmanager
def restartable(folder, **settings):
    """Yield a function that starts the server, or starts it again, on one anvil."""
    with running(start_anvil()) as node, proxy_to(node) as proxy, ExitStack() as stack:
        lives = ExitStack()
        stack.callback(lambda: lives.close())

        def start():
            nonlocal lives
            live = lives.enter_context(live_server(folder, chain=proxy.url, **SETTINGS | settings))
            server = SettlingServer(live, node.url)
            server.node, server.proxy, server.stop = node, proxy, lives.close
            return server

        yield start


def trade_of(server):
    """Return the newest trade."""
    return server.http.get("/api/markets/rain/trades", params={"limit": 1}).json()[0]


def until(server, settlement, **fields):
    """Wait until the newest trade has a status, and return it."""
    expected = {"settlement": settlement, **fields}
    wait_until(lambda: expected.items() <= trade_of(server).items())
    return trade_of(server)


def remove_from(server, block, *raws):
    """Replace the blocks from one on; transactions in ``raws`` are in the first new one."""
    depth = int(server.node.ask("eth_blockNumber"), 16) - block + 1
    server.node.ask("anvil_reorg", depth, [[raw, 0] for raw in raws])


def block_of(server, tx):
    """Return the number of the block of a transaction."""
    return int(server.ask("eth_getTransactionReceipt", tx)["blockNumber"], 16)


def agrees(server):
    """Return whether accounts and results are those of the chain."""
    return server.settlement().difference == 0


def test_settled_trade_that_the_chain_undid_fails(tmp_path):
    with restartable(tmp_path, chain_final_blocks=FINAL_BLOCKS) as start:
        server = start().set_up()
        buyer, seller = server.trader(), server.trader()
        resting = server.placed(seller, SELL, 80)["orderId"]
        with Connection(server.live) as feed:
            feed.send(type="subscribe", channel="settlement", marketId="rain")
            server.trade(buyer, seller)
            tx = until(server, "settled", final=False)["txHash"]
            exchange = server.contracts.exchange
            revoke = seller.sign(
                server.contracts.conditional_tokens, calldata(APPROVE_ALL, exchange, False)
            )
            remove_from(server, block_of(server, tx), revoke)
            failed = until(server, "failed")
            revisions = []
            while not revisions or revisions[-1]["settlement"] != "failed":
                message = feed.receive()
                if message["type"] == "settlement":
                    revisions.append(message["data"])
        assert failed["txHash"] is None
        assert failed["settlementReason"]
        assert any("revision" in each for each in revisions)
        wait_until(lambda: agrees(server))
        order = server.http.get(f"/api/orders/{resting}").json()
        assert order["status"] == "cancelled"
        server.ask("anvil_mine", hex(FINAL_BLOCKS))
        until(server, "failed", final=True)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_failed_trade_that_the_chain_settled_after_all_settles(tmp_path, is_stopped):
    with restartable(tmp_path) as start:
        server = start().set_up()
        buyer, seller = server.trader(), server.trader()
        server.placed(seller, SELL, 90)  # the server knows the funds of both
        server.placed(buyer, BUY, 10)
        with server.proxy.inject(Drop()):
            server.trade(buyer, seller)
            contract = server.contracts.conditional_tokens
            revoked = seller.call(contract, APPROVE_ALL, server.contracts.exchange, False)
        until(server, "failed", final=True)  # deeper than the confirmations
        if is_stopped:
            server.stop()
        remove_from(server, int(revoked["blockNumber"], 16))
        if is_stopped:
            server = start()
        tx = until(server, "settled")["txHash"]
        assert server.ask("eth_getTransactionReceipt", tx)["status"] == "0x1"
        wait_until(lambda: agrees(server))
        status = server.until_settled()
        assert status.failures == []
        assert server.place(seller, SELL, 50).json().get("code") != "MAKER_COOLING_DOWN"


def test_nonce_cancel_and_permission_of_a_removed_block_count_no_longer(tmp_path):
    with restartable(tmp_path, chain_final_blocks=FINAL_BLOCKS) as start:
        server = start().set_up()
        maker, other = server.trader(), server.trader()
        exchange = server.contracts.exchange
        body = server.signed(maker, BUY, 10)
        raised = maker.call(exchange, "incrementNonce()")
        wait_until(lambda: server.place(maker, BUY, 11).json().get("code") == "NONCE_TOO_LOW")
        assert server.http.post("/api/orders", json=body).json()["code"] == "NONCE_TOO_LOW"
        remove_from(server, int(raised["blockNumber"], 16))
        wait_until(lambda: server.http.post("/api/orders", json=body).status_code == 200)
        other.call(exchange, "incrementNonce()")
        server.ask("anvil_mine", hex(FINAL_BLOCKS))
        wait_until(lambda: server.place(other, BUY, 11).json().get("code") == "NONCE_TOO_LOW")
        wait_until(lambda: agrees(server))
