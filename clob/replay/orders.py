"""The orders of a strategy, and the fills it hears of. Sizes are lots, prices ticks, times ns."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clob.order import Side, TimeInForce, Word

if TYPE_CHECKING:
    from clob.replay.seats import Leg


class OrderState(Word):
    """What a strategy has heard of one of its orders."""

    SENT = 0
    """Nothing yet."""
    RESTING = 1
    """It rests."""
    FILLED = 2
    """It was filled whole."""
    CANCELLED = 3
    """It left the book with something unfilled: cancelled, or the rest of one that never rests."""
    REFUSED = 4
    """It was refused."""


class OwnOrder(msgspec.Struct, eq=False):
    """An order of the strategy, from the moment it is sent."""

    id: int
    """Its id, from ``OWN_ID`` on in the order of sending."""
    leg: "Leg"
    """Where it was sent."""
    side: Side
    """Whether it buys or sells."""
    price: int
    """Its limit, in ticks."""
    size: int
    """How much it was sent for, in lots."""
    time_in_force: TimeInForce
    """What becomes of what does not trade at once."""
    post_only: bool
    """Whether it is refused where it would trade at once."""
    sent_ns: int
    """When it was sent."""
    arrived_ns: int = -1
    """When the book got it; -1 before. The strategy is told later."""
    done_ns: int = -1
    """When it left the book or was refused; -1 before. The strategy is told later."""
    ahead: int = -1
    """How many lots stood in front of it when it began to rest; -1 if it never did."""
    state: OrderState = OrderState.SENT
    """What the strategy has heard of it."""
    is_open: bool = True
    """Whether it may still trade, as far as the strategy has heard."""
    filled: int = 0
    """How much of it was filled as far as the strategy has heard, in lots."""
    cancelling: bool = False
    """Whether a cancel was sent."""
    code: str = ""
    """Why it was refused, as in :mod:`clob.errors`."""
    _left: int = 0

    @property
    def remaining(self) -> int:
        """How much is not filled, as far as the strategy has heard, in lots."""
        return self.size - self.filled

    def __repr__(self) -> str:
        """Say what it is in a line."""
        return (
            f"<{self.side.name} {self.size} at {self.price} in {self.leg.name}: "
            f"{self.state.name.lower()}, {self.filled} filled>"
        )


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
