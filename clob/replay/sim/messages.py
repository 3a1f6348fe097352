"""Messages between strategy and exchange, and the rows of an account's history."""

from typing import Any, NamedTuple, TypeAlias

SUBMIT, CANCEL, EXCHANGE, ON_FILL, ON_ORDER, ON_EXCHANGE = range(6)
"""Kinds of message: the first three arrive at the exchange, the others at the strategy."""

Message: TypeAlias = tuple[int, int, Any, Any]
"""Arrival time, kind, target (an order or a market), and data of that kind."""


class EquityRow(NamedTuple):
    """Value of the portfolio at a time, as the exchange knows it, in wei."""

    ts_ns: int
    """Time of the row."""
    wealth: int
    """Collateral plus the value of all tokens."""
    collateral: int
    """Collateral alone."""
    realised: int
    """Realised profit so far."""
    fees_paid: int
    """Fees paid in collateral so far."""


class PositionRow(NamedTuple):
    """Holding of one token after a change, as the exchange knows it, in wei."""

    ts_ns: int
    """Time of the change."""
    instrument: int
    """The token."""
    size: int
    """Tokens held; negative for a short position."""
    cost: int
    """Cost of the holding."""
