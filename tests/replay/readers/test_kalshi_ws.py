"""Kalshi feed reader: prices in dollars and cents, gaps, and every kind of problem."""

import json

import pytest

from clob.records import Kind
from clob.replay import Instrument, ReplayFormatError, ReplayWarning, backtest, open_stream
from clob.replay.io.detect import detect
from clob.replay.readers.kalshi_ws import read_kalshi_ws

T = 1_669_149_841_000


def message(kind, seq=None, ticker="FED", sid=2, **body):
    outer = {"type": kind, "sid": sid, "msg": {"market_ticker": ticker, **body}}
    return outer if seq is None else outer | {"seq": seq}


def snapshot(seq, yes=(), no=(), **more):
    return message("orderbook_snapshot", seq, yes_dollars_fp=yes, no_dollars_fp=no, **more)


def delta(seq, side, price, size, ts=T, **more):
    body = {"side": side, "price_dollars": price, "delta_fp": size, "ts_ms": ts}
    return message("orderbook_delta", seq, **body, **more)


def trade(taker, price, count, ts=T, **more):
    yes = {"yes_price_dollars": price, "no_price_dollars": f"{1 - float(price):.4f}"}
    return message("trade", sid=3, taker_side=taker, count_fp=count, ts_ms=ts, **yes, **more)


START = snapshot(1, [["0.0800", "300.00"], ["0.2200", "333.00"]], [["0.5400", "20.00"]])


@pytest.fixture
def dump(tmp_path):
    """Write messages, one per line, and return the path."""

    def writing(*rows):
        path = tmp_path / "kalshi.jsonl"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return writing


def rows_of(stream):
    events = next(stream.chunks(10**6))
    names = ["kind", "instrument", "side", "price", "size"]
    rows = events[events["kind"] != Kind.BBO][names].tolist()
    return [(Kind(kind), *rest) for kind, *rest in rows]


SEED = [
    (Kind.SEED, 0, 0, 8, 30_000),
    (Kind.SEED, 0, 0, 22, 33_300),
    (Kind.SEED, 0, 1, 46, 2_000),
]


def test_snapshot_deltas_and_trades(dump):
    path = dump(
        {"type": "subscribed", "id": 1, "msg": {"channel": "orderbook_delta", "sid": 2}},
        START,
        delta(2, "no", "0.5500", "7.00"),
        {"type": "ok", "id": 2, "sid": 2, "seq": 3, "msg": {}},
        delta(4, "yes", "0.2200", "-33.00"),
        trade("yes", "0.4500", "5.00", T + 5000),
        delta(5, "no", "0.5500", "-5.00", T + 5001),
        trade("no", "0.2200", "300.00", T + 9000),
        delta(6, "yes", "0.2200", "-300.00", T + 9000),
    )
    assert detect(path) == "kalshi-ws"
    stream = open_stream(path)
    assert rows_of(stream) == [
        *SEED,
        (Kind.LIMIT, 0, 1, 45, 700),
        (Kind.REDUCE, 0, 0, 22, 30_000),
        (Kind.IOC, 0, 0, 45, 500),
        (Kind.FILL, 0, 1, 45, 500),
        (Kind.IOC, 0, 1, 22, 30_000),
        (Kind.FILL, 0, 0, 22, 30_000),
    ]
    assert stream.problems.remarks == {"message that does not change a book": 2}
    check = backtest(stream).check
    assert (check.takers, check.exact, check.ok) == (2, 2, True)


def test_seed_has_the_first_time_of_the_dump(dump):
    stream = read_kalshi_ws(dump(START, delta(2, "no", "0.5500", "7.00")))
    assert (stream.collect().seed["ts_ns"] == T * 10**6).all()
    assert stream.instruments == (Instrument(0, "FED"),)
    assert (stream.lo, stream.hi, stream.lot_wei) == (1, 99, 10**16)


def test_former_layout_in_cents(dump):
    old = dump(
        message("orderbook_snapshot", 1, yes=[[8, 300], [22, 333]], no=[[54, 20]]),
        message("orderbook_delta", 2, price=22, delta=-33, side="yes", ts="2022-11-22T20:44:01Z"),
        message("trade", yes_price=22, no_price=78, count=3, taker_side="no", ts=1669149841),
    )
    assert rows_of(read_kalshi_ws(old)) == [
        *SEED,
        (Kind.IOC, 0, 1, 22, 300),
        (Kind.FILL, 0, 0, 22, 300),
        (Kind.REDUCE, 0, 0, 22, 30_000),
    ]


