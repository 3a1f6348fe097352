"""Market-by-order reader: every rule of conversion and every kind of problem."""

import numpy as np
import pytest

from clob.records import Flag, Kind
from clob.replay import ReplayFormatError
from clob.replay.errors import ReplayWarning
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers import mbo_book
from clob.replay.readers.mbo import read_mbo
from clob.replay.readers.mbo_book import LAST, SNAPSHOT

RECORD = np.dtype(
    [
        ("ts_recv", "<u8"),
        ("ts_event", "<u8"),
        ("action", "S1"),
        ("side", "S1"),
        ("price", "<i8"),
        ("size", "<i8"),
        ("order_id", "<u8"),
        ("flags", "<i4"),
        ("seq", "<u4"),
    ]
)
TICK = 250_000_000
SNAP = [
    (0, "A", "B", 40, 5, 1, SNAPSHOT),
    (0, "A", "A", 42, 5, 2, SNAPSHOT),
    (0, "A", "A", 42, 6, 3, SNAPSHOT),
    (0, "A", "A", 43, 9, 4, SNAPSHOT),
]
FIRST = [(1, "T", "A", 40, 1, 9, 0), (1, "F", "B", 40, 1, 1, LAST)]
"""A trade, with which continuous trading begins."""


@pytest.fixture
def read(tmp_path):
    """Write records of time, action, side, ticks, size, id and flags, and read them."""

    def reading(rows, recv=None, **options):
        table = [(ts + 5, ts, a, s, p * TICK, n, o, f, 0) for ts, a, s, p, n, o, f in rows]
        if recv is not None:
            table = [(at, *row[1:]) for at, row in zip(recv, table, strict=True)]
        path = tmp_path / "records.npz"
        np.savez(path, events=np.array(table, RECORD))
        return read_mbo(path, **{"tick": TICK} | options)

    return reading


def rows_of(stream):
    events = next(stream.chunks(10**6))
    names = ["kind", "order_id", "side", "price", "size"]
    rows = [(Kind(kind), *rest) for kind, *rest in events[names].tolist()]
    return rows[int((events["flags"] & Flag.SNAPSHOT).astype(bool).sum()) :]


def test_snapshot_becomes_the_seed(read):
    stream = read(SNAP)
    events = next(stream.chunks())
    assert events["kind"].tolist() == [Kind.SEED] * 4
    assert events["order_id"].tolist() == [1, 2, 3, 4]
    assert (events["flags"] == Flag.SNAPSHOT).all()
    assert (stream.lo, stream.hi) == (40, 43)


def test_add_cancel_and_modify(read):
    happened = [
        (1, "A", "B", 41, 3, 5, LAST),
        (2, "M", "B", 41, 2, 5, LAST),
        (3, "M", "B", 41, 4, 5, LAST),
        (4, "M", "B", 40, 4, 5, LAST),
        (5, "C", "B", 40, 4, 5, LAST),
    ]
    assert rows_of(read([*SNAP, *happened])) == [
        (Kind.LIMIT, 5, 0, 41, 3),
        (Kind.REDUCE, 5, 0, 41, 2),
        (Kind.REPLACE, 5, 0, 41, 4),
        (Kind.REPLACE, 5, 0, 40, 4),
        (Kind.CANCEL, 5, 0, 40, 0),
    ]


def test_trade_becomes_ioc_with_fills(read):
    happened = [
        (1, "T", "B", 42, 8, 9, 0),
        (1, "F", "A", 42, 5, 2, 0),
        (1, "F", "B", 42, 8, 9, 0),
        (1, "F", "A", 42, 3, 3, 0),
        (1, "C", "A", 42, 5, 2, 0),
        (1, "M", "A", 42, 3, 3, 0),
        (1, "A", "B", 42, 7, 9, LAST),
    ]
    assert rows_of(read([*SNAP, *happened])) == [
        (Kind.IOC, 9, 0, 42, 8),
        (Kind.FILL, 2, 1, 42, 5),
        (Kind.FILL, 3, 1, 42, 3),
        (Kind.LIMIT, 9, 0, 42, 7),
    ]


