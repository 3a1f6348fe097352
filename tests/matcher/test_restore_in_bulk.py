"""Snapshots are read and written alike by the compiled code and by plain Python."""

import hashlib
import importlib
import mmap
import random  # noqa: TID251 - seeded, and outside the engine
import struct
from array import array

import pytest

from clob import Cancel, Limits, Market, Order, SelfTrade, Side, Submit, TimeInForce
from clob.book import state as state_py
from clob.errors import (
    DuplicateOrderError,
    InvalidSnapshotError,
    RejectedError,
    SeedWouldCrossError,
)
from tests.matchers import from_source, load, opened

LOT_WEI = 100
MAKERS = ("M", "N" * 42, "", "ü")


def draw(rng, number, lot_wei):
    """Return an order that rests; every field takes plain and rare values."""
    size = rng.choice((1, 10**18, 2**64, 2**64 - 1, 2**95 + number))
    side = rng.choice(tuple(Side))
    expiration_s = rng.choice((0, 0, 2**33 + rng.randrange(3), 2**64))
    order_id = rng.choice((number, f"id-{number}", f"é-{number}"))
    return Submit(
        market="m",
        order=Order(
            id=order_id,
            token=f"m-{rng.choice(('yes', 'no'))}",
            maker=rng.choice(MAKERS),
            side=side,
            price=rng.randint(1, 49) + 50 * side,
            size=max(size - size % lot_wei, lot_wei),
            time_in_force=rng.choice((TimeInForce.GTC, TimeInForce.GTD))
            if expiration_s
            else TimeInForce.GTC,
            expiration_s=expiration_s,
            post_only=rng.random() < 0.5,
            self_trade=rng.choice((None, *SelfTrade)),
            nonce=rng.choice((0, 2**70, 2**256 - 1)),
            collateral=rng.choice((None, 0, 2**200)),
            fee_rate_bps=rng.choice((None, 5)),
            smart_wallet=rng.choice(("", "wallet", "ß")),
        ),
        now_ms=1,
        client_id=rng.choice((None, f"c{number}", f"ç{number}")),
        order_hash=rng.choice((None, number.to_bytes(32, "big"))),
    )


def filled(kind, seed, count=60, *, complementary=False):
    """Return a matcher with resting orders, some of them reduced."""
    rng = random.Random(seed)
    matcher = opened(
        load(kind), Market(id="m", yes="m-yes", no="m-no", complementary=complementary)
    )
    matcher.set_limits(Limits(orders_max=count), 1)
    for number in range(1, count):
        command = draw(rng, number, LOT_WEI if complementary else 1)
        matcher.apply(command)
        if command.order.size > LOT_WEI and rng.random() < 0.3:
            matcher.reduce(command.order.id, LOT_WEI, 1)
    return matcher


@pytest.mark.parametrize("seed", range(20))
def test_compiled_and_python_restore_the_same_orders(seed):
    state = filled("compiled", seed).snapshot()
    kinds = [load(name).restore(state) for name in ("python", "compiled")]
    for each in kinds:
        each.audit()
        assert each.snapshot() == state
    python, compiled = kinds
    assert compiled.open_orders() == python.open_orders()
    assert compiled.order_ids() == python.order_ids()
    assert compiled.next_expiry_s == python.next_expiry_s
    assert set(compiled.used_hashes) == set(python.used_hashes)
    for order_id in python.order_ids():
        assert compiled.restored_place(order_id) == python.restored_place(order_id)
        cancel = Cancel(order_id=order_id, now_ms=2)
        assert compiled.apply(cancel) == python.apply(cancel)
    assert compiled.snapshot() == python.snapshot()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("complementary", [False, True])
