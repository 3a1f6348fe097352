"""The base class of signed structs, and cached reading of addresses."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

from clob.book.validation import show
from clob.signing import fields, secp
from clob.signing.schema import Schema, address_bytes

ADDRESS_CHARACTERS: Final = 42
"""Length of an address as text; other lengths are not cached."""


class Signed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A struct that a wallet signs. A subclass sets ``SCHEMA`` and defines its attributes."""

    SCHEMA: ClassVar[Schema]
    """The type of the signed struct."""

    signature: str = ""
    """Signature as received, 0x and 130 hex digits (r, s, v); empty if not signed."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a parsed JSON object by the field names of the schema.

        Numbers may be integers or decimal strings; floats are rejected, since they may have lost
        digits. Unknown fields are ignored, and ``null`` counts as absent. Fields are read in the
        order of the schema; the error names the first invalid one.

        Raises:
            InvalidFieldError: ``data`` is not an object, or a field is missing, of the wrong type
                or out of range.
            InvalidAddressError: an address is malformed or has a wrong checksum.
            InvalidAmountError: an amount is not an integer, or below 0.
            AmountTooLargeError: an amount is 2**256 or more.
            InvalidSideError: the side is neither ``BUY`` or ``SELL`` nor a number below 256.
            InvalidSignatureError: the signature is not a string; ``verify`` checks its content.
        """
        value: Self = secp.read(cls, data)
        return value

    def to_json(self) -> dict[str, object]:
        """Return the struct as JSON values: amounts as decimal strings, a salt as received.

        Integers above 2**53 - 1 are written as decimal strings.
        """
        return {**self.SCHEMA.to_json(self), "signature": self.signature}

    @property
    def owner_address(self) -> str:
        """Address of the owner, the maker of an order."""
        address: str = getattr(self, self.SCHEMA.owner)
        return address

    @property
    def signer_address(self) -> str:
        """Address that must sign."""
        address: str = getattr(self, self.SCHEMA.signer)
        return address

    @property
    def signature_kind(self) -> int | None:
        """Signature type; None if only EIP-712 is allowed."""
        attribute = self.SCHEMA.signature_type
        return None if attribute is None else getattr(self, attribute)

    def __str__(self) -> str:
        """Return a short description."""
        return f"{self.SCHEMA.name} of {show(self.signer_address)}"


def checksum_address(address: str) -> str:
    """Return an address checksummed (EIP-55); the case of the input is ignored.

    Raises:
        TypeError, ValueError: the value is not an address.
    """
    return secp.checksummed(address_bytes(address))


def read_address(path: str, value: object) -> str:
    """Read an address as :func:`fields.address` does; valid ones are cached, ten times as fast.

    Raises:
        InvalidAddressError: as :func:`fields.address`.
    """
    fits = type(value) is str and len(value) == ADDRESS_CHARACTERS
    right = cached_checksum(value) if fits else None
    return fields.address(path, value) if right is None else right


@functools.lru_cache(4_096)
def cached_checksum(address: str) -> str | None:
    """Return an address checksummed (EIP-55); None if it is malformed or has a wrong checksum."""
    if not fields.ADDRESS.fullmatch(address):
        return None
    digits = address[2:]
    right = secp.checksummed(bytes.fromhex(digits))
    return right if address == right or digits in (digits.lower(), digits.upper()) else None
