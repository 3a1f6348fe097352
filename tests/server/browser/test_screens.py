"""The pages show a frozen server, keep the focus, fit a phone, and have no barriers (axe-core)."""

import os
import signal

import pytest

from clob.replay.report import write_report
from tests.clients.conftest import FOLDER
from tests.replay.report.runs import run, several
from tests.server.browser.conftest import IN_BROWSER, WAIT_MS
from tests.server.browser.ui_pages import findings, needs_axe, sync_api
from tests.server.live import live_server, started
from tests.server.meta.operators import token_of

BUILT_DOCS = FOLDER.parents[2] / "build" / "docs"
DOCS = ("index.html", "start.html", "reference/http.html", "concepts/orders-over-http.html")
pytestmark = IN_BROWSER
MAKER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
BIDS = "#ladder .bid:not(:empty)"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("screens") / "data", rate_limits=False) as live:
        quote(live)
        yield live


def quote(live, levels=30):
    """Rest orders at many prices of one market."""
    for price in range(1, levels + 1):
        place(live, price)


def place(live, price, side=0):
    body = {"maker": MAKER, "marketId": "rain", "tokenId": "1", "side": side, "price": price}
    reply = live.http.post("/api/orders/gasless", json={**body, "size": f"{price}{'0' * 18}"})
    assert reply.status_code == 200


def dashboard(browser, live, **context):
    """Return the dashboard of an operator in a context of its own."""
    page = browser.new_context(base_url=live.url, **context).new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/admin")
    page.fill("#token", token_of(live))
    page.click("text=Sign in")
    page.wait_for_selector("#market-rain")
    return page


def shows(page, selector, text):
    sync_api.expect(page.locator(selector)).to_contain_text(text, timeout=WAIT_MS)


def test_frozen_server_is_shown_and_the_page_recovers(browser, tmp_path):
    live = started(tmp_path / "data")
    try:
        quote(live, 3)
        page = dashboard(browser, live)
        shows(page, "#book-state", "live")
        os.kill(live.process.pid, signal.SIGSTOP)
        shows(page, "#book-state", "frozen: silent for")  # two heartbeats are missing
        assert "stale" in page.locator("#ladder").get_attribute("class")
        shows(page, "#phase", "no response for")
        assert "stale" in page.locator("#board").get_attribute("class")
        os.kill(live.process.pid, signal.SIGCONT)
        shows(page, "#book-state", "live")
        shows(page, "#phase", "ready")
        page.wait_for_selector("#board:not(.stale)")
        place(live, 4)
        sync_api.expect(page.locator(BIDS)).to_have_count(4)
        live.kill()
        shows(page, "#book-state", "reconnecting")
        live.http.close()
        live.process.stdout.close()
        port = live.url.rpartition(":")[2]
        live = started(tmp_path / "data", port=port)
        shows(page, "#book-state", "live")
        place(live, 5)
        sync_api.expect(page.locator(BIDS)).to_have_count(5)
        page.context.close()
    finally:
        live.http.close()
        live.kill()
        live.process.stdout.close()


def test_focus_and_rows_survive_an_update(browser, live):
    page = dashboard(browser, live)
    row = page.locator("#market-rain")
    halt = row.locator("button", has_text="Halt")
    halt.focus()
    row.evaluate("row => { row.dataset.kept = 'yes'; }")
    events = row.locator("td").nth(3)
    before = events.inner_text()
    place(live, 31)
    sync_api.expect(events).not_to_have_text(before)
    assert halt.evaluate("button => document.activeElement === button")
    page.context.close()


def test_ladder_shows_the_levels_around_the_spread(browser, live):
    page = dashboard(browser, live)
    book = live.http.get("/api/markets/rain/orderbook").json()["bids"]
    sync_api.expect(page.locator(BIDS)).to_have_count(len(book))
    best = max(int(each["price"]) for each in book)
    row = page.locator("#ladder .ladder-row.is-bid")
    sync_api.expect(row).to_contain_text(f"{best}¢")
    sync_api.expect(row).to_be_in_viewport()
    page.context.close()


def test_market_is_removed_by_its_button(browser, live):
    body = {"maker": MAKER, "marketId": "squat", "tokenId": "9", "side": 0, "price": 50}
    live.http.post("/api/orders/gasless", json={**body, "size": "1" + "0" * 18})
    page = dashboard(browser, live)
    page.locator("#market-squat button", has_text="Remove").click()
    sync_api.expect(page.locator("#market-squat")).to_have_count(0)
    assert live.http.get("/api/markets/squat").status_code == 404
    page.context.close()


@pytest.mark.parametrize("path", ["/admin", "/docs"])
def test_page_fits_a_phone(browser, live, path):
    page = dashboard(browser, live, viewport=PHONE)
    if path == "/docs":
        page.goto(path)
        page.wait_for_selector("#codes")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.context.close()


# ----- axe-core --------------------------------------------------------------------------------


BARRIERS = ("serious", "critical")
schemes = pytest.mark.parametrize("scheme", ["light", "dark"])


@needs_axe
@schemes
def test_report_has_no_serious_barriers(browser, tmp_path, scheme):
    report = tmp_path / "report.html"
    write_report(run(several(), collateral=300 * 10**18, outcome={0: 100}), report)
    page = browser.new_context(color_scheme=scheme).new_page()
    page.goto(report.as_uri())
    assert findings(page, BARRIERS) == []
    page.context.close()


@needs_axe
@schemes
@pytest.mark.skipif(not BUILT_DOCS.is_dir(), reason="not here: run `make docs` first")
def test_documentation_has_no_serious_barriers(browser, scheme):
    page = browser.new_context(color_scheme=scheme).new_page()
    for name in DOCS:
        page.goto((BUILT_DOCS / name).as_uri())
        assert findings(page, BARRIERS) == [], name
    page.context.close()
