"""Latency by direction and kind, and connections that keep the order of messages or do not."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.sim.delays import MeasuredDelays, between
from clob.replay.sim.latency import Connection, Latency
from clob.replay.sim.messages import CANCEL, EXCHANGE, ON_EXCHANGE, ON_FILL, ON_ORDER, SUBMIT


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


# ----- kinds -----------------------------------------------------------------------------------


def test_each_kind_of_message_has_its_delay():
    latency = Latency(order_ns=50, reply_ns=70, cancel_ns=20, fill_ns=90, overtaking=True)
    orders, replies = latency.connections()
    assert [orders.arrival_ns(1_000, kind) for kind in (SUBMIT, CANCEL, EXCHANGE)] == [
        1_050,
        1_020,
        1_050,
    ]
    assert [replies.arrival_ns(1_000, kind) for kind in (ON_FILL, ON_ORDER, ON_EXCHANGE)] == [
        1_090,
        1_070,
        1_070,
    ]


def test_faster_kinds_do_not_overtake():
    orders, _ = Latency(order_ns=50, cancel_ns=20).connections()
    assert [orders.arrival_ns(10, SUBMIT), orders.arrival_ns(10, CANCEL)] == [60, 60]


def test_delayed_books_delay_orders_and_not_replies():
    orders, replies = Latency(order_ns=50, reply_ns=70, feed_ns=30).connections()
    assert (orders.arrival_ns(1_000), replies.arrival_ns(1_000)) == (1_080, 1_040)
    _, replies = Latency(reply_ns=20, feed_ns=30).connections()
    assert (replies.arrival_ns(1_000), replies.instant) == (1_000, True)
    orders, _ = Latency(order_ns=lambda _: 5, feed_ns=30).connections()
    assert (orders.arrival_ns(1_000), orders.instant) == (1_035, False)


def test_measured_delays_depend_on_the_time_of_sending():
    orders, _ = Latency(order_ns=MeasuredDelays((0, 100), (50, 5))).connections()
    # The third would overtake the second.
    assert arrivals(orders, [0, 90, 100, 140]) == [50, 140, 140, 145]


def test_seeds_may_have_names():
    first, second, third = (
        arrivals(Latency(between(0, 10**6), seed=seed).connections()[0], range(0, 10**8, 10**7))
        for seed in ("calm day", "calm day", "busy day")
    )
    assert first == second != third


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_invalid_seed_is_rejected(seed):
    with pytest.raises(ValueError, match="seed must be an integer of 0 or more, or text"):
        Latency(seed=seed)


def test_books_are_delayed_by_a_constant():
    with pytest.raises(ValueError, match="a delay must be an integer of 0 or more"):
        Latency(feed_ns=between(1, 2))


# ----- order -----------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100)), max_size=40),
    st.booleans(),
)
def test_queues_are_ordered_by_arrival(gaps, overtaking):
    delays = iter([delay for _, delay in gaps])
    connection = Connection((lambda _: next(delays),) * 6, 0, overtaking=overtaking)
    queue, now_ns, expected = deque(), 0, []
    for number, (gap, delay) in enumerate(gaps):
        now_ns += gap
        connection.send(queue, now_ns, SUBMIT, number, None)
        expected.append((now_ns + delay, number))
    times = [message[0] for message in queue]
    assert times == sorted(times)
    if overtaking:
        # Each with its own delay; equal arrivals keep the order of sending.
        assert [(message[0], message[2]) for message in queue] == sorted(expected)
    else:
        assert [message[2] for message in queue] == list(range(len(gaps)))
