"""What the number of a signature type means, by profile."""

import enum
from typing import Final

from clob.signing._secp_py import ASK, CONTRACT, EIP712, PERSONAL


class Profile(enum.StrEnum):
    """What a signature type means (decision 13)."""

    SPEC = "spec"
    """0: EIP-712 of the order, or personal_sign of its hash. 1: EIP-712."""
    CTF = "ctf"
    """As the CTF exchange's contract: all are EIP-712. 0: the maker himself. 1 and 2: the owner of
    the maker's proxy or safe. 3: the maker's contract alone."""


RULES: Final[dict[str, bytes]] = {
    Profile.SPEC: bytes([EIP712 | PERSONAL, EIP712]),
    Profile.CTF: bytes([EIP712, EIP712 | ASK, EIP712 | ASK, CONTRACT]),
}


def rules_of(profile: str) -> bytes:
    """Give the rules of a profile: for each signature type what may be signed.

    Raises:
        ValueError: there is no such profile.
    """
    # A member is the text that it stands for, and making it one takes longer than looking it up.
    return RULES[profile] if profile in RULES else RULES[Profile(profile)]


def types_of(profile: str) -> str:
    """Name the signature types that a profile knows."""
    *others, last = map(str, range(len(rules_of(profile))))
    return f"{', '.join(others)} or {last}"
