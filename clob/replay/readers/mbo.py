"""Reads market-by-order records as exchanges publish them: each order added, changed, taken out.

A record has an action: ``A`` a new order, ``C`` one taken out, ``M`` one changed, ``T`` a trade
with the incoming order and its side, ``F`` a fill of a resting order, ``R`` all orders taken out.
Trades and fills say what happened, and the ``C``, ``M`` and ``A`` behind them what that did to the
book; the last record of all that happened at once bears a flag. From this follows:

- A trade is an ``IOC`` of the incoming order with a ``FILL`` for each resting one; an order that
  rested and was changed so that it trades leaves the book before.
- A ``C`` or ``M`` that only repeats what the fills did is left out. Where it differs, as when the
  next part of an order that shows only parts comes up, it follows behind the fills.
- A ``C`` of an order that was at the price of a trade or of an order come in at the same time, or
  at a better one, and got no fill is self-trade prevention of the exchange: the order is taken out
  before.
- An ``M`` at the same price that makes the order smaller keeps its place; any other does not.
- What comes before continuous trading, a snapshot and an opening auction, is read for the orders
  that it leaves; they are the seed.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, plain_name
from clob.replay.io.npz import read_arrays
from clob.replay.io.problems import Policy, Problems
from clob.replay.io.recording import Records, ticks_of
from clob.replay.io.streams import INVENTED_ID, Instrument, Stream
from clob.replay.io.text import TIME_NS_MAX
from clob.replay.readers.mbo_book import BLOCK_ROWS, LAST, NOBODY, SNAPSHOT, MboReader, MboRow

FIELDS = ("ts_recv", "ts_event", "action", "side", "price", "size", "order_id", "flags")
"""The fields of a record that matter; prices are money times 10**9."""


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
        tick: what a tick is in the prices of the file, which are money times 10**9; None takes
            the largest that divides all prices.
        offset: is taken off every price, in ticks, so that a book can begin where one likes.
        grid: the lowest and the highest price to read, in ticks after that; an order that moves
            out of it is taken out, one that moves in is new. None takes all prices that occur.
        on_problem: what becomes of records that cannot be.

    Returns:
        The stream. The records are held in memory; the events are made as they are read.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: it has no such array, or no record.
    """
    arrays = read_arrays(Path(path))
    records = arrays.get("events")
    if records is None or not set(FIELDS) <= set(records.dtype.names or ()) or not len(records):
        raise ReplayFormatError(f"{plain_name(path)}: no array `events` with {', '.join(FIELDS)}")
    return stream_of(records, path, tick=tick, offset=offset, grid=grid, on_problem=on_problem)


def stream_of(
    records: Records,
    path: FilePath,
    *,
    tick: int | None = None,
    offset: int = 0,
    grid: tuple[int, int] | None = None,
    on_problem: Policy = "raise",
    earlier: Problems | None = None,
) -> Stream:
    """Make a stream of market-by-order records.

    Args:
        records: an array of records with the fields of ``FIELDS``.
        path: the file they are of, for reports.
        tick: see :func:`read_mbo`, as for the following.
        offset: is taken off every price, in ticks.
        grid: the lowest and the highest price to read, in ticks after that.
        on_problem: what becomes of records that cannot be.
        earlier: the problems there were in getting at the records; they count in every reading.

    Returns:
        The stream.

    Raises:
        ReplayFormatError: no record is of an order, a price is no multiple of the tick, or a
            number is out of range.
    """
    problems = Problems(on_problem)
    priced = records["action"] != b"R"
    prices = records["price"][priced]
    if not len(prices):
        raise ReplayFormatError(f"{plain_name(path)}: no record of any order")
    if tick is None:
        tick = math.gcd(*np.unique(prices).tolist()) or 1
    if (prices % tick).any():
        raise ReplayFormatError(f"{plain_name(path)}: a price is no multiple of the tick {tick}")
    if int(records["order_id"].max()) >= INVENTED_ID or int(records["size"].min()) < 0:
        raise ReplayFormatError(f"{plain_name(path)}: an order id or a size is out of range")
    lo, hi = grid or (int(prices.min()) // tick - offset, int(prices.max()) // tick - offset)
    if not -(2**31) < lo - 1 <= hi + 1 < 2**31:
        raise ReplayFormatError(f"{plain_name(path)}: prices from {lo} to {hi} ticks are no grid")
    name = plain_name(path)

    def blocks() -> Iterator[Records]:
        """Go through the records anew."""
        problems.gather([] if earlier is None else [earlier])
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
        scale=ticks_of(10**9, tick),
    )


def _opening(records: Records) -> int:
    """Find how many records come before continuous trading: a snapshot, an opening auction."""
    trades = records["action"] == b"T"
    continuous = np.flatnonzero(trades & (records["side"] != NOBODY))
    first = int(continuous[0]) if len(continuous) else len(records)
    before = np.flatnonzero(trades[:first])
    shown = np.flatnonzero((records["flags"][:first] & SNAPSHOT) != 0)
    start: int = max([-1, *before[-1:].tolist(), *shown[-1:].tolist()]) + 1
    if len(before):
        # What the auction did to the book belongs to it.
        last = np.flatnonzero((records["flags"][start:first] & LAST) != 0)
        start += int(last[0]) + 1 if len(last) else 0
    return start


def _rows(records: Records, tick: int, offset: int) -> Iterator[MboRow]:
    """Give the records one by one."""
    number = 0
    for start in range(0, len(records), BLOCK_ROWS):
        part = records[start : start + BLOCK_ROWS]
        columns = [part[field].tolist() for field in FIELDS]
        # Where nobody took down when it was received, all bits are set.
        received, happened = (part[field].astype(np.uint64) for field in FIELDS[:2])
        columns[0] = np.where(received > TIME_NS_MAX, happened, received).tolist()
        columns[4] = (part["price"].astype(np.int64) // tick - offset).tolist()
        for values in zip(*columns, strict=True):
            number += 1
            yield MboRow._make((*values, number))
