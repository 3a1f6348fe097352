"""The trading half of the page: wallets, orders and funds, on a real server and chain."""

import json
import re
from contextlib import contextmanager

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from clob.order import Side
from clob.signing import SignedSetNonce, sign
from clob_server.chain.eth.accounts import WALLETS
from tests.chain.chain_server import wait_until
from tests.chain.settling_server import SETTINGS, SettlingServer
from tests.chain.wallets import UNIT, read
from tests.server.api.conftest import SECRET
from tests.server.api.makers import good, operator_token
from tests.server.browser.ui_pages import (
    CHROMIUM,
    LIVE,
    WAIT_MS,
    findings,
    launched,
    needs_axe,
    opened,
    sync_api,
)
from tests.server.live import live_server
from tests.signings import DOMAIN, EXCHANGE

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
expect = sync_api.expect
REJECTED = ("Failed to load resource",)
"""Console message of the browser about a request that the server rejected."""
TABS_MAX = 80
NARROW = {"width": 390, "height": 844}

PROVIDER = """
  const listeners = {};
  window.provider = {
    request: async ({ method, params }) => {
      const answer = await window.answer(method, JSON.stringify(params ?? []));
      const { result, error } = JSON.parse(answer);
      if (error) throw Object.assign(new Error(error.message), { code: error.code });
      return result;
    },
    on: (event, listener) => { listeners[event] = listener; },
    emit: (event, value) => listeners[event](value),
  };
  const announce = () => dispatchEvent(new CustomEvent("eip6963:announceProvider",
    { detail: { info: { uuid: "1", name: "Test Extension" }, provider: window.provider } }));
  addEventListener("eip6963:requestProvider", announce);
"""
FOCUSED = "() => document.activeElement.ariaLabel || document.activeElement.innerText || ''"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("eth")
    folder = tmp_path_factory.mktemp("trade") / "data"
    with live_server(folder, chain="embedded", **SETTINGS) as live:
        yield SettlingServer(live).set_up()


@pytest.fixture(scope="module")
def browser():
    with launched() as made:
        yield made


class Extension:
    """A wallet extension: answers a page as EIP-1193 asks, with a key that is not the page's."""

    def __init__(self, key, server=None, chain_id=31337):
        self.account = Account.from_key(key)
        self.server = server
        self.chain_id = chain_id
        self.declines = False
        self.asked = []

    def answer(self, method, text):
        self.asked.append(method)
        try:
            return json.dumps({"result": self.result(method, json.loads(text))})
        except PermissionError:
            return json.dumps({"error": {"code": 4001, "message": "User rejected"}})

    def result(self, method, params):
        if method == "eth_requestAccounts":
            return [self.account.address.lower()]
        if method == "eth_chainId":
            return hex(self.chain_id)
        if method == "wallet_switchEthereumChain":
            self.chain_id = int(params[0]["chainId"], 16)
            return None
        if self.declines:
            raise PermissionError
        if method == "eth_signTypedData_v4":
            assert params[0] == self.account.address.lower()
            message = encode_typed_data(full_message=json.loads(params[1]))
            return f"0x{bytes(self.account.sign_message(message).signature).hex()}"
        return self.server.ask(method, *params)


@contextmanager
def with_extension(browser, url, route, extension):
    """Open the page at a route in a browser with a wallet extension."""
    context = browser.new_context(base_url=url)
    context.expose_function("answer", extension.answer)
    context.add_init_script(PROVIDER)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"/ui{route}")
    try:
        page.click("text=Connect a wallet")
        page.click("clob-wallet >> text=Test Extension")
        yield page
    finally:
        context.close()


def agree(page, verb, *texts):
    """Check the words of a question before a signature, and agree."""
    dialog = page.locator("dialog[open]")
    for text in texts:
        expect(dialog).to_contain_text(text)
    dialog.locator("button", has_text=verb).click()


def fund(page, button, text, verb="", *words):
    """Use a button of the funds and wait for its result."""
    page.locator("clob-funds button", has_text=re.compile(f"^{button}$")).click()
    if verb:
        agree(page, verb, *words)
    expect(page.locator("clob-funds .result[role=status]").last).to_have_text(text)


def approve(page, spender, asset):
    label = f"Approve the {spender} for {asset}"
    fund(page, label, "The approval is in a block.", "Send", f"Allow the {spender}")
    expect(page.locator("clob-funds button", has_text=f"{label}: approved")).to_be_visible()


