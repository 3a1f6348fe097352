"""The contracts as compiled: what a deployment needs, without a compiler.

The artifacts beside this file are made from the sources by ``make contracts``. ConditionalTokens is
Gnosis' own code as published, under the LGPL; the texts of the licences lie here too.
"""

import functools
from importlib import resources
from typing import Any, Final

import msgspec

NAMES: Final = ("ConditionalTokens", "TestDollar", "WrappedCollateral", "Exchange")
"""The contracts there are."""


class Artifact(msgspec.Struct, frozen=True):
    """A compiled contract."""

    name: str
    """What it is called in its source."""
    abi: tuple[dict[str, Any], ...]
    """Its functions, events and errors, as the JSON of the ABI describes them."""
    creation: bytes
    """What a transaction without a recipient carries, before the arguments of the constructor."""
    runtime: bytes
    """What lies at its address then; where an immutable value comes to stand, zeros."""


class _Written(msgspec.Struct, rename="camel"):
    """What is read of a file."""

    contract_name: str
    abi: tuple[dict[str, Any], ...]
    bytecode: str
    deployed_bytecode: str


@functools.cache
def artifact(name: str) -> Artifact:
    """Read a contract.

    Args:
        name: one of :data:`NAMES`.

    Raises:
        ValueError: there is no such contract.
    """
    if name not in NAMES:
        raise ValueError(f"there is no contract {name!r}; there are {', '.join(NAMES)}")
    text = resources.files(__name__).joinpath(f"{name}.json").read_bytes()
    written = msgspec.json.decode(text, type=_Written)
    creation, runtime = (
        bytes.fromhex(digits[2:]) for digits in (written.bytecode, written.deployed_bytecode)
    )
    return Artifact(written.contract_name, written.abi, creation, runtime)
