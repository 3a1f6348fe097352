"""Rests the orders of a snapshot in their book, asleep; the compiled form reads them in bulk."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from clob.matcher.state_records import OrderSnapshot

if TYPE_CHECKING:
    from array import array

    from clob.matcher.entities import MarketState
    from clob.matcher.order_index import OrderIndex


class OrderReader(Protocol):
    """The part of the reader of a snapshot that yields orders."""

    def orders(self, count: int) -> Iterator[tuple[int, OrderSnapshot, str]]:
        """Yield the next orders, each with its offset and maker."""


def restore_orders(
    index: "OrderIndex",
    reader: OrderReader,
    market_state: "MarketState",
    count: int,
    is_yes: bool,
) -> list[str | int]:
    """Rest the next orders of a snapshot in the order of their queues; return their ids.

    Args:
        index: the empty engine that is restored.
        reader: the snapshot, before the first of the orders.
        market_state: their market.
        count: number of orders.
        is_yes: whether they are for YES.

    Raises:
        ClobError, LookupError, ValueError: the bytes or the orders are invalid.
    """
    return index.restore_book(market_state, reader.orders(count), is_yes)


def are_distinct(numbers: "array[int]") -> bool:
    """Return whether no number of an array of type ``q`` appears twice."""
    return len(set(numbers)) == len(numbers)