def test_next_part_of_an_iceberg_order_follows_the_fills(read):
    happened = [
        (1, "T", "B", 42, 9, 0, 0),
        (1, "F", "A", 42, 9, 2, 0),
        (1, "M", "A", 42, 5, 2, LAST),
        (2, "T", "B", 42, 1, 9, 0),
        (2, "F", "A", 42, 1, 3, 0),
        (2, "C", "A", 42, 6, 3, LAST),
    ]
    stream = read([*SNAP, *happened])
    assert rows_of(stream) == [
        (Kind.IOC, INVENTED_ID + 5, 0, 42, 9),
        (Kind.FILL, 2, 1, 42, 9),
        (Kind.LIMIT, 2, 1, 42, 5),
        (Kind.IOC, 9, 0, 42, 1),
        (Kind.FILL, 3, 1, 42, 1),
        (Kind.CANCEL, 3, 1, 42, 0),
    ]
    assert stream.problems.remarks == {"fill larger than the displayed size": 1}


def test_self_trade_prevention_cancels_before_the_trade(read):
    happened = [
        (1, "T", "B", 42, 6, 9, 0),
        (1, "F", "A", 42, 6, 3, 0),
        (1, "C", "A", 42, 5, 2, 0),
        (1, "C", "A", 42, 6, 3, 0),
        (1, "C", "A", 43, 9, 4, LAST),
        (2, "A", "A", 43, 1, 5, LAST),
        (3, "A", "B", 43, 1, 6, 0),
        (3, "C", "A", 43, 1, 5, LAST),
    ]
    stream = read([*SNAP, *happened])
    assert rows_of(stream) == [
        (Kind.CANCEL, 2, 1, 42, 0),
        (Kind.IOC, 9, 0, 42, 6),
        (Kind.FILL, 3, 1, 42, 6),
        (Kind.CANCEL, 4, 1, 43, 0),
        (Kind.LIMIT, 5, 1, 43, 1),
        (Kind.CANCEL, 5, 1, 43, 0),
        (Kind.LIMIT, 6, 0, 43, 1),
    ]
    assert stream.problems.remarks == {"order cancelled by self-trade prevention": 2}


def test_modified_order_that_trades_is_cancelled_first(read):
    happened = [
        (1, "T", "B", 42, 5, 1, 0),
        (1, "F", "A", 42, 5, 2, 0),
        (1, "C", "A", 42, 5, 2, 0),
        (1, "M", "B", 42, 1, 1, LAST),
    ]
    assert rows_of(read([*SNAP, *happened])) == [
        (Kind.CANCEL, 1, 0, 40, 0),
        (Kind.IOC, 1, 0, 42, 5),
        (Kind.FILL, 2, 1, 42, 5),
        (Kind.LIMIT, 1, 0, 42, 1),
    ]


def test_only_orders_left_by_an_auction_are_read(read):
    opening = [
        (1, "A", "B", 43, 4, 5, LAST),
        (2, "T", "N", 42, 4, 0, 0),
        (2, "F", "N", 42, 4, 5, 0),
        (2, "F", "N", 42, 4, 2, 0),
        (2, "C", "B", 43, 4, 5, 0),
        (2, "M", "A", 42, 1, 2, LAST),
        (3, "A", "B", 41, 2, 6, LAST),
    ]
    stream = read([*SNAP, *opening])
    events = next(stream.chunks())
    seed = events[events["kind"] == Kind.SEED]
    assert seed[["order_id", "size"]].tolist() == [(1, 5), (2, 1), (3, 6), (4, 9)]
    assert rows_of(stream) == [(Kind.LIMIT, 6, 0, 41, 2)]


def test_moves_across_the_grid_edge_become_limit_and_cancel(read):
    happened = [
        (1, "M", "A", 44, 9, 4, LAST),
        (2, "M", "A", 45, 9, 4, LAST),
        (3, "M", "A", 43, 9, 4, LAST),
        (4, "R", "N", 0, 0, 0, LAST),
    ]
    stream = read([*SNAP, *happened], offset=40, grid=(1, 3))
    assert (stream.lo, stream.hi) == (1, 3)
    events = next(stream.chunks())
    assert events["order_id"][events["kind"] == Kind.SEED].tolist() == [2, 3, 4]
    assert rows_of(stream) == [
        (Kind.CANCEL, 4, 1, 3, 0),
        (Kind.LIMIT, 4, 1, 3, 9),
        (Kind.CLEAR, 0, 0, 1, 0),
    ]


@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_chunk_and_block_sizes_do_not_change_events(read, monkeypatch, size):
    happened = [(ts, "A", "B", 30 + ts % 9, 1, 100 + ts, LAST) for ts in range(1, 60)]
    stream = read([*SNAP, *happened])
    whole = next(stream.chunks())
    monkeypatch.setattr(mbo_book, "BLOCK_ROWS", 4)
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(stream.chunks(size))), whole)


