"""The ten accounts of development chains, addresses of created contracts, and RLP encoding.

The private keys are published in every Ethereum tutorial. Funds sent to these accounts on a real
network are lost.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from coincurve import PrivateKey

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob.signing.signed_struct import read_address

SHORT_STRING: Final = 0x80
"""Offset of the length of a short string."""
SHORT_LIST: Final = 0xC0
"""Offset of the length of a short list."""
SHORT_MAX: Final = 55
"""Maximum number of bytes of a short string or list."""
V_FIRST: Final = 27
"""v of a signature whose recovery id is 0."""


RlpValue: TypeAlias = "bytes | int | Sequence[RlpValue]"
"""A byte string, a number of 0 or more, or a list."""


def rlp(value: RlpValue) -> bytes:
    r"""Encode a value as RLP; a number becomes a string without leading zeros.

    Raises:
        OverflowError: a number is negative.

    >>> rlp(b"dog"), rlp(0), rlp(1024), rlp([b"cat", 15])
    (b'\x83dog', b'\x80', b'\x82\x04\x00', b'\xc5\x83cat\x0f')
    """
    if isinstance(value, int):
        value = value.to_bytes((value.bit_length() + 7) // 8)
    if isinstance(value, bytes):
        if len(value) == 1 and value[0] < SHORT_STRING:
            return value
        offset, data = SHORT_STRING, value
    else:
        offset, data = SHORT_LIST, b"".join(map(rlp, value))
    if len(data) <= SHORT_MAX:
        return bytes([offset + len(data)]) + data
    length = len(data).to_bytes((len(data).bit_length() + 7) // 8)
    return bytes([offset + SHORT_MAX + len(length)]) + length + data


RlpItem: TypeAlias = "bytes | list[RlpItem]"
"""Decoded RLP: a byte string or a list."""


def unrlp(data: bytes) -> RlpItem:
    r"""Decode RLP; lengths need not be the shortest ones.

    Raises:
        ValueError: the data is cut off, or has more than one value.
        RecursionError: lists are nested too deeply.

    >>> unrlp(rlp([b"cat", 15, []]))
    [b'cat', b'\x0f', []]
    """
    value, end = _unrlp(data, 0, len(data))
    if end != len(data):
        raise ValueError("the RLP has more than one value")
    return value


def _unrlp(data: bytes, start: int, limit: int) -> tuple[RlpItem, int]:
    """Decode the value at a place, and return the place after it."""
    if start >= limit:
        raise ValueError("the RLP is cut off")
    first = data[start]
    if first < SHORT_STRING:
        return data[start : start + 1], start + 1
    is_list = first >= SHORT_LIST
    length, start = first - (SHORT_LIST if is_list else SHORT_STRING), start + 1
    if length > SHORT_MAX:
        num_bytes = length - SHORT_MAX
        length, start = int.from_bytes(data[start : start + num_bytes]), start + num_bytes
    end = start + length
    if end > limit:
        raise ValueError("the RLP is cut off")
    if not is_list:
        return data[start:end], end
    items: list[RlpItem] = []
    while start < end:
        item, start = _unrlp(data, start, end)
        items.append(item)
    return items, end


MNEMONIC: Final = "test test test test test test test test test test test junk"
"""Mnemonic of the keys, derived along m/44'/60'/0'/0/index."""
ETHER_WEI: Final = 10**18
"""Wei per ether."""
GENESIS_WEI: Final = 10_000 * ETHER_WEI
"""Balance of each account in the genesis block, as on other development chains."""


class DevAccount(msgspec.Struct, frozen=True):
    """An account of development chains."""

    index: int
    """Index of the derivation path, from 0."""
    address: str
    """Address, EIP-55."""
    private_key: str
    """Private key, 0x and 64 hex digits; public knowledge."""
    role: str
    """Use in this project."""

    def sign(self, digest: bytes) -> str:
        """Sign 32 bytes and return the signature, 0x and 130 hex digits; about 40 us."""
        key = PrivateKey(bytes.fromhex(self.private_key[2:]))
        signed = key.sign_recoverable(digest, hasher=None)
        return f"0x{signed[:-1].hex()}{V_FIRST + signed[-1]:02x}"


def create_address(sender: str, nonce: int) -> str:
    """Return the address (EIP-55) of the contract that a transaction creates.

    Args:
        sender: sender of the transaction.
        nonce: nonce of the transaction, 0 or more.

    Raises:
        InvalidAddressError: the sender is not an address.
        ValueError: the nonce is negative.

    >>> create_address("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", 0)
    '0x5FbDB2315678afecb367f032d93F642f64180aa3'
    """
    if nonce < 0:
        raise ValueError(f"nonce must be 0 or more; got {nonce}")
    owner = bytes.fromhex(read_address("sender", sender)[2:])
    return checksummed(keccak256(rlp([owner, nonce]))[12:])


_ADDRESSES: Final = (
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
    "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc",
    "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
    "0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f",
    "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
)
_PRIVATE_KEYS: Final = (
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    "0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    "0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    "0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
)
_ROLES: Final = (
    "deployer of the exchange",
    *2 * ("bot of the demo",),
    *6 * ("free",),
    "operator",
)
ACCOUNTS: Final = tuple(map(DevAccount, range(10), _ADDRESSES, _PRIVATE_KEYS, _ROLES))
"""All ten accounts by index."""
DEPLOYER: Final = ACCOUNTS[0]
"""Owner of the exchange contract. Its nonce 0 is reserved for that contract's known address."""
BOTS: Final = ACCOUNTS[1:3]
"""Accounts of the two demo bots."""
WALLETS: Final = ACCOUNTS[3:9]
"""Six free accounts for users to try."""
OPERATOR: Final = ACCOUNTS[9]
"""Pays for gas, mints test dollars and is the oracle of conditions."""
