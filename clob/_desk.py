"""Chooses the desk: the compiled one, or the same lines as plain Python."""

import os
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from clob import _entries_py
from clob._states import OrderState
from clob.commands import Cancel, Submit
from clob.events import Trade
from clob.order import Order


def reads_right(entries: Any) -> bool:
    """Say whether a compiled module finds the fields of Structs where they lie.

    It reads them from memory, as the msgspec it was built with lays them out. Fields are all of
    one kind there, so that in another layout it would read another field, which is seen here.
    """
    kinds: tuple[Any, ...] = (Order, Submit, Cancel, Trade, OrderState)
    trials = [kind(**{name: object() for name in kind.__struct_fields__}) for kind in kinds]
    seen, there = entries.fields_seen(*trials), _entries_py.fields_seen(*trials)
    return list(map(id, chain(*seen))) == list(map(id, chain(*there)))


if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob._desk_py import Desk

    DESK_COMPILED: Final = False
else:
    try:
        from clob import _entries_c

        if not reads_right(_entries_c):
            raise ImportError("the fields of Structs lie elsewhere")
        from clob._desk_c import Desk

        DESK_COMPILED: Final = True
    except (ImportError, TypeError, ValueError):
        # No compiler, as clob.book says; another msgspec; modules that do not belong together.
        from clob._desk_py import Desk

        DESK_COMPILED: Final = False

__all__ = ["DESK_COMPILED", "Desk"]
