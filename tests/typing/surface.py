"""What a type checker sees of the public names; checked by mypy, never run."""

from typing import assert_type

from clob import (
    Ahead,
    Book,
    Depth,
    Event,
    Level,
    Order,
    OrderAdded,
    OrderReduced,
    OrderRemoved,
    Side,
    TimeInForce,
    Trade,
    tokens,
)

book = Book(lo=1, hi=99, token="101")
order = Order(id="a", token="101", maker="0xA11CE", side=Side.SELL, price=50, size=tokens(60))

assert_type(tokens("0.5"), int)
assert_type(order.id, str | int)
assert_type(order.time_in_force, TimeInForce)

assert_type(book.submit(order, now_ms=1), list[Event])
assert_type(book.rest(order), list[Event])
assert_type(book.cancel("a"), list[Event])
assert_type(book.reduce("a", size=1), list[Event])
assert_type(book.replace("a", price=2, size=1), list[Event])
assert_type(book.expire(now_ms=1), list[Event])
assert_type(book.clear(), list[Event])
assert_type(book.simulate(order), list[Trade])
assert_type(book.fork(), Book)
assert_type(book.state_hash(), bytes)
assert_type(book.state_bytes(), bytes)
assert_type(book.best_bid, int | None)
assert_type(book.seq, int)
assert_type(book.ahead("a"), Ahead)
assert_type(book.depth(), Depth)
assert_type(book.depth().bids, tuple[Level, ...])


def size_of(event: Event) -> int:
    """Name every kind of event; the checker sees that none is missing."""
    match event:
        case OrderAdded(remaining=size) | OrderReduced(remaining=size):
            return assert_type(size, int)
        case OrderRemoved(remaining=size) | Trade(size=size):
            return assert_type(size, int)


Order(id="a", token="101", maker="", side=0, price=1, size=1)  # type: ignore[arg-type]
Order("a", "101", "", Side.BUY, 1, 1)  # type: ignore[call-arg]
book.submit(order).append(1)  # type: ignore[arg-type]
