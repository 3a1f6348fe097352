"""Reads the market-by-order records of an exchange: every order added, changed and deleted.

The action of a record is ``A`` for a new order, ``C`` for a cancel, ``M`` for a modification,
``T`` for a trade with the side of the incoming order, ``F`` for the fill of a resting order, or
``R`` for a reset of the book. Trades and fills do not change the book; the ``C``, ``M`` and ``A``
records after them do. A flag marks the last record of an event of the exchange. The reader
concludes:

- A trade is an ``IOC`` of the incoming order with one ``FILL`` per resting order. A resting order
  that was modified so that it trades is cancelled first.
- A ``C`` or ``M`` that only repeats the effect of the fills is skipped. One that differs, as for
  the next part of an iceberg order, becomes an event after the fills.
- A ``C`` without a fill is self-trade prevention if the order was at least as good as the price of
  a trade or of a new order of the same event. It is moved before the trade.
- An ``M`` at the same price with a lower size keeps the place in the queue; any other loses it.
- A snapshot and an opening auction, before continuous trading, are read only for the orders that
  rest at their end. These are the seed.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, plain_name
from clob.replay.io.npz import read_arrays
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records, ticks_per_token
from clob.replay.io.streams import INVENTED_ID, Instrument, Stream
from clob.replay.io.text import TIME_NS_MAX
from clob.replay.readers.mbo_book import BLOCK_ROWS, LAST, NOBODY, SNAPSHOT, MboReader, MboRow

FIELDS = ("ts_recv", "ts_event", "action", "side", "price", "size", "order_id", "flags")
"""The fields of a record that are read; prices are in units of 10**-9."""


def read_mbo(
    path: FilePath,
    *,
    tick: int | None = None,
    offset: int = 0,
    grid: tuple[int, int] | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read market-by-order records of one instrument from an ``.npz`` file.

    Args:
        path: a file with an array ``events`` of records with the fields of ``FIELDS``.
        tick: the tick in units of the file, 10**-9; None takes the largest that divides all
            prices.
        offset: subtracted from every price, in ticks, to move the start of the grid.
        grid: lowest and highest price to read, in ticks after the offset; an order that moves out
            of it is cancelled, one that moves in is new. None takes all prices that occur.
        on_problem: the policy for inconsistent records.

    Returns:
        The stream. The records are held in memory; events are produced while reading.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: the array ``events`` is missing, lacks a field, or is empty.
    """
    try:
        records = read_arrays(Path(path)).get("events")
    except ReplayFormatError as error:
        raise ReplayFormatError(f"{plain_name(path)}: {error}") from error
    names = () if records is None or records.ndim != 1 else records.dtype.names
    if records is None or not set(FIELDS) <= set(names or ()) or not len(records):
        raise ReplayFormatError(
            f"{plain_name(path)}: expected a non-empty array 'events' with {', '.join(FIELDS)}"
        )
    return stream_of(records, path, tick=tick, offset=offset, grid=grid, on_problem=on_problem)


def stream_of(
    records: Records,
    path: FilePath,
    *,
    tick: int | None = None,
    offset: int = 0,
    grid: tuple[int, int] | None = None,
    on_problem: Policy = "raise",
    loaded: Sequence[Problems] = (),
) -> Stream:
    """Make a stream of market-by-order records.

    Args:
        records: an array of records with the fields of ``FIELDS``.
        path: their file, for reports.
        tick: this and the following are as in :func:`read_mbo`.
        offset: subtracted from every price, in ticks.
        grid: lowest and highest price to read, in ticks after the offset.
        on_problem: the policy for inconsistent records.
        loaded: problems found while loading the records; they are part of every reading.

    Raises:
        ReplayFormatError: there are no order records, a price is not a multiple of the tick, or a
            number is out of range.
    """
    name, problems = plain_name(path), Problems(on_problem)
    prices = records["price"][records["action"] != b"R"]
    if not len(prices):
        raise ReplayFormatError(f"{name}: the file has no records of orders")
    if tick is None:
        tick = math.gcd(*np.unique(prices).tolist()) or 1
    if (prices % tick).any():
        raise ReplayFormatError(f"{name}: prices must be multiples of the tick {tick}")
    if int(records["order_id"].max()) >= INVENTED_ID or int(records["size"].min()) < 0:
        raise ReplayFormatError(
            f"{name}: order ids must be below {INVENTED_ID} and sizes 0 or more"
        )
    lo, hi = grid or (int(prices.min()) // tick - offset, int(prices.max()) // tick - offset)
    if not -(2**31) < lo - 1 <= hi + 1 < 2**31:
        raise ReplayFormatError(
            f"{name}: grid must be increasing and fit 32 bits; got {lo} to {hi} ticks"
        )

    def blocks() -> Iterator[Records]:
        problems.gather(loaded)
        reader = MboReader(lo, hi, path, problems)
        return reader.events(_rows(records, tick, offset), _opening(records))

    return Stream(
        blocks,
        lo=lo,
        hi=hi,
        lot_wei=10**18,
        instruments=[Instrument(0, name.partition(".")[0])],
        name=name,
        note="market-by-order records",
        problems=problems,
        scale=ticks_per_token(10**9, tick),
    )


def _opening(records: Records) -> int:
    """Count the records before continuous trading: a snapshot, an opening auction."""
    trades = records["action"] == b"T"
    continuous = np.flatnonzero(trades & (records["side"] != NOBODY))
    first = int(continuous[0]) if len(continuous) else len(records)
    before = np.flatnonzero(trades[:first])
    shown = np.flatnonzero((records["flags"][:first] & SNAPSHOT) != 0)
    start: int = max([-1, *before[-1:].tolist(), *shown[-1:].tolist()]) + 1
    if len(before):
        # The effects of the auction on the book belong to it.
        last = np.flatnonzero((records["flags"][start:first] & LAST) != 0)
        start += int(last[0]) + 1 if len(last) else 0
    return start


def _rows(records: Records, tick: int, offset: int) -> Iterator[MboRow]:
    numbers = itertools.count(1)
    for start in range(0, len(records), BLOCK_ROWS):
        part = records[start : start + BLOCK_ROWS]
        columns = [part[field].tolist() for field in FIELDS]
        # A missing receive time has all bits set.
        received, event_ns = (part[field].astype(np.uint64) for field in FIELDS[:2])
        columns[0] = np.where(received > TIME_NS_MAX, event_ns, received).tolist()
        columns[4] = (part["price"].astype(np.int64) // tick - offset).tolist()
        yield from map(MboRow, *columns, numbers)
