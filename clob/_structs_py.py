"""The Structs that the desk reads; the compiled desk knows where their fields lie in memory.

Its knowledge stands in ``_structs_c.pxd``, which takes the place of this import.
"""

from clob._states import OrderState
from clob.commands import Cancel, Submit
from clob.events import Trade
from clob.order import Order

__all__ = ["Cancel", "Order", "OrderState", "Submit", "Trade"]
