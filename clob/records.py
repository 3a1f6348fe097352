"""The records of the batch door: one event, one fill, the best prices, kinds and flags.

``EVENT``, ``FILL`` and ``BEST`` are aligned NumPy dtypes of 56, 48 and 48 bytes. NumPy is imported
when one of them is first asked for, so that an engine without batches does not need it.
"""

import enum
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from clob.order import Word

if TYPE_CHECKING:
    import numpy as np

    EVENT: np.dtype[np.void]
    FILL: np.dtype[np.void]
    BEST: np.dtype[np.void]

EVENT_FIELDS = {
    "ts_ns": "<i8",
    "recv_ns": "<i8",
    "seq": "<u8",
    "order_id": "<u8",
    "size": "<i8",
    "owner": "<u4",
    "price": "<i4",
    "instrument": "<u2",
    "kind": "u1",
    "side": "u1",
    "flags": "<u2",
}
"""The fields of an event: exchange and local time in ns, sequence of the source, order, size in
lots, owner (0 is nobody), price in ticks, instrument, :class:`Kind`, side, :class:`Flag`."""

LOTS_MAX = 2**63 - 1
"""The largest size that a record holds, in lots."""


class EventRow(NamedTuple):
    """One event as plain integers, in the sequence of :data:`EVENT_FIELDS`, where they stand."""

    ts_ns: int
    recv_ns: int
    seq: int
    order_id: int
    size: int
    owner: int
    price: int
    instrument: int
    kind: int
    side: int
    flags: int


FILL_FIELDS = {
    "event": "<u8",
    "resting_id": "<u8",
    "incoming_id": "<u8",
    "size": "<i8",
    "price": "<i4",
    "ts_ns": "<i8",
}
"""The fields of a fill: index of its event in the array passed, both orders, size in lots, price
in ticks, time of its event."""

BEST_FIELDS = {
    "event": "<u8",
    "ts_ns": "<i8",
    "bid_size": "<i8",
    "ask_size": "<i8",
    "bid": "<i4",
    "ask": "<i4",
    "instrument": "<u2",
}
"""The fields of a row of best prices: index of the event that changed them, its time, how much
rests at the best bid and ask, in lots and at most :data:`LOTS_MAX`, both prices in ticks, the
instrument of the event. A side without orders has size 0, and the price next to the end of the
grid: ``lo - 1`` as bid, ``hi + 1`` as ask."""

_FIELDS = {"EVENT": EVENT_FIELDS, "FILL": FILL_FIELDS, "BEST": BEST_FIELDS}


class Kind(Word):
    """What an event is. Below 16 a command, from 16 on a record to compare with."""

    LIMIT = 0
    """Match; rest what is left."""
    CANCEL = 1
    """Remove the order."""
    REDUCE = 2
    """Make ``size`` what remains of the order; it keeps its place in the queue."""
    IOC = 3
    """Match; what is left vanishes."""
    REPLACE = 4
    """Give the order another price, and make ``size`` what remains of it."""
    CLEAR = 5
    """Remove every order."""
    SEED = 6
    """Rest without matching."""
    LEVEL = 7
    """A level of a feed without orders; for readers, refused by ``run``."""
    TRADE = 16
    """Recorded: a trade."""
    FILL = 17
    """Recorded: a fill of one resting order."""
    BBO = 18
    """Recorded: the best prices."""
    SETTLE = 19
    """Recorded: the outcome."""


class Flag(enum.IntFlag):
    """Bits of an event's ``flags``; bits 4 to 6 hold a :class:`~clob.SelfTrade` policy."""

    POST_ONLY = 1
    """Refused if it would trade at once."""
    FOK = 2
    """Refused unless all of it trades at once."""
    SELF_TRADE = 0b111 << 4
    """Where the self-trade policy stands."""
    SNAPSHOT = 256
    """Part of a snapshot of the source; says nothing to the book."""
    SYNTHETIC = 512
    """Made by a reader, not by the source; says nothing to the book."""


SELF_TRADE_SHIFT = 4
"""How far a self-trade policy is shifted inside ``flags``."""


@functools.cache
def _dtype(name: str) -> Any:
    """Build the dtype of that name once, so that there is one object to compare with."""
    import numpy as np  # noqa: PLC0415 - on first use, see the head of the file

    return np.dtype(list(_FIELDS[name].items()), align=True)


def __getattr__(name: str) -> Any:
    """Give ``EVENT``, ``FILL`` and ``BEST`` on first use."""
    if name in _FIELDS:
        return _dtype(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
