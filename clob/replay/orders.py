"""The orders of a strategy, and the fills it hears of. Sizes are lots, prices ticks, times ns."""

import os
from typing import TYPE_CHECKING, NamedTuple

from clob.replay.order_states import OrderState

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._orders_py import OwnOrder
else:
    try:
        from clob.replay._orders_c import OwnOrder
    except ImportError:
        from clob.replay._orders_py import OwnOrder

__all__ = ["Fill", "OrderState", "OwnOrder"]


class Fill(NamedTuple):
    """A fill, as the strategy hears of it."""

    order: OwnOrder
    """The own order."""
    price: int
    """At what price, in ticks."""
    size: int
    """How much, in lots."""
    ts_ns: int
    """When it traded; the strategy hears of it later."""
    resting: bool
    """Whether the own order rested."""
