"""Faucet allowance: 500 units per wallet in any 24 hours, each operation granted once."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob import RejectedError
from clob_server.core.commands import GiveBack, Grant
from clob_server.core.registry import DAY_MS, DAY_UNITS, Registry
from clob_server.core.rejections import FaucetLimitError

NOW_MS = 1_700_000_000_000


def grant(operation, now_ms=NOW_MS, user="U", amount=100):
    return Grant(operation=operation, user=user, amount=amount, now_ms=now_ms)


def registry_after(*commands):
    registry = Registry()
    for command in commands:
        registry.apply(command)
    return registry


def test_grant_above_500_units_is_rejected():
    registry = registry_after(*(grant(f"{number}") for number in range(5)))
    before = registry.snapshot()
    with pytest.raises(FaucetLimitError, match=r"500 units in 24 hours; U got 500"):
        registry.apply(grant("5"))
    assert registry.snapshot() == before
    registry.apply(grant("6", user="V"))


def test_rejection_has_the_time_when_the_amount_is_available():
    registry = registry_after(*(grant(f"{number}", NOW_MS + number) for number in range(5)))
    for amount, frees_ms in ((1, 0), (100, 0), (101, 1), (500, 4)):
        with pytest.raises(FaucetLimitError) as caught:
            registry.apply(grant("x", NOW_MS + 9, amount=amount))
        assert caught.value.frees_ms == NOW_MS + frees_ms + DAY_MS
    with pytest.raises(FaucetLimitError):
        registry.apply(grant("y", NOW_MS + DAY_MS - 1))
    registry.apply(grant("y", NOW_MS + DAY_MS))
    with pytest.raises(FaucetLimitError):
        registry.apply(grant("z", NOW_MS + DAY_MS))
    assert [each.operation for each in registry.grants] == ["1", "2", "3", "4", "y"]


def test_total_of_all_wallets_is_limited_for_a_day():
    grants = registry_after(grant("a", NOW_MS, "U"), grant("b", NOW_MS + 5, "V")).grants
    grants.check_total(50, 250, NOW_MS + 9)
    for amount, frees_ms in ((51, 0), (150, 0), (151, 5)):
        with pytest.raises(
            FaucetLimitError, match="250 units in 24 hours to all wallets"
        ) as caught:
            grants.check_total(amount, 250, NOW_MS + 9)
        assert caught.value.frees_ms == NOW_MS + frees_ms + DAY_MS
    grants.check_total(150, 250, NOW_MS + DAY_MS)


def test_repeated_operation_is_granted_once():
    registry = registry_after(*[grant("a", amount=300)] * 3)
    assert len(list(registry.grants)) == 1
    registry.apply(grant("b", amount=200))


def test_operation_repeated_after_a_day_counts_again():
    registry = registry_after(grant("a", amount=500), grant("a", NOW_MS + DAY_MS, amount=500))
    with pytest.raises(FaucetLimitError):
        registry.apply(grant("b", NOW_MS + DAY_MS, amount=1))


def test_returned_grant_is_available_again():
    registry = registry_after(grant("a", amount=500), GiveBack(operation="a", now_ms=NOW_MS))
    assert registry.snapshot() == registry_after(GiveBack(operation="z", now_ms=NOW_MS)).snapshot()
    registry.apply(grant("b", amount=500))
    assert "b" in registry.grants
    assert "a" not in registry.grants


moves = st.lists(
    st.tuples(
        st.sampled_from("pqrst"),
        st.sampled_from("UV"),
        st.sampled_from((0, 100, 250)),
        st.integers(0, DAY_MS // 2),
    ),
    max_size=30,
)


@given(moves)
def test_random_grants_never_exceed_500_units_in_24_hours(moves):
    registry, now_ms = Registry(), NOW_MS
    kept: dict[str, tuple[str, int, int]] = {}
    for number, (name, user, amount, later_ms) in enumerate(moves):
        now_ms += later_ms
        operation = f"{name}{number % 2}"
        if amount == 0:
            registry.apply(GiveBack(operation=operation, now_ms=now_ms))
            kept.pop(operation, None)
            continue
        try:
            registry.apply(grant(operation, now_ms, user, amount))
        except RejectedError:
            continue
        if operation not in {each for each, (_, _, at) in kept.items() if at > now_ms - DAY_MS}:
            kept[operation] = (user, amount, now_ms)
        for each in "UV":
            given = [a for who, a, at in kept.values() if who == each and at > now_ms - DAY_MS]
            assert sum(given) <= DAY_UNITS
    again = Registry.restore(registry.snapshot())
    assert again.grants == registry.grants
    assert msgspec.msgpack.decode(again.snapshot()) == msgspec.msgpack.decode(registry.snapshot())
