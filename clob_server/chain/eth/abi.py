"""ABI encoding and decoding: function calls, events, revert reasons, and Solidity signatures.

Uses eth-abi, which is slow to import and to run: import this module only in the worker. Decoded
addresses are EIP-55. Invalid values and data raise :class:`AbiError`.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from eth_abi.codec import ABICodec
from eth_abi.decoding import AddressDecoder
from eth_abi.exceptions import DecodingError, EncodingError
from eth_abi.grammar import normalize
from eth_abi.registry import ABIRegistry, BaseEquals, registry

from clob.signing import keccak256
from clob.signing.secp import checksummed
from clob.signing.signed_struct import cached_checksum
from clob_server.chain.contracts import NAMES, artifact

SIGNATURE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_$][\w$]*)\s*\((?P<parameters>.*)\)\s*", re.DOTALL
)
"""A name and a parameter list in parentheses."""
PARAMETER: Final = re.compile(
    r"\s*(?P<type>\([^ ]*\)[\[\]\d]*|[a-z]+[\[\]\w]*)"
    r"(?P<indexed>\s+indexed)?(?:\s+(?P<name>[A-Za-z_$][\w$]*))?\s*"
)
"""A parameter: a type (possibly a tuple without blanks), ``indexed``, a name."""


class Parameter(NamedTuple):
    """One parameter of a function, an event or an error."""

    type: str
    """Type in its canonical spelling."""
    name: str = ""
    is_indexed: bool = False
    """Whether it is an indexed parameter of an event."""


def parse(signature: str) -> tuple[str, tuple[Parameter, ...]]:
    """Split a signature into name and parameters.

    Raises:
        ValueError: not a signature.

    >>> parse("transfer(address to, uint amount)")
    ('transfer', (Parameter(type='address', name='to', is_indexed=False), ...))
    """
    match = SIGNATURE.fullmatch(signature)
    if match is None:
        raise ValueError(f"not a signature: {signature!r}")
    return match["name"], parameters(match["parameters"])


def parameters(text: str) -> tuple[Parameter, ...]:
    """Parse a comma-separated list of parameters.

    Raises:
        ValueError: one of them is invalid.
    """
    parts = []
    for part in split(text) if text.strip() else ():
        match = PARAMETER.fullmatch(part)
        if match is None:
            raise ValueError(f"not a parameter: {part!r}")
        kind: str = normalize(match["type"])  # type: ignore[no-untyped-call]
        parts.append(Parameter(kind, match["name"] or "", bool(match["indexed"])))
    return tuple(parts)


def split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    depth, begin, parts = 0, 0, []
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


def canonical(name: str, parts: Iterable[Parameter]) -> str:
    """Return the canonical signature, which is hashed for selectors and topics."""
    return f"{name}({','.join(part.type for part in parts)})"


SELECTOR_BYTES: Final = 4
"""Length of the selector of a function or an error."""
WORD_BYTES: Final = 32
WORD_END: Final = 2**256
"""Values of a word are below this."""
PLAIN_ARRAYS: Final = ("uint256[]", "address[]", "bytes32[]")
"""Array types that are encoded without eth-abi."""
REASON_CHARACTERS_MAX: Final = 200
"""Maximum number of characters of a contract's revert message that is repeated."""
PANICS: Final[Mapping[int, str]] = {
    0x01: "an assertion failed",
    0x11: "an arithmetic operation overflowed",
    0x12: "a division by zero",
    0x21: "no member of an enum",
    0x22: "a storage byte array is badly encoded",
    0x31: "pop of an empty array",
    0x32: "an index is out of range",
    0x41: "too much memory was allocated",
    0x51: "a function pointer was not set",
}
"""Meaning of Solidity's panic codes."""


class AbiError(ValueError):
    """Arguments do not match the types, or data cannot be decoded as the types."""


class _Checksummed(AddressDecoder):
    """Decodes addresses as EIP-55."""

    decoder_fn = staticmethod(checksummed)  # type: ignore[assignment]


def _codec() -> ABICodec:
    """Return a codec that decodes addresses as EIP-55."""
    types: ABIRegistry = registry.copy()  # type: ignore[no-untyped-call]
    types.unregister_decoder("address")
    is_address = BaseEquals("address")  # type: ignore[no-untyped-call]
    types.register_decoder(is_address, _Checksummed, label="address")
    return ABICodec(types)


