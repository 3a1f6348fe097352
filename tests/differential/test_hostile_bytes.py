"""Hostile bytes and records have one outcome in both kinds; see :mod:`tests.differential.fuzz`."""

import numpy as np
import pytest

from clob import RunRejectedError, commands
from clob.errors import InvalidBytesError
from clob.records import FILL, Kind
from tests.books import ask, batch, bid
from tests.differential.fuzz import SHARES, Fuzz
from tests.journal.values import load


def test_both_kinds_agree():
    counts = Fuzz("short").run(60_000)
    assert all(counts[name] for name in SHARES)
    assert all(counts[f"{name} accepted"] for name in SHARES)


@pytest.mark.long
def test_both_kinds_agree_long():
    Fuzz("long 1").run(300_000)


# ----- found by the fuzzer -------------------------------------------------------------------


@pytest.mark.parametrize("length", range(1, 9))
def test_both_codecs_reject_an_integer_with_a_last_byte_of_zero(length):
    # The compiled codec read on behind it, where a long integer began.
    padded = bytes((length,)) + bytes(length)
    for codec in map(load, ("python", "compiled")):
        expire = codec.encode(commands.Expire(now_ms=2**64))
        assert codec.decode(expire) == commands.Expire(now_ms=2**64)
        with pytest.raises(InvalidBytesError, match="last byte of an integer must not be 0"):
            codec.decode(expire[:1] + padded + expire[1:])


def test_kinds_are_written_up_to_the_rejected_event(book_class):
    events = batch(bid(1, 40, 5), ask(2, 60, 5), bid(1, 40, 5), ask(3, 60, 5))
    kinds = np.full(4, 99, np.uint8)
    with pytest.raises(RunRejectedError):
        book_class().advance(events, np.zeros(4, FILL), kinds=kinds)
    assert kinds.tolist() == [Kind.LIMIT, Kind.LIMIT, 99, 99]


def test_kinds_are_written_up_to_an_event_without_room(book_class):
    events = batch(ask(1, 40, 5), bid(2, 40, 5), ask(3, 60, 5))
    kinds = np.full(3, 99, np.uint8)
    assert book_class().advance(events, np.zeros(0, FILL), kinds=kinds)[0] == 1
    assert kinds.tolist() == [Kind.LIMIT, 99, 99]


@pytest.mark.parametrize("until_ns", [-1, -(2**63), -(2**40)])
def test_negative_time_leaves_the_other_arguments_in_effect(book_class, until_ns):
    # The compiled book ignored all arguments checked after it.
    events = batch(ask(1, 50, 5, owner=7), bid(2, 50, 1))
    events["ts_ns"], events["instrument"] = until_ns, 3
    fills = np.zeros(4, FILL)
    arguments = {"base": 1_000, "watch": 7, "instrument": 3, "until_ns": until_ns}
    assert book_class().advance(events, fills, **arguments) == (2, 1, 0, True)
    assert fills["event"][0] == 1_001
    assert book_class().advance(events, fills, **arguments | {"instrument": 4})[0] == 0
