"""The synthetic day: the same everywhere, valid, and with something of everything in it."""

import numpy as np
import pytest

from clob.replay import Flag, Kind, read_npz, replay, sample_path, synthetic_day
from clob.replay.samples.synthetic import SAMPLE_ORDERS

DAY_NS = 24 * 60 * 60 * 10**9


@pytest.fixture(scope="module")
def sample():
    return read_npz(sample_path())


def test_the_sample_is_made_by_this_code(sample):
    again = synthetic_day(orders=SAMPLE_ORDERS)
    for field in ("events", "seed", "fills"):
        assert np.array_equal(getattr(again, field), getattr(sample, field))
    for field in ("lo", "hi", "lot_wei", "name", "note"):
        assert getattr(again, field) == getattr(sample, field)


def test_the_sample_is_small():
    assert sample_path().stat().st_size < 600_000


def test_the_book_and_the_plain_matcher_agree(book_class, sample):
    result = replay(sample, book=book_class(lot_wei=sample.lot_wei))
    assert result.check.ok
    assert result.refused == {}
    assert result.limit_fills > 0
    assert result.ioc_unfilled > 0
    result.book.check()


@pytest.mark.parametrize("seed", range(5))
def test_other_days_are_valid_too(book_class, seed):
    day = synthetic_day(seed=seed, orders=500)
    result = replay(day, book=book_class(lot_wei=day.lot_wei))
    assert result.check.ok
    assert result.refused == {}


@pytest.mark.parametrize("orders", [1, 2, 3])
def test_shortest_days(orders):
    day = synthetic_day(orders=orders)
    assert np.isin(day.events["kind"], (Kind.LIMIT, Kind.IOC)).sum() == orders
    assert replay(day).check.ok


def test_the_sample_has_something_of_everything(sample):
    events = sample.events
    for kind in (Kind.LIMIT, Kind.CANCEL, Kind.REDUCE, Kind.IOC, Kind.REPLACE):
        assert (events["kind"] == kind).sum() > 500
    assert (events["flags"] == Flag.POST_ONLY).sum() > 500
    assert len(sample.fills) > 5_000
    assert len(np.unique(events["owner"])) > 100
    assert (events["size"][events["kind"] != Kind.CANCEL] > 0).all()


def test_the_sample_takes_a_day_and_ends_at_an_outcome(sample):
    times = sample.events["ts_ns"]
    assert (np.diff(times) >= 0).all()
    assert (times % 1_000_000 == 0).all()
    assert int(times[-1]) // DAY_NS == int(times[0]) // DAY_NS
    assert 0.99 * DAY_NS < times[-1] - times[0] < DAY_NS
    last = sample.fills["price"][-20:]
    assert (last <= 5).all() or (last >= 95).all()
    assert np.ptp(sample.fills["price"]) > 30


def test_seeds_make_different_days():
    one, other = synthetic_day(seed=1, orders=50), synthetic_day(seed=2, orders=50)
    assert not np.array_equal(one.events, other.events)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"orders": 0}])
def test_out_of_range(wrong):
    with pytest.raises(ValueError, match="must be"):
        synthetic_day(**wrong)
