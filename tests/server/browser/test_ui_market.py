"""The trading page shows books, places in the queue and the state of the connection truthfully."""

import os
import random  # noqa: TID251 - seeded, and outside the engine
import signal
import sys
import time

import pytest

from tests.server.api.makers import ONE, ApiClient, Maker, MarketIds, delete
from tests.server.browser.ui_pages import CHROMIUM, LIVE, Relay, launched, opened, sync_api
from tests.server.live import live_server
from tests.server.meta.operators import operator_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
CHECKS = int(os.environ.get("CLOB_UI_CHECKS", "120"))
"""Comparisons of the ladder with the server's book, for each kind of market."""
CUT = ("WebSocket connection", "net::ERR_")
"""Console messages of the browser about a connection that was cut."""
HOSTILE = (
    '<script>alert(1)</script><img src=x onerror="alert(2)">',
    "سؤال من اليمين \u202eإلى اليسار",
    "🎲" * 40,
    "long" * 120,
    "&amp; \"quoted\" 'text'",
)
"""Questions of markets that a page must show as text."""

COMPARE = """async ([seq, tokenId, bids, asks]) => {
  const { tokens } = await import("/web/common.js");
  const { app } = await import("/web/app.js");
  const ladder = document.querySelector("clob-ladder");
  const expected = [bids, asks].map((levels) => new Map(levels.map((each) => [each.price, each])));
  const counts = [bids, asks].map((levels) =>
    levels.map((each) => [each.price, each.size, each.numOrders].join(" ")).join());
  const differences = () => {
    if (ladder.seq !== seq || ladder.tokenId !== tokenId) return [{ shown: ladder.seq, seq }];
    const found = [];
    for (const row of ladder.querySelectorAll(".ladder-row")) {
      const price = Number(row.dataset.price);
      for (const side of [0, 1]) {
        const level = expected[side].get(price), shown = row.children[2 * side].textContent;
        const wanted = level ? tokens(level.size) : "";
        if (shown !== wanted) found.push({ price, side, shown, wanted });
      }
    }
    const book = ladder.market.book(tokenId);
    for (const side of [0, 1]) {
      const kept = book.levels(side).map((each) => each.join(" ")).join();
      if (kept !== counts[side]) found.push({ side, kept, wanted: counts[side] });
    }
    return found;
  };
  const end = performance.now() + 30000;
  while (differences().length && performance.now() < end) {
    app.feed.hurry();  // without the wait after many cuts
    await new Promise(requestAnimationFrame);
  }
  return differences();
}"""
"""Wait until the ladder equals a book of the server, at its number; return the differences."""
PLACES = """async ([ids]) => {
  const view = document.querySelector("clob-market");
  const end = performance.now() + 30000;
  let own = [];
  while (performance.now() < end) {
    own = view.book.own(view.tokenId);
    if (own.map((each) => each.id).sort().join() === ids.join()) break;
    await new Promise(requestAnimationFrame);
  }
  return own.map((each) => ({ ...each, remaining: `${each.remaining}`, ahead: `${each.ahead}` }));
}"""
"""Wait until the page knows exactly these own orders; return their places in the queue."""


TAPE = """async ([tokenId, ids]) => {
  const { tape } = document.querySelector("clob-market");
  const shown = () => [...tape.trades.values()].filter((each) => each.tokenId === tokenId)
    .sort((a, b) => b.seq - a.seq).slice(0, 60).map((each) => each.id);
  const isEqual = () => shown().join() === ids.join()
    && tape.querySelectorAll("tbody tr").length === ids.length;
  const end = performance.now() + 30000;
  while (!isEqual() && performance.now() < end) await new Promise(requestAnimationFrame);
  return isEqual() ? ids : shown();
}"""
"""Wait until the tape shows these trades, newest first; return the trades that it has."""

TOPS = """
window.tops = new Set();
const look = () => {
  const own = document.querySelector("clob-own");
  if (own) tops.add(Math.round(own.getBoundingClientRect().top + scrollY));
  requestAnimationFrame(look);
};
look();
"""
"""Keep the places that the trader's orders have had in the page."""


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ui") / "data"
    with live_server(folder, rate_limits=False, ws_heartbeat_s=2) as live:
        yield live


