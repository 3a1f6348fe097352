"""Gas estimates are sufficient and close to the gas used."""

from contextlib import closing

import pytest

from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import ACCOUNTS
from tests.chain.devchain.conftest import LocalChain
from tests.chain.devchain.senders import Sender, creation_of
from tests.chain.people import calldata

SPARE = 2301
NESTED = "5f5f5f5f5f{target}5af1155f55"
"""Calls another contract with all the gas there is, and writes down whether it failed."""
CAPPED = "5f5f5f5f5f{target}620f4240f11560255700005b5f5ffd"
"""Calls another contract with at most a million, and reverts if that failed."""
HUNGRY = "5a620186a010600c575f5ffd5b00"
"""Reverts unless 100,000 gas are left, of which it uses next to nothing."""
WRITING = "60015f55"
"""Writes to its storage."""
BURNING = "fe"
"""Takes all the gas it gets."""


def deployed(rpc, sender, runtime):
    """Make a contract with this code; return its address."""
    raw = sender.sign(data=creation_of(bytes.fromhex(runtime)))
    hashed = rpc.ask("eth_sendRawTransaction", raw)
    return rpc.ask("eth_getTransactionReceipt", hashed)["contractAddress"]


def estimated(rpc, sender, to, data=b"", value=0):
    """Estimate a transaction, send it with exactly so much gas; return both figures."""
    wanted = {"from": sender.address, "data": f"0x{data.hex()}", "value": hex(value)}
    if to:
        wanted["to"] = to
    gas = int(rpc.ask("eth_estimateGas", wanted), 16)
    hashed = rpc.ask("eth_sendRawTransaction", sender.sign(to, data, value, gas=gas))
    receipt = rpc.ask("eth_getTransactionReceipt", hashed)
    assert receipt["status"] == "0x1"
    return gas, int(receipt["gasUsed"], 16)


def test_estimate_of_an_ether_transfer(rpc):
    assert estimated(rpc, Sender(), ACCOUNTS[4].address, value=5) == (21_000, 21_000)
    gas, used = estimated(rpc, Sender(4), ACCOUNTS[5].address, bytes(2000))
    assert gas == used == 21_000 + 10 * 2000


def test_estimate_of_a_creation_and_of_calls(rpc):
    sender = Sender()
    gas, used = estimated(rpc, sender, "", artifact("TestDollar").creation)
    assert gas == used + SPARE
    receipt = rpc.ask("eth_getBlockByNumber", "latest", True)["transactions"][0]
    dollar = rpc.ask("eth_getTransactionReceipt", receipt["hash"])["contractAddress"]
    data = calldata("mint(address,uint256)", sender.address, 5)
    gas, used = estimated(rpc, sender, dollar, data)
    assert gas == used + SPARE
    # What gives gas back at its end needs more than it uses in the end.
    for amount in (5, 0):
        data = calldata("approve(address,uint256)", ACCOUNTS[4].address, amount)
        gas, used = estimated(rpc, sender, dollar, data)
    assert used + SPARE < gas < used * 5 // 4 + SPARE


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_estimate_of_nested_calls(rpc, depth):
    sender = Sender()
    place = deployed(rpc, sender, WRITING)
    for _ in range(depth):
        place = deployed(rpc, sender, NESTED.format(target="73" + place[2:]))
    gas, used = estimated(rpc, sender, place)
    assert used < gas < (used + SPARE) * 1.02**depth + 10
    written = rpc.ask("eth_getStorageAt", place, "0x0", "latest")
    assert int(written, 16) == 0  # the call below did not fail


@pytest.mark.parametrize("below", [WRITING, BURNING])
def test_estimate_of_a_call_that_may_fail(rpc, below):
    sender = Sender()
    place = deployed(rpc, sender, below)
    estimated(rpc, sender, deployed(rpc, sender, NESTED.format(target="73" + place[2:])))


def test_estimate_of_a_call_with_a_gas_limit(rpc):
    sender = Sender()
    place = deployed(rpc, sender, WRITING)
    gas, used = estimated(
        rpc, sender, deployed(rpc, sender, CAPPED.format(target="73" + place[2:]))
    )
    assert gas < used * 1.2


def test_estimate_of_a_contract_that_reads_the_remaining_gas(rpc):
    sender = Sender()
    gas, used = estimated(rpc, sender, deployed(rpc, sender, HUNGRY))
    assert used < 22_000
    assert 121_000 <= gas < 124_000


def test_balance_of_the_sender_limits_the_estimate(rpc):
    poor = "0x" + "55" * 20
    wanted = {"from": poor, "to": deployed(rpc, Sender(), WRITING), "gasPrice": "0x1"}
    assert rpc.rejected("eth_estimateGas", wanted)["message"].startswith("intrinsic gas too low")
    wanted = {**wanted, "from": ACCOUNTS[5].address, "gas": hex(25_000)}
    assert rpc.rejected("eth_estimateGas", wanted)["message"] == (
        "gas required exceeds allowance (25000)"
    )


def test_read_requests_change_no_block_and_no_result(rpc, tmp_path):
    quiet = LocalChain(tmp_path / "quiet")
    with closing(quiet.store):
        for chain in (rpc, quiet):
            dollar = minted(chain, questions=chain is rpc)
        newest = rpc.ask("eth_getBlockByNumber", "latest", True)
        assert newest == quiet.ask("eth_getBlockByNumber", "latest", True)
        call = {"to": dollar, "data": f"0x{calldata('totalSupply()').hex()}"}
        assert rpc.ask("eth_call", call) == quiet.ask("eth_call", call)


def minted(chain, questions):
    """Mint for a while, with questions before and after each transaction or without."""
    sender = Sender()
    creation = sender.sign(data=artifact("TestDollar").creation)
    hashed = chain.ask("eth_sendRawTransaction", creation)
    dollar = chain.ask("eth_getTransactionReceipt", hashed)["contractAddress"]
    for amount in range(1, 8):
        data = calldata("mint(address,uint256)", ACCOUNTS[amount].address, amount)
        if questions:
            wanted = {"from": sender.address, "to": dollar, "data": f"0x{data.hex()}"}
            send_read_requests(chain, wanted)
        chain.ask("eth_sendRawTransaction", sender.sign(dollar, data))
    return dollar


def send_read_requests(chain, wanted):
    """Ask for the same thing several times, of which some fail."""
    for at in ("latest", "pending", "0x1", "latest"):
        chain.ask("eth_call", wanted, at)
        used = chain.ask("eth_estimateGas", wanted, at)
        assert used == chain.ask("eth_estimateGas", wanted, at)
        chain.rejected("eth_call", {**wanted, "from": ACCOUNTS[5].address}, at)
        chain.rejected("eth_call", {**wanted, "gas": hex(25_000)}, at)
        chain.ask("eth_getBalance", wanted["from"], at)


def test_estimate_changes_no_state(rpc):
    place = deployed(rpc, Sender(), WRITING)
    root = rpc.ask("eth_getBlockByNumber", "latest", False)["stateRoot"]
    for _ in range(2):
        rpc.ask("eth_estimateGas", {"to": place})
        rpc.ask("eth_call", {"to": place})
    assert rpc.ask("eth_getStorageAt", place, "0x0", "latest") == f"0x{0:064x}"
    rpc.ask("evm_mine")
    assert rpc.ask("eth_getBlockByNumber", "latest", False)["stateRoot"] == root
