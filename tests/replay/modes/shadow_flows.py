"""Random recorded flows with fills: most by price-time priority, some different."""

import numpy as np
from hypothesis import strategies as st

from clob.records import EVENT, EVENT_FIELDS, Flag, Kind
from tests.replay.modes.plain_shadow import PlainBook

KINDS = [
    *[Kind.LIMIT] * 6,
    *[Kind.IOC] * 4,
    Kind.CANCEL,
    Kind.CANCEL,
    Kind.REDUCE,
    Kind.REPLACE,
    Kind.REPLACE,
    Kind.SEED,
    Kind.CLEAR,
]
FLAGS = [0, 0, 0, 0, 0, Flag.POST_ONLY, Flag.FOK]
MISREAD = [0, 0, 0, 0, 1, 2, 3, 4]
"""How recorded fills are changed: not, first order skipped, one lot less, unknown order,
reversed."""


def flows(*, kinds=tuple(KINDS), flags=tuple(FLAGS), misread=tuple(MISREAD), books=2):
    """A strategy for the parameters of a flow."""
    one = st.tuples(
        st.sampled_from(kinds),
        st.integers(0, 1),
        st.integers(46, 54),
        st.integers(1, 12),
        st.integers(0, 30),
        st.sampled_from(flags),
        st.sampled_from(misread),
        st.integers(0, 3),
        st.integers(0, books - 1),
    )
    return st.lists(one, max_size=60)


def flow_of(rows, *, has_fills):
    """Convert drawn parameters to events, with the recorded fills after their commands."""
    books = (PlainBook(), PlainBook())
    events, ts_ns = [], 0
    for number, (kind, side, price, size, choice, flag, misread, pause, where) in enumerate(rows):
        book = books[where]
        ts_ns += pause
        order_id = number + 1
        resting = [e.order_id for e in book.entries]
        if kind in (Kind.CANCEL, Kind.REDUCE, Kind.REPLACE) and resting:
            order_id = resting[choice % len(resting)]
            side = book.find(order_id).side
        elif kind == Kind.LIMIT and choice == 30 and resting:
            # The id of a resting order: rejected.
            order_id = resting[0]
        flags = int(flag) if kind in (Kind.LIMIT, Kind.REPLACE) else 0
        if kind == Kind.REPLACE:
            flags &= ~int(Flag.FOK)
        row = event(ts_ns, kind, order_id, side, price, size, flags, where)
        fills = natural(book, row)
        if misread and kind in (Kind.LIMIT, Kind.IOC, Kind.REPLACE) and has_fills:
            fills = bent(book, row, fills, misread)
        book.apply(row, fills if has_fills else None)
        events.append(row)
        if has_fills:
            for one, filled, at in fills:
                events.append(event(ts_ns, Kind.FILL, one, 1 - side, at, filled, 0, where))
    return np.array([tuple(row.item()) for row in events], EVENT) if events else np.zeros(0, EVENT)


def event(ts_ns, kind, order_id, side, price, size, flags, instrument):
    """Make one event."""
    row = np.zeros(1, EVENT)[0]
    for name in EVENT_FIELDS:
        if name in locals():
            row[name] = locals()[name]
    return row


def natural(book, row):
    """Return the fills by price-time priority."""
    copy = PlainBook()
    for entry in book.entries:
        copy.entries.append(type(entry)(entry.order_id, entry.side, entry.price, entry.left))
    return copy.apply(row, None)[1]


def bent(book, row, fills, misread):
    """Return fills that differ from price-time priority."""
    if misread == 1:
        facing = book.crossed(int(row["side"]), int(row["price"]), own=False)[1:]
        left, found = int(row["size"]), []
        for entry in facing:
            if left:
                found.append((entry.order_id, min(left, entry.left), entry.price))
                left -= found[-1][1]
        return found
    if misread == 2 and fills:
        *rest, (one, size, price) = fills
        return [*rest, (one, size - 1, price)] if size > 1 else rest
    if misread == 3:
        return [*fills, (1_000, 2, int(row["price"]))]
    return fills[::-1]