NULLS = [
    (delta(2, "yes", None, "7.00"), {"price": 22}),
    (delta(2, "yes", "0.2200", None), {"delta": 7}),
    (delta(2, "yes", "0.2200", "7.00", None), {"ts": T // 1000}),
    (trade("no", "0.2200", None), {"count": 300}),
    (trade("no", "0.2200", "300.00"), {"yes_price_dollars": None, "yes_price": 22}),
]


@pytest.mark.parametrize(("row", "former"), NULLS)
def test_null_is_the_absence_of_one_of_two_fields(dump, row, former):
    row["msg"] |= former
    plain = {name: value for name, value in row["msg"].items() if value is not None}
    expected = rows_of(read_kalshi_ws(dump(START, row | {"msg": plain})))
    assert rows_of(read_kalshi_ws(dump(START, row))) == expected
    assert len(expected) > len(SEED)


@pytest.mark.parametrize("word", ["bid", None, 1])
def test_unknown_side_is_named_with_the_known_ones(dump, word):
    text = rf"side must be yes or no, got {'null' if word is None else repr(word)}"
    with pytest.raises(ReplayFormatError, match=text):
        list(read_kalshi_ws(dump(START, delta(2, word, "0.2200", "7.00"))).chunks())
    assert rows_of(read_kalshi_ws(dump(START, delta(2, "YES", "0.2200", "7.00"))))[3:]


def test_no_bids_without_mirror_have_a_book_of_their_own(dump):
    path = dump(START, trade("yes", "0.4600", "20.00"), delta(2, "no", "0.5400", "-20.00"))
    stream = read_kalshi_ws(path, mirror=False)
    assert rows_of(stream)[2:] == [
        (Kind.SEED, 1, 0, 54, 2_000),
        (Kind.IOC, 1, 1, 54, 2_000),
        (Kind.FILL, 1, 0, 54, 2_000),
    ]
    assert [one.outcome for one in stream.instruments] == ["YES", "NO"]
    assert backtest(stream).check.ok


def test_use_yes_price(dump):
    stated = snapshot(1, [["0.0800", "300.00"], ["0.2200", "333.00"]], [["0.4600", "20.00"]])
    assert rows_of(read_kalshi_ws(dump(stated), use_yes_price=True)) == SEED


def test_finest_tick_is_used(dump):
    stream = read_kalshi_ws(dump(START, delta(2, "yes", "0.2250", "1.00")))
    assert (stream.hi, stream.scale) == (999, 1_000)
    assert [row[3] for row in rows_of(stream)] == [80, 220, 460, 225]


def test_after_a_gap_changes_are_skipped_until_a_snapshot(dump):
    path = dump(
        START,
        snapshot(2, [["0.1000", "1.00"]], ticker="CPI"),
        delta(4, "yes", "0.2200", "-33.00"),
        trade("yes", "0.4600", "20.00", T + 1),
        snapshot(5, [["0.2100", "5.00"]]),
        delta(6, "yes", "0.2100", "1.00", T + 2),
    )
    with pytest.raises(ReplayFormatError, match=r":3: missing number: expected 3 in .*, got 4"):
        list(read_kalshi_ws(path).chunks())
    stream = read_kalshi_ws(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match="missing number"):
        rows = rows_of(stream)
    assert sorted(rows[4:6]) == [(Kind.CLEAR, 0, 0, 1, 0), (Kind.CLEAR, 2, 0, 1, 0)]
    assert rows[6:] == [(Kind.SEED, 0, 0, 21, 500), (Kind.LIMIT, 0, 0, 21, 100)]
    assert stream.problems.remarks == {"message of a market before its snapshot": 2}


def test_new_connection_restarts_the_sequence(dump):
    stream = read_kalshi_ws(dump(START, delta(2, "yes", "0.2200", "-33.00"), START))
    assert [row[0] for row in rows_of(stream)[4:]] == [Kind.CLEAR, *[Kind.SEED] * 3]


def test_late_trades_and_trades_between_ticks_are_remarked(dump):
    late = trade("yes", "0.4600", "2.00", T - 5)
    odd = trade("yes", "0.4650", "2.00", T)
    stream = read_kalshi_ws(dump(START, delta(2, "no", "0.5400", "-2.00"), late, odd))
    assert rows_of(stream)[3:] == [(Kind.IOC, 0, 0, 46, 200), (Kind.FILL, 0, 1, 46, 200)]
    assert stream.problems.remarks == {"late trade": 1, "trade between two ticks": 1}


BROKEN = {
    "unreadable line": "[1]",
    "unreadable message": delta(2, "maybe", "0.2200", "1.00"),
    "level below nothing": delta(2, "yes", "0.2200", "-334.00"),
    "clock backwards": delta(3, "yes", "0.0500", "1.00", T - 1),
    "crossed book": delta(2, "yes", "0.4600", "1.00"),
    "change without a snapshot": delta(2, "yes", "0.2200", "1.00", ticker="GDP"),
    "missing number": delta(9, "yes", "0.2200", "1.00"),
}
ALSO_UNREADABLE = [
    delta(2, "yes", "1.0000", "1.00"),
    delta(2, "yes", "0.2200", "0.001"),
    delta("two", "yes", "0.2200", "1.00"),
    trade("yes", "0.4600", "-1.00"),
    snapshot(2, [["0.2200"]]),
    snapshot(2, [["0.2200", "5.00"]], ts="noon"),
    trade("yes", "1.0000", "1.00"),
    {"type": "trade", "sid": 3, "msg": 5},
    message("trade", taker_side="yes", yes_price=46),
    delta(2, "yes", "0.2200", str(2**53)),
    snapshot(2, [["0.2200", str(2**53)]]),
    delta(2, "yes", "0.2200", "1.00", 2**63 // 10**6 + 1),
]


@pytest.mark.parametrize(
    ("kind", "row"),
    [*BROKEN.items(), *(("unreadable message", row) for row in ALSO_UNREADABLE)],
)
def test_problem_names_kind_and_line(dump, kind, row):
    before = [delta(2, "yes", "0.0900", "1.00")] if kind == "clock backwards" else []
    path = dump(START, *before, row, snapshot(1, ticker="CPI", sid=8, ts_ms=T + 9000))
    with pytest.raises(ReplayFormatError, match=rf"kalshi\.jsonl:{2 + len(before)}: {kind}: "):
        list(read_kalshi_ws(path).chunks())
    stream = read_kalshi_ws(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        list(stream.chunks())
    assert stream.problems.counts == {kind: 1}


def test_dump_without_a_snapshot_is_rejected(dump):
    with pytest.raises(ReplayFormatError, match="the dump has no snapshot of a market"):
        read_kalshi_ws(dump(delta(2, "yes", "0.2200", "1.00")))
