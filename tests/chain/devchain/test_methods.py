"""Results of each method, on a chain with a contract and transactions."""

import re
from pathlib import Path

import pytest
from eth_utils import keccak

from clob_server.chain.contracts import artifact
from clob_server.chain.devchain.methods import METHODS
from clob_server.chain.eth.accounts import ACCOUNTS, GENESIS_WEI
from clob_server.chain.operations.deploy import TEST_DOLLAR
from tests.chain.devchain.conftest import BEGIN_S
from tests.chain.devchain.senders import FEE_WEI, LEGACY, TIP_WEI, Sender, creation_of
from tests.chain.wallets import calldata

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "devchain.md"
TRANSFER = f"0x{keccak(text='Transfer(address,address,uint256)').hex()}"
REVERTING = bytes.fromhex("5f5ffd")


@pytest.fixture
def dollar(rpc):
    """The address of a test dollar, and the sender that deployed it."""
    sender = Sender()
    tx_hash = rpc.ask(
        "eth_sendRawTransaction", sender.sign(data=artifact("TestDollar").creation + TEST_DOLLAR)
    )
    return rpc.ask("eth_getTransactionReceipt", tx_hash)["contractAddress"], sender


def mint(rpc, dollar, to, amount):
    """Mint test dollars; return the receipt."""
    contract, sender = dollar
    data = calldata("mint(address,uint256)", to, amount)
    tx_hash = rpc.ask("eth_sendRawTransaction", sender.sign(contract, data))
    return rpc.ask("eth_getTransactionReceipt", tx_hash)


def padded(address):
    """Return an address as a topic."""
    return f"0x{address[2:].lower():0>64}"


def test_client_and_chain_id(rpc):
    assert rpc.ask("eth_chainId") == "0x7a69"
    assert rpc.ask("net_version") == "31337"
    assert rpc.ask("web3_clientVersion").startswith("clob-devchain/")
    assert rpc.ask("eth_accounts") == []
    assert rpc.ask("eth_syncing") is False
    assert rpc.ask("net_listening") is True
    assert rpc.ask("web3_sha3", "0x") == f"0x{keccak(b'').hex()}"


def test_ten_accounts_start_with_ether(rpc):
    for each in ACCOUNTS:
        assert int(rpc.ask("eth_getBalance", each.address, "latest"), 16) == GENESIS_WEI
        assert rpc.ask("eth_getTransactionCount", each.address, "pending") == "0x0"


def test_blocks_by_number_name_and_hash(rpc, dollar):
    newest = rpc.ask("eth_getBlockByNumber", "latest", False)
    assert newest["number"] == "0x1"
    for name in ("safe", "finalized", "0x1", 1):
        assert rpc.ask("eth_getBlockByNumber", name, False) == newest
    assert rpc.ask("eth_getBlockByHash", newest["hash"], False) == newest
    whole = rpc.ask("eth_getBlockByHash", newest["hash"], True)
    [sent] = whole["transactions"]
    assert [sent["hash"]] == newest["transactions"]
    assert sent["blockHash"] == newest["hash"]
    assert rpc.ask("eth_getBlockByNumber", "earliest", True)["transactions"] == []
    assert rpc.ask("eth_getBlockByNumber", "pending", False)["number"] == "0x2"
    assert rpc.ask("eth_getBlockByNumber", "0x2", False) is None
    assert rpc.ask("eth_getBlockByHash", "0x" + "11" * 32, False) is None
    assert newest["parentHash"] == rpc.ask("eth_getBlockByNumber", "earliest", False)["hash"]


def test_state_of_earlier_blocks_is_available(rpc, dollar):
    mint(rpc, dollar, ACCOUNTS[4].address, 5)
    mint(rpc, dollar, ACCOUNTS[4].address, 6)
    place, sender = dollar
    data = calldata("balanceOf(address)", ACCOUNTS[4].address)
    call = {"to": place, "data": f"0x{data.hex()}"}
    at = {number: rpc.ask("eth_call", call, hex(number)) for number in range(4)}
    assert [int(at[number], 16) for number in (1, 2, 3)] == [0, 5, 11]
    assert at[0] == "0x"
    second = rpc.ask("eth_getBlockByNumber", "0x2", False)["hash"]
    assert rpc.ask("eth_call", call, {"blockHash": second}) == at[2]
    assert rpc.ask("eth_call", call, {"blockNumber": "0x2"}) == at[2]
    assert rpc.ask("eth_getTransactionCount", sender.address, "0x2") == "0x2"
    assert rpc.ask("eth_getCode", place, "0x0") == "0x"
    assert int(rpc.ask("eth_getBalance", sender.address, "0x0"), 16) == GENESIS_WEI
    assert "unknown block 9" in rpc.rejected("eth_call", call, "0x9")["message"]


