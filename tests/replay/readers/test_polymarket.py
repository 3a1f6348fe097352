"""Polymarket reader: every message and its conversion."""

import gzip

import numpy as np
import pytest

from clob.records import Flag, Kind
from clob.replay import Instrument, backtest, open_stream
from clob.replay.io.detect import detect
from clob.replay.readers.polymarket import read_polymarket
from tests.replay.readers.polymarket_messages import (
    GONE,
    LOT,
    MARKET,
    NO,
    START,
    YES,
    T,
    book,
    change,
    rows_of,
    trade,
)


def test_dump_is_detected_and_replayed(dump):
    stream = open_stream(
        dump(
            START,
            change(T + 5000, (YES, "BUY", "0.50", "7", "0.5", "0.52")),
            trade(T + 6000, "SELL", "0.50", "4"),
            change(T + 6000, (YES, "BUY", "0.5", "3", "0.5", "0.52")),
        )
    )
    assert rows_of(stream)[4:] == [
        (Kind.LIMIT, 0, 0, 50, 7 * LOT),
        (Kind.IOC, 0, 1, 50, 4 * LOT),
        (Kind.FILL, 0, 0, 50, 4 * LOT),
    ]
    assert stream.instruments == (Instrument(0, MARKET, "YES"),)
    assert (stream.lo, stream.hi, stream.lot_wei) == (1, 99, 10**12)
    check = backtest(stream).check
    assert (check.takers, check.exact, check.bests, check.bests_equal) == (1, 1, 6, 6)


def test_first_book_is_the_seed(dump):
    stream = read_polymarket(dump(START))
    assert rows_of(stream) == [
        (Kind.SEED, 0, 0, 48, 30 * LOT),
        (Kind.SEED, 0, 0, 49, 20 * LOT),
        (Kind.SEED, 0, 1, 52, 25 * LOT),
        (Kind.SEED, 0, 1, 53, 60_500_000),
    ]
    recording = stream.collect()
    assert (recording.seed["flags"] == Flag.SNAPSHOT | Flag.SYNTHETIC).all()
    assert (recording.seed["ts_ns"] == T * 10**6).all()


@pytest.mark.parametrize(
    "changed",
    [
        change(T + 1, (YES, "SELL", "0.52", "5")),
        {
            "event_type": "price_change",
            "market": MARKET,
            "asset_id": YES,
            "timestamp": T + 1,
            "changes": [{"price": "0.52", "side": "SELL", "size": "5"}],
        },
        {
            "event_type": "price_change",
            "market": MARKET,
            "asset_id": YES,
            "timestamp": T + 1,
            "price": "0.52",
            "side": "sell",
            "size": "5",
        },
        {
            "market": MARKET,
            "asset_id": YES,
            "timestamp": T + 1,
            "changes": [{"price": "0.52", "side": "SELL", "size": "5.0"}],
        },
    ],
    ids=["now", "before", "long before", "without a name"],
)
def test_changes_in_every_layout(dump, changed):
    assert rows_of(read_polymarket(dump(START, changed)))[4:] == [(Kind.REDUCE, 0, 1, 52, 5 * LOT)]


@pytest.mark.parametrize(
    "lines",
    [
        [[START, GONE]],
        ["PONG", START, "", GONE],
        [
            {"received": 1.5, "payload": one}
            for one in (START, change(T + 1, (YES, "SELL", ".52", "0")))
        ],
        [{"at": 7, "data": [START, GONE]}],
        [
            {
                "market": MARKET,
                "asset_id": YES,
                "timestamp": T,
                "buys": START["bids"],
                "sells": START["asks"],
            },
            change(T + 1, (YES, "SELL", "0.52", "0")),
        ],
    ],
    ids=["an array", "heartbeats", "wrapped", "wrapped array", "former names"],
)
def test_dumps_with_every_wrapper(dump, lines):
    path = dump(*lines)
    assert detect(path) == "polymarket"
    rows = rows_of(open_stream(path))
    assert len(rows) == 5
    assert rows[4] == (Kind.CANCEL, 0, 1, 52, 0)


