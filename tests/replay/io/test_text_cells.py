"""Columns of integers in text: every number is exact, or its line is reported."""

import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clob.replay.errors import ReplayFormatError, ReplayWarning
from clob.replay.io.problems import Problems
from clob.replay.io.text import Cells, excerpt


def cells_of(text, columns, policy="raise"):
    return Cells(text.encode(), columns, file="f.csv", first=1, problems=Problems(policy))


@given(st.lists(st.tuples(st.integers(0, 10**18 - 1), st.integers(-(10**15), 10**15)), min_size=1))
def test_integers(rows):
    cells = cells_of("".join(f"{one},{other}\n" for one, other in rows), 2)
    assert cells.integers(0).tolist() == [one for one, _ in rows]
    assert cells.integers(1, signed=True).tolist() == [other for _, other in rows]
    assert cells.rows() is None


@given(
    st.lists(
        st.decimals(-(10**8), 10**8, allow_nan=False, places=4).map(abs)
        | st.integers(0, 10**8).map(decimal.Decimal),
        min_size=1,
    )
)
def test_decimals(values):
    cells = cells_of("".join(f"{value:f}\n" for value in values), 1)
    assert cells.decimals(0, 6).tolist() == [int(value * 10**6) for value in values]
    assert cells.rows() is None


def test_decimals_with_signs_and_trailing_zeros():
    cells = cells_of("-0.25\n1.50000\n7.\n-3\n", 1)
    assert cells.decimals(0, 2, signed=True).tolist() == [-25, 150, 700, -300]
    assert cells.rows() is None


def test_short_number_after_a_long_fraction():
    cells = cells_of("12345678901234.5\n1\n", 1)
    assert cells.decimals(0, 1).tolist() == [123456789012345, 10]
    assert cells.rows() is None


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "x",
        "1x",
        "x1",
        "1 ",
        "1e5",
        "-",
        "1-",
        "1.2.3",
        "1.005",
        "1" * 20,
        "9220000000000000000",
        "92233720368547758.08",
        "\u0661",
    ],
)
def test_cell_that_is_not_a_number_is_reported(cell):
    cells = cells_of(f"1,1\n{cell},1\n2.5,1\n", 2)
    cells.decimals(0, 2)
    with pytest.raises(ReplayFormatError, match=r"f\.csv:2: unreadable line"):
        cells.rows()


@given(st.binary(max_size=24).filter(lambda cell: not set(b",\n\r") & set(cell)))
def test_any_bytes_are_a_number_or_a_problem(cell):
    problems = Problems("warn")
    problems.counts["unreadable line"] = 1
    cells = Cells(b"5\n" + cell + b"\n", 1, file="f", first=1, problems=problems)
    value = cells.integers(0)
    expected = cell.isdigit() and len(cell) <= 19 and int(cell) < 9_220 * 10**15
    if expected:
        assert value.tolist() == [5, int(cell)]
        assert cells.rows() is None
    else:
        assert cells.rows().tolist() == [0]


def test_highest_numbers():
    cells = cells_of("9219999999999999999,92199999999999999.99\n", 2)
    assert cells.integers(0).tolist() == [9_219_999_999_999_999_999]
    assert cells.decimals(1, 2).tolist() == [9_219_999_999_999_999_999]
    assert cells.rows() is None


def test_words():
    cells = cells_of("B,\nsell,x\n0123456789abcdef,y\n0123456789abcdefg,z\n", 2, "warn")
    assert cells.words(0)[:3].tolist() == [b"B", b"sell", b"0123456789abcdef"]
    with pytest.warns(ReplayWarning):
        assert cells.rows().tolist() == [0, 1, 2]


def test_lines_with_another_number_of_cells_are_skipped():
    with pytest.warns(ReplayWarning, match="expected 2 cells, got 3"):
        cells = cells_of("1,2\r\n1,2,3\r\n\r\n3,4\r\n", 2, "warn")
    assert cells.line.tolist() == [1, 4]
    assert cells.integers(1).tolist() == [2, 4]
    assert cells.text(0, 1) == b"3"


def test_last_line_without_newline():
    assert cells_of("1,2\n3,4", 2).integers(0).tolist() == [1, 3]
    with pytest.raises(ReplayFormatError, match="truncated line: expected 2 cells, got 1: '3'"):
        cells_of("1,2\n3", 2)


def test_empty_text_has_no_rows():
    assert len(cells_of("", 2)) == 0
    assert cells_of("", 2).integers(0).tolist() == []
    assert cells_of("", 2).decimals(1, 3).tolist() == []


def test_excerpt_escapes_control_characters():
    assert excerpt(b"\x1b[31m" + b"x" * 100).startswith("'\\x1b[31m")
    assert excerpt(b"x" * 100).endswith("...")
