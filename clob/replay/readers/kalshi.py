"""Reads logs of the best bids of Kalshi: a line with the best YES and the best NO bid of a market.

The columns are ``timestamp``, ``market_ticker``, ``best_yes_bid`` and ``best_no_bid``; a bid is
whole cents, 0 where there is none. A bid for NO at *q* is an offer of YES at 100 - *q*, so each
market is one book of YES, with prices of 1 to 99; ``mirror=False`` keeps the bids for NO in a book
of their own. The log tells no sizes: a best price is an order of one lot, which is a contract, and
goes when the best price is another. It tells of no trades. Times without a zone are UTC.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, TypeAlias

from clob.replay.errors import ReplayFormatError
from clob.replay.io.files import FilePath, Progress, line_blocks, lines, plain_name
from clob.replay.io.problems import Ignored, Policy, Problems
from clob.replay.io.recording import Records
from clob.replay.io.streams import Instrument, Stream
from clob.replay.io.text import date_ns, excerpt
from clob.replay.readers.l2 import LevelBest, LevelRule, Levels, LevelUpdate, Moment

NEEDED = ("timestamp", "market_ticker", "best_yes_bid", "best_no_bid")
"""The columns that a log must have."""

IMPLIED = {"implied_no_ask": "best_yes_bid", "implied_yes_ask": "best_no_bid"}
"""Columns that may be there: each must be 100 less the bid."""

WHOLE = 100
"""What YES and NO together pay, in cents."""

LOT_WEI = 10**18
"""A lot is a contract."""


class LogRow(NamedTuple):
    """One line of the log."""

    line: int
    """Where it stands."""
    ts_ns: int
    """When."""
    ticker: str
    """The market."""
    yes: int
    """The best bid for YES, in cents; 0 for none."""
    no: int
    """The best bid for NO, in cents; 0 for none."""


def read_kalshi(
    path: FilePath,
    *,
    mirror: bool = True,
    level_rule: LevelRule = "tail",
    on_problem: Policy = "raise",
) -> Stream:
    """Read a log of best bids. It is read twice, first for its markets.

    Args:
        path: the file, CSV, compressed or not.
        mirror: whether bids for NO are offers in the book of YES; False makes two books of bids.
        level_rule: taken for the sake of the other readers: a level here has but one order.
        on_problem: what becomes of lines that cannot be read, prices beyond 0 to 99, bids that
            together pay more than they cost, and clocks that run backwards.

    Returns:
        The stream, a market for each ticker; prices in cents, sizes in contracts, and behind each
        line what it states as best prices.

    Raises:
        OSError: the file cannot be read.
        ReplayFormatError: a column is missing, or there is no line that is right.
    """
    problems, progress = Problems(on_problem), Progress()
    names = _names(path)
    tickers: dict[str, int] = {}
    for row in _rows(path, names, Ignored(), Progress()):
        tickers.setdefault(row.ticker, 2 * len(tickers))
    if not tickers:
        raise ReplayFormatError(f"{plain_name(path)}: no line of any market")
    books = ((0, "YES"),) if mirror else ((0, "YES"), (1, "NO"))
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Read the log anew."""
        progress.expect(path)
        levels = Levels(lo=1, hi=WHOLE - 1, rule=level_rule, file=path, problems=problems)
        rows = _rows(path, names, problems, progress)
        return levels.events(_moments(rows, tickers, mirror=mirror))

    return Stream(
        blocks,
        lo=1,
        hi=WHOLE - 1,
        lot_wei=LOT_WEI,
        instruments=[
            Instrument(number + offset, ticker, outcome)
            for ticker, number in tickers.items()
            for offset, outcome in books
        ],
        name=plain_name(path),
        note="Kalshi best bids",
        problems=problems,
        progress=progress,
        has_fills=False,
    )


def _names(path: FilePath) -> list[str]:
    """Read the names of the columns."""
    _, head = next(lines(path, Ignored()), (1, b""))
    names = [name.strip().strip("\ufeff") for name in head.decode("utf-8", "replace").split(",")]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise ReplayFormatError(
            f"{plain_name(path)}: no column {missing[0]!r}, only {', '.join(names)}"
        )
    return names


