"""Transactions with a future nonce wait in a queue that survives a restart."""

from contextlib import closing

import pytest

from clob_server.chain.devchain.chain import QUEUE_MAX
from clob_server.chain.eth.accounts import ACCOUNTS, GENESIS_WEI
from tests.chain.devchain.conftest import LocalChain
from tests.chain.devchain.senders import DYNAMIC, FEE_WEI, TIP_WEI, Sender

TO = "0x" + "77" * 20


def payment(nonce, value=1, raise_percent=0):
    """Sign a payment of account 3."""
    fees = {
        **DYNAMIC,
        "maxFeePerGas": FEE_WEI * (100 + raise_percent) // 100,
        "maxPriorityFeePerGas": TIP_WEI * (100 + raise_percent) // 100,
    }
    return Sender().sign(TO, value=value, nonce=nonce, gas=21_000, fees=fees)


def paid(rpc):
    """Return the amount that was paid, in wei."""
    return int(rpc.ask("eth_getBalance", TO, "latest"), 16)


def test_queued_transaction_is_mined_when_the_gap_closes(rpc):
    waiting = [rpc.ask("eth_sendRawTransaction", payment(nonce, 10**nonce)) for nonce in (3, 1)]
    assert rpc.ask("eth_blockNumber") == "0x0"
    for tx_hash in waiting:
        assert rpc.ask("eth_getTransactionByHash", tx_hash)["blockHash"] is None
        assert rpc.ask("eth_getTransactionReceipt", tx_hash) is None
    assert rpc.ask("eth_getTransactionCount", ACCOUNTS[3].address, "pending") == "0x0"
    rpc.ask("eth_sendRawTransaction", payment(0))
    assert paid(rpc) == 11
    rpc.ask("eth_sendRawTransaction", payment(2, 100))
    assert paid(rpc) == 1111
    assert rpc.ask("eth_getTransactionReceipt", waiting[0])["blockNumber"] == "0x4"
    assert rpc.store.rows("SELECT * FROM queue") == []


def test_queue_survives_a_restart(tmp_path):
    first = LocalChain(tmp_path)
    with closing(first.store):
        tx_hash = first.ask("eth_sendRawTransaction", payment(1, 5))
    again = LocalChain(tmp_path)
    with closing(again.store):
        assert again.ask("eth_getTransactionByHash", tx_hash)["nonce"] == "0x1"
        again.ask("eth_sendRawTransaction", payment(0))
        assert paid(again) == 6


def test_ready_transaction_is_mined_at_start_after_a_kill(tmp_path):
    first = LocalChain(tmp_path)
    with closing(first.store):
        first.ask("eth_sendRawTransaction", payment(1, 5))
        first.chain._mine_queued = lambda sender: None  # like a kill right after the first one
        first.ask("eth_sendRawTransaction", payment(0))
        assert paid(first) == 1
    again = LocalChain(tmp_path)
    with closing(again.store):
        assert paid(again) == 6


def test_replacement_needs_a_higher_fee(rpc):
    rpc.ask("eth_sendRawTransaction", payment(1))
    again = rpc.rejected("eth_sendRawTransaction", payment(1))
    assert again["message"] == "already known"
    for percent in (0, 9):
        cheap = rpc.rejected("eth_sendRawTransaction", payment(1, 7, percent))
        assert cheap == {"code": -32000, "message": "replacement transaction underpriced"}
    rpc.ask("eth_sendRawTransaction", payment(1, 7, 10))
    rpc.ask("eth_sendRawTransaction", payment(0))
    assert paid(rpc) == 8


def test_queue_length_is_limited(rpc):
    for nonce in range(1, QUEUE_MAX + 1):
        rpc.ask("eth_sendRawTransaction", payment(nonce))
    error = rpc.rejected("eth_sendRawTransaction", payment(QUEUE_MAX + 1))
    assert "too many queued transactions" in error["message"]
    rpc.ask("eth_sendRawTransaction", payment(1, 7, 10))  # a replacement needs no free place
    rpc.ask("eth_sendRawTransaction", payment(0))
    assert paid(rpc) == QUEUE_MAX + 7
    assert rpc.ask("eth_blockNumber") == hex(QUEUE_MAX + 1)


def test_unpayable_queued_transaction_is_dropped(rpc):
    half_wei = GENESIS_WEI // 2 + 1
    tx_hash = rpc.ask("eth_sendRawTransaction", payment(1, half_wei))
    rpc.ask("eth_sendRawTransaction", payment(0, half_wei))
    assert paid(rpc) == half_wei
    assert rpc.ask("eth_getTransactionByHash", tx_hash) is None


@pytest.mark.parametrize("nonce", [1001, 2**63, 2**64 - 2])
def test_nonce_far_ahead_is_rejected(rpc, nonce):
    message = rpc.rejected("eth_sendRawTransaction", payment(nonce))["message"]
    assert message == f"nonce too high: next nonce 0, tx nonce {nonce}"
