"""Windows that slide: exact, all or nothing, bounded, and what exceeding one says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob_server.auth.rate_limit import MINUTE_MS, PAYER_BYTES, Windows, exceeded, network, payer_of


class Naive:
    """The same by the definition: every time that was ever taken, in a list."""

    def __init__(self):
        self.taken = {}

    def take(self, who, limit, now_ms, count):
        times = self.taken.setdefault(who, [])
        if self.fits(times, limit, now_ms, count):
            times += [now_ms] * count
            return 0
        if count > limit:
            return MINUTE_MS
        wait_ms = 1
        while not self.fits(times, limit, now_ms + wait_ms, count):
            # Nothing changes but where a time falls out of the window.
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
def test_windows_are_those_of_a_naive_list(steps):
    windows, naive, now_ms = Windows(), Naive(), 0
    for who, limit, passed_ms, count in steps:
        now_ms += passed_ms
        wait_ms = windows.take(who, limit, now_ms, count)
        assert wait_ms == naive.take(who, limit, now_ms, count)
        if count <= limit and wait_ms:
            assert not naive.fits(naive.taken[who], limit, now_ms + wait_ms - 1, count)


@given(STEPS)
def test_no_minute_has_more_than_the_limit(steps):
    windows, taken, now_ms = Windows(), [], 0
    for _, _, passed_ms, count in steps:
        now_ms += passed_ms
        if not windows.take(b"a", 5, now_ms, count):
            taken += [now_ms] * count
    for begin in taken:
        assert sum(begin <= t < begin + MINUTE_MS for t in taken) <= 5


def test_what_was_taken_counts_for_sixty_seconds_to_the_millisecond():
    windows = Windows()
    assert windows.take(b"a", 1, 0) == 0
    assert windows.take(b"a", 1, 1) == MINUTE_MS - 1
    assert windows.take(b"a", 1, MINUTE_MS - 1) == 1
    assert windows.take(b"a", 1, MINUTE_MS) == 0


def test_several_are_taken_whole_or_not_at_all():
    windows = Windows()
    assert windows.take(b"a", 5, 0, 3) == 0
    assert windows.take(b"a", 5, 10, 3) == MINUTE_MS - 10
    assert windows.left(b"a", 5) == 2
    assert windows.take(b"a", 5, 10, 2) == 0


def test_more_than_the_limit_at_once_never_can_be():
    windows = Windows()
    assert windows.take(b"a", 5, 0, 6) == MINUTE_MS
    assert windows.left(b"a", 5) == 5
    assert windows.take(b"a", 0, 0) == MINUTE_MS


def test_a_lower_limit_counts_what_was_taken_under_the_higher_one():
    windows = Windows()
    windows.take(b"a", 5, 0, 2)
    windows.take(b"a", 5, 100, 3)
    assert windows.take(b"a", 3, 200) == MINUTE_MS - 100
    assert windows.left(b"a", 3) == 0


def test_who_asked_least_recently_is_forgotten_first():
    windows = Windows(3)
    for at, who in enumerate((b"a", b"b", b"c")):
        windows.take(who, 1, at)
    assert windows.take(b"a", 1, 3)  # refused, and yet heard of
    windows.take(b"d", 1, 4)
    assert len(windows) == 3
    assert windows.take(b"a", 1, 5)
    assert windows.take(b"b", 1, 5) == 0


def test_a_flood_of_addresses_does_not_have_an_active_window_forgotten():
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
def test_a_budget_is_that_of_an_address_or_of_a_network_of_64_bits(address, shared):
    assert network(address) == shared


def test_a_payer_cannot_be_told_without_the_secret():
    assert payer_of(b"k" * 32, "192.0.2.1") == payer_of(b"k" * 32, "192.0.2.1")
    named = {payer_of(secret, name) for secret in (b"k" * 32, b"l" * 32) for name in ("1", "2")}
    assert len(named) == 4
    assert {len(name) for name in named} == {PAYER_BYTES}


def test_a_refusal_says_how_much_is_allowed_and_when():
    refusal = exceeded("requests", 1, 100, 0, 12_001, 1_800_000_000_500)
    assert refusal.code == "RATE_LIMITED"
    assert str(refusal) == "at most 100 requests per minute; got 1 more, retry in 13 s"
    assert dict(refusal.headers) == {
        b"retry-after": b"13",
        b"ratelimit": b'"requests";r=0;t=13',
        b"ratelimit-policy": b'"requests";q=100;w=60',
        b"x-ratelimit-limit": b"100",
        b"x-ratelimit-remaining": b"0",
        b"x-ratelimit-reset": b"1800000013",
    }


def test_a_refusal_of_too_many_at_once_says_that_waiting_does_not_help():
    refusal = exceeded("orders", 20, 10, 10, MINUTE_MS, 0)
    assert str(refusal) == "at most 10 orders per minute; 20 at once are can never be accepted"
