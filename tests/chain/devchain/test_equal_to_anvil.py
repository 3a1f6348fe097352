"""Gas, status, logs, balances and blocks equal those of anvil for the same transactions."""

import random  # noqa: TID251 - only seeded

import pytest
from eth_account import Account

from clob_server.chain.contracts import artifact
from clob_server.chain.eth import abi
from clob_server.chain.eth.accounts import ACCOUNTS, create_address
from tests.chain.devchain.senders import DYNAMIC, LEGACY, LISTED, Sender, creation_of
from tests.chain.nodes import running, start_anvil, start_devchain
from tests.chain.people import calldata, mined_of, receipt_of

RECEIPT = [
    "status",
    "gasUsed",
    "cumulativeGasUsed",
    "effectiveGasPrice",
    "type",
    "from",
    "to",
    "contractAddress",
    "logsBloom",
    "transactionHash",
    "transactionIndex",
    "blockNumber",
]
LOG = [
    "address",
    "topics",
    "data",
    "logIndex",
    "transactionIndex",
    "transactionHash",
    "blockNumber",
    "removed",
]
TRANSACTION = [
    "hash",
    "type",
    "from",
    "to",
    "nonce",
    "gas",
    "gasPrice",
    "value",
    "input",
    "chainId",
    "v",
    "r",
    "s",
]
BLOCK = [
    "number",
    "gasLimit",
    "gasUsed",
    "baseFeePerGas",
    "miner",
    "difficulty",
    "extraData",
    "nonce",
    "sha3Uncles",
    "uncles",
    "logsBloom",
    "transactionsRoot",
    "receiptsRoot",
    "withdrawals",
    "withdrawalsRoot",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
    "transactions",
]
SELF_CALLING = bytes.fromhex("5f5f5f5f5f305af1505a5f5260205ff3")
"""Calls itself until the gas is gone."""
WRITING = bytes.fromhex("5f358060010155")
"""Writes a word of its data to the storage, at the place of that word and one."""
DESTROYING = bytes.fromhex("33ff")
"""Destroys itself in favour of its caller."""


class Both:
    """The development chain and anvil, of the same fork and with the same first base fee."""

    def __init__(self, devchain, anvil):
        self.nodes = devchain, anvil

    def send(self, raw):
        """Send a transaction to both, compare the results and return the receipt."""
        for node in self.nodes:
            hashed = node.ask("eth_sendRawTransaction", raw)
        ours, theirs = (receipt_of(node, hashed) for node in self.nodes)
        assert shown(ours, RECEIPT) == shown(theirs, RECEIPT)
        assert [shown(log, LOG) for log in ours["logs"]] == [
            shown(log, LOG) for log in theirs["logs"]
        ]
        ours_sent, theirs_sent = (mined_of(node, hashed) for node in self.nodes)
        assert shown(ours_sent, TRANSACTION) == shown(theirs_sent, TRANSACTION)
        self.same("eth_getBlockByNumber", ours["blockNumber"], False, of=BLOCK)
        return ours

    def same(self, method, *params, of=None):
        """Ask both, compare; return the answer."""
        ours, theirs = (node.ask(method, *params) for node in self.nodes)
        if of is None:
            assert ours == theirs
        else:
            assert shown(ours, of) == shown(theirs, of)
        return ours


def shown(record, names):
    """Return what is compared, addresses in one case."""
    return {name: lower(record.get(name)) for name in names}


