"""The development chain returns the same receipts, logs, balances and blocks as anvil."""

import random  # noqa: TID251 - only seeded

import pytest
from eth_account import Account

from clob_server.chain.contracts import artifact
from clob_server.chain.eth.accounts import ACCOUNTS, create_address
from clob_server.chain.operations.deploy import TEST_DOLLAR, wrapper_of
from tests.chain.devchain.senders import DYNAMIC, LEGACY, LISTED, Sender, creation_of
from tests.chain.nodes import running, start_anvil, start_devchain
from tests.chain.wallets import calldata, mined_of, receipt_of

# Fields that both nodes return.
RECEIPT = """
    status gasUsed cumulativeGasUsed effectiveGasPrice type from to contractAddress logsBloom
    transactionHash transactionIndex blockNumber
"""
LOG = "address topics data logIndex transactionIndex transactionHash blockNumber removed"
TRANSACTION = "hash type from to nonce gas gasPrice value input chainId v r s"
BLOCK = """
    number gasLimit gasUsed baseFeePerGas miner difficulty extraData nonce sha3Uncles uncles
    logsBloom transactionsRoot receiptsRoot withdrawals withdrawalsRoot blobGasUsed excessBlobGas
    parentBeaconBlockRoot requestsHash transactions
"""
SELF_CALLING = bytes.fromhex("5f5f5f5f5f305af1505a5f5260205ff3")
"""Calls itself until it runs out of gas."""
WRITING = bytes.fromhex("5f358060010155")
"""Stores the word n of the call data in slot n + 1."""
DESTROYING = bytes.fromhex("33ff")
"""Destroys itself and sends its ether to the caller."""


class NodePair:
    """The development chain and anvil, with the same fork and the same first base fee."""

    def __init__(self, devchain, anvil):
        self.nodes = devchain, anvil

    def send(self, raw):
        """Send a transaction to both, compare the results and return the receipt."""
        for node in self.nodes:
            tx_hash = node.ask("eth_sendRawTransaction", raw)
        ours, theirs = (receipt_of(node, tx_hash) for node in self.nodes)
        assert select(ours, RECEIPT) == select(theirs, RECEIPT)
        check_logs(ours["logs"], theirs["logs"])
        ours_sent, theirs_sent = (mined_of(node, tx_hash) for node in self.nodes)
        assert select(ours_sent, TRANSACTION) == select(theirs_sent, TRANSACTION)
        block_number = ours["blockNumber"]
        blocks = [node.ask("eth_getBlockByNumber", block_number, False) for node in self.nodes]
        assert select(blocks[0], BLOCK) == select(blocks[1], BLOCK)
        return ours

    def check_same(self, method, *params):
        """Send a request to both and compare the results."""
        ours, theirs = (node.ask(method, *params) for node in self.nodes)
        assert ours == theirs


def check_logs(ours, theirs):
    """Compare two lists of logs."""
    assert [select(log, LOG) for log in ours] == [select(log, LOG) for log in theirs]


def select(record, names):
    """Return the fields to compare, in lower case."""
    return {name: lower(record.get(name)) for name in names.split()}