def holds(page, name, text):
    entry = page.locator("clob-funds .balances div").filter(
        has=page.locator(f"dt:text-is('{name}')")
    )
    expect(entry.locator("dd")).to_have_text(text)


def available(page, text):
    """Wait until the server knows what the exchange may take of an asset."""
    expect(page.locator("#balances-table")).to_contain_text(text)


def order(page, side, price, size, kind="limit"):
    """Write an order."""
    page.locator("clob-ticket").get_by_label(side, exact=True).check()
    page.select_option("clob-ticket select[name=kind]", kind)
    page.fill("#ticket-price", str(price))
    page.fill("#ticket-size", str(size))


def buy(server, market, price, size):
    """Place a buy of another trader."""
    trader = server.trader(20, tokens=False)
    yes = int(market["yesTokenId"])
    body = server.signed(trader, Side.BUY, price, size * UNIT, token=yes)
    body["marketId"] = market["marketId"]
    answers = []

    def has_funds():
        answers.append(server.http.post("/api/orders", json=body))
        return answers[-1].json().get("code") != "INSUFFICIENT_BALANCE"

    wait_until(has_funds)
    assert good(answers[-1])["matched"]


def collateral_of(server, wallet):
    return read(server, server.contracts.collateral, "balanceOf(address)", wallet)


def open_orders(server, wallet, market):
    query = {"maker": wallet, "marketId": market}
    return good(server.http.get("/api/orders", params=query))


def test_a_day_with_the_mouse(browser, server):
    wallet, name = WALLETS[0].address, "mouse"
    server.open_settling(name)
    market = server.market(name)
    with opened(browser, server.live.url, f"#/m/{name}", REJECTED) as page:
        page.wait_for_selector(LIVE)
        page.click("clob-ticket >> text=Wallet 1")
        expect(page.locator("#wallet-button")).to_contain_text("Wallet 1")
        fund(page, "Faucet", "100 of collateral arrived from the faucet.")
        expect(page.locator("clob-funds .steps li")).not_to_have_count(0)
        page.fill("#funds-amount", "40")
        fund(page, "Split", "40 of collateral were split into YES and NO tokens.", "Sign",
             "take 40 of my collateral", server.operator)  # fmt: skip
        holds(page, "YES", "40")
        approve(page, "exchange", "collateral")
        approve(page, "exchange", "tokens")
        approve(page, "operator", "tokens")
        available(page, "YES40")

        order(page, "Sell", 60, 10)
        expect(page.locator("clob-ticket .preview")).to_contain_text(
            "10 rest in the book at 60 cents"
        )
        page.click("clob-ticket .submit")
        agree(page, "Sign", "Sell 10 YES of", "at 60 cents, total 6")
        expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
        expect(page.locator("clob-own h3").first).to_have_text("Open orders: 1")
        buy(server, market, 60, 4)
        fills = page.locator("#fills-table tbody tr")
        expect(fills).to_have_count(1)
        expect(fills).to_contain_text("settled 0x")
        expect(page.locator("#orders-table tbody tr")).to_contain_text("60¢6")
        page.click("clob-own >> text=Reduce")
        page.fill("#reduce-to", "5.5")
        page.click("dialog[open] button.main")
        agree(page, "Sign", "to 5.5; it keeps its place")
        expect(page.locator("#orders-table tbody tr")).to_contain_text("60¢5.5")
        page.locator("#orders-table button", has_text="Cancel").click()
        agree(page, "Sign", "Cancel the order to sell 5.5 YES at 60 cents")
        expect(page.locator("clob-own h3").first).to_have_text("Open orders: 0")
        assert page.evaluate(FOCUSED) == "Open orders: 0"
        assert open_orders(server, wallet, name) == []

        page.fill("#funds-amount", "10")
        fund(page, "Merge", "10 YES and NO tokens were merged into collateral.")
        holds(page, "YES", "26")
        server.resolve(name, "yes")
        page.reload()
        fund(page, "Redeem", "Tokens were redeemed for 26 of collateral.")
        holds(page, "Collateral", "98.4")
        expect(page.locator("#positions-table")).to_contain_text("YES")
    assert collateral_of(server, wallet) == 984 * UNIT // 10


