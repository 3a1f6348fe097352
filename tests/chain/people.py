"""People on a chain: they sign for themselves, and see balances, by JSON-RPC and nothing of ours.

The calls are written down here once more, so that what the server takes for a balance or an
approval is compared with something else than itself.
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
"""A token, and a unit of wrapped collateral."""
CREATE, CREATED = b"\x60", bytes.fromhex("8060093d393df3")
"""What makes a contract of the code behind it; the length of that stands between."""
REVERTS = bytes.fromhex("60006000fd")
"""The code of a wallet that refuses whatever it is called for."""
BURNS = bytes.fromhex("5b600056")
"""The code of a wallet that takes all the gas it is given."""
STABLE_UNIT = 10**6
"""A unit of the stablecoin."""
ZERO = bytes(20)
MAX = 2**256 - 1


def types_of(signature):
    """Give the types of the arguments in a signature such as ``mint(address,uint256)``."""
    inside = signature.partition("(")[2].removesuffix(")")
    return inside.split(",") if inside else []


def calldata(signature, *arguments):
    """Write down a call of a contract."""
    return keccak(text=signature)[:4] + encode(types_of(signature), arguments)


def read(node, to, signature, *arguments, kind="uint256"):
    """Ask a contract, and give the one value that it answers."""
    call = {"to": to, "data": f"0x{calldata(signature, *arguments).hex()}"}
    [value] = decode([kind], bytes.fromhex(node.ask("eth_call", call, "latest")[2:]))
    return value


def receipt_of(node, hashed):
    """Wait until a transaction is in a block, and give its receipt; anvil takes a moment."""
    return told(node, "eth_getTransactionReceipt", hashed, lambda receipt: receipt is not None)


def mined_of(node, hashed):
    """Wait until a node gives a transaction as one of a block.

    The receipt may be there before: anvil looks among what waits first, and takes it out last, and
    what waits has the price of the block after.
    """
    return told(node, "eth_getTransactionByHash", hashed, lambda sent: sent["blockHash"])


def told(node, method, hashed, enough):
    """Ask about a transaction until the answer is enough."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = node.ask(method, hashed)
        if enough(answer):
            return answer
        time.sleep(0.002)
    raise TimeoutError(hashed)


class Person:
    """Somebody with a key.

    Args:
        node: what has ``ask(method, *params)``.
        key: 0x and 64 hexadecimal digits.
    """

    def __init__(self, node, key):
        self.node = node
        self.key = key
        self.address = Account.from_key(key).address

    def sign(self, to, data=b"", value=0, *, nonce=None, gas=GAS, **more):
        """Sign a transaction, and give its bytes as JSON-RPC has them."""
        if nonce is None:
            nonce = int(self.node.ask("eth_getTransactionCount", self.address, "pending"), 16)
        block = self.node.ask("eth_getBlockByNumber", "latest", False)
        made = {
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
        return f"0x{Account.sign_transaction(made, self.key).raw_transaction.hex()}"

    def send(self, to, data=b"", value=0, *, gas=GAS, fails=False):
        """Send a transaction, and give its receipt; the nodes of the tests mine by themselves.

        Args:
            to: an address; an empty text makes a contract.
            data: what it carries.
            value: the wei that go with it.
            gas: how much it may take.
            fails: if it is to be in a block and to have failed.
        """
        hashed = self.node.ask("eth_sendRawTransaction", self.sign(to, data, value, gas=gas))
        receipt = receipt_of(self.node, hashed)
        assert receipt["status"] == ("0x0" if fails else "0x1")
        return receipt

    def becomes(self, code):
        """Have a contract answer for this wallet, as EIP-7702 allows; what it does is its code."""
        place = self.send("", CREATE + bytes([len(code)]) + CREATED + code)["contractAddress"]
        chain_id = int(self.node.ask("eth_chainId"), 16)
        nonce = int(self.node.ask("eth_getTransactionCount", self.address, "pending"), 16)
        given = {"chainId": chain_id, "address": place, "nonce": nonce + 1}
        signed = Account.sign_authorization(given, self.key)
        raw = self.sign(self.address, nonce=nonce, authorizationList=[signed])
        assert receipt_of(self.node, self.node.ask("eth_sendRawTransaction", raw))["status"]
        assert self.node.ask("eth_getCode", self.address, "latest").startswith("0xef0100")

    def call(self, to, signature, *arguments, fails=False):
        """Call a contract by a transaction, and give its receipt."""
        return self.send(to, calldata(signature, *arguments), fails=fails)


class User(Person):
    """Somebody with a key who knows the contracts and the operator.

    Args:
        node: what has ``ask(method, *params)``.
        key: 0x and 64 hexadecimal digits.
        contracts: what has ``stablecoin``, ``collateral`` and ``conditional_tokens``.
        operator: the address of the operator.
    """

    def __init__(self, node, key, contracts, operator):
        super().__init__(node, key)
        self.contracts = contracts
        self.operator = operator

    def approve_tokens(self, allowed=True):
        """Let the operator move outcome tokens, or no more."""
        signature = "setApprovalForAll(address,bool)"
        self.call(self.contracts.conditional_tokens, signature, self.operator, allowed)

    def approve_collateral(self, amount=MAX):
        """Let the operator take so much wrapped collateral."""
        signature = "approve(address,uint256)"
        self.call(self.contracts.collateral, signature, self.operator, amount)

    def permit(self, amount, deadline=MAX):
        """Sign an approval of collateral for the operator (EIP-2612): value, deadline, v, r, s."""
        place = self.contracts.collateral
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
            "name": read(self.node, place, "name()", kind="string"),
            "version": "1",
            "chainId": int(self.node.ask("eth_chainId"), 16),
            "verifyingContract": place,
        }
        message = {
            "owner": self.address,
            "spender": self.operator,
            "value": amount,
            "nonce": read(self.node, place, "nonces(address)", self.address),
            "deadline": deadline,
        }
        made = Account.sign_typed_data(self.key, domain, types, message)
        words = {"r": f"0x{made.r:064x}", "s": f"0x{made.s:064x}"}
        return {"value": str(amount), "deadline": str(deadline), "v": made.v, **words}

    def give_collateral(self, to, amount):
        """Hand wrapped collateral to somebody."""
        self.call(self.contracts.collateral, "transfer(address,uint256)", to, amount)

    def give_token(self, to, token, amount):
        """Hand an outcome token to somebody."""
        signature = "safeTransferFrom(address,address,uint256,uint256,bytes)"
        place = self.contracts.conditional_tokens
        self.call(place, signature, self.address, to, token, amount, b"")


