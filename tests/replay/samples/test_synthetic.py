"""The synthetic day: reproducible, valid, and with every kind of event."""

import numpy as np
import pytest

from clob.replay import Flag, Kind, Stream, backtest, read_npz, sample_path, synthetic_day
from clob.replay.samples.synthetic import SAMPLE_ORDERS

DAY_NS = 24 * 60 * 60 * 10**9


@pytest.fixture(scope="module")
def sample():
    return read_npz(sample_path())


def test_sample_equals_a_regenerated_day(sample):
    again = synthetic_day(orders=SAMPLE_ORDERS)
    for field in ("events", "seed", "fills"):
        assert np.array_equal(getattr(again, field), getattr(sample, field))
    for field in ("lo", "hi", "lot_wei", "name", "note"):
        assert getattr(again, field) == getattr(sample, field)


def test_sample_is_small():
    assert sample_path().stat().st_size < 600_000


def test_book_reproduces_the_fills_of_the_naive_matcher(book_class, sample):
    result = backtest(Stream.of(sample), book_class=book_class)
    assert result.check.ok
    assert result.divergence.counts == {}
    result.books[0].check()


def test_sample_has_trading_limit_and_partly_filled_ioc_orders(sample):
    kinds, left = sample.events["kind"], sample.events["size"].copy()
    assert (kinds[sample.fills["event"]] == Kind.LIMIT).any()
    np.subtract.at(left, sample.fills["event"], sample.fills["size"])
    assert (left[kinds == Kind.IOC] > 0).any()


@pytest.mark.parametrize("seed", range(5))
def test_other_days_are_valid(book_class, seed):
    day = synthetic_day(seed=seed, orders=500)
    result = backtest(Stream.of(day), book_class=book_class)
    assert result.check.ok
    assert result.divergence.counts == {}


@pytest.mark.parametrize("orders", [1, 2, 3])
def test_shortest_days(orders):
    day = synthetic_day(orders=orders)
    assert np.isin(day.events["kind"], (Kind.LIMIT, Kind.IOC)).sum() == orders
    assert backtest(Stream.of(day)).check.ok


def test_sample_has_every_kind_of_event(sample):
    events = sample.events
    for kind in (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE):
        assert (events["kind"] == kind).sum() > 500
    assert (events["flags"] == Flag.POST_ONLY).sum() > 500
    assert len(sample.fills) > 5_000
    assert len(np.unique(events["owner"])) > 100
    assert (events["size"][events["kind"] != Kind.CANCEL] > 0).all()


def test_sample_spans_a_day_and_ends_at_an_outcome(sample):
    times = sample.events["ts_ns"]
    assert (np.diff(times) >= 0).all()
    assert (times % 1_000_000 == 0).all()
    assert int(times[-1]) // DAY_NS == int(times[0]) // DAY_NS
    assert 0.99 * DAY_NS < times[-1] - times[0] < DAY_NS
    last = sample.fills["price"][-20:]
    assert (last <= 5).all() or (last >= 95).all()
    assert np.ptp(sample.fills["price"]) > 30


def test_different_seeds_make_different_days():
    one, other = synthetic_day(seed=1, orders=50), synthetic_day(seed=2, orders=50)
    assert not np.array_equal(one.events, other.events)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"orders": 0}])
def test_out_of_range(wrong):
    with pytest.raises(ValueError, match="must be"):
        synthetic_day(**wrong)
