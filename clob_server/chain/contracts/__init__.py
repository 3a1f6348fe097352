"""Compiled contracts: ABI and bytecode of each, so that a deployment needs no compiler.

``make contracts`` builds the artifacts in this folder from the Solidity sources. ConditionalTokens
is the artifact published by Gnosis, under the LGPL; the license texts are in this folder too.
"""

import functools
from importlib import resources
from typing import Any, Final

import msgspec

NAMES: Final = ("ConditionalTokens", "TestDollar", "WrappedCollateral", "Exchange")
"""Names of the contracts."""


class Artifact(msgspec.Struct, frozen=True):
    """A compiled contract."""

    name: str
    """Name in its source."""
    abi: tuple[dict[str, Any], ...]
    """Functions, events and errors, as JSON ABI entries."""
    creation: bytes
    """Creation bytecode, without constructor arguments."""
    runtime: bytes
    """Deployed bytecode; immutable values are zeros."""


class _ArtifactFile(msgspec.Struct, rename="camel"):
    """The members read from an artifact file."""

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
        ValueError: unknown name.
    """
    if name not in NAMES:
        raise ValueError(f"unknown contract {name!r}; expected one of {', '.join(NAMES)}")
    text = resources.files(__name__).joinpath(f"{name}.json").read_bytes()
    file = msgspec.json.decode(text, type=_ArtifactFile)
    creation, runtime = (
        bytes.fromhex(digits[2:]) for digits in (file.bytecode, file.deployed_bytecode)
    )
    return Artifact(file.contract_name, file.abi, creation, runtime)
