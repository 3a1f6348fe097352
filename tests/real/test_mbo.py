"""Real order flow: an hour of a futures exchange, raw, through the public reader."""

import numpy as np
import pytest

from clob.records import Kind
from clob.replay.readers.mbo import read_mbo
from tests.real.data import data_file
from tests.real.golden import read_golden
from tests.real.queues import Queues

NAME = "esh4_20231225_mbo.npz"
FOLDED = {"offset": 19_173, "grid": (1, 99)}
"""Offset of a grid of 99 ticks that covers the best prices of the hour."""


def events_of(stream):
    return next(stream.chunks(10**6))


def test_size_of_the_recorded_hour():
    stream = read_mbo(data_file(NAME))
    kinds = events_of(stream)["kind"]
    counts = {kind: int((kinds == kind).sum()) for kind in (Kind.SEED, Kind.IOC, Kind.FILL)}
    assert (stream.lo, stream.hi) == (340, 23_170)
    assert counts == {Kind.SEED: 8_834, Kind.IOC: 2_972, Kind.FILL: 6_229}
    assert len(stream.problems) == 0
    assert stream.problems.remarks["fill larger than the displayed size"] == 27


@pytest.mark.parametrize("options", [{}, FOLDED], ids=["all prices", "99 prices"])
def test_incoming_orders_meet_the_recorded_orders(options):
    """98.05 %; the others meet iceberg orders."""
    queues = Queues()
    queues.follow(events_of(read_mbo(data_file(NAME), **options)))
    assert (queues.exact, queues.differing) == (2_914, 58)
    assert queues.differences == {"other order": 31, "other fills": 27}
    assert queues.crossed == 0


def test_seed_matches_the_golden_file():
    events = events_of(read_mbo(data_file(NAME), **FOLDED))
    seed = events[: np.argmax(events["kind"] != Kind.SEED)]
    golden = read_golden().seed
    assert in_queues(seed) == in_queues(golden)


def in_queues(seed):
    """Sort orders by side and price, stable within a price."""
    rows = seed[["side", "price", "order_id", "size"]].tolist()
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize("size", [7, 4_096])
def test_chunks_have_the_same_events(size):
    stream = read_mbo(data_file(NAME), **FOLDED)
    events = events_of(stream)
    starts = range(0, len(events), size)
    for start, chunk in zip(starts, stream.chunks(size), strict=True):
        assert np.array_equal(chunk, events[start : start + size])
