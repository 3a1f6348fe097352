"""The compiled and the NumPy number parser return the same for any bytes."""

import os

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clob.replay.io import _numerals_py as plain
from clob.replay.io import numerals

compiled = pytest.importorskip("clob.replay.io._numerals_c", reason="the numerals are not built")

HEAD = bytes(plain.MARGIN - 1) + b"\n"
TEXTS = st.text(st.sampled_from("0123456789" * 3 + ".-,\n0x "), max_size=120) | st.lists(
    st.decimals(-(10**19), 10**19, allow_nan=False, allow_infinity=False).map("{:f}".format)
    | st.integers(-(2**64), 2**64).map(str),
    max_size=8,
).map(",".join)
"""Numbers and text that resembles numbers."""


def bounds(text):
    marks, _ = plain.marks_of(text, ord(","))
    return marks[:-1], marks[1:]


def assert_same(ours, theirs):
    (value, bad), (expected, odd) = ours, theirs
    assert (bad is None) == (odd is None)
    fine = np.ones(len(expected), np.bool_) if odd is None else ~odd
    assert bad is None or bad.tolist() == odd.tolist()
    assert value[fine].tolist() == expected[fine].tolist()


def test_compiled_parser_is_selected():
    wanted = plain if os.environ.get("CLOB_PURE_PYTHON") == "1" else compiled
    for name in ("marks_of", "whole_numbers", "decimal_fractions"):
        assert getattr(numerals, name) is getattr(wanted, name)


@given(st.binary(max_size=200), st.sampled_from(b",;\n\x00\xff"))
def test_marks_are_equal(text, separator):
    ours, theirs = compiled.marks_of(text, separator), plain.marks_of(text, separator)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[1] == theirs[1]


def test_more_marks_than_a_byte_can_count():
    text = b",\n" * 1000 + b"x" * 7 + b","
    assert compiled.marks_of(text, ord(","))[1] == 1000
    assert len(compiled.marks_of(text, ord(","))[0]) == 2001


@given(TEXTS, st.booleans())
@example("9219999999999999999,9220000000000000000,18446744073709551616,-1,-,--1", True)
@example("9999999999999999999,1234567890123456,12345678,123456789", False)
def test_whole_numbers_are_equal(text, signed):
    text = HEAD + text.encode() + b"\n" + bytes(8)
    where = bounds(text)
    assert_same(
        compiled.whole_numbers(text, *where, signed), plain.whole_numbers(text, *where, signed)
    )


@given(TEXTS, st.integers(0, 18), st.booleans())
@example("1.2.3,.5,5.,.,-.5,1.500,1.005,92233720368547758.07,92233720368547758.08", 2, True)
@example("1,1.5,22.25,333.125", 3, False)
@example("1234567890123.5,1", 3, False)
def test_decimal_fractions_are_equal(text, places, signed):
    text = HEAD + text.encode() + b"\n" + bytes(8)
    where = bounds(text)
    assert_same(
        compiled.decimal_fractions(text, *where, places, signed),
        plain.decimal_fractions(text, *where, places, signed),
    )


@pytest.mark.parametrize(("before", "behind"), [(22, 30), (23, 23), (23, 40), (2**62, 2**62 + 1)])
def test_cell_outside_the_text_is_rejected(before, behind):
    text = HEAD + b"12,34\n" + bytes(8)
    where = np.array([before], np.int64), np.array([behind], np.int64)
    with pytest.raises(IndexError, match=f"cell {before} to {behind} is outside the text of 38"):
        compiled.whole_numbers(text, *where, False)
    with pytest.raises(IndexError, match=f"cell {before} to {behind} is outside the text of 38"):
        compiled.decimal_fractions(text, *where, 2, False)


def test_unequal_bounds_are_rejected():
    some, none = np.array([23], np.int64), np.zeros(0, np.int64)
    with pytest.raises(ValueError, match="before and behind must be equally long; got 1 and 0"):
        compiled.whole_numbers(HEAD + b"1\n", some, none, False)


@pytest.mark.parametrize("places", [-1, 19])
def test_places_above_eighteen_are_rejected(places):
    none = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match=f"places must be 0 to 18; got {places}"):
        compiled.decimal_fractions(HEAD, none, none, places, False)