def test_default_tick_divides_all_prices(read):
    stream = read([(0, "A", "B", 40, 1, 1, SNAPSHOT), (0, "A", "A", 42, 1, 2, SNAPSHOT)], tick=None)
    assert (stream.lo, stream.hi) == (20, 21)


BROKEN = [
    ((2, "C", "B", 40, 5, 77, LAST), "order unknown", "order 77 is not in the book"),
    ((2, "A", "B", 40, 5, 1, LAST), "order twice", "order 1 is already in the book"),
    ((2, "Z", "B", 40, 5, 1, LAST), "action unknown", "expected A, C, M, R, T or F, got b'Z'"),
    (
        (2, "F", "B", 40, 5, 1, LAST),
        "fill without a trade",
        "a fill must follow its trade, got order 1",
    ),
    ((0, "C", "B", 40, 5, 1, LAST), "clock backwards", "time must not be before 1 ns, got 0"),
]


@pytest.mark.parametrize(("row", "kind", "text"), BROKEN)
def test_problem_names_kind_and_record(read, row, kind, text):
    rows = [*SNAP, (1, "A", "B", 40, 1, 50, LAST), row]
    with pytest.raises(ReplayFormatError, match=f"records.npz:6: {kind}: {text}"):
        list(read(rows).chunks())
    stream = read(rows, on_problem="warn")
    with pytest.warns(ReplayWarning, match=kind):
        assert rows_of(stream) == [(Kind.LIMIT, 50, 0, 40, 1)]
    assert stream.problems.counts == {kind: 1}


def test_fill_of_an_unknown_order_is_reported(read):
    rows = [*SNAP, (1, "T", "B", 42, 1, 9, 0), (1, "F", "A", 42, 1, 88, LAST)]
    with pytest.raises(ReplayFormatError, match="6: order unknown"):
        list(read(rows).chunks())


def test_invalid_files_are_rejected(tmp_path, read):
    np.savez(tmp_path / "other.npz", events=np.zeros(3))
    with pytest.raises(ReplayFormatError, match="expected a non-empty array 'events' with ts_recv"):
        read_mbo(tmp_path / "other.npz")
    with pytest.raises(ReplayFormatError, match="must be multiples of the tick 300000000"):
        read(SNAP, tick=300_000_000)
    with pytest.raises(ReplayFormatError, match=r"order ids must be below .* and sizes"):
        read([(0, "A", "B", 40, 5, INVENTED_ID, SNAPSHOT)])
    with pytest.raises(ReplayFormatError, match=r"order ids must be below .* and sizes"):
        read([(0, "A", "B", 40, -5, 1, SNAPSHOT)])
    with pytest.raises(ReplayFormatError, match="grid must be increasing and fit 32 bits"):
        read([(0, "A", "B", 2**33, 5, 1, SNAPSHOT)])
    with pytest.raises(ReplayFormatError, match="expected a non-empty array 'events'"):
        read([])


def test_trade_without_a_side_is_a_record(read):
    """Trades of hidden orders have no side, and no order of the book is filled."""
    stream = read([*SNAP, *FIRST, (2, "T", "N", 42, 3, 0, LAST), (3, "C", "A", 42, 5, 2, LAST)])
    kinds = [row[0] for row in rows_of(stream)]
    assert kinds == [Kind.IOC, Kind.FILL, Kind.TRADE, Kind.CANCEL]
    assert stream.problems.remarks["trade without a side"] == 1


def test_fill_shows_the_side_of_its_trade(read):
    fill = [(2, "T", "N", 42, 1, 0, 0), (2, "F", "A", 42, 1, 2, LAST)]
    kinds = [(row[0], row[2]) for row in rows_of(read([*SNAP, *FIRST, *fill]))]
    assert kinds[2:] == [(Kind.IOC, 0), (Kind.FILL, 1)]


def test_event_time_may_precede_that_of_a_record_that_was_received_earlier(read):
    """Some venues state the time of entry of an order."""
    rows = [(1, "A", "B", 40, 1, 50, LAST), (0, "A", "B", 40, 1, 51, LAST)]
    stream = read([*SNAP, *rows], recv=[*[1] * len(SNAP), 5, 6])
    events = np.concatenate(list(stream.chunks()))
    new = events[events["kind"] == Kind.LIMIT]
    assert new["ts_ns"].tolist() == [1, 1]
    assert stream.problems.remarks["event time before that of the record ahead"] == 1


def test_trades_of_an_auction_are_counted(read):
    stream = read([*SNAP, (1, "T", "N", 41, 3, 0, LAST), *FIRST])
    list(stream.chunks())
    assert stream.problems.remarks["trade before continuous trading"] == 1
