"""Schemas of signed structs: fields, types, and names in Python and JSON.

Hashing and verification work on any :class:`Schema`; an order with other fields is another schema.
"""

import enum
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

import msgspec

from clob.book.validation import show
from clob.signing import fields
from clob.signing.errors import InvalidDomainError, InvalidFieldError
from clob.signing.fields import Reader, at
from clob.signing.keccak import keccak256
from clob.units import UINT256_MAX


class Written(enum.Enum):
    """The JSON form of a value."""

    AS_IT_IS = enum.auto()
    """Unchanged; an integer as ``NUMBER``."""
    TEXT = enum.auto()
    """An integer as decimal string."""
    NUMBER = enum.auto()
    """An integer as number up to 2**53 - 1, else as decimal string."""
    HEX = enum.auto()
    """Bytes as 0x and hex digits."""


class Field(msgspec.Struct, frozen=True):
    """A field of a signed struct."""

    name: str
    """Name in the signed struct and in JSON."""
    type: str
    """Type in Solidity, or the name of the schema of a nested struct."""
    attribute: str
    """Name of the Python attribute."""
    read: Reader = fields.uint
    """Reads the value from JSON."""
    written: Written = Written.TEXT
    """JSON form of the value."""
    required: bool = True
    """Whether JSON must contain it; otherwise the class has a default."""
    same_as: str | None = None
    """Attribute to copy the value from if JSON does not contain it."""


class Schema:
    """The type of a signed struct.

    Args:
        name: EIP-712 name, for example ``Order``.
        members: fields, in order.
        nested: schemas of nested structs.
        owner: attribute with the address of the owner.
        signer: attribute with the address that signs; None is the owner.
        signature_type: attribute with the signature type; None if only EIP-712 is allowed.

    Raises:
        InvalidDomainError: the type of a field is unknown.

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
                raise InvalidDomainError(
                    f"type of {name}.{field.name} must be a Solidity type or nested struct; "
                    f"got {field.type!r}"
                )
        own = [self, *(within[key] for key in sorted(within))]
        self.type_string: Final[str] = "".join(schema.own_type for schema in own)
        self.type_hash: Final[bytes] = keccak256(self.type_string.encode())

    def __repr__(self) -> str:
        """Return the EIP-712 type string."""
        return f"<Schema {self.type_string}>"

    @property
    def own_type(self) -> str:
        """EIP-712 type of this struct, without nested structs."""
        return f"{self.name}({','.join(f'{field.type} {field.name}' for field in self.fields)})"

    @property
    def types(self) -> dict[str, list[dict[str, str]]]:
        """Fields by struct, for ``eth_signTypedData``."""
        return {
            schema.name: [{"name": field.name, "type": field.type} for field in schema.fields]
            for schema in (self, *self.nested.values())
        }

    def hash_of(self, value: object) -> bytes:
        """Return the 32-byte EIP-712 ``hashStruct`` of an object with the fields as attributes.

        Raises:
            InvalidFieldError: a value does not fit its type.
        """
        try:
            values = [getattr(value, field.attribute) for field in self.fields]
        except AttributeError:
            raise InvalidFieldError(
                f"value must have the fields of {self.name}; got {show(value)}"
            ) from None
        words = map(self.word_of, self.fields, values)
        return keccak256(self.type_hash + b"".join(words))

    def to_json(self, value: object) -> dict[str, object]:
        """Return a struct as JSON values."""
        return {
            field.name: self.written(field, getattr(value, field.attribute))
            for field in self.fields
        }

    def written(self, field: Field, value: Any) -> object:
        """Return the value of a field as a JSON value."""
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
        """Encode the value of a field as its 32 bytes in the hash.

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
                f"{field.name} must fit {field.type}; got {show(value)}"
            )) from None  # fmt: skip


class SignedValue(Protocol):
    """A signed struct as the backends see it; see ``clob.signing.Signed``."""

    SCHEMA: ClassVar[Schema]

    @property
    def signature(self) -> str:
        """Signature, 0x and 130 hex digits."""

    @property
    def owner_address(self) -> str:
        """Address of the owner."""

    @property
    def signer_address(self) -> str:
        """Address that must sign."""


# ----- encoding as words -----------------------------------------------------------------------


def uint_word(value: Any, largest: int = UINT256_MAX) -> bytes:
    """Encode an unsigned integer."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise ValueError(value)
    return int(value).to_bytes(32)


def bool_word(value: Any) -> bytes:
    """Encode a boolean."""
    if not isinstance(value, bool):
        raise TypeError(value)
    return int(value).to_bytes(32)


def address_word(value: Any) -> bytes:
    """Encode an address; the checksum is not verified."""
    return address_bytes(value).rjust(32, b"\0")


def address_bytes(value: Any) -> bytes:
    """Return the 20 bytes of an address; the checksum is not verified."""
    if not fields.ADDRESS.fullmatch(value):
        raise ValueError(value)
    return bytes.fromhex(value[2:])


def bytes32_word(value: Any) -> bytes:
    """Encode 32 bytes unchanged."""
    if not isinstance(value, bytes) or len(value) != 32:
        raise ValueError(value)
    return value


def string_word(value: Any) -> bytes:
    """Encode a text as the hash of its UTF-8."""
    return keccak256(value.encode())


def bytes_word(value: Any) -> bytes:
    """Encode bytes as their hash."""
    if not isinstance(value, bytes):
        raise TypeError(value)
    return keccak256(value)


WORDS: Final[dict[str, Callable[[Any], bytes]]] = {
    "uint256": uint_word,
    "uint8": functools.partial(uint_word, largest=255),
    "bool": bool_word,
    "address": address_word,
    "bytes32": bytes32_word,
    "string": string_word,
    "bytes": bytes_word,
}
"""Encoders of values as 32 bytes, by Solidity type."""
