"""anvil as an EVM of the contract tests: blocks of transactions without signatures.

It executes a call about twenty times as fast as py-evm.
"""

import itertools

import httpx

from clob_server.chain.eth.abi import revert_reason
from tests.chain.contracts.evm import GAS, NOW_S, Evm, Outcome, Sent
from tests.chain.nodes import START_S, NodeError, start_anvil

BLOCK_GAS = 10**15
SETUP_S = 1_000
"""Each block is at least a second later than the one before; the setup has fewer."""


def start_unsigned_anvil():
    """Start an anvil that accepts transactions without signatures and fees, and mines on demand."""
    return start_anvil(
        "--no-mining", "--auto-impersonate", "--prune-history", "--order", "fees",
        "--base-fee", "0", "--gas-price", "0", "--gas-limit", str(BLOCK_GAS),
        "--timestamp", str(NOW_S - SETUP_S), "--transaction-block-keeper", "16",
    )  # fmt: skip


class AnvilEvm(Evm):
    """The state of an anvil.

    Args:
        node: a node of :func:`start_unsigned_anvil`.
    """

    def __init__(self, node):
        self._url = node.url
        self._http = httpx.Client(timeout=START_S)
        self._numbers = itertools.count(1)
        self._next_s = NOW_S - SETUP_S + 1
        self._nonces = {}

    def close(self):
        """Close the connection."""
        self._http.close()

    def send(self, sender, to, data=b"", value=0, *, gas=GAS):
        """Send a transaction in a block of its own; an empty address deploys."""
        assert value == 0
        [outcome] = self.run([Sent(sender, to, data, gas)])
        return outcome

    def run(self, sent):
        """Execute transactions in order in one block and return their outcomes."""
        if not sent:
            return []
        # anvil sorts a block by the offered price.
        prices = range(len(sent), 0, -1)
        transactions = [self._json(each, price) for each, price in zip(sent, prices, strict=True)]
        hashes = self._ask_all("eth_sendTransaction", [[each] for each in transactions])
        self._ask("evm_mine", self._next_s)
        self._next_s += 1
        receipts = self._ask("eth_getBlockReceipts", "latest")
        assert [receipt["transactionHash"] for receipt in receipts] == hashes
        return [outcome_of(receipt) for receipt in receipts]

    def _json(self, sent, price):
        """Return a transaction in JSON-RPC form."""
        nonce = self.nonce_of(sent.sender)
        self._nonces[sent.sender] = nonce + 1
        return {
            "from": sent.sender,
            "data": f"0x{sent.data.hex()}",
            "gas": hex(sent.gas),
            "gasPrice": hex(price),
            "nonce": hex(nonce),
            **({"to": sent.to} if sent.to else {}),
        }

    def snapshot(self):
        """Take a snapshot of the state; it can be restored once."""
        return self._ask("evm_snapshot"), self._next_s, self._nonces.copy()

    def revert(self, snapshot):
        """Restore a snapshot."""
        number, self._next_s, self._nonces = snapshot
        assert self._ask("evm_revert", number)

    def set_time(self, now_s):
        """Set the time of the next block in seconds."""
        self._next_s = now_s

    def ask_all(self, questions):
        """Call view functions in one request; return their values."""
        calls = [[{"to": to, "data": hexed(function.encode(*args))}, "latest"]
                 for to, function, *args in questions]  # fmt: skip
        answers = self._ask_all("eth_call", calls)
        return [
            function.decode(bytes.fromhex(answer[2:]))[0]
            for answer, (_, function, *_) in zip(answers, questions, strict=True)
        ]

    def call(self, sender, to, data):
        """Execute a call without changes."""
        try:
            answer = self._ask("eth_call", {"from": sender, "to": to, "data": hexed(data)})
        except NodeError as error:
            data = error.args[0].get("data", "0x")
            return Outcome(b"", revert_reason(bytes.fromhex(data[2:])), [])
        return Outcome(bytes.fromhex(answer[2:]), "", [])

    def nonce_of(self, address):
        """Return the number of transactions that an account sent."""
        if address not in self._nonces:
            self._nonces[address] = int(self._ask("eth_getTransactionCount", address, "latest"), 16)
        return self._nonces[address]

    def code(self, address):
        """Return the code at an address."""
        return bytes.fromhex(self._ask("eth_getCode", address, "latest")[2:])

    def set_code(self, address, code):
        """Set the code at an address."""
        self._ask("anvil_setCode", address, hexed(code))

    def _ask(self, method, *params):
        return self._ask_all(method, [params])[0]

    def _ask_all(self, method, all_params):
        """Send a batch of requests of one method and return their results."""
        numbered = {next(self._numbers): params for params in all_params}
        batch = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}
            for number, params in numbered.items()
        ]
        answers = {each["id"]: each for each in self._http.post(self._url, json=batch).json()}
        for answer in answers.values():
            if "error" in answer:
                raise NodeError(answer["error"])
        return [answers[number]["result"] for number in numbered]


def hexed(data):
    """Return bytes as 0x and hex digits."""
    return f"0x{data.hex()}"


def outcome_of(receipt):
    """Return the outcome of a transaction; anvil does not report the reason of a revert."""
    return Outcome(b"", "" if receipt["status"] == "0x1" else "reverted", receipt["logs"])