class Flow:
    """Random orders and cancels of four makers in a market."""

    def __init__(self, live, market, is_complementary, seed=1):
        self.live, self.market, self.is_complementary = live, market, is_complementary
        self.random = random.Random(seed)
        self.makers = [Maker() for _ in range(4)]
        self.placed = []

    @property
    def api(self):
        return ApiClient(self.live.http)

    def open(self):
        terms = {"yesTokenId": str(self.market.yes), "noTokenId": str(self.market.no)}
        terms |= {"complementary": self.is_complementary}
        operator_of(self.live).admin_create_market(self.market.id, terms)
        for _ in range(20):
            self.place()
        return self

    def step(self):
        """Send one command."""
        if self.placed and self.random.random() < 0.3:
            maker, order_id = self.random.choice(self.placed)
            delete(self.live.http, f"/api/orders/{order_id}", {"maker": maker.address})
        else:
            self.place()

    def place(self):
        maker = self.random.choice(self.makers)
        token = self.random.choice((self.market.yes, self.market.no))
        price = self.random.randint(44, 56)
        size = self.random.randint(1, 40) * ONE // 4
        side = self.random.randint(0, 1)
        body = maker.gasless(self.market, side, price, size, token)
        self.placed.append((maker, self.api.gasless(body)["orderId"]))

    def book(self, token):
        return self.api.book(self.market, token)

    def resting(self):
        """Return all resting orders by id, in the order in which they were placed."""
        found = {
            each["id"]: each
            for maker in self.makers
            for each in self.api.orders(maker=maker.address, marketId=self.market.id, limit=500)
            if each["status"] in ("open", "partial")
        }
        return {order_id: found[order_id] for _, order_id in self.placed if order_id in found}

    def place_of(self, order, token):
        """Return side and price of an order in the book of a token; None if it is not there."""
        if order["tokenId"] == str(token):
            return order["side"], order["price"]
        return (1 - order["side"], 100 - order["price"]) if self.is_complementary else None

    def queue(self, maker, token):
        """Return the size ahead of each order of a maker in the book of a token."""
        ahead, sums = {}, {}
        for order_id, order in self.resting().items():
            place = self.place_of(order, token)
            if place is not None:
                if order["maker"] == maker.address:
                    ahead[order_id] = sums.get(place, 0)
                sums[place] = sums.get(place, 0) + int(order["remaining"])
        return ahead


def difference(page, flow, token):
    """Return the differences of the ladder from the book of the server at the same number."""
    book = flow.book(token)
    return page.evaluate(COMPARE, [book["seq"], str(token), book["bids"], book["asks"]])


def check_places(page, flow, token):
    """Compare the places of own orders with those of the server."""
    expected = flow.queue(flow.makers[0], token)
    found = page.evaluate(PLACES, [sorted(expected)])
    assert sorted(each["id"] for each in found) == sorted(expected)
    for each in found:
        shown, actual = int(each["ahead"]), expected[each["id"]]
        assert shown == actual if each["isExact"] else shown >= actual, (each, actual)
    return sum(each["isExact"] for each in found), len(found)


def check_tape(page, flow, token):
    """Compare the newest trades with those of the server."""
    query = {"tokenId": str(token), "limit": 60}
    trades = flow.live.http.get(f"/api/markets/{flow.market.id}/trades", params=query).json()
    ids = [each["id"] for each in trades]
    assert page.evaluate(TAPE, [str(token), ids]) == ids


def report(figures):
    """Print measured figures; no test depends on them."""
    sys.stdout.write(f"{figures}\n")


def wait_for_state(page, *states):
    """Wait until the connection has one of the states."""
    script = "(states) => states.includes(document.querySelector('clob-connection').state)"
    page.wait_for_function(script, arg=list(states))


def record_states(page):
    """Keep the texts of the connection from now on, also those shown for a moment."""
    script = "({ app }) => { window.texts = []; app.on('feed', ({ text }) => texts.push(text)); }"
    page.evaluate(f"import('/web/app.js').then({script})")


