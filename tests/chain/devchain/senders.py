"""Signed transactions of every type, with nonces counted here so that both nodes get the same."""

from eth_account import Account
from eth_utils import to_checksum_address

from clob_server.chain.eth.accounts import ACCOUNTS

CHAIN_ID = 31337
GAS = 1_000_000
FEE_WEI = 3 * 10**9
TIP_WEI = 10**9
LEGACY = {"gasPrice": FEE_WEI}
LISTED = {"type": 1, "gasPrice": FEE_WEI, "accessList": []}
DYNAMIC = {"type": 2, "maxFeePerGas": FEE_WEI, "maxPriorityFeePerGas": TIP_WEI}


class Sender:
    """One of the ten accounts, who counts nonces.

    Args:
        index: which one.
    """

    def __init__(self, index=3):
        self.address = ACCOUNTS[index].address
        self.key = ACCOUNTS[index].private_key
        self.nonce = 0

    def sign(self, to="", data=b"", value=0, gas=GAS, fees=DYNAMIC, **more):
        """Sign the next transaction; return it as JSON-RPC takes it."""
        made = {"to": to, "data": data, "value": value, "gas": gas, "nonce": self.nonce, **fees}
        made = {"chainId": CHAIN_ID, **made, **more}
        if made["to"]:
            made["to"] = to_checksum_address(made["to"])
        else:
            del made["to"]
        if "nonce" not in more:
            self.nonce += 1
        return f"0x{Account.sign_transaction(made, self.key).raw_transaction.hex()}"


def creation_of(runtime):
    """Return the code that creates a contract with this code."""
    # PUSH2 length, DUP1, PUSH1 11, PUSH0, CODECOPY, PUSH0, RETURN
    return bytes.fromhex(f"61{len(runtime):04x}80600a5f395ff3") + runtime
