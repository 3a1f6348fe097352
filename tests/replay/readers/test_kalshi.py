"""Kalshi log reader: mirrored books, separate books, and every kind of problem."""

import pytest

from clob.records import Kind
from clob.replay import Instrument, ReplayFormatError, ReplayWarning, backtest, open_stream
from clob.replay.io.detect import detect
from clob.replay.readers.kalshi import read_kalshi

HEAD = "timestamp,market_ticker,best_yes_bid,best_no_bid,implied_no_ask,implied_yes_ask\n"
START = [("07:02:38.351386", "A", 9, 37), ("07:02:38.351650", "B", 2, 0)]


def row(time, ticker, yes, no):
    return f"2025-12-13T{time},{ticker},{yes},{no},{100 - yes},{100 - no}\n"


@pytest.fixture
def log(tmp_path):
    """Write a log and return the path."""

    def writing(*rows, head=HEAD):
        path = tmp_path / "log.csv"
        lines = [each if isinstance(each, str) else row(*each) for each in rows]
        path.write_text(head + "".join(lines))
        return path

    return writing


def rows_of(stream, *, bests=False):
    events = next(stream.chunks(10**6))
    names = ["kind", "instrument", "side", "price", "size"]
    rows = events[(events["kind"] == Kind.BBO) == bests][names].tolist()
    return [(Kind(kind), *rest) for kind, *rest in rows]


MOVED = ("07:02:39", "A", 10, 36)


def test_no_bid_is_a_yes_offer(log):
    path = log(*START, MOVED)
    assert detect(path) == "kalshi"
    stream = open_stream(path)
    assert rows_of(stream) == [
        (Kind.LIMIT, 0, 0, 9, 1),
        (Kind.LIMIT, 0, 1, 63, 1),
        (Kind.LIMIT, 2, 0, 2, 1),
        (Kind.CANCEL, 0, 0, 9, 0),
        (Kind.CANCEL, 0, 1, 63, 0),
        (Kind.LIMIT, 0, 0, 10, 1),
        (Kind.LIMIT, 0, 1, 64, 1),
    ]
    assert rows_of(stream, bests=True)[2:4] == [(Kind.BBO, 2, 0, 2, 1), (Kind.BBO, 2, 1, 100, 0)]
    assert stream.instruments == (Instrument(0, "A"), Instrument(2, "B"))
    assert (stream.lo, stream.hi, stream.lot_wei) == (1, 99, 10**18)
    first = next(stream.chunks())[0]
    assert first["ts_ns"] == 1_765_609_358_351_386_000
    check = backtest(stream).check
    assert (check.bests, check.bests_equal, check.takers) == (6, 6, 0)


def test_comments_and_blank_lines_before_the_header_are_skipped(log):
    plain = rows_of(open_stream(log(*START, MOVED)))
    path = log(*START, MOVED, head=f"# exported\n\n{HEAD}")
    assert detect(path) == "kalshi"
    assert rows_of(open_stream(path)) == plain


def test_names_of_columns_may_have_capital_letters(log):
    plain = rows_of(open_stream(log(*START, MOVED)))
    path = log(*START, HEAD, MOVED, head=HEAD.title())
    assert detect(path) == "kalshi"
    stream = open_stream(path)
    assert rows_of(stream) == plain
    assert stream.problems.remarks == {"header line repeated": 1}


def test_no_bids_without_mirror_have_a_book_of_their_own(log):
    stream = read_kalshi(log(*START, MOVED), mirror=False)
    assert rows_of(stream)[:2] == [(Kind.LIMIT, 0, 0, 9, 1), (Kind.LIMIT, 1, 0, 37, 1)]
    assert stream.instruments[:2] == (Instrument(0, "A", "YES"), Instrument(1, "A", "NO"))
    check = backtest(stream).check
    assert (check.bests, check.bests_equal) == (6, 6)


def test_implied_columns_are_optional(log):
    rows = [",".join(row(*each).split(",")[:4]) + "\n" for each in (*START, MOVED)]
    head = ",".join(HEAD.split(",")[:4]) + "\n"
    bare = rows_of(read_kalshi(log(*rows, head=head)))
    assert bare == rows_of(read_kalshi(log(*START, MOVED)))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_log_that_another_program_has_written_is_read(log, separator, quote):
    def rewritten(line):
        cells = [f"{cell}.0" if cell.isdigit() else cell for cell in line.strip().split(",")]
        return separator.join(f"{quote}{cell}{quote}" for cell in cells) + "\r\n"

    path = log(
        *(rewritten(row(*each)) for each in (*START, MOVED)), head="\ufeff" + rewritten(HEAD)
    )
    assert rows_of(open_stream(path)) == rows_of(read_kalshi(log(*START, MOVED)))


def test_missing_column_is_rejected(log):
    with pytest.raises(ReplayFormatError, match="column 'best_no_bid' is missing"):
        read_kalshi(log(head="timestamp,market_ticker,best_yes_bid\n"))


BROKEN = {
    "wrong number of cells": "2025-12-13T07:02:39,A,9\n",
    "unreadable line": "2025-12-13T07:02:39,A,9.5,37,91,63\n",
    "price off the grid": row("07:02:39", "A", 100, 0),
    "implied price": "2025-12-13T07:02:39,A,9,37,91,62\n",
    "crossed book": row("07:02:39", "A", 63, 37),
    "clock backwards": row("07:02:38", "A", 10, 36),
}
ALSO_UNREADABLE = [
    "noon,A,9,37,91,63\n",
    "2025-12-13T07:02:39,A,9,-1,91,101\n",
    "9999-12-13T07:02:39,A,9,37,91,63\n",
]


@pytest.mark.parametrize(
    ("kind", "text"),
    [*BROKEN.items(), *(("unreadable line", text) for text in ALSO_UNREADABLE)],
)
def test_problem_names_kind_and_line(log, kind, text):
    path = log(*START, text, ("07:02:40", "A", 10, 36))
    with pytest.raises(ReplayFormatError, match=rf"log\.csv:4: {kind}: "):
        list(read_kalshi(path).chunks())
    stream = read_kalshi(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        rows = rows_of(stream)
    assert stream.problems.counts == {kind: 1}
    assert rows == rows_of(read_kalshi(log(*START, ("07:02:40", "A", 10, 36))))


def test_log_without_a_valid_line_is_rejected(log):
    with pytest.raises(ReplayFormatError, match="the file has no valid line of a market"):
        read_kalshi(log())


def test_duplicate_column_is_rejected(log):
    head = HEAD.replace("\n", ",best_no_bid\n")
    with pytest.raises(ReplayFormatError, match="column 'best_no_bid' must occur once"):
        read_kalshi(log(row(*MOVED)[:-1] + ",36\n", head=head))
