"""Gas estimates are sufficient and close to the gas used."""

from contextlib import closing

import pytest

from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import ACCOUNTS
from clob_server.chain.operations.deploy import TEST_DOLLAR
from tests.chain.devchain.conftest import LocalChain
from tests.chain.devchain.senders import Sender, creation_of
from tests.chain.wallets import calldata

SPARE = 2301
NESTED = "5f5f5f5f5f{target}5af1155f55"
"""Calls another contract with all remaining gas and stores whether the call failed."""
CAPPED = "5f5f5f5f5f{target}620f4240f11560255700005b5f5ffd"
"""Calls another contract with at most 1,000,000 gas and reverts if the call fails."""
GAS_CHECKING = "5a620186a010600c575f5ffd5b00"
"""Reverts unless 100,000 gas remain, although it uses almost none."""
WRITING = "60015f55"
"""Writes to its storage."""
BURNING = "fe"
"""Uses all gas that it receives."""


def deploy(rpc, sender, runtime):
    """Create a contract with this code; return its address."""
    raw = sender.sign(data=creation_of(bytes.fromhex(runtime)))
    tx_hash = rpc.ask("eth_sendRawTransaction", raw)
    return rpc.ask("eth_getTransactionReceipt", tx_hash)["contractAddress"]


def estimate_and_send(rpc, sender, to, data=b"", value=0):
    """Send a transaction with the estimated gas; return the estimate and the gas used."""
    request = {"from": sender.address, "data": f"0x{data.hex()}", "value": hex(value)}
    if to:
        request["to"] = to
    gas = int(rpc.ask("eth_estimateGas", request), 16)
    tx_hash = rpc.ask("eth_sendRawTransaction", sender.sign(to, data, value, gas=gas))
    receipt = rpc.ask("eth_getTransactionReceipt", tx_hash)
    assert receipt["status"] == "0x1"
    return gas, int(receipt["gasUsed"], 16)


def test_estimate_of_an_ether_transfer(rpc):
    assert estimate_and_send(rpc, Sender(), ACCOUNTS[4].address, value=5) == (21_000, 21_000)
    gas, used = estimate_and_send(rpc, Sender(4), ACCOUNTS[5].address, bytes(2000))
    assert gas == used == 21_000 + 10 * 2000


def test_estimate_of_a_creation_and_of_calls(rpc):
    sender = Sender()
    gas, used = estimate_and_send(rpc, sender, "", artifact("TestDollar").creation + TEST_DOLLAR)
    assert gas == used + SPARE
    receipt = rpc.ask("eth_getBlockByNumber", "latest", True)["transactions"][0]
    dollar = rpc.ask("eth_getTransactionReceipt", receipt["hash"])["contractAddress"]
    data = calldata("mint(address,uint256)", sender.address, 5)
    gas, used = estimate_and_send(rpc, sender, dollar, data)
    assert gas == used + SPARE
    # A refund at the end lowers the gas used, but not the gas needed.
    for amount in (5, 0):
        data = calldata("approve(address,uint256)", ACCOUNTS[4].address, amount)
        gas, used = estimate_and_send(rpc, sender, dollar, data)
    assert used + SPARE < gas < used * 5 // 4 + SPARE


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_estimate_of_nested_calls(rpc, depth):
    sender = Sender()
    contract = deploy(rpc, sender, WRITING)
    for _ in range(depth):
        contract = deploy(rpc, sender, NESTED.format(target="73" + contract[2:]))
    gas, used = estimate_and_send(rpc, sender, contract)
    assert used < gas < (used + SPARE) * 1.02**depth + 10
    has_failed = rpc.ask("eth_getStorageAt", contract, "0x0", "latest")
    assert int(has_failed, 16) == 0


@pytest.mark.parametrize("code", [WRITING, BURNING])
def test_estimate_of_a_call_that_may_fail(rpc, code):
    sender = Sender()
    callee = deploy(rpc, sender, code)
    caller = deploy(rpc, sender, NESTED.format(target="73" + callee[2:]))
    estimate_and_send(rpc, sender, caller)


def test_estimate_of_a_call_with_a_gas_limit(rpc):
    sender = Sender()
    callee = deploy(rpc, sender, WRITING)
    caller = deploy(rpc, sender, CAPPED.format(target="73" + callee[2:]))
    gas, used = estimate_and_send(rpc, sender, caller)
    assert gas < used * 1.2


def test_estimate_of_a_contract_that_reads_the_remaining_gas(rpc):
    sender = Sender()
    gas, used = estimate_and_send(rpc, sender, deploy(rpc, sender, GAS_CHECKING))
    assert used < 22_000
    assert 121_000 <= gas < 124_000


def test_balance_of_the_sender_limits_the_estimate(rpc):
    poor = "0x" + "55" * 20
    request = {"from": poor, "to": deploy(rpc, Sender(), WRITING), "gasPrice": "0x1"}
    assert rpc.rejected("eth_estimateGas", request)["message"].startswith("intrinsic gas too low")
    request = {**request, "from": ACCOUNTS[5].address, "gas": hex(25_000)}
    assert rpc.rejected("eth_estimateGas", request)["message"] == (
        "gas required exceeds allowance (25000)"
    )


def test_read_requests_change_no_block_and_no_result(rpc, tmp_path):
    other = LocalChain(tmp_path / "other")
    with closing(other.store):
        for chain in (rpc, other):
            dollar = mint_repeatedly(chain, with_reads=chain is rpc)
        newest = rpc.ask("eth_getBlockByNumber", "latest", True)
        assert newest == other.ask("eth_getBlockByNumber", "latest", True)
        call = {"to": dollar, "data": f"0x{calldata('totalSupply()').hex()}"}
        assert rpc.ask("eth_call", call) == other.ask("eth_call", call)


def mint_repeatedly(chain, with_reads):
    """Deploy a test dollar and mint; return its address."""
    sender = Sender()
    creation = sender.sign(data=artifact("TestDollar").creation + TEST_DOLLAR)
    tx_hash = chain.ask("eth_sendRawTransaction", creation)
    dollar = chain.ask("eth_getTransactionReceipt", tx_hash)["contractAddress"]
    for amount in range(1, 8):
        data = calldata("mint(address,uint256)", ACCOUNTS[amount].address, amount)
        if with_reads:
            request = {"from": sender.address, "to": dollar, "data": f"0x{data.hex()}"}
            send_read_requests(chain, request)
        chain.ask("eth_sendRawTransaction", sender.sign(dollar, data))
    return dollar


def send_read_requests(chain, request):
    """Send the same calls at several blocks; some of them fail."""
    for at in ("latest", "pending", "0x1", "latest"):
        chain.ask("eth_call", request, at)
        used = chain.ask("eth_estimateGas", request, at)
        assert used == chain.ask("eth_estimateGas", request, at)
        chain.rejected("eth_call", {**request, "from": ACCOUNTS[5].address}, at)
        chain.rejected("eth_call", {**request, "gas": hex(25_000)}, at)
        chain.ask("eth_getBalance", request["from"], at)


def test_estimate_changes_no_state(rpc):
    place = deploy(rpc, Sender(), WRITING)
    root = rpc.ask("eth_getBlockByNumber", "latest", False)["stateRoot"]
    for _ in range(2):
        rpc.ask("eth_estimateGas", {"to": place})
        rpc.ask("eth_call", {"to": place})
    assert rpc.ask("eth_getStorageAt", place, "0x0", "latest") == f"0x{0:064x}"
    rpc.ask("evm_mine")
    assert rpc.ask("eth_getBlockByNumber", "latest", False)["stateRoot"] == root
