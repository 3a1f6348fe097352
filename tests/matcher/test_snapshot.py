"""Snapshots contain the whole state: a restored matcher continues like the original.

Damaged bytes are rejected with ``InvalidSnapshotError``.
"""

import hashlib
import random  # noqa: TID251 - seeded, and outside the engine

import msgspec
import pytest

from clob import (
    Cancel,
    CancelAll,
    Funds,
    Limits,
    Mode,
    Replace,
    SelfTrade,
    SetBalance,
    SetLimits,
    SetMode,
    SetNonce,
    TimeInForce,
)
from clob.errors import InvalidSnapshotError, RejectedError
from tests.matcher.test_queries import draw, world
from tests.matchers import buy, funded, load, market, opened, sell


@pytest.fixture(scope="module", params=["python", "compiled"])
def full(request):
    """A matcher with every kind of state, small enough to damage every bit."""
    terms = {"funds": Funds.ACCOUNTS, "settles": True, "incoming_fee_rate_bps": 100}
    matcher = opened(load(request.param), market(**terms), market("n"))
    funded(matcher, ("B", "S"), 100)
    for command in (
        SetLimits(limits=Limits(finished_max=2)),
        sell("ask", 60, 10, order_hash=b"1" * 32, expiration_s=2**40),
        buy("taker", 60, 4, client_id="taker"),
        buy(7, 40, 10, self_trade=SelfTrade.DECREMENT, smart_wallet="S", fee_rate_bps=5),
        buy("spent", 30, 2, order_hash=b"2" * 32, nonce=2**70),
        Cancel(order_id="spent"),
        sell("elsewhere", 60, 5, market="n", token="n-no", collateral=2**200),
        buy("ioc", 50, 5, market="n", token="n-no", time_in_force=TimeInForce.IOC),
        buy("x", 1, 1),
        Cancel(order_id="x", maker="B"),
        SetNonce(maker="N", nonce=2**255),
        SetBalance(wallet="B", asset="collateral", amount=1),
        SetMode(market="n", mode=Mode.CANCEL_ONLY),
    ):
        matcher.apply(msgspec.structs.replace(command, now_ms=2**33))
    return matcher


def seal(body):
    """Append the hash that a snapshot ends with."""
    return body + hashlib.blake2b(body, digest_size=32).digest()


def test_restored_matcher_equals_the_original(full):
    again = full.restore(full.snapshot())
    again.audit()
    assert again.snapshot() == full.snapshot()
    assert again.state_hash() == full.state_hash()
    for ask in (
        lambda m: m.markets,
        lambda m: m.limits,
        lambda m: m.now_ms,
        lambda m: m.balances(),
        lambda m: m.open_orders(),
        lambda m: [m.order(name) for name in ("ask", 7, "elsewhere", "x", "ioc")],
        lambda m: [m.order_by_hash(b"1" * 32), m.is_used(b"2" * 32), m.is_used(b"3" * 32)],
        lambda m: [m.unsettled("m"), m.seq("m"), m.seq("n"), m.nonce("N"), m.next_expiry_s],
        lambda m: [m.depth(name, f"{name}-{side}") for name in "mn" for side in ("yes", "no")],
    ):
        assert ask(again) == ask(full)


def test_compiled_and_python_snapshots_are_identical(full):
    for name in ("python", "compiled"):
        other = load(name).restore(full.snapshot())
        other.audit()
        assert other.snapshot() == full.snapshot()


@pytest.mark.parametrize("seed", range(3))
def test_restored_matcher_continues_like_the_original(matcher_class, seed):
    rng, now_ms = random.Random(seed), 1_000
    stayed = restarted = world(matcher_class)
    for number in range(300):
        now_ms += rng.choice((0, 10, 600))
        command = draw(rng, number, now_ms)
        if number % 10 == 0:
            restarted = stayed.restore(restarted.snapshot())
        outcomes = []
        for matcher in {id(stayed): stayed, id(restarted): restarted}.values():
            try:
                outcomes.append(matcher.apply(command))
            except RejectedError as rejection:
                outcomes.append((type(rejection), str(rejection)))
        assert outcomes[0] == outcomes[-1]
        assert len(outcomes) == 2
    assert stayed.snapshot() == restarted.snapshot()


def test_equal_states_have_equal_snapshots(matcher_class):
    one, other = opened(matcher_class), opened(matcher_class)
    one.apply(buy("a", 50, 5))
    one.batch([sell("s", 50, 5), Cancel(order_id="nobody"), buy("b", 40, 5)])
    other.apply(buy("a", 50, 5))
    other.apply(sell("s", 50, 5))
    other.apply(buy("b", 40, 5))
    assert one.snapshot() == other.snapshot()
    one.apply(Replace(order_id="b", price=41, size=5))
    one.apply(Replace(order_id="b", price=40, size=5))
    assert one.snapshot() != other.snapshot()  # the sequence went on


# ----- orders that stay in the snapshot until they change ------------------------------------


def three_bids(matcher_class):
    """Return a matcher that was restored with three orders of one maker, and one that was not."""
    matcher = opened(matcher_class)
    for name, price in (("a", 40), ("b", 42), ("c", 41)):
        matcher.apply(buy(name, price, 5))
    return matcher.restore(matcher.snapshot()), matcher


def test_restored_order_is_reported_as_it_was_before_its_first_change(matcher_class):
    matcher, original = three_bids(matcher_class)
    before, reported = original.order("b"), []
    matcher.apply(buy("d", 39, 5))
    assert [each.order.id for each in matcher.follow_restored(reported.append)] == ["d"]
    assert (matcher.order("b"), matcher.open_orders()[1], reported) == (before, before, [])
    for _ in range(2):
        matcher.apply(sell(f"s{matcher.seq('m')}", 42, 1))
    assert reported == [before]
    assert [matcher.restored_place(name) for name in ("b", "d", "nobody")] == [None] * 3
    assert [matcher.order_ids()[matcher.restored_place(name)] for name in "ac"] == ["a", "c"]