def wait_for_text(page, text):
    """Wait until the connection had a text since the record began."""
    page.wait_for_function("(text) => texts.includes(text)", arg=text)


def trade_as(page, maker):
    """Make a maker the trader of the page."""
    script = "async (address) => (await import('/web/app.js')).app.set('wallet', { address })"
    page.evaluate(script, maker.address)


# ----- books ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_complementary", [False, True], ids=["plain", "complementary"])
def test_ladder_equals_the_book_of_the_server_under_random_flow_and_cuts(
    browser, tmp_path, is_complementary
):
    settings = {"rate_limits": False, "ws_heartbeat_s": 1, "ws_resume_events": 60}
    with live_server(tmp_path / "data", **settings) as live:
        flow = Flow(live, MarketIds(), is_complementary).open()
        route = f"#/m/{flow.market.id}"
        with (
            Relay(int(live.url.rpartition(":")[2])) as relay,
            opened(browser, relay.url, route, CUT, reduced_motion="reduce") as page,
        ):
            page.wait_for_selector(LIVE)
            trade_as(page, flow.makers[0])
            followed(page, flow, relay)


def followed(page, flow, relay):
    """Compare the page with the server after each of many steps; some cut the connection."""
    cut, token, exact, places = 0, flow.market.yes, 0, 0
    for number in range(CHECKS):
        chance = flow.random.random()
        if chance < 0.1:
            relay.cut_after(flow.random.randint(1, 3_000))
            cut += 1
        elif chance < 0.15:
            relay.cut()
            cut += 1
        for _ in range(flow.random.choice((1, 1, 2, 3, 5, 80 if chance < 0.02 else 8))):
            flow.step()
        if flow.random.random() < 0.2:
            token = flow.random.choice((flow.market.yes, flow.market.no))
            page.click(f".switch >> text={'YES' if token == flow.market.yes else 'NO'}")
        assert difference(page, flow, token) == [], number
        if number % 5 == 0:
            check_tape(page, flow, token)
            known, shown = check_places(page, flow, token)
            exact, places = exact + known, places + shown
    report(f"{CHECKS} comparisons, {cut} cuts, {exact} of {places} places in the queue exact")


def test_book_that_differs_from_a_checksum_is_loaded_again(browser, live):
    flow = Flow(live, MarketIds(), is_complementary=False).open()
    with opened(browser, live.url, f"#/m/{flow.market.id}") as page:
        page.wait_for_selector(LIVE)
        assert difference(page, flow, flow.market.yes) == []
        page.evaluate(
            "document.querySelector('clob-market').book.books.values().next().value"
            ".sides[0].add(1, 'none', 7n)"
        )
        kept = "document.querySelector('clob-market').book.book(String(token)).sides[0].sizes[1]"
        page.wait_for_function(f"(token) => {kept} === 0n", arg=str(flow.market.yes))
        assert difference(page, flow, flow.market.yes) == []


def test_trade_between_the_answers_with_trades_of_both_tokens_stays(browser, live):
    flow = Flow(live, MarketIds(), is_complementary=False).open()
    yes, no = flow.market.yes, flow.market.no
    held = []
    with opened(browser, live.url, f"#/m/{flow.market.id}") as page:
        page.wait_for_selector(LIVE)
        trade_at_once(flow, yes)
        trade_at_once(flow, no)
        check_tape(page, flow, yes)
        page.route(f"**/trades?*tokenId={no}", lambda route: held.append(route))
        with page.expect_response(f"**/trades?*tokenId={yes}"):
            page.evaluate(LOAD)
        trade_at_once(flow, yes)
        trade_at_once(flow, no)
        check_tape(page, flow, yes)
        page.wait_for_function("() => true")  # requests that were routed meanwhile are in the list
        [route] = held
        route.continue_()
        page.wait_for_function(LOADED)
        check_tape(page, flow, yes)


LOAD = """() => {
  const view = document.querySelector("clob-market");
  for (const each of view.tape.trades.values()) each.isOld = true;
  view.loadTrades(0);
}"""
"""Load the trades again, and mark those that the tape has."""
LOADED = """() => [...document.querySelector("clob-market").tape.trades.values()]
  .every((each) => !each.isOld)"""