def lower(value):
    """Return text in lower case; anvil returns checksummed addresses."""
    return value.lower() if isinstance(value, str) else value


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Both nodes, shared by the tests of this module."""
    folder = tmp_path_factory.mktemp("chain")
    # The base fee of our first block, which follows from that of the genesis block.
    options = "--hardfork", "prague", "--base-fee", "875000000"
    with running(start_devchain(folder)) as devchain, running(start_anvil(*options)) as anvil:
        yield NodePair(devchain, anvil)


def deploy(both, sender, code, **more):
    """Create a contract on both; return its address."""
    return both.send(sender.sign(data=code, **more))["contractAddress"]


def test_contracts_and_every_transaction_type(both):
    sender = Sender(0)
    dollar = deploy(both, sender, artifact("TestDollar").creation + TEST_DOLLAR)
    assert dollar == create_address(sender.address, 0).lower()
    wrapping = artifact("WrappedCollateral").creation + wrapper_of(dollar)
    wrapped = deploy(both, sender, wrapping)
    mint = calldata("mint(address,uint256)", sender.address, 10**12)
    approve = calldata("approve(address,uint256)", wrapped, 2**256 - 1)
    for fees in (LEGACY, LISTED, DYNAMIC):
        assert both.send(sender.sign(dollar, mint, fees=fees))["logs"]
    both.send(sender.sign(dollar, approve))
    both.send(sender.sign(wrapped, calldata("wrap(address,uint256)", ACCOUNTS[4].address, 77)))
    # Resetting a slot to zero refunds gas.
    both.send(sender.sign(dollar, calldata("approve(address,uint256)", wrapped, 0)))
    slots = [{"address": dollar, "storageKeys": [f"0x{each:064x}" for each in range(3)]}]
    both.send(sender.sign(dollar, mint, fees={**LISTED, "accessList": slots}))
    tokens = deploy(both, sender, artifact("ConditionalTokens").creation, gas=5_000_000)
    both.send(sender.sign(tokens, calldata("setApprovalForAll(address,bool)", dollar, True)))
    call = {"to": dollar, "data": f"0x{calldata('totalSupply()').hex()}"}
    both.check_same("eth_call", call, "latest")
    both.check_same("eth_getCode", wrapped, "latest")
    both.check_same("eth_getStorageAt", dollar, "0x0", "latest")
    logs = {"fromBlock": "0x0", "toBlock": "latest", "address": [dollar, wrapped]}
    check_logs(*(node.ask("eth_getLogs", logs) for node in both.nodes))


def test_failed_transactions_have_the_same_cost(both):
    sender = Sender(1)
    dollar = deploy(both, sender, artifact("TestDollar").creation + TEST_DOLLAR)
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
    # The minimum gas per byte (EIP-7623) applies to this much data.
    both.send(sender.sign(ACCOUNTS[5].address, bytes(5000) + b"\x01" * 5000))
    for address in (sender.address, ACCOUNTS[5].address, "0x" + "77" * 20, "0x" + "00" * 20):
        both.check_same("eth_getBalance", address, "latest")
        both.check_same("eth_getTransactionCount", address, "latest")


def test_calls_between_contracts(both):
    sender = Sender(3)
    deep = deploy(both, sender, creation_of(SELF_CALLING))
    both.send(sender.sign(deep, gas=20_000_000))
    writing = deploy(both, sender, creation_of(WRITING))
    for number in (1, 2, 1, 0):
        both.send(sender.sign(writing, number.to_bytes(32)))
    destroying = deploy(both, sender, creation_of(DESTROYING))
    both.send(sender.sign(destroying, value=5))
    both.check_same("eth_getCode", destroying, "latest")
    for place in range(1, 18):
        both.send(sender.sign(f"0x{place:040x}", bytes(range(128)), gas=200_000))


def test_lazily_loaded_curve_precompile(both):
    both.check_same("eth_call", {"to": f"0x{11:040x}", "data": f"0x{bytes(256).hex()}"}, "latest")
    both.check_same("eth_call", {"to": f"0x{16:040x}", "data": f"0x{bytes(64).hex()}"}, "latest")


def test_account_with_delegated_code(both):
    sender, target = Sender(6), deploy(both, Sender(7), creation_of(WRITING))
    authorization = {"chainId": 31337, "address": target, "nonce": 1}
    signed = Account.sign_authorization(authorization, sender.key)
    raw = sender.sign(
        sender.address, b"\x05".rjust(32, b"\x00"), authorizationList=[signed], type=4
    )
    assert both.send(raw)["status"] == "0x1"
    both.check_same("eth_getCode", sender.address, "latest")
    both.check_same("eth_getStorageAt", sender.address, "0x6", "latest")


@pytest.mark.long
def test_random_code(both):
    rng = random.Random(6)
    sender = Sender(8)
    codes = [*range(0x00, 0x1E), 0x20, *range(0x30, 0x48), *range(0x50, 0xA0), 0xF3, 0xFD]
    for _ in range(300):
        pushes = b""
        for _ in range(rng.randrange(12)):
            size = rng.choice((1, 1, 1, 2, 20, 32))
            pushes += bytes([0x5F + size]) + rng.randbytes(size)
        body = bytes(rng.choice(codes) for _ in range(rng.randrange(40)))
        both.send(sender.sign(data=pushes + body, gas=200_000))
