"""Reduction to columns: each has the exact lowest, highest and last value."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clob.replay.report.lines import Span, add_up, coarsen, reduce_steps

spans = st.builds(
    lambda start, width, columns: Span(start, start + width, columns),
    st.integers(-50, 50) | st.integers(10**18, 2 * 10**18),
    st.integers(0, 300) | st.integers(0, 10**15),
    st.integers(1, 40),
)


@st.composite
def series(draw, values):
    """Generate a span and rows before, in and after it, in order of time."""
    span = draw(spans)
    width = span.width_ns
    offsets = st.integers(-width // 2 - 2, width + width // 2 + 2)
    rows = sorted(draw(st.lists(st.tuples(offsets, st.just(0)), max_size=60)))
    times = np.array([span.start_ns + offset for offset, _ in rows], np.int64)
    return span, times, draw(st.lists(values, min_size=len(rows), max_size=len(rows)))


def holding(span, times, values, there, column):
    """Return the values of a column, event by event: the slow way."""
    begins = span.begins()
    begin, end = begins[column], begins[column + 1]
    inside = [
        value if known else None
        for ts_ns, value, known in zip(times.tolist(), values, there, strict=True)
        if begin <= ts_ns < end
    ]
    before = [
        value if known else None
        for ts_ns, value, known in zip(times.tolist(), values, there, strict=True)
        if ts_ns < begin
    ]
    if before and not (begin < end and begin in times.tolist()):
        inside.insert(0, before[-1])
    return inside


wei = st.integers(-(10**30), 10**30)


@given(series(wei), st.data())
def test_columns_are_exact(made, data):
    span, times, values = made
    there = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    rows = np.array(values, object)
    found = reduce_steps(times, rows, span, np.array(there, np.bool_))
    assert len(found.low) == len(found.high) == len(found.last) == span.columns
    ends = span.begins()
    for column in range(span.columns):
        held = holding(span, times, values, there, column)
        known = [value for value in held if value is not None]
        assert found.low[column] == min(known, default=None)
        assert found.high[column] == max(known, default=None)
        so_far = [place for place, ts in enumerate(times.tolist()) if ts < ends[column + 1]]
        last = so_far[-1] if so_far else None
        wanted = values[last] if last is not None and there[last] else None
        assert found.last[column] == wanted


@given(series(wei), st.integers(1, 7), st.data())
def test_fine_columns_combine_to_the_wide_ones(made, detail, data):
    span, times, values = made
    there = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    rows, known = np.array(values, object), np.array(there, np.bool_)
    fine = span._replace(detail=detail).fine
    assert fine.columns == span.columns * detail
    assume(detail == 1 or fine.width_ns >= fine.columns)
    found = coarsen(reduce_steps(times, rows, fine, known), detail)
    assert found == reduce_steps(times, rows, span, known)


@given(series(st.integers(0, 2**63 - 1)))
def test_sums_of_columns_are_complete(made):
    span, times, values = made
    sums = add_up(times, np.array(values, np.int64), span)
    inside = [
        (ts_ns, value)
        for ts_ns, value in zip(times.tolist(), values, strict=True)
        if span.start_ns <= ts_ns <= span.last_ns
    ]
    assert sum(sums) == sum(value for _, value in inside)
    for ts_ns, value in inside:
        assert sums[span.column(ts_ns)] >= value


@given(spans)
def test_columns_divide_the_time(span):
    begins = span.begins()
    assert begins[0] == span.start_ns
    assert begins[-1] == span.last_ns + 1
    assert begins == sorted(begins)
    for ts_ns in {*begins[:-1], *(begin - 1 for begin in begins[1:])}:
        if span.start_ns <= ts_ns <= span.last_ns:
            column = span.column(ts_ns)
            assert begins[column] <= ts_ns < begins[column + 1]


def test_latest_representable_time():
    last = 2**63 - 1
    times, values = np.array([last - 1, last], np.int64), np.array([3, 4])
    assert reduce_steps(times, values, Span(last - 1, last, 2)).last == [3, 4]
    assert add_up(times, values, Span(last - 1, last, 5)) == [3, 0, 4, 0, 0]


def test_earlier_time_counts_as_the_one_before():
    span = Span(0, 9, 10)
    found = reduce_steps(np.array([2, 7, 4], np.int64), np.array([1, 5, 3]), span)
    assert found.last == [None, None, 1, 1, 1, 1, 1, 3, 3, 3]
    assert found.high[7] == 5


@pytest.mark.parametrize("columns", [1, 7, 960])
def test_extremes_of_columns_match_the_table(own, columns):
    setting = own.setting
    span = Span(setting.start_ns, setting.last_ns, columns)
    wealth = own.equity["wealth"]
    assert reduce_steps(own.equity["ts_ns"], wealth, span).bounds() == (min(wealth), max(wealth))
