"""The meaning of signature types, by profile (decision 13)."""

import enum
from typing import Final

from clob.signing._secp_py import CONTRACT_ONLY, EIP712, NEEDS_PROXY, PERSONAL


class Profile(enum.StrEnum):
    """The meaning of signature types."""

    SPEC = "spec"
    """0: EIP-712 of the order, or personal_sign of its hash. 1: EIP-712."""
    CTF = "ctf"
    """As in the contract of the CTF exchange, always EIP-712. 0: signed by the maker. 1 and 2: by
    the owner of the maker's proxy or safe. 3: verified by the maker's contract."""


RULES: Final[dict[str, bytes]] = {
    Profile.SPEC: bytes([EIP712 | PERSONAL, EIP712]),
    Profile.CTF: bytes([EIP712, EIP712 | NEEDS_PROXY, EIP712 | NEEDS_PROXY, CONTRACT_ONLY]),
}


def rules_of(profile: str) -> bytes:
    """Return the rules of a profile, one byte per signature type.

    Raises:
        ValueError: the profile is unknown.
    """
    # A member equals its text, and a lookup is faster than constructing the member.
    return RULES[profile] if profile in RULES else RULES[Profile(profile)]


def types_of(profile: str) -> str:
    """Return the signature types of a profile as text."""
    *others, last = map(str, range(len(rules_of(profile))))
    return f"{', '.join(others)} or {last}"