def _rows(
    path: FilePath, names: list[str], problems: Problems, progress: Progress
) -> Iterator[LogRow]:
    """Read the lines that are right, and report the others."""
    latest = -(2**63)
    for line, text in lines(path, problems, progress):
        if line == 1 or not text.strip():
            continue
        cells = text.decode("utf-8", "replace").split(",")
        if len(cells) != len(names):
            said = f"{len(cells)} cells instead of {len(names)}: {excerpt(text)}"
            problems.report("wrong number of cells", said, path, line)
            continue
        found = dict(zip(names, map(str.strip, cells), strict=True))
        try:
            row = _row(line, found)
        except ValueError as error:
            problems.report("unreadable line", f"{error}: {excerpt(text)}", path, line)
            continue
        wrong = _wrong(row, found, latest)
        if wrong is not None:
            problems.report(*wrong, path, line)
            continue
        latest = row.ts_ns
        yield row


def _row(line: int, found: dict[str, str]) -> LogRow:
    """Read a line."""
    bids = [found["best_yes_bid"], found["best_no_bid"]]
    if not all(bid.isascii() and bid.isdigit() and len(bid) < 10 for bid in bids):
        raise ValueError("a bid is no whole number of cents")
    return LogRow(line, date_ns(found["timestamp"]), found["market_ticker"], *map(int, bids))


def _wrong(row: LogRow, found: dict[str, str], latest: int) -> tuple[str, str] | None:
    """Say what is wrong with a line that can be read."""
    if row.yes >= WHOLE or row.no >= WHOLE:
        return "price off the grid", f"bids of {row.yes} and {row.no} cents, not 0 to 99"
    for name, bid in IMPLIED.items():
        if name in found and found[name] != str(WHOLE - int(found[bid])):
            return "implied price", f"{name} is {found[name]} with {bid} {found[bid]}"
    if row.yes and row.no and row.yes + row.no >= WHOLE:
        return "crossed book", f"YES bid {row.yes} and NO bid {row.no} add up to 100 or more"
    if row.ts_ns < latest:
        return "clock backwards", f"{row.ts_ns} ns comes after {latest} ns"
    return None


def _moments(rows: Iterator[LogRow], tickers: dict[str, int], *, mirror: bool) -> Iterator[Moment]:
    """Turn lines into levels of one lot."""
    last: dict[tuple[int, int], int] = {}
    for row in rows:
        number = tickers[row.ticker]
        other = (number, 1, WHOLE - row.no) if mirror else (number + 1, 0, row.no)
        updates, bests = [], []
        for instrument, side, price in ((number, 0, row.yes), other):
            there = 0 < price < WHOLE
            bests.append(LevelBest(instrument, side, price, int(there)))
            before = last.get((instrument, side), 0)
            if price == before:
                continue
            if 0 < before < WHOLE:
                updates.append(LevelUpdate(instrument, side, before, 0))
            if there:
                updates.append(LevelUpdate(instrument, side, price, 1))
            last[instrument, side] = price
        yield Moment(row.ts_ns, row.line, tuple(updates), bests=tuple(bests))


Message: TypeAlias = dict[str, Any]
"""An object. Numbers with a point are text, so that none is rounded."""


def _refuse(word: str) -> NoReturn:
    """Refuse what JSON does not know, as ``NaN``."""
    raise ValueError(word)


DECODER = json.JSONDecoder(parse_float=str, parse_constant=_refuse)
"""Made once: most of the time of a line would go into making one."""

HEARTBEATS = (b"PING", b"PONG")
"""Lines that only kept a connection open."""

BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What is raised by a message that has not the shape it should."""


def messages(
    path: FilePath, problems: Problems, progress: Progress | None = None
) -> Iterator[tuple[int, Message]]:
    """Read a file object by object.

    Args:
        path: the file, compressed or not.
        problems: where lines are reported that are no JSON, or none of objects.
        progress: is told of every byte read from the disk.

    Yields:
        The number of the line, counted from 1, and the object.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is compressed in a way that needs a package.
        ReplayFormatError: a line is broken and the policy is to raise.
    """
    for first, block in line_blocks(path, problems, progress):
        rows = block.splitlines()
        for line, text in enumerate(rows, first):
            if not text.strip() or text.strip() in HEARTBEATS:
                continue
            try:
                value = DECODER.decode(text.decode("utf-8-sig"))
                found = value if isinstance(value, list) else [value]
                if not all(isinstance(each, dict) for each in found):
                    raise ValueError("no object")
            except (ValueError, RecursionError):
                cut = line == first + len(rows) - 1 and not block.endswith(b"\n")
                problems.report(
                    "truncated line" if cut else "unreadable line", excerpt(text), path, line
                )
                continue
            for each in found:
                yield line, each


# MERGED clob.replay.readers.kalshi: Reads JSON lines: an object on each line, or an array of them; what is no JSON is reported.
