"""Export reader: events, trades, and every kind of problem."""

import gzip
import json

import numpy as np
import pytest

from clob.records import Kind
from clob.replay import ReplayFormatError, ReplayWarning, backtest
from clob.replay.io.streams import INVENTED_ID
from clob.replay.readers.exports import is_export, read_export, table_of

ADDED = {
    "commandSeq": 1,
    "timestamp": 1_000,
    "marketId": "m",
    "seq": 1,
    "type": "order_added",
    "tokenId": "77",
    "orderId": "ord_1",
    "incomingOrderId": None,
    "side": 1,
    "price": 50,
    "size": None,
    "remaining": "60",
    "incomingRemaining": None,
    "reason": None,
}
TRADE = ADDED | {
    "commandSeq": 2,
    "timestamp": 1_001,
    "seq": 2,
    "type": "trade",
    "incomingOrderId": "12",
    "side": 0,
    "size": "20",
    "remaining": "40",
    "incomingRemaining": "0",
}
REDUCED = ADDED | {
    "commandSeq": 3, "timestamp": 1_001, "seq": 3, "type": "order_reduced", "side": None,
    "price": None, "remaining": "10",
}  # fmt: skip
REMOVED = REDUCED | {
    "commandSeq": 4,
    "seq": 4,
    "type": "order_removed",
    "reason": "cancelled",
}
DAY = [ADDED, TRADE, REDUCED, REMOVED]
SOLD = {
    "id": "trade_1_aaaaaa",
    "marketId": "m",
    "tokenId": "77",
    "price": 50,
    "size": "20",
    "timestamp": 1_001,
    "seq": 2,
    "restingOrderId": "ord_1",
    "incomingOrderId": "12",
    "incomingSide": 0,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def write(path, objects):
    """Write JSON lines like the server."""
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in objects)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def rows(stream):
    found = []
    for chunk in stream.chunks():
        fields = ("ts_ns", "seq", "kind", "order_id", "side", "price", "size")
        found += zip(*(chunk[field].tolist() for field in fields), strict=True)
    return [(ts_ns // 10**6, seq, Kind(kind).name, *rest) for ts_ns, seq, kind, *rest in found]


EXPECTED = [
    (1_000, 1, "LIMIT", INVENTED_ID, 1, 50, 6),
    (1_001, 2, "IOC", 12, 0, 50, 2),
    (1_001, 2, "FILL", INVENTED_ID, 1, 50, 2),
    (1_001, 3, "REDUCE", INVENTED_ID, 1, 0, 1),
    (1_001, 4, "CANCEL", INVENTED_ID, 1, 0, 0),
]


def test_events_become_commands_with_their_fills(path):
    stream = read_export(write(path, DAY))
    assert rows(stream) == EXPECTED
    assert (stream.lo, stream.hi, stream.lot_wei) == (1, 99, 10)
    assert (stream.note, stream.has_fills) == ("events of an export", True)
    found = backtest(stream)
    assert (found.check.ok, found.check.recorded, found.divergence.total) == (True, 1, 0)
    assert len(found.books[0]) == 0


@pytest.mark.parametrize("name", ["events.jsonl.gz", "events.parquet"])
def test_compressed_lines_and_parquet_have_the_same_events(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".parquet"):
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(DAY), path)
    else:
        write(path, DAY)
    assert rows(read_export(path)) == EXPECTED
    assert [len(chunk) for chunk in read_export(path).chunks(2)] == [2, 2, 1]


def test_order_that_trades_and_rests_is_one_limit(path):
    rest = ADDED | TRADE | {"type": "order_added", "orderId": "12", "price": 52, "size": None}
    day = [ADDED, TRADE | {"remaining": "0"}, REMOVED | {"commandSeq": 2, "seq": 3,
           "reason": "filled", "remaining": "0"}, rest | {"seq": 4, "remaining": "30"}]  # fmt: skip
    assert rows(read_export(write(path, day)))[1:] == [
        (1_001, 2, "LIMIT", 12, 0, 52, 5),
        (1_001, 2, "FILL", INVENTED_ID, 1, 50, 2),
    ]


def test_trades_become_trade_records(tmp_path):
    other = SOLD | {"tokenId": "78", "incomingSide": 1, "price": 49, "timestamp": 1_002}
    stream = read_export(write(tmp_path / "trades.jsonl", [SOLD, other]))
    assert rows(stream) == [
        (1_001, 2, "TRADE", 0, 0, 50, 1),
        (1_002, 2, "TRADE", 0, 1, 49, 1),
    ]
    assert (stream.lot_wei, stream.has_fills) == (20, False)
    assert np.concatenate(list(stream.chunks()))["instrument"].tolist() == [0, 1]


def test_mint_or_merge_is_rejected_before_any_event(path):
    half = TRADE | {"size": "20", "price": 50}
    other = half | {"seq": 3, "tokenId": "78", "price": 50}
    for policy in ("raise", "warn"):
        with pytest.raises(ReplayFormatError, match="'m' is complementary: events 2 and 3"):
            read_export(write(path, [ADDED, half, other]), on_problem=policy)
    apart = [
        other | {"incomingOrderId": "13"},
        other | {"marketId": "n"},
        other | {"tokenId": "77", "remaining": "20"},
    ]
    for each in apart:
        read_export(write(path, [ADDED, half, each]))


def test_yes_argument_chooses_the_yes_token(path):
    other = ADDED | {"commandSeq": 2, "seq": 2, "tokenId": "78", "orderId": "b"}
    write(path, [ADDED, other])
    for yes, numbers in (({}, [0, 1]), ({"m": "77"}, [0, 1]), ({"m": "78"}, [1, 0])):
        stream = read_export(path, yes=yes)
        assert np.concatenate(list(stream.chunks()))["instrument"].tolist() == numbers
        assert [each.outcome for each in stream.instruments] == ["YES", "NO"]
    write(path, [ADDED, other, other | {"commandSeq": 3, "seq": 3, "tokenId": "79"}])
    with pytest.raises(ReplayFormatError, match="market 'm' must have at most two tokens"):
        read_export(path)


def test_table_of_orders_is_rejected(tmp_path):
    orders = {"id": "o", "marketId": "m", "tokenId": "7", "maker": "a", "filledTokens": "0"}
    with pytest.raises(ReplayFormatError, match="the table of orders has no order of events"):
        read_export(write(tmp_path / "orders.jsonl", [orders]))
    with pytest.raises(ReplayFormatError, match="expected a table of events or trades"):
        read_export(write(tmp_path / "other.jsonl", [{"a": 1}]))


def test_export_is_detected_by_its_first_line():
    assert is_export(json.dumps(ADDED).encode() + b"\n{")
    assert is_export(json.dumps(SOLD).encode())
    assert not is_export(b'{"event_type":"book","market":"0x1"}\n')
    assert not is_export(b"[]")
    assert not is_export(b'{"commandSeq":')
    assert table_of(ADDED) == "events"
    assert table_of(SOLD) == "trades"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"price": 50.5}, "2: broken line: Expected `int"),
        ({"size": "1e3"}, "2: broken line: an amount must be a string of digits, got '1e3'"),
        ({"size": None}, "2: broken line: an amount must be a string of digits, got None"),
        ({"price": 100}, "2: broken line: price must be 1 to 99 .cents., got 100"),
        ({"type": "order"}, "2: broken line: Invalid enum value 'order'"),
        ({"side": None}, "2: broken line: an event of type trade must have a side"),
        ({"incomingOrderId": None}, "2: broken line: a trade must have incomingOrderId"),
        ({"timestamp": 10**13}, "2: broken line: timestamp must be 0 to 9223372036854, got 1"),
        ({"seq": 2**63}, "2: broken line: seq must be 0 to 9223372036854775807, got 922"),
        ({"size": "1" * 61}, "2: broken line: an amount must have at most 60 digits, got 61"),
        ({"timestamp": 999}, "2: clock backwards: time must not be before 1000 ms, got 999"),
        ({"seq": 3}, "2: gap: expected event 2 of market 'm', got 3"),
    ],
)
def test_problem_names_kind_and_line(path, change, text):
    write(path, [ADDED, TRADE | change])
    with pytest.raises(ReplayFormatError, match=f"events.jsonl:{text}"):
        list(read_export(path).chunks())
    stream = read_export(path, on_problem="warn")
    with pytest.warns(ReplayWarning, match=f"events.jsonl:{text}"):
        read = rows(stream)
    assert read[0][:-1] == (1_000, 1, "LIMIT", INVENTED_ID, 1, 50)
    assert len(stream.problems) == 1


def test_size_of_other_events_is_ignored(path):
    write(path, [ADDED | {"size": "none"}, *DAY[1:]])
    assert rows(read_export(path)) == rows(read_export(write(path, DAY)))


def test_truncated_line_is_reported(path):
    write(path, DAY)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ReplayFormatError, match=r"events\.jsonl:4: broken line: "):
        read_export(path)


def test_lot_that_does_not_divide_a_size_is_rejected(path, tmp_path):
    for file, objects in ((path, DAY), (tmp_path / "trades.jsonl", [SOLD])):
        with pytest.raises(ReplayFormatError, match="lots of 7 wei"):
            list(read_export(write(file, objects), lot_wei=7).chunks())
