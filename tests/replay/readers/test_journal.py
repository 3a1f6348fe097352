"""Journal reader: a replay has the fills and the final books of the matcher."""

import gzip
import json

import numpy as np
import pytest

from clob import (
    AddMarket,
    Cancel,
    Market,
    Matcher,
    Order,
    Replace,
    SelfTrade,
    Side,
    Submit,
    TimeInForce,
    Trade,
)
from clob.errors import RejectedError
from clob.journal import Recorder, encode_frame, read_frames, verify
from clob.records import Kind
from clob.replay import ReplayFormatError, ReplayWarning, backtest
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers.journal import read_journal
from tests.matcher_model.worlds import SMALL, TIGHT
from tests.replay.readers.journals import depth_of, record_flow, run_commands

WORLDS = {"small": SMALL, "tight": TIGHT}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "day.journal"


def sell(order_id, price, size, **more):
    order = {"token": "1", "maker": "A", "side": Side.SELL} | more
    return Submit(market="m", order=Order(id=order_id, price=price, size=size, **order))


def buy(order_id, price, size, **more):
    return sell(order_id, price, size, side=Side.BUY, **({"maker": "B"} | more))


def journal_of(*commands, market=None):
    """Return the matcher and the journal of some commands in a market."""
    recorder = Recorder()
    recorder.apply(AddMarket(market=market or Market(id="m", yes="1", no="2")))
    run_commands(recorder, *commands)
    return recorder.matcher, recorder.frame()


def rows(stream):
    """Return kind, order, side, price and size of every event."""
    found = []
    for chunk in stream.chunks():
        fields = ("kind", "order_id", "side", "price", "size")
        found += zip(*(chunk[field].tolist() for field in fields), strict=True)
    return [(Kind(kind).name, *rest) for kind, *rest in found]


def trades_of(data, matcher=None):
    """Execute a journal and return time, price, size and side of its trades."""
    matcher, found = matcher or Matcher(), []
    for frame in read_frames(data):
        for command in frame.commands():
            try:
                events = matcher.apply(command)
            except RejectedError:
                continue
            found += [
                (command.now_ms * 10**6, event.price, event.size)
                for event in events
                if isinstance(event, Trade)
            ]
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("world", WORLDS)
def test_random_journal_is_replayed_trade_for_trade(path, world, seed):
    matcher, data = record_flow(WORLDS[world], seed, 800)
    path.write_bytes(data)
    stream = read_journal(path)
    found = backtest(stream)
    assert found.check.ok
    assert found.divergence.counts == {}
    assert backtest(stream, mode="shadow").digest == found.digest
    fills = [(fill["ts_ns"], fill["price"], fill["size"] * stream.lot_wei) for fill in found.fills]
    assert len(fills) > 10
    assert fills == trades_of(data)
    for place, market in enumerate(matcher.markets):
        for number, token in enumerate((market.yes, market.no)):
            if token:
                book = found.books[2 * place + number]
                assert depth_of(book.depth()) == depth_of(matcher.depth(market.id, token))
    assert stream.problems.remarks["rejected: UNKNOWN_ORDER"] > 0


def test_journal_in_the_reader_tests_verifies(path):
    matcher, data = record_flow(SMALL, 1, 200)
    path.write_bytes(data)
    assert verify(path.read_bytes()).state_hash == matcher.state_hash()
    assert backtest(read_journal(path)).digest == backtest(read_journal(path)).digest


@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_chunks_and_compression_do_not_change_events(path, size):
    _, data = record_flow(SMALL, 5, 300, per_frame=1)
    path.write_bytes(data)
    packed = path.with_suffix(".journal.gz")
    packed.write_bytes(gzip.compress(data))
    whole = np.concatenate(list(read_journal(path).chunks()))
    parts = np.concatenate(list(read_journal(packed).chunks(size)))
    assert (whole == parts).all()


def test_order_that_trades_and_rests_is_one_limit_with_fills(path):
    _, data = journal_of(sell(1, 50, 60), sell(2, 51, 40), buy(3, 51, 150))
    path.write_bytes(data)
    stream = read_journal(path)
    assert (stream.lo, stream.hi, stream.lot_wei) == (1, 99, 10)
    assert [(each.number, each.market, each.outcome) for each in stream.instruments] == [
        (0, "m", "YES"),
        (1, "m", "NO"),
    ]
    assert rows(stream) == [
        ("LIMIT", 1, 1, 50, 6),
        ("LIMIT", 2, 1, 51, 4),
        ("LIMIT", 3, 0, 51, 15),
        ("FILL", 1, 1, 50, 6),
        ("FILL", 2, 1, 51, 4),
    ]


