"""What may be asked of one book: commands as values, so that a stream of them can be kept.

A command carries everything its execution depends on, the time and the ids included.
"""

from typing import TypeAlias

import msgspec

from clob.order import Order, SelfTrade


class Submit(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """Match an order, and rest what is left of it."""

    market: str = ""
    """The market it is for; empty where a book stands alone."""
    order: Order
    """The order."""
    now_ms: int = 0
    """The time of the command, Unix milliseconds."""


class Cancel(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """Take an order out of the book."""

    market: str = ""
    """The market it rests in; empty where a book stands alone."""
    order_id: str | int
    """The order."""
    now_ms: int = 0
    """The time of the command, Unix milliseconds."""


class Reduce(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """Make an order smaller where it stands in its queue."""

    market: str = ""
    """The market it rests in; empty where a book stands alone."""
    order_id: str | int
    """The order."""
    size: int
    """What is to remain of it, in wei."""
    now_ms: int = 0
    """The time of the command, Unix milliseconds."""


class Replace(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """Give an order another price or size."""

    market: str = ""
    """The market it rests in; empty where a book stands alone."""
    order_id: str | int
    """The order."""
    price: int
    """Its new limit, in ticks."""
    size: int
    """What is to remain of it, in wei."""
    now_ms: int = 0
    """The time of the command, Unix milliseconds."""
    post_only: bool = False
    """Refused if it would trade at once."""
    self_trade: SelfTrade | None = None
    """What happens where it meets its maker's own orders."""


Command: TypeAlias = Submit | Cancel | Reduce | Replace
"""Anything one may ask of a book."""
