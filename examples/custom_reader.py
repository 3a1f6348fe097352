"""A reader of your own: lines of JSON become a stream that replays and backtests accept.

    python examples/custom_reader.py [FILE]

A line is {"t": seconds, "id": 7, "do": "add", "side": "buy", "cents": 40, "size": 25}, where
"do" is add, take (an order that trades at once) or cancel. Without a file it reads a small sample.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clob.records import EVENT, Kind
from clob.replay import Stream, backtest
from clob.replay.io.recording import Records

SAMPLE = """
{"t": 1.0, "id": 1, "do": "add", "side": "sell", "cents": 52, "size": 40}
{"t": 1.5, "id": 2, "do": "add", "side": "buy", "cents": 50, "size": 10}
{"t": 2.0, "id": 3, "do": "take", "side": "buy", "cents": 52, "size": 15}
{"t": 3.0, "id": 2, "do": "cancel", "side": "buy", "cents": 50, "size": 0}
"""
KINDS = {"add": Kind.LIMIT, "take": Kind.IOC, "cancel": Kind.CANCEL}
SIDES = {"buy": 0, "sell": 1}
CHUNK = 10_000


def read_lines(path: Path | None) -> Iterator[Records]:
    """Yield the events of a file in arrays of at most CHUNK."""
    lines = (path.read_text() if path else SAMPLE).split("\n")
    rows = [json.loads(line) for line in lines if line.strip()]
    for begin in range(0, len(rows), CHUNK):
        part = rows[begin : begin + CHUNK]
        events = np.zeros(len(part), EVENT)
        events["ts_ns"] = [round(row["t"] * 1e9) for row in part]
        events["seq"] = range(begin, begin + len(part))
        events["order_id"] = [row["id"] for row in part]
        events["kind"] = [KINDS[row["do"]] for row in part]
        events["side"] = [SIDES[row["side"]] for row in part]
        events["price"] = [row["cents"] for row in part]
        events["size"] = [row["size"] for row in part]
        yield events


def open_mine(path: Path | None) -> Stream:
    """Return a file as a stream of one YES book, its sizes in whole tokens."""
    return Stream(
        lambda: read_lines(path), lo=1, hi=99, lot_wei=10**18, name=path.name if path else "sample"
    )


result = backtest(open_mine(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
print(result)
for trade in result.fills:
    print(f"{trade['size']} at {trade['price']} against order {trade['resting_id']}")
print(result.books[0])