def test_request_of_an_order_that_does_not_rest_is_kept(path):
    _, data = journal_of(
        sell(1, 50, 60),
        buy(2, 55, 100, time_in_force=TimeInForce.IOC),
        buy(3, 55, 100, time_in_force=TimeInForce.IOC),
        sell(4, 50, 10, post_only=True),
        buy(5, 52, 10),
        sell(6, 40, 10, time_in_force=TimeInForce.FOK),  # rejected: nothing to trade with
    )
    path.write_bytes(data)
    assert rows(read_journal(path)) == [
        ("LIMIT", 1, 1, 50, 6),
        ("IOC", 2, 0, 55, 10),
        ("FILL", 1, 1, 50, 6),
        ("IOC", 3, 0, 55, 10),
        ("LIMIT", 4, 1, 50, 1),
        ("LIMIT", 5, 0, 52, 1),
        ("FILL", 4, 1, 50, 1),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (SelfTrade.NONE, [("LIMIT", 3, 0, 51, 9), ("FILL", 1, 1, 50, 4), ("FILL", 2, 1, 51, 4)]),
        (
            SelfTrade.CANCEL_RESTING,
            [("CANCEL", 1, 1, 0, 0), ("LIMIT", 3, 0, 51, 9), ("FILL", 2, 1, 51, 4)],
        ),
        (SelfTrade.CANCEL_INCOMING, []),
        (SelfTrade.CANCEL_BOTH, [("CANCEL", 1, 1, 0, 0)]),
        (
            SelfTrade.DECREMENT,
            [("CANCEL", 1, 1, 0, 0), ("LIMIT", 3, 0, 51, 5), ("FILL", 2, 1, 51, 4)],
        ),
    ],
)
def test_own_orders_are_cancelled_before_the_incoming_order(path, policy, expected):
    matcher, data = journal_of(
        sell(1, 50, 4, maker="B"),
        sell(2, 51, 4),
        buy(3, 51, 9, self_trade=policy),
    )
    path.write_bytes(data)
    assert rows(read_journal(path))[2:] == expected
    found = backtest(read_journal(path))
    assert (found.check.ok, found.divergence.total) == (True, 0)
    assert depth_of(found.books[0].depth()) == depth_of(matcher.depth("m"))


def test_replace_keeps_the_order_or_cancels_it_after_a_self_trade(path):
    matcher, data = journal_of(
        sell(1, 50, 4),
        buy(2, 40, 9),
        buy(3, 40, 9, maker="A"),
        Replace(order_id=2, price=50, size=6),
        Replace(order_id=2, price=50, size=1),  # reduced in place
        Replace(order_id=3, price=45, size=2),
        sell(4, 49, 3, self_trade=SelfTrade.CANCEL_INCOMING),
        Replace(order_id=3, price=49, size=2, self_trade=SelfTrade.CANCEL_INCOMING),
    )
    path.write_bytes(data)
    assert rows(read_journal(path))[3:] == [
        ("REPLACE", 2, 0, 50, 6),
        ("FILL", 1, 1, 50, 4),
        ("REDUCE", 2, 0, 0, 1),
        ("REPLACE", 3, 0, 45, 2),
        ("LIMIT", 4, 1, 49, 3),
        ("FILL", 2, 0, 50, 1),
        ("CANCEL", 3, 0, 0, 0),
    ]
    found = backtest(read_journal(path))
    assert (found.check.ok, found.divergence.total) == (True, 0)
    assert depth_of(found.books[0].depth()) == depth_of(matcher.depth("m"))


def test_string_ids_become_unused_integers(path):
    _, data = journal_of(sell("ord_1", 50, 4), sell(7, 50, 4), Cancel(order_id="ord_1"))
    path.write_bytes(data)
    named = [row[1] for row in rows(read_journal(path))]
    assert named == [INVENTED_ID, 7, INVENTED_ID]