def test_funds_show_no_buttons_before_the_wallet_is_known(browser, server):
    name = "early"
    server.open_settling(name)
    held = []
    with opened(browser, server.live.url, f"#/m/{name}") as page:
        page.click("clob-ticket >> text=Wallet 1")
        faucet = page.locator("clob-funds button", has_text="Faucet")
        expect(faucet).to_be_visible()
        page.route(f"{server.live.url}/", lambda route: held.append(route))
        with page.expect_request(f"{server.live.url}/"):
            page.reload()
        expect(page.locator("clob-funds h3").first).to_be_visible()
        expect(faucet).to_be_hidden()
        held[0].continue_()
        expect(faucet).to_be_visible()


def tab_to(page, text):
    """Move the focus with Tab to the element with a name."""
    for _ in range(TABS_MAX):
        if page.evaluate(FOCUSED).startswith(text):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {text}")


def press(page, text, *more):
    tab_to(page, text)
    page.keyboard.press("Enter")
    for verb in more:
        expect(page.locator("dialog[open]")).to_be_visible()
        assert page.evaluate(FOCUSED) == verb
        page.keyboard.press("Enter")


def test_a_day_with_the_keyboard_alone(browser, server):
    wallet, name = WALLETS[1].address, "keyboard"
    server.open_settling(name)
    market = server.market(name)
    done = "clob-funds .result[role=status]"
    with opened(
        browser, server.live.url, f"#/m/{name}", REJECTED, viewport={"width": 390, "height": 844}
    ) as page:
        page.wait_for_selector(LIVE)
        page.wait_for_selector("clob-ticket >> text=Wallet 2")
        press(page, "Wallet 2")
        press(page, "Faucet")
        expect(page.locator(done).last).to_have_text("100 of collateral arrived from the faucet.")
        press(page, "Split", "Sign")
        expect(page.locator(done).last).to_contain_text("10 of collateral were split")
        assert page.evaluate(FOCUSED) == "Split"
        for label in ("exchange for collateral", "exchange for tokens", "operator for tokens"):
            press(page, f"Approve the {label}", "Send")
            expect(page.locator(done).last).to_have_text("The approval is in a block.")
        available(page, "YES10")

        page.keyboard.press("s")
        page.keyboard.type("4")
        page.keyboard.press("Shift+Tab")
        page.keyboard.type("70")
        page.keyboard.press("Enter")
        expect(page.locator("dialog[open]")).to_contain_text("Sell 4 YES of")
        page.keyboard.press("Enter")
        expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
        buy(server, market, 70, 1)
        expect(page.locator("#fills-table tbody tr")).to_have_count(1)

        tab_to(page, "Keys")
        page.keyboard.press("+")
        expect(page.locator("#ticket-price")).to_have_value("71")
        page.keyboard.press("?")
        expect(page.locator("dialog[open]")).to_contain_text("cancel all own orders")
        page.keyboard.press("Escape")
        page.keyboard.press("c")
        expect(page.locator("dialog[open]")).to_contain_text("Cancel all my orders in")
        page.keyboard.press("Enter")
        expect(page.locator("clob-own .result").first).to_have_text("1 order is cancelled.")
        assert open_orders(server, wallet, name) == []

        for _ in range(TABS_MAX):
            if page.evaluate("document.activeElement.id") == "funds-amount":
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Control+A")
        page.keyboard.type("3")
        press(page, "Merge")
        expect(page.locator(done).last).to_contain_text("3 YES and NO tokens were merged")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390
        server.resolve(name, "no")
        page.reload()
        page.wait_for_selector("clob-funds >> text=Redeem")
        press(page, "Redeem")
        expect(page.locator(done).last).to_have_text("Tokens were redeemed for 7 of collateral.")
    assert collateral_of(server, wallet) == 1007 * UNIT // 10


@pytest.fixture(scope="module")
def plain(server):
    """A market whose trades need no cover."""
    question = "Will \u202eit\u202c rain?\nReally?"
    server.admin.admin_create_market("plain", {"question": question})
    return "#/m/plain"


def test_wallet_extension_signs_on_the_right_chain(browser, server, plain):
    extension = Extension(f"0x{7:064x}", server, chain_id=1)
    address = extension.account.address
    with with_extension(browser, server.live.url, plain, extension) as page:
        order(page, "Buy", 20, 3)
        page.click("clob-ticket .submit")
        agree(page, "Sign", "Buy 3 YES")
        expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
        assert "wallet_switchEthereumChain" in extension.asked
        assert extension.chain_id == 31337
        [placed] = open_orders(server, address, "plain")
        assert (placed["price"], placed["size"]) == (20, str(3 * UNIT))
        extension.declines = True
        page.locator("#orders-table button", has_text="Cancel").click()
        agree(page, "Sign", "Cancel the order")
        expect(page.locator("clob-own .result").first).to_have_text("The wallet declined.")
        assert len(open_orders(server, address, "plain")) == 1
        other = Account.from_key(f"0x{8:064x}").address
        page.evaluate("address => window.provider.emit('accountsChanged', [address])", other)
        expect(page.locator("clob-own h3").first).to_have_text("Open orders: 0")
        page.evaluate("window.provider.emit('accountsChanged', [])")
        expect(page.locator("#wallet-button")).to_have_text("Connect a wallet")