def test_compiled_and_python_write_the_same_orders(seed, complementary):
    python, compiled = (
        filled(kind, seed, complementary=complementary) for kind in ("python", "compiled")
    )
    assert compiled.snapshot() == python.snapshot()
    python, compiled = (load(kind).restore(python.snapshot()) for kind in ("python", "compiled"))
    assert compiled.snapshot() == python.snapshot()
    # Without the first orders, makers have other places; reduced orders are asleep no longer.
    order_ids = python.order_ids()
    for place, order_id in enumerate(order_ids):
        for matcher in (python, compiled):
            if place < 5:
                matcher.cancel(order_id, 1)
            elif place % 3 == 0 and matcher.order(order_id).remaining > LOT_WEI:
                matcher.reduce(order_id, LOT_WEI, 1)
        assert compiled.snapshot() == python.snapshot()
    again = load("compiled").restore(compiled.snapshot())
    assert again.snapshot() == compiled.snapshot()


def test_more_orders_than_a_piece_are_written_alike():
    python, compiled = (filled(kind, 2, 3_000) for kind in ("python", "compiled"))
    assert compiled.snapshot() == python.snapshot()


@pytest.mark.parametrize("kind", ["python", "compiled"])
def test_orders_that_are_not_in_the_sequence_of_their_queue_are_rejected(kind):
    matcher = opened(load(kind), Market(id="m", yes="m-yes", no="m-no"))
    for order_id, price in (("a", 40), ("b", 39)):
        order = Order(id=order_id, token="m-yes", maker="M", side=Side.BUY, price=price, size=1)
        matcher.submit("m", order, 1)
    state = matcher.snapshot()
    assert state.count(b"\x01\x28") == state.count(b"\x01\x27") == 1
    other = hashed(state[:-32].replace(b"\x01\x28", b"\x01\x26"))
    with pytest.raises(InvalidSnapshotError, match="the orders of market 'm' are not sorted"):
        load(kind).restore(other)


@pytest.mark.parametrize("kind", ["python", "compiled"])
def test_matcher_restored_from_a_view_of_a_file_equals_one_restored_from_bytes(kind, tmp_path):
    state = filled(kind, 3).snapshot()
    (tmp_path / "state").write_bytes(b"head" + state)
    with (tmp_path / "state").open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[4:]
    (tmp_path / "state").unlink()
    again, expected = load(kind).restore(view), load(kind).restore(state)
    for order_id in expected.order_ids()[::2]:
        cancel = Cancel(order_id=order_id, now_ms=2)
        assert again.apply(cancel) == expected.apply(cancel)
    again.audit()
    assert again.snapshot() == expected.snapshot()


@pytest.mark.parametrize("kind", ["python", "compiled"])
def test_view_that_may_change_is_rejected(kind):
    view = memoryview(bytearray(filled(kind, 3).snapshot()))
    with pytest.raises(InvalidSnapshotError, match="a snapshot must be bytes"):
        load(kind).restore(view)


def test_hash_of_a_snapshot_is_compared_unless_the_caller_does():
    state = bytearray(filled("compiled", 3).snapshot())
    state[-1] ^= 1
    with pytest.raises(InvalidSnapshotError, match="its hash does not match"):
        load("compiled").restore(bytes(state))
    again = load("compiled").restore(bytes(state), check_hash=False)
    assert again.snapshot()[:-32] == state[:-32]


def test_more_orders_than_a_chunk_are_restored():
    matcher = filled("compiled", 1, 3_000)
    again = matcher.restore(matcher.snapshot())
    again.audit()
    assert again.state_hash() == matcher.state_hash()


def hashed(body):
    """Return the bytes of a snapshot with the hash that fits."""
    return bytes(body) + hashlib.blake2b(body, digest_size=32).digest()


def damaged(state, rng):
    """Return a snapshot with up to three changed or missing bytes."""
    body = bytearray(state[:-32])
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(9, len(body))
        if rng.random() < 0.2:
            del body[place : place + rng.randint(1, 3)]
        else:
            body[place] = rng.randrange(256)
    return hashed(body)


