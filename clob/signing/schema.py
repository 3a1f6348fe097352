"""A signed struct as data: its fields, their types, what they are called here and in JSON.

The verifier knows none of them. An order with other fields is another :class:`Schema`.
"""

import enum
from collections.abc import Callable
from typing import Any, Final

import msgspec

from clob.book.validation import show
from clob.signing import fields
from clob.signing._keccak_py import keccak256
from clob.signing.errors import InvalidDomainError, InvalidFieldError
from clob.signing.fields import Reader, at
from clob.units import UINT256_MAX


class Written(enum.Enum):
    """How a value is written to JSON."""

    AS_IT_IS = enum.auto()
    """As it is, an integer as ``NUMBER``."""
    TEXT = enum.auto()
    """An integer, as decimal digits."""
    NUMBER = enum.auto()
    """An integer, as a number where every reader keeps it, else as decimal digits."""
    HEX = enum.auto()
    """Bytes, as 0x and hex digits."""


class Field(msgspec.Struct, frozen=True):
    """A field of a signed struct."""

    name: str
    """What it is called in the struct that is signed, and in JSON."""
    type: str
    """Its type in Solidity, or the name of another schema of a nested struct."""
    attribute: str
    """What it is called here."""
    read: Reader = fields.uint
    """Reads it from JSON."""
    written: Written = Written.TEXT
    """How it is written to JSON."""
    required: bool = True
    """If it must be there in JSON; else its class has a default."""
    same_as: str | None = None
    """The attribute that it takes its value from where it is not there."""


class Schema:
    """The type of a struct that is signed.

    Args:
        name: its name in EIP-712, ``Order`` for example.
        members: its fields, in their sequence.
        nested: the schemas of the structs within it.
        owner: the attribute with the address it is of.
        signer: the attribute with the address that signs; None is the owner's.
        signature_type: the attribute with the number of the way it is signed; None where EIP-712
            is the only one.

    Raises:
        InvalidDomainError: a field is of a type that is not known.

    >>> Schema("SetNonce", (Field("maker", "address", "maker", fields.address),
    ...                     Field("nonce", "uint256", "nonce"))).type_string
    'SetNonce(address maker,uint256 nonce)'
    """

    def __init__(
        self,
        name: str,
        members: tuple[Field, ...],
        nested: tuple["Schema", ...] = (),
        *,
        owner: str = "maker",
        signer: str | None = None,
        signature_type: str | None = None,
    ) -> None:
        self.name: Final = name
        self.fields: Final = members
        self.owner: Final = owner
        self.signer: Final = signer or owner
        self.signature_type: Final = signature_type
        within: dict[str, Schema] = {}
        for schema in nested:
            within |= schema.nested | {schema.name: schema}
        self.nested: Final[dict[str, Schema]] = within
        for field in members:
            if field.type not in within and field.type not in WORDS:
                raise InvalidDomainError(f"{name}.{field.name} is of unknown type {field.type!r}")
        own = [self, *(within[key] for key in sorted(within))]
        self.type_string: Final[str] = "".join(schema.own_type for schema in own)
        self.type_hash: Final[bytes] = keccak256(self.type_string.encode())

    def __repr__(self) -> str:
        """Write it as its type."""
        return f"<Schema {self.type_string}>"

    @property
    def own_type(self) -> str:
        """The type of this struct alone, without those within it."""
        return f"{self.name}({','.join(f'{field.type} {field.name}' for field in self.fields)})"

    @property
    def types(self) -> dict[str, list[dict[str, str]]]:
        """The fields by struct, as ``eth_signTypedData`` has them."""
        return {
            schema.name: [{"name": field.name, "type": field.type} for field in schema.fields]
            for schema in (self, *self.nested.values())
        }

    def hash_of(self, value: object) -> bytes:
        """Hash a struct as EIP-712 has it (``hashStruct``).

        Args:
            value: an object with the attributes that the fields name.

        Returns:
            32 bytes.

        Raises:
            InvalidFieldError: a value does not fit its type.
        """
        try:
            values = [getattr(value, field.attribute) for field in self.fields]
        except AttributeError:
            raise InvalidFieldError(f"{show(value)} is no {self.name}") from None
        words = map(self.word_of, self.fields, values)
        return keccak256(self.type_hash + b"".join(words))

    def to_json(self, value: object) -> dict[str, object]:
        """Write a struct as JSON has it."""
        return {
            field.name: self.written(field, getattr(value, field.attribute))
            for field in self.fields
        }

    def written(self, field: Field, value: Any) -> object:
        """Write a value of a field as JSON has it."""
        if field.type in self.nested:
            return self.nested[field.type].to_json(value)
        match field.written:
            case Written.AS_IT_IS if type(value) is not int:
                return value
            case Written.HEX:
                return f"0x{value.hex()}"
            case Written.AS_IT_IS | Written.NUMBER if value <= fields.SAFE_INTEGER_MAX:
                return int(value)
            case _:
                return str(int(value))

    def word_of(self, field: Field, value: object) -> bytes:
        """Write a value of a field as the 32 bytes that stand for it in the hash.

        Raises:
            InvalidFieldError: the value does not fit the type.
        """
        if field.type in self.nested:
            return self.nested[field.type].hash_of(value)
        try:
            if field.read is fields.salt and isinstance(value, str):
                value = fields.salt_number(value)
            return WORDS[field.type](value)
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise at(field.name, InvalidFieldError(
                f"{field.name} must fit {field.type}, which {show(value)} does not"
            )) from None  # fmt: skip


# ----- words ---------------------------------------------------------------------------------


def uint_word(value: Any, largest: int = UINT256_MAX) -> bytes:
    """Write an unsigned integer."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise ValueError(value)
    return int(value).to_bytes(32)


def uint8_word(value: Any) -> bytes:
    """Write an unsigned integer below 256."""
    return uint_word(value, 255)


def bool_word(value: Any) -> bytes:
    """Write a boolean."""
    if not isinstance(value, bool):
        raise TypeError(value)
    return int(value).to_bytes(32)


def address_word(value: Any) -> bytes:
    """Write an address, whatever its capital letters."""
    return address_bytes(value).rjust(32, b"\0")


def address_bytes(value: Any) -> bytes:
    """Give the 20 bytes of an address, whatever its capital letters."""
    if not fields.ADDRESS.fullmatch(value):
        raise ValueError(value)
    return bytes.fromhex(value[2:])


def bytes32_word(value: Any) -> bytes:
    """Write 32 bytes as they are."""
    if not isinstance(value, bytes) or len(value) != 32:
        raise ValueError(value)
    return value


def string_word(value: Any) -> bytes:
    """Write a text as the hash of its UTF-8."""
    return keccak256(value.encode())


def bytes_word(value: Any) -> bytes:
    """Write any number of bytes as their hash."""
    if not isinstance(value, bytes):
        raise TypeError(value)
    return keccak256(value)


WORDS: Final[dict[str, Callable[[Any], bytes]]] = {
    "uint256": uint_word,
    "uint8": uint8_word,
    "bool": bool_word,
    "address": address_word,
    "bytes32": bytes32_word,
    "string": string_word,
    "bytes": bytes_word,
}
"""How a value of each type becomes the 32 bytes that stand for it."""
