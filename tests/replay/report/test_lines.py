"""Lines reach exactly the lowest and highest value of each column."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.report.formats import DAY_NS, HOUR_NS, percent
from clob.replay.report.lines import (
    HEIGHT,
    Columns,
    Scale,
    Span,
    dots,
    multiples,
    round_step,
    scale_of,
    steps,
    thin,
    time_marks,
)

values = st.none() | st.lists(st.integers(-(10**24), 10**24), min_size=1, max_size=3)


def columns_of(made):
    """Return columns of these values, whose final value is the last one."""
    return Columns(
        [None if one is None else min(one) for one in made],
        [None if one is None else max(one) for one in made],
        [None if one is None else one[-1] for one in made],
    )


def reached(path, count):
    """Return the lowest and highest pen position of each column of a path."""
    found = [[] for _ in range(count)]
    x = y = None
    for command, first, second in re.findall(r"([MHV])(-?\d+)(?: (-?\d+))?", path):
        if command == "M":
            x, y = int(first), int(second)
        elif command == "H":
            start, x = x, int(first)
            for column in range(start // 2, (x - 1) // 2 + 1):
                found[column].append(y)
        else:
            y = int(first)
        if x % 2:
            found[x // 2].append(y)
    return found


@given(st.lists(values, min_size=1, max_size=30))
def test_line_reaches_the_extremes_of_every_column(made):
    columns = columns_of(made)
    low, high = columns.bounds() or (0, 0)
    scale = scale_of(low, high)
    found = reached(steps(columns, scale), len(made))
    before = None
    for column, one in enumerate(made):
        if one is None:
            assert not found[column]
        else:
            wanted = {scale.y(min(one)), scale.y(max(one)), scale.y(one[-1])}
            assert wanted <= set(found[column]) | ({before} if len(wanted) == 1 else set())
            assert all(
                min(wanted | {before or min(wanted)}) <= y <= max(wanted | {before or max(wanted)})
                for y in found[column]
            )
        before = None if one is None else scale.y(one[-1])


@given(
    st.lists(st.tuples(st.integers(0, 959), st.integers(-HEIGHT, 2 * HEIGHT)), max_size=200),
    st.integers(1, 20),
)
def test_dots_are_thinned_evenly(places, most):
    found = thin(places, most)
    assert len(found) == len(set(found)) <= most
    assert set(found) <= set(places)
    if len(set(places)) <= most:
        assert set(found) == set(places)
    assert bool(found) is bool(places)


def test_equal_dots_are_drawn_once():
    assert dots([(1, 5), (0, 7), (1, 5)], "buy") == (
        '<path class="dots buy" d="M1 7h0M3 5h0"></path>'
    )


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30), st.integers(1, 9))
def test_round_steps_divide_a_width(low, width, most):
    step = round_step(width, most)
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert len(multiples(low, low + width, step)) <= most + 1
    assert all(value % step == 0 for value in multiples(low, low + width, step))


@given(st.integers(-(10**30), 10**30), st.integers(0, 10**30))
def test_scale_contains_its_values(low, width):
    scale = scale_of(low, low + width)
    assert 0 <= scale.y(low + width) <= scale.y(low) <= HEIGHT


def test_values_outside_the_scale_are_clipped():
    assert Scale(0, 10).y(10**40) == -HEIGHT
    assert Scale(0, 10).y(-(10**40)) == 2 * HEIGHT


@given(st.integers(0, 2**62), st.integers(0, 2**61))
def test_marks_of_time_are_in_order_and_few(start, width):
    marks = time_marks(Span(start, start + width, 100))
    assert len(marks) <= 9
    assert all(0 <= mark.place < 10_000 for mark in marks)
    assert [mark.place for mark in marks] == sorted(mark.place for mark in marks)


@pytest.mark.parametrize(
    ("start", "width", "labels"),
    [
        (9 * HOUR_NS, 2 * HOUR_NS, ["09:00", "09:30", "10:00", "10:30", "11:00"]),
        (0, 40, ["00:00:00.00000000", "00:00:00.00000001"]),
        (1_767_225_600 * 10**9, 3 * DAY_NS, ["01-01", "12:00", "01-02"]),
        (1_767_225_600 * 10**9, 40 * DAY_NS, ["01-07", "01-17"]),
        (0, 4 * 10**9, ["00:00:00", "00:00:01"]),
        (0, 10**6, ["00:00:00.0000", "00:00:00.0002"]),
        (1_767_225_600 * 10**9, 900 * DAY_NS, ["2026-05-27", "2026-12-13"]),
    ],
)
def test_marks_of_time_are_round(start, width, labels):
    told = [mark.label for mark in time_marks(Span(start, start + width, 100))]
    assert told[: len(labels)] == labels


@given(st.integers(0, 10**30), st.integers(1, 10**30))
def test_only_the_whole_is_100_percent(part, whole):
    part = min(part, whole)
    assert (percent(part, whole) == "100 %") is (part == whole)
