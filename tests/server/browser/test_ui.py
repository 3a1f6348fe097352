"""Rules for every page and state: accessible, by keyboard alone, on a phone, from one server."""

import contextlib
import os
import re
import signal

import pytest

from clob_server.demo.market import MARKET
from tests.server.browser.ui_pages import (
    CHROMIUM,
    LIVE,
    WAIT_MS,
    findings,
    launched,
    needs_axe,
    sync_api,
)
from tests.server.engines import write_markets
from tests.server.live import live_server
from tests.server.meta.operators import operator_of, token_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
NAMES = ("__proto__", "constructor", "a:b:c", "...", "-", "_", "x" * 64)
"""Ids of markets that are special in URLs or in JavaScript."""
QUESTIONS = (
    "<script>document.title = 'hacked'</script>",
    "<img src=x onerror=\"document.title = 'hacked'\">",
    "javascript:document.title='hacked'",
    "\u202egnp.exe\u202c \u2066left\u2069",
    "</title></script><svg onload=\"document.title = 'hacked'\">",
    "word" * 125,
    "${document.title = 'hacked'} {{7*7}} %s 'quoted' \"quoted\"",
)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
TABBABLE = """() => {
  const names = "a[href], button, input, select, textarea, summary, [tabindex]";
  window.stopOf = (each) => each.closest(".ladder-grid") ?? each;
  const isReached = (each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility()
    && !(each.type === "radio" && !each.checked);
  const root = document.querySelector("dialog[open]") ?? document;
  const reached = [...root.querySelectorAll(names)].filter(isReached);
  window.reached = reached.map(stopOf);
  reached[0].focus();
  return window.reached.length;
}"""
"""Store the elements that the Tab key should reach, in order, and focus the first of them.

A group of radio buttons is one. The ladder is one: its cell that the key enters follows the book.
"""
FOCUSED = """() => {
  const element = document.activeElement, style = getComputedStyle(element);
  const { top, right, bottom, left } = element.getBoundingClientRect();
  const isInside = bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const text = element.ariaLabel ?? element.labels?.[0]?.textContent ?? element.textContent;
  const name = `${element.tagName} ${element.id} ${text}`.slice(0, 80);
  return [window.reached.indexOf(stopOf(element)), isInside && hasOutline, name];
}"""
"""Return the place of the focused element among those reached, whether it shows, and its name."""
MOVING = """() => {
  const root = document.documentElement;
  const hasDuration = (style) => parseFloat(style.transitionDuration) > 0;
  return [
    ...document.getAnimations().map(() => "animation"),
    ...[root, ...root.querySelectorAll("*")].filter((each) => hasDuration(getComputedStyle(each))),
    ...(getComputedStyle(root).scrollBehavior === "smooth" ? ["scroll"] : []),
  ].map(String);
}"""
"""List all that moves."""
TABS = 80
"""The most controls of a state that are reached by the Tab key."""


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """The demo with a chain, a market without orders, and markets with hostile names."""
    folder = tmp_path_factory.mktemp("ui") / "data"
    chain = {"chain": "embedded", "chain_port": 0}
    with live_server(folder, demo=True, rate_limits=False, **chain) as live:
        open_market(live, "empty", "Is nobody here yet?", 9_001)
        for number, name in enumerate(NAMES):
            open_market(live, name, QUESTIONS[number], 9_101 + 2 * number)
        yield live


def open_market(live, name, question, token):
    """Open a market without orders."""
    tokens = {"yesTokenId": str(token), "noTokenId": str(token + 1)}
    operator_of(live).admin_create_market(name, {"question": question, **tokens})


@contextlib.contextmanager
def visit(browser, live, path, ignored=(), **context):
    """Open a page; it must keep its policy, log nothing and request nothing of other servers."""
    made = browser.new_context(base_url=live.url, **context)
    made.add_init_script(WATCH)
    page = made.new_page()
    page.set_default_timeout(WAIT_MS)
    logged, requested = [], []
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    page.on("dialog", lambda dialog: dialog.accept())
    try:
        page.goto(path)
        yield page
        assert page.evaluate("window.violations") == []
    finally:
        made.close()
    assert [each for each in logged if not any(text in each for text in ignored)] == []
    assert [url for url in requested if not url.startswith((live.url, live.ws_url))] == []


def expect(page, selector):
    return sync_api.expect(page.locator(selector))


# ----- states --------------------------------------------------------------------------------


def markets(page, _):
    page.goto("/ui")
    expect(page, LIVE).to_contain_text("live")
    page.wait_for_selector(".market-chart > *")


def market(page, _):
    page.goto(f"/ui#/m/{MARKET}")
    expect(page, LIVE).to_contain_text("live")
    page.wait_for_selector(".ladder-row.is-bid")
    page.wait_for_selector("clob-tape tbody tr")
    page.wait_for_selector("clob-ticket .invitation button")


def empty_market(page, _):
    page.goto("/ui#/m/empty")
    expect(page, LIVE).to_contain_text("live")
    expect(page, "clob-ladder").to_contain_text("one side is empty")
    page.wait_for_selector("clob-ticket .invitation button")


def unknown_market(page, _):
    page.goto("/ui#/m/nowhere")
    expect(page, "main").to_contain_text("cannot be shown")


def with_wallet(page, _):
    market(page, _)
    page.click("#wallet-button")
    page.locator(".wallet-menu button").first.click()
    expect(page, "#wallet-button").to_contain_text("0x")
    page.wait_for_selector("clob-ticket .submit:visible")


def wallet_menu(page, _):
    market(page, _)
    page.click("#wallet-button")
    page.wait_for_selector(".wallet-menu button")


