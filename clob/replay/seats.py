"""What a strategy holds in its hands: its seat at a market, and the two legs of that.

What they say of the strategy's orders and tokens is what it has heard of by then. What they say of
the book is what stands there now. Sizes are lots, prices ticks, times ns.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("CLOB_PURE_PYTHON") == "1":
    from clob.replay._seats_py import Leg, PriceSize, Seat
else:
    try:
        from clob.replay._seats_c import Leg, PriceSize, Seat
    except ImportError:
        from clob.replay._seats_py import Leg, PriceSize, Seat

__all__ = ["Leg", "PriceSize", "Seat"]
