"""Sliding windows: exactness, all-or-nothing charges, bounded memory, and the rejection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob_server.auth.rate_limit import MINUTE_MS, PAYER_BYTES, Windows, exceeded, network, payer_of


class Naive:
    """A reference implementation that keeps every time in a list."""

    def __init__(self):
        self.taken = {}

    def take(self, payer, limit, now_ms, count):
        times = self.taken.setdefault(payer, [])
        if self.fits(times, limit, now_ms, count):
            times += [now_ms] * count
            return 0
        if count > limit:
            return MINUTE_MS
        wait_ms = 1
        while not self.fits(times, limit, now_ms + wait_ms, count):
            # The result only changes when a time leaves the window.
            wait_ms = min(t + MINUTE_MS - now_ms for t in times if t + MINUTE_MS > now_ms + wait_ms)
        return wait_ms

    @staticmethod
    def fits(times, limit, now_ms, count):
        return sum(t > now_ms - MINUTE_MS for t in times) + count <= limit


STEPS = st.lists(
    st.tuples(
        st.sampled_from((b"a", b"b")),
        st.integers(0, 5),
        st.one_of(st.sampled_from((0, 1, MINUTE_MS - 1, MINUTE_MS)), st.integers(0, 30_000)),
        st.integers(1, 4),
    ),
    max_size=60,
)


@given(STEPS)
def test_windows_match_the_reference(steps):
    windows, naive, now_ms = Windows(), Naive(), 0
    for payer, limit, passed_ms, count in steps:
        now_ms += passed_ms
        wait_ms = windows.take(payer, limit, now_ms, count)
        assert wait_ms == naive.take(payer, limit, now_ms, count)
        if count <= limit and wait_ms:
            assert not naive.fits(naive.taken[payer], limit, now_ms + wait_ms - 1, count)


@given(STEPS)
def test_no_minute_exceeds_the_limit(steps):
    windows, taken, now_ms = Windows(), [], 0
    for _, _, passed_ms, count in steps:
        now_ms += passed_ms
        if not windows.take(b"a", 5, now_ms, count):
            taken += [now_ms] * count
    for begin in taken:
        assert sum(begin <= t < begin + MINUTE_MS for t in taken) <= 5


def test_usage_counts_for_sixty_seconds_to_the_millisecond():
    windows = Windows()
    assert windows.take(b"a", 1, 0) == 0
    assert windows.take(b"a", 1, 1) == MINUTE_MS - 1
    assert windows.take(b"a", 1, MINUTE_MS - 1) == 1
    assert windows.take(b"a", 1, MINUTE_MS) == 0


def test_several_are_taken_all_or_none():
    windows = Windows()
    assert windows.take(b"a", 5, 0, 3) == 0
    assert windows.take(b"a", 5, 10, 3) == MINUTE_MS - 10
    assert windows.left(b"a", 5) == 2
    assert windows.take(b"a", 5, 10, 2) == 0


def test_more_than_the_limit_at_once_is_always_rejected():
    windows = Windows()
    assert windows.take(b"a", 5, 0, 6) == MINUTE_MS
    assert windows.left(b"a", 5) == 5
    assert windows.take(b"a", 0, 0) == MINUTE_MS


def test_lowered_limit_counts_earlier_usage():
    windows = Windows()
    windows.take(b"a", 5, 0, 2)
    windows.take(b"a", 5, 100, 3)
    assert windows.take(b"a", 3, 200) == MINUTE_MS - 100
    assert windows.left(b"a", 3) == 0


def test_least_recent_payer_is_evicted_first():
    windows = Windows(3)
    for at, payer in enumerate((b"a", b"b", b"c")):
        windows.take(payer, 1, at)
    assert windows.take(b"a", 1, 3)  # a rejected attempt also counts as recent
    windows.take(b"d", 1, 4)
    assert len(windows) == 3
    assert windows.take(b"a", 1, 5)
    assert windows.take(b"b", 1, 5) == 0


def test_flood_of_addresses_does_not_evict_an_active_window():
    windows = Windows(100)
    windows.take(b"active", 1, 0)
    for number in range(1_000):
        windows.take(b"%d" % number, 1, number)
        if number % 99 == 0:
            assert windows.take(b"active", 1, number)
    assert len(windows) == 100


@pytest.mark.parametrize(
    ("address", "shared"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "20010db800010002::/64"),
        ("2001:db8:1:2::", "20010db800010002::/64"),
        ("2001:db8:1:3::", "20010db800010003::/64"),
        ("fe80::1%eth0", "fe80000000000000::/64"),
        ("::1", "0::/64"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_network_is_an_ipv4_address_or_an_ipv6_64(address, shared):
    assert network(address) == shared


def test_payer_name_depends_on_the_secret():
    assert payer_of(b"k" * 32, "192.0.2.1") == payer_of(b"k" * 32, "192.0.2.1")
    named = {payer_of(secret, name) for secret in (b"k" * 32, b"l" * 32) for name in ("1", "2")}
    assert len(named) == 4
    assert {len(name) for name in named} == {PAYER_BYTES}


def test_rejection_states_the_limit_and_when_to_retry():
    error = exceeded("requests", 1, 100, 0, 12_001, 1_800_000_000_500)
    assert error.code == "RATE_LIMITED"
    assert str(error) == "at most 100 requests per minute; got 1 more, retry in 13 s"
    assert dict(error.headers) == {
        b"retry-after": b"13",
        b"ratelimit": b'"requests";r=0;t=13',
        b"ratelimit-policy": b'"requests";q=100;w=60',
        b"x-ratelimit-limit": b"100",
        b"x-ratelimit-remaining": b"0",
        b"x-ratelimit-reset": b"1800000013",
    }


def test_rejection_above_the_limit_states_that_waiting_does_not_help():
    error = exceeded("orders", 20, 10, 10, MINUTE_MS, 0)
    assert str(error) == "at most 10 orders per minute; 20 at once can never be accepted"