class Ledger:
    """What belongs to whom, as the chain has it.

    Args:
        node: what has ``ask(method, *params)``.
        contracts: what has ``stablecoin``, ``collateral`` and ``conditional_tokens``.
    """

    def __init__(self, node, contracts):
        self.node = node
        self.contracts = contracts

    def ether(self, address):
        """The wei that pay for gas."""
        return int(self.node.ask("eth_getBalance", address, "latest"), 16)

    def stable(self, address):
        """The stablecoin, in its own units of six decimals."""
        return read(self.node, self.contracts.stablecoin, "balanceOf(address)", address)

    def collateral(self, address):
        """The wrapped collateral, in wei."""
        return read(self.node, self.contracts.collateral, "balanceOf(address)", address)

    def token(self, address, token):
        """An outcome token, in wei."""
        signature = "balanceOf(address,uint256)"
        return read(self.node, self.contracts.conditional_tokens, signature, address, token)

    def wrapped_supply(self):
        """All wrapped collateral there is."""
        return read(self.node, self.contracts.collateral, "totalSupply()")

    def token_holders(self):
        """Add up the logs of the conditional tokens: the amount by token and holder."""
        asked = {
            "address": self.contracts.conditional_tokens,
            "fromBlock": "0x0",
            "toBlock": "latest",
        }
        held = Counter()
        for log in self.node.ask("eth_getLogs", asked):
            for source, to, token, amount in moved(log):
                held[token, source] -= amount
                held[token, to] += amount
        return held

    def supply(self, token):
        """All there is of an outcome token, by the logs."""
        held = self.token_holders()
        return -held[token, to_checksum_address(ZERO)]


SINGLE = f"0x{keccak(text='TransferSingle(address,address,address,uint256,uint256)').hex()}"
BATCH = f"0x{keccak(text='TransferBatch(address,address,address,uint256[],uint256[])').hex()}"


def moved(log):
    """Give what a log of ERC-1155 moved: from, to, token, amount; nothing for another log."""
    if log["topics"][0] not in (SINGLE, BATCH):
        return []
    source, to = (to_checksum_address(topic[-40:]) for topic in log["topics"][2:4])
    data = bytes.fromhex(log["data"][2:])
    if log["topics"][0] == SINGLE:
        tokens, amounts = ([value] for value in decode(["uint256", "uint256"], data))
    else:
        tokens, amounts = decode(["uint256[]", "uint256[]"], data)
    return [(source, to, *pair) for pair in zip(tokens, amounts, strict=True)]
