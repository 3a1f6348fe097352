"""The ten accounts that every development chain knows, and the addresses of what they deploy.

Their keys are in every Ethereum tutorial. Whoever sends something of value to them on a real
network gives it away.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob.signing.signed_struct import read_address

SHORT_STRING: Final = 0x80
"""What is added to the length of a short string."""
SHORT_LIST: Final = 0xC0
"""What is added to the length of a short list."""
SHORT_MAX: Final = 55
"""How many bytes are short."""


def string(data: bytes) -> bytes:
    r"""Write a string.

    >>> string(b"dog"), string(b"\x7f"), string(b"")
    (b'\x83dog', b'\x7f', b'\x80')
    """
    if len(data) == 1 and data[0] < SHORT_STRING:
        return data
    return _head(SHORT_STRING, len(data)) + data


def integer(value: int) -> bytes:
    r"""Write an integer, as a string without leading zeros.

    Raises:
        OverflowError: it is below 0.

    >>> integer(0), integer(15), integer(1024)
    (b'\x80', b'\x0f', b'\x82\x04\x00')
    """
    return string(value.to_bytes((value.bit_length() + 7) // 8))


def listed(items: Iterable[bytes]) -> bytes:
    r"""Write a list of what is written already.

    >>> listed([string(b"cat"), string(b"dog")])
    b'\xc8\x83cat\x83dog'
    """
    data = b"".join(items)
    return _head(SHORT_LIST, len(data)) + data


def _head(offset: int, length: int) -> bytes:
    """Say how long what follows is."""
    if length <= SHORT_MAX:
        return bytes([offset + length])
    digits = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([offset + SHORT_MAX + len(digits)]) + digits


MNEMONIC: Final = "test test test test test test test test test test test junk"
"""The words that the keys are derived from, along m/44'/60'/0'/0/index."""
ETHER_WEI: Final = 10**18
"""How many wei one ether is."""
GENESIS_WEI: Final = 10_000 * ETHER_WEI
"""What each of them owns when a development chain begins, as on other development chains."""


class DevAccount(msgspec.Struct, frozen=True):
    """One of them."""

    index: int
    """Its place in the derivation, from 0."""
    address: str
    """Its address, as EIP-55 writes it."""
    private_key: str
    """Its private key, 0x and 64 hex digits. Public knowledge."""
    role: str
    """What this project uses it for."""


def create_address(sender: str, nonce: int) -> str:
    """Say where the contract comes to lie that a sender's transaction creates.

    Args:
        sender: the address that sends it.
        nonce: the nonce of that transaction, 0 or more.

    Returns:
        The address, as EIP-55 writes it.

    Raises:
        InvalidAddressError: the sender is no address.
        ValueError: the nonce is below 0.

    >>> create_address("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", 0)
    '0x5FbDB2315678afecb367f032d93F642f64180aa3'
    """
    if nonce < 0:
        raise ValueError(f"a nonce is 0 or more, not {nonce}")
    owner = bytes.fromhex(read_address("sender", sender)[2:])
    written = listed([string(owner), integer(nonce)])
    return checksummed(keccak256(written)[12:])


ACCOUNTS: Final[tuple[DevAccount, ...]] = (
    DevAccount(
        0,
        "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
        "deployer of the exchange",
    ),
    DevAccount(
        1,
        "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
        "bot of the demo",
    ),
    DevAccount(
        2,
        "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
        "bot of the demo",
    ),
    DevAccount(
        3,
        "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
        "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
        "free",
    ),
    DevAccount(
        4,
        "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
        "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
        "free",
    ),
    DevAccount(
        5,
        "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc",
        "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
        "free",
    ),
    DevAccount(
        6,
        "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
        "0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
        "free",
    ),
    DevAccount(
        7,
        "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
        "0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
        "free",
    ),
    DevAccount(
        8,
        "0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f",
        "0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
        "free",
    ),
    DevAccount(
        9,
        "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
        "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
        "operator",
    ),
)
"""All ten, by index."""
DEPLOYER: Final = ACCOUNTS[0]
"""Owns the exchange contract. Its nonce 0 is left for that contract, whose address is known so."""
BOTS: Final = ACCOUNTS[1:3]
"""The two that trade in the demo."""
WALLETS: Final = ACCOUNTS[3:9]
"""Six that nobody uses, to try things with."""
OPERATOR: Final = ACCOUNTS[9]
"""Pays the gas, mints, and answers for the conditions."""

# MERGED clob_server.chain.eth.accounts: RLP, how Ethereum writes down what it hashes and sends: strings of bytes, and lists of them.
