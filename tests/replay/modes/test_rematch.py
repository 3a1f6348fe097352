"""Differences from history: the book is corrected, and each difference is counted by kind."""

import pytest

from clob import Side
from clob.records import Flag, Kind
from clob.replay.backtest import backtest
from clob.replay.io.repair import RecordedCommand, apply_recorded_fills
from tests.books import ask, batch, bid, row
from tests.replay.streams import best, filled, queue, stream_of, taker

ASKS = (ask(1, 50, 5), ask(2, 50, 5, owner=7), ask(3, 51, 5), ask(4, 51, 5))
START = [(1, 50, 5), (2, 50, 5), (3, 51, 5), (4, 51, 5)]


def after(book_class, *rows):
    """Run the four asks and the given rows; return the queue, the kinds and the check."""
    result = backtest(stream_of(*ASKS, *rows), book_class=book_class)
    book = result.books[0]
    book.check()
    return queue(book), result.divergence.counts, result.check


@pytest.mark.parametrize(
    ("size", "recorded", "left", "kind"),
    [
        (5, [(1, 5, 50)], START[1:], None),
        (5, [(2, 5, 50)], [START[0], *START[2:]], "orders"),
        (7, [(2, 5, 50), (1, 2, 50)], [(1, 50, 3), *START[2:]], "sizes"),
        (7, [(2, 2, 50), (1, 5, 50)], [(2, 50, 3), *START[2:]], "sequence"),
        (7, [(1, 3, 50), (2, 4, 50)], [(1, 50, 2), (2, 50, 1), *START[2:]], "sizes"),
        (12, [(1, 5, 50), (2, 5, 50), (4, 2, 51)], [(3, 51, 5), (4, 51, 3)], "orders"),
        (12, [(1, 7, 50), (2, 5, 50)], START[2:], "hidden"),
        (2, [(4, 2, 51)], [*START[:3], (4, 51, 3)], "orders"),
        (3, [], START, "traded"),
        (20, [(3, 5, 51)], [*START[:2], START[3]], "orders"),
    ],
)
def test_book_is_corrected_to_history(book_class, size, recorded, left, kind):
    rows = [filled(*one) for one in recorded]
    found, counts, check = after(book_class, taker(9, 0, 60, size), *rows)
    assert found == left
    assert counts == ({kind: 1} if kind else {})
    assert check.ok is (kind is None)
    assert check.exact == check.takers - (kind not in (None, "traded"))


def test_restored_order_keeps_its_place_and_owner(book_class):
    found, counts, _ = after(book_class, taker(9, 0, 50, 7), filled(3, 5, 51), filled(4, 2, 51))
    assert found == [*START[:2], (4, 51, 3)]
    assert counts == {"orders": 1}


def test_order_that_rested_in_history_rests(book_class):
    found, counts, _ = after(book_class, bid(9, 50, 7), filled(1, 5, 50), filled(2, 5, 50))
    assert (found, counts) == (START[2:], {"sizes": 1})


def test_orders_through_which_history_rests_another_are_ghosts(book_class):
    found, counts, _ = after(book_class, bid(9, 50, 3))
    assert (found, counts) == ([(9, 50, 3), *START[2:]], {"ghost": 1})
    found, counts, check = after(book_class, bid(9, 51, 9), filled(1, 5, 50), bid(10, 51, 1))
    assert (found, counts) == ([(9, 51, 4), (10, 51, 1)], {"ghost": 1})
    assert (check.takers, check.exact) == (1, 0)


def test_rest_of_an_order_follows_the_recorded_fills(book_class):
    recorded = [filled(1, 5, 50), filled(2, 5, 50), filled(3, 2, 51)]
    found, counts, _ = after(
        book_class, bid(9, 50, 20), *recorded, row(Kind.CANCEL, 3), row(Kind.CANCEL, 4)
    )
    assert found == [(9, 50, 8)]
    assert counts == {"orders": 1}


def test_replacement_with_other_fills(book_class):
    rows = [
        bid(8, 40, 9, owner=3),
        row(Kind.REPLACE, 8, 0, 50, 9),
        filled(2, 5, 50),
        filled(1, 5, 50),
    ]
    found, counts, _ = after(book_class, *rows)
    assert (found, counts) == (START[2:], {"sizes": 1})


def test_rejected_command_with_recorded_fills(book_class):
    found, counts, check = after(book_class, bid(1, 50, 5), filled(1, 5, 50))
    assert (found, counts) == (START[1:], {"rejected": 1})
    assert (check.takers, check.exact, check.matched) == (1, 0, 0)


def test_recorded_trade_without_a_match(book_class):
    found, counts, _ = after(book_class, taker(9, 1, 50, 5), filled(77, 5, 50))
    assert (found, counts) == (START, {"not_traded": 1})


def test_skipped_order_cancelled_at_the_same_time_is_a_self_match(book_class):
    passed_over = [taker(9, 0, 50, 5, ts_ns=5), filled(2, 5, 50, ts_ns=5)]
    _, counts, _ = after(book_class, *passed_over, row(Kind.CANCEL, 1, ts_ns=5))
    assert counts == {"self_match": 1}
    _, counts, _ = after(book_class, *passed_over, row(Kind.CANCEL, 1, ts_ns=6))
    assert counts == {"orders": 1}
    _, counts, _ = after(book_class, *passed_over)
    assert counts == {"orders": 1}


def test_commands_for_orders_that_have_left_the_book(book_class):
    rows = [
        row(Kind.CANCEL, 9),
        row(Kind.REDUCE, 9, size=1),
        row(Kind.REPLACE, 9, 0, 40, 1),
        row(Kind.REDUCE, 1, size=5),
        row(Kind.LEVEL),
        bid(9, 50, 1, flags=int(Flag.POST_ONLY)),
    ]
    _, counts, check = after(book_class, *rows)
    gone = {"cancel_gone": 1, "reduce_gone": 1, "replace_gone": 1}
    assert counts == {**gone, "not_reduced": 1, "rejected": 2}
    assert check.ok


def test_best_prices_are_reported_after_the_correction(book_class):
    rows = [taker(9, 0, 60, 10), filled(3, 5, 51), filled(4, 5, 51), best(1, 50, 10), best(0, 0, 0)]
    result = backtest(stream_of(*ASKS, *rows), book_class=book_class)
    assert (result.check.bests, result.check.bests_equal) == (2, 2)
    assert result.bests[-1].item() == (4, 0, 0, 10, 0, 50, 0)


@pytest.mark.parametrize("kind", [Kind.LIMIT, Kind.IOC])
def test_correction_reports_whether_it_was_complete(book_class, kind):
    book = book_class()
    command = RecordedCommand(0, 0, 0, 9, 5, 0, 50, 0, kind, Side.BUY, 0)
    assert apply_recorded_fills(book, command, [], [(1, 5, 50)], done=True) == (False, ())
    book.run(batch(ask(1, 51, 5)))
    assert apply_recorded_fills(book, command, [], [(1, 0, 51)], done=True) == (False, ())
    assert apply_recorded_fills(book, command, [], [], done=True) == (True, ())
    assert (9 in book) is (kind is Kind.LIMIT)
