"""Small files of every format and random mutations: changed, cut and repeated content."""

import dataclasses
import json
import re

import numpy as np

from clob.replay import Stream, synthetic_day, write_npz, write_stream
from tests.matcher_model.worlds import SMALL
from tests.replay.readers import polymarket_messages as poly
from tests.replay.readers import (
    test_betfair,
    test_dbn,
    test_exports,
    test_kalshi,
    test_kalshi_ws,
    test_lobster,
)
from tests.replay.readers.journals import record_flow
from tests.replay.readers.test_mbo import RECORD, SNAP, TICK

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
WORD = re.compile(rb'"[^"\n]*"|[A-Za-z_]+')
ODD = [
    *(b"", b"-", b".", b"0", b"-0", b"-1", b"0.0", b"1.5", b"1e-9", b"1e308", b"1e999", b"NaN"),
    *(b"null", b"true", b"{}", b"[]", b"[", b'"', b'""', b",", b"\n", b"\r\n", b"\x00", b"\xff"),
    *(b"9" * 19, b"9" * 26, b"1" * 70, b"9999-12-31", b"1900-01-01T00:00:00", b"Infinity"),
    *(b"%d" % (2**bits - less) for bits in (31, 53, 63, 64) for less in (0, 1)),
    *(b"-%d" % (2**63 + more) for more in (0, 1)),
]
"""Unusual values."""

NUMBERS = [0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]
"""Values for overwritten fields."""


def lines(*messages):
    """Write messages as JSON lines."""
    return "".join(json.dumps(each) + "\n" for each in messages).encode()


def kalshi():
    """Write a log of best bids."""
    rows = [*test_kalshi.START, test_kalshi.MOVED, ("07:02:40", "A", 10, 90), ("07:03", "B", 0, 7)]
    return (test_kalshi.HEAD + "".join(test_kalshi.row(*each) for each in rows)).encode()


def betfair():
    """Write a stream of a market with two runners, to its end."""
    image = test_betfair.line(9, test_betfair.runner(atb=[[3.1, 4]]), img=True)
    traded = test_betfair.runner(atb=[[3.15, 0.73]], trd=[[3.15, 18]])
    end = test_betfair.definition("CLOSED", ("WINNER", "LOSER"))
    return lines(
        test_betfair.START,
        test_betfair.BOOK,
        test_betfair.line(test_betfair.T + 6, traded),
        image | {"pt": test_betfair.T + 9},
        test_betfair.line(test_betfair.T + 10, definition=end),
    )


def polymarket():
    """Write a dump with books, changes and trades of both outcomes."""
    both = (poly.YES, "BUY", ".50", "10", "0.5", "0.53"), (poly.NO, "SELL", ".50", "10")
    return lines(
        poly.START,
        poly.GONE,
        poly.book(poly.T + 1, poly.NO, bids=[("0.4", "2")], asks=[("0.53", "1")]),
        poly.change(poly.T + 2, *both),
        poly.trade(poly.T + 3, "SELL", "0.50", "4"),
        poly.change(poly.T + 3, (poly.YES, "BUY", ".50", "6")),
        poly.book(poly.T + 9, bids=[("0.47", "1")], asks=[("0.6", "2")]),
    )


def kalshi_ws():
    """Write a dump of a feed."""
    return lines(
        test_kalshi_ws.START,
        test_kalshi_ws.delta(2, "yes", "0.2300", "50.00"),
        test_kalshi_ws.delta(3, "no", "0.5400", "-5.00"),
        test_kalshi_ws.trade("yes", "0.4600", "5.00"),
        test_kalshi_ws.delta(5, "yes", "0.2200", "-333.00"),
        test_kalshi_ws.START,
    )


def dbn():
    """Write records of a market-by-order file."""
    head = b"DBN" + b"\x03" + len(test_dbn.METADATA).to_bytes(4, "little") + test_dbn.METADATA
    return head + b"".join(test_dbn.ROWS)


def table(tmp_path):
    """Write a small day as CSV."""
    path = tmp_path / "day.csv"
    write_stream(path, Stream.of(synthetic_day(1, 60)))
    return path.read_bytes()


