"""The page of a sweep: a table that sorts, curves over each other, heat maps of two parameters."""

import html
import json

import pytest

from clob.replay import Stream, sweep
from clob.replay.report.formats import change
from clob.replay.strategies import InventoryAverse
from clob.replay.sweeps.page import CURVES_MAX, spread
from clob.replay.sweeps.rows import CURVE_COLUMNS
from tests.replay.report.reading import Page, text_of, walk
from tests.replay.sweeps.traders import MINUTE_NS, Faulty, Idle

HOSTILE = '<script>alert("it")</script>'


@pytest.fixture(scope="session")
def swept(stream):
    grid = {"size": [100, 1000, 20], "aversion": [2, 0], "limit": [0, 1000]}
    return sweep(InventoryAverse, grid, stream, jobs=1, every_ns=MINUTE_NS)


@pytest.fixture
def written(swept, tmp_path):
    swept.report(tmp_path / "page.html")
    return (tmp_path / "page.html").read_text()


def rows_of(page):
    table = page.one("table", id="table")
    return [one for one in walk(table) if one["tag"] == "tr" and "data-run" in one["attributes"]]


def test_table_has_every_run_best_profit_first(written, swept):
    page = Page(written)
    runs = [int(row["attributes"]["data-run"]) for row in rows_of(page)]
    profits = [swept[run].figures["profit"] for run in runs[: len(swept.done)]]
    assert profits == sorted(profits, reverse=True)
    assert sorted(runs) == list(range(len(swept)))
    heads = [text_of(one) for one in page.find("th", aria_sort=True)]
    assert heads[:6] == ["run", "size", "aversion", "limit", "seed", "profit"]
    texts = [text_of(row) for row in rows_of(page)]
    failed = [text for text in texts if "raised: ValueError: limit must be 1 or more" in text]
    assert len(failed) == len(swept.failed) == 6
    best = swept.best()
    assert page.figure("best") == change(best.figures["profit"])
    assert best.digest[:12] in texts[0]
    assert page.one("code", id="digest")["parts"] == [swept.stream_digest]


def test_a_curve_for_each_run_that_was_done(written, swept):
    page = Page(written)
    assert {int(one["attributes"]["data-run"]) for one in page.find("g")} == {
        row.number for row in swept.done
    }
    (script,) = (one for one in walk(page.one("figure", id="curves")) if one["tag"] == "script")
    data = json.loads(text_of(script))
    assert len(data["times"]) == CURVE_COLUMNS
    lines = {run["name"]: run["texts"] for run in data["runs"]}
    assert lines["best"][-1] == change(swept.best().figures["profit"])
    worst = min(row.figures["profit"] for row in swept.done)
    assert lines["worst"][-1] == change(worst)


def test_heat_map_shows_the_mean_of_each_pair(written, swept):
    page = Page(written)
    (table,) = page.find("table", class_="map")
    cells = [[text_of(cell) for cell in row["parts"]] for row in walk(table) if row["tag"] == "tr"]
    # A parameter whose other values failed has no map.
    assert cells[0] == ["size down, aversion across", "0", "2"]
    assert [row[0] for row in cells[1:]] == ["20", "100", "1000"]
    wanted = next(
        row for row in swept.done if (row.parameters["size"], row.parameters["aversion"]) == (20, 2)
    )
    titles = [one["attributes"].get("title") for one in walk(table) if one["tag"] == "td"]
    assert f"{change(wanted.figures['profit'])}, 1 runs" in titles


def test_equal_sweeps_write_equal_pages_without_a_network(written, swept, tmp_path):
    swept.report(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == written
    assert "http://" not in written.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in written


def test_texts_are_escaped(stream, tmp_path):
    grid = {"size": [1, 2], "file": [HOSTILE]}

    def trader(size, file):
        if size == 2:
            raise ValueError(file)
        return Faulty(size)

    result = sweep(trader, grid, stream, jobs=1, every_ns=MINUTE_NS)
    result.report(tmp_path / "page.html", title=HOSTILE)
    text = (tmp_path / "page.html").read_text()
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text
    Page(text)


def test_sweeps_without_profit_or_without_a_run_have_a_page(stream, tmp_path):
    for result in (
        sweep(Idle, [{}], stream, jobs=1),
        sweep(Idle, [{}], Stream(list, lo=1, hi=99, lot_wei=1), jobs=1),
        sweep(Faulty, {"size": [2]}, stream, jobs=1, every_ns=MINUTE_NS),
    ):
        result.report(tmp_path / "page.html")
        Page((tmp_path / "page.html").read_text())


def test_a_notebook_shows_the_best_runs(swept):
    text = swept._repr_html_()
    Page(text)
    assert "InventoryAverse: best of 12 runs, 6 failed" in text
    assert swept.best().digest[:12] in text


def test_curves_are_spread_by_rank():
    assert spread(range(5), 5) == [0, 1, 2, 3, 4]
    chosen = spread(range(1000), CURVES_MAX)
    assert (chosen[0], chosen[-1], len(set(chosen))) == (0, 999, CURVES_MAX)


@pytest.mark.long
def test_headings_sort_and_rows_mark_their_curves(swept, tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    swept.report(tmp_path / "page.html")
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")
        except sync_api.Error:
            pytest.skip("chromium is not installed")
        page = browser.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.goto((tmp_path / "page.html").as_uri())
        for name, sign in (("drawdown", -1), ("drawdown", 1), ("size", -1)):
            page.get_by_role("button", name=name, exact=True).click()
            runs = page.locator("#table tbody tr").evaluate_all(
                "all => all.map(r => r.dataset.run)"
            )
            rows = [swept[int(run)] for run in runs]
            values = [{**row.figures, **row.parameters}.get(name) for row in rows]
            known = [value for value in values if value is not None]
            assert known == sorted(known, reverse=sign < 0)
            assert values[: len(known)] == known
        row = page.locator("#table tbody tr").first
        row.focus()
        page.keyboard.press("Enter")
        number = row.get_attribute("data-run")
        sync_api.expect(page.locator("g.marked")).to_have_attribute("data-run", number)
        sync_api.expect(page.locator("#live")).to_have_text(f"run {number} marked")
        field = page.locator("#curves .field")
        field.hover()
        tip = page.locator(".tip")
        sync_api.expect(tip).to_contain_text("best: ")
        name = {swept.best().number: "best"}.get(int(number), f"run {number}")
        sync_api.expect(tip.locator(".chosen").locator("..")).to_contain_text(f"{name}: ")
        row.click()
        sync_api.expect(page.locator("g.marked")).to_have_count(0)
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert problems == []
        browser.close()
