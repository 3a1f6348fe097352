"""Signs transactions of every type, with nonces that do not depend on a node."""

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
    """One of the ten accounts, by index, and its next nonce."""

    def __init__(self, index=3):
        self.address = ACCOUNTS[index].address
        self.key = ACCOUNTS[index].private_key
        self.nonce = 0

    def sign(self, to="", data=b"", value=0, gas=GAS, fees=DYNAMIC, **more):
        """Sign the next transaction; return its bytes as hex."""
        fields = {"to": to, "data": data, "value": value, "gas": gas, "nonce": self.nonce, **fees}
        fields = {"chainId": CHAIN_ID, **fields, **more}
        if fields["to"]:
            fields["to"] = to_checksum_address(fields["to"])
        else:
            del fields["to"]
        if "nonce" not in more:
            self.nonce += 1
        return f"0x{Account.sign_transaction(fields, self.key).raw_transaction.hex()}"


def creation_of(runtime):
    """Return initialisation code of a contract with this code."""
    # PUSH2 length, DUP1, PUSH1 11, PUSH0, CODECOPY, PUSH0, RETURN
    return bytes.fromhex(f"61{len(runtime):04x}80600a5f395ff3") + runtime
