"""The API reference and the dashboard in a browser."""

import json
import subprocess

import pytest

from clob_server.api.problems import PROBLEMS
from clob_server.demo.market import MARKET
from tests.chain.settling_server import SettlingServer
from tests.server.browser.conftest import IN_BROWSER, WAIT_MS
from tests.server.live import live_server
from tests.server.meta.operators import authority_of, token_of

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = IN_BROWSER
MAKER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
EXPECTED = "the server responded with a status of 401"
"""Console message of the browser for a rejected token."""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "data"
    chain = {"chain": "embedded", "chain_port": 0}
    with live_server(folder, demo=True, rate_limits=False, **chain) as live:
        yield live


@pytest.fixture(scope="module")
def server(live):
    """The same server with a market whose trades settle, and with traders."""
    return SettlingServer(live).set_up()


@pytest.fixture
def page(browser, live):
    """A page that must log no errors and send requests only to the server."""
    context = browser.new_context(base_url=live.url)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    errors, requests = [], []
    page.on("console", lambda message: EXPECTED in message.text or errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.on("websocket", lambda socket: requests.append(socket.url))
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    context.close()
    assert errors == []
    assert [url for url in requests if not url.startswith((live.url, live.ws_url))] == []


@pytest.fixture
def board(page, live):
    """The dashboard of an operator."""
    page.goto("/admin")
    page.fill("#token", token_of(live))
    page.click("text=Sign in")
    page.wait_for_selector(f"#market-{MARKET}")
    return page


def create_market(board, name, tokens):
    board.click("text=Open a market")
    board.fill("[name=marketId]", name)
    board.fill("[name=yesTokenId]", tokens[0])
    board.fill("[name=noTokenId]", tokens[1])
    board.fill("[name=question]", "Is <b>this</b> a question?")
    board.click("#market-form button")
    board.wait_for_selector(f"#market-{name}")


def place(live, market, token, price):
    body = {"maker": MAKER, "marketId": market, "tokenId": token, "side": 0, "price": price}
    return live.http.post("/api/orders/gasless", json={**body, "size": "3000000000000000000"})


def bids(board):
    """Return the size and the price of each bid in the ladder, best first."""
    return board.locator("#ladder .ladder-row:has(.bid:not(:empty))").locator(".price, .bid")


# ----- API reference -------------------------------------------------------------------------


def test_api_reference_shows_every_route_and_every_code(page, live):
    page.goto("/docs")
    page.wait_for_selector("#codes")
    document = live.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            section = page.locator(f"#{route['operationId']}")
            assert section.locator(".path").inner_text() == path
            assert section.locator(".method").inner_text() == method.upper()
    codes = page.locator("#codes tbody tr").evaluate_all("rows => rows.map(row => row.id)")
    assert codes == list(PROBLEMS)


def test_type_of_a_problem_links_to_its_code(page, live):
    page.goto(live.http.get("/nowhere").json()["type"])
    page.wait_for_selector("#codes")
    row = page.locator("#NOT_FOUND")
    sync_api.expect(row).to_be_in_viewport()


def test_try_it_form_sends_a_request(page):
    page.goto("/docs#create_gasless_order")
    section = page.locator("#create_gasless_order")
    section.locator("summary", has_text="Try it").click()
    section.get_by_role("button", name="Send").click()
    sync_api.expect(section.locator(".result")).to_have_text("200 application/json")
    assert '"success": true' in section.locator("pre").inner_text()


def test_search_shows_routes_and_codes_with_all_words(page):
    page.goto("/docs")
    page.wait_for_selector("#codes")
    search = page.get_by_role("searchbox")
    search.fill("clientOrderId gasless price")
    shown = page.locator("section.route:visible").evaluate_all("all => all.map(each => each.id)")
    assert "create_gasless_order" in shown
    assert "get_health" not in shown
    assert 0 < len(shown) < 10
    assert page.locator("#contents a:visible").count() >= len(shown)
    search.fill("POST_ONLY_WOULD_CROSS post-only")
    assert page.locator("#POST_ONLY_WOULD_CROSS").is_visible()
    search.fill("no such word anywhere")
    assert page.locator("section.route:visible").count() == 0
    sync_api.expect(page.locator("#contents [role=status]")).to_have_text("0 found")
    search.fill("")
    assert page.locator("section.route:visible").count() > 30


def test_command_for_curl_does_what_the_form_does(page, live):
    page.goto("/docs#create_gasless_order")
    section = page.locator("#create_gasless_order")
    section.locator("summary", has_text="Try it").click()
    order = json.loads(section.locator("textarea").input_value())
    quote = {**order, "clientOrderId": "it's mine"}
    section.locator("textarea").fill(json.dumps(quote))
    section.get_by_role("button", name="Copy as curl").click()
    sync_api.expect(section.locator("pre")).to_contain_text("curl -X POST")
    command = section.locator("pre").inner_text()
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["success"] is True
    found = live.http.get("/api/orders/client:it's mine", params={"maker": order["maker"]})
    assert found.status_code == 200


# ----- dashboard -----------------------------------------------------------------------------


def test_invalid_token_shows_an_error_and_no_dashboard(page):
    page.goto("/admin")
    page.fill("#token", "wrong")
    result = page.locator("#gate-result")
    page.click("text=Sign in")
    sync_api.expect(result).to_contain_text("INVALID_TOKEN")
    assert page.locator("#board").is_hidden()


def test_api_key_is_created_used_and_deactivated(board, live):
    name = "key of a bot"
    board.click("text=Create a key")
    board.fill("#key-form [name=name]", name)
    board.fill("#key-form [name=makers]", MAKER)
    board.click("#key-form button")
    board.wait_for_selector("#new-key:visible")
    key = {"X-API-Key": board.locator("#new-key").inner_text()}
    assert live.http.get("/api/orders", headers=key).status_code == 200
    row = board.locator("#keys tbody tr", has_text=name)
    row.locator("text=Deactivate").click()
    sync_api.expect(row.locator(".badge")).to_have_text("deactivated")
    assert live.http.get("/api/orders", headers=key).json()["code"] == "INVALID_API_KEY"


def test_market_is_opened_halted_and_resolved(board, live):
    name, tokens = "storm", ("7001", "7002")
    create_market(board, name, tokens)
    row = board.locator(f"#market-{name}")
    assert "Is <b>this</b> a question?" in row.inner_text()
    assert place(live, name, tokens[0], 40).status_code == 200
    row.locator("text=Halt").click()
    sync_api.expect(row.locator(".badge")).to_have_text("halted")
    assert place(live, name, tokens[0], 40).json()["code"] == "MARKET_NOT_OPEN"
    row.locator("button", has_text="Open").click()
    sync_api.expect(row.locator(".badge")).to_have_text("open")
    row.locator("text=YES won").click()
    sync_api.expect(row.locator(".badge")).to_have_text("resolved: yes")
    assert live.http.get(f"/api/markets/{name}").json()["outcome"] == "yes"
    assert row.locator("button").count() == 0


def test_displayed_book_follows_changes(board, live):
    name, token = "followed", "8001"
    create_market(board, name, (token, f"{token}0"))
    board.click(f"#market-{name} a")
    sync_api.expect(board.locator("#book-state")).to_contain_text("live")
    order = place(live, name, token, 40).json()["orderId"]
    level, orders = bids(board), board.locator("#book-orders")
    sync_api.expect(level).to_have_text(["3", "40¢"])
    sync_api.expect(orders).to_have_text("1 order to buy, 0 orders to sell")
    place(live, name, token, 41)
    sync_api.expect(level).to_have_text(["3", "41¢", "3", "40¢"])
    sync_api.expect(orders).to_have_text("2 orders to buy, 0 orders to sell")
    live.http.request("DELETE", f"/api/orders/{order}", json={"maker": MAKER})
    sync_api.expect(level).to_have_text(["3", "41¢"])
    sync_api.expect(orders).to_have_text("1 order to buy, 0 orders to sell")
    sell = {"maker": MAKER, "marketId": name, "tokenId": token, "side": 1, "price": 41}
    live.http.post("/api/orders/gasless", json={**sell, "size": "1000000000000000000"})
    sync_api.expect(level).to_have_text(["2", "41¢"])
    sync_api.expect(orders).to_have_text("1 order to buy, 0 orders to sell")
    sync_api.expect(board.locator("#tape tbody tr")).to_contain_text(["sold ▼ 41¢1"])


def test_dashboard_shows_the_activity_of_the_demo(board):
    numbers = board.locator("#engine-commandSeq")
    before = numbers.inner_text()
    sync_api.expect(numbers).not_to_have_text(before)
    assert board.locator("#ladder .bid:not(:empty)").count() >= 3
    assert board.locator("#ladder .ask:not(:empty)").count() >= 3
    assert board.locator("#tape tbody tr").count() >= 1


def test_limits_are_changed(board, live):
    board.fill("[name='engine.ordersMax']", "499")
    board.click("#limits-form button")
    sync_api.expect(board.locator("#limits-result")).to_have_text("Limits changed")
    assert live.http.get("/api/admin/limits", headers=authority_of(live)).json()["engine"] == {
        "ordersMax": 499,
        "tradesMax": 1000,
        "batchMax": 20,
        "finishedMax": 10000,
    }


def test_sign_out_forgets_the_token(board):
    board.reload()
    board.wait_for_selector(f"#market-{MARKET}")
    board.click("text=Sign out")
    board.wait_for_selector("#gate:visible")
    assert board.evaluate("sessionStorage.length") == 0


# ----- chain ---------------------------------------------------------------------------------


def test_dashboard_shows_the_chain_and_its_operations(board, live):
    sync_api.expect(board.locator("#chain-state")).to_have_text("ready")
    result = live.http.post("/api/gasless/faucet", json={"user": MAKER}).json()
    row = board.locator("#operations tr", has_text="faucet").first
    sync_api.expect(row).to_contain_text("done")
    sync_api.expect(row).to_contain_text(f"faucetTx confirmed {result['faucetTx'][:12]}")
    board.select_option("#operations-status", "stuck")
    sync_api.expect(board.locator("#operations")).to_have_text("No operations.")


def test_market_with_only_a_question_is_prepared_on_the_chain(board, live):
    name = "asked"
    board.click("text=Open a market")
    board.fill("[name=marketId]", name)
    board.fill("[name=question]", "Is this a question?")
    board.click("#market-form button")
    board.wait_for_selector(f"#market-{name}")
    assert live.http.get(f"/api/markets/{name}").json()["conditionId"]


def test_dashboard_shows_the_settlement_of_a_trade(board, server):
    row = board.locator("#market-rain")
    sync_api.expect(row).to_contain_text("settles")
    row.locator("a").click()
    sync_api.expect(board.locator("#book-state")).to_contain_text("live")
    server.trade(server.trader(), server.trader(), 41)
    trade = board.locator("#tape tbody tr").first
    sync_api.expect(trade).to_contain_text("bought ▲ 41¢1settled")
    server.until_settled()
    _, tx = next(iter(server.settlements_by_id().values()))
    sync_api.expect(trade).to_have_attribute("title", f"direct; settlement settled {tx}")
    board.reload()
    board.wait_for_selector("#market-rain")
    board.click("#market-rain a")
    sync_api.expect(trade).to_contain_text("41¢1settled")
    sync_api.expect(board.locator("#settlement-difference")).to_have_text("0")
    operation = board.locator("#operations tr", has_text="settle").first
    sync_api.expect(operation).to_contain_text(f"settleTx confirmed {tx[:12]}")


def test_market_that_settles_is_opened_with_the_checkbox(board, server):
    name = "settled"
    board.click("text=Open a market")
    board.fill("[name=marketId]", name)
    board.fill("[name=question]", "Is this a question?")
    board.check("[name=settles]")
    board.click("#market-form button")
    sync_api.expect(board.locator(f"#market-{name}")).to_contain_text("settles")
    assert server.market(name)["settlement"] == "chain"
