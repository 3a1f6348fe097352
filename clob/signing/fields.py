"""Strict readers for the JSON fields of signed structs.

Numbers may be integers or decimal strings, since clients send both; floats are rejected.
"""

import json
import re
from collections.abc import Callable
from typing import Final

from clob.book.validation import show
from clob.errors import AmountTooLargeError, InvalidAmountError, InvalidSideError, RejectedError
from clob.order import Side
from clob.signing.errors import InvalidAddressError, InvalidFieldError
from clob.signing.keccak import checksummed, keccak256
from clob.units import UINT256_MAX

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly; larger ones are strings."""

SALT_TEXT_MAX: Final = 256
"""Maximum length of a salt that is a string."""

DECIMAL = re.compile(r"[0-9]{1,78}")
CANONICAL = re.compile(r"[1-9][0-9]{0,77}")
HEX = re.compile(r"0x[0-9a-fA-F]{1,64}")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
HEX_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
WORD = re.compile(r"0x[0-9a-fA-F]{64}")
SIDES: Final = {"BUY": Side.BUY, "SELL": Side.SELL}


def at(path: str, error: RejectedError) -> RejectedError:
    """Set the field that an error is about, and return the error."""
    error.path = path
    return error


def received(value: object) -> str:
    """Return a rejected value for a message as JSON, shortened to 120 characters."""
    if isinstance(value, int) and value.bit_length() > 300:
        return show(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
        if not text.isprintable():
            text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # not from JSON, or nested too deeply
        return show(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def integer(value: object) -> int | None:
    """Return an integer or decimal string as int; None for other values or below 0."""
    if type(value) is int:
        return value if value >= 0 else None
    return int(value) if type(value) is str and DECIMAL.fullmatch(value) else None


def uint(path: str, value: object, largest: int = UINT256_MAX) -> int:
    """Read an unsigned integer.

    Raises:
        InvalidFieldError: the value is not an integer or 1 to 78 ASCII digits, or out of range.
    """
    number = integer(value)
    if number is None or number > largest:
        limit = "2**256 - 1" if largest == UINT256_MAX else largest
        raise at(path, InvalidFieldError(
            f"{path} must be an integer from 0 to {limit}, as number or decimal string; "
            f"got {received(value)}"
        ))  # fmt: skip
    return number


def uint8(path: str, value: object) -> int:
    """Read an unsigned integer below 256.

    Raises:
        InvalidFieldError: as for ``uint``.
    """
    return uint(path, value, 255)


def amount(path: str, value: object) -> int:
    """Read an amount in wei. 0 passes here; ``price_and_size`` rejects it.

    Raises:
        InvalidAmountError: the value is not an integer or 1 to 78 ASCII digits, or below 0.
        AmountTooLargeError: the value is 2**256 or more.
    """
    number = integer(value)
    if number is None:
        raise at(path, InvalidAmountError(
            f"{path} must be an integer in wei, as number or decimal string; got {received(value)}"
        ))  # fmt: skip
    if number > UINT256_MAX:
        raise at(
            path, AmountTooLargeError(f"{path} must be at most 2**256 - 1; got {show(number)}")
        )
    return number


def address(path: str, value: object) -> str:
    """Read an address and return it checksummed (EIP-55).

    Raises:
        InvalidAddressError: the value is not 0x and 40 hex digits, or is in mixed case with a wrong
            checksum.
    """
    if type(value) is not str or not ADDRESS.fullmatch(value):
        raise at(path, InvalidAddressError(
            f"{path} must be 0x and 40 hex digits; got {received(value)}"
        ))  # fmt: skip
    digits = value[2:]
    right = checksummed(bytes.fromhex(digits))
    if value != right and digits not in (digits.lower(), digits.upper()):
        raise at(path, InvalidAddressError(
            f"{path} must have a valid EIP-55 checksum ({right}); got {value}"
        ))  # fmt: skip
    return right


def side(path: str, value: object) -> int:
    """Read a side: 0 or ``BUY``, 1 or ``SELL``.

    Other numbers below 256 pass, since they can be hashed; ``price_and_size`` rejects them.

    Raises:
        InvalidSideError: any other value.
    """
    if type(value) is str and value in SIDES:
        return SIDES[value]
    number = integer(value)
    if number is None or number > 255:
        raise at(
            path, InvalidSideError(f'{path} must be 0 or "BUY", 1 or "SELL"; got {received(value)}')
        )
    return Side(number) if number in (0, 1) else number


def sides(path: str, value: object) -> int:
    """Read one side or both: 0 or ``BUY``, 1 or ``SELL``, 2 or ``BOTH``.

    Raises:
        InvalidSideError: any other value.
    """
    number = 2 if value == "BOTH" else SIDES.get(value) if type(value) is str else None
    if number is None:
        number = integer(value)
    if number not in (0, 1, 2):
        raise at(path, InvalidSideError(
            f'{path} must be 0 or "BUY", 1 or "SELL", 2 or "BOTH"; got {received(value)}'
        ))  # fmt: skip
    return int(number)


def salt(path: str, value: object) -> int | str:
    """Read a salt in its original form; :func:`salt_number` converts it to a number.

    Decimal strings above ``SAFE_INTEGER_MAX`` become an integer, which is written as the same
    string again. Other values stay unchanged.

    Raises:
        InvalidFieldError: an integer out of range, another type, or a string that is too long or
            not valid UTF-8.
    """
    if type(value) is not str:
        return uint(path, value)
    if len(value) > SALT_TEXT_MAX or not encodable(value):
        raise at(path, InvalidFieldError(
            f"{path} must be a number or a string of at most {SALT_TEXT_MAX} characters; "
            f"got {received(value)}"
        ))  # fmt: skip
    number = int(value) if CANONICAL.fullmatch(value) else 0
    return number if SAFE_INTEGER_MAX < number <= UINT256_MAX else value


def encodable(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def salt_number(salt: int | str) -> int:
    """Return the number of a salt in the signed struct (decision 11).

    A decimal or 0x-hex string within 256 bits is that number; any other string is the Keccak-256
    of its UTF-8.

    >>> salt_number("479249096354"), salt_number("0xff"), salt_number("1700-x") > 2**240
    (479249096354, 255, True)
    """
    if isinstance(salt, int):
        return salt
    if DECIMAL.fullmatch(salt) and int(salt) <= UINT256_MAX:
        return int(salt)
    if HEX.fullmatch(salt):
        return int(salt, 16)
    return int.from_bytes(keccak256(salt.encode()))


def text(path: str, value: object) -> str:
    """Read a string.

    Raises:
        InvalidFieldError: the value is not a string or not valid UTF-8.
    """
    if type(value) is not str or not encodable(value):
        raise at(path, InvalidFieldError(f"{path} must be a string; got {received(value)}"))
    return value


def flag(path: str, value: object) -> bool:
    """Read a boolean.

    Raises:
        InvalidFieldError: the value is neither true nor false.
    """
    if type(value) is not bool:
        raise at(path, InvalidFieldError(f"{path} must be true or false; got {received(value)}"))
    return value


def word(path: str, value: object) -> bytes:
    """Read 32 bytes in hex.

    Raises:
        InvalidFieldError: the value is not 0x and 64 hex digits.
    """
    if type(value) is not str or not WORD.fullmatch(value):
        raise at(path, InvalidFieldError(
            f"{path} must be 0x and 64 hex digits; got {received(value)}"
        ))  # fmt: skip
    return bytes.fromhex(value[2:])


Reader = Callable[[str, object], object]
"""``read(path, json_value)`` returns the value of a field, or raises a ``RejectedError``."""