def test_compressed_dump(dump, tmp_path):
    packed = tmp_path / "dump.jsonl.gz"
    packed.write_bytes(gzip.compress(dump(START).read_bytes()))
    assert rows_of(open_stream(packed)) == rows_of(open_stream(dump(START)))
    assert open_stream(packed).scale == 100


def test_finest_tick_is_used(dump):
    fine = change(T + 9, (YES, "BUY", "0.495", "1", "0.495", "0.52"))
    ticks = {"event_type": "tick_size_change", "new_tick_size": "0.001", "old_tick_size": "0.01"}
    ticks |= {"asset_id": YES, "market": MARKET, "timestamp": str(T + 8)}
    stream = read_polymarket(dump(START, ticks, fine))
    assert (stream.lo, stream.hi, stream.scale) == (1, 999, 1_000)
    assert [row[3] for row in rows_of(stream)] == [480, 490, 520, 530, 495]
    assert stream.problems.remarks == {"tick size changed": 1}
    assert backtest(stream).check.bests_equal == 4


def test_outcomes_by_order_of_appearance_or_by_argument(dump):
    path = dump(START, book(T + 1, NO, bids=[("0.4", "5")]))
    assert read_polymarket(path).instruments == (
        Instrument(0, MARKET, "YES"),
        Instrument(1, MARKET, "NO"),
    )
    for outcomes in ({YES: "NO"}, {NO: "YES"}):
        assert rows_of(read_polymarket(path, outcomes=outcomes))[-1][1] == 0
    alone = read_polymarket(dump(START), outcomes={YES: "NO"})
    assert alone.instruments == (Instrument(1, MARKET, "NO"),)
    with pytest.raises(ValueError, match="must be YES or NO; got 'Up'"):
        read_polymarket(path, outcomes={YES: "Up"})


def test_messages_of_one_time_form_one_moment(dump):
    """The venue reports the resting part first, then the trade, then the book."""
    rest = [("0.48", "30")], [("0.49", "5"), ("0.52", "25"), ("0.53", "60.5")]
    stream = read_polymarket(
        dump(
            START,
            book(
                T,
                NO,
                bids=[("0.48", "25"), ("0.47", "60.5")],
                asks=[("0.51", "20"), ("0.52", "30")],
            ),
            change(
                T + 7000,
                (YES, "SELL", "0.49", "5", "0.48", "0.49"),
                (NO, "BUY", "0.51", "5", "0.51", "0.52"),
            ),
            change(
                T + 7000,
                (YES, "BUY", "0.49", "0", "0.48", "0.49"),
                (NO, "SELL", "0.51", "0", "0.51", "0.52"),
            ),
            trade(T + 7000, "SELL", "0.49", "20"),
            book(T + 7000, YES, *rest),
        )
    )
    assert rows_of(stream)[8:] == [
        (Kind.IOC, 0, 1, 49, 20 * LOT),
        (Kind.FILL, 0, 0, 49, 20 * LOT),
        (Kind.IOC, 1, 0, 51, 20 * LOT),
        (Kind.FILL, 1, 1, 51, 20 * LOT),
        (Kind.LIMIT, 0, 1, 49, 5 * LOT),
        (Kind.LIMIT, 1, 0, 51, 5 * LOT),
    ]
    assert not stream.problems.remarks
    assert backtest(stream).check.ok


@pytest.mark.parametrize("book_first", [True, False])
def test_book_near_a_trade_may_include_it(dump, book_first):
    told = [
        trade(T + 7000, "SELL", "0.49", "15"),
        book(
            T + 7400, bids=[("0.48", "30"), ("0.49", "5")], asks=[("0.52", "25"), ("0.53", "60.5")]
        ),
    ]
    if book_first:
        told = [told[1] | {"timestamp": str(T + 6600)}, told[0]]
    stream = read_polymarket(dump(START, *told))
    assert rows_of(stream)[4:] == [
        (Kind.IOC, 0, 1, 49, 15 * LOT),
        (Kind.FILL, 0, 0, 49, 15 * LOT),
    ]
    assert stream.problems.remarks == {"book that includes a trade": 1}


