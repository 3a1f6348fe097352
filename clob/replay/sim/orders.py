"""State of an own order as the strategy sees it, and its fills as the exchange sees them."""

from collections.abc import Iterator

from clob.order import Word


class OrderState(Word):
    """State of an own order, as far as replies have reached the strategy."""

    SENT = 0
    """No reply has arrived yet."""
    RESTING = 1
    """The order rests."""
    FILLED = 2
    """The order was filled completely."""
    CANCELLED = 3
    """The order left the book with a part unfilled: cancelled, or the rest of an order that may not
    rest."""
    REJECTED = 4
    """The order was rejected."""


class OwnFill:
    """A fill of an own order, as the exchange knows it. Sizes are lots, prices ticks, times ns.

    The compiled class holds C numbers only, so the garbage collector does not track it; a named
    tuple would trigger collections.
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
        self.ts_ns: int = ts_ns
        """Time of the trade."""
        self.instrument: int = instrument
        """The book."""
        self.order_id: int = order_id
        """The own order."""
        self.size: int = size
        """Lots; 0 if the order left the book without a trade, as when the book is cleared."""
        self.price: int = price
        """Price of the trade, in ticks."""
        self.resting: bool = resting
        """Whether the own order was the resting one."""
        self.other_id: int = other_id
        """The order on the other side."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over the fields, in constructor order."""
        trade = (self.ts_ns, self.instrument, self.order_id, self.size, self.price)
        return iter((*trade, self.resting, self.other_id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnFill) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"OwnFill{tuple(self)}"
