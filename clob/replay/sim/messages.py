"""Messages between strategy and exchange."""

from typing import Any, TypeAlias

SUBMIT, CANCEL, EXCHANGE, ON_FILL, ON_ORDER, ON_EXCHANGE = range(6)
"""Kinds of message: the first three arrive at the exchange, the others at the strategy."""

KINDS = 6
"""Number of kinds."""

Message: TypeAlias = tuple[int, int, Any, Any]
"""Arrival time, kind, target (an order or a market), and data of that kind."""
