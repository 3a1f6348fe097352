"""What a book looks like from outside: levels, depth, and a place in a queue."""

import msgspec

from clob.order import Side


class Level(msgspec.Struct, frozen=True, gc=False):
    """All orders at one price of one side."""

    price: int
    """In ticks."""
    size: int
    """What remains of them together, in wei."""
    num_orders: int
    """How many they are."""


class Depth(msgspec.Struct, frozen=True):
    """A picture of a book, which never changes."""

    market: str
    """The market of the book; empty where a book stands alone."""
    token: str
    """The token of the book."""
    seq: int
    """Number of the last event it contains; the next one to apply to it is ``seq + 1``."""
    bids: tuple[Level, ...]
    """Levels of buy orders, the highest price first."""
    asks: tuple[Level, ...]
    """Levels of sell orders, the lowest price first."""


class Ahead(msgspec.Struct, frozen=True, gc=False):
    """What stands in front of an order in its queue and must go before it trades."""

    num_orders: int
    """How many orders at its price came before it."""
    size: int
    """What remains of them together, in wei."""


class Resting(msgspec.Struct, frozen=True, gc=False):
    """One order as it rests in the book."""

    order_id: str | int
    """The order, as its caller named it."""
    side: Side
    """Buy or sell."""
    price: int
    """Its limit, in ticks."""
    remaining: int
    """What is left of it, in wei."""
    maker: str
    """Who owns it; ``owner:N`` where a record gave the number N, empty for nobody."""
    expiration_s: int
    """The last Unix second in which it may trade; 0 is never to expire."""