def outcomes(state):
    """Return the outcome of restoring a snapshot in each kind: its bytes, or the error."""
    found = []
    for name in ("python", "compiled"):
        try:
            found.append(load(name).restore(state).snapshot())
        except InvalidSnapshotError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_compiled_and_python_reject_the_same_damage(seed):
    rng, state = random.Random(seed), filled("compiled", seed, 8).snapshot()
    for _ in range(100):
        other = damaged(state, rng)
        python, compiled = outcomes(other)
        assert compiled == python
        assert python == other or "the snapshot is inconsistent" in python


def test_first_of_two_errors_is_the_one_reported():
    # In bulk, the sequence of the orders was compared before the price of a later one was checked.
    matcher = opened(load("compiled"), Market(id="m", yes="m-yes", no="m-no"))
    for order_id, price in (("a", 40), ("b", 39), ("c", 38)):
        order = Order(id=order_id, token="m-yes", maker="M", side=Side.BUY, price=price, size=1)
        matcher.submit("m", order, 1)
    body = matcher.snapshot()[:-32].replace(b"\x01\x28", b"\x01\x05").replace(b"\x01\x26", b"\x00")
    python, compiled = outcomes(hashed(body))
    assert compiled == python
    assert "price must be an integer from 1 to 99" in python


def test_number_of_orders_beyond_64_bits_is_rejected_alike():
    matcher = opened(load("compiled"), Market(id="m", yes="m-yes", no="m-no"))
    order = Order(id="a", token="m-yes", maker="M", side=Side.BUY, price=40, size=1)
    matcher.submit("m", order, 1)
    # One order for YES, none for NO, no pending trades; then the order.
    head, counted, rest = matcher.snapshot()[:-32].partition(b"\x01\x01\x00\x00\x01\x01\x01a")
    body = head + b"\x09" + bytes(8) + b"\x01" + counted[2:] + rest
    python, compiled = outcomes(hashed(body))
    assert compiled == python
    assert "InvalidBytesError" in python


# ----- the book -----------------------------------------------------------------------------


def row(price=40, size=5, maker=0, side=0, expiration_s=0):
    """Return an order of a book as bytes."""
    return state_py.ROW.pack(size & 2**64 - 1, size >> 64, price, expiration_s, maker, side)


def test_rest_all_equals_rest(book_class):
    one, other = book_class(token="t"), book_class(token="t")
    rows = [row(40), row(60, 2**95, 1, 1, 2**40), row(40, 7, 1), row(41, 1, 2)]
    one.rest_all(["a", 5, "c", "d"], b"".join(rows), ["M", "N", ""])
    for order_id, each in zip(["a", 5, "c", "d"], rows, strict=True):
        other.rest(state_py.order_of(order_id, state_py.ROW.unpack(each), "t", ["M", "N", ""]))
    one.check()
    assert one.state_bytes() == other.state_bytes()


@pytest.mark.parametrize(
    ("ids", "rows", "error"),
    [
        (["a", "a"], [row(), row()], DuplicateOrderError),
        (["a", "b"], [row(60), row(50, side=1)], SeedWouldCrossError),
        (["a"], [row(price=100)], RejectedError),
        (["a"], [row(size=0)], RejectedError),
        (["a"], [row(side=2)], ValueError),
        (["a"], [row(maker=1)], IndexError),
        (["a"], [row()[:-1]], (ValueError, struct.error)),
        (["a"], [row(), row()], ValueError),
        ([""], [row()], RejectedError),
        ([-1], [row()], RejectedError),
    ],
)
def test_rest_all_rejects_as_rest_does(book_class, ids, rows, error):
    book = book_class(token="t")
    with pytest.raises(error):
        book.rest_all(ids, b"".join(rows), ["M"])
    book.check()


@pytest.mark.parametrize("kind", ["python", "compiled"])
def test_numbers_that_appear_twice_are_found(kind):
    name = "clob.matcher.snapshot_orders"
    module = from_source(name) if kind == "python" else importlib.import_module(name)
    for numbers in ([], [5], [3, 1, 2], [0, 2**63 - 1], [9, 1, 8], list(range(100, 0, -1))):
        assert module.are_distinct(array("q", numbers))
        for each in numbers:
            assert not module.are_distinct(array("q", [*numbers, each]))