def lower(value):
    """Return hex in lower case."""
    return value.lower() if isinstance(value, str) else value


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Both kinds of node, for all tests of this module."""
    folder = tmp_path_factory.mktemp("chain")
    # The first block of anvil has the base fee it is told; ours has what follows from the genesis.
    options = "--hardfork", "prague", "--base-fee", "875000000"
    with running(start_devchain(folder)) as devchain, running(start_anvil(*options)) as anvil:
        yield Both(devchain, anvil)


def deployed(both, sender, code):
    """Make a contract on both; return its address."""
    return both.send(sender.sign(data=code))["contractAddress"]


def test_contracts_and_every_transaction_type(both):
    sender = Sender(0)
    dollar = deployed(both, sender, artifact("TestDollar").creation)
    assert dollar == create_address(sender.address, 0).lower()
    wrapping = artifact("WrappedCollateral").creation + abi.encode(["address"], [dollar])
    wrapped = deployed(both, sender, wrapping)
    mint = calldata("mint(address,uint256)", sender.address, 10**12)
    approve = calldata("approve(address,uint256)", wrapped, 2**256 - 1)
    for fees in (LEGACY, LISTED, DYNAMIC):
        assert both.send(sender.sign(dollar, mint, fees=fees))["logs"]
    both.send(sender.sign(dollar, approve))
    both.send(sender.sign(wrapped, calldata("wrap(address,uint256)", ACCOUNTS[4].address, 77)))
    # What is set back to zero gives gas back.
    both.send(sender.sign(dollar, calldata("approve(address,uint256)", wrapped, 0)))
    slots = [{"address": dollar, "storageKeys": [f"0x{each:064x}" for each in range(3)]}]
    both.send(sender.sign(dollar, mint, fees={**LISTED, "accessList": slots}))
    tokens = deployed_big(both, sender)
    both.send(sender.sign(tokens, calldata("setApprovalForAll(address,bool)", dollar, True)))
    call = {"to": dollar, "data": f"0x{calldata('totalSupply()').hex()}"}
    both.same("eth_call", call, "latest")
    both.same("eth_getCode", wrapped, "latest")
    both.same("eth_getStorageAt", dollar, "0x0", "latest")
    logs = {"fromBlock": "0x0", "toBlock": "latest", "address": [dollar, wrapped]}
    ours, theirs = (node.ask("eth_getLogs", logs) for node in both.nodes)
    assert [shown(log, LOG) for log in ours] == [shown(log, LOG) for log in theirs]


def deployed_big(both, sender):
    """Make the contract of the outcome tokens, the longest there is."""
    code = artifact("ConditionalTokens").creation
    return both.send(sender.sign(data=code, gas=5_000_000))["contractAddress"]


def test_failed_transactions_cost_the_same(both):
    sender = Sender(1)
    dollar = deployed(both, sender, artifact("TestDollar").creation)
    transfer = calldata("transfer(address,uint256)", ACCOUNTS[4].address, 1)
    assert both.send(sender.sign(dollar, transfer))["status"] == "0x0"
    mint = calldata("mint(address,uint256)", sender.address, 1)
    assert both.send(sender.sign(dollar, mint, gas=30_000))["status"] == "0x0"
    assert both.send(sender.sign(data=bytes.fromhex("fe")))["status"] == "0x0"
    assert both.send(sender.sign(data=creation_of(bytes.fromhex("ef00"))))["status"] == "0x0"


def test_ether_transfers_and_data_gas(both):
    sender = Sender(2)
    for fees in (LEGACY, LISTED, DYNAMIC):
        both.send(sender.sign(ACCOUNTS[5].address, value=12345, fees=fees))
    both.send(sender.sign("0x" + "77" * 20, value=1))
    # The gas of so much data is the floor of EIP-7623.
    both.send(sender.sign(ACCOUNTS[5].address, bytes(5000) + b"\x01" * 5000))
    for address in (sender.address, ACCOUNTS[5].address, "0x" + "77" * 20, "0x" + "00" * 20):
        both.same("eth_getBalance", address, "latest")
        both.same("eth_getTransactionCount", address, "latest")


def test_calls_between_contracts(both):
    sender = Sender(3)
    deep = deployed(both, sender, creation_of(SELF_CALLING))
    both.send(sender.sign(deep, gas=20_000_000))
    writing = deployed(both, sender, creation_of(WRITING))
    for number in (1, 2, 1, 0):
        both.send(sender.sign(writing, number.to_bytes(32)))
    destroying = deployed(both, sender, creation_of(DESTROYING))
    both.send(sender.sign(destroying, value=5))
    both.same("eth_getCode", destroying, "latest")
    for place in range(1, 18):
        both.send(sender.sign(f"0x{place:040x}", bytes(range(128)), gas=200_000))


def test_lazily_loaded_curve_precompile(both):
    both.same("eth_call", {"to": f"0x{11:040x}", "data": f"0x{bytes(256).hex()}"}, "latest")
    both.same("eth_call", {"to": f"0x{16:040x}", "data": f"0x{bytes(64).hex()}"}, "latest")


def test_account_delegates_to_code(both):
    sender, target = Sender(6), deployed(both, Sender(7), creation_of(WRITING))
    made = {"chainId": 31337, "address": target, "nonce": 1}
    signed = Account.sign_authorization(made, sender.key)
    raw = sender.sign(
        sender.address, b"\x05".rjust(32, b"\x00"), authorizationList=[signed], type=4
    )
    assert both.send(raw)["status"] == "0x1"
    both.same("eth_getCode", sender.address, "latest")
    both.same("eth_getStorageAt", sender.address, "0x6", "latest")


@pytest.mark.long
def test_random_code(both):
    drawn = random.Random(6)
    sender = Sender(8)
    codes = [*range(0x00, 0x1E), 0x20, *range(0x30, 0x48), *range(0x50, 0xA0), 0xF3, 0xFD]
    for _ in range(300):
        pushes = b""
        for _ in range(drawn.randrange(12)):
            size = drawn.choice((1, 1, 1, 2, 20, 32))
            pushes += bytes([0x5F + size]) + drawn.randbytes(size)
        body = bytes(drawn.choice(codes) for _ in range(drawn.randrange(40)))
        both.send(sender.sign(data=pushes + body, gas=200_000))
