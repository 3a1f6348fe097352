"""``run`` with dirty input against a naive model, and under load against the twin.

Method: arrays of random records, most fields drawn from few good values and some hostile ones,
so that every rejection occurs and orders still match. A book starts without room, and grows. The
statuses, the fills and the live orders in the order of their queues must be the model's.
"""

import random  # noqa: TID251 - seeded, and outside the engine

import numpy as np
import pytest

from clob.records import EVENT
from tests.books import fills_of, load
from tests.differential.naive import NaiveBook

LO, HI = 45, 55
HOSTILE_IDS = (0, 2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 1 << 60, 1 << 32)
HOSTILE_SIZES = (0, -1, -(2**63), 2**63 - 1, 2**62)
HOSTILE_PRICES = (LO - 1, HI + 1, 0, -1, -(2**31), 2**31 - 1)
HOSTILE_OWNERS = (2**31 - 1, 2**31, 2**32 - 1)
HOSTILE_FLAGS = (3, 4, 8, 128, 1024, 1 << 15, 0xFFFF, 5 << 4, 6 << 4, 7 << 4, 2 | 256)
HOSTILE_KINDS = (7, 8, 15, 16, 17, 18, 19, 20, 128, 255)
TIMES = (0, 1, -1, -(2**63), 2**63 - 1)


def dirty_rows(rng, count, ids, hostile):
    """Draw records; ``hostile`` is the probability that a field is invalid."""

    def either(good, bad):
        return rng.choice(bad) if rng.random() < hostile else good

    rows = []
    for _ in range(count):
        kind = rng.choices(range(7), (45, 15, 8, 10, 12, 0.1, 10))[0]
        flags = rng.choice((0, 0, 1, 2, 256, 512)) | rng.randrange(5) << 4
        rows.append(
            (
                rng.choice(TIMES),
                rng.choice(TIMES),
                rng.getrandbits(64),
                either(rng.randrange(ids), HOSTILE_IDS),
                either(rng.randint(1, 12), HOSTILE_SIZES),
                either(rng.randrange(4), HOSTILE_OWNERS),
                either(rng.randint(LO, HI), HOSTILE_PRICES),
                rng.getrandbits(16),
                either(kind, HOSTILE_KINDS),
                either(rng.getrandbits(1), (2, 128, 255)),
                either(flags, HOSTILE_FLAGS),
            )
        )
    return rows


