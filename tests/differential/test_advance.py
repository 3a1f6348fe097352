"""``Book.advance`` against ``run``: any division into ranges leads to the same result.

Method: the dirty records of the batch door, run whole by one book and in random stretches by
another. Fills, statuses and the last state must be equal, and the rows of best prices those one
sees who looks after every single event.
"""

import random  # noqa: TID251 - seeded, and outside the engine

import numpy as np
import pytest

from clob import RunRejectedError
from clob.errors import DuplicateOrderError, InvalidArrayError
from clob.records import BEST, EVENT, FILL, Kind
from tests.books import ask, batch, bid, fills_of, load, row
from tests.differential.test_dirty_fuzz import HI, LO, dirty_rows

ROOM = 64


def best_row(book, lot_wei):
    """Return the best prices of a book as in ``BEST``, without event and time."""
    depth = book.depth(1)
    bid_level = next(iter(depth.bids), None)
    ask_level = next(iter(depth.asks), None)
    return (
        min(bid_level.size // lot_wei, 2**63 - 1) if bid_level else 0,
        min(ask_level.size // lot_wei, 2**63 - 1) if ask_level else 0,
        bid_level.price if bid_level else LO - 1,
        ask_level.price if ask_level else HI + 1,
    )


def one_by_one(book, events, lot_wei):
    """Run event by event; return fills, statuses and rows of best prices as lists."""
    fills, bests, last = [], [], best_row(book, lot_wei)
    status = np.zeros(len(events), np.uint8)
    for index in range(len(events)):
        part = slice(index, index + 1)
        fills += [
            (index, *fill[1:]) for fill in fills_of(book.run(events[part], None, status[part]))
        ]
        top = best_row(book, lot_wei)
        if top != last:
            bests.append((index, int(events["ts_ns"][index]), *top, events["instrument"][index]))
            last = top
    return fills, status.tolist(), bests


def in_ranges(book, events, rng, rooms=(ROOM, 9, 1)):
    """Run in ranges of random bounds and room; return the same as ``one_by_one``."""
    fills, bests, position = [], [], 0
    status = np.full(len(events), 77, np.uint8)
    while position < len(events):
        stop = rng.choice((None, min(len(events), position + rng.randrange(40))))
        buffer = np.zeros(ROOM, FILL)
        tape = np.zeros(rng.choice(rooms), BEST)
        after, fill_count, best_count, hit = book.advance(
            events, buffer, status=status, bests=tape, start=position, stop=stop
        )
        assert position <= after <= (len(events) if stop is None else stop)
        fills += fills_of(buffer[:fill_count])
        bests += tape[:best_count].tolist()
        assert not hit
        position = after
    return fills, status.tolist(), bests


@pytest.mark.parametrize("seed", range(12))
def test_any_ranges_lead_to_the_same_result(book_class, seed):
    rng = random.Random(seed)
    lot_wei = rng.choice((1, 10, 2**33))
    events = np.array(dirty_rows(rng, 700, 40, 0.02), EVENT)
    whole, same = (book_class(LO, HI, "", lot_wei) for _ in range(2))
    expected = one_by_one(whole, events, lot_wei)
    assert in_ranges(same, events, rng) == expected
    assert same.state_hash() == whole.state_hash()
    assert len(expected[2]) > 50
    same.check()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_both_books_agree_long(seed):
    result = []
    for name in ("python", "compiled"):
        rng = random.Random(seed)
        events = np.array(dirty_rows(rng, 3_000, 90, 0.02), EVENT)
        book = load(name)(LO, HI)
        result.append((in_ranges(book, events, rng), book.state_hash()))
    assert result[0] == result[1]


# ----- the end of a range --------------------------------------------------------------------


def advance(book, events, room=ROOM, **arguments):
    """Advance with a buffer of ``room`` fills; return the end index and the fills."""
    buffer = np.zeros(room, FILL)
    after, fill_count, best_count, hit = book.advance(events, buffer, **arguments)
    assert best_count == 0
    assert hit in (True, False)
    return after, fills_of(buffer[:fill_count])


def test_a_range_ends_after_a_fill_of_the_watched_owner(book_class):
    events = batch(
        ask(1, 50, 5),
        ask(2, 50, 5, owner=9),
        bid(3, 50, 2),
        bid(4, 50, 4, owner=9),
        bid(5, 50, 1),
    )
    book = book_class()
    assert advance(book, events, watch=9) == (
        4,
        [(2, 1, 3, 2, 50), (3, 1, 4, 3, 50), (3, 2, 4, 1, 50)],
    )
    assert advance(book, events, watch=9, start=4) == (5, [(4, 2, 5, 1, 50)])
    assert advance(book_class(), events)[0] == 5
    assert advance(book_class(), events, watch=8)[0] == 5


def test_a_range_with_a_watched_owner_ends_after_a_clear(book_class):
    events = batch(
        ask(1, 50, 5, owner=9),
        row(Kind.CLEAR, 0, 0, 0, 0),
        ask(2, 50, 5),
        row(Kind.CLEAR, 0, 0, 0, 0),
    )
    book = book_class()
    assert advance(book, events, watch=9) == (2, [])
    assert advance(book, events, watch=9, start=2) == (4, [])
    assert advance(book_class(), events) == (4, [])


def test_passes_reports_fills_of_the_watched_owner_without_ending(book_class):
    events = batch(
        ask(1, 50, 5, owner=9),
        bid(2, 50, 2),
        bid(3, 50, 4),
        row(Kind.CLEAR),
        ask(4, 50, 5, owner=9),
        bid(5, 50, 1),
    )
    book = book_class()
    fills = [(1, 1, 2, 2, 50), (2, 1, 3, 3, 50)]
    passing = np.zeros(ROOM, FILL)
    assert book.advance(events, passing, watch=9, passes=True, stop=1) == (1, 0, 0, False)
    assert book.advance(events, passing, watch=9, passes=True, start=1) == (4, 2, 0, True)
    assert fills_of(passing[:2]) == fills
    assert book.advance(events, passing, watch=9, passes=True, start=4) == (6, 1, 0, True)
    # A difference still ends the range.
    result = book_class().advance(events, passing, watch=9, passes=True, verify=True)
    assert result == (2, 1, 0, True)


def test_a_range_ends_before_another_instrument(book_class):
    events = batch(*[bid(number, 40, 1) for number in range(1, 6)])
    events["instrument"] = (3, 3, 4, 3, 65_535)
    book = book_class()
    assert advance(book, events, instrument=3)[0] == 2
    assert advance(book, events, instrument=3, start=2)[0] == 2
    assert advance(book, events, instrument=4, start=2)[0] == 3
    assert advance(book, events, instrument=65_535, start=4)[0] == 5
    assert advance(book_class(), events)[0] == 5
    assert len(book) == 4


def test_kinds_and_event_numbers_are_written_for_executed_events(book_class):
    events = batch(
        ask(1, 50, 5),
        row(Kind.CANCEL, 7, 0, 0, 0),
        row(Kind.TRADE, 1, 50, 1, 0),
        bid(2, 50, 2),
        row(Kind.FILL, 1, 50, 2, 1),
        bid(3, 50, 1),
    )
    fills, bests, kinds = np.zeros(4, FILL), np.zeros(4, BEST), np.full(7, 99, np.uint8)
    status = np.zeros(6, np.uint8)
    result = book_class().advance(
        events, fills, status=status, bests=bests, kinds=kinds, base=2**62, stop=5
    )
    assert result == (5, 1, 2, False)
    assert kinds.tolist() == [*events["kind"][:5], 99, 99]
    assert fills["event"].tolist() == [2**62 + 3, 0, 0, 0]
    assert bests["event"].tolist() == [2**62, 2**62 + 3, 0, 0]


def test_watch_zero_watches_no_owner(book_class):
    assert advance(book_class(), batch(ask(1, 50, 5), bid(2, 50, 2), bid(3, 50, 1)))[0] == 3


def test_an_incoming_order_of_the_watched_owner_does_not_end_a_range(book_class):
    events = batch(ask(1, 50, 5), bid(2, 50, 2, owner=9), bid(3, 40, 1))
    assert advance(book_class(), events, watch=9)[0] == 3


def test_self_trade_prevention_of_a_watched_order(book_class):
    events = batch(ask(1, 50, 5, owner=9), bid(2, 50, 2, owner=8, policy=1), bid(3, 40, 1))
    assert advance(book_class(), events, watch=9)[0] == 2


def test_a_range_ends_before_a_later_event(book_class):
    events = batch(*(bid(index, 40, 1, ts_ns=ts) for index, ts in enumerate((5, 5, 7, 6, 9))))
    for until_ns, after in ((4, 0), (5, 2), (6, 2), (7, 4), (8, 4), (9, 5), (2**63 - 1, 5)):
        book = book_class()
        assert advance(book, events, until_ns=until_ns)[0] == after == len(book)


def test_a_range_ends_before_fills_that_do_not_fit(book_class):
    events = batch(ask(1, 50, 5), ask(2, 51, 5), bid(3, 60, 2), bid(4, 60, 5), bid(5, 30, 1))
    book = book_class()
    assert advance(book, events, room=2) == (3, [(2, 1, 3, 2, 50)])
    assert advance(book, events, room=1, start=3) == (3, [])
    assert advance(book, events, room=2, start=3)[0] == 5


def test_a_range_ends_if_bests_is_full(book_class):
    events = batch(bid(1, 40, 5), bid(2, 41, 5))
    book, fills = book_class(), np.zeros(1, FILL)
    assert book.advance(events, fills, bests=np.zeros(0, BEST)) == (0, 0, 0, False)
    rows = np.zeros(1, BEST)
    assert book.advance(events, fills, bests=rows) == (1, 0, 1, False)
    assert rows.tolist() == [(0, 0, 5, 0, 40, 100, 0)]


def test_a_level_larger_than_a_record_can_hold(book_class):
    events = batch(bid(1, 40, 2**63 - 1), bid(2, 40, 2**63 - 1), row(Kind.CANCEL, 1))
    rows = np.zeros(3, BEST)
    assert book_class().advance(events, np.zeros(0, FILL), bests=rows) == (3, 0, 1, False)
    assert rows[0].item() == (0, 0, 2**63 - 1, 0, 40, 100, 0)


def test_without_a_status_a_rejection_is_raised(book_class):
    events = batch(ask(1, 50, 5), bid(2, 50, 2), row(Kind.CANCEL, 7), bid(3, 50, 1))
    with pytest.raises(RunRejectedError) as caught:
        book_class().advance(events, np.zeros(4, FILL))
    assert (caught.value.index, caught.value.code) == (2, "UNKNOWN_ORDER")
    assert fills_of(caught.value.fills) == [(1, 1, 2, 2, 50)]


def fill(order_id, size, price):
    """Return a recorded fill."""
    return row(Kind.FILL, order_id, 1, price, size)


RECORDED = [fill(1, 5, 50), fill(2, 1, 51)]


@pytest.mark.parametrize(
    ("recorded", "ends"),
    [
        (RECORDED, 6),
        (RECORDED[:1], 3),
        ([], 3),
        ([*RECORDED, fill(3, 1, 51)], 3),
        (RECORDED[::-1], 3),
        ([fill(9, 5, 50), RECORDED[1]], 3),
        ([RECORDED[0], fill(2, 2, 51)], 3),
        ([RECORDED[0], fill(2, 1, 52)], 3),
    ],
)
def test_verify_ends_a_range_after_fills_that_differ(book_class, recorded, ends):
    orders = [ask(1, 50, 5), ask(2, 51, 5), bid(3, 60, 6)]
    events = batch(*orders, *recorded, bid(4, 30, 1))
    assert advance(book_class(), events, verify=True)[0] == ends
    assert advance(book_class(), events)[0] == len(events)


def test_recorded_fills_after_the_range_are_compared(book_class):
    events = batch(ask(1, 50, 5), bid(3, 60, 5), fill(1, 4, 50), fill(2, 1, 51))
    assert advance(book_class(), events, verify=True, stop=2)[1] == [(1, 1, 3, 5, 50)]
    fills = np.zeros(4, FILL)
    assert book_class().advance(events, fills, verify=True, stop=2) == (2, 1, 0, True)
    assert book_class().advance(events[:3], fills, verify=True, stop=1) == (1, 0, 0, False)


def test_a_rejected_event_with_recorded_fills_differs(book_class):
    events = batch(ask(1, 50, 5), bid(1, 50, 5), fill(1, 5, 50), bid(3, 20, 5))
    status = np.zeros(4, np.uint8)
    assert advance(book_class(), events, verify=True, status=status) == (2, [])
    assert status.tolist()[1] == DuplicateOrderError.number


def test_differs_marks_events_without_ending_the_range(book_class):
    events = batch(
        ask(1, 50, 5),
        ask(2, 51, 5),
        bid(3, 60, 2),
        fill(1, 2, 50),
        bid(4, 60, 2),
        fill(1, 1, 50),
        bid(5, 60, 1),
        bid(6, 30, 1),
        fill(1, 1, 30),
        ask(6, 70, 1),
        row(Kind.TRADE, 1, 50, 1, 0),
        fill(2, 1, 51),
    )
    differs, status, fills = np.full(13, 7, np.uint8), np.zeros(12, np.uint8), np.zeros(4, FILL)
    marks = {"status": status, "differs": differs}
    assert book_class().advance(events, fills, **marks) == (12, 3, 0, False)
    assert differs.tolist() == [7, 7, 7, 7, 1, 7, 1, 1, 7, 7, 7, 7, 7]
    # With both, the first of them ends the range.
    differs[:] = 0
    assert book_class().advance(events, fills, verify=True, **marks) == (5, 2, 0, True)
    assert np.flatnonzero(differs).tolist() == [4]


def test_a_passed_fill_of_the_watched_owner_is_marked_if_it_differs(book_class):
    events = batch(ask(1, 50, 5, owner=9), bid(2, 50, 2), fill(1, 2, 50), bid(3, 50, 1))
    differs = np.zeros(4, np.uint8)
    book, fills = book_class(), np.zeros(2, FILL)
    result = book.advance(events, fills, differs=differs, watch=9, passes=True)
    assert result == (4, 2, 0, True)
    assert differs.tolist() == [0, 0, 0, 1]


# ----- wrong arguments -----------------------------------------------------------------------

SPANS = [
    {"start": -1},
    {"start": 4},
    {"start": 2, "stop": 1},
    {"stop": 4},
    {"stop": -1},
    {"stop": 1.0},
    {"start": True},
    {"start": 2**64},
    {"until_ns": 2**63},
    {"until_ns": -(2**63) - 1},
    {"until_ns": "1"},
    {"watch": -1},
    {"watch": 2**31},
    {"watch": None},
    {"instrument": -1},
    {"instrument": 2**16},
    {"instrument": "0"},
    {"base": -1},
    {"base": 2**63},
    {"base": None},
]


@pytest.mark.parametrize("arguments", SPANS, ids=str)
def test_invalid_numbers_raise_value_error(book_class, arguments):
    book = book_class()
    with pytest.raises(ValueError, match=next(iter(arguments))):
        book.advance(batch(*[bid(1, 40, 1)] * 3), np.zeros(1, FILL), **arguments)
    assert len(book) == 0


def test_invalid_arrays_are_rejected(book_class):
    events, fills = batch(bid(1, 40, 1), bid(2, 40, 1), bid(3, 40, 1)), np.zeros(4, FILL)
    read_only = np.zeros(4, BEST)
    read_only.flags.writeable = False
    book = book_class()
    for arguments in (
        (None, fills, None, None),
        (events, None, None, None),
        (events.tolist(), fills, None, None),
        (events, events, None, None),
        (events[::2], fills, None, None),
        (events.reshape(1, 3), fills, None, None),
        (events, fills[::2], None, None),
        (events, fills, np.zeros(1, np.uint8), None),
        (events, fills, np.zeros(3, np.int8), None),
        (events, fills, None, np.zeros(2, FILL)),
        (events, fills, None, read_only),
        (events, fills, events.view(np.uint8), None),
        (events, np.zeros(4 * 48 + 1, np.uint8)[1:].view(FILL), None, None),
    ):
        with pytest.raises(InvalidArrayError):
            book.advance(*arguments[:2], status=arguments[2], bests=arguments[3])
        book.check()
        with pytest.raises(InvalidArrayError):
            book_class._lend(*arguments[:2], status=arguments[2], bests=arguments[3])
    status = np.zeros(3, np.uint8)
    for kinds in (np.zeros(2, np.uint8), np.zeros(3, np.int8), status, fills.view(np.uint8)):
        with pytest.raises(InvalidArrayError, match="kinds"):
            book.advance(events, fills, status=status, kinds=kinds)
        with pytest.raises(InvalidArrayError, match="differs"):
            book.advance(events, fills, status=status, differs=kinds)
    assert len(book) == 0


def test_unusual_arrays_are_accepted(book_class):
    class Subclass(np.ndarray):
        """A subclass without changes."""

    events = batch(ask(1, 50, 5), bid(2, 50, 2))
    other = np.dtype(
        list(zip(FILL.names, [FILL[name] for name in FILL.names], strict=True)), align=True
    )
    fills = np.zeros(4, other)
    assert book_class().advance(events.view(Subclass), fills) == (2, 1, 0, False)
    assert fills_of(fills)[0] == (1, 1, 2, 2, 50)


# ----- extreme arguments ---------------------------------------------------------------------

EXTREMES = (
    None, True, False, -1, 0, 1, 5, 7, 2**16, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63),
    -(2**63) - 1, 2**300, -(2**300), 10**5_000, 1.0, 0.5, float("nan"), float("inf"), "", "1", b"",
    (), [], {}, object, np.int64(1), np.int64(-1), np.uint8(1), np.float64(1), np.bool_(True),
    np.array([1, 2]),
)  # fmt: skip
NUMBERS = ("base", "instrument", "watch", "passes", "verify", "start", "stop", "until_ns")


def outcome_of(call):
    """Return the result of a call, or class and text of its error."""
    try:
        return call()
    except (TypeError, ValueError, RunRejectedError) as error:
        return type(error), str(error)


def outcomes(call):
    """Call with a filled book of each kind; return both outcomes with the types of the results."""
    found = []
    for name in ("python", "compiled"):
        book = load(name)(LO, HI)
        book.run(batch(ask(1, LO + 3, 5), bid(2, LO + 1, 5, owner=7)))
        result = outcome_of(lambda book=book: call(book))
        found.append((repr(result), book.state_hash()))
    return found


@pytest.mark.parametrize("name", NUMBERS)
def test_extreme_arguments_of_advance_have_one_outcome(name):
    events = batch(bid(3, LO + 3, 2), ask(4, LO + 1, 2))
    for value in EXTREMES:
        twin, compiled = outcomes(
            lambda book, value=value: book.advance(events, np.zeros(4, FILL), **{name: value})
        )
        assert twin == compiled, value


@pytest.mark.parametrize("place", range(12))
def test_extreme_arguments_of_proceed_have_one_outcome(place):
    events = batch(bid(3, LO + 3, 2), ask(4, LO + 1, 2))
    for value in EXTREMES:

        def call(book, value=value):
            lent = book._lend(events, np.zeros(4, FILL), bests=np.zeros(4, BEST))
            arguments = [lent, 0, 0, None, 0, None, 0, False, False, 0, None, None]
            arguments[place] = value
            return book._proceed(*arguments)

        twin, compiled = outcomes(call)
        assert twin == compiled, value


def test_extreme_limits_of_depth_have_one_outcome():
    for value in EXTREMES:
        twin, compiled = outcomes(lambda book, value=value: book.depth(value))
        assert twin == compiled, value
        accepted = value is None or (type(value) is int and value >= 0)
        assert twin[0].startswith("Depth(" if accepted else "(<class 'ValueError'>"), value
