"""A fill of an own order, as the exchange knows it; compiled with ``_fills_c.pxd``."""

from collections.abc import Iterator


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
