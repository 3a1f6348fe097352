"""Keccak-256, compiled or of pycryptodome, and checksummed addresses (EIP-55)."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

EMPTY_HASH: Final = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
"""Keccak-256 of the empty string."""


def hash_of(data: bytes) -> bytes:
    """Return the 32-byte Keccak-256 hash: SHA-3 before NIST changed its padding.

    >>> hash_of(b"").hex() == EMPTY_HASH
    True
    """
    # Imported where it is used, since it takes as long as all other modules of signing.
    from Crypto.Hash import keccak  # noqa: PLC0415

    return keccak.new(digest_bits=256).update(data).digest()


keccak256 = hash_of
if not TYPE_CHECKING and os.environ.get("CLOB_PURE_PYTHON") != "1":
    with suppress(ImportError):  # clob.book warns about it
        from clob.signing._keccak_c import keccak256


def checksummed(raw: bytes) -> str:
    """Return the checksummed (EIP-55) text of an address of 20 bytes.

    >>> checksummed(bytes.fromhex("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"))
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
    """
    digits = raw.hex()
    marks = keccak256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if mark >= "8" else digit for digit, mark in zip(digits, marks, strict=False)
    )
