"""The gate on instructions: counts in files of callgrind, and changes reported as growth."""

import pytest

from benchmarks.instructions import FINISHED, GREW, counts_in, report

KNOWN = {"run mixed": 173.0, "http: book": 100_000.0}


@pytest.mark.parametrize(
    ("title", "change", "code"),
    [
        ("run mixed", 1.019, FINISHED),
        ("run mixed", 1.021, GREW),
        ("run mixed", 0.5, FINISHED),
        ("http: book", 1.039, FINISHED),
        ("http: book", 1.041, GREW),
    ],
)
def test_a_count_fails_above_the_growth_that_its_kind_allows(title, change, code):
    text, exit_code = report(KNOWN, KNOWN | {title: KNOWN[title] * change})
    assert exit_code == code
    assert ("grew" in text) == (code == GREW)
    assert ("less" in text) == (change < 0.9)


@pytest.mark.parametrize("counts", [{}, {"run mixed": 173.0}, KNOWN | {"apply": 5_000.0}])
def test_a_stream_that_only_the_table_or_only_the_run_has_fails(counts):
    assert report(KNOWN, counts)[1] == GREW


def test_the_least_of_several_counts_per_item_is_read(tmp_path):
    for number, total in enumerate([4_000, 3_000, 5_000]):
        text = f"desc: Trigger: Client Request: http: book=20\nevents: Ir\ntotals: {total}\n"
        (tmp_path / f"out.{number}").write_text(text)
    (tmp_path / "out").write_text("desc: Trigger: Program termination\ntotals: 9\n")
    (tmp_path / "out.9").write_text("desc: Trigger: Program termination\ntotals: 9\n")
    assert counts_in(tmp_path) == {"http: book": 150.0}
