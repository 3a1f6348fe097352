"""Reads what ``clob-server export`` writes: its table of events, and that of trades.

The events say all that the books did, so that a stream of them replays fill for fill. What they do
not say is what an order asked for that did not rest: it becomes immediate-or-cancel, of the size
that it traded, at the last price it paid. Nor can a stream say that orders for two tokens met:
events of a mint or a merge are refused. Of the trades alone, only records of trades can be made.
Each line or row is an object with the names that the server uses in JSON, amounts as digits.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from clob.events import Event, OrderAdded, OrderReduced, OrderRemoved, RemovalReason, Trade
from clob.order import Side
from clob.records import EVENT, LOTS_MAX, Kind
from clob.replay.errors import ReplayFormatError
from clob.replay.files import FilePath, Progress, plain_name
from clob.replay.problems import Ignored, Policy, Problems
from clob.replay.readers.exports_lines import EventLine, TradeLine, found_in, read_lines
from clob.replay.readers.journal_rows import (
    GRID,
    INSTRUMENTS_MAX,
    NS_PER_MS,
    OUTCOMES,
    ROWS,
    CommonLot,
    Rows,
    SizeError,
)
from clob.replay.recording import Records
from clob.replay.streams import Instrument, Stream

DIGITS_MAX = 18
"""An order named by no more digits is named by that number."""

Numbers: TypeAlias = dict[tuple[str, str], int]


def read_export(
    path: FilePath,
    *,
    yes: Mapping[str, str] | None = None,
    lot_wei: int | None = None,
    on_problem: Policy = "raise",
) -> Stream:
    """Read a table of events or of trades, as ``clob-server export`` writes it.

    Args:
        path: ``events`` or ``trades``, as JSON lines, compressed or not, or as ``.parquet``.
        yes: the YES token of each market. A table does not say which that is; of a market that
            is not named here it is the token that occurs first.
        lot_wei: what a size of 1 is to stand for, in wei; None takes the largest that divides all
            sizes.
        on_problem: what becomes of lines that cannot be read, of gaps in the numbers of events,
            and of orders that were never added.

    Returns:
        The stream; of trades it has ``TRADE`` records only, and nothing to execute. ``seq`` is
        the number of the command, or of the event where trades are read.

    Raises:
        OSError: the file cannot be read.
        PackageMissingError: it is Parquet and pyarrow is not installed.
        ReplayFormatError: it is no such table, the input is broken and the policy is to raise,
            sizes are too large for the lot, or events tell of a mint or a merge.
    """
    table = found_in(path)
    kind = EventLine if table == "events" else TradeLine
    problems, progress = Problems(on_problem), Progress()
    ahead = Problems(on_problem) if on_problem == "raise" else Ignored()
    numbers, found = _survey(read_lines(path, kind, ahead, Progress()), yes or {})
    if max(numbers.values(), default=0) >= INSTRUMENTS_MAX:
        raise ReplayFormatError(f"{plain_name(path)}: {len(numbers)} tokens are too many")
    lot = lot_wei or found or 1
    progress.expect(path)

    def blocks() -> Iterator[Records]:
        """Read the file anew."""
        progress.expect(path)
        rows = read_lines(path, kind, problems, progress)
        make: Callable[..., Iterator[Records]] = _events if table == "events" else _trades
        return make(path, rows, numbers, lot, problems)

    return Stream(
        blocks,
        lo=GRID[0],
        hi=GRID[1],
        lot_wei=lot,
        instruments=[
            Instrument(number, market, OUTCOMES[number % 2])
            for (market, _), number in sorted(numbers.items(), key=lambda item: item[1])
        ]
        or (Instrument(0, ""),),
        name=plain_name(path),
        note=f"{table} of an export",
        problems=problems,
        progress=progress,
        has_fills=table == "events",
    )


# ----- beforehand ----------------------------------------------------------------------------


def _survey(rows: Iterator[tuple[int, Any]], yes: Mapping[str, str]) -> tuple[Numbers, int]:
    """Go through all rows for the books there are, and for the lot that divides every size."""
    numbers: Numbers = {}
    markets: dict[str, int] = {}
    taken: set[int] = set()
    lot = CommonLot()
    before: Any = None
    for _, row in rows:
        if before is not None:
            _check_apart(before, row)
        before = row if isinstance(row, EventLine) and row.type == "trade" else None
        of_trade = isinstance(row, TradeLine) or row.type == "trade"
        lot.size(int(row.size if of_trade else row.remaining))
        if (row.market_id, row.token_id) in numbers:
            continue
        number = markets.setdefault(row.market_id, 2 * len(markets))
        is_no = yes[row.market_id] != row.token_id if row.market_id in yes else number in taken
        if number + is_no in taken:
            raise ReplayFormatError(f"market {row.market_id!r} has more than two tokens")
        taken.add(number + is_no)
        numbers[row.market_id, row.token_id] = number + is_no
    return numbers, lot.lot_wei


def _check_apart(before: EventLine, row: EventLine) -> None:
    """Refuse a mint or a merge: two trades of the same two orders, each of another token."""
    is_pair = (
        row.type == "trade"
        and (row.market_id, row.seq) == (before.market_id, before.seq + 1)
        and (row.order_id, row.incoming_order_id) == (before.order_id, before.incoming_order_id)
        and row.token_id != before.token_id
    )
    if is_pair:
        raise ReplayFormatError(
            f"market {row.market_id!r} is complementary: events {before.seq} and {row.seq} are "
            "trades of two tokens that meet, which the events of a stream cannot say"
        )


# ----- events --------------------------------------------------------------------------------


def _events(
    path: FilePath,
    lines_read: Iterator[tuple[int, EventLine]],
    numbers: Numbers,
    lot_wei: int,
    problems: Problems,
) -> Iterator[Records]:
    """Make events of the table of events, those of one command at a time."""
    rows = Rows(numbers, lot_wei)
    expected: dict[str, int] = {}
    some: list[Event] = []
    before: EventLine | None = None
    try:
        for number, line in chain(lines_read, [(0, None)]):
            if before and (line is None or line.command_seq != before.command_seq):
                rows.happened(before.command_seq, before.timestamp, some)
                some = []
                if len(rows) >= ROWS:
                    yield rows.take()
            if line is not None:
                _report_gap(path, number, line, expected, problems)
                some.append(_event(line))
            before = line
    except SizeError as error:
        raise ReplayFormatError(f"{plain_name(path)}: {error}") from error
    if len(rows):
        yield rows.take()


def _report_gap(
    path: FilePath, number: int, line: EventLine, expected: dict[str, int], problems: Problems
) -> None:
    """Report events that are missing, be it because the beginning of the log was dropped."""
    wanted = expected.get(line.market_id, 1)
    expected[line.market_id] = line.seq + 1
    if line.seq != wanted:
        said = f"event {line.seq} of market {line.market_id!r} comes where {wanted} was to follow"
        problems.report("gap", said, path, number)


def _event(line: EventLine) -> Event:
    """Make the event of the engine of a row."""
    market, token, order_id = line.market_id, line.token_id, _named(line.order_id)
    remaining = int(line.remaining)
    if line.type == "order_removed":
        reason = line.reason or RemovalReason.CANCELLED
        return OrderRemoved(line.seq, market, token, order_id, reason, remaining)
    if line.type == "order_reduced":
        return OrderReduced(line.seq, market, token, order_id, remaining)
    side, price = line.side or Side.BUY, line.price or 0
    if line.type == "order_added":
        return OrderAdded(line.seq, market, token, order_id, side, price, remaining)
    return Trade(
        seq=line.seq,
        market=market,
        token=token,
        resting_order_id=order_id,
        incoming_order_id=_named(line.incoming_order_id or ""),
        price=price,
        size=int(line.size or 0),
        buyer="",
        seller="",
        resting_remaining=remaining,
        incoming_remaining=int(line.incoming_remaining or 0),
        incoming_side=side,
    )


def _named(text: str) -> str | int:
    """Give the name of an order; one of digits alone is a number."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    return int(text) if is_number and text[0] != "0" else text


# ----- trades --------------------------------------------------------------------------------


def _trades(
    path: FilePath,
    lines_read: Iterator[tuple[int, TradeLine]],
    numbers: Numbers,
    lot_wei: int,
    problems: Problems,
) -> Iterator[Records]:
    """Make records of trades of the table of trades."""
    del problems  # those of the lines are all there are
    rows: list[tuple[int, ...]] = []
    for number, line in chain(lines_read, [(0, None)]):
        if line is not None:
            lots, rest = divmod(int(line.size), lot_wei)
            if rest or lots > LOTS_MAX:
                raise ReplayFormatError(
                    f"{plain_name(path)}:{number}: {line.size} wei are not 0 to {LOTS_MAX} lots "
                    f"of {lot_wei} wei"
                )
            ts_ns, book = line.timestamp * NS_PER_MS, numbers[line.market_id, line.token_id]
            side = int(line.incoming_side)
            rows.append((ts_ns, ts_ns, line.seq, 0, lots, 0, line.price, book, Kind.TRADE, side, 0))
        if len(rows) >= ROWS or (line is None and rows):
            yield np.array(rows, EVENT)
            rows = []
