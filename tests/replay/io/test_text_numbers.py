"""Numbers and dates in text: exact or rejected."""

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.io.text import date_ns, lots_of, places_of, time_ns, units


@given(st.decimals(-(10**9), 10**9, places=9), st.integers(9, 12))
def test_units_match_exact_arithmetic(value, places):
    assert units(str(value), places) == int(value * 10**places)


@given(st.integers(-(10**18), 10**18), st.integers(0, 6), st.sampled_from("eE"))
def test_exponents_shift_the_point(value, exponent, letter):
    assert units(f"{value}{letter}{exponent}", 2) == value * 10 ** (exponent + 2)
    assert units(f"{value}{letter}-{exponent}", exponent) == value


WORDS = ["", ".", "-", "1,5", "0x1", "1e", " 1", "NaN", "\u0663", "1" * 61, "0.001", "15e-3"]


@pytest.mark.parametrize("text", [*WORDS, 1.5, True, None])
def test_units_rejects_other_text(text):
    with pytest.raises(ValueError, match="expected a "):
        units(text, 2)


@given(st.decimals(0, 1, places=6))
def test_places_are_minimal(value):
    places = places_of(str(value))
    assert value == Decimal(units(str(value), places)).scaleb(-places)
    assert places == 0 or units(str(value), places) % 10


def test_dates_have_nanoseconds():
    assert date_ns("1970-01-01T00:00:01.000000001Z") == 10**9 + 1
    assert date_ns("1969-12-31 23:59:59.5+00:00") == -500_000_000
    assert date_ns("2262-04-11T23:47:16.854775807") == 2**63 - 1


@pytest.mark.parametrize("offset", ["+01:30", "+0130", "-02:00", "-02", "-0030"])
def test_dates_with_an_offset_equal_those_of_the_library(offset):
    whole = datetime.fromisoformat(f"2025-03-30T01:15:00{offset}")
    assert date_ns(f"2025-03-30 01:15:00{offset}") == int(whole.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("text", "lots"), [("0", 0), ("9007199254.740991", 2**53 - 1), ("1e-6", 1)]
)
def test_sizes_become_lots(text, lots):
    assert lots_of(text, 6) == lots


@pytest.mark.parametrize("text", ["-1", "9007199254.740992", "1e30"])
def test_size_above_the_limit_is_rejected(text):
    with pytest.raises(ValueError, match=f"size must be 0 to .* lots, got {text}"):
        lots_of(text, 6)


def test_times_fit_63_bits():
    assert time_ns(2**63 - 1, 1) == 2**63 - 1
    for count, unit_ns in ((2**63, 1), (-1, 1), (9_223_372_037, 10**9)):
        with pytest.raises(ValueError, match=f"time must be from 1970 to 2262, got {count}"):
            time_ns(count, unit_ns)


FAR = ["2262-04-11T23:47:16.854775808", "9999-12-31T23:59:59", "1600-01-01T00:00:00"]
"""Dates outside 63 bits of nanoseconds."""


@pytest.mark.parametrize(
    "text", ["", "noon", "2025-12-13", "2025-12-13T07:02:38+1", "2025-13-13T07:02:38", *FAR]
)
def test_date_rejects_other_text(text):
    with pytest.raises(ValueError, match=r"."):
        date_ns(text)
