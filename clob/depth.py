"""Views of a book: levels, depth, resting orders and queue positions."""

import msgspec

from clob.order import Side


class Level(msgspec.Struct, frozen=True, gc=False):
    """Total of the orders at one price of one side."""

    price: int
    """Price in ticks."""
    size: int
    """Total remaining size, in wei."""
    num_orders: int
    """Number of orders."""


class Depth(msgspec.Struct, frozen=True):
    """An immutable snapshot of the price levels of a book."""

    market: str
    """Market of the book; empty for a book without a matcher."""
    token: str
    """Token of the book."""
    seq: int
    """Number of the last event included; apply events from ``seq + 1`` on."""
    bids: tuple[Level, ...]
    """Buy levels, highest price first."""
    asks: tuple[Level, ...]
    """Sell levels, lowest price first."""

    def _repr_html_(self) -> str:
        """Draw the ladder for a notebook."""
        from clob import ladder  # noqa: PLC0415 - `import clob` starts without it

        return ladder.ladder_html(self)


class Ahead(msgspec.Struct, frozen=True, gc=False):
    """Orders ahead of an order in its queue, which trade before it."""

    num_orders: int
    """Number of orders ahead at the same price."""
    size: int
    """Total remaining size, in wei."""


class Resting(msgspec.Struct, frozen=True, gc=False):
    """One resting order of a book."""

    order_id: str | int
    """Id of the order."""
    side: Side
    """Buy or sell."""
    price: int
    """Limit price, in ticks."""
    remaining: int
    """Remaining size, in wei."""
    maker: str
    """Owner of the order; ``owner:N`` for owner number N of a record, empty for none."""
    expiration_s: int
    """Last Unix second in which it may trade; 0 means no expiration."""