"""Whether the trades with a mark were replaced."""


def trade_at_once(flow, token):
    """Rest an order of a maker and fill it by another one."""
    seller, buyer = Maker(), Maker()
    for maker, side in ((seller, 1), (buyer, 0)):
        flow.api.gasless(maker.gasless(flow.market, side, 50, ONE, token))


# ----- connection ----------------------------------------------------------------------------


def test_frozen_server_greys_the_page_until_it_answers_again(browser, tmp_path):
    with live_server(tmp_path / "data", rate_limits=False) as live:
        flow = Flow(live, MarketIds(), is_complementary=False).open()
        with opened(browser, live.url, f"#/m/{flow.market.id}", CUT) as page:
            page.wait_for_selector(LIVE)
            os.kill(live.process.pid, signal.SIGSTOP)
            begin = time.monotonic()
            wait_for_state(page, "frozen")
            report(f"frozen after {time.monotonic() - begin:.1f} s; two heartbeats are 5 s")
            sync_api.expect(page.locator("clob-connection .badge")).to_contain_text("frozen")
            sync_api.expect(page.locator("#stale-note")).to_contain_text("frozen: silent")
            card = "document.querySelector('clob-ladder').parentNode"
            assert page.evaluate(f"getComputedStyle({card}).filter") == "grayscale(1)"
            os.kill(live.process.pid, signal.SIGCONT)
            wait_for_state(page, "live", "quiet", "resumed")
            sync_api.expect(page.locator("#stale-note")).to_be_hidden()
            flow.step()
            assert difference(page, flow, flow.market.yes) == []


def test_cut_late_offline_and_resumed_connections_are_named(browser, live):
    flow = Flow(live, MarketIds(), is_complementary=False).open()
    with (
        Relay(int(live.url.rpartition(":")[2])) as relay,
        opened(browser, relay.url, f"#/m/{flow.market.id}", CUT) as page,
    ):
        page.wait_for_selector(".ladder-row.is-bid")  # not "live": there is no market at first
        flow.place()  # the position to resume from is that of an event
        assert difference(page, flow, flow.market.yes) == []
        record_states(page)
        begin = time.monotonic()
        relay.cut()
        wait_for_text(page, "resumed without a gap")
        report(f"resumed {time.monotonic() - begin:.2f} s after a cut")
        wait_for_state(page, "live", "quiet")
        relay.delay_s = 3.5
        wait_for_state(page, "late")
        sync_api.expect(page.locator("#stale-note")).to_contain_text("late")
        relay.delay_s = 0
        wait_for_state(page, "live", "quiet")
        page.context.set_offline(True)
        relay.cut()
        wait_for_state(page, "offline")
        page.context.set_offline(False)
        wait_for_state(page, "live", "quiet", "resumed")
        flow.step()
        assert difference(page, flow, flow.market.yes) == []


def test_connection_without_events_is_quiet_and_current(browser, live):
    flow = Flow(live, MarketIds(), is_complementary=False).open()
    with opened(browser, live.url, f"#/m/{flow.market.id}") as page:
        wait_for_state(page, "quiet")
        sync_api.expect(page.locator("clob-connection .badge")).to_have_text("live, no events")
        sync_api.expect(page.locator("#stale-note")).to_be_hidden()


def test_restarted_server_is_followed_again_with_a_new_state(browser, tmp_path):
    folder = tmp_path / "data"
    with live_server(folder, rate_limits=False) as live:
        flow = Flow(live, MarketIds(), is_complementary=True).open()
        with (
            Relay(int(live.url.rpartition(":")[2])) as relay,
            opened(browser, relay.url, f"#/m/{flow.market.id}", CUT) as page,
        ):
            page.wait_for_selector(LIVE)
            trade_as(page, flow.makers[0])
            record_states(page)
            live.kill()
            wait_for_state(page, "reconnecting")
            with live_server(folder, rate_limits=False) as again:
                flow.live = again
                relay.port = int(again.url.rpartition(":")[2])
                wait_for_text(page, "resumed, state loaded again")
                for _ in range(5):
                    flow.step()
                    assert difference(page, flow, flow.market.yes) == []
                check_places(page, flow, flow.market.yes)


