"""Wallets that sign transactions and read balances over JSON-RPC, without code of the server.

Calls are encoded independently, so that the server's balances and approvals are compared with
another implementation.
"""

import time
from collections import Counter

from eth_abi import decode, encode
from eth_account import Account
from eth_utils import keccak, to_checksum_address

PATIENCE_S = 60
GAS = 500_000
TIP_WEI = 10**9
UNIT = 10**18
"""One token, and one unit of wrapped collateral, in wei."""
CREATE, CREATED = b"\x60", bytes.fromhex("8060093d393df3")
"""Creation code before and after the length of the deployed code."""
REVERTS = bytes.fromhex("60006000fd")
"""Code of a wallet that reverts every call."""
BURNS = bytes.fromhex("5b600056")
"""Code of a wallet that burns all gas."""
SLOW_SIGNER = bytes.fromhex(
    "5f3560e01c80631626ba7e14601957"  # a loop for isValidSignature:
    "5b60e01b5f5260205ff3"  # return the selector of the call
    "5b6115005b6001900380601d5750600f56"  # 5,376 rounds of 26 gas
)
"""Code of a wallet that accepts tokens, and signatures (EIP-1271) with 140,000 gas."""
BOMB = bytes.fromhex("620200005ffd")
"""Code of a wallet that reverts with 128 KiB of data."""
STABLE_UNIT = 10**6
"""One unit of the stablecoin."""
ZERO = bytes(20)
MAX = 2**256 - 1


def types_of(signature):
    """Return the argument types of a signature such as ``mint(address,uint256)``."""
    inside = signature.partition("(")[2].removesuffix(")")
    return inside.split(",") if inside else []


def calldata(signature, *arguments):
    """Encode a contract call."""
    return keccak(text=signature)[:4] + encode(types_of(signature), arguments)


def read(node, to, signature, *arguments, kind="uint256"):
    """Call a contract and return its single value."""
    call = {"to": to, "data": f"0x{calldata(signature, *arguments).hex()}"}
    [value] = decode([kind], bytes.fromhex(node.ask("eth_call", call, "latest")[2:]))
    return value


def receipt_of(node, hashed):
    """Wait until a transaction is in a block and return its receipt."""
    return wait_for_answer(
        node, "eth_getTransactionReceipt", hashed, lambda receipt: receipt is not None
    )


def mined_of(node, hashed):
    """Wait until a node returns a transaction with its block.

    anvil may return the receipt earlier: it looks up pending transactions first, and a pending
    transaction shows the gas price of the next block.
    """
    return wait_for_answer(node, "eth_getTransactionByHash", hashed, lambda sent: sent["blockHash"])


