"""Reports in a real browser: no errors, no overflow, and tooltips with the right values."""

import datetime
import os
import re
import shutil

import numpy as np
import pytest

from clob.replay.report import write_report
from clob.replay.report.formats import amount
from tests.replay.report.reading import Page

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("CLOB_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def show(request, browser, tmp_path):
    """Open the report of a run; it must not log errors or send requests."""
    opened, complaints, asked = [], [], []

    def show(name, *, scheme="light", width=1_280, **options):
        path = tmp_path / "report.html"
        write_report(request.getfixturevalue(name), path)
        # Smooth scrolling would move the page while the tests point at it.
        context = browser.new_context(
            color_scheme=scheme,
            reduced_motion="reduce",
            viewport={"width": width, "height": 900},
            **options,
        )
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield show
    for context in opened:
        context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", [1_280, 400, 320])
@pytest.mark.parametrize("name", ["own", "many", "plain"])
def test_page_does_not_overflow_the_window(show, name, width):
    page = show(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in page.locator(".field").evaluate_all(
        "all => all.map(one => [one.clientWidth, one.clientHeight])"
    ):
        assert box[0] > width // 2
        assert box[1] >= 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_parts_are_visible(show, scheme):
    page = show("own", scheme=scheme)
    for selector in ("h1", ".tiles", "#wealth", "#price-0", "#depth-0", "#orders", "#check"):
        assert page.locator(selector).first.is_visible()
    assert page.evaluate("document.querySelector('.heat').naturalWidth") > 64
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    ink, ground = (sum(map(int, one[4:-1].split(","))) for one in colours)
    assert (ink < ground) is (scheme == "light")
    assert abs(ink - ground) > 500


def test_tooltip_shows_the_values(show, own):
    page = show("own")
    field = page.locator("#wealth .field").first
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 20)
    tip = page.locator(".tip")
    sync_api.expect(tip).to_contain_text("wealth: ")
    sync_api.expect(tip).to_contain_text("2026-01-01 23:5")
    assert page.locator(".cursor:visible").count() == page.locator(".cursor").count() > 4
    page.mouse.move(5, 5)
    sync_api.expect(tip).to_have_count(0)
    assert page.locator(".cursor:visible").count() == 0


def test_touch_shows_the_tooltip(show):
    page = show("many", width=400, has_touch=True)
    for field in page.locator(".field").all()[:4]:
        field.scroll_into_view_if_needed()
        box = field.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 9)
        page.mouse.down()
        page.mouse.up()
        sync_api.expect(page.locator(".tip b")).to_contain_text("2026-01-01 23:")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        tip = page.locator(".tip").bounding_box()
        assert 0 <= tip["x"] <= tip["x"] + tip["width"] <= 400


def test_tooltip_of_the_depth_shows_the_size(show, plain):
    """The size of the last best bid is read back from the opacity of its cell."""
    page = show("plain")
    field = page.locator("#depth-0 .field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    book = plain.books[0].depth(1)
    data = Page(page.content()).data("depth-0")["heat"]
    for side, level in (("bids", book.bids[0]), ("asks", book.asks[0])):
        row = data["rows"] - 1 - (level.price - data["low"])
        height = box["y"] + box["height"] * (row + 0.5) / data["rows"]
        page.mouse.move(box["x"] + box["width"] - 1, height)
        text = page.locator(".tip span").first.inner_text()
        assert text.endswith(f"lots of {side} at {level.price}")
        size = int(text.split()[1].replace(",", ""))
        lots = level.size // plain.setting.lot_wei
        sizes = [int(one.replace(",", "")) for one in data["sizes"]]
        following = sizes[sizes.index(size) + 1] if size < sizes[-1] else lots
        assert size * 99 <= lots * 100
        assert lots * 99 <= following * 100


def test_arrow_keys_announce_the_values(show):
    page = show("own")
    page.locator("#wealth").focus()
    live = page.locator("#live")
    page.keyboard.press("End")
    sync_api.expect(live).to_contain_text("wealth: ")
    last = live.inner_text()
    page.keyboard.press("ArrowLeft")
    sync_api.expect(live).not_to_have_text(last)
    page.keyboard.press("ArrowRight")
    sync_api.expect(live).to_have_text(last)
    page.keyboard.press("Escape")
    sync_api.expect(page.locator(".tip")).to_have_count(0)


def fields(page):
    return page.locator(".field:visible")


def drag(page, field, start, end):
    """Drag over a share of a field, and leave it."""
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.move(box["x"] + box["width"] * start, box["y"] + 12)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, box["y"] + 20, steps=3)
    assert page.locator(".chosen:visible").count() > 0
    page.mouse.up()
    page.mouse.move(2, 2)
    assert page.locator(".chosen").count() == 0


def labels(page):
    return page.locator(".plot:visible .times").evaluate_all("all => all.map(one => one.innerText)")


def drawings(page):
    return page.locator(".plot svg path").evaluate_all("all => all.map(one => one.outerHTML)")


