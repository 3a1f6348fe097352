"""The trading page in production: an API key for the trader's own data, on a real chain."""

import re

import pytest
from eth_account import Account

from clob.order import Side
from clob.signing import Domain, SignedOrder, sign
from tests.chain.chain_server import production_settings, wait_until
from tests.chain.chains import Chain
from tests.chain.nodes import running, start_devchain
from tests.chain.settling_server import SettlingServer
from tests.chain.test_deploy import OPERATOR, OWNER, deployed
from tests.chain.wallets import UNIT
from tests.chain.workers import working
from tests.server.api.conftest import SECRET
from tests.server.api.makers import good, operator_token
from tests.server.browser.test_ui_trade import (
    FOCUSED,
    Extension,
    agree,
    available,
    fund,
    holds,
    order,
    tab_to,
    with_extension,
)
from tests.server.browser.ui_pages import (
    CHROMIUM,
    LIVE,
    findings,
    launched,
    needs_axe,
    sync_api,
)
from tests.server.live import live_server

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
expect = sync_api.expect
CHAIN_ID = 137
AUTHORITY = {"Authorization": f"Bearer {operator_token(SECRET)}"}
MARKET = "rain"
ROUTE = f"#/m/{MARKET}"
UNKNOWN = f"clob_{'0' * 12}_{'0' * 64}"
STORED = "() => [Object.values(sessionStorage), Object.values(localStorage), location.href]"
VALUES = "() => [...document.querySelectorAll('input, textarea')].map((each) => each.value)"


class Production(SettlingServer):
    """A server of the production environment; ``trader`` of it has funds."""

    def __init__(self, live, url, address, key):
        super().__init__(live, url)
        self.domain = Domain("clob", "1", CHAIN_ID, address)
        self.rich = self.user(key)

    def change(self, method, path, body=None):
        return good(self.http.request(method, f"/api/admin{path}", json=body, headers=AUTHORITY))

    def open_settling(self, name, **terms):
        body = {"marketId": name, "question": f"Will it {name}?", "settles": True, **terms}
        self.change("POST", "/markets", body)
        wait_until(lambda: self.market(name)["chain"] == "prepared")

    def key_for(self, maker, *scopes):
        """Create an API key; return it and its id."""
        body = {"name": "a trader", "scopes": list(scopes), "makers": [maker]}
        made = self.change("POST", "/keys", body)
        return made["key"], made["keyId"]

    def end(self, key_id):
        """Deactivate a key."""
        self.change("DELETE", f"/keys/{key_id}")

    def sell(self, price, size):
        """Sell YES tokens of the rich trader."""
        yes = self.tokens(MARKET)[0]
        terms = {"side": Side.SELL, "price": price, "size": size * UNIT, "token_id": yes}
        made = SignedOrder.from_price_size(
            **terms, maker=self.rich.address, salt=price, signature_type=1
        )
        body = sign(made, self.domain, self.rich.key).to_json()
        return good(self.http.post("/api/orders", json={**body, "marketId": MARKET}))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("eth")
    folder = tmp_path_factory.mktemp("production")
    key = folder / "operator.key"
    key.write_text(OPERATOR.private_key)
    key.chmod(0o600)
    with running(start_devchain(folder / "devchain", chain_id=CHAIN_ID)) as node:
        chain = Chain(node, folder / "worker")
        with working(chain.folder, node.url, chain_id=CHAIN_ID, exchange="") as worker:
            contracts = worker.ready().addresses
            rich = chain.user(worker, units=90)
        options = ("--environment", "production", "--chain-id", CHAIN_ID)
        options += ("--operator-key-file", key, "--owner", OWNER)
        address = deployed(chain, folder / "data", *options)
        with live_server(
            folder / "data",
            **production_settings(node.url, CHAIN_ID, key, contracts, address),
            jwt_secret=SECRET,
            rate_limits=False,
            settle_every_s=0.05,
        ) as live:
            server = Production(live, node.url, address, rich.key)
            server.open_settling(MARKET)
            own, _ = server.key_for(rich.address, "trade")
            body = {"user": rich.address, "amount": str(5 * UNIT)}
            names = ("conditionId", "yesTokenId", "noTokenId")
            body |= {name: server.market(MARKET)[name] for name in names}
            headers = {"X-API-Key": own, "Prefer": "wait=60"}
            good(live.http.post("/api/gasless/split", json=body, headers=headers))
            server.allow(rich)
            server.allow_tokens(rich, True)
            yield server


