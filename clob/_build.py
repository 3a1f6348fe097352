"""Chooses, once per process, between the compiled modules and their Python source.

A module of :data:`MODULES` has one text, ``name.py``, and beside it the compiled form of that
text, which the import system prefers. The compiled forms call each other directly, so that they
are used together or not at all.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

MODULES: Final = frozenset(
    f"clob.{name}"
    for name in (
        "matcher.entities",
        "matcher.accounts",
        "matcher.admission",
        "matcher.order_index",
        "matcher.engine",
        "replay.check.fill_diff",
        "replay.modes.rematch",
        "replay.modes.rows",
        "replay.sim.exchange_account",
        "replay.sim.latency",
        "replay.sim.market_view",
        "replay.sim.orders",
        "replay.sim.portfolio",
        "replay.sim.session",
    )
)
"""Modules compiled from the text that also runs as plain Python."""

_PACKAGE: Final = Path(__file__).parent


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
        return spec_from_file_location(name, file, loader=SourceFileLoader(name, file))


def load_source(name: str) -> ModuleType:
    """Load the source of one of :data:`MODULES` as a module of its own, for comparison."""
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
    return str(_PACKAGE.joinpath(*name.split(".")[1:])) + suffix


SOURCE_ONLY: Final = os.environ.get("CLOB_PURE_PYTHON") == "1" or not is_complete()
"""Whether the source is used from the start: by choice, or because a compiled form is missing."""

if SOURCE_ONLY:
    use_source()
