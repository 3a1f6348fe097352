"""Replays: the fills that were recorded come out, however the flow is cut into pieces."""

import dataclasses

import numpy as np
import pytest

from clob import SelfTrade
from clob.errors import InvalidKindError
from clob.records import SELF_TRADE_SHIFT
from clob.replay import EVENT, FILL, Check, Kind, Recording, read_npz, replay
from clob.replay.check.run import compare
from tests.books import ask, batch, bid, row


def book_for(book_class, recording):
    return book_class(lo=recording.lo, hi=recording.hi, lot_wei=recording.lot_wei)


def recording_of(*rows, seed=(), fills=None):
    return Recording(
        events=batch(*rows), seed=batch(*seed), fills=fills, lo=1, hi=99, lot_wei=10**16
    )


def fills(*rows):
    array = np.zeros(len(rows), FILL)
    for place, values in enumerate(rows):
        array[["event", "resting_id", "size", "price"]][place] = values
    return array


def test_golden(book_class, golden_path):
    recording = read_npz(golden_path)
    result = replay(recording, book=book_for(book_class, recording))
    assert result.check == Check(5_862, 5_862, 5_862, None)
    assert result.check.ok
    assert np.array_equal(result.fills, recording.fills)
    assert (result.events, result.refused) == (49_785, {})
    assert (result.limit_fills, result.ioc_unfilled) == (0, 0)
    result.book.check()


@pytest.mark.parametrize("chunk", [1, 7, 4_096, None])
def test_chunks_do_not_matter(book_class, day, chunk):
    whole = replay(day, book=book_for(book_class, day))
    assert whole.check.ok
    assert whole.refused == {}
    assert np.array_equal(whole.fills, day.fills)
    parts = replay(day, book=book_for(book_class, day), chunk=chunk or len(day.events))
    assert np.array_equal(parts.fills, whole.fills)
    assert parts.book.state_hash() == whole.book.state_hash()
    assert (parts.refused, parts.check) == (whole.refused, whole.check)
    parts.book.check()


def test_the_recording_is_left_as_it_is(book_class, day):
    before = [array.tobytes() for array in (day.events, day.seed, day.fills)]
    replay(day, book=book_for(book_class, day))
    assert [array.tobytes() for array in (day.events, day.seed, day.fills)] == before


def test_the_default_book_is_on_the_grid_of_the_recording(day):
    book = replay(day).book
    assert (book.lo, book.hi, book.lot_wei) == (day.lo, day.hi, day.lot_wei)


def test_progress_is_told_after_each_chunk(day):
    heard = []
    events = day.events[:20]
    part = dataclasses.replace(day, events=events, fills=None)
    result = replay(part, chunk=8, on_progress=lambda *numbers: heard.append(numbers))
    assert heard == [(8, 20), (16, 20), (20, 20)]
    assert result.check is None


def test_refusals_are_counted_by_code_and_passed_over(book_class):
    recording = recording_of(
        row(Kind.CANCEL, 7),
        bid(1, 40, 5),
        bid(1, 41, 5),
        row(Kind.REDUCE, 8, size=1),
        row(Kind.LEVEL),
        row(Kind.IOC, 2, 1, 40, 2),
    )
    result = replay(recording, book=book_for(book_class, recording), chunk=2)
    assert result.refused == {"INVALID_KIND": 1, "DUPLICATE_ORDER": 1, "UNKNOWN_ORDER": 2}
    assert result.fills["event"].tolist() == [5]
    assert result.check is None


def test_figures_of_limit_and_ioc(book_class):
    recording = recording_of(
        bid(2, 52, 4),
        row(Kind.IOC, 3, 0, 53, 6),
        row(Kind.IOC, 4, 0, 53, 2),
        row(Kind.IOC, 5, 0, 53, 2),
        row(Kind.IOC, 6, 0, 53, 0),
        seed=(
            row(Kind.SEED, 1, 1, 52, 5),
            row(Kind.SEED, 9, 1, 53, 7),
        ),
    )
    result = replay(recording, book=book_for(book_class, recording))
    assert result.limit_fills == 1
    # Order 3 took the last 1 at 52 and 5 at 53, order 4 the last 2; the one of size 0 is refused.
    assert result.ioc_unfilled == 1
    assert result.refused == {"INVALID_AMOUNT": 1}


def test_owners_and_policies_pass_through(book_class):
    policy = SelfTrade.CANCEL_RESTING << SELF_TRADE_SHIFT
    recording = recording_of(ask(1, 50, 5, owner=4), bid(2, 50, 5, owner=4, flags=policy))
    result = replay(recording, book=book_for(book_class, recording))
    assert len(result.fills) == 0
    assert 2 in result.book


def test_orders_that_rest_already_take_part(book_class, day):
    book = book_for(book_class, day)
    book.run(batch(ask(2**62, 99, 10**9), bid(2**62 + 1, 1, 10**9)))
    result = replay(day, book=book)
    assert len(result.book) >= 2


def test_wrong_arguments(book_class, day):
    with pytest.raises(ValueError, match="chunk must be 1 or more, not 0"):
        replay(day, chunk=0)
    with pytest.raises(ValueError, match="the book's lot is 1 wei, not 10000000000000000"):
        replay(day, book=book_class())
    with pytest.raises(InvalidKindError):
        replay(dataclasses.replace(day, seed=day.events[:3]))


def test_an_empty_recording():
    none = np.zeros(0, EVENT)
    result = replay(
        Recording(events=none, seed=none, fills=np.zeros(0, FILL), lo=1, hi=99, lot_wei=1)
    )
    assert result.check == Check(0, 0, 0, None)


RECORDED = [(0, 1, 5, 50), (0, 2, 3, 51), (4, 3, 1, 49)]


@pytest.mark.parametrize(
    ("produced", "matched", "first"),
    [
        (RECORDED, 3, None),
        ([], 0, 0),
        (RECORDED[:2], 2, 2),
        (RECORDED[1:], 2, 0),
        ([*RECORDED, (5, 1, 1, 1)], 3, 3),
        ([RECORDED[0], RECORDED[2], RECORDED[1]], 3, 1),
        ([(1, 1, 5, 50), *RECORDED[1:]], 2, 0),
        ([RECORDED[0], (0, 9, 3, 51), RECORDED[2]], 2, 1),
        ([RECORDED[0], RECORDED[1], (4, 3, 2, 49)], 2, 2),
        ([RECORDED[0], RECORDED[1], (4, 3, 1, 48)], 2, 2),
    ],
)
def test_comparison(produced, matched, first):
    check = compare(fills(*RECORDED), fills(*produced))
    assert check == Check(3, len(produced), matched, first)
    assert check.ok is (first is None)
