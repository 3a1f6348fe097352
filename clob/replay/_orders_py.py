"""An order of a strategy. Compiled as it stands, with the types of ``_orders_c.pxd``."""

from typing import TYPE_CHECKING

from clob.order import Side, TimeInForce
from clob.replay.order_states import OrderState

if TYPE_CHECKING:
    from clob.replay._seats_py import Leg

SENT = OrderState.SENT


class OwnOrder:
    """An order of the strategy, from the moment it is sent."""

    __slots__ = (
        "_left",
        "ahead",
        "arrived_ns",
        "cancelling",
        "code",
        "done_ns",
        "filled",
        "id",
        "is_open",
        "leg",
        "post_only",
        "price",
        "sent_ns",
        "side",
        "size",
        "state",
        "time_in_force",
    )

    def __init__(
        self,
        order_id: int,
        leg: "Leg",
        side: Side,
        price: int,
        size: int,
        time_in_force: TimeInForce,
        post_only: bool,
        sent_ns: int,
    ) -> None:
        """Send it; the scheduler does."""
        self.id: int = order_id
        """Its id, from ``OWN_ID`` on in the order of sending."""
        self.leg: Leg = leg
        """Where it was sent."""
        self.side: Side = side
        """Whether it buys or sells."""
        self.price: int = price
        """Its limit, in ticks."""
        self.size: int = size
        """How much it was sent for, in lots."""
        self.time_in_force: TimeInForce = time_in_force
        """What becomes of what does not trade at once."""
        self.post_only: bool = post_only
        """Whether it is refused where it would trade at once."""
        self.sent_ns: int = sent_ns
        """When it was sent."""
        self.arrived_ns: int = -1
        """When the book got it; -1 before. The strategy is told later."""
        self.done_ns: int = -1
        """When it left the book or was refused; -1 before. The strategy is told later."""
        self.ahead: int = -1
        """How many lots stood in front of it when it began to rest; -1 if it never did."""
        self.state: OrderState = SENT
        """What the strategy has heard of it."""
        self.is_open: bool = True
        """Whether it may still trade, as far as the strategy has heard."""
        self.filled: int = 0
        """How much of it was filled as far as the strategy has heard, in lots."""
        self.cancelling: bool = False
        """Whether a cancel was sent."""
        self.code: str = ""
        """Why it was refused, as in :mod:`clob.errors`."""
        self._left: int = 0

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