_CODEC: Final = _codec()


class Function:
    r"""A contract function.

    Args:
        signature: as in Solidity, parameter names are optional:
            ``transfer(address to, uint256 amount)``.
        returns: return types, comma-separated; empty for none.

    >>> transfer = Function("transfer(address,uint256)", returns="bool")
    >>> transfer.encode("0x5FbDB2315678afecb367f032d93F642f64180aa3", 1).hex()[:8]
    'a9059cbb'
    >>> transfer.decode(bytes(31) + b"\1")
    (True,)
    """

    def __init__(self, signature: str, returns: str = "") -> None:
        name, inputs = parse(signature)
        self.name: Final[str] = name
        self._types: Final = [parameter.type for parameter in inputs]
        self._outputs: Final = [parameter.type for parameter in parameters(returns)]
        self.signature: Final[str] = canonical(name, inputs)
        self.selector: Final[bytes] = selector(self.signature)
        """First 4 bytes of a call."""

    def encode(self, *args: Any) -> bytes:
        """Encode a call: selector and arguments.

        Args:
            args: integers, addresses as text, bytes, booleans, texts; sequences for arrays and
                tuples.

        Raises:
            AbiError: the number or a type of the arguments is wrong.
        """
        return self.selector + encode(self._types, args)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Decode the data that a call returned.

        Raises:
            AbiError: not the return types; empty data if there is no contract at the address.
        """
        return decode(self._outputs, data)

    def arguments(self, calldata: bytes) -> tuple[Any, ...]:
        """Decode the arguments of a call, which begins with the selector.

        Raises:
            AbiError: a call of another function.
        """
        if calldata[:SELECTOR_BYTES] != self.selector:
            raise AbiError(f"not a call of {self.signature}: 0x{calldata[:SELECTOR_BYTES].hex()}")
        return decode(self._types, calldata[SELECTOR_BYTES:])


class Event:
    """A contract event.

    Args:
        signature: as in Solidity, with ``indexed``:
            ``Transfer(address indexed from, address indexed to, uint256 value)``. Indexed
            parameters of dynamic types are not supported: logs hold only their hash.
    """

    def __init__(self, signature: str) -> None:
        name, self._parameters = parse(signature)
        self.name: Final[str] = name
        self._indexed: Final = [part.type for part in self._parameters if part.is_indexed]
        self._plain: Final = [part.type for part in self._parameters if not part.is_indexed]
        self.signature: Final[str] = canonical(name, self._parameters)
        self.topic: Final[str] = f"0x{keccak256(self.signature.encode()).hex()}"
        """First topic of its logs, 0x and 64 hex digits."""

    def is_in(self, log: Mapping[str, Any]) -> bool:
        """Return whether a log, as in a receipt, is one of this event."""
        topics: Sequence[str] = log["topics"]
        return len(topics) == 1 + len(self._indexed) and topics[0] == self.topic

    def decode(self, log: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the parameters of a log in the order of the signature.

        Raises:
            AbiError: a log of another event.
        """
        if not self.is_in(log):
            raise AbiError(f"not a log of {self.signature}: {log['topics']}")
        topics = b"".join(from_hex(topic) for topic in log["topics"][1:])
        indexed = iter(decode(self._indexed, topics))
        plain = iter(decode(self._plain, from_hex(log["data"])))
        return tuple(next(indexed if part.is_indexed else plain) for part in self._parameters)


def revert_reason(data: bytes) -> str:
    """Describe why a call was reverted, by the data that it returned, which may be any bytes.

    Returns:
        A text such as ``ERC20InsufficientBalance(sender=0x.., balance=0, needed=5)``, or the
        contract's revert message, cut to :data:`REASON_CHARACTERS_MAX` characters.
    """
    if not data:
        return "no reason given"
    error = revert_error(data)
    if error is None:
        return printable(f"an unknown error: 0x{data.hex()}")
    if error.name == "Error":
        return printable(error.values["words"])
    if error.name == "Panic":
        code = error.values["code"]
        return f"panic 0x{code:02x}: {PANICS.get(code, 'an unknown code')}"
    pairs = (f"{name}={show(value)}" for name, value in error.values.items())
    return printable(f"{error.name}({', '.join(pairs)})")


class Revert(NamedTuple):
    """The error of a reverted call."""

    name: str
    """Name of the error; ``Error`` and ``Panic`` are Solidity's own."""
    values: dict[str, Any]
    """Values by parameter name; ``words`` for ``Error``, ``code`` for ``Panic``."""