def test_drag_shows_a_shorter_range_in_all_figures(show, own):
    """The range is drawn from the values of the run, with its own scale and times."""
    page = show("own")
    before, marks = drawings(page), labels(page)
    drag(page, fields(page).first, 0.5, 0.6)
    shown = page.locator(".range").inner_text()
    assert shown.startswith("2026-01-01 12:00") or shown.startswith("2026-01-01 11:5")
    assert all(one != other for one, other in zip(labels(page), marks, strict=True))
    assert len(set(labels(page))) == 1, "all figures show the same time"
    assert drawings(page) != before
    field = page.locator("#wealth .field").first
    box = field.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    title, text, *_ = page.locator(".tip").inner_text().split("\n")
    begin = datetime.datetime.fromisoformat(f"{title}+00:00").timestamp() * 10**9
    # Ten percent of the fine columns, two in each column drawn: the tooltip is of about 11 s.
    times, wealth = own.equity["ts_ns"], own.equity["wealth"]
    first, last = np.searchsorted(times, [begin, begin + 13 * 10**9]) - 1
    assert text.split()[1] in {amount(int(one)) for one in wealth[first : last + 1]}
    page.get_by_role("button", name="Whole run").click()
    page.mouse.move(2, 2)
    assert drawings(page) == before
    assert labels(page) == marks
    assert "(all)" in page.locator(".range").inner_text()


def test_keys_and_buttons_zoom_and_move(show):
    page = show("own")
    before = drawings(page)
    page.locator("#price-0").focus()
    text = page.locator(".range")
    whole = text.inner_text()
    page.keyboard.press("+")
    sync_api.expect(text).not_to_have_text(whole)
    sync_api.expect(page.locator("#live")).to_have_text(text.inner_text())
    first = text.inner_text()
    page.keyboard.press(">")
    sync_api.expect(text).not_to_have_text(first)
    page.keyboard.press("<")
    sync_api.expect(text).to_have_text(first)
    page.keyboard.press("-")
    sync_api.expect(text).to_have_text(whole)
    page.keyboard.press("+")
    page.keyboard.press("0")
    sync_api.expect(text).to_have_text(whole)
    assert drawings(page) == before
    for name, enabled in (("Zoom out", False), ("Earlier", False), ("Zoom in", True)):
        assert page.get_by_role("button", name=name, exact=True).is_enabled() is enabled
    button = page.get_by_role("button", name="Zoom in", exact=True)
    for _ in range(20):
        if button.is_enabled():
            button.press("Enter")
    box = page.locator("#price-0 svg").first.get_attribute("viewBox")
    assert box == "0 0 32 10000", "sixteen fine columns are the shortest range"
    page.locator("#price-0").press("End")
    assert "best bid: " in page.locator("#live").inner_text()


def test_wheel_zooms_only_with_the_control_key(show):
    page = show("plain")
    field = fields(page).first
    field.hover()
    whole = page.locator(".range").inner_text()
    page.mouse.wheel(0, -100)
    sync_api.expect(page.locator(".range")).to_have_text(whole)
    field.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    sync_api.expect(page.locator(".range")).not_to_have_text(whole)


def test_cursor_shows_the_values_of_all_figures(show):
    page = show("own")
    field = fields(page).first
    field.hover()
    readouts = page.locator(".readout").all_inner_texts()
    assert [text.split(":")[0] for text in readouts if text] == [
        *("wealth", "drawdown", "collateral", "trades", "volume", "YES"),
    ]
    lines = page.locator(".cursor:visible").evaluate_all(
        "all => all.map(one => Math.round(one.getBoundingClientRect().x))"
    )
    assert len(lines) == page.locator(".field").count()
    assert max(lines) - min(lines) <= 1
    page.mouse.move(2, 2)
    assert not any(page.locator(".readout").all_inner_texts())


def test_books_are_folded_until_they_are_opened(show):
    page = show("many")
    books = page.locator("details.book")
    assert [one.evaluate("one => one.open") for one in books.all()] == [True, False, False]
    folded = page.evaluate("document.documentElement.scrollHeight")
    drag(page, fields(page).first, 0.2, 0.3)
    page.locator("#books a").nth(2).click()
    sync_api.expect(books.nth(2)).to_have_attribute("open", "")
    # A book that was folded when the range changed shows the range.
    assert len(set(labels(page))) == 1
    page.get_by_role("button", name="Open all books").click()
    assert page.evaluate("[...document.querySelectorAll('details.book')].every(one => one.open)")
    assert page.evaluate("document.documentElement.scrollHeight") > folded + 600
    page.get_by_role("button", name="Fold all books").click()
    assert not page.locator("details.book[open]").count()
    page.locator("details.book summary").first.press("Enter")
    sync_api.expect(books.first).to_have_attribute("open", "")


def test_folded_books_are_printed(show):
    page = show("many")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.book[open]").count() == 3
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.book[open]").count() == 1
    bare = show("many", java_script_enabled=False)
    bare.emulate_media(media="print")
    assert bare.locator("#price-2 svg").first.bounding_box()["height"] > 100


def test_odds_are_shown_instead_of_ticks(show):
    page = show("odds")
    assert "(odds)" in page.locator("header").inner_text()
    field = page.locator("#price-0 .field").first
    field.hover()
    assert re.search(r"best bid: 1\d\d\.5", page.locator(".tip").inner_text())
    drag(page, field, 0.4, 0.6)
    texts = page.locator("#price-0 .levels").first.locator("span").all_inner_texts()
    assert texts
    assert all(re.fullmatch(r"1\d\d\.5", text) for text in texts)
    page.locator("#depth-0 .field").hover()
    assert re.search(r"at 1\d\d\.5", page.locator(".tip").inner_text())


def test_names_from_files_are_not_executed(show):
    page = show("many")
    assert 'alert("it")' in page.locator("h1").inner_text()
    assert page.locator("script").count() == 1 + page.locator("figure").count()


def test_page_is_complete_without_scripts_and_in_print(show):
    page = show("own", java_script_enabled=False)
    assert page.locator("#wealth .line.wealth").count() == 1
    page.emulate_media(media="print", color_scheme="dark")
    assert page.pdf(format="A4").startswith(b"%PDF")