def live(book, lot_wei):
    """List a book's orders as the model does."""
    return [
        (x.order_id, int(x.side), x.price, x.remaining // lot_wei, owner(x.maker))
        for x in book.orders()
    ]


def owner(maker):
    return int(maker.removeprefix("owner:")) if maker else 0


def first_difference(got, expected):
    """Describe the first difference of two lists."""
    for index, (one, other) in enumerate(zip(got, expected, strict=False)):
        if one != other:
            return f"at {index}: {one} and not {other}"
    return f"{len(got)} of them and not {len(expected)}"


def compare(book, model, rows, lot_wei, context):
    """Run one batch through both."""
    status = np.full(len(rows) + 3, 77, np.uint8)
    fills = fills_of(book.run(np.array(rows, EVENT), status=status))
    expected_status, expected_fills = model.run(rows)
    got_status, got_live, expected_live = status.tolist(), live(book, lot_wei), model.queue()
    assert got_status[len(rows) :] == [77] * 3, f"{context}: status written behind its end"
    for name, got, expected in (
        ("status", got_status[: len(rows)], expected_status),
        ("fills", fills, expected_fills),
        ("live orders", got_live, expected_live),
    ):
        assert got == expected, f"{context}: {name} differ {first_difference(got, expected)}"
    book.check()
    return expected_status


def fuzz(book_class, seed, events, *, ids=40, hostile=0.02):
    """Compare a book with the model over one seed; count the statuses."""
    rng = random.Random(seed)
    lot_wei = rng.choice((1, 10, 2**33, 2**90))
    book = book_class(LO, HI, "", lot_wei, rng.choice((0, 0, 1, 2, 5, 64)))
    model = NaiveBook(LO, HI, lot_wei)
    counts = [0] * 256
    done = 0
    while done < events:
        rows = dirty_rows(rng, rng.choice((0, 1, 7, 100, 500)), ids, hostile)
        context = f"seed {seed}, batch after {done} events, lot {lot_wei}"
        for status in compare(book, model, rows, lot_wei, context):
            counts[status] += 1
        done += len(rows)
    return counts


@pytest.mark.parametrize("ids", [8, 40, 400])
def test_dirty_records(book_class, ids):
    for seed in range(8):
        fuzz(book_class, seed, 1_000, ids=ids)


def test_every_rejection_occurs(book_class):
    counts = [fuzz(book_class, seed, 2_000) for seed in range(6)]
    seen = {number for number in range(256) if any(count[number] for count in counts)}
    # Records have no time, token or expiration.
    assert seen == set(range(18)) - {1, 7, 11}


def test_sizes_above_the_maximum(book_class):
    rows = [(0, 0, 0, 1, size, 0, LO, 0, 0, 0, 0) for size in (64, 63, 2**63 - 1)]
    compare(book_class(LO, HI, "", 2**90), NaiveBook(LO, HI, 2**90), rows, 2**90, "fixed")


@pytest.mark.parametrize("hostile", [0.3, 0.9])
def test_mostly_garbage(book_class, hostile):
    for seed in range(100, 106):
        fuzz(book_class, seed, 800, hostile=hostile)


def test_random_bytes(book_class):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = np.frombuffer(rng.bytes(56 * 500), EVENT).copy()
        # Random bytes are almost always rejected by their kind.
        rows["kind"] %= 7
        rows["flags"] &= 0b1101110011
        rows["price"] = LO + rows["price"] % (HI - LO + 1)
        rows["order_id"][::2] %= 16
        compare(book_class(LO, HI), NaiveBook(LO, HI), rows.tolist(), 1, f"seed {seed}")


@pytest.mark.long
def test_dirty_records_long(book_class):
    for seed in range(1_000, 1_030):
        fuzz(book_class, seed, 3_000, ids=seed % 7 * 50 + 10, hostile=seed % 5 / 50)


# ----- under load ----------------------------------------------------------------------------


def seeds(rng, count, lo, hi):
    """Draw orders that do not cross: bids in the lower half of the grid, asks above."""
    events = np.zeros(count, EVENT)
    # Random ids of 63 bits are practically distinct; duplicates are rejected by both.
    events["order_id"] = rng.integers(0, 2**63, count, np.uint64)
    events["size"] = rng.integers(1, 50, count)
    events["owner"] = rng.integers(0, 5, count)
    events["side"] = rng.integers(0, 2, count)
    half = (hi - lo) // 2
    away = np.minimum(rng.geometric(8 / half, count), half) - 1
    middle = lo + half
    events["price"] = np.where(events["side"] == 0, middle - away, middle + 1 + away)
    events["kind"] = 6
    return events


def load_of(rng, seeded, count, lo, hi):
    """Draw commands for a book with very many orders, by random ids."""
    events = seeds(rng, count, lo, hi)
    events["kind"] = rng.choice([0, 1, 2, 3, 4], count, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    events["price"] += rng.integers(-2, 3, count).astype(np.int32)
    events["flags"] = rng.choice([0, 0, 0, 1, 2], count) | rng.integers(0, 5, count) << 4
    amends = np.isin(events["kind"], (1, 2, 4))
    known = np.concatenate([seeded["order_id"], events["order_id"]])
    events["order_id"][amends] = rng.choice(known, amends.sum())
    events["size"][events["kind"] == 2] = rng.integers(1, 10, (events["kind"] == 2).sum())
    return events


@pytest.mark.long
@pytest.mark.parametrize("grid", [(1, 99), (1, 65_536)], ids="{0[0]}..{0[1]}".format)
def test_many_orders_with_random_ids(grid):
    rng = np.random.default_rng(7)
    seeded = seeds(rng, 150_000, *grid)
    events = load_of(rng, seeded, 200_000, *grid)
    results = []
    for name in ("python", "compiled"):
        book = load(name)(*grid)
        assert book.seed(seeded) == len(seeded) == len(book)
        status = np.zeros(len(events), np.uint8)
        fills = book.run(events, status=status)
        assert len(book) > 100_000
        results.append((status.tolist(), fills.tolist(), book.state_hash(), len(book)))
        del book
    twin, compiled = results
    for name, got, expected in zip(("status", "fills"), compiled, twin, strict=False):
        assert got == expected, f"{name} differ {first_difference(got, expected)}"
    assert compiled[2:] == twin[2:]
