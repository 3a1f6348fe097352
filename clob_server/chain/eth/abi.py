"""Calls of contracts, their events and their refusals, to and from the bytes of the ABI.

eth-abi does the encoding. It is heavy to import and to run, so this belongs into the worker.
Addresses come out as EIP-55 writes them. What is no such value, or no such data, is an
:class:`AbiError`.
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
from clob.signing.signed_struct import spelled
from clob_server.chain.contracts import NAMES, artifact

SIGNATURE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_$][\w$]*)\s*\((?P<parameters>.*)\)\s*", re.DOTALL
)
"""A name, and in brackets what it takes."""
PARAMETER: Final = re.compile(
    r"\s*(?P<type>\([^ ]*\)[\[\]\d]*|[a-z]+[\[\]\w]*)"
    r"(?P<indexed>\s+indexed)?(?:\s+(?P<name>[A-Za-z_$][\w$]*))?\s*"
)
"""A type, which may be a tuple in brackets without blanks; and what may follow it."""


class Parameter(NamedTuple):
    """One parameter of a function, an event or an error."""

    type: str
    """Its type, in the canonical spelling."""
    name: str = ""
    """Its name; may be empty."""
    is_indexed: bool = False
    """If it is a topic of an event."""


def parse(signature: str) -> tuple[str, tuple[Parameter, ...]]:
    """Read the name and the parameters of a signature.

    Raises:
        ValueError: it is none.

    >>> parse("transfer(address to, uint amount)")
    ('transfer', (Parameter(type='address', name='to', is_indexed=False), ...))
    """
    found = SIGNATURE.fullmatch(signature)
    if found is None:
        raise ValueError(f"not a signature: {signature!r}")
    return found["name"], parameters(found["parameters"])


def parameters(text: str) -> tuple[Parameter, ...]:
    """Read a list of parameters, with commas between.

    Raises:
        ValueError: one of them is none.
    """
    return tuple(parameter(part) for part in split(text)) if text.strip() else ()


def parameter(text: str) -> Parameter:
    """Read one parameter."""
    found = PARAMETER.fullmatch(text)
    if found is None:
        raise ValueError(f"not a parameter: {text!r}")
    kind: str = normalize(found["type"])  # type: ignore[no-untyped-call]
    return Parameter(kind, found["name"] or "", bool(found["indexed"]))


def split(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    depth, begin, parts = 0, 0, []
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


def canonical(name: str, parts: Iterable[Parameter]) -> str:
    """Spell a function, an event or an error as it is hashed."""
    return f"{name}({','.join(part.type for part in parts)})"


SELECTOR_BYTES: Final = 4
"""How many bytes say which function is called, or which error is raised."""
WORD_BYTES: Final = 32
"""How long a word is; what has no length of its own is one word."""
WORD_END: Final = 2**256
"""No word is as much as this."""
PLAIN_ARRAYS: Final = ("uint256[]", "address[]", "bytes32[]")
"""The arrays that are written without the codec."""
REASON_CHARACTERS_MAX: Final = 200
"""How much of a contract's own words is repeated."""
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
"""What Solidity's panic codes mean."""


class AbiError(ValueError):
    """The arguments do not fit the types, or the data is not what the types say."""


class _Checksummed(AddressDecoder):
    """Reads an address as EIP-55 writes it."""

    decoder_fn = staticmethod(checksummed)  # type: ignore[assignment]


def _codec() -> ABICodec:
    """Make a codec whose addresses come out as EIP-55 writes them."""
    types: ABIRegistry = registry.copy()  # type: ignore[no-untyped-call]
    types.unregister_decoder("address")
    is_address = BaseEquals("address")  # type: ignore[no-untyped-call]
    types.register_decoder(is_address, _Checksummed, label="address")
    return ABICodec(types)


_CODEC: Final = _codec()