def test_reverted_call_has_its_reason(rpc, dollar):
    place, _ = dollar
    data = calldata("transfer(address,uint256)", ACCOUNTS[4].address, 1)
    call = {"to": place, "data": f"0x{data.hex()}", "from": ACCOUNTS[5].address}
    for method in ("eth_call", "eth_estimateGas"):
        error = rpc.rejected(method, call)
        assert error["code"] == 3
        assert error["message"] == "execution reverted"
        assert error["data"].startswith(
            "0x" + keccak(text="ERC20InsufficientBalance(address,uint256,uint256)")[:4].hex()
        )
    text = "08c379a0" + f"{32:064x}{5:064x}" + b"sorry".hex().ljust(64, "0")
    # Reverts with the data that follows its code.
    code = bytes.fromhex("6064600a5f3960645ffd") + bytes.fromhex(text)
    error = rpc.rejected("eth_call", {"data": f"0x{code.hex()}"})
    assert error["message"] == "execution reverted: sorry"


def test_call_value_is_limited_by_the_balance(rpc):
    call = {"from": ACCOUNTS[3].address, "to": ACCOUNTS[4].address, "value": hex(5)}
    assert rpc.ask("eth_call", call) == "0x"
    assert rpc.ask("eth_estimateGas", call) == hex(21_000)
    poor = {**call, "from": "0x" + "55" * 20}
    assert "insufficient funds" in rpc.rejected("eth_call", poor)["message"]
    assert int(rpc.ask("eth_getBalance", ACCOUNTS[4].address, "latest"), 16) == GENESIS_WEI


def test_receipts_and_transactions_by_hash(rpc, dollar):
    receipt = mint(rpc, dollar, ACCOUNTS[4].address, 5)
    sent = rpc.ask("eth_getTransactionByHash", receipt["transactionHash"])
    assert sent["blockNumber"] == receipt["blockNumber"] == "0x2"
    assert sent["to"] == receipt["to"] == dollar[0]
    base_fee = int(rpc.ask("eth_getBlockByNumber", "0x2", False)["baseFeePerGas"], 16)
    assert int(receipt["effectiveGasPrice"], 16) == base_fee + TIP_WEI
    assert rpc.ask("eth_getTransactionReceipt", "0x" + "11" * 32) is None
    assert rpc.ask("eth_getTransactionByHash", "0x" + "11" * 32) is None


def test_logs_by_block_address_and_topics(rpc, dollar):
    people = [each.address for each in ACCOUNTS[4:7]]
    for amount, person in enumerate(people, 1):
        mint(rpc, dollar, person, amount)

    def amounts(**conditions):
        logs = rpc.ask("eth_getLogs", {"fromBlock": "earliest", **conditions})
        return [int(log["data"], 16) for log in logs]

    to = [padded(person) for person in people]
    assert amounts() == amounts(address=dollar[0]) == amounts(topics=[TRANSFER]) == [1, 2, 3]
    assert amounts(topics=[None, None, to[1]]) == [2]
    assert amounts(topics=[TRANSFER, None, [to[0], to[2]]]) == [1, 3]
    assert amounts(topics=[[TRANSFER, to[0]], []]) == [1, 2, 3]
    assert amounts(topics=[to[0]]) == amounts(address="0x" + "11" * 20) == []
    assert amounts(topics=[None, None, None, None]) == [1, 2, 3]
    assert amounts(fromBlock="0x3", toBlock="0x3") == [2]
    assert amounts(fromBlock="0x99") == amounts(fromBlock="0x3", toBlock="0x2") == []
    [log] = rpc.ask("eth_getLogs", {})
    assert log["blockNumber"] == "0x4"
    assert rpc.ask("eth_getLogs", {"blockHash": log["blockHash"]}) == [log]
    wrong = {"blockHash": log["blockHash"], "fromBlock": "0x0"}
    assert rpc.rejected("eth_getLogs", wrong)["code"] == -32602
    assert rpc.rejected("eth_getLogs", {"topics": [None] * 5})["code"] == -32602
    assert rpc.rejected("eth_getLogs", {"blockHash": "0x" + "00" * 32})["code"] == -32000


def test_too_many_logs_are_rejected(rpc, dollar, monkeypatch):
    monkeypatch.setattr("clob_server.chain.devchain.logs.LOGS_MAX", 2)
    for amount in (1, 2, 3):
        mint(rpc, dollar, ACCOUNTS[4].address, amount)
    assert rpc.rejected("eth_getLogs", {"fromBlock": "0x0"})["code"] == -32005
    assert len(rpc.ask("eth_getLogs", {"fromBlock": "0x3"})) == 2


