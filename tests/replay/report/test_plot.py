"""Charts that are drawn in the browser: marks, paths and the cursor of ``clob/web/plot.js``."""

import random  # noqa: TID251 - seeded, and outside the engine
import re

import pytest

from clob.replay.report.lines import HEIGHT, Span, round_step, time_marks
from clob.replay.report.page import SHARED
from tests.replay.report.test_browser import browser, pytestmark, sync_api

__all__ = ["browser", "pytestmark"]
DAY_MS = 86_400_000
NOW_MS = 1_767_225_600_000
SHOW = """(value) => {
  const scale = { low: 0, high: 10 }, values = [1, null, value];
  chart.show({
    count: 3,
    panels: [{ unit: "tokens", height: 150, scale, layers: [
      { kind: "line", colour: "buy", path: stepPath(values, scale) },
    ] }],
    marks: [{ share: 0.5, label: "noon" }],
    describe: (column) => ({ title: `column ${column}`, rows: values[column] === null ? [] : [
      { colour: "buy", label: `value ${values[column]}` },
    ] }),
  });
}"""


@pytest.fixture
def page(browser):
    """A page with the functions of the module as global names, and an empty chart."""
    names = re.findall(r"^(?:export )?(?:const|function|class) (\w+)", script(), re.MULTILINE)
    page = browser.new_page()
    style = (SHARED / "plot.css").read_text()
    page.set_content(f"<style>{style}</style><figure></figure>")
    page.add_script_tag(
        type="module",
        content=f"{script()}\nObject.assign(window, {{ {', '.join(names)} }});\n"
        "window.chart = new Chart(document.querySelector('figure'), 'Sizes');",
    )
    page.wait_for_function("window.chart")
    yield page
    page.close()


def script():
    return (SHARED / "plot.js").read_text()


def test_marks_are_those_of_reports(page):
    chance = random.Random(3)
    for _ in range(100):
        width = round(10 ** chance.uniform(4, 11))
        start = NOW_MS + chance.randrange(100 * DAY_MS)
        marks = page.evaluate("all => timeMarks(...all)", [start, start + width])
        span = Span(start * 10**6, (start + width) * 10**6 - 1, 100)
        expected = time_marks(span)
        assert [mark["label"] for mark in marks] == [mark.label for mark in expected], width
        assert [int(mark["share"] * 10_000 + 1e-6) for mark in marks] == [
            mark.place for mark in expected
        ]
        width, most = chance.randrange(1, 10**6), chance.randrange(2, 9)
        step = page.evaluate("all => roundStep(...all)", [width, most, 1])
        assert step == round_step(width, most)


def test_step_line_holds_each_value_for_a_column_and_skips_gaps(page):
    chance = random.Random(4)
    for _ in range(50):
        values = [chance.choice([None, chance.randint(0, 9)]) for _ in range(20)]
        path = page.evaluate("values => stepPath(values, { low: 0, high: 10 })", values)
        drawn, x, y = {}, None, None
        for command, numbers in re.findall(r"([MHV])([-\d. ]+)", path):
            before = x
            if command == "M":
                x, y = map(int, numbers.split())
            elif command == "V":
                y = int(numbers)
            else:
                x = int(numbers)
                drawn |= dict.fromkeys(range(before // 2, x // 2), y)
        expected = {
            n: HEIGHT - 1_000 * value for n, value in enumerate(values) if value is not None
        }
        assert drawn == expected


def test_chart_of_no_values_is_drawn(page):
    assert page.evaluate("scaleOf([null])") == {"low": -1, "high": 1}
    paths = page.evaluate(
        "[stepPath, linePath, areaPath, barsPath].map(draw => draw([null, null], scaleOf([])))"
    )
    assert paths == ["", "", "", ""]


def test_cursor_and_focus_survive_new_values(page):
    page.evaluate(SHOW, 5)
    figure = page.locator("figure")
    figure.focus()
    page.keyboard.press("End")
    tip, live = page.locator(".tip"), page.locator("[aria-live]")
    sync_api.expect(tip).to_have_text("column 2value 5")
    sync_api.expect(live).to_have_text("column 2, value 5")
    page.evaluate(SHOW, 7)
    sync_api.expect(tip).to_have_text("column 2value 7")
    sync_api.expect(figure).to_be_focused()
    page.keyboard.press("ArrowLeft")
    sync_api.expect(tip).to_have_text("column 1")
    page.keyboard.press("Escape")
    sync_api.expect(tip).to_have_count(0)


def test_pointer_shows_the_column_below_it(page):
    page.evaluate(SHOW, 5)
    box = page.locator(".field").bounding_box()
    for column in range(3):
        page.mouse.move(box["x"] + box["width"] * (column + 0.5) / 3, box["y"] + 9)
        sync_api.expect(page.locator(".tip b")).to_have_text(f"column {column}")
        line = page.locator(".cursor").bounding_box()
        assert abs(line["x"] - box["x"] - box["width"] * (column + 0.5) / 3) < 2
    page.mouse.move(box["x"] - 5, box["y"] + 9)
    sync_api.expect(page.locator(".tip")).to_have_count(0)
