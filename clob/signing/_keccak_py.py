"""Keccak-256, as Ethereum has it, and the addresses that are made of it; in plain Python."""

from Crypto.Hash import keccak


def keccak256(data: bytes) -> bytes:
    """Hash bytes with Keccak-256, the hash before NIST changed its padding.

    Args:
        data: any number of bytes.

    Returns:
        32 bytes.

    >>> keccak256(b"").hex()[:16]
    'c5d2460186f7233c'
    """
    return keccak.new(digest_bits=256).update(data).digest()


def checksummed(raw: bytes) -> str:
    """Write an address with the capital letters of EIP-55.

    Args:
        raw: the 20 bytes of it.

    >>> checksummed(bytes.fromhex("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"))
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
    """
    digits = raw.hex()
    marks = keccak256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if mark >= "8" else digit for digit, mark in zip(digits, marks, strict=False)
    )
