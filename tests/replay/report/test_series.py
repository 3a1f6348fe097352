"""Figures that the script of a report draws: the same as without it, and exact in every range."""

import random  # noqa: TID251 - seeded, and outside the engine
import re

import numpy as np
import pytest

from clob.replay.report import page as written
from clob.replay.report.formats import amount
from clob.replay.report.lines import Columns, Span, coarsen, reduce_steps, time_marks
from clob.replay.report.page import SHARED, WEB
from tests.replay.report.reading import Page, walk
from tests.replay.report.test_browser import browser, pytestmark

__all__ = ["browser", "pytestmark"]
DAY_NS = 86_400 * 10**9
IMPORT = re.compile(r"^import .*? from .*?;\n", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page(browser):
    """A page with the functions of both modules as global names."""
    script = (SHARED / "plot.js").read_text() + IMPORT.sub("", (WEB / "series.js").read_text())
    names = re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", script, re.MULTILINE)
    page = browser.new_page()
    page.add_script_tag(
        type="module",
        content=f"{script}\nObject.assign(window, {{ {', '.join(names)}, isReady: true }});",
    )
    page.wait_for_function("window.isReady")
    yield page
    page.close()


def test_the_whole_range_has_the_lines_of_the_page(page, own):
    shown = Page(written(own))
    data = shown.data("price-0")
    (panel, _) = data["panels"]
    lines = [one["attributes"] for one in walk(shown.one("figure", id="price-0"))]
    paths = [one["d"] for one in lines if one.get("class", "").startswith("line ")]
    assert len(paths) == len(panel["series"]) == 3
    whole = {"start": 0, "group": data["detail"], "count": data["count"]}
    for series, path in zip(panel["series"], paths, strict=True):
        drawn = page.evaluate(
            "([series, range, scale]) => rangePath(combine(series, range), scale)",
            [series, whole, {"low": panel["low"], "high": panel["high"]}],
        )
        assert drawn == path
        assert len(drawn) > 500


def test_data_are_unpacked_as_they_were_packed(page, own):
    shown = Page(written(own))
    for name in ("wealth", "price-0", "depth-0", "position-0"):
        (script,) = [one for one in walk(shown.one("figure", id=name)) if one["tag"] == "script"]
        assert page.evaluate("unpack", "".join(script["parts"])) == shown.data(name)


def test_ranges_have_the_values_of_their_columns(page):
    """Combined fine columns are the columns of a shorter span."""
    chance = random.Random(5)
    for _ in range(40):
        start, detail, columns = chance.randrange(10**6), chance.randint(1, 6), chance.randint(1, 9)
        total = detail * columns
        rows = sorted(chance.randrange(start - 9, start + 10 * total) for _ in range(30))
        times = np.array(rows, np.int64)
        values = np.array([chance.randint(-9, 9) for _ in rows], np.int64)
        exists = np.array([chance.random() < 0.8 for _ in rows], np.bool_)
        fine = reduce_steps(times, values, Span(start, start + 10 * total - 1, total), exists)
        group = chance.randint(1, total)
        count = chance.randint(1, total // group)
        at = chance.randint(0, total - group * count)
        part = Columns(*(one[at : at + group * count] for one in fine))
        found = page.evaluate(
            "([series, range]) => combine(series, range)",
            [fine._asdict() | {"adds": False}, {"start": at, "group": group, "count": count}],
        )
        assert found == coarsen(part, group)._asdict()


def test_ranges_hold_what_was_chosen_and_stay_inside(page):
    chance = random.Random(6)
    for _ in range(200):
        detail, shown = chance.choice([1, 4, 16]), chance.randint(20, 960)
        total = detail * shown
        first, last = sorted(chance.uniform(0, total) for _ in range(2))
        found = page.evaluate("all => rangeOf(...all)", [first, last, total, shown])
        end = found["start"] + found["group"] * found["count"]
        assert 0 <= found["start"] < end <= total
        assert 1 <= found["count"] <= shown
        assert end - found["start"] >= min(16, total)
        assert abs((found["start"] + end) - (first + last)) <= 2 * found["group"] + 16 or (
            found["start"] == 0 or end > total - found["group"]
        )
    whole = page.evaluate("rangeOf(0, 15360, 15360, 960)")
    assert whole == {"start": 0, "group": 16, "count": 960}


def test_times_are_those_of_the_page(page):
    chance = random.Random(7)
    for _ in range(150):
        width = round(10 ** chance.uniform(1, 18))
        start = chance.choice([0, 34_200 * 10**9, 1_767_225_600 * 10**9])
        start += chance.randrange(DAY_NS)
        found = page.evaluate(
            "([start, width]) => timeMarksNs(BigInt(start), BigInt(width))",
            [str(start), str(width)],
        )
        expected = time_marks(Span(start, start + width - 1, 100))
        assert [mark["label"] for mark in found] == [mark.label for mark in expected], width
        places = [mark["share"] * 10_000 for mark in found]
        assert places == pytest.approx([mark.place for mark in expected])


def test_amounts_are_those_of_the_page(page):
    chance = random.Random(8)
    for _ in range(100):
        wei = chance.randint(-1, 1) * round(10 ** chance.uniform(0, 30))
        assert page.evaluate("wei => amount(BigInt(wei))", str(wei)) == amount(wei)


def test_own_fills_of_a_range(page):
    own = {
        "columns": [2, 0, 5, 1],
        "kinds": [0, 1, 2, 3],
        "prices": [40, 41, 42, 43],
        "sizes": [1, 2, 3, 4],
        "more": [[2, 5], [8, 7]],
    }
    script = """([own, range]) => {
      const { fills, more } = ownIn(own, range);
      return [fills.map(({ column, size }) => [column, size]), [...more]];
    }"""
    whole = page.evaluate(script, [own, {"start": 0, "group": 2, "count": 5}])
    assert whole == [[[1, 1], [1, 2], [3, 3], [4, 4]], [[1, 5], [4, 7]]]
    part = page.evaluate(script, [own, {"start": 7, "group": 1, "count": 2}])
    assert part == [[[0, 3], [1, 4]], [[1, 7]]]