def test_words_of_a_signature_are_free_of_hostile_characters(browser, server, plain):
    with opened(browser, server.live.url, plain, REJECTED) as page:
        page.click("clob-ticket >> text=Wallet 3")
        order(page, "Buy", 21, "0.000000000000000123")
        words = page.locator("clob-ticket .words").text_content()
        assert (
            "Buy 0.000000000000000123 YES of “\u2068Will  it  rain? Really?\u2069” at 21 cents"
            in words
        )
        assert "\u202e" not in words


def test_declined_question_sends_nothing(browser, server, plain):
    with opened(browser, server.live.url, plain, REJECTED) as page:
        page.click("clob-ticket >> text=Wallet 3")
        order(page, "Buy", 22, 1)
        page.click("clob-ticket .submit")
        page.keyboard.press("Escape")
        expect(page.locator("clob-ticket .result")).to_have_text("You declined; nothing was sent.")
        assert open_orders(server, WALLETS[2].address, "plain") == []


def test_order_whose_answer_was_lost_is_sent_again_and_counts_once(browser, server, plain):
    sent = []

    def lose_the_first(route):
        sent.append(route.request.post_data)
        if len(sent) > 1:
            return route.continue_()
        route.fetch()
        return route.abort()

    with opened(browser, server.live.url, plain, REJECTED) as page:
        page.click("clob-ticket >> text=Wallet 3")
        page.route("**/api/orders", lose_the_first)
        order(page, "Buy", 23, 1)
        page.click("clob-ticket .submit")
        agree(page, "Sign", "Buy 1 YES")
        expect(page.locator("clob-ticket .result")).to_contain_text("the result is unknown")
        page.click("text=Send the same order again")
        expect(page.locator("clob-ticket .result")).to_contain_text("was accepted before")
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert len(open_orders(server, WALLETS[2].address, "plain")) == 1


def test_rejection_is_shown_beside_its_field(browser, server):
    with opened(browser, server.live.url, "#/m/rain", REJECTED) as page:
        page.click("clob-ticket >> text=Wallet 3")
        order(page, "Buy", 100, "ten")
        error = page.locator("#ticket-price-error")
        expect(error).to_have_text("must be whole cents from 1 to 99")
        expect(page.locator("#ticket-size-error")).to_contain_text("must be a number above 0")
        page.fill("#ticket-price", "30")
        page.fill("#ticket-size", "1000000")
        expect(page.locator("#ticket-size-error")).to_contain_text(
            "needs 300,000 of collateral; 0 available"
        )
        assert page.locator("#ticket-size").get_attribute("aria-invalid") == "true"


def test_order_after_a_raised_nonce_is_accepted_the_second_time(browser, server, plain):
    wallet = WALLETS[5]
    raised = sign(SignedSetNonce(maker=wallet.address, nonce=7), DOMAIN, wallet.private_key)
    good(server.http.post("/api/orders/nonce", json=raised.to_json()))
    with opened(browser, server.live.url, plain, REJECTED) as page:
        page.click("#wallet-button")
        page.click("clob-wallet >> text=Wallet 6")
        order(page, "Buy", 12, 1)
        for text in ("nonce must be at least 7", "accepted: open"):
            page.click("clob-ticket .submit")
            agree(page, "Sign", "Buy 1 YES")
            expect(page.locator("clob-ticket .result")).to_contain_text(text)


MISTAKES = {
    "clob-ticket .result": (
        "import('/web/app.js').then(({ app }) => { app.wallet.sign = () => null.length; })"
    ),
    "#notice": "setTimeout(() => null.length)",
    "#notice >> visible=true": "Promise.resolve().then(() => null.length) && null",
}
"""Mistakes of a page by the place that reports them."""


