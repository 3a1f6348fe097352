"""Reads and writes the resting orders of a snapshot; the compiled form does so in bulk."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from clob.codec import write
from clob.matcher.state_records import OrderSnapshot, OutcomeState, Text

if TYPE_CHECKING:
    from array import array

    from clob.matcher.entities import MarketState, OrderEntry
    from clob.matcher.order_index import OrderIndex


class OrderReader(Protocol):
    """The part of the reader of a snapshot that yields orders."""

    in_bulk: bool

    def orders(self, count: int) -> Iterator[tuple[int, OrderSnapshot, str]]:
        """Yield the next orders, each with its offset and maker."""


def restore_orders(
    index: "OrderIndex",
    reader: OrderReader,
    market_state: "MarketState",
    count: int,
    is_yes: bool,
) -> None:
    """Rest the orders of a book in a snapshot, asleep.

    Args:
        index: the engine that is restored.
        reader: the snapshot, before the first of the orders.
        market_state: their market, which is not complementary.
        count: number of orders.
        is_yes: whether they are for YES.

    Raises:
        ClobError, LookupError, ValueError: the bytes or the orders are invalid, or the orders are
            not in the sequence of their queues.
    """
    book = market_state.yes_book if is_yes else market_state.no_book
    if index.restore_book(market_state, reader.orders(count), is_yes) != book.ids():
        raise ValueError(f"the orders of market {market_state.market.id!r} are not sorted")


def are_distinct(numbers: "array[int]") -> bool:
    """Return whether no number of an array of type ``q`` appears twice."""
    return len(set(numbers)) == len(numbers)


def order_pieces(
    index: "OrderIndex", ids: list[str | int], makers: dict[str, int], has_outcomes: bool
) -> Iterator[bytes]:
    """Yield the bytes of orders, in pieces of one or more orders.

    Args:
        index: the engine.
        ids: their ids.
        makers: the index of each maker in the snapshot; those of new makers are added.
        has_outcomes: whether the token of each order precedes it.
    """
    for order_id in ids:
        entry = index.entry_of(order_id)
        if has_outcomes:
            yield write(OutcomeState(entry.is_yes))
        yield _order_bytes(entry, makers)


def _order_bytes(entry: "OrderEntry", makers: dict[str, int]) -> bytes:
    """Return the bytes of an order; the first one of a maker is followed by the maker's name."""
    maker = entry.maker_state.maker
    place = makers.get(maker)
    if place is not None:
        return write(entry.state(place))
    makers[maker] = place = len(makers)
    return write(entry.state(place)) + write(Text(maker))
