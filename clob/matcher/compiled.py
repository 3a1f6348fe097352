"""Checks that the compiled entities match the Struct layout; else all modules run as source."""

import importlib
from itertools import chain
from typing import Any, Final

from clob import _build
from clob.commands import Cancel, Submit
from clob.events import Trade
from clob.matcher.state_records import OrderSnapshot
from clob.order import Order


def layout_matches(entities: Any, source: Any) -> bool:
    """Return whether compiled entities read the same fields of Structs as their source.

    Compiled code reads fields at fixed offsets, those of the msgspec it was built with. All fields
    have the same C type, so another layout would read a wrong field without an error.
    """
    kinds: tuple[Any, ...] = (Order, Submit, Cancel, Trade, OrderSnapshot)
    trials = [kind(**{name: object() for name in kind.__struct_fields__}) for kind in kinds]
    read, expected = entities.read_fields(*trials), source.read_fields(*trials)
    return list(map(id, chain(*read))) == list(map(id, chain(*expected)))


def _is_compiled() -> bool:
    """Import the compiled entities, or switch to the source of all modules."""
    name = "clob.matcher.entities"
    if _build.SOURCE_ONLY:
        return False
    try:
        # A Struct of another size raises on import.
        if layout_matches(importlib.import_module(name), _build.load_source(name)):
            return True
    except (ImportError, TypeError, ValueError):
        pass
    _build.use_source()
    return False


COMPILED: Final = _is_compiled()
"""Whether the matcher runs compiled."""
