"""Order status, the table of its transitions, and filled amounts.

The table is that of the specification, "States and transitions"; the documentation includes it.
"""

import enum
from typing import Final, NamedTuple

import msgspec

from clob.events import RemovalReason
from clob.order import Order, Side


class OrderStatus(enum.StrEnum):
    """Status of an order."""

    OPEN = "open"
    """Resting, without trades."""
    PARTIAL = "partial"
    """Resting, partly traded."""
    FILLED = "filled"
    """Completely traded; final."""
    CANCELLED = "cancelled"
    """Removed, or never rested, with an untraded remainder; final."""

    def __repr__(self) -> str:
        """Return the expression of the member."""
        return f"OrderStatus.{self.name}"


class Trigger(enum.StrEnum):
    """Cause of a transition."""

    ACCEPTED = "accepted"
    """The order was accepted."""
    TRADED_IN_PART = "traded in part"
    """It traded and has a remainder."""
    TRADED_WHOLE = "traded whole"
    """It traded and has no remainder."""
    REMOVED = "removed"
    """Its maker, the operator or a rule removed it, or its remainder may not rest."""


class Transition(NamedTuple):
    """A row of the table of transitions."""

    before: OrderStatus | None
    """Status before; None before the order was accepted."""
    trigger: Trigger
    """Cause of the transition."""
    after: OrderStatus
    """Status after."""


TRANSITIONS: Final = (
    Transition(None, Trigger.ACCEPTED, OrderStatus.OPEN),
    Transition(OrderStatus.OPEN, Trigger.TRADED_IN_PART, OrderStatus.PARTIAL),
    Transition(OrderStatus.PARTIAL, Trigger.TRADED_IN_PART, OrderStatus.PARTIAL),
    Transition(OrderStatus.OPEN, Trigger.TRADED_WHOLE, OrderStatus.FILLED),
    Transition(OrderStatus.PARTIAL, Trigger.TRADED_WHOLE, OrderStatus.FILLED),
    Transition(OrderStatus.OPEN, Trigger.REMOVED, OrderStatus.CANCELLED),
    Transition(OrderStatus.PARTIAL, Trigger.REMOVED, OrderStatus.CANCELLED),
)
"""All transitions of an order."""


def status_of(*, traded: bool, left: bool, resting: bool) -> OrderStatus:
    """Return the status of an order.

    Args:
        traded: whether some of it traded.
        left: whether some of it did not trade.
        resting: whether it is in a book.
    """
    if resting:
        return OrderStatus.PARTIAL if traded else OrderStatus.OPEN
    return OrderStatus.CANCELLED if left else OrderStatus.FILLED


def filled_amount(side: Side, filled: int, size: int, collateral: int) -> int:
    """Return the filled part of an order's taker amount.

    For a buy order, the traded tokens; for a sell order, the proportional share of the collateral
    it asks for, rounded down. The collateral received is not used: a market sell at 1 would count
    as filled after two of a hundred tokens.

    Args:
        side: side of the order.
        filled: traded tokens, in wei.
        size: tokens of the order as submitted, in wei.
        collateral: collateral of the order as submitted, in wei.

    >>> filled_amount(Side.SELL, 60, 100, 50)
    30
    """
    return filled if side is Side.BUY else filled * collateral // size


class OrderRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The record of one order, resting or finished."""

    market: str
    """Id of the market."""
    order: Order
    """The order as submitted."""
    price: int
    """Current limit price after replacements, in cents."""
    size: int
    """Current size after reductions and replacements, in wei: filled plus not filled."""
    status: OrderStatus
    """Current status."""
    filled: int
    """Traded tokens, in wei."""
    remaining: int
    """Resting tokens, in wei; 0 once it is finished."""
    filled_amount: int
    """Filled part of its taker amount, in wei; see :func:`filled_amount`."""
    filled_collateral: int
    """Collateral paid or received for the traded tokens, in wei, without fees."""
    number: int
    """Number in the order of acceptance by the matcher, from 1."""
    accepted_ms: int
    """Time of the command that submitted it, in Unix milliseconds."""
    removal: RemovalReason | None = None
    """Reason of its removal; None while it rests."""
    client_id: str | None = None
    """The maker's own id of the order."""
    order_hash: bytes | None = None
    """Hash of the signed order, 32 bytes."""