def revert_error(data: bytes) -> Revert | None:
    """Decode the data of a reverted call; None if it is no error of Solidity or our contracts."""
    try:
        name, parts = _known_errors()[data[:SELECTOR_BYTES]]
        values = decode([part.type for part in parts], data[SELECTOR_BYTES:])
    except (KeyError, AbiError):
        return None
    return Revert(name, {part.name: value for part, value in zip(parts, values, strict=True)})


@functools.cache
def _known_errors() -> dict[bytes, tuple[str, tuple[Parameter, ...]]]:
    """Return the errors of Solidity and of our contracts by selector."""
    known = [parse("Error(string words)"), parse("Panic(uint256 code)")]
    for entry in (entry for name in NAMES for entry in artifact(name).abi):
        if entry["type"] == "error":
            parts = (Parameter(part["type"], part["name"]) for part in entry["inputs"])
            known.append((entry["name"], tuple(parts)))
    return {selector(canonical(name, parts)): (name, parts) for name, parts in known}


def selector(signature: str) -> bytes:
    """Return the 4-byte selector of a canonical signature."""
    return keccak256(signature.encode())[:SELECTOR_BYTES]


def encode(types: Sequence[str], values: Sequence[Any]) -> bytes:
    """Encode values of canonical types, for example the arguments of a constructor.

    Raises:
        AbiError: the number or a type of the values is wrong.
    """
    plain = plainly(types, values)
    if plain is not None:
        return plain
    try:
        return _CODEC.encode(types, values)
    except EncodingError as error:
        raise AbiError(str(error)) from error


def plainly(types: Sequence[str], values: Sequence[Any]) -> bytes | None:
    """Encode values of common types in a tenth of eth-abi's time; None to use eth-abi."""
    if len(types) != len(values):
        return None
    heads, tails = [], []
    end = WORD_BYTES * len(types)
    for kind, value in zip(types, values, strict=True):
        word = plain_word(kind, value)
        if word is None:
            tail = plain_tail(kind, value)
            if tail is None:
                return None
            tails.append(tail)
            word = end.to_bytes(WORD_BYTES)
            end += len(tail)
        heads.append(word)
    return b"".join(heads + tails)


def plain_word(kind: str, value: object) -> bytes | None:
    """Encode a value that fits one word; None to use eth-abi."""
    if kind == "uint256" and type(value) is int and 0 <= value < WORD_END:
        return value.to_bytes(WORD_BYTES)
    if kind == "address" and type(value) is str and cached_checksum(value) == value:
        return bytes.fromhex(value[2:]).rjust(WORD_BYTES, b"\0")
    if kind == "bytes32" and type(value) is bytes and len(value) == WORD_BYTES:
        return value
    return None


def plain_tail(kind: str, value: object) -> bytes | None:
    """Encode a value of variable length; None to use eth-abi."""
    if kind == "bytes" and type(value) is bytes:
        padding = bytes(-len(value) % WORD_BYTES)
        return len(value).to_bytes(WORD_BYTES) + value + padding
    if kind in PLAIN_ARRAYS and isinstance(value, list | tuple):
        words = [plain_word(kind.removesuffix("[]"), item) for item in value]
        if None not in words:
            return b"".join([len(words).to_bytes(WORD_BYTES), *filter(None, words)])
    return None


def decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """Decode values of canonical types; the data may be longer.

    Raises:
        AbiError: the data is too short or does not match the types.
    """
    try:
        return _CODEC.decode(types, data)
    except (DecodingError, UnicodeDecodeError, OverflowError) as error:
        text = f"{len(data)} bytes cannot be decoded as ({','.join(types)}): {error}"
        raise AbiError(text) from error


def from_hex(text: str) -> bytes:
    """Decode ``0x`` and hex digits.

    Raises:
        AbiError: any other text.
    """
    if not text.startswith("0x"):
        raise AbiError(f"expected 0x and hex digits; got {text[:REASON_CHARACTERS_MAX]!r}")
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise AbiError(str(error)) from error


def show(value: object) -> str:
    """Format a value; bytes as hex digits."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def printable(text: str, most: int = REASON_CHARACTERS_MAX) -> str:
    """Return the first ``most`` characters of untrusted text, unprintable ones replaced."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:most])
