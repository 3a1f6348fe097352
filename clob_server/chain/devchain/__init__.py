"""The development chain: py-evm behind JSON-RPC in a process of its own, its state in SQLite.

It needs the extra ``devchain``. Nothing outside this package imports it: a client starts
``python -m clob_server.chain.devchain FOLDER`` and uses JSON-RPC, as with any other node.

The precompiled contracts of the curve BLS12-381 load when first used: their tables take a quarter
of the start-up time, and few contracts call them.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

NAME: Final = "eth.precompiles.bls12_381"
"""The module that loads on first use."""
CONTRACTS: Final = (
    "bls12_g1_add",
    "bls12_g1_msm",
    "bls12_map_fp_to_g1",
    "bls12_g2_add",
    "bls12_g2_msm",
    "bls12_map_fp2_to_g2",
    "bls12_pairing_check",
)
"""The names that py-evm imports from it."""


class LazyModule(ModuleType):
    """Placeholder of the module until it is needed."""

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if name not in CONTRACTS:
            raise AttributeError(name)

        def contract(computation: Any) -> Any:
            return loaded(name)(computation)

        return contract


def loaded(name: str) -> Callable[[Any], Any]:
    """Load one of the contracts; the first call takes half a second."""
    if isinstance(sys.modules.get(NAME), LazyModule):
        del sys.modules[NAME]
    function: Callable[[Any], Any] = getattr(import_module(NAME), name)
    return function


def install_placeholder() -> None:
    """Install the placeholder, unless the module is loaded already."""
    sys.modules.setdefault(NAME, LazyModule(NAME))


install_placeholder()
