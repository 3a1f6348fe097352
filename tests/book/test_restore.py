"""A book is pickled, copied and restored, between both kinds, and continues like the original."""

import copy
import os
import pickle
import random  # noqa: TID251 - seeded, and outside the engine
import subprocess
import sys

import numpy as np
import pytest

from clob import Book, Matcher, Order, Side
from clob.errors import BookBusyError, InvalidSnapshotError
from clob.records import EVENT
from tests import matchers
from tests.books import BOOKS, load
from tests.differential.mutation import mutant
from tests.differential.test_dirty_fuzz import HI, LO, dirty_rows

ECHO = """
import pickle, sys
things = pickle.load(sys.stdin.buffer)
sys.stderr.write(repr([type(thing).__module__ for thing in things]))
sys.stdout.buffer.write(pickle.dumps(things))
"""


def busy_book(book_class, seed=1, lot_wei=10):
    """Return a book with integer and text ids, expirations, replaced orders and owners."""
    rng = random.Random(seed)
    book = book_class(LO, HI, "t", lot_wei, 0, "m")
    book.run(
        np.array(dirty_rows(rng, 300, 40, 0.02), EVENT),
        status=np.zeros(300, np.uint8),
    )
    for number in range(60):
        order = Order(
            id=f"id {number} \ud800",
            token="t",
            maker=rng.choice(("", "A", "owner:2", "é")),
            side=Side(rng.getrandbits(1)),
            price=rng.randint(LO, HI),
            size=rng.randint(1, 9) * lot_wei,
            expiration_s=rng.choice((0, 0, 2**40)),
        )
        book.submit(order)
    for order in rng.sample(book.orders(), 8):
        if order.order_id in book:
            book.replace(order.order_id, rng.randint(LO, HI), order.remaining)
    return book


def continues(book, rng):
    """Run more records and single calls; return everything they report, and the state."""
    rows = np.array(dirty_rows(rng, 300, 60, 0.02), EVENT)
    named = [number for number in map(book.number_of, book.ids()) if number >= 2**63]
    rows["order_id"][::7] = rng.choices(named, k=len(rows[::7]))
    status = np.zeros(len(rows), np.uint8)
    fills = book.run(rows, status=status).tolist()
    added = book.submit(Order(id="new", token="t", maker="A", side=Side.BUY, price=LO, size=10))
    book.check()
    return fills, status.tolist(), added, book.number_of("new"), book.state_bytes()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("other", BOOKS)
def test_restored_book_continues_like_the_original(book_class, other, seed):
    book = busy_book(book_class, seed)
    again = load(other).restore(book.state_bytes())
    again.check()
    assert again.orders() == book.orders()
    assert again.state_hash() == book.state_hash()
    assert continues(again, random.Random(seed)) == continues(book, random.Random(seed))


def test_copies_are_independent(book_class):
    book = busy_book(book_class)
    before = book.state_hash()
    for twin in (copy.copy(book), copy.deepcopy(book), copy.deepcopy([book])[0]):
        assert twin.state_hash() == before
        twin.clear()
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(book, protocol))
        assert type(twin) is Book
        assert twin.state_hash() == before
        twin.clear()
    assert book.state_hash() == before


def test_pickle_keeps_the_ids_of_departed_orders(book_class):
    book = busy_book(book_class)
    ids = {book.number_of(name): name for name in book.ids() if isinstance(name, str)}
    book.run(np.array([(0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0)], EVENT))  # clears it
    twin = pickle.loads(pickle.dumps(book))
    assert ids
    assert {number: twin.id_of(number) for number in ids} == ids


def test_pickles_cross_between_processes_of_both_kinds():
    matcher = matchers.opened(Matcher)
    matcher.apply(matchers.buy("a", 50, 5))
    things = [busy_book(Book), matcher]
    hashes = [thing.state_hash() for thing in things]
    for pure in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, "-c", ECHO],
            input=pickle.dumps(things),
            env=os.environ | {"CLOB_PURE_PYTHON": pure},
            capture_output=True,
            check=True,
        )
        assert (b"_book_py" in ran.stderr) == (pure == "1" or "_book_py" in Book.__module__)
        assert [thing.state_hash() for thing in pickle.loads(ran.stdout)] == hashes


def test_damaged_state_is_rejected_alike_or_restored_to_the_same_bytes():
    rng = random.Random(5)
    states = [busy_book(Book, seed, lot).state_bytes() for seed, lot in ((1, 10), (2, 2**70))]
    twin, compiled = map(load, ("python", "compiled"))
    accepted = 0
    for _ in range(1_500):
        state = mutant(rng, rng.choice(states), states)
        results = []
        for book_class in (twin, compiled):
            try:
                book = book_class.restore(state)
                book.check()
                results.append(book.state_bytes())
            except InvalidSnapshotError as error:
                results.append(str(error))
        assert results[0] == results[1]
        if isinstance(results[0], bytes):
            assert results[0] == state
            accepted += 1
    assert 50 < accepted < 1_450


@pytest.mark.parametrize(
    "wrong", [None, "", b"", b"CLOBBOOK", b"CLOBBOOK\2", bytearray(b"CLOBBOOK\1")]
)
def test_other_values_are_no_state(book_class, wrong):
    with pytest.raises(InvalidSnapshotError, match="must be bytes that begin with CLOBBOOK 1"):
        book_class.restore(wrong)


def test_book_cannot_be_pickled_during_a_call(book_class):
    book = book_class()

    class Meddler:
        """Pickles the book while the book reads it."""

        def __repr__(self):
            with pytest.raises(BookBusyError):
                pickle.dumps(book)
            return "a meddler"

    with pytest.raises(ValueError, match="a meddler"):
        book.depth(Meddler())