def wait_for_answer(node, method, hashed, enough):
    """Request a transaction until ``enough`` accepts the answer."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = node.ask(method, hashed)
        if enough(answer):
            return answer
        time.sleep(0.002)
    raise TimeoutError(hashed)


class Wallet:
    """An account with a private key.

    Args:
        node: an object with ``ask(method, *params)``.
        key: 0x and 64 hex digits.
    """

    def __init__(self, node, key):
        self.node = node
        self.key = key
        self.address = Account.from_key(key).address

    def sign(self, to, data=b"", value=0, *, nonce=None, gas=GAS, **more):
        """Return a signed transaction as hex."""
        if nonce is None:
            nonce = int(self.node.ask("eth_getTransactionCount", self.address, "pending"), 16)
        block = self.node.ask("eth_getBlockByNumber", "latest", False)
        transaction = {
            "type": 4 if more else 2,
            "chainId": int(self.node.ask("eth_chainId"), 16),
            "nonce": nonce,
            "to": to,
            "value": value,
            "data": data,
            "gas": gas,
            "maxPriorityFeePerGas": TIP_WEI,
            "maxFeePerGas": 4 * int(block["baseFeePerGas"], 16) + TIP_WEI,
            **more,
        }
        return f"0x{Account.sign_transaction(transaction, self.key).raw_transaction.hex()}"

    def send(self, to, data=b"", value=0, *, gas=GAS, fails=False):
        """Send a transaction and return its receipt; the nodes mine automatically.

        Args:
            to: an address; empty to create a contract.
            data: calldata.
            value: value, in wei.
            gas: gas limit.
            fails: whether the transaction must fail.
        """
        hashed = self.node.ask("eth_sendRawTransaction", self.sign(to, data, value, gas=gas))
        receipt = receipt_of(self.node, hashed)
        assert receipt["status"] == ("0x0" if fails else "0x1")
        return receipt

    def set_code(self, code):
        """Delegate the wallet to code with EIP-7702."""
        address = self.send("", CREATE + bytes([len(code)]) + CREATED + code)["contractAddress"]
        chain_id = int(self.node.ask("eth_chainId"), 16)
        nonce = int(self.node.ask("eth_getTransactionCount", self.address, "pending"), 16)
        authorization = {"chainId": chain_id, "address": address, "nonce": nonce + 1}
        signed = Account.sign_authorization(authorization, self.key)
        raw = self.sign(self.address, nonce=nonce, authorizationList=[signed])
        assert receipt_of(self.node, self.node.ask("eth_sendRawTransaction", raw))["status"]
        assert self.node.ask("eth_getCode", self.address, "latest").startswith("0xef0100")

    def call(self, to, signature, *arguments, fails=False):
        """Send a contract call and return its receipt."""
        return self.send(to, calldata(signature, *arguments), fails=fails)


class User(Wallet):
    """A wallet that calls the contracts and approves the operator.

    Args:
        node: an object with ``ask(method, *params)``.
        key: 0x and 64 hex digits.
        contracts: an object with ``stablecoin``, ``collateral`` and ``conditional_tokens``.
        operator: address of the operator.
    """

    def __init__(self, node, key, contracts, operator):
        super().__init__(node, key)
        self.contracts = contracts
        self.operator = operator

    def approve_tokens(self, allowed=True):
        """Approve outcome tokens for the operator, or revoke that."""
        signature = "setApprovalForAll(address,bool)"
        self.call(self.contracts.conditional_tokens, signature, self.operator, allowed)

    def approve_collateral(self, amount=MAX):
        """Approve wrapped collateral for the operator."""
        signature = "approve(address,uint256)"
        self.call(self.contracts.collateral, signature, self.operator, amount)

    def approve_stablecoin(self, amount=MAX):
        """Approve stablecoin for the operator."""
        signature = "approve(address,uint256)"
        self.call(self.contracts.stablecoin, signature, self.operator, amount)

    def unwrap(self, amount):
        """Unwrap collateral without the operator."""
        self.call(self.contracts.collateral, "unwrap(address,uint256)", self.address, amount)

    def permit(self, amount, deadline=MAX, contract=None):
        """Sign an EIP-2612 approval of a token, by default collateral: value, deadline, v, r, s."""
        contract = contract or self.contracts.collateral
        types = {
            "Permit": [
                {"name": "owner", "type": "address"},
                {"name": "spender", "type": "address"},
                {"name": "value", "type": "uint256"},
                {"name": "nonce", "type": "uint256"},
                {"name": "deadline", "type": "uint256"},
            ]
        }
        domain = {
            "name": read(self.node, contract, "name()", kind="string"),
            "version": "1",
            "chainId": int(self.node.ask("eth_chainId"), 16),
            "verifyingContract": contract,
        }
        message = {
            "owner": self.address,
            "spender": self.operator,
            "value": amount,
            "nonce": read(self.node, contract, "nonces(address)", self.address),
            "deadline": deadline,
        }
        signed = Account.sign_typed_data(self.key, domain, types, message)
        words = {"r": f"0x{signed.r:064x}", "s": f"0x{signed.s:064x}"}
        return {"value": str(amount), "deadline": str(deadline), "v": signed.v, **words}

    def send_collateral(self, to, amount):
        """Transfer wrapped collateral."""
        self.call(self.contracts.collateral, "transfer(address,uint256)", to, amount)

    def send_token(self, to, token, amount):
        """Transfer an outcome token."""
        signature = "safeTransferFrom(address,address,uint256,uint256,bytes)"
        contract = self.contracts.conditional_tokens
        self.call(contract, signature, self.address, to, token, amount, b"")


class Ledger:
    """Balances as the chain reports them.

    Args:
        node: an object with ``ask(method, *params)``.
        contracts: an object with ``stablecoin``, ``collateral`` and ``conditional_tokens``.
    """

    def __init__(self, node, contracts):
        self.node = node
        self.contracts = contracts

    def ether(self, address):
        """Return the ether balance, in wei."""
        return int(self.node.ask("eth_getBalance", address, "latest"), 16)

    def stable(self, address):
        """Return the stablecoin balance, in units of six decimals."""
        return read(self.node, self.contracts.stablecoin, "balanceOf(address)", address)

    def collateral(self, address):
        """Return the wrapped collateral balance, in wei."""
        return read(self.node, self.contracts.collateral, "balanceOf(address)", address)

    def token(self, address, token):
        """Return the balance of an outcome token, in wei."""
        signature = "balanceOf(address,uint256)"
        return read(self.node, self.contracts.conditional_tokens, signature, address, token)

    def wrapped_supply(self):
        """Return the supply of wrapped collateral."""
        return read(self.node, self.contracts.collateral, "totalSupply()")

    def token_holders(self):
        """Return token balances by token and holder, from the logs."""
        query = {
            "address": self.contracts.conditional_tokens,
            "fromBlock": "0x0",
            "toBlock": "latest",
        }
        held = Counter()
        for log in self.node.ask("eth_getLogs", query):
            for source, to, token, amount in transfers_of(log):
                held[token, source] -= amount
                held[token, to] += amount
        return held

    def supply(self, token):
        """Return the supply of an outcome token, from the logs."""
        held = self.token_holders()
        return -held[token, to_checksum_address(ZERO)]


SINGLE = f"0x{keccak(text='TransferSingle(address,address,address,uint256,uint256)').hex()}"
BATCH = f"0x{keccak(text='TransferBatch(address,address,address,uint256[],uint256[])').hex()}"


def transfers_of(log):
    """Return the transfers of an ERC-1155 log: from, to, token, amount; empty for other logs."""
    if log["topics"][0] not in (SINGLE, BATCH):
        return []
    source, to = (to_checksum_address(topic[-40:]) for topic in log["topics"][2:4])
    data = bytes.fromhex(log["data"][2:])
    if log["topics"][0] == SINGLE:
        tokens, amounts = ([value] for value in decode(["uint256", "uint256"], data))
    else:
        tokens, amounts = decode(["uint256[]", "uint256[]"], data)
    return [(source, to, *pair) for pair in zip(tokens, amounts, strict=True)]
