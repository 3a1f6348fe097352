"""The parameters of a request: hex and blocks, read strictly, and refused by what is wrong."""

import re
from typing import Any, Final

from clob_server.chain.devchain.errors import invalid
from clob_server.chain.devchain.eth_call import UnsignedCall
from clob_server.chain.devchain.evm import GAS_LIMIT

ADDRESS_BYTES: Final = 20
"""How long an address is."""
WORD_BYTES: Final = 32
"""How long a hash is, a topic and a place in a storage."""
NUMBER_END: Final = 2**256
"""The first number that no word holds."""
ZERO_ADDRESS: Final = bytes(ADDRESS_BYTES)
"""Who calls where nobody is named."""
NEWEST: Final = ("latest", "safe", "finalized")
"""The names of the newest block: nothing here is ever taken back."""
NAMES: Final = (*NEWEST, "earliest", "pending")
"""All names of blocks."""
_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")
_DATA: Final = re.compile(r"0x([0-9a-fA-F]{2})*")


def whole_number(given: object, name: str) -> int:
    """Read a number: hex, or a number of JSON."""
    if isinstance(given, str) and _QUANTITY.fullmatch(given):
        return int(given, 16)
    if type(given) is int and 0 <= given < NUMBER_END:
        return given
    raise invalid(f"{name}: a number as hex is needed, as 0x1f, not {shown(given)}")


def data(given: object, name: str) -> bytes:
    """Read bytes."""
    if isinstance(given, str) and _DATA.fullmatch(given):
        return bytes.fromhex(given[2:])
    raise invalid(f"{name}: bytes as hex are needed, as 0x00ff, not {shown(given)}")


def address(given: object, name: str) -> bytes:
    """Read an address, whatever the case of its digits."""
    return fixed(given, name, ADDRESS_BYTES, "an address")


def word(given: object, name: str) -> bytes:
    """Read 32 bytes."""
    return fixed(given, name, WORD_BYTES, "32 bytes")


def fixed(given: object, name: str, length: int, what: str) -> bytes:
    """Read bytes of a length."""
    found = data(given, name)
    if len(found) != length:
        raise invalid(f"{name}: {what} of {length} bytes is needed, not {len(found)} bytes")
    return found


def flag(given: object, name: str) -> bool:
    """Read a truth value."""
    if isinstance(given, bool):
        return given
    raise invalid(f"{name}: true or false is needed, not {shown(given)}")


def fields(given: object, name: str) -> dict[str, Any]:
    """Read an object; a field that is null counts as missing."""
    if isinstance(given, dict):
        return {key: value for key, value in given.items() if value is not None}
    raise invalid(f"{name}: an object is needed, not {shown(given)}")


def shown(given: object) -> str:
    """Show what was given, cut short."""
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}.."


def block_named(given: object, name: str) -> int | str:
    """Read a block's number, or its name: ``latest``, ``pending`` or ``earliest``."""
    if not isinstance(given, str) or given.startswith("0x"):
        return whole_number(given, name)
    if given not in NAMES:
        raise invalid(f"{name}: a number as hex or one of {', '.join(NAMES)}, not {shown(given)}")
    if given == "earliest":
        return 0
    return "latest" if given in NEWEST else given


def call_of(given: object, name: str) -> UnsignedCall:
    """Read the transaction of ``eth_call`` and ``eth_estimateGas``."""
    asked = fields(given, name)
    if "data" in asked and "input" in asked and asked["data"] != asked["input"]:
        raise invalid(f"{name}: both data and input are given, and they differ")
    price = asked.get("maxFeePerGas", asked.get("gasPrice", 0))
    listed = asked.get("accessList", [])
    if not isinstance(listed, list):
        raise invalid(f"{name}.accessList: a list is needed, not {shown(listed)}")
    return UnsignedCall(
        sender=address(asked["from"], f"{name}.from") if "from" in asked else ZERO_ADDRESS,
        to=address(asked["to"], f"{name}.to") if "to" in asked else b"",
        gas=min(whole_number(asked.get("gas", GAS_LIMIT), f"{name}.gas"), GAS_LIMIT),
        gas_price_wei=whole_number(price, f"{name}.gasPrice"),
        value_wei=whole_number(asked.get("value", 0), f"{name}.value"),
        data=data(asked.get("input", asked.get("data", "0x")), f"{name}.data"),
        access_list=tuple(access_of(each, f"{name}.accessList") for each in listed),
    )


def access_of(given: object, name: str) -> tuple[bytes, tuple[int, ...]]:
    """Read one entry of an access list."""
    entry = fields(given, name)
    slots = entry.get("storageKeys", [])
    if not isinstance(slots, list):
        raise invalid(f"{name}.storageKeys: a list is needed, not {shown(slots)}")
    keys = tuple(int.from_bytes(word(slot, f"{name}.storageKeys")) for slot in slots)
    return address(entry.get("address"), f"{name}.address"), keys


def count(given: list[Any], least: int, most: int) -> list[Any]:
    """Check how many parameters there are, and fill up with None to the most there can be.

    Raises:
        RefusedError: too few or too many.
    """
    while len(given) > least and given[-1] is None:
        given = given[:-1]
    if not least <= len(given) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise invalid(f"{wanted} parameters are needed, not {len(given)}")
    return given + [None] * (most - len(given))
