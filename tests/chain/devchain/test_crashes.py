"""Kills while mining: sent transactions survive, and the chain stays consistent."""

import random  # noqa: TID251 - only seeded
import threading

import httpx
import pytest

from clob_server.chain.eth.accounts import ACCOUNTS, GENESIS_WEI
from tests.chain.devchain.senders import Sender
from tests.chain.nodes import result_of, running, start_devchain

ROUNDS = 12
TO = "0x" + "77" * 20


def send_until_killed(node, sender, answered):
    """Send payments of 1 wei and append each returned hash."""
    with httpx.Client(timeout=30) as client:
        while True:
            raw = sender.sign(TO, value=1, gas=21_000)
            try:
                answered.append(result_of(client, node.url, "eth_sendRawTransaction", [raw]))
            except httpx.HTTPError:
                return


def check_consistent(node, answered, rounds):
    """Check that blocks, receipts, balances and nonces agree."""
    newest = int(node.ask("eth_blockNumber"), 16)
    assert len(answered) <= newest <= len(answered) + rounds
    assert int(node.ask("eth_getBalance", TO, "latest"), 16) == newest
    nonce = int(node.ask("eth_getTransactionCount", ACCOUNTS[3].address, "latest"), 16)
    assert nonce == newest
    for tx_hash in answered[-50:]:
        assert node.ask("eth_getTransactionReceipt", tx_hash)["status"] == "0x1"
    parent = None
    for number in range(newest + 1):
        block = node.ask("eth_getBlockByNumber", hex(number), False)
        assert parent in (None, block["parentHash"])
        assert len(block["transactions"]) == (number > 0)
        parent = block["hash"]
    spent = GENESIS_WEI - int(node.ask("eth_getBalance", ACCOUNTS[3].address, "latest"), 16)
    assert spent > newest * 21_000


@pytest.mark.long
def test_answered_transactions_survive_a_kill(tmp_path):
    rng = random.Random(6)
    answered = []
    for rounds in range(ROUNDS):
        with running(start_devchain(tmp_path)) as node:
            if rounds:
                check_consistent(node, answered, rounds)
            sender = Sender()
            nonce = node.ask("eth_getTransactionCount", sender.address, "latest")
            sender.nonce = int(nonce, 16)
            miner = threading.Thread(target=send_until_killed, args=(node, sender, answered))
            miner.start()
            miner.join(rng.random())
            node.kill()
            miner.join()
    with running(start_devchain(tmp_path)) as node:
        check_consistent(node, answered, ROUNDS)
    assert len(answered) > ROUNDS
