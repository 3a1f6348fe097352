"""The trading page in Firefox, driven over WebDriver BiDi, which Firefox offers by itself."""

import contextlib
import json
import re
import shutil
import subprocess
import threading

import pytest
from websockets.sync.client import connect

from clob_server.chain.eth.accounts import WALLETS
from tests.server.api.makers import SELL, ApiClient, Maker, MarketIds, good
from tests.server.live import live_server
from tests.server.meta.operators import authority_of

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
WAIT_S = 60
END_S = 60
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(FIREFOX is None, reason="not here: firefox is not installed"),
]
UNTIL = """(async () => {
  const end = performance.now() + 60000;
  let seen;
  do {
    const shown = [...document.querySelectorAll(%s)].filter((each) => each.checkVisibility());
    seen = shown.map((each) => each.value || each.innerText);
    const found = shown.find((each, index) => seen[index].includes(%s));
    if (found) {
      (%s)(found);
      return "";
    }
    await new Promise((done) => setTimeout(done, 50));
  } while (performance.now() < end);
  return `only ${JSON.stringify(seen)}`;
})()"""
"""Wait until a visible element has a text, and use it; return the texts seen if none has it."""


class Firefox:
    """A headless Firefox with one page.

    Args:
        socket: the connection of WebDriver BiDi.
    """

    def __init__(self, socket):
        self._socket = socket
        self._last = 0
        self.errors = []
        """Errors that pages logged."""
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        [context] = self.ask("browsingContext.getTree")["contexts"]
        self._context = context["context"]

    def ask(self, method, **params):
        """Send a command and return its result."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=2 * WAIT_S))
            if message["type"] == "event" and message["params"].get("level") == "error":
                self.errors.append(message["params"]["text"])
            if message.get("id") == self._last:
                assert message["type"] == "success", message
                return message["result"]

    def goto(self, url):
        self.ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def run(self, script):
        """Return the value of an expression, a text."""
        target = {"context": self._context}
        answer = self.ask("script.evaluate", expression=script, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def until(self, selector, text="", use="() => {}"):
        """Wait until a visible element has a text, and call a function with it."""
        assert self.run(UNTIL % (json.dumps(selector), json.dumps(text), use)) == "", selector

    def click(self, selector, text=""):
        """Click on the first visible element with a text, once there is one."""
        self.until(selector, text, "(found) => found.click()")

    def write(self, selector, text):
        """Replace the text of a field by the keyboard."""
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keys", "actions": keys}]
        self.ask("input.performActions", context=self._context, actions=actions)


@contextlib.contextmanager
def launched(folder):
    """Run Firefox within the block."""
    command = [FIREFOX, "--headless", "--no-remote", "--remote-debugging-port", "0"]
    process = subprocess.Popen(
        [*command, "--profile", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    reader = None
    try:
        lines = (re.search(r"BiDi listening on (\S+)", line) for line in process.stderr)
        url = next(found[1] for found in lines if found)
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        with connect(f"{url}/session", max_size=None, origin=None) as socket:
            yield Firefox(socket)
            socket.send(json.dumps({"id": 0, "method": "browser.close", "params": {}}))
            process.wait(END_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(END_S)
        if reader is not None:
            reader.join()
        process.stderr.close()


@pytest.fixture
def live(tmp_path):
    with live_server(tmp_path / "data", rate_limits=False) as live:
        yield live


def test_page_shows_a_market_and_trades_with_a_development_wallet_in_firefox(live, tmp_path):
    market, bob, api = MarketIds(), Maker(), ApiClient(live.http)
    body = {"marketId": market.id, "question": "Will it rain?"}
    body |= {"yesTokenId": str(market.yes), "noTokenId": str(market.no)}
    good(live.http.post("/api/admin/markets", json=body, headers=authority_of(live)))
    api.gasless(bob.gasless(market, SELL, price=60))
    (tmp_path / "profile").mkdir()
    with launched(tmp_path / "profile") as page:
        page.goto(f"{live.url}/ui")
        page.until("clob-connection .badge.open", "live")
        page.click("clob-markets a", "Will it rain?")
        page.until("clob-market h2", "Will it rain?")
        page.until(".ladder-row.is-ask .ask", "1")
        page.until("#ticket-price", "60")

        page.click("clob-ticket .invitation button", "Wallet 1")
        page.until("#wallet-button", "Wallet 1")
        page.write("#ticket-price", "55")
        page.write("#ticket-size", "3")
        page.until("clob-ticket .preview", "3 rest in the book at 55 cents")
        page.click("clob-ticket .submit")
        page.until("dialog[open] .words", "Buy 3 YES of")
        page.click("dialog[open] button", "Sign")
        page.until("clob-ticket .result", "accepted: open")
        page.until("#orders-table tbody tr", "55")
        page.until(".ladder-row.is-mine .mine", "buy 3")

        api.gasless(bob.gasless(market, SELL, price=55))
        page.until("#fills-table tbody tr", "buy YES")
        page.until("clob-tape tbody tr", "55")
        page.until("clob-own h3", "Open orders: 1")
        page.click("#orders-table button", "Cancel")
        page.until("dialog[open] .words", "Cancel the order to buy 2 YES at 55 cents")
        page.click("dialog[open] button", "Sign")
        page.until("clob-own h3", "Open orders: 0")
        assert page.errors == []
    orders = api.orders(maker=WALLETS[0].address, status="cancelled", minSeq=1)
    assert [(each["price"], each["filledTokens"]) for each in orders] == [(55, str(10**18))]
