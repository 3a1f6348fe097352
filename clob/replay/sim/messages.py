"""Messages between strategy and exchange, and the rows that are taken down of an account."""

from typing import Any, NamedTuple, TypeAlias

ENTER, TAKE_OUT, EXCHANGE, HEAR_FILL, HEAR_ORDER, HEAR_EXCHANGE = range(6)
"""What a message does where it arrives: the first three at the exchange, the others here."""

Message: TypeAlias = tuple[int, int, Any, Any]
"""When something arrives, what it does there, to what, and how."""


class EquityRow(NamedTuple):
    """What the strategy owned at a time, as the exchange knows it, in wei."""

    ts_ns: int
    """When."""
    wealth: int
    """Collateral and the value of all tokens."""
    collateral: int
    """Collateral alone."""
    realised: int
    """The profit realised by then."""
    fees_paid: int
    """The fees paid in collateral by then."""


class PositionRow(NamedTuple):
    """What the strategy had of a token from a time on, as the exchange knows it, in wei."""

    ts_ns: int
    """From when."""
    instrument: int
    """Which token."""
    size: int
    """How many; below 0 they are owed."""
    cost: int
    """What was paid for them."""
