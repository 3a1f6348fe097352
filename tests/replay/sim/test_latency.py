"""Delays, constant and drawn, and connections that keep the order of messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.sim.latency import Latency, between


def arrivals(connection, times):
    return [connection.arrival_ns(time) for time in times]


def test_constant_delay():
    orders, replies = Latency(order_ns=5, reply_ns=7).connections()
    assert arrivals(orders, [0, 0, 10]) == [5, 5, 15]
    assert arrivals(replies, [0, 0, 10]) == [7, 7, 17]


def test_messages_keep_their_order():
    delays = iter([10, 1, 1, 0])
    orders, _ = Latency(order_ns=lambda _: next(delays)).connections()
    assert arrivals(orders, [0, 5, 12, 20]) == [10, 10, 13, 20]


@given(
    st.integers(0, 2**32),
    st.integers(0, 100),
    st.integers(0, 100),
    st.lists(st.integers(0, 1_000), max_size=30).map(sorted),
)
def test_equal_seeds_draw_equal_delays(seed, low, more, times):
    latency = Latency(between(low, low + more), between(low, low + more), seed)
    first, second = (
        [arrivals(connection, times) for connection in latency.connections()] for _ in range(2)
    )
    assert first == second
    for way in first:
        assert way == sorted(way)
        assert all(at - sent >= low for at, sent in zip(way, times, strict=True))
        assert all(at <= times[-1] + low + more for at in way)


def test_seeds_and_directions_draw_different_delays():
    times = list(range(0, 10_000, 100))
    ways = [
        arrivals(connection, times)
        for seed in (1, 2)
        for connection in Latency(between(0, 99), between(0, 99), seed).connections()
    ]
    assert len({tuple(way) for way in ways}) == 4


@pytest.mark.parametrize("delay", [-1, 1.5, None, "2ms", True])
def test_invalid_delay_is_rejected(delay):
    with pytest.raises(ValueError, match="a delay must be an integer of 0 or more"):
        Latency(order_ns=delay)
    with pytest.raises(ValueError, match="a delay must be an integer of 0 or more"):
        Latency(reply_ns=lambda _: delay).connections()[1].arrival_ns(0)
    with pytest.raises(ValueError, match="a delay must be an integer of 0 or more"):
        between(delay, 5)


def test_empty_range_is_rejected():
    with pytest.raises(ValueError, match="low_ns must not exceed high_ns; got 3 and 2"):
        between(3, 2)
