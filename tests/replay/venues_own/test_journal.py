"""Journals read as recordings: fill for fill what the matcher did, books as it left them."""

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
from tests.replay.venues_own.journals import depth_of, recorded, told

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
    """Give the matcher and the journal of some commands in a market."""
    recorder = Recorder()
    recorder.apply(AddMarket(market=market or Market(id="m", yes="1", no="2")))
    told(recorder, *commands)
    return recorder.matcher, recorder.frame()


def rows(stream):
    """Give kind, order, side, price and size of every event."""
    found = []
    for chunk in stream.chunks():
        fields = ("kind", "order_id", "side", "price", "size")
        found += zip(*(chunk[field].tolist() for field in fields), strict=True)
    return [(Kind(kind).name, *rest) for kind, *rest in found]


def trades_of(data, matcher=None):
    """Run a journal and give its trades: time, price, size and side of each."""
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
def test_a_random_journal_is_replayed_trade_for_trade(path, world, seed):
    matcher, data = recorded(WORLDS[world], seed, 800)
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
    assert stream.problems.remarks["refused: UNKNOWN_ORDER"] > 0


def test_the_journal_that_was_read_is_the_one_that_verifies(path):
    matcher, data = recorded(SMALL, 1, 200)
    path.write_bytes(data)
    assert verify(path.read_bytes()).state_hash == matcher.state_hash()
    assert backtest(read_journal(path)).digest == backtest(read_journal(path)).digest


@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_chunks_of_every_size_and_packed_files_say_the_same(path, size):
    _, data = recorded(SMALL, 5, 300, per_frame=1)
    path.write_bytes(data)
    packed = path.with_suffix(".journal.gz")
    packed.write_bytes(gzip.compress(data))
    whole = np.concatenate(list(read_journal(path).chunks()))
    parts = np.concatenate(list(read_journal(packed).chunks(size)))
    assert (whole == parts).all()


def test_an_order_that_trades_and_rests_is_one_limit_with_its_fills(path):
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


def test_what_an_order_asked_for_is_kept_where_it_did_not_rest(path):
    _, data = journal_of(
        sell(1, 50, 60),
        buy(2, 55, 100, time_in_force=TimeInForce.IOC),
        buy(3, 55, 100, time_in_force=TimeInForce.IOC),
        sell(4, 50, 10, post_only=True),
        buy(5, 52, 10),
        sell(6, 40, 10, time_in_force=TimeInForce.FOK),  # refused: nothing to trade with
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
def test_own_orders_that_make_way_are_taken_out_beforehand(path, policy, expected):
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


def test_replacing_keeps_the_order_or_takes_it_out_where_it_met_itself(path):
    matcher, data = journal_of(
        sell(1, 50, 4),
        buy(2, 40, 9),
        buy(3, 40, 9, maker="A"),
        Replace(order_id=2, price=50, size=6),
        Replace(order_id=2, price=50, size=1),  # smaller where it stands
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


def test_names_become_numbers_that_no_integer_has(path):
    _, data = journal_of(sell("ord_1", 50, 4), sell(7, 50, 4), Cancel(order_id="ord_1"))
    path.write_bytes(data)
    named = [row[1] for row in rows(read_journal(path))]
    assert named == [INVENTED_ID, 7, INVENTED_ID]


def test_both_tokens_of_several_markets_have_their_books(path):
    recorder = Recorder()
    for name in "mn":
        market = Market(id=name, yes=f"{name}1", no=f"{name}2")
        told(recorder, AddMarket(market=market))
        told(
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
def test_a_complementary_market_is_refused_before_anything_is_told(path, lot_wei):
    recorder = Recorder()
    paired = Market(id="m", yes="1", no="2", lot_wei=100, complementary=True)
    recorder.apply(AddMarket(market=paired, now_ms=1))
    path.write_bytes(recorder.frame())
    with pytest.raises(ReplayFormatError, match="'m' is complementary"):
        read_journal(path, lot_wei=lot_wei)


def test_a_journal_that_goes_on_from_a_snapshot_has_a_seed(path):
    recorder = Recorder()
    matcher, _ = recorded(SMALL, 2, 300, recorder=recorder)
    place = {"previous": recorder.chain_hash, "first_seq": recorder.next_seq}
    state = matcher.snapshot()
    _, later = recorded(SMALL, 3, 300, recorder=recorder)
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


def test_a_lot_can_be_chosen_and_must_divide_every_size(path):
    _, data = journal_of(sell(1, 50, 60), sell(2, 51, 45))
    path.write_bytes(data)
    assert [row[-1] for row in rows(read_journal(path, lot_wei=5))] == [12, 9]
    with pytest.raises(ReplayFormatError, match=r"order 2: 45 wei are not 0 to .* lots of 10 wei"):
        list(read_journal(path, lot_wei=10).chunks())


def test_sizes_that_share_no_lot_are_refused_and_not_rounded(path):
    _, data = journal_of(sell(1, 50, 2**70), sell(2, 51, 3))
    path.write_bytes(data)
    with pytest.raises(ReplayFormatError, match="lots of 1 wei"):
        list(read_journal(path).chunks())


def damaged(data, place):
    """Change a byte."""
    return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]


@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_damage_is_reported_with_its_frame_and_nothing_behind_it_is_read(path, harm):
    recorder, frames = Recorder(), []
    told(recorder, AddMarket(market=Market(id="m", yes="1", no="2")))
    for number in range(1, 4):
        told(recorder, sell(number, 50, 10))
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


def test_commands_of_the_embedder_are_passed_over_and_bytes_that_are_none_reported(path):
    path.write_bytes(encode_frame([b"\x80mine", b"\x07\x02\xe8\x03"], 1, bytes(32)))
    assert rows(read_journal(path)) == []
    path.write_bytes(encode_frame([b"\x07\x03\xe8\x03\x00"], 1, bytes(32)))
    with pytest.raises(ReplayFormatError, match=r"day\.journal:1: damaged frame: .*command 1"):
        read_journal(path)


def test_json_of_the_remarks_counts_what_was_refused(path):
    _, data = journal_of(sell(1, 50, 60), sell(1, 50, 60), Cancel(order_id="x"))
    path.write_bytes(data)
    stream = read_journal(path)
    rows(stream)
    assert json.dumps(stream.problems.remarks, sort_keys=True) == (
        '{"refused: DUPLICATE_ORDER": 1, "refused: UNKNOWN_ORDER": 1}'
    )