@pytest.mark.parametrize("place", MISTAKES)
def test_mistake_of_the_page_is_named_as_one_and_fails_the_tests(browser, server, plain, place):
    shown = []

    def make_a_mistake():
        with opened(browser, server.live.url, plain, REJECTED) as page:
            page.click("clob-ticket >> text=Wallet 3")
            order(page, "Buy", 22, 1)
            page.evaluate(MISTAKES[place])
            page.click("clob-ticket .submit")
            if place.startswith("#"):
                agree(page, "Decline")
            text = re.compile("^The page failed: .*null.*[.] Reload the page[.]$")
            expect(page.locator(place)).to_have_text(text)
            shown.append(place)

    with pytest.raises(AssertionError, match="TypeError"):
        make_a_mistake()
    assert shown == [place]


def test_wallet_on_a_chain_without_the_contracts_is_named(browser, server):
    class Elsewhere(Extension):
        def result(self, method, params):
            return "0x" if method == "eth_call" else super().result(method, params)

    extension = Elsewhere(f"0x{9:064x}", server)
    with with_extension(browser, server.live.url, "#/m/rain", extension) as page:
        expect(page.locator("clob-funds .result.bad").first).to_have_text(
            "The wallet does not find the contracts of this exchange on its chain."
        )


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_of_a_trader_have_no_findings(browser, server, plain, scheme):
    with opened(browser, server.live.url, plain, REJECTED, color_scheme=scheme) as page:
        page.click("#wallet-button")
        page.wait_for_selector("clob-wallet >> text=Wallet 5")
        assert findings(page) == []
        page.click("clob-wallet >> text=Wallet 5")
        order(page, "Buy", 13, 1)
        page.click("clob-ticket .submit")
        page.wait_for_selector("dialog[open]")
        assert findings(page) == []
        agree(page, "Sign", "Buy 1 YES")
        expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
        page.locator("#orders-table button", has_text="Reduce").first.click()
        assert findings(page) == []
        page.keyboard.press("Escape")
        page.fill("#ticket-size", "ten")
        page.wait_for_selector("#ticket-size-error:not(:empty)")
        assert findings(page) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [("market", "accepted: cancelled"), ("IOC", "accepted: cancelled"), ("FOK", "only 0 of")],
)
def test_orders_that_do_not_rest(browser, server, plain, kind, text):
    with opened(browser, server.live.url, plain, REJECTED) as page:
        page.click("clob-ticket >> text=Wallet 2")
        order(page, "Sell", 98, 1, kind)
        page.click("clob-ticket .submit")
        agree(page, "Sign", "Sell 1 YES")
        result = page.locator("clob-ticket .result")
        expect(result).to_contain_text(text)
    assert open_orders(server, WALLETS[1].address, "plain") == []


def test_expiring_order_is_by_the_time_of_the_server(browser, server, plain):
    with opened(browser, server.live.url, plain, REJECTED) as page:
        page.clock.install(time=0)  # the clock of the browser says 1970
        page.reload()
        page.click("clob-ticket >> text=Wallet 2")
        order(page, "Buy", 11, 1)
        page.select_option("clob-ticket select[name=expiry]", "10")
        now_s = server.http.get("/api/time").json()["nowS"]
        page.click("clob-ticket .submit")
        agree(page, "Sign", "valid until 20")
        expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
    [placed] = open_orders(server, WALLETS[1].address, "plain")
    assert now_s + 600 <= placed["expiration"] <= now_s + 700


def test_production_says_what_it_needs(browser, tmp_path):
    domain = {
        "eip712_name": DOMAIN.name,
        "eip712_version": DOMAIN.version,
        "chain_id": DOMAIN.chain_id,
        "verifying_contract": EXCHANGE,
    }
    settings = {"environment": "production", "jwt_secret": SECRET, **domain}
    with live_server(tmp_path, rate_limits=False, **settings) as live:
        terms = {"question": "Is it?", "yesTokenId": "11", "noTokenId": "12"}
        live.client(token=operator_token(SECRET)).admin_create_market("p", terms)
        extension = Extension(f"0x{9:064x}")
        with with_extension(browser, live.url, "#/m/p", extension) as page:
            expect(page.locator("clob-key")).to_contain_text("an API key with the scope read")
            order(page, "Buy", 40, 2)
            page.click("clob-ticket .submit")
            agree(page, "Sign", "Buy 2 YES")
            expect(page.locator("clob-ticket .result")).to_contain_text("accepted: open")
            page.click("#wallet-button")
            assert page.locator("clob-wallet >> text=Development").count() == 0