class Function:
    r"""A function of a contract.

    Args:
        signature: as in Solidity; types may be followed by names, as in
            ``transfer(address to, uint256 amount)``.
        returns: the types of what it returns, with commas between; empty for nothing.

    >>> transfer = Function("transfer(address,uint256)", returns="bool")
    >>> transfer.encode("0x5FbDB2315678afecb367f032d93F642f64180aa3", 1).hex()[:8]
    'a9059cbb'
    >>> transfer.decode(bytes(31) + b"\1")
    (True,)
    """

    def __init__(self, signature: str, returns: str = "") -> None:
        name, inputs = parse(signature)
        self.name: Final[str] = name
        """What it is called."""
        self._types: Final = [parameter.type for parameter in inputs]
        self._outputs: Final = [parameter.type for parameter in parameters(returns)]
        self.signature: Final[str] = canonical(name, inputs)
        """The canonical spelling."""
        self.selector: Final[bytes] = selector(self.signature)
        """The first 4 bytes of a call."""

    def encode(self, *args: Any) -> bytes:
        """Write a call: the selector and the arguments.

        Args:
            args: integers, addresses as text, bytes, booleans, texts; sequences for arrays and
                tuples.

        Raises:
            AbiError: there are too many or too few, or one does not fit its type.
        """
        return self.selector + encode(self._types, args)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Read what a call returned.

        Args:
            data: the answer.

        Raises:
            AbiError: it is not what the function returns; empty where there is no contract.
        """
        return decode(self._outputs, data)

    def arguments(self, calldata: bytes) -> tuple[Any, ...]:
        """Read the arguments back from a call.

        Args:
            calldata: with the selector.

        Raises:
            AbiError: it is a call of another function, or of none.
        """
        if calldata[:SELECTOR_BYTES] != self.selector:
            raise AbiError(f"not a call of {self.signature}: 0x{calldata[:SELECTOR_BYTES].hex()}")
        return decode(self._types, calldata[SELECTOR_BYTES:])


class Event:
    """An event of a contract.

    Args:
        signature: as in Solidity, with ``indexed``, as in
            ``Transfer(address indexed from, address indexed to, uint256 value)``. Indexed
            parameters of dynamic types are not supported, since only their hash is there.
    """

    def __init__(self, signature: str) -> None:
        name, self._parameters = parse(signature)
        self.name: Final[str] = name
        """What it is called."""
        self._indexed: Final = [part.type for part in self._parameters if part.is_indexed]
        self._plain: Final = [part.type for part in self._parameters if not part.is_indexed]
        self.signature: Final[str] = canonical(name, self._parameters)
        """The canonical spelling."""
        self.topic: Final[str] = f"0x{keccak256(self.signature.encode()).hex()}"
        """The first topic of its logs, 0x and 64 hex digits."""

    def is_in(self, log: Mapping[str, Any]) -> bool:
        """Say whether a log is one of this event.

        Args:
            log: as a receipt has it: ``address, topics, data``.
        """
        topics: Sequence[str] = log["topics"]
        return len(topics) == 1 + len(self._indexed) and topics[0] == self.topic

    def decode(self, log: Mapping[str, Any]) -> tuple[Any, ...]:
        """Read a log.

        Args:
            log: as a receipt has it: ``address, topics, data``.

        Returns:
            The parameters in the sequence of the signature.

        Raises:
            AbiError: it is a log of another event.
        """
        if not self.is_in(log):
            raise AbiError(f"not a log of {self.signature}: {log['topics']}")
        topics = b"".join(from_hex(topic) for topic in log["topics"][1:])
        indexed = iter(decode(self._indexed, topics))
        plain = iter(decode(self._plain, from_hex(log["data"])))
        return tuple(next(indexed if part.is_indexed else plain) for part in self._parameters)


def revert_reason(data: bytes) -> str:
    """Say in words why a call was reverted.

    Args:
        data: what the call returned then; may be anything.

    Returns:
        A text such as ``ERC20InsufficientBalance(sender=0x.., balance=0, needed=5)``, or the
        contract's own words, of which at most :data:`REASON_CHARACTERS_MAX` characters are given.
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
    """An error that a call was reverted with."""

    name: str
    """What the contract calls it; ``Error`` and ``Panic`` are Solidity's own."""
    values: dict[str, Any]
    """What it says, by the names of its parameters: those of ``Error`` are ``words``, and of
    ``Panic`` ``code``."""


