"""Reads the fields of a signed struct from JSON, strictly: what is not exactly right is refused.

Numbers may be integers or decimal texts, as real clients send both; nothing goes through a float.
"""

import re
from collections.abc import Callable
from typing import Final

from clob.book.validation import show
from clob.errors import AmountTooLargeError, InvalidAmountError, InvalidSideError, RejectedError
from clob.order import Side
from clob.signing._keccak_py import checksummed, keccak256
from clob.signing.errors import InvalidAddressError, InvalidFieldError
from clob.units import UINT256_MAX

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps; above it, texts."""

SALT_TEXT_MAX: Final = 256
"""The longest salt that is a text, in characters."""

DECIMAL = re.compile(r"[0-9]{1,78}")
CANONICAL = re.compile(r"[1-9][0-9]{0,77}")
HEX = re.compile(r"0x[0-9a-fA-F]{1,64}")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
HEX_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
WORD = re.compile(r"0x[0-9a-fA-F]{64}")
SIDES: Final = {"BUY": Side.BUY, "SELL": Side.SELL}


def at(path: str, error: RejectedError) -> RejectedError:
    """Say which field an error is about."""
    error.path = path
    return error


def integer(value: object) -> int | None:
    """Take an integer or a decimal text; None if it is neither, or below 0."""
    if type(value) is int:
        return value if value >= 0 else None
    return int(value) if type(value) is str and DECIMAL.fullmatch(value) else None


def uint(path: str, value: object, largest: int = UINT256_MAX) -> int:
    """Read an unsigned integer.

    Raises:
        InvalidFieldError: it is neither an integer nor 1 to 78 ASCII digits, or out of range.
    """
    number = integer(value)
    if number is None or number > largest:
        limit = "2**256 - 1" if largest == UINT256_MAX else largest
        raise at(path, InvalidFieldError(
            f"{path} must be an integer from 0 to {limit}, "
            f"as a number or as decimal digits, not {show(value)}"
        ))  # fmt: skip
    return number


def uint8(path: str, value: object) -> int:
    """Read an unsigned integer below 256.

    Raises:
        InvalidFieldError: as for ``uint``.
    """
    return uint(path, value, 255)


def amount(path: str, value: object) -> int:
    """Read an amount in wei. That 0 is none is for the one who asks what price it means.

    Raises:
        InvalidAmountError: it is neither an integer nor 1 to 78 ASCII digits, or below 0.
        AmountTooLargeError: it is 2**256 or more.
    """
    number = integer(value)
    if number is None:
        raise at(path, InvalidAmountError(
            f"{path} must be an integer in wei, "
            f"as a number or as decimal digits, not {show(value)}"
        ))  # fmt: skip
    if number > UINT256_MAX:
        raise at(
            path, AmountTooLargeError(f"{path} must be at most 2**256 - 1, not {show(number)}")
        )
    return number


def address(path: str, value: object) -> str:
    """Read an address, and write it with the capital letters of EIP-55.

    Raises:
        InvalidAddressError: it is not 0x and 40 hex digits, or has letters of both cases that are
            not those of EIP-55.
    """
    if type(value) is not str or not ADDRESS.fullmatch(value):
        raise at(path, InvalidAddressError(
            f"{path} must be 0x and 40 hex digits, not {show(value)}"
        ))  # fmt: skip
    digits = value[2:]
    right = checksummed(bytes.fromhex(digits))
    if value != right and digits not in (digits.lower(), digits.upper()):
        raise at(path, InvalidAddressError(
            f"{path} has capital letters that are not those of EIP-55: {value}; is it {right}?"
        ))  # fmt: skip
    return right


def side(path: str, value: object) -> int:
    """Read a side: 0 or ``BUY``, 1 or ``SELL``.

    Another number below 256 has a hash, too. That it is no side is for the one who asks what the
    order means.

    Raises:
        InvalidSideError: it is nothing of this.
    """
    if type(value) is str and value in SIDES:
        return SIDES[value]
    number = integer(value)
    if number is None or number > 255:
        raise at(
            path, InvalidSideError(f'{path} must be 0 or "BUY", 1 or "SELL", not {show(value)}')
        )
    return Side(number) if number in (0, 1) else number


def salt(path: str, value: object) -> int | str:
    """Read a salt and keep it as it came; :func:`salt_number` says which number it stands for.

    Decimal digits of more than ``SAFE_INTEGER_MAX`` are the number, which is written as such digits
    again. A smaller number stays what it was, a number or a text.

    Raises:
        InvalidFieldError: it is an integer out of range, no text, too long a text, or one that has
            no UTF-8.
    """
    if type(value) is not str:
        return uint(path, value)
    if len(value) > SALT_TEXT_MAX or not encodable(value):
        raise at(path, InvalidFieldError(
            f"{path} must be a number or a text of at most {SALT_TEXT_MAX} characters, "
            f"not {show(value)}"
        ))  # fmt: skip
    number = int(value) if CANONICAL.fullmatch(value) else 0
    return number if SAFE_INTEGER_MAX < number <= UINT256_MAX else value


def encodable(text: str) -> bool:
    """Say whether a text has UTF-8; half a surrogate pair has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def salt_number(given: int | str) -> int:
    """Give the number that a salt stands for in the signed struct (decision 11).

    A decimal or 0x-hex text within 256 bits is that number; any other text is the Keccak-256 of its
    UTF-8.

    Args:
        given: the salt as it came.

    >>> salt_number("479249096354"), salt_number("0xff"), salt_number("1700-x") > 2**240
    (479249096354, 255, True)
    """
    if isinstance(given, int):
        return given
    if DECIMAL.fullmatch(given) and int(given) <= UINT256_MAX:
        return int(given)
    if HEX.fullmatch(given):
        return int(given, 16)
    return int.from_bytes(keccak256(given.encode()))


def text(path: str, value: object) -> str:
    """Read a text.

    Raises:
        InvalidFieldError: it is none, or has no UTF-8.
    """
    if type(value) is not str or not encodable(value):
        raise at(path, InvalidFieldError(f"{path} must be a text, not {show(value)}"))
    return value


def flag(path: str, value: object) -> bool:
    """Read a boolean.

    Raises:
        InvalidFieldError: it is neither true nor false.
    """
    if type(value) is not bool:
        raise at(path, InvalidFieldError(f"{path} must be true or false, not {show(value)}"))
    return value


def word(path: str, value: object) -> bytes:
    """Read 32 bytes in hex.

    Raises:
        InvalidFieldError: it is not 0x and 64 hex digits.
    """
    if type(value) is not str or not WORD.fullmatch(value):
        raise at(path, InvalidFieldError(
            f"{path} must be 0x and 64 hex digits, not {show(value)}"
        ))  # fmt: skip
    return bytes.fromhex(value[2:])


Reader = Callable[[str, object], object]
"""Takes the path of a field and what came, and gives the value; it raises where it cannot."""
