"""The runs of a grid: all combinations in order, each once, with values that JSON can hold."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.sweeps.grid import expand
from clob.replay.sweeps.rows import SweepRow, row_of_json

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
values = scalars.filter(lambda value: value not in (float("inf"), -float("inf")))
columns = st.lists(values, min_size=1, max_size=3, unique_by=json.dumps)
grids = st.dictionaries(st.text(min_size=1, max_size=3), columns, max_size=4)
seeds = st.lists(st.integers(0, 2**70) | st.text(min_size=1), min_size=1, max_size=3, unique=True)


@given(grids, seeds)
def test_a_grid_has_every_combination_once_in_order(grid, seeds):
    points = expand(grid, seeds)
    wanted = [
        (dict(zip(grid, chosen[:-1], strict=True)), chosen[-1])
        for chosen in itertools.product(*grid.values(), seeds)
    ]
    assert [point.number for point in points] == list(range(len(wanted)))
    texts = [(json.dumps(point.parameters), point.seed) for point in points]
    assert texts == [(json.dumps(parameters), seed) for parameters, seed in wanted]
    assert len({point.key for point in points}) == len(points)


@given(grids, seeds)
def test_a_list_of_combinations_equals_their_grid(grid, seeds):
    points = expand(grid, seeds)
    rows = [point.parameters for point in points[:: len(seeds)]]
    assert expand(rows, seeds) == points
    backwards = [dict(reversed(row.items())) for row in rows]
    assert [point.key for point in expand(backwards, seeds)] == [point.key for point in points]


@given(grids, seeds, st.integers(-(2**90), 2**90), st.text())
def test_rows_survive_json(grid, seeds, amount, error):
    for point in expand(grid, seeds):
        row = SweepRow(
            *point, "done", "ab", error, error, {"profit": amount}, (1, 2), (amount, 0), 7
        )
        read = row_of_json(row.to_json())
        assert (read.point._replace(number=point.number)).key == point.key
        assert read.to_json() == row.to_json()
        assert "\n" not in row.to_json()


def test_numbers_of_numpy_become_plain():
    points = expand({"edge": np.linspace(0, 1, 3), "size": np.arange(2)}, [0])
    assert [point.parameters for point in points][:3] == [
        {"edge": 0.0, "size": 0},
        {"edge": 0.0, "size": 1},
        {"edge": 0.5, "size": 0},
    ]
    assert {type(value) for point in points for value in point.parameters.values()} == {float, int}


def test_numbers_of_other_types_are_other_values():
    points = expand({"a": [1, 1.0, True, "1"]}, [0])
    assert len({point.key for point in points}) == 4


@pytest.mark.parametrize(
    ("grid", "seeds", "text"),
    [
        ([], [0], "a grid must have one combination or more; got none"),
        ({"a": []}, [0], "a grid must have one combination or more; got none"),
        ({"a": 5}, [0], "a must have a list of values; got 5"),
        ({"a": [1, 2, 1]}, [0], "a must have different values; got 1, 2, 1"),
        ({"a": [object]}, [0], "a must be None, a boolean, a finite number or a text; got <class"),
        ({"a": [float("nan")]}, [0], "a must be None, a boolean, a finite number or a text"),
        ([{"a": 1}, {"b": 1}], [0], r"expected \['a'\], got \['b'\]"),
        ([{"a": 1}, {"a": 1}], [0], "a run must occur once; got {'a': 1} twice"),
        ({"a": [1]}, [], "seeds must have one seed or more; got none"),
        ({"a": [1]}, [-1], "a seed must be an integer of 0 or more, or a name; got -1"),
        ({"a": [1]}, [True], "a seed must be an integer of 0 or more, or a name; got True"),
        ({"a": [1]}, [""], "a seed must be an integer of 0 or more, or a name; got ''"),
        ({"a": [1]}, [1, 1], r"seeds must be different; got \[1, 1\]"),
    ],
)
def test_invalid_grids_are_rejected(grid, seeds, text):
    with pytest.raises(ValueError, match=text):
        expand(grid, seeds)
