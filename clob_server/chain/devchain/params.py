"""Strict parsing of request parameters: hex values, blocks, calls."""

import re
from typing import Any, Final

from eth_typing import Address

from clob_server.chain.devchain.chain import DevelopmentChain
from clob_server.chain.devchain.errors import invalid
from clob_server.chain.devchain.eth_call import UnsignedCall
from clob_server.chain.devchain.evm import GAS_LIMIT

ADDRESS_BYTES: Final = 20
WORD_BYTES: Final = 32
"""Bytes of a hash, a topic and a storage slot."""
NUMBER_END: Final = 2**256
"""First number beyond a word."""
ZERO_ADDRESS: Final = Address(bytes(ADDRESS_BYTES))
"""Default sender of a call."""
NEWEST: Final = ("latest", "safe", "finalized")
"""Names of the newest block; the chain has no reorganisations."""
NAMES: Final = (*NEWEST, "earliest", "pending")
_HEX_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_DATA: Final = re.compile(r"0x([0-9a-fA-F]{2})*")


def whole_number(given: object, name: str) -> int:
    """Parse a number: hex or a JSON number."""
    if isinstance(given, str) and _HEX_NUMBER.fullmatch(given):
        return int(given, 16)
    if type(given) is int and 0 <= given < NUMBER_END:
        return given
    raise invalid(f"{name}: expected a hex number such as 0x1f; got {shown(given)}")


def data(given: object, name: str) -> bytes:
    """Parse bytes."""
    if isinstance(given, str) and _DATA.fullmatch(given):
        return bytes.fromhex(given[2:])
    raise invalid(f"{name}: expected hex bytes such as 0x00ff; got {shown(given)}")


def address(given: object, name: str) -> Address:
    """Parse an address; the case of digits is ignored."""
    return Address(fixed(given, name, ADDRESS_BYTES, "an address"))


def word(given: object, name: str) -> bytes:
    """Parse 32 bytes."""
    return fixed(given, name, WORD_BYTES, "32 bytes")


def fixed(given: object, name: str, length: int, kind: str) -> bytes:
    """Parse bytes of a fixed length."""
    value = data(given, name)
    if len(value) != length:
        raise invalid(f"{name}: expected {kind} ({length} bytes); got {len(value)} bytes")
    return value


def flag(given: object, name: str) -> bool:
    """Parse a boolean."""
    if isinstance(given, bool):
        return given
    raise invalid(f"{name}: expected true or false; got {shown(given)}")


def fields(given: object, name: str) -> dict[str, Any]:
    """Parse an object; null fields count as missing."""
    if isinstance(given, dict):
        return {key: value for key, value in given.items() if value is not None}
    raise invalid(f"{name}: expected an object; got {shown(given)}")


def items(given: object, name: str) -> list[Any]:
    """Parse a list."""
    if isinstance(given, list):
        return given
    raise invalid(f"{name}: expected a list; got {shown(given)}")


def shown(given: object) -> str:
    """Return a value as short text."""
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}.."


def block_named(given: object, name: str) -> int | str:
    """Parse a block number or name: ``latest``, ``pending`` or ``earliest``."""
    if not isinstance(given, str) or given.startswith("0x"):
        return whole_number(given, name)
    if given not in NAMES:
        expected = f"a hex number or one of {', '.join(NAMES)}"
        raise invalid(f"{name}: expected {expected}; got {shown(given)}")
    if given == "earliest":
        return 0
    return "latest" if given in NEWEST else given


def block_number(chain: DevelopmentChain, given: object, name: str) -> int:
    """Parse a block: a name is the newest, a number beyond it the next, which does not exist."""
    named, newest = block_named(given, name), chain.head.block_number
    return newest if isinstance(named, str) else min(named, newest + 1)


def call_of(given: object, name: str) -> UnsignedCall:
    """Parse the transaction of ``eth_call`` and ``eth_estimateGas``."""
    call = fields(given, name)
    if "data" in call and "input" in call and call["data"] != call["input"]:
        raise invalid(f"{name}: data and input differ; pass one of them")
    price = call.get("maxFeePerGas", call.get("gasPrice", 0))
    listed = items(call.get("accessList", []), f"{name}.accessList")
    return UnsignedCall(
        sender=address(call["from"], f"{name}.from") if "from" in call else ZERO_ADDRESS,
        to=address(call["to"], f"{name}.to") if "to" in call else Address(b""),
        gas=min(whole_number(call.get("gas", GAS_LIMIT), f"{name}.gas"), GAS_LIMIT),
        gas_price_wei=whole_number(price, f"{name}.gasPrice"),
        value_wei=whole_number(call.get("value", 0), f"{name}.value"),
        data=data(call.get("input", call.get("data", "0x")), f"{name}.data"),
        access_list=tuple(access_of(each, f"{name}.accessList") for each in listed),
    )


def access_of(given: object, name: str) -> tuple[Address, tuple[int, ...]]:
    """Parse one entry of an access list."""
    entry = fields(given, name)
    slots = items(entry.get("storageKeys", []), f"{name}.storageKeys")
    keys = tuple(int.from_bytes(word(slot, f"{name}.storageKeys")) for slot in slots)
    return address(entry.get("address"), f"{name}.address"), keys


def count(given: list[Any], least: int, most: int) -> list[Any]:
    """Check the number of parameters and pad with None to the maximum.

    Raises:
        RequestError: too few or too many parameters.
    """
    while len(given) > least and given[-1] is None:
        given = given[:-1]
    if not least <= len(given) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        raise invalid(f"expected {expected} parameters; got {len(given)}")
    return given + [None] * (most - len(given))