def revert_error(data: bytes) -> Revert | None:
    """Read what a call was reverted with.

    Args:
        data: what the call returned then; may be anything.

    Returns:
        The error; None where it is none of Solidity's or of our contracts.
    """
    head, rest = data[:SELECTOR_BYTES], data[SELECTOR_BYTES:]
    try:
        name, parts = _known_errors()[head]
        values = decode([part.type for part in parts], rest)
    except (KeyError, AbiError):
        return None
    return Revert(name, {part.name: value for part, value in zip(parts, values, strict=True)})


@functools.cache
def _known_errors() -> dict[bytes, tuple[str, tuple[Parameter, ...]]]:
    """Give the errors of Solidity and of our contracts, by their selectors."""
    known = [parse("Error(string words)"), parse("Panic(uint256 code)")]
    for entry in (entry for name in NAMES for entry in artifact(name).abi):
        if entry["type"] == "error":
            parts = (Parameter(part["type"], part["name"]) for part in entry["inputs"])
            known.append((entry["name"], tuple(parts)))
    return {selector(canonical(name, parts)): (name, parts) for name, parts in known}


def selector(signature: str) -> bytes:
    """Give the 4 bytes that stand for a function or an error of this canonical spelling."""
    return keccak256(signature.encode())[:SELECTOR_BYTES]


def encode(types: Sequence[str], values: Sequence[Any]) -> bytes:
    """Write values of these types, as arguments of a constructor for instance.

    Args:
        types: in the canonical spelling.
        values: as many.

    Raises:
        AbiError: there are too many or too few, or one does not fit its type.
    """
    plain = plainly(types, values)
    if plain is not None:
        return plain
    try:
        return _CODEC.encode(types, values)
    except EncodingError as error:
        raise AbiError(str(error)) from error


def plainly(types: Sequence[str], values: Sequence[Any]) -> bytes | None:
    """Write values of the types that most arguments have, in a tenth of the codec's time.

    Returns:
        None where one is of another type, or is for the codec to look at, and maybe to refuse.
    """
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
    """Write a value that is one word; None where it is none, or is for the codec."""
    if kind == "uint256" and type(value) is int and 0 <= value < WORD_END:
        return value.to_bytes(WORD_BYTES)
    if kind == "address" and type(value) is str and spelled(value) == value:
        return bytes.fromhex(value[2:]).rjust(WORD_BYTES, b"\0")
    if kind == "bytes32" and type(value) is bytes and len(value) == WORD_BYTES:
        return value
    return None


def plain_tail(kind: str, value: object) -> bytes | None:
    """Write a value that has a length of its own; None where it is none, or is for the codec."""
    if kind == "bytes" and type(value) is bytes:
        padding = bytes(-len(value) % WORD_BYTES)
        return len(value).to_bytes(WORD_BYTES) + value + padding
    if kind in PLAIN_ARRAYS and isinstance(value, list | tuple):
        words = [plain_word(kind.removesuffix("[]"), item) for item in value]
        if None not in words:
            return b"".join([len(words).to_bytes(WORD_BYTES), *filter(None, words)])
    return None


def decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """Read values of these types.

    Args:
        types: in the canonical spelling.
        data: may be longer than they are.

    Raises:
        AbiError: the data is too short, or is nothing of these types.
    """
    try:
        return _CODEC.decode(types, data)
    except (DecodingError, UnicodeDecodeError, OverflowError) as error:
        raise AbiError(f"{len(data)} bytes are not ({','.join(types)}): {error}") from error


def from_hex(text: str) -> bytes:
    """Read the bytes that JSON-RPC writes as 0x and hex digits.

    Raises:
        AbiError: it is something else.
    """
    if not text.startswith("0x"):
        raise AbiError(f"0x and hex digits are needed, not {text[:REASON_CHARACTERS_MAX]!r}")
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise AbiError(str(error)) from error


def show(value: object) -> str:
    """Write a value for people; bytes as hex digits."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def printable(text: str, most: int = REASON_CHARACTERS_MAX) -> str:
    """Give what may be shown of a text that a stranger wrote, so many characters at most."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:most])


# MERGED clob_server.chain.eth.abi: Reads the signatures of functions and events, as Solidity writes them.
