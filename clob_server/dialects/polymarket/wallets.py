"""Contracts that Polymarket's clients sign for: exchanges, and the wallets of an account."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob_server.settings import NO_CHAIN, Settings, SettingsError

NAME: Final = "Polymarket CTF Exchange"
"""Name in the EIP-712 domain of its exchange."""
VERSION: Final = "1"
"""Version in the EIP-712 domain."""
EXCHANGES: Final = {
    137: "0x4bFb41d5B3570DeFd03C39a9A4D8dE6Bd8B8982E",
    80002: "0xdFE02Eb6733538f8Ea35D585af8DE5958AD99E40",
}
"""The exchange contracts that the clients sign for, by chain id: Polygon and Amoy."""
CHAIN_ID: Final = 137
"""The chain id unless the settings name one."""
ACCOUNTS_KEPT: Final = 4_096
"""Accounts whose wallets are cached."""


class WalletFactory:
    """A contract that creates one wallet for each account, with CREATE2.

    Args:
        address: the contract.
        code_hash: hash of the code that creates a wallet, 32 bytes in hex.
        owner_bytes: length of the account in the salt.
    """

    def __init__(self, address: str, code_hash: str, owner_bytes: int) -> None:
        self._start: Final = b"\xff" + bytes.fromhex(address)
        self._code_hash: Final = bytes.fromhex(code_hash)
        self._owner_bytes: Final = owner_bytes

    def wallet(self, owner: str) -> str:
        """Return the wallet of an account, EIP-55."""
        salt = keccak256(bytes.fromhex(owner[2:]).rjust(self._owner_bytes, b"\0"))
        return checksummed(keccak256(self._start + salt + self._code_hash)[12:])


PROXIES: Final = WalletFactory(
    "aB45c5A4B0c941a2F231C04C3f49182e1A254052",
    "d21df8dc65880a8606f09fe0ce3df9b8869287ab0b058be05aa9e8af6330a00b",
    20,
)
"""Creates the wallets of accounts with an email address: signature type 1."""
SAFES: Final = WalletFactory(
    "aacFeEa03eb1561C4e67d661e40682Bd20E3541b",
    "2bce2127ff07fb632d16c8347c4ebf501f4841168bed00d9e6ef715ddb6fcecf",
    32,
)
"""Creates the wallets of accounts with a wallet in the browser: signature type 2."""


@lru_cache(ACCOUNTS_KEPT)
def wallets_of(owner: str) -> tuple[str, str, str]:
    """Return the makers that an account may sign for, by signature type: itself, proxy, safe."""
    return owner, PROXIES.wallet(owner), SAFES.wallet(owner)


def owns(maker: str, owner: str, signature_type: int) -> bool:
    """Return whether a maker is the wallet of an account for a signature type, 1 or 2."""
    return wallets_of(owner)[signature_type] == maker


# ----- settings ------------------------------------------------------------------------------


def defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the dialect needs, with those that were set."""
    chain_id = values.get("chain_id", CHAIN_ID)
    return {
        "chain": NO_CHAIN,
        "eip712_name": NAME,
        "eip712_version": VERSION,
        "chain_id": chain_id,
        "verifying_contract": EXCHANGES.get(chain_id, ""),
        **values,
    }


def check_dialect(settings: Settings) -> None:
    """Reject settings with which the clients cannot work.

    Raises:
        SettingsError: a chain is set, or another EIP-712 domain than theirs.
    """
    option = f"--dialect {settings.dialect}"
    if settings.chain_source != NO_CHAIN:
        raise SettingsError(
            f"{option} needs --chain {NO_CHAIN}, since its orders are signed for a contract of "
            f"another exchange and cannot settle here; got {settings.chain!r}"
        )
    if settings.chain_id not in EXCHANGES:
        raise SettingsError(
            f"{option} needs --chain-id {' or '.join(map(str, EXCHANGES))}, for which its clients "
            f"sign; got {settings.chain_id}"
        )
    expected = (NAME, VERSION, EXCHANGES[settings.chain_id])
    contract = settings.verifying_contract
    given = (settings.eip712_name, settings.eip712_version, contract)
    if (*given[:2], contract.lower()) != (*expected[:2], expected[2].lower()):
        raise SettingsError(
            f"{option} needs the EIP-712 domain that its clients sign for: "
            f"{', '.join(expected)}; got {', '.join(given)}"
        )
