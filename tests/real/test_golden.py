"""Real order flow: one hour of a futures exchange must replay fill for fill."""

import numpy as np
import pytest

from clob import Order, Side, TimeInForce, Trade
from clob.records import Kind
from tests.real.golden import columns, read_golden


@pytest.fixture(scope="module")
def golden():
    return read_golden()


def test_size_of_the_recorded_hour(golden):
    kinds = np.bincount(golden.events["kind"]).tolist()
    assert (len(golden.seed), len(golden.events), len(golden.fills)) == (1_295, 49_785, 5_862)
    assert kinds == [26_023, 19_670, 1_178, 2_914]


def test_every_fill_matches_the_record(book_class, golden):
    book = book_class()
    assert book.seed(golden.seed) == len(golden.seed)
    fills = book.run(golden.events)
    assert np.array_equal(columns(fills), golden.fills)
    kinds = golden.events["kind"][fills["event"]]
    assert (kinds == Kind.IOC).all(), "a limit order matched"
    filled = np.bincount(fills["event"], weights=fills["size"], minlength=len(golden.events))
    takers = golden.events["kind"] == Kind.IOC
    assert (filled[takers] == golden.events["size"][takers]).all(), "an order was not filled whole"
    book.check()


@pytest.mark.parametrize("length", [1, 97, 4_096])
def test_piece_length_does_not_change_fills(book_class, golden, length):
    whole, book = book_class(), book_class()
    for each in (whole, book):
        each.seed(golden.seed)
    fills = whole.run(golden.events)
    starts = range(0, len(golden.events), length)
    results = [book.run(golden.events[start : start + length]) for start in starts]
    assert np.array_equal(columns(np.concatenate(results))[:, 1:], columns(fills)[:, 1:])
    assert book.state_hash() == whole.state_hash()


def test_single_commands_produce_the_same_fills(book_class, golden):
    whole, book = book_class(), book_class()
    for each in (whole, book):
        each.seed(golden.seed)
    whole.run(golden.events)
    trades = [trade for row in golden.events.tolist() for trade in one_by_one(book, row)]
    assert [(t.resting_order_id, t.size, t.price) for t in trades] == [
        tuple(fill) for fill in golden.fills[:, 1:].tolist()
    ]
    assert book.state_hash() == whole.state_hash()


def one_by_one(book, row):
    """Execute one event through the calls for single commands and return its trades."""
    ts_ns, _, _, order_id, size, _, price, _, kind, side, _ = row
    if kind == Kind.CANCEL:
        events = book.cancel(order_id)
    elif kind == Kind.REDUCE:
        events = book.reduce(order_id, size=size)
    else:
        order = Order(
            id=order_id,
            token="",
            maker="",
            side=Side(side),
            price=price,
            size=size,
            time_in_force=TimeInForce.IOC if kind == Kind.IOC else TimeInForce.GTC,
        )
        events = book.submit(order, now_ms=ts_ns // 1_000_000)
    return [event for event in events if isinstance(event, Trade)]
