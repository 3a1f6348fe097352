"""Keccak-256 and checksummed addresses (EIP-55), in plain Python."""

from Crypto.Hash import keccak


def keccak256(data: bytes) -> bytes:
    """Return the 32-byte Keccak-256 hash: SHA-3 before NIST changed its padding.

    >>> keccak256(b"").hex()[:16]
    'c5d2460186f7233c'
    """
    return keccak.new(digest_bits=256).update(data).digest()


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
