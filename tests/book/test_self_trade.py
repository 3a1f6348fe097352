"""The self-trade policies with one resting and one incoming order; see also the scenarios."""

import pytest

from clob import SelfTrade
from clob.records import Kind
from tests.books import ask, batch, buy, event_lines, fill_book, fills_of, row, sell

MINE = {"maker": "alice"}

OUTCOMES = [
    # policy, size of the resting and of the incoming order, lines
    (None, 5, 8, ["trade r i 5 @ 50", "removed r filled", "added i 3"]),
    (SelfTrade.NONE, 5, 8, ["trade r i 5 @ 50", "removed r filled", "added i 3"]),
    (SelfTrade.CANCEL_RESTING, 5, 8, ["removed r self_trade 5", "added i 8"]),
    (SelfTrade.CANCEL_RESTING, 8, 5, ["removed r self_trade 8", "added i 5"]),
    (SelfTrade.CANCEL_INCOMING, 5, 8, []),
    (SelfTrade.CANCEL_BOTH, 5, 8, ["removed r self_trade 5"]),
    (SelfTrade.DECREMENT, 5, 8, ["removed r self_trade 5", "added i 3"]),
    (SelfTrade.DECREMENT, 8, 5, ["reduced r 3"]),
    (SelfTrade.DECREMENT, 5, 5, ["removed r self_trade 5"]),
]


@pytest.mark.parametrize(("policy", "resting", "incoming", "lines"), OUTCOMES)
def test_policies_in_submit(book_class, policy, resting, incoming, lines):
    book = fill_book(book_class(), sell("r", 50, resting, **MINE))
    assert event_lines(book.submit(buy("i", 50, incoming, self_trade=policy, **MINE))) == lines
    book.check()


@pytest.mark.parametrize(("policy", "resting", "incoming", "lines"), OUTCOMES)
def test_policies_with_sides_exchanged(book_class, policy, resting, incoming, lines):
    book = fill_book(book_class(), buy("r", 50, resting, **MINE))
    assert event_lines(book.submit(sell("i", 50, incoming, self_trade=policy, **MINE))) == lines


@pytest.mark.parametrize(("policy", "resting", "incoming", "lines"), OUTCOMES)
def test_policies_in_replace(book_class, policy, resting, incoming, lines):
    book = fill_book(book_class(), sell("r", 50, resting, **MINE), buy("i", 40, 1, **MINE))
    events = book.replace("i", price=50, size=incoming, self_trade=policy)
    assert event_lines(events) == ["removed i replaced 1", *lines]


@pytest.mark.parametrize(("policy", "resting", "incoming", "lines"), OUTCOMES)
def test_policies_in_run(book_class, policy, resting, incoming, lines):
    one, two = book_class(), book_class()
    fill_book(one, sell(1, 50, resting, maker="owner:7"))
    one.submit(buy(2, 50, incoming, maker="owner:7", self_trade=policy))
    taker = row(Kind.LIMIT, 2, 0, 50, incoming, owner=7, policy=policy or 0)
    fills = two.run(batch(ask(1, 50, resting, owner=7), taker))
    assert two.state_hash() == one.state_hash()
    assert len(fills) == sum(line.startswith("trade") for line in lines)


@pytest.mark.parametrize("policy", SelfTrade)
def test_other_makers_and_empty_makers_trade(book_class, policy):
    for resting, incoming in (("alice", "bob"), ("", ""), ("alice", ""), ("", "alice")):
        book = fill_book(book_class(), sell("r", 50, 5, maker=resting))
        events = book.submit(buy("i", 50, 5, maker=incoming, self_trade=policy))
        assert event_lines(events) == ["trade r i 5 @ 50", "removed r filled"]


def test_owner_zero_never_matches_itself(book_class):
    stopped = {"policy": SelfTrade.CANCEL_BOTH}
    events = batch(ask(1, 50, 5), row(Kind.IOC, 2, 0, 50, 5, **stopped))
    assert fills_of(book_class().run(events)) == [(1, 1, 2, 5, 50)]
    events["owner"] = 7
    assert fills_of(book_class().run(events)) == []
    events["owner"][1] = 8
    assert fills_of(book_class().run(events)) == [(1, 1, 2, 5, 50)]


def test_an_owner_number_matches_the_maker_name_of_submit(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, maker="owner:7"), sell("b", 50, 5, maker="7"))
    taker = row(Kind.IOC, 2, 0, 50, 10, owner=7, policy=SelfTrade.CANCEL_RESTING)
    (fill,) = book.run(batch(taker))
    assert book.id_of(int(fill["resting_id"])) == "b"


@pytest.mark.parametrize("maker", ["owner:0", "owner:07", "owner:", "owner:x", "owner:2147483648"])
def test_a_name_similar_to_an_owner_is_another_maker(book_class, maker):
    book = fill_book(book_class(), sell("a", 50, 5, maker=maker))
    for owner in (0, 7, 2**31 - 1):
        taker = row(Kind.IOC, 2, 0, 50, 1, owner=owner, policy=SelfTrade.CANCEL_BOTH)
        assert len(book.run(batch(taker))) == 1
    assert book.order("a").maker == maker


def test_the_largest_owner_is_matched(book_class):
    largest = 2**31 - 1
    book = fill_book(book_class(), sell("a", 50, 5, maker=f"owner:{largest}"))
    taker = row(Kind.IOC, 2, 0, 50, 1, owner=largest, policy=SelfTrade.CANCEL_INCOMING)
    assert len(book.run(batch(taker))) == 0


def test_only_the_policy_of_the_incoming_order_counts(book_class):
    book = fill_book(book_class(), sell("r", 50, 5, self_trade=SelfTrade.CANCEL_BOTH, **MINE))
    assert event_lines(book.submit(buy("i", 50, 5, **MINE)))[0] == "trade r i 5 @ 50"


def test_own_orders_beyond_the_filled_size_are_untouched(book_class):
    book = fill_book(book_class(), sell("a", 50, 5, maker="bob"), sell("b", 50, 5, **MINE))
    events = book.submit(buy("i", 50, 5, self_trade=SelfTrade.CANCEL_RESTING, **MINE))
    assert event_lines(events) == ["trade a i 5 @ 50", "removed a filled"]
    assert "b" in book
