"""``submit`` and ``cancel``, one at a time, compared with the book of ``user_book.py``.

Both sides get new text ids (a cancel's id is another object than its order's id), run in loops of
the same shape, and keep all returned values, like a program that publishes them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import floor
from benchmarks.flow import CANCEL
from benchmarks.measure import Pair, Row, alternate, at_least, check_equal, timed
from benchmarks.user_book import UserBook, UserTrade
from benchmarks.workload import WEI_PER_LOT, Workload, load
from clob import Book, Order, Side, Trade

TOKEN = "101"
MAKERS = [f"0x{number:040x}" for number in range(1, 1001)]
SIDES = (Side.BUY, Side.SELL)
ROUNDS, ROUNDS_QUICK = 9, 3
NUM_TIMED, TIMED_QUICK = 290_000, 10_000

Action = tuple[bool, Any, int, int, int]


def text_id(number: int) -> str:
    """Return a text id of 21 characters, a typical length."""
    return f"ord_{1_700_000_000 + number // 100}_{number:06x}"


def dense_id(text: str | int) -> int:
    """Return the number in a text id."""
    return int(str(text)[15:], 16)


def maker_of(name: str) -> str:
    """Return the maker of an order, one of a thousand shared texts."""
    return MAKERS[dense_id(name) % len(MAKERS)]


def make_order(name: str, side: int, price: int, size: int) -> Order:
    """Return an order; ``size`` in wei."""
    maker = maker_of(name)
    return Order(id=name, token=TOKEN, maker=maker, side=SIDES[side], price=price, size=size)


def actions(workload: Workload) -> list[Action]:
    """Return a stream as tuples: whether a cancel, id, side, price, wei; every id a new object."""
    columns = (workload.op, workload.order_id, workload.side, workload.price, workload.size)
    return [
        (op == CANCEL, text_id(number), side, price, lots * WEI_PER_LOT)
        for op, number, side, price, lots in zip(*(c.tolist() for c in columns), strict=True)
    ]


def with_orders(plain: list[Action]) -> list[Action]:
    """Return actions with an order object in place of the id, except for cancels."""
    return [
        (cancels, name if cancels else make_order(name, side, price, size), side, price, size)
        for cancels, name, side, price, size in plain
    ]


def with_makers(plain: list[Action]) -> list[tuple[Any, ...]]:
    """Return actions with an enum member as side and the maker at the end."""
    return [
        (cancels, name, SIDES[side], price, size, maker_of(name))
        for cancels, name, side, price, size in plain
    ]


def drive_user(book: UserBook, todo: list[Action], keep: Callable[[Any], None]) -> None:
    """Run actions through the user's book, with positional arguments."""
    add, cancel = book.add, book.cancel
    for cancels, name, side, price, size in todo:
        if cancels:
            keep(cancel(name))
        else:
            keep(add(name, side, price, size))


def drive_prebuilt(book: Book, todo: list[Action], keep: Callable[[Any], None]) -> None:
    """Run actions through the book with prebuilt orders."""
    submit, cancel = book.submit, book.cancel
    for cancels, subject, _side, _price, _size in todo:
        if cancels:
            keep(cancel(subject))
        else:
            keep(submit(subject))


def drive_built(book: Book, todo: list[tuple[Any, ...]], keep: Callable[[Any], None]) -> None:
    """Run actions through the book and build each order inside the timed loop."""
    submit, cancel = book.submit, book.cancel
    for cancels, name, side, price, size, maker in todo:
        if cancels:
            keep(cancel(name))
        else:
            keep(
                submit(Order(id=name, token=TOKEN, maker=maker, side=side, price=price, size=size))
            )


FORMS = {"Order prebuilt": (drive_prebuilt, with_orders), "Order built": (drive_built, with_makers)}


def once(
    workload: Workload, book: Any, drive: Any, prepare: Any = list, *, gc_enabled: bool = True
) -> tuple[int, list[Any]]:
    """Run a stream through a book.

    Returns:
        The nanoseconds of the timed part, and all values that its calls returned.
    """
    todo = prepare(actions(workload))
    drive(book, todo[: workload.prefill], lambda _: None)
    ready, kept = todo[workload.prefill :], []
    taken_ns = timed(lambda: drive(book, ready, kept.append), gc_enabled=gc_enabled)
    return taken_ns, kept


def trades(kept: list[Any]) -> floor.Stream:
    """Count and hash the trades in the values that either book returned."""
    rows = []
    for returned in kept:
        for event in returned if isinstance(returned, list) else ():
            if isinstance(event, UserTrade):
                ids: tuple[str | int, str | int] = (event.resting, event.incoming)
            elif isinstance(event, Trade):
                ids = (event.resting_order_id, event.incoming_order_id)
            else:
                continue
            rows.append((*map(dense_id, ids), event.price, event.size // WEI_PER_LOT))
    table = np.array(rows, dtype=np.uint64).reshape(-1, 4)
    return floor.Stream(len(rows), 0, floor.hash_fills(list(table.T)))


def compare(workload: Workload, form: str, rounds: int, *, gc_enabled: bool) -> Pair:
    """Check that both books make the same trades, then measure."""
    drive, prepare = FORMS[form]

    def other() -> tuple[int, list[Any]]:
        return once(workload, UserBook(), drive_user, gc_enabled=gc_enabled)

    def ours() -> tuple[int, list[Any]]:
        return once(workload, Book(token=TOKEN), drive, prepare, gc_enabled=gc_enabled)

    check_equal(form, trades(other()[1]), trades(ours()[1]))
    return alternate(lambda: other()[0], lambda: ours()[0], workload.num_timed, rounds)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of the table."""
    rounds, num_timed = (ROUNDS_QUICK, TIMED_QUICK) if quick else (ROUNDS, NUM_TIMED)
    for name, form, limit, gc_enabled in (
        ("mixed", "Order prebuilt", 2.5, True),
        ("mixed", "Order built", 2.0, True),
        ("mixed", "Order prebuilt", None, False),
        ("add_cancel", "Order prebuilt", None, True),
        ("sweep", "Order prebuilt", None, True),
    ):
        title = f"submit {name}, {form}{'' if gc_enabled else ', no gc'} / user"
        pair = compare(load(name).head(num_timed), form, rounds, gc_enabled=gc_enabled)
        yield at_least(title, limit, pair)