def ticket_errors(page, _):
    with_wallet(page, _)
    page.fill("#ticket-price", "120")
    page.fill("#ticket-size", "many")
    expect(page, "#ticket-price-error").to_contain_text("from 1 to 99")
    expect(page, "#ticket-size-error").to_contain_text("must be a number")


def question_before_signing(page, _):
    with_wallet(page, _)
    page.fill("#ticket-price", "1")
    page.click("clob-ticket .submit")
    page.wait_for_selector("dialog[open] .words")


def keys_of_the_page(page, _):
    market(page, _)
    page.click("clob-ticket [aria-label=Keys]")
    page.wait_for_selector("dialog[open]")


def signed_out(page, _):
    page.goto("/admin")
    page.wait_for_selector("#gate:visible")


def signed_in(page, live):
    page.goto("/admin")
    page.fill("#token", token_of(live))
    page.click("text=Sign in")
    page.wait_for_selector(f"#market-{MARKET}")
    expect(page, "#book-state").to_contain_text("live")


def reference(page, _):
    page.goto("/docs")
    page.wait_for_selector("#codes")


STATES = (
    *(markets, market, empty_market, unknown_market, wallet_menu, with_wallet, ticket_errors),
    *(question_before_signing, keys_of_the_page, signed_out, signed_in, reference),
)
IGNORED = ("the server responded with a status of 404", "the server responded with a status of 400")
"""Console messages of the browser for rejections that a state shows."""
states = pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
schemes = pytest.mark.parametrize("scheme", ["light", "dark"])


# ----- accessible ----------------------------------------------------------------------------


def check_accessible(page, width_px):
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width_px


@needs_axe
@states
def test_wide_light_state_has_no_findings_and_is_reached_by_the_tab_key(browser, live, state):
    context = {"color_scheme": "light", "viewport": WIDE}
    with visit(browser, live, "/web/icon.svg", IGNORED, **context) as page:
        state(page, live)
        check_accessible(page, WIDE["width"])
        for place in range(1, min(page.evaluate(TABBABLE), TABS)):
            page.keyboard.press("Tab")
            found, is_shown, name = page.evaluate(FOCUSED)
            assert (found, is_shown) == (place, True), name


@needs_axe
@states
def test_phone_dark_state_has_no_findings_and_moves_nothing_on_request(browser, live, state):
    context = {"color_scheme": "dark", "viewport": PHONE, "reduced_motion": "reduce"}
    with visit(browser, live, "/web/icon.svg", IGNORED, **context) as page:
        state(page, live)
        assert page.evaluate(MOVING) == []
        check_accessible(page, PHONE["width"])


@needs_axe
@schemes
def test_frozen_page_has_no_findings(browser, live, scheme):
    with visit(browser, live, "/ui", ("ERR_", "WebSocket"), color_scheme=scheme) as page:
        market(page, live)
        os.kill(live.process.pid, signal.SIGSTOP)
        try:
            expect(page, "clob-connection").to_contain_text("frozen")
            expect(page, "#stale-note").to_be_visible()
            found = findings(page)
        finally:
            os.kill(live.process.pid, signal.SIGCONT)
        assert found == []
        expect(page, LIVE).to_contain_text("live")


# ----- hostile texts -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_hostile_market_is_shown_as_text(browser, live, name):
    question = QUESTIONS[NAMES.index(name)]
    with visit(browser, live, "/ui", viewport=PHONE) as page:
        link = page.locator("clob-markets a", has_text=question)
        sync_api.expect(link).to_have_count(1)
        link.click()
        expect(page, "clob-market h2").to_have_text(question)
        expect(page, LIVE).to_contain_text("live")
        expect(page, "clob-ladder").to_contain_text("one side is empty")
        assert page.title() == f"clob: {question}".strip()
        for size in (PHONE, WIDE):
            page.set_viewport_size(size)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("name", ["%", "%E0%A4", "%zz", "a+b"])
def test_address_that_is_no_text_is_shown_as_an_unknown_market(browser, live, name):
    with visit(browser, live, f"/ui#/m/{name}", IGNORED) as page:
        expect(page, "main").to_contain_text("This market cannot be shown: no market")


def test_hostile_markets_are_shown_as_text_on_the_dashboard(browser, live):
    with visit(browser, live, "/admin") as page:
        signed_in(page, live)
        for name, question in zip(NAMES, QUESTIONS, strict=False):
            row = page.locator(f'[id="market-{name}"]')
            sync_api.expect(row).to_contain_text(question)
            row.locator("a").click()
            expect(page, "#book-name").to_have_text(name)
            expect(page, "#book-state").to_contain_text("live")
        assert page.title() == "clob: dashboard"


def test_markets_whose_ids_vanish_from_paths_leave_the_others_usable(browser, tmp_path):
    """A browser removes the step ``.`` or ``..`` of a path; only old logs have such markets.

    The request for their candles is then one for those of any market, which lacks its id.
    """
    write_markets(tmp_path / "data", ".", "..", "sound")
    with (
        live_server(tmp_path / "data", rate_limits=False) as live,
        visit(browser, live, "/ui", (*IGNORED, "status of 422")) as page,
    ):
        page.locator("clob-markets a").get_by_text("..", exact=True).click()
        expect(page, "main").to_contain_text("cannot be shown")
        page.click("header h1 a")
        page.locator("clob-markets a", has_text="sound").click()
        expect(page, "clob-market h2").to_have_text("sound")


# ----- a browser that knows only the address ---------------------------------------------------


def test_address_alone_leads_to_the_page(browser, live):
    with visit(browser, live, "/") as page:
        page.wait_for_url(re.compile("/ui$"))
        page.locator("clob-markets a", has_text=re.compile(r"\?$")).first.wait_for()