def test_trade_without_a_level_change_is_recorded(dump):
    odd = trade(T + 2, "BUY", "0.4567", "3")
    stream = read_polymarket(dump(START, trade(T + 1, "BUY", "0.55", "3"), odd))
    assert rows_of(stream)[4:] == [(Kind.TRADE, 0, 1, 55, 3 * LOT)]
    assert stream.problems.remarks == {
        "trade between two ticks": 1,
        "trade without a level change": 1,
    }


def test_best_prices_of_an_empty_side(dump):
    stream = read_polymarket(
        dump(
            book(T, bids=[("0.4", "5")], asks=[("0.6", "5")]),
            change(T + 1, (YES, "BUY", "0.4", "0", "0", "0.6")),
            change(T + 2, (YES, "SELL", "0.6", "0", "0", "1")),
        )
    )
    events = next(stream.chunks())
    stated = events[events["kind"] == Kind.BBO][["side", "price", "size"]].tolist()
    assert stated[2:] == [(0, 0, 0), (1, 60, 5 * LOT), (0, 0, 0), (1, 100, 0)]
    assert backtest(stream).check.ok


def test_missing_message_shows_in_the_best_prices(dump):
    lost = change(T + 9000, (YES, "BUY", "0.48", "31", "0.48", "0.52"))
    stream = read_polymarket(dump(START, lost))
    check = backtest(stream).check
    assert (check.bests, check.bests_equal) == (4, 3)
    unseen = change(T + 9000, (YES, "BUY", "0.48", "31", "0.51", "0.52"))
    stream = read_polymarket(dump(START, unseen))
    assert backtest(stream).check.ok
    assert stream.problems.remarks == {"best price without a level": 1}


def test_messages_without_a_known_book_are_remarked(dump):
    stream = read_polymarket(
        dump(
            START,
            change(T + 1, (NO, "BUY", "0.4", "3", "0.4", "0.5")),
            {"event_type": "best_bid_ask", "asset_id": YES, "market": MARKET, "timestamp": str(T)},
            {"type": "subscribed"},
            START,
        )
    )
    assert len(rows_of(stream)) == 4
    assert stream.problems.remarks == {
        "change of a token without a book": 1,
        "message that does not change a book": 2,
        "book older than the message before it": 1,
    }


def test_resolution_is_recorded(dump):
    end = {"event_type": "market_resolved", "market": MARKET, "timestamp": str(T + 1)}
    end |= {"assets_ids": [YES, NO], "winning_asset_id": NO, "winning_outcome": "No"}
    stream = read_polymarket(dump(START, book(T, NO), end))
    assert rows_of(stream)[-2:] == [(Kind.SETTLE, 0, 0, 0, 0), (Kind.SETTLE, 1, 0, 100, 0)]


def test_level_rule_is_checked_and_applied(dump):
    path = dump(
        book(T, bids=[("0.4", "5")]),
        change(T + 1, (YES, "BUY", "0.4", "9")),
        change(T + 2, (YES, "BUY", "0.4", "2")),
    )
    tails, heads = (rows_of(read_polymarket(path, level_rule=rule)) for rule in ("tail", "head"))
    assert tails[-2:] == [(Kind.REDUCE, 0, 0, 40, 2 * LOT), (Kind.CANCEL, 0, 0, 40, 0)]
    assert heads[-2:] == [(Kind.CANCEL, 0, 0, 40, 0), (Kind.REDUCE, 0, 0, 40, 2 * LOT)]
    with pytest.raises(ValueError, match="level rule must be"):
        read_polymarket(path, level_rule="none")


def test_reading_again_and_in_chunks_returns_the_same_events(dump):
    rows = [START, *(change(T + at, (YES, "BUY", f"0.{at}", "3")) for at in range(10, 40))]
    stream = read_polymarket(dump(*rows))
    whole = next(stream.chunks(10**6))
    parts = list(stream.chunks(7))
    assert np.array_equal(np.concatenate(parts), whole)
    assert stream.progress.done_bytes == stream.progress.total_bytes > 0
