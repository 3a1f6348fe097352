"""Ids of orders and trades: unique, unpredictable and stable."""

import hashlib
import re
from itertools import pairwise, product
from statistics import mean
from unittest import mock

import pytest

from clob_server.core import ids
from clob_server.core.ids import COUNT, DIGITS, HALF, Ids, Permutation

KEY, OTHER = bytes(range(32)), bytes(32)
NOW_MS = 1_700_000_000_123
MANY = 200_000


def texts(permutation, numbers):
    return [permutation.text(number) for number in numbers]


def value(text):
    """Return the number of six characters in base 36."""
    return int(text, 36)


# ----- a permutation -------------------------------------------------------------------------


@pytest.mark.parametrize("half", [1, 2, 3, 36, 100])
def test_small_permutation_is_a_bijection(half):
    """Test all numbers, with the code of the full-size permutation."""
    with mock.patch.multiple(ids, HALF=half, COUNT=half * half):
        small = Permutation(KEY, "orders")
        found = texts(small, range(half * half))
    halves = list(map("".join, product(DIGITS, repeat=3)))[:half]
    assert sorted(found) == sorted(left + right for left in halves for right in halves)


def test_text_can_be_inverted_to_its_number():
    """Two numbers with the same text would fail this."""
    permutation = Permutation(KEY, "orders")

    def number_of(text):
        left, right = divmod(value(text), HALF)
        for table in reversed(permutation._tables):
            left, right = (right - table[left]) % HALF, left
        return left * HALF + right

    for number in (*range(1, 2_000), *range(COUNT - 2_000, COUNT), *range(7, COUNT, 999_983)):
        assert number_of(permutation.text(number)) == number


@pytest.mark.parametrize("start", [1, HALF - 5, 5 * HALF * 1_000, COUNT - MANY])
def test_consecutive_numbers_have_distinct_texts(start):
    found = texts(Permutation(KEY, "orders"), range(start, start + MANY))
    assert len(set(found)) == MANY


@pytest.mark.long
def test_three_million_numbers_have_distinct_texts():
    count = 3_000_000
    permutation = Permutation(KEY, "orders")
    assert len({permutation.text(number) for number in range(1, count + 1)}) == count


def test_numbers_wrap_around_after_the_last():
    permutation = Permutation(KEY, "orders")
    assert permutation.text(COUNT + 5) == permutation.text(5)
    assert COUNT == 36**6


# ----- unpredictable -------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 3 * HALF - 500, 10**9])
def test_texts_of_consecutive_numbers_look_random(first):
    """The mean distance is that of random numbers: a third of the range."""
    found = [value(text) for text in texts(Permutation(KEY, "orders"), range(first, first + 5_000))]
    steps = [abs(after - before) for before, after in pairwise(found)]
    assert mean(steps) == pytest.approx(COUNT / 3, rel=0.05)
    ups = sum(after > before for before, after in pairwise(found))
    assert ups == pytest.approx(2_500, rel=0.06)
    # No step is frequent, as it would be if a part of the text were a counter.
    assert max(steps.count(step) for step in set(steps[:500])) <= 3


def test_characters_are_uniform_at_every_position():
    found = texts(Permutation(KEY, "orders"), range(1, 36_001))
    for place in range(6):
        seen = [text[place] for text in found]
        assert {*seen} == {*DIGITS}
        assert all(800 < seen.count(digit) < 1_200 for digit in DIGITS)


def test_keys_and_purposes_have_independent_permutations():
    numbers = range(1, 10_001)
    all_three = [
        texts(Permutation(KEY, "orders"), numbers),
        texts(Permutation(OTHER, "orders"), numbers),
        texts(Permutation(KEY, "trades"), numbers),
    ]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        alike = sum(a == b for a, b in zip(all_three[one], all_three[other], strict=True))
        assert alike <= 1
        # As sets, they overlap as two random draws of 10,000 out of 2 * 10**9 do.
        assert len(set(all_three[one]) & set(all_three[other])) <= 3


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_key_of_wrong_length_is_rejected(key):
    with pytest.raises(ValueError, match=f"must have 32 bytes; got {len(key)}"):
        Ids(key)


# ----- format --------------------------------------------------------------------------------


def test_order_id_has_seconds_and_six_characters():
    names = Ids(KEY)
    found = {names.order(NOW_MS, number) for number in range(1, 1_001)}
    assert len(found) == 1_000
    assert all(re.fullmatch(r"ord_1700000000_[0-9a-z]{6}", name) for name in found)


def test_trade_id_has_milliseconds_and_six_characters():
    names = Ids(KEY)
    found = {names.trade(NOW_MS, number) for number in range(1, 1_001)}
    assert len(found) == 1_000
    assert all(re.fullmatch(r"trade_1700000000123_[0-9a-z]{6}", name) for name in found)


def test_order_and_trade_of_the_same_number_differ():
    names = Ids(KEY)
    pairs = [(names.order(NOW_MS, n)[-6:], names.trade(NOW_MS, n)[-6:]) for n in range(1, 1_001)]
    assert not any(order == trade for order, trade in pairs)


def test_ids_are_stable_across_versions_and_machines():
    """A log can be moved to another machine and read by a later version."""
    names = Ids(KEY)
    assert names.order(NOW_MS, 1) == "ord_1700000000_1cgyd8"
    assert names.order(NOW_MS, 10**9) == "ord_1700000000_oumrt5"
    assert names.trade(NOW_MS, 1) == "trade_1700000000123_u07f1m"


def test_tables_are_little_endian_words_derived_from_the_key():
    stream = hashlib.shake_256(KEY + b"orders 0").digest(4 * HALF)
    first = [int.from_bytes(stream[n : n + 4], "little") % HALF for n in range(0, 400, 4)]
    assert list(Permutation(KEY, "orders")._tables[0][:100]) == first