@pytest.fixture(scope="module")
def browser(server):  # the command that deploys needs the event loop first
    with launched() as made:
        yield made


@pytest.fixture
def trader(server):
    """A wallet with 10 of collateral that allows the operator and the exchange to take it."""
    user = server.trader(0, allows=False)
    server.rich.send_collateral(user.address, 10 * UNIT)
    user.approve_collateral()
    user.approve_tokens()
    server.allow(user)
    server.allow_tokens(user, True)
    return user


def visit(browser, server, user):
    """Open the market with the extension of a user."""
    extension = Extension(user.key, server, CHAIN_ID)
    return with_extension(browser, server.live.url, ROUTE, extension)


def enter(page, key):
    page.fill("#api-key", key)
    page.click("clob-key >> text=Use the key")


def problem(page, *texts):
    """Wait for the problem of a key; own data must not show."""
    for text in texts:
        expect(page.locator("#key-problem")).to_contain_text(text)
    expect(page.locator("#api-key")).to_be_visible()
    expect(page.locator("clob-own h3").first).to_have_text("Your orders")
    expect(page.locator("clob-own .own")).to_be_hidden()


def heading(page, text):
    expect(page.locator("clob-own h3").first).to_have_text(text)


def test_wrong_keys_are_explained_and_none_shows_data_of_another(browser, server, trader):
    other = Account.from_key(f"0x{77:064x}").address
    of_other, _ = server.key_for(other, "read", "trade")
    without_read, _ = server.key_for(trader.address, "trade")
    ended, key_id = server.key_for(trader.address, "read")
    server.end(key_id)
    with visit(browser, server, trader) as page:
        problem(page, "An API key is needed")
        expect(page.locator("clob-key")).to_contain_text("The operator of this exchange creates it")
        enter(page, "two words")
        problem(page, "one text without spaces")
        assert page.evaluate("document.activeElement.id") == "api-key"
        for key, *texts in (
            (UNKNOWN, "This API key is not valid", "not a key of this server"),
            (ended, "This API key is not valid", "was deactivated"),
            (of_other, "This API key is for another wallet", "is not bound to maker"),
            (without_read, "This API key may not do that", "must have the scope read"),
        ):
            enter(page, key)
            problem(page, *texts)
            assert key not in page.content()
            assert key not in page.evaluate(VALUES)
        page.click("clob-key >> text=Forget the key")
        problem(page, "An API key is needed")


def test_key_shows_own_orders_fills_positions_and_balances_until_it_ends(browser, server, trader):
    key, key_id = server.key_for(trader.address, "read")
    asked = []
    with visit(browser, server, trader) as page:
        page.on("request", lambda request: asked.append(request))
        problem(page, "An API key is needed")
        enter(page, key)
        heading(page, "Open orders: 0")
        expect(page.locator("clob-key")).to_contain_text("An API key is stored for this tab.")
        expect(page.locator("#api-key")).to_be_hidden()
        available(page, "Collateral10")

        order(page, "Buy", 40, 5)
        page.click("clob-ticket .submit")
        agree(page, "Sign", "Buy 5 YES")
        heading(page, "Open orders: 1")
        server.sell(40, 2)
        expect(page.locator("#orders-table tbody tr")).to_contain_text("40¢3")
        expect(page.locator("#fills-table tbody tr")).to_contain_text("settled 0x")
        expect(page.locator("#positions-table tbody tr")).to_contain_text("YES2")
        available(page, "YES2")

        page.reload()
        page.click("text=Connect a wallet")
        page.click("clob-wallet >> text=Test Extension")
        heading(page, "Open orders: 1")
        expect(page.locator("#fills-table tbody tr")).to_have_count(1)
        in_session, in_local, url = page.evaluate(STORED)
        assert key in in_session
        assert key not in str(in_local) + url + page.content() + str(page.evaluate(VALUES))
        assert not [each.url for each in asked if key in each.url]
        with_key = {re.sub(r".*(/api/\w+).*", r"\1", each.url)
                    for each in asked if each.headers.get("x-api-key") == key}  # fmt: skip
        assert with_key == {"/api/fills", "/api/accounts"}

        page.locator("#orders-table button", has_text="Cancel").click()
        agree(page, "Sign", "Cancel the order to buy 3 YES")
        heading(page, "Open orders: 0")
        server.end(key_id)
        problem(page, "This API key is not valid", "was deactivated")
        page.click("clob-key >> text=Forget the key")
        problem(page, "An API key is needed")
        assert page.evaluate(STORED)[:2] == [[], []]


