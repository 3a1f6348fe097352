"""Reports in a real browser: no errors, no overflow, and tooltips with the right values."""

import os
import shutil

import pytest

from clob.replay.report import write_report

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
    data = page.evaluate("JSON.parse(document.querySelector('#depth-0 script').textContent).heat")
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


def test_names_from_files_are_not_executed(show):
    page = show("many")
    assert 'alert("it")' in page.locator("h1").inner_text()
    assert page.locator("script").count() == 1 + page.locator("figure").count()


def test_page_is_complete_without_scripts_and_in_print(show):
    page = show("own", java_script_enabled=False)
    assert page.locator("#wealth .line.wealth").count() == 1
    page.emulate_media(media="print", color_scheme="dark")
    assert page.pdf(format="A4").startswith(b"%PDF")
