"""The oracle of the fault tests accepts what clients observe, and finds each forged observation."""

import copy
from types import SimpleNamespace

import pytest

from tests.server.cluster.load import Load
from tests.server.cluster.oracle import Oracle
from tests.server.live import live_server

LATE = 1e12
"""A time after all others."""


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """The folder of a server, and what clients of it observed."""
    folder = tmp_path_factory.mktemp("observed")
    with live_server(folder, rate_limits=False) as live:
        load = Load([SimpleNamespace(name="node", live=live)], "oracle", traders=3, pause_s=0.005)
        load.wait(150)
        seen = load.end()
    assert not seen.errors
    return folder, seen


def problems_after(observed, forge):
    """Return the kinds of problems of observations after a change of them."""
    folder, seen = observed
    forged = copy.deepcopy(seen)
    forge(forged)
    return {kind for kind, *_ in Oracle(folder, forged).check()}


def first(seen, of):
    """Return the first acknowledged order, cancel, book or list of orders."""
    if of in ("place", "cancel"):
        return next(each for each in seen.writes if each.kind == of)
    return next(each for each in seen.reads if bool(each.market) == (of == "book"))


def book_reads(seen):
    """Return two reads of the books of a market, before and after some changes."""
    market = first(seen, "book").market
    reads = sorted((each for each in seen.reads if each.market == market), key=lambda it: it.seq)
    return reads[0], reads[-1]


def forge_lost_order(seen):
    lost = copy.deepcopy(first(seen, "place"))
    lost.key = bytes(32)
    seen.writes.append(lost)


def forge_lost_cancel(seen):
    first(seen, "cancel").key = "another"


def forge_finished_order(seen):
    resting = {order for each in seen.reads if each.maker for order in each.content}
    resting -= {each.key for each in seen.writes}
    seen.not_open += resting


def forge_unknown_order(seen):
    seen.denied.append(("/api/orders/1", "node", 0.0))


def forge_order_that_was_not_sent(seen):
    del seen.sent[first(seen, "place").key]


def forge_answer(seen):
    first(seen, "place").answer["orderId"] = "another"


def forge_trades(seen):
    traded = next(each for each in seen.writes if each.answer.get("trades"))
    traded.answer["trades"].pop()


def forge_sequence(seen):
    write = first(seen, "place")
    write.applied = 0


def forge_order_of_writes(seen):
    write = seen.writes[-1]
    write.began = write.ended = -1.0


def forge_book(seen):
    first(seen, "book").content = b"another"


def forge_number_of_book(seen):
    first(seen, "book").seq = 10**6


def forge_sequence_of_book(seen):
    next(each for each in seen.reads if each.applied and each.market).applied = 10**6


def forge_list(seen):
    orders = first(seen, "list")
    orders.content = (*orders.content, "another")


def forge_stale_book(seen):
    early, _ = book_reads(seen)
    early.began = early.ended = LATE


def forge_min_seq(seen):
    early, late = book_reads(seen)
    early.least = late.seq + 10**6


def forge_book_of_the_future(seen):
    _, late = book_reads(seen)
    late.began = late.ended = -1.0


def forge_step_back(seen):
    early, late = book_reads(seen)
    seen.writes.clear()
    late.began = late.ended = LATE
    early.began = early.ended = LATE + 1


def forge_message(seen):
    message = next(each for each in seen.messages.values() if each["type"] == "trade")
    message["data"]["size"] = "1"


@pytest.mark.parametrize(
    ("forge", "problem"),
    [
        (forge_lost_order, "lost"),
        (forge_lost_cancel, "lost"),
        (forge_finished_order, "open order was called finished"),
        (forge_unknown_order, "acknowledged order called unknown"),
        (forge_order_that_was_not_sent, "order that no client sent"),
        (forge_answer, "another order"),
        (forge_trades, "other trades"),
        (forge_sequence, "X-Applied-Seq before the command"),
        (forge_order_of_writes, "order of writes"),
        (forge_book, "another book"),
        (forge_number_of_book, "read of a state that never was"),
        (forge_sequence_of_book, "X-Applied-Seq of another book"),
        (forge_list, "other open orders"),
        (forge_stale_book, "stale read"),
        (forge_min_seq, "stale read"),
        (forge_book_of_the_future, "read from the future"),
        (forge_step_back, "a node went back"),
        (forge_message, "message that is not in the log"),
    ],
)
def test_forged_observation_is_found(observed, forge, problem):
    assert problem in problems_after(observed, forge)


def test_true_observations_are_accepted(observed):
    assert problems_after(observed, lambda seen: None) == set()