@pytest.mark.parametrize("last", ["b", "c"])
def test_rejected_batch_leaves_restored_orders_as_they_were(matcher_class, last):
    matcher, original = three_bids(matcher_class)
    commands = [
        Cancel(order_id="a"),
        sell("s", 42, 1),
        Replace(order_id=last, price=50, size=2**200),
    ]
    for each in (matcher, original):
        with pytest.raises(RejectedError):
            each.batch(commands, atomic=True)
        each.audit()
    assert matcher.snapshot() == original.snapshot()
    for each in (matcher, original):
        each.apply(buy("d", 39, 5))
    cancelled = [each.apply(CancelAll(maker="B")) for each in (matcher, original)]
    assert cancelled[0] == cancelled[1]
    assert [event.order_id for event in cancelled[0]] == ["a", "b", "c", "d"]
    assert matcher.snapshot() == original.snapshot()


# ----- damage --------------------------------------------------------------------------------


def test_truncated_snapshot_is_rejected(full):
    state = full.snapshot()
    for length in range(len(state)):
        with pytest.raises(InvalidSnapshotError):
            full.restore(state[:length])


def test_snapshot_with_a_flipped_bit_is_rejected(full):
    state = full.snapshot()
    for place in range(len(state)):
        for bit in range(8):
            damaged = bytearray(state)
            damaged[place] ^= 1 << bit
            with pytest.raises(InvalidSnapshotError):
                full.restore(bytes(damaged))


def test_snapshot_is_rejected_unless_it_is_what_the_restored_matcher_writes(full):
    body = full.snapshot()[:-32]
    restored = 0
    for place in range(9, len(body)):
        for bit in range(8):
            state = seal(body[:place] + bytes((body[place] ^ 1 << bit,)) + body[place + 1 :])
            try:
                matcher = full.restore(state)
            except InvalidSnapshotError:
                continue
            assert matcher.snapshot() == state
            matcher.audit()
            restored += 1
    assert restored > 100  # with another price, size or name


def test_snapshot_with_trailing_bytes_is_rejected(full):
    state = full.snapshot()
    for more in (b"\0", state):
        with pytest.raises(InvalidSnapshotError):
            full.restore(state + more)
        with pytest.raises(InvalidSnapshotError, match="bytes after the end"):
            full.restore(seal(state[:-32] + more))


@pytest.mark.parametrize(
    "wrong", [None, "", b"", b"CLOBSNAP", b"CLOBSNAP\2", 5, bytearray(b"CLOBSNAP\2"), b"\0" * 99]
)
def test_other_values_are_rejected_as_snapshots(matcher_class, wrong):
    with pytest.raises(InvalidSnapshotError) as caught:
        matcher_class.restore(wrong)
    assert caught.value.code == "INVALID_SNAPSHOT"


def test_snapshot_of_another_version_is_rejected(full):
    state = bytearray(full.snapshot()[:-32])
    state[8] = 1
    words = r"unsupported snapshot version 1 \(expected 2 or 3\)"
    with pytest.raises(InvalidSnapshotError, match=words):
        full.restore(seal(bytes(state)))


def forge(matcher, values):
    """Change every byte under a valid hash: it is rejected, or its state is consistent."""
    state, accepted = matcher.snapshot()[:-32], 0
    for place in range(9, len(state)):
        for value in values(state[place]) - {state[place]}:
            forged = bytearray(state)
            forged[place] = value
            try:
                found = matcher.restore(seal(bytes(forged)))
            except InvalidSnapshotError:
                continue
            accepted += 1
            found.audit()
    return accepted


def test_forged_snapshot_is_rejected_or_consistent(full):
    """The hash detects damage, not forgery: a forger can compute it."""
    # A balance, a price: much may be another number. 13 and 25 make long integers of short ones.
    assert forge(full, lambda was: {0, 1, 13, 25, 255, was ^ 1, was ^ 128, was + 1 & 255})


@pytest.mark.long
def test_forged_snapshot_is_rejected_or_consistent_at_many_values(full):
    # Both kinds read a snapshot by the same rules, and plain Python takes 90 s for all values.
    step = 2 if type(full).__name__ == "CompiledMatcher" else 10
    assert forge(full, lambda was: set(range(was % step, 256, step)))


def test_time_or_number_above_63_bits_is_rejected(full):
    state = full.snapshot()[:-32]
    long_ints = state.count(b"\5" + (2**33).to_bytes(5, "little"))
    assert long_ints >= 5  # the time of the matcher, and that of every order
    for which in range(long_ints):
        place = -1
        for _ in range(which + 1):
            place = state.index(b"\5" + (2**33).to_bytes(5, "little"), place + 1)
        forged = state[:place] + b"\x08" + (2**63).to_bytes(8, "little") + state[place + 6 :]
        with pytest.raises(InvalidSnapshotError):
            full.restore(seal(forged))


def test_balance_above_256_bits_is_restored(matcher_class):
    matcher = opened(matcher_class, market(funds=Funds.ACCOUNTS))
    funded(matcher, ("S", "B"), 2**256 - 1)
    matcher.apply(sell("s", 99, 1_000))
    matcher.apply(buy("b", 99, 1_000))
    again = matcher.restore(matcher.snapshot())
    assert again.balances() == matcher.balances()
    assert again.balance("S", "collateral").balance == 2**256 - 1 + 990
    assert again.balance("B", "m-yes").balance == 2**256 - 1 + 1_000