# ----- page ----------------------------------------------------------------------------------


def test_own_orders_keep_their_place_while_charts_and_trades_arrive(browser, live):
    """A click on a button that moves between press and release is lost."""
    flow = Flow(live, MarketIds(), is_complementary=False)
    with opened(browser, live.url) as page:
        page.add_init_script(TOPS)
        flow.open()
        page.goto(f"/ui#/m/{flow.market.id}")
        page.reload()
        page.wait_for_selector("clob-depth-chart .panel")
        for _ in range(20):
            flow.step()
        assert difference(page, flow, flow.market.yes) == []
        page.wait_for_selector("clob-tape tbody tr:nth-child(5)")
        assert len(page.evaluate("[...tops]")) == 1


def test_hostile_questions_are_shown_as_text(browser, live):
    markets = []
    for question in HOSTILE:
        market = MarketIds("hostile:")
        terms = {"yesTokenId": str(market.yes), "noTokenId": str(market.no)}
        operator_of(live).admin_create_market(market.id, {"question": question, **terms})
        markets.append((market.id, question))
    with opened(browser, live.url, "#/", viewport={"width": 390, "height": 844}) as page:
        for market_id, question in markets:
            link = page.locator(f'[data-market="{market_id}"] a')
            assert link.text_content() == question
            link.click()
            sync_api.expect(page.locator(".question")).to_have_text(question)
            assert page.title() == f"clob: {question}" or question.startswith("long")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            page.go_back()
        assert page.locator("main script, main img").count() == 0


def test_markets_are_found_by_their_question_and_follow_their_ticker(browser, live):
    flow = Flow(live, MarketIds("found"), is_complementary=False).open()
    with opened(browser, live.url, "#/") as page:
        page.fill("[type=search]", flow.market.id)
        row = page.locator(f'[data-market="{flow.market.id}"]')
        sync_api.expect(page.locator(".market-list [data-market]")).to_have_count(1)
        taker = Maker()
        for side in (0, 1):
            price = 99 if side == 0 else 1
            flow.api.gasless(taker.gasless(flow.market, side, price, ONE * 10_000))
        sync_api.expect(row.locator("[data-name=Bid]")).to_have_text("\u2013")
        ticker = live.http.get(f"/api/markets/{flow.market.id}/ticker").json()["yes"]
        sync_api.expect(row.locator("[data-name=Last]")).to_have_text(f"{ticker['lastPrice']}¢")


def test_ladder_is_used_by_keyboard_and_keeps_the_focus(browser, live):
    flow = Flow(live, MarketIds(), is_complementary=False).open()
    listen = "addEventListener('clob-price', (event) => (window.chosen = event.detail))"
    enter = "document.querySelector('clob-ladder [tabindex=\"0\"]').focus()"
    with opened(browser, live.url, f"#/m/{flow.market.id}") as page:
        page.wait_for_selector(LIVE)
        assert difference(page, flow, flow.market.yes) == []
        page.evaluate(listen)
        page.evaluate(enter)
        page.keyboard.press("Home")
        best = flow.book(flow.market.yes)
        expected = f"Sell at {best['asks'][0]['price']}¢"
        assert page.evaluate("document.activeElement.ariaLabel").startswith(expected)
        for key in ("ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowDown"):
            page.keyboard.press(key)
        price = best["asks"][0]["price"] - 2
        for _ in range(30):
            flow.step()
        assert difference(page, flow, flow.market.yes) == []
        label = page.evaluate("document.activeElement.ariaLabel")
        assert label.startswith(f"Buy at {price}¢: ")
        page.keyboard.press("Enter")
        token = str(flow.market.yes)
        assert page.evaluate("chosen") == {"side": 0, "price": price, "tokenId": token}


def test_theme_is_kept_over_a_reload(browser, live):
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, live.url, "#/", color_scheme="light") as page:
        light = page.evaluate(ground)
        page.click("#theme")
        dark = page.evaluate(ground)
        assert dark != light
        page.reload()
        assert page.evaluate(ground) == dark
