"""Chooses, once per process, between the compiled modules and their Python source.

Each module of :data:`MODULES` has one source, ``name.py``, which also runs as plain Python. The
compiled module next to it takes precedence on import. Compiled modules call each other directly, so
all of them are used or none.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Final

MODULES: Final = (
    "clob.matcher.entities",
    "clob.matcher.accounts",
    "clob.matcher.admission",
    "clob.matcher.order_index",
    "clob.matcher.snapshot_orders",
    "clob.matcher.engine",
    "clob.replay.check.fill_diff",
    "clob.replay.modes.rematch",
    "clob.replay.modes.rows",
    "clob.replay.sim.exchange_account",
    "clob.replay.sim.latency",
    "clob.replay.sim.market_view",
    "clob.replay.sim.orders",
    "clob.replay.sim.portfolio",
    "clob.replay.sim.session",
)
"""Modules compiled from the text that also runs as plain Python."""

_PACKAGE: Final = os.path.dirname(__file__)  # without pathlib, which takes 4 ms to import


class SourceFinder:
    """Finds the Python source of the modules in :data:`MODULES`, before any compiled form."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the source file's spec, or ``None`` for a module of another name."""
        if name not in MODULES:
            return None
        file = _file_of(name, ".py")
        spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec


def load_source(name: str) -> ModuleType:
    """Load the source of one of :data:`MODULES` as a module of its own, for comparison."""
    from importlib.util import module_from_spec  # noqa: PLC0415 - `import clob` starts without it

    spec = SourceFinder.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_complete() -> bool:
    """Return whether every module has its compiled form."""
    return all(
        any(os.path.exists(_file_of(name, suffix)) for suffix in EXTENSION_SUFFIXES)
        for name in MODULES
    )


def use_source() -> None:
    """Import :data:`MODULES` from their source from now on; none may be in use yet."""
    forget()
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)


def forget() -> None:
    """Drop :data:`MODULES` from the imported modules, and from the packages that hold them."""
    for name in MODULES:
        package, _, last = name.rpartition(".")
        if sys.modules.pop(name, None) is not None and package in sys.modules:
            vars(sys.modules[package]).pop(last, None)


def _file_of(name: str, suffix: str) -> str:
    return os.path.join(_PACKAGE, *name.split(".")[1:]) + suffix


SOURCE_ONLY: Final = os.environ.get("CLOB_PURE_PYTHON") == "1" or not is_complete()
"""Whether the source is used from the start: by choice, or because a compiled form is missing."""

if SOURCE_ONLY:
    use_source()
