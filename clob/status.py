"""The life of an order: its status, the table of its transitions, and what counts as filled.

The table is the specification's, "States and transitions"; the documentation draws it from here.
"""

import enum
from typing import Final, NamedTuple

import msgspec

from clob.events import RemovalReason
from clob.order import Order, Side


class OrderStatus(enum.StrEnum):
    """Where an order stands."""

    OPEN = "open"
    """It waits for a match."""
    PARTIAL = "partial"
    """Part of it traded, and the rest waits."""
    FILLED = "filled"
    """All of it traded. It stays so."""
    CANCELLED = "cancelled"
    """It left, or never rested, with something untraded. It stays so."""

    def __repr__(self) -> str:
        """Write the member as the expression that names it."""
        return f"OrderStatus.{self.name}"


class Trigger(enum.StrEnum):
    """What moves an order from one status to another."""

    ACCEPTED = "accepted"
    """The order was accepted."""
    TRADED_IN_PART = "traded in part"
    """It traded, and something of it is left."""
    TRADED_WHOLE = "traded whole"
    """It traded, and nothing of it is left."""
    REMOVED = "removed"
    """Its maker, the operator or a rule took it out, or its remainder may not rest."""


class Transition(NamedTuple):
    """A row of the table."""

    before: OrderStatus | None
    """The status it has; None is no order yet."""
    trigger: Trigger
    """What happens."""
    after: OrderStatus
    """The status it gets."""


TRANSITIONS: Final = (
    Transition(None, Trigger.ACCEPTED, OrderStatus.OPEN),
    Transition(OrderStatus.OPEN, Trigger.TRADED_IN_PART, OrderStatus.PARTIAL),
    Transition(OrderStatus.PARTIAL, Trigger.TRADED_IN_PART, OrderStatus.PARTIAL),
    Transition(OrderStatus.OPEN, Trigger.TRADED_WHOLE, OrderStatus.FILLED),
    Transition(OrderStatus.PARTIAL, Trigger.TRADED_WHOLE, OrderStatus.FILLED),
    Transition(OrderStatus.OPEN, Trigger.REMOVED, OrderStatus.CANCELLED),
    Transition(OrderStatus.PARTIAL, Trigger.REMOVED, OrderStatus.CANCELLED),
)
"""Every step an order can take; there is no other."""


def status_of(*, traded: bool, left: bool, resting: bool) -> OrderStatus:
    """Give the status of an order from what can be seen of it.

    Args:
        traded: some of it traded.
        left: some of it did not.
        resting: it is in a book.
    """
    if resting:
        return OrderStatus.PARTIAL if traded else OrderStatus.OPEN
    return OrderStatus.CANCELLED if left else OrderStatus.FILLED


def filled_amount(side: Side, filled: int, size: int, collateral: int) -> int:
    """Give how much of its taker amount an order has filled.

    Buying, that is the tokens; selling, the share of the collateral asked for that goes with the
    tokens sold, rounded down, and all of it once all are sold. Collateral received would not do:
    a market sell at 1 would count as filled after two of a hundred tokens.

    Args:
        side: which way it trades.
        filled: tokens traded, in wei.
        size: tokens of the order as it was submitted, in wei.
        collateral: collateral of the order as it was submitted, in wei.

    >>> filled_amount(Side.SELL, 60, 100, 50)
    30
    """
    return filled if side is Side.BUY else filled * collateral // size


class OrderRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a matcher knows of one order, resting or finished."""

    market: str
    """The market it is in."""
    order: Order
    """The order as it was submitted."""
    price: int
    """Its limit now, after replacements, in cents."""
    size: int
    """Its size now, after reductions and replacements, in wei: what is filled and what is not."""
    status: OrderStatus
    """Where it stands."""
    filled: int
    """Tokens traded, in wei."""
    remaining: int
    """Tokens that still rest, in wei; 0 once it is finished."""
    filled_amount: int
    """How much of its taker amount is filled, in wei; see :func:`filled_amount`."""
    filled_collateral: int
    """Collateral paid or received for the tokens traded, in wei, fees not counted."""
    number: int
    """Which order of the matcher it is, counted from 1 in the sequence of acceptance."""
    accepted_ms: int
    """The time of the command that brought it in, Unix milliseconds."""
    removal: RemovalReason | None = None
    """Why it left the book; None while it rests."""
    client_id: str | None = None
    """What its maker calls it."""
    order_hash: bytes | None = None
    """The hash of the signed order, 32 bytes."""