def texts(tmp_path):
    """Return files for byte mutations: by format the name, the content, and companion files."""
    journal = record_flow(SMALL, 1, 60)[1]
    book = {"XY_orderbook_2.csv": test_lobster.BOOK.encode()}
    return {
        "lobster": ("XY_message_2.csv", test_lobster.MESSAGES.encode(), book),
        "kalshi": ("bids.csv", kalshi(), {}),
        "betfair": ("market.json", betfair(), {}),
        "polymarket": ("dump.jsonl", polymarket(), {}),
        "kalshi-ws": ("feed.jsonl", kalshi_ws(), {}),
        "dbn": ("es.dbn", dbn(), {}),
        "journal": ("day.journal", journal, {}),
        "export": ("events.jsonl", lines(*test_exports.DAY), {}),
        "table": ("day.csv", table(tmp_path), {}),
    }


def changed(text, draw):
    """Return a text after one or more mutations."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice(WAYS)(text, draw) or b"\n"
    return text


def _replaced(pattern):
    """Return a mutation that replaces a match by an unusual value or by another match."""

    def way(text, draw):
        found = list(pattern.finditer(text))
        if not found:
            return text
        one, other = draw.choice(found), draw.choice(found)
        new = other.group() if draw.random() < 0.3 else draw.choice(ODD)
        return text[: one.start()] + new + text[one.end() :]

    return way


def _put(text, draw):
    place = draw.randrange(len(text) + 1)
    return text[:place] + draw.choice(ODD) + text[place:]


def _gone(text, draw):
    place = draw.randrange(len(text) + 1)
    return text[:place] + text[place + draw.randrange(1, 20) :]


def _cut(text, draw):
    return text[: draw.randrange(len(text) + 1)]


def _flipped(text, draw):
    place = draw.randrange(len(text))
    return text[:place] + bytes([text[place] ^ 1 << draw.randrange(8)]) + text[place + 1 :]


def _swapped(text, draw):
    rows = text.split(b"\n")
    one, other = (draw.randrange(len(rows)) for _ in range(2))
    rows[one], rows[other] = rows[other], rows[one]
    return b"\n".join(rows)


def _repeated(text, draw):
    rows = text.split(b"\n")
    rows.insert(draw.randrange(len(rows) + 1), draw.choice(rows))
    return b"\n".join(rows)


WAYS = [
    *[_replaced(NUMBER)] * 4, _replaced(WORD), _put, _gone, _cut, _flipped, _swapped, _repeated,
]  # fmt: skip


def market_by_order():
    """Return the records of a file of arrays."""
    later = [(1, "T", "B", 42, 3, 9, 0), (1, "F", "A", 42, 3, 2, 0), (2, "C", "A", 42, 2, 2, 128)]
    rows = [
        (ts, ts, action, side, ticks * TICK, size, order_id, flags, place)
        for place, (ts, action, side, ticks, size, order_id, flags) in enumerate([*SNAP, *later])
    ]
    return np.array(rows, RECORD)


def by_order(path, draw):
    """Write a mutated file of market-by-order records."""
    np.savez(path, events=overwritten(market_by_order(), draw))


def our_own(path, draw):
    """Write a mutated recording of this package."""
    day = synthetic_day(1, 60)
    both = {"events": overwritten(day.events, draw), "fills": overwritten(day.fills, draw)}
    write_npz(path, dataclasses.replace(day, **both))


ARRAYS = {"mbo": by_order, "npz": our_own}
"""Writers of array files with overwritten fields."""


def overwritten(rows, draw):
    """Overwrite a field of some rows."""
    rows = rows.copy()
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        name, row = draw.choice(rows.dtype.names), draw.randrange(len(rows))
        if rows.dtype[name].kind == "S":
            rows[name][row] = draw.choice((b"A", b"B", b"C", b"F", b"M", b"N", b"R", b"T", b"?"))
            continue
        limits = np.iinfo(rows.dtype[name])
        rows[name][row] = min(max(draw.choice(NUMBERS), limits.min), limits.max)
    return rows
