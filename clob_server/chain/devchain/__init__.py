"""The development chain: py-evm behind JSON-RPC in a process of its own, its state in SQLite.

It needs the extra ``devchain``. Nothing outside this package imports it: whoever wants a chain
starts ``python -m clob_server.chain.devchain FOLDER`` and speaks JSON-RPC, as to any other node.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

NAME: Final = "eth.precompiles.bls12_381"
"""The module that is loaded late."""
CONTRACTS: Final = (
    "bls12_g1_add",
    "bls12_g1_msm",
    "bls12_map_fp_to_g1",
    "bls12_g2_add",
    "bls12_g2_msm",
    "bls12_map_fp2_to_g2",
    "bls12_pairing_check",
)
"""What py-evm takes from it."""


class LazyModule(ModuleType):
    """Stands in for the module until it is needed."""

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if name not in CONTRACTS:
            raise AttributeError(name)

        def contract(computation: Any) -> Any:
            return loaded(name)(computation)

        return contract


def loaded(name: str) -> Callable[[Any], Any]:
    """Give one of the contracts as py-evm has it; the first time takes half a second."""
    if isinstance(sys.modules.get(NAME), LazyModule):
        del sys.modules[NAME]
    found: Callable[[Any], Any] = getattr(import_module(NAME), name)
    return found


def stand_in() -> None:
    """Have py-evm load without it, where that is not loaded yet."""
    sys.modules.setdefault(NAME, LazyModule(NAME))


stand_in()

# MERGED clob_server.chain.devchain: A part of py-evm that is costly to load, loaded when a contract first asks for it.
#
# The contracts that compute on the curve BLS12-381 are built in, nearly nobody calls them, and their
# tables take a quarter of the time in which the chain starts.