def test_forgotten_key_ends_the_subscription(browser, server, trader):
    key, _ = server.key_for(trader.address, "read")
    extension = Extension(trader.key, server, CHAIN_ID)
    received, sent = [], []

    def watch(socket):
        socket.on("framereceived", lambda frame: received.append(frame))
        socket.on("framesent", lambda frame: sent.append(frame))

    with with_extension(browser, server.live.url, "", extension) as page:
        page.on("websocket", watch)
        page.goto(f"/ui{ROUTE}")
        page.reload()
        page.click("text=Connect a wallet")
        page.click("clob-wallet >> text=Test Extension")
        enter(page, key)
        heading(page, "Open orders: 0")
        page.click("clob-key >> text=Forget the key")
        problem(page, "An API key is needed")
        count = len(received)
        order(page, "Buy", 3, 1)
        page.click("clob-ticket .submit")
        agree(page, "Sign", "Buy 1 YES")
        expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
        page.wait_for_selector(".ladder-row.is-bid[data-price='3']")
        assert not [each for each in received[count:] if '"channel":"user"' in each]
        assert not [each for each in received if key in each]
        with_key = [each for each in sent if key in each]
        assert with_key
        assert all('"channel":"user"' in each for each in with_key)


def test_funds_need_the_scope_trade_in_production(browser, server, trader):
    reader, _ = server.key_for(trader.address, "read")
    both, _ = server.key_for(trader.address, "read", "trade")
    result = "clob-funds .result[role=status]"
    with visit(browser, server, trader) as page:
        holds(page, "Collateral", "10")
        assert page.locator("clob-funds button", has_text="Faucet").is_hidden()
        enter(page, reader)
        heading(page, "Open orders: 0")
        page.fill("#funds-amount", "4")
        page.locator("clob-funds button", has_text=re.compile("^Split$")).click()
        expect(page.locator(result).last).to_contain_text("must have the scope trade")
        expect(page.locator("#key-problem")).to_contain_text("This API key may not do that")
        heading(page, "Open orders: 0")  # the key may still read
        enter(page, both)
        fund(page, "Split", "4 of collateral were split into YES and NO tokens.")
        holds(page, "YES", "4")
        page.fill("#funds-amount", "1")
        fund(page, "Merge", "1 YES and NO tokens were merged into collateral.")
        holds(page, "YES", "3")
        available(page, "YES3")


@needs_axe
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_key_is_entered_by_keyboard_and_its_form_has_no_findings(
    browser, server, trader, scheme, width
):
    key, _ = server.key_for(trader.address, "read")
    extension = Extension(trader.key, server, CHAIN_ID)
    with with_extension(browser, server.live.url, ROUTE, extension) as page:
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=scheme)
        problem(page, "An API key is needed")
        assert findings(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.focus("#ticket-size")
        for _ in range(40):
            if page.evaluate("document.activeElement.id") == "api-key":
                break
            page.keyboard.press("Tab")
        page.keyboard.type(UNKNOWN)
        page.keyboard.press("Enter")
        problem(page, "not a key of this server")
        assert findings(page) == []
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("document.activeElement.id") == "api-key"
        page.keyboard.type(key)
        tab_to(page, "Use the key")
        page.keyboard.press("Enter")
        heading(page, "Open orders: 0")
        assert page.evaluate(FOCUSED) == "Forget the key"
        assert findings(page) == []
        page.keyboard.press("Enter")
        problem(page, "An API key is needed")
        assert page.evaluate("document.activeElement.id") == "api-key"


def test_page_without_a_wallet_asks_for_no_key(browser, server):
    context = browser.new_context(base_url=server.live.url)
    page = context.new_page()
    page.goto(f"/ui{ROUTE}")
    page.wait_for_selector(LIVE)
    expect(page.locator("clob-own")).to_contain_text("Your account needs a wallet")
    assert page.locator("#api-key").is_hidden()
    context.close()
