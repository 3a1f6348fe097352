"""Reads logs of the best bids of Kalshi: each line has the best YES and NO bid of a market.

The columns are ``timestamp``, ``market_ticker``, ``best_yes_bid`` and ``best_no_bid``; a bid is in
whole cents, 0 for an empty side. A NO bid at *q* is a YES offer at 100 - *q*, so each market is one
YES book with prices from 1 to 99; ``mirror=False`` keeps the NO bids in a book of their own. The
log has no sizes: a best price becomes an order of one lot, which is one contract, until the best
price changes. The log has no trades. Times without a zone are UTC. Cells are separated by commas,
semicolons or tabs, may have quotes, and bids may end in ``.0``, as other programs write them.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, lines, plain_name
from clob.replay.io.problems import HEADER_AGAIN, Ignored, Policy, Problems
from clob.replay.io.streams import Stream
from clob.replay.io.text import date_ns, excerpt
from clob.replay.readers import instruments_of
from clob.replay.readers.l2 import LevelBest, LevelRule, LevelUpdate, Moment, level_stream

NEEDED = ("timestamp", "market_ticker", "best_yes_bid", "best_no_bid")
"""The required columns."""

IMPLIED = {"implied_no_ask": "best_yes_bid", "implied_yes_ask": "best_no_bid"}
"""Optional columns; each must be 100 minus the bid."""

WHOLE = 100
"""The payout of YES plus NO, in cents."""

LOT_WEI = 10**18
"""A lot is a contract."""

CENTS = re.compile(r"([0-9]{1,9})(\.0+)?")
"""A whole number of cents."""


class LogRow(NamedTuple):
    """One line of the log: the market and its best bids, in cents; 0 for none."""

    line: int
    ts_ns: int
    ticker: str
    yes: int
    no: int


def read_kalshi(
    path: FilePath,
    *,
    mirror: bool = True,
    level_rule: LevelRule = "tail",
    on_problem: Policy = "raise",
) -> Stream:
    """Read a log of best bids. The file is read twice, first for its markets.

    Args:
        path: the file, CSV, compressed or not.
        mirror: whether NO bids are offers in the YES book; False makes two books of bids.
        level_rule: accepted like in other readers, without effect: a level has one order.
        on_problem: the policy for unreadable lines, prices outside 0 to 99, crossed bids, and
            clocks that run backwards.

    Returns:
        The stream, with one market per ticker; prices in cents, sizes in contracts, and after each
        line its best prices as ``BBO`` records.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: a column is missing, or no line is valid.
        ValueError: the level rule is unknown.
    """
    head = _head(path)
    tickers: dict[str, int] = {}
    ignored = Ignored()
    for row in _rows(path, head, ignored, Progress()):
        tickers.setdefault(row.ticker, 2 * len(tickers))
    if not tickers:
        text = f"the file has no valid line of a market{ignored.clause()}"
        raise ReplayFormatError(f"{plain_name(path)}: {text}")

    def moments(problems: Problems, progress: Progress) -> Iterator[Moment]:
        rows = _rows(path, head, problems, progress)
        return _moments(rows, tickers, mirror=mirror)

    return level_stream(
        path,
        moments,
        rule=level_rule,
        on_problem=on_problem,
        lo=1,
        hi=WHOLE - 1,
        lot_wei=LOT_WEI,
        instruments=instruments_of(tickers, mirror=mirror),
        note="Kalshi best bids",
        has_fills=False,
    )


class Head(NamedTuple):
    """The line with the names of the columns."""

    line: int
    """Its number; blank lines and comments (``#``) may be before it."""
    names: list[str]
    """In lower case."""
    separator: str
    """Between cells."""


def _head(path: FilePath) -> Head:
    found = lines(path, Ignored())
    line, head = next(((n, one) for n, one in found if one.strip() and one[:1] != b"#"), (1, b""))
    separator = max(",;\t", key=lambda one: head.count(one.encode()))
    names = _cells(head.lower(), separator)
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise ReplayFormatError(
            f"{plain_name(path)}: column {missing[0]!r} is missing; got {', '.join(names)}"
        )
    twice = [name for name in (*NEEDED, *IMPLIED) if names.count(name) > 1]
    if twice:
        raise ReplayFormatError(
            f"{plain_name(path)}: column {twice[0]!r} must occur once; got {', '.join(names)}"
        )
    return Head(line, names, separator)


def _cells(text: bytes, separator: str) -> list[str]:
    """Split a line into cells, without their quotes."""
    line = text.decode("utf-8", "replace")
    return [cell.strip(' "') for cell in line.split(separator)]


def _rows(path: FilePath, head: Head, problems: Problems, progress: Progress) -> Iterator[LogRow]:
    """Yield the valid lines and report the others."""
    latest = -(2**63)
    for line, text in lines(path, problems, progress):
        if line <= head.line or not text.strip():
            continue
        cells = _cells(text, head.separator)
        if [cell.lower() for cell in cells] == head.names:
            problems.remark(HEADER_AGAIN)
            continue
        if len(cells) != len(head.names):
            message = f"expected {len(head.names)} cells, got {len(cells)}: {excerpt(text)}"
            problems.report("wrong number of cells", message, path, line)
            continue
        fields = dict(zip(head.names, cells, strict=True))
        try:
            row = _row(line, fields)
        except ValueError as error:
            problems.report("unreadable line", f"{error}: {excerpt(text)}", path, line)
            continue
        problem = _check(row, fields, latest)
        if problem is not None:
            problems.report(*problem, path, line)
            continue
        latest = row.ts_ns
        yield row


def _row(line: int, fields: dict[str, str]) -> LogRow:
    yes, no = (_cents(name, fields[name]) for name in ("best_yes_bid", "best_no_bid"))
    return LogRow(line, date_ns(fields["timestamp"]), fields["market_ticker"], yes, no)


def _cents(name: str, text: str) -> int:
    """Read a number of cents; raise ``ValueError`` for anything else."""
    found = CENTS.fullmatch(text)
    if found is None:
        raise ValueError(f"{name} must be a whole number of cents; got {text!r}")
    return int(found[1])


def _check(row: LogRow, fields: dict[str, str], latest: int) -> tuple[str, str] | None:
    """Return kind and text of the problem of a parsed line, or None."""
    if row.yes >= WHOLE or row.no >= WHOLE:
        return "price off the grid", f"bids must be 0 to 99 cents, got {row.yes} and {row.no}"
    for name, bid in IMPLIED.items():
        expected = WHOLE - (row.yes if bid == "best_yes_bid" else row.no)
        found = CENTS.fullmatch(fields.get(name, str(expected)))
        if found is None or int(found[1]) != expected:
            return "implied price", f"{name} must be {expected}, got {fields[name]}"
    if row.yes and row.no and row.yes + row.no >= WHOLE:
        return "crossed book", f"YES and NO bid must add up to 99 or less, got {row.yes} + {row.no}"
    if row.ts_ns < latest:
        return "clock backwards", f"time must not be before {latest} ns, got {row.ts_ns}"
    return None


def _moments(rows: Iterator[LogRow], tickers: dict[str, int], *, mirror: bool) -> Iterator[Moment]:
    """Convert lines to levels of one lot."""
    last: dict[tuple[int, int], int] = {}
    for row in rows:
        number = tickers[row.ticker]
        other = (number, 1, WHOLE - row.no) if mirror else (number + 1, 0, row.no)
        updates, bests = [], []
        for instrument, side, price in ((number, 0, row.yes), other):
            exists = 0 < price < WHOLE
            bests.append(LevelBest(instrument, side, price, int(exists)))
            before = last.get((instrument, side), 0)
            if price == before:
                continue
            if 0 < before < WHOLE:
                updates.append(LevelUpdate(instrument, side, before, 0))
            if exists:
                updates.append(LevelUpdate(instrument, side, price, 1))
            last[instrument, side] = price
        yield Moment(row.ts_ns, row.line, tuple(updates), bests=tuple(bests))