def test_fees(rpc, dollar):
    base_fee = int(rpc.ask("eth_getBlockByNumber", "pending", False)["baseFeePerGas"], 16)
    assert int(rpc.ask("eth_gasPrice"), 16) == base_fee + TIP_WEI
    assert int(rpc.ask("eth_maxPriorityFeePerGas"), 16) == TIP_WEI
    result = rpc.ask("eth_feeHistory", "0x5", "latest", [0, 50, 100])
    assert result["oldestBlock"] == "0x0"
    assert len(result["baseFeePerGas"]) == 3
    assert result["gasUsedRatio"][0] == 0 < result["gasUsedRatio"][1] < 1
    assert result["reward"] == [["0x0"] * 3, [hex(TIP_WEI)] * 3]
    assert "reward" not in rpc.ask("eth_feeHistory", 1, "0x0")


def test_clock_of_the_chain(rpc):
    def newest_s():
        return int(rpc.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    rpc.ask("evm_mine")
    rpc.ask("evm_mine")
    assert newest_s() == BEGIN_S  # blocks of one second share its time
    rpc.now_s += 100
    rpc.ask("evm_mine")
    assert newest_s() == BEGIN_S + 100
    assert rpc.ask("evm_increaseTime", 1000) == 1000
    rpc.ask("evm_mine")
    assert newest_s() == BEGIN_S + 1100
    assert rpc.rejected("evm_setNextBlockTimestamp", BEGIN_S)["code"] == -32602
    rpc.ask("evm_setNextBlockTimestamp", BEGIN_S + 5000)
    rpc.ask("evm_mine")
    assert newest_s() == BEGIN_S + 5000
    rpc.now_s += 7
    rpc.ask("evm_mine")
    assert newest_s() == BEGIN_S + 5007
    rpc.ask("evm_mine", hex(BEGIN_S + 6000))
    assert newest_s() == BEGIN_S + 6000
    rpc.ask("evm_mine", {"timestamp": BEGIN_S + 7000, "blocks": 3})
    assert newest_s() == BEGIN_S + 7000
    rpc.now_s -= 10**6  # the machine's clock goes back, the chain's does not
    rpc.ask("evm_mine")
    assert newest_s() == BEGIN_S + 7000


INVALID_TRANSACTIONS = {
    "0x": (-32602, "failed to decode"),
    "0x1234": (-32000, "transaction type not supported"),
    "0xc0": (-32602, "failed to decode"),
    "0x02c0": (-32602, "failed to decode"),
    "0x7f" + "00" * 50: (-32000, "transaction type not supported"),
}


@pytest.mark.parametrize("raw", INVALID_TRANSACTIONS)
def test_undecodable_transactions_are_rejected(rpc, raw):
    code, begin = INVALID_TRANSACTIONS[raw]
    error = rpc.rejected("eth_sendRawTransaction", raw)
    assert error["code"] == code
    assert error["message"].startswith(begin)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        ("intrinsic gas too low: have 20000, want 21000", {"gas": 20_000}),
        ("exceeds block gas limit", {"gas": 30_000_001}),
        ("insufficient funds for gas * price + value: address 0x90f79b", {"value": GENESIS_WEI}),
        ("max fee per gas less than block base fee", {"fees": {"gasPrice": 1}}),
        ("invalid chain id for signer: have 1 want 31337", {"chainId": 1}),
        ("nonce too high: next nonce 0, tx nonce 5000", {"nonce": 5000}),
        ("insufficient gas for floor data gas cost", {"data": b"\x01" * 500, "gas": 30_000}),
        (
            "max priority fee per gas higher than max fee per gas",
            {"fees": {"type": 2, "maxFeePerGas": FEE_WEI, "maxPriorityFeePerGas": FEE_WEI + 1}},
        ),
    ],
)
def test_unminable_transactions_are_rejected(rpc, begin, more):
    raw = Sender().sign(ACCOUNTS[4].address, **more)
    error = rpc.rejected("eth_sendRawTransaction", raw)
    assert error["code"] == -32000
    assert error["message"].startswith(begin)
    assert rpc.ask("eth_blockNumber") == "0x0"


def test_repeated_transaction_is_rejected_by_its_nonce(rpc):
    raw = Sender().sign(ACCOUNTS[4].address, fees=LEGACY)
    rpc.ask("eth_sendRawTransaction", raw)
    error = rpc.rejected("eth_sendRawTransaction", raw)
    assert error == {"code": -32000, "message": "nonce too low: next nonce 1, tx nonce 0"}


def test_too_long_creation_code_is_rejected(rpc):
    raw = Sender().sign(data=creation_of(bytes(49_152)), gas=5_000_000)
    error = rpc.rejected("eth_sendRawTransaction", raw)
    assert error["message"].startswith("max initcode size exceeded")


def test_every_method_is_documented():
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(METHODS)
