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

CURVE: Final = "eth.precompiles.bls12_381"
"""The module that loads on first use."""
PREFIX: Final = "bls12_"
"""Beginning of the names that py-evm imports from it."""


class LazyModule(ModuleType):
    """Placeholder of a module, replaced when one of its contracts is first called."""

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        if not name.startswith(PREFIX):
            raise AttributeError(name)

        def contract(computation: Any) -> Any:
            if sys.modules.get(CURVE) is self:
                del sys.modules[CURVE]
            return getattr(import_module(CURVE), name)(computation)

        return contract


sys.modules.setdefault(CURVE, LazyModule(CURVE))
