"""Reads the recorded hour of a futures exchange, mapped to prices 1 to 99, as events and fills."""

from typing import NamedTuple

import numpy as np

from clob.records import EVENT, Kind
from tests.real.data import data_file

NAME = "golden_esh4_1_99.npz"


class Golden(NamedTuple):
    """The recorded hour: its seed, commands and fills."""

    seed: np.ndarray
    """``SEED`` events: 1,295 orders, the oldest first."""
    events: np.ndarray
    """49,785 ``LIMIT``, ``CANCEL``, ``REDUCE`` and ``IOC`` events."""
    fills: np.ndarray
    """5,862 rows of event, resting id, size and price, from the exchange's own records."""


def read_golden():
    """Read the file, or skip the test. Its kinds have the numbers of ``Kind``."""
    with np.load(data_file(NAME)) as file:
        seed, commands, fills = file["seed"], file["commands"], file["fills"]
    side, price, size, order_id = seed.T
    resting = events_of(Kind.SEED, side, price, size, order_id)
    ts_ns, kind, side, price, size, order_id, _ = commands.T
    return Golden(resting, events_of(kind, side, price, size, order_id, ts_ns), fills)


def events_of(kind, side, price, size, order_id, ts_ns=0):
    """Convert columns to events; sides in the file are 1 and -1."""
    events = np.zeros(len(side), EVENT)
    columns = {"kind": kind, "price": price, "size": size, "order_id": order_id, "ts_ns": ts_ns}
    for name, column in columns.items():
        events[name] = column
    events["side"] = side < 0
    return events


def columns(fills):
    """Return fills in the columns of the golden file."""
    names = ("event", "resting_id", "size", "price")
    return np.stack([fills[name].astype(np.int64) for name in names], axis=1)
