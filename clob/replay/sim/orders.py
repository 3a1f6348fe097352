"""What a strategy can have heard of one of its orders."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from clob.order import Side, TimeInForce, Word

if TYPE_CHECKING:
    from clob.replay.sim.market_view import OutcomeView


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


class OwnFill:
    """A fill of an own order, as the exchange knows it.

    Compiled, it is a few numbers without any object of Python, so that the garbage collector,
    which a named tuple would bring on, has nothing to do with it.
    """

    __slots__ = ("instrument", "order_id", "other_id", "price", "resting", "size", "ts_ns")

    def __init__(
        self,
        ts_ns: int,
        instrument: int,
        order_id: int,
        size: int,
        price: int,
        resting: bool,
        other_id: int,
    ) -> None:
        """Put it together."""
        self.ts_ns: int = ts_ns
        """When it traded."""
        self.instrument: int = instrument
        """The book it traded in."""
        self.order_id: int = order_id
        """The own order."""
        self.size: int = size
        """How much, in lots; 0 if the order left the book for another reason, as when all did."""
        self.price: int = price
        """At what price, in ticks."""
        self.resting: bool = resting
        """Whether the own order rested."""
        self.other_id: int = other_id
        """The order on the other side."""

    def __iter__(self) -> Iterator[int]:
        """Give its numbers, in the order in which it is put together."""
        return iter(
            (
                self.ts_ns,
                self.instrument,
                self.order_id,
                self.size,
                self.price,
                self.resting,
                self.other_id,
            )
        )

    def __eq__(self, other: object) -> bool:
        """Tell whether another one says the same."""
        return isinstance(other, OwnFill) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Give equal ones an equal number."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Say it in a line."""
        return f"OwnFill{tuple(self)}"


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
        leg: "OutcomeView",
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
        self.leg: OutcomeView = leg
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


# MERGED clob.replay.sim.orders: A fill of an own order, as the exchange knows it; compiled with ``_fills_c.pxd``.

# MERGED clob.replay.sim.orders: An order of a strategy. Compiled as it stands, with the types of ``_orders_c.pxd``.

# MERGED clob.replay.sim.orders: The orders of a strategy, and the fills it hears of. Sizes are lots, prices ticks, times ns.
