"""What the events of a chunk may reach: worked out at once, so that few of them are looked at.

An own order is concerned by the events that trade at its price or beyond, as far as the recorded
fills and the limits show before they are executed.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clob.records import Flag, Kind
from clob.replay.recording import Records

LOW, HIGH = -(2**31), 2**31 - 1
FOK = int(Flag.FOK)


class Reach(NamedTuple):
    """What the events of a chunk may reach, worked out when there are own orders.

    What is unknown counts as more than it is, so that nothing that reaches an own order is missed.
    """

    below: npt.NDArray[np.int64]
    """Each event may concern own buy orders at this price and above; ``HIGH`` if none."""
    above: npt.NDArray[np.int64]
    """Each event may concern own sell orders at this price and below; ``LOW`` if none."""
    lowest: npt.NDArray[np.int64]
    """The lowest price of a recorded fill of each, if that may be of a buy order; or ``HIGH``."""
    highest: npt.NDArray[np.int64]
    """The highest price of a recorded fill of each, if that may be of a sell order; or ``LOW``."""
    joined: npt.NDArray[np.int64]
    """Index in the stream of the event by which any of those that each filled joined its queue
    last, at most."""
    moves: list[int]
    """The places of replacements."""
    move_prices: list[int]
    """Their prices."""
    joins: npt.NDArray[np.int64]
    """The places of the events by which an order may join a queue."""
    join_ids: npt.NDArray[np.uint64]
    """The orders of those."""
    join_prices: npt.NDArray[np.int32]
    """Their prices."""


def reach_of(events: Records, base: int, *, verifies: bool) -> Reach:
    """Work out what the events of a chunk may reach.

    Args:
        events: array of ``EVENT``.
        base: index in the stream of the first.
        verifies: whether what came of them was recorded.
    """
    kind, side = (np.ascontiguousarray(events[name]) for name in ("kind", "side"))
    price, size = events["price"].astype(np.int64), events["size"].astype(np.int64)
    replaces = kind == Kind.REPLACE
    limits = kind == Kind.LIMIT
    comes = limits | replaces | (kind == Kind.IOC)
    sells, buys = comes & (side == 1), comes & (side == 0)
    rests = limits & ((events["flags"] & np.uint16(FOK)) == 0)
    joins = np.flatnonzero(rests | replaces | (kind == Kind.SEED))
    join_ids = events["order_id"].take(joins)
    lowest, highest = np.full(len(kind), HIGH), np.full(len(kind), LOW)
    joined, filled = np.full(len(kind), LOW), np.zeros(len(kind), np.int64)
    fills = np.flatnonzero(kind == Kind.FILL) if verifies else joins[:0]
    if len(fills):
        causes = np.maximum.accumulate(np.where(kind == Kind.FILL, 0, np.arange(len(kind))))[fills]
        np.add.at(filled, causes, size[fills])
        np.minimum.at(lowest, causes, np.where(sells[causes], price[fills], HIGH))
        np.maximum.at(highest, causes, np.where(buys[causes], price[fills], LOW))
        last = last_joins(joins, join_ids, events["order_id"].take(fills))
        np.maximum.at(joined, causes, last + base)
    # Orders at better prices than a fill are reached whoever came first.
    spare = size > filled
    below = np.minimum(np.where(sells & spare, price, HIGH), lowest + 1)
    above = np.maximum(np.where(buys & spare, price, LOW), highest - 1)
    moves = np.flatnonzero(replaces)
    return Reach(
        *(below, above, lowest, highest, joined, moves.tolist(), price[moves].tolist()),
        *(joins, join_ids, events["price"].take(joins)),
    )


def last_joins(
    joins: npt.NDArray[np.int64],
    join_ids: npt.NDArray[np.uint64],
    ids: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int64]:
    """Find where orders joined their queues last, if they did in a chunk.

    Args:
        joins: the places of the events by which orders join.
        join_ids: the orders of those.
        ids: the orders sought.

    Returns:
        A place each; -1 for those who came before the chunk.
    """
    if not len(joins):
        return np.full(len(ids), -1)
    order = np.argsort(join_ids, kind="stable")
    found = np.maximum(np.searchsorted(join_ids[order], ids, side="right") - 1, 0)
    places = joins[order[found]]
    return np.where(join_ids[order[found]] == ids, places, -1)
