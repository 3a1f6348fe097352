"""RLP, how Ethereum writes down what it hashes and sends: strings of bytes, and lists of them."""

from collections.abc import Iterable
from typing import Final

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
