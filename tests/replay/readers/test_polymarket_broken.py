"""Polymarket reader: every kind of problem in a dump."""

import pytest

from clob.records import Kind
from clob.replay import ReplayFormatError, ReplayWarning, backtest
from clob.replay.readers.polymarket import read_polymarket
from tests.replay.readers.polymarket_messages import (
    LOT,
    MARKET,
    NO,
    START,
    YES,
    T,
    book,
    change,
    levels,
    rows_of,
    trade,
)

REFILLED = book(T + 9000, bids=[("0.48", "30")], asks=[("0.52", "25")])
BROKEN = {
    "unreadable line": ('{"event_type": NaN}', 0),
    "unreadable message": (trade(T + 1, "HOLD", "0.5", "3"), 0),
    "price off the grid": (change(T + 1, (YES, "BUY", "1.2", "3"), (YES, "BUY", "0.3", "1")), 1),
    "book disagrees": (REFILLED, 3),
    "clock backwards": (change(T - 1, (YES, "BUY", "0.3", "1")), 1),
    "crossed book": (change(T + 1, (YES, "BUY", "0.52", "1")), 0),
    "third outcome": (change(T + 1, ("9", "BUY", "0.3", "1")), 0),
}
SECOND = book(T, NO)
END = {"event_type": "market_resolved", "market": MARKET, "timestamp": str(T + 1)}


@pytest.mark.parametrize("kind", BROKEN)
def test_problem_raises_with_its_line(dump, kind):
    path = dump(START, SECOND, BROKEN[kind][0], change(T + 9000, (YES, "BUY", "0.1", "1")))
    with pytest.raises(ReplayFormatError, match=rf"dump\.jsonl:3: {kind}: "):
        list(read_polymarket(path).chunks())


def test_unknown_side_is_named_with_the_known_ones(dump):
    with pytest.raises(ReplayFormatError, match="side must be buy or sell, got 'HOLD'"):
        list(read_polymarket(dump(START, trade(T + 1, "HOLD", "0.5", "3"))).chunks())


@pytest.mark.parametrize("kind", BROKEN)
def test_problem_warns_and_is_skipped(dump, kind):
    message, more = BROKEN[kind]
    last = change(T + 19_000, (YES, "BUY", "0.1", "1"))
    whole = len(rows_of(read_polymarket(dump(START, SECOND, last))))
    stream = read_polymarket(dump(START, SECOND, message, last), on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        rows = rows_of(stream)
    assert stream.problems.counts == {kind: 1}
    assert len(rows) == whole + more


@pytest.mark.filterwarnings("ignore::clob.replay.ReplayWarning")
def test_disagreeing_book_is_seeded_again(dump):
    stream = read_polymarket(dump(START, REFILLED), on_problem="warn")
    assert rows_of(stream)[4:] == [
        (Kind.CLEAR, 0, 0, 1, 0),
        (Kind.SEED, 0, 0, 48, 30 * LOT),
        (Kind.SEED, 0, 1, 52, 25 * LOT),
    ]
    assert backtest(stream).check.ok


@pytest.mark.parametrize(
    "message",
    [
        book(T + 1, bids=[("0.1", "-3")]),
        book(T + 1, bids=[("0.1", "0.0000001")]),
        book(T + 1, bids=[("0.1", True)]),
        book("noon"),
        {"event_type": "book", "market": MARKET, "asset_id": YES, "timestamp": "1", "bids": []},
        {"event_type": "price_change", "market": MARKET, "timestamp": "1", "changes": 5},
        trade(T, "BUY", "0.5", None),
        trade(T, "BUY", "0.5", str(2**53)),
        book(2**63),
    ],
)
def test_unreadable_messages_are_reported(dump, message):
    path = dump(START, message, change(T + 9000, (YES, "BUY", "0.1", "1")))
    with pytest.raises(ReplayFormatError, match=r"dump\.jsonl:2: unreadable message: "):
        list(read_polymarket(path).chunks())
    stream = read_polymarket(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match="unreadable message"):
        rows = rows_of(stream)
    assert rows[4:] == [(Kind.LIMIT, 0, 0, 10, LOT)]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("third outcome", book(T + 1, "9", bids=[("0.1", "3")])),
        ("third outcome", trade(T + 1, "BUY", "0.5", "3", "9")),
        ("third outcome", END | {"winning_asset_id": "9"}),
        ("price off the grid", change(T + 1, (YES, "BUY", "0.12345", "3"))),
        ("price off the grid", change(T + 1, (YES, "BUY", "0.1234567890123", "3"))),
        ("price off the grid", START | {"bids": [*START["bids"], *levels(("0", "3"))]}),
        ("price off the grid", trade(T + 1, "BUY", "1.00", "3")),
    ],
)
def test_invalid_tokens_and_prices_are_reported(dump, kind, message):
    path = dump(START, book(T, NO), message)
    with pytest.raises(ReplayFormatError, match=rf"dump\.jsonl:3: {kind}: "):
        list(read_polymarket(path).chunks())
    stream = read_polymarket(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        list(stream.chunks())
    assert stream.problems.counts[kind] == 1


def test_trade_outside_the_window_does_not_explain_a_book(dump):
    path = dump(START, trade(T + 1, "SELL", "0.49", "20"), REFILLED)
    with pytest.raises(ReplayFormatError, match=r"dump\.jsonl:3: book disagrees: 2 levels"):
        list(read_polymarket(path).chunks())


def test_truncated_dump_is_reported(dump):
    path = dump(START)
    path.write_bytes(path.read_bytes() + b'{"event_type": "price_ch')
    with pytest.raises(ReplayFormatError, match=r"dump\.jsonl:2: truncated line: "):
        list(read_polymarket(path).chunks())


@pytest.mark.parametrize("rows", [["{}"], [trade(T, "BUY", "0.5", "1")], ["[1, 2]"]])
def test_dump_without_a_book_is_rejected(dump, rows):
    with pytest.raises(ReplayFormatError, match="the dump has no book of a token"):
        read_polymarket(dump(*rows))


def test_prices_outside_a_given_grid_are_reported(dump):
    with pytest.raises(
        ReplayFormatError,
        match=r"price off the grid: price must be on the grid of 2 decimal places, got 0\.48",
    ):
        list(read_polymarket(dump(START), grid=(49, 60)).chunks())
