"""A transaction whose nonce is too high waits for those before it, also through a restart."""

from contextlib import closing

import pytest

from clob_server.chain.devchain.chain import QUEUE_MAX
from clob_server.chain.eth.accounts import ACCOUNTS, GENESIS_WEI
from tests.chain.devchain.conftest import Asked
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


def paid(asked):
    """Say how much was paid."""
    return int(asked.ask("eth_getBalance", TO, "latest"), 16)


def test_it_is_mined_when_the_gap_closes(asked):
    waiting = [asked.ask("eth_sendRawTransaction", payment(nonce, 10**nonce)) for nonce in (3, 1)]
    assert asked.ask("eth_blockNumber") == "0x0"
    for hashed in waiting:
        assert asked.ask("eth_getTransactionByHash", hashed)["blockHash"] is None
        assert asked.ask("eth_getTransactionReceipt", hashed) is None
    assert asked.ask("eth_getTransactionCount", ACCOUNTS[3].address, "pending") == "0x0"
    asked.ask("eth_sendRawTransaction", payment(0))
    assert paid(asked) == 11
    asked.ask("eth_sendRawTransaction", payment(2, 100))
    assert paid(asked) == 1111
    assert asked.ask("eth_getTransactionReceipt", waiting[0])["blockNumber"] == "0x4"
    assert asked.store.rows("SELECT * FROM queue") == []


def test_it_waits_through_a_restart(tmp_path):
    first = Asked(tmp_path)
    with closing(first.store):
        hashed = first.ask("eth_sendRawTransaction", payment(1, 5))
    again = Asked(tmp_path)
    with closing(again.store):
        assert again.ask("eth_getTransactionByHash", hashed)["nonce"] == "0x1"
        again.ask("eth_sendRawTransaction", payment(0))
        assert paid(again) == 6


def test_what_a_death_left_ready_is_mined_at_the_start(tmp_path):
    first = Asked(tmp_path)
    with closing(first.store):
        first.ask("eth_sendRawTransaction", payment(1, 5))
        first.chain._mine_queued = lambda sender: None  # as if it died right after the first one
        first.ask("eth_sendRawTransaction", payment(0))
        assert paid(first) == 1
    again = Asked(tmp_path)
    with closing(again.store):
        assert paid(again) == 6


def test_another_takes_its_place_only_for_more(asked):
    asked.ask("eth_sendRawTransaction", payment(1))
    again = asked.refused("eth_sendRawTransaction", payment(1))
    assert again["message"] == "already known"
    for percent in (0, 9):
        cheap = asked.refused("eth_sendRawTransaction", payment(1, 7, percent))
        assert cheap == {"code": -32000, "message": "replacement transaction underpriced"}
    asked.ask("eth_sendRawTransaction", payment(1, 7, 10))
    asked.ask("eth_sendRawTransaction", payment(0))
    assert paid(asked) == 8


def test_not_so_many_may_wait(asked):
    for nonce in range(1, QUEUE_MAX + 1):
        asked.ask("eth_sendRawTransaction", payment(nonce))
    error = asked.refused("eth_sendRawTransaction", payment(QUEUE_MAX + 1))
    assert "too many queued transactions" in error["message"]
    asked.ask("eth_sendRawTransaction", payment(1, 7, 10))  # to take a place needs no new one
    asked.ask("eth_sendRawTransaction", payment(0))
    assert paid(asked) == QUEUE_MAX + 7
    assert asked.ask("eth_blockNumber") == hex(QUEUE_MAX + 1)


def test_one_that_cannot_be_paid_any_more_is_dropped(asked):
    half_wei = GENESIS_WEI // 2 + 1
    hashed = asked.ask("eth_sendRawTransaction", payment(1, half_wei))
    asked.ask("eth_sendRawTransaction", payment(0, half_wei))
    assert paid(asked) == half_wei
    assert asked.ask("eth_getTransactionByHash", hashed) is None


@pytest.mark.parametrize("nonce", [1001, 2**63, 2**64 - 2])
def test_a_nonce_far_ahead_is_refused(asked, nonce):
    message = asked.refused("eth_sendRawTransaction", payment(nonce))["message"]
    assert message == f"nonce too high: next nonce 0, tx nonce {nonce}"
