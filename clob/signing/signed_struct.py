"""What all signed things have: a schema, a signature, and a way from JSON and back."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

from clob.book.validation import show
from clob.signing import fields, secp
from clob.signing.schema import Schema, address_bytes

ADDRESS_CHARACTERS: Final = 42
"""How long an address is as a text; nothing longer is remembered."""


class Signed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that a wallet signs. A subclass names its ``SCHEMA`` and has its attributes."""

    SCHEMA: ClassVar[Schema]
    """The struct that is signed."""

    signature: str = ""
    """The signature, 0x and 130 hex digits (r, s, v), as it came; empty before it is signed."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read it from what a JSON reader gives, by the names in the schema.

        Numbers may be integers or decimal texts; a float is refused, since it may have lost what
        was signed. Fields that the schema does not have are left alone. ``null`` is as good as
        absent.

        Args:
            data: the object.

        Raises:
            InvalidFieldError: it is no object; a field is missing, of the wrong type or out of
                range. The fields are read in the sequence of the schema, so that the first one that
                is wrong is the one that is named, by this error or the following ones.
            InvalidAddressError: an address is none, or its capital letters are wrong.
            InvalidAmountError: an amount is no integer, or below 0.
            AmountTooLargeError: an amount is 2**256 or more.
            InvalidSideError: the side is neither a word for one nor a number below 256.
            InvalidSignatureError: the signature is no text. Whether it is one is for ``verify``.
        """
        value: Self = secp.read(cls, data)
        return value

    def to_json(self) -> dict[str, object]:
        """Write it as JSON has it: amounts as decimal digits, a salt as it came.

        An integer that a reader in JavaScript would round is written as digits, a salt, too.
        """
        return {**self.SCHEMA.to_json(self), "signature": self.signature}

    @property
    def owner_address(self) -> str:
        """Whose it is."""
        address: str = getattr(self, self.SCHEMA.owner)
        return address

    @property
    def signer_address(self) -> str:
        """Whose signature it must bear."""
        address: str = getattr(self, self.SCHEMA.signer)
        return address

    @property
    def signature_kind(self) -> int | None:
        """Its signature type; None where EIP-712 is the only one."""
        attribute = self.SCHEMA.signature_type
        return None if attribute is None else getattr(self, attribute)

    def __str__(self) -> str:
        """Write it in a line."""
        return f"{self.SCHEMA.name} of {show(self.signer_address)}"


def plain(address: str) -> str:
    """Write an address as EIP-55 does, whatever its capital letters were.

    Raises:
        TypeError, ValueError: it is no address.
    """
    written: str = secp.checksummed(address_bytes(address))
    return written


def read_address(path: str, value: object) -> str:
    """Read an address as :func:`fields.address` does, ten times as fast where it is right.

    Raises:
        InvalidAddressError: as there.
    """
    fits = type(value) is str and len(value) == ADDRESS_CHARACTERS
    right = spelled(value) if fits else None
    return fields.address(path, value) if right is None else right


@functools.lru_cache(4_096)
def spelled(address: str) -> str | None:
    """Write an address as EIP-55 does; None where it is none, or its capital letters are wrong.

    The same addresses come again and again.
    """
    if not fields.ADDRESS.fullmatch(address):
        return None
    digits = address[2:]
    right: str = secp.checksummed(bytes.fromhex(digits))
    return right if address == right or digits in (digits.lower(), digits.upper()) else None