def test_each_token_of_each_market_has_a_book(path):
    recorder = Recorder()
    for name in "mn":
        market = Market(id=name, yes=f"{name}1", no=f"{name}2")
        run_commands(recorder, AddMarket(market=market))
        run_commands(
            recorder,
            *(
                Submit(
                    market=name,
                    order=Order(
                        id=f"{name}{n}",
                        token=f"{name}{n}",
                        maker="A",
                        side=Side.BUY,
                        price=n,
                        size=5,
                    ),
                )
                for n in (1, 2)
            ),
        )
    path.write_bytes(recorder.frame())
    stream = read_journal(path)
    assert [each.market for each in stream.instruments] == ["m", "m", "n", "n"]
    assert np.concatenate(list(stream.chunks()))["instrument"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("lot_wei", [None, 100])
def test_complementary_market_is_rejected_before_any_event(path, lot_wei):
    recorder = Recorder()
    paired = Market(id="m", yes="1", no="2", lot_wei=100, complementary=True)
    recorder.apply(AddMarket(market=paired, now_ms=1))
    path.write_bytes(recorder.frame())
    with pytest.raises(ReplayFormatError, match="'m' is complementary"):
        read_journal(path, lot_wei=lot_wei)


def test_journal_after_a_snapshot_has_a_seed(path):
    recorder = Recorder()
    matcher, _ = record_flow(SMALL, 2, 300, recorder=recorder)
    place = {"previous": recorder.chain_hash, "first_seq": recorder.next_seq}
    state = matcher.snapshot()
    _, later = record_flow(SMALL, 3, 300, recorder=recorder)
    path.write_bytes(later)
    with pytest.raises(ReplayFormatError, match="frame 1 at byte 0"):
        read_journal(path)
    stream = read_journal(path, state=state, **place)
    assert len(stream.collect().seed) == len(Matcher.restore(state).open_orders())
    found = backtest(stream)
    assert (found.check.ok, found.divergence.total) == (True, 0)
    assert len(found.fills) > 10
    assert len(found.books[0]) == sum(
        record.order.token == matcher.markets[0].yes for record in matcher.open_orders()
    )


def test_chosen_lot_must_divide_every_size(path):
    _, data = journal_of(sell(1, 50, 60), sell(2, 51, 45))
    path.write_bytes(data)
    assert [row[-1] for row in rows(read_journal(path, lot_wei=5))] == [12, 9]
    with pytest.raises(ReplayFormatError, match=r"order 2: .* lots of 10 wei; got 45 wei"):
        list(read_journal(path, lot_wei=10).chunks())


def test_sizes_without_a_common_lot_are_rejected(path):
    _, data = journal_of(sell(1, 50, 2**70), sell(2, 51, 3))
    path.write_bytes(data)
    with pytest.raises(ReplayFormatError, match="lots of 1 wei"):
        list(read_journal(path).chunks())


def damaged(data, place):
    """Change a byte."""
    return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]


@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_damage_is_reported_and_ends_the_reading(path, harm):
    recorder, frames = Recorder(), []
    run_commands(recorder, AddMarket(market=Market(id="m", yes="1", no="2")))
    for number in range(1, 4):
        run_commands(recorder, sell(number, 50, 10))
        frames.append(recorder.frame())
    data = b"".join(frames)
    second = len(frames[0])
    path.write_bytes(data[: second + 40] if harm == "cut" else damaged(data, second + 40))
    with pytest.raises(ReplayFormatError, match=r"day\.journal:2: damaged frame: frame 2 at byte"):
        read_journal(path)
    stream = read_journal(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match=r"day\.journal:2: damaged frame"):
        assert [row[1] for row in rows(stream)] == [1]
    assert stream.problems.counts == {"damaged frame": 1}


def test_custom_commands_are_skipped_and_invalid_bytes_reported(path):
    path.write_bytes(encode_frame([b"\x80mine", b"\x07\x02\xe8\x03"], 1, bytes(32)))
    assert rows(read_journal(path)) == []
    path.write_bytes(encode_frame([b"\x07\x03\xe8\x03\x00"], 1, bytes(32)))
    with pytest.raises(ReplayFormatError, match=r"day\.journal:1: damaged frame: .*command 1"):
        read_journal(path)


def test_remarks_count_rejections(path):
    _, data = journal_of(sell(1, 50, 60), sell(1, 50, 60), Cancel(order_id="x"))
    path.write_bytes(data)
    stream = read_journal(path)
    rows(stream)
    assert json.dumps(stream.problems.remarks, sort_keys=True) == (
        '{"rejected: DUPLICATE_ORDER": 1, "rejected: UNKNOWN_ORDER": 1}'
    )
